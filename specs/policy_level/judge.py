"""Holds one call of a policy, its outcome and what can be seen afterwards to the model.

Two measures for calls that do not match. A policy whose documentation says what it does with each (ours: the table of
`MISMATCHES`) is held to that. Any other may raise, with nothing changed, or act as if the call had not been made, or do
what ours tolerate: then no list is wrong. Everything else is reported of that very call, not of the eviction that
suffers from it later.
"""

from __future__ import annotations

import copy

from attrs import frozen

from evictable.model.calls import Raised
from evictable.model.policy import POLICY_LAWS, Mismatch, PolicyModel, Refused
from evictable.model.policy_calls import EVICT, INSERT, RESTORE, Evicted, PolicyCall, PolicyOutcome, PolicyState

TYPED = ("PolicyMisuse", "MismatchedMark")


@frozen
class PolicyBreach:
    """A broken law, by a call that does not match if there is a `mismatch`."""

    law: str
    expected: str
    observed: str
    mismatch: Mismatch | None = None

    @property
    def name(self) -> str:
        """What findings are told apart by: the law, and how the call did not match."""
        return self.law if self.mismatch is None else f"{self.law}/{self.mismatch.name}"

    @property
    def sentence(self) -> str:
        sentence = POLICY_LAWS[self.law]
        return sentence if self.mismatch is None else f"{sentence} ({self.mismatch.method}: {self.mismatch.sentence})"


@frozen
class Judgement:
    model: PolicyModel
    """Where the policy is now."""
    breach: PolicyBreach | None = None
    mismatch: Mismatch | None = None
    treatment: str = ""
    """What became of a call that did not match."""


def judge(
    model: PolicyModel,
    documented: bool,
    call: PolicyCall,
    outcome: PolicyOutcome,
    before: PolicyState,
    seen: PolicyState,
) -> Judgement:
    """``model`` is where the policy was, and is used up; ``before`` is what it showed then."""
    mismatch = model.mismatch(call)
    held = _Held(model, documented, call, outcome, before, seen, mismatch)
    found = held.raised(outcome) if isinstance(outcome, Raised) else held.answered()
    if found.breach is None or mismatch is None:
        return found
    breach = PolicyBreach(found.breach.law, found.breach.expected, found.breach.observed, mismatch)
    return Judgement(found.model, breach, mismatch, f"breaks {breach.law}")


@frozen
class _Held:
    model: PolicyModel
    documented: bool
    call: PolicyCall
    outcome: PolicyOutcome
    before: PolicyState
    seen: PolicyState
    mismatch: Mismatch | None

    def raised(self, outcome: Raised) -> Judgement:
        what = f"it {outcome}"
        if self.mismatch is None:
            return self._breach("answer", f"{self.call} is carried out", what)
        changed = difference(self.before, self.seen)
        if changed is not None:
            return self._breach("all-or-nothing", f"nothing changes: {changed[1]}", f"{what}, and {changed[2]}")
        if self.documented and not self.model.refuses(self.call):
            return self._breach("mismatch", self._tolerated(), what)
        if self.documented and outcome.type not in _errors_for(self.call):
            return self._breach("mismatch", f"{' or '.join(_errors_for(self.call))} is raised", what)
        return Judgement(self._refused(), None, self.mismatch, f"raises {outcome.type}")

    def answered(self) -> Judgement:
        mismatch = self.mismatch
        # A copy is dear: only where the model as it was before is asked again.
        asked_again = mismatch is not None or self.call.name == EVICT
        model = copy.deepcopy(self.model) if asked_again else self.model
        try:
            right = model.perform(self.call, self.outcome)
        except Refused as refusal:
            return self._accepted(str(refusal))
        breach = self._wrong_answer(right) or self._wrong_state(model)
        if breach is None:
            return Judgement(model, None, mismatch, self._tolerated())
        if mismatch is not None and not self.documented and self._ignored():
            return Judgement(self._refused(), None, mismatch, "ignored")
        return Judgement(model, breach)

    def _accepted(self, why: str) -> Judgement:
        """It did not raise where the model does."""
        answer = "it does not raise" if self.outcome is None else f"it {self.outcome}"
        if isinstance(self.outcome, Evicted):
            return self._evicted_past_the_used(answer)
        if self.documented:
            return self._breach("mismatch", f"{_errors_for(self.call)[-1]} is raised: {why}", answer)
        if self._ignored():
            return Judgement(self._refused(), None, self.mismatch, "ignored")
        _, expected, observed = difference(self.before, self.seen) or ("", why, answer)
        return self._breach("mismatch", f"it raises, or nothing changes: {expected}", observed)

    def _evicted_past_the_used(self, answer: str) -> Judgement:
        """A block was put to use without a mark. Raising is right, and so is passing over it."""
        if self.documented:
            return self._breach("mismatch", "PolicyMisuse is raised", answer)
        model = copy.deepcopy(self.model)
        past = PolicyCall(EVICT, (*self.call.keys, *model.in_use()), n=self.call.n)
        breach = self._wrong_answer(model.perform(past, self.outcome)) or self._wrong_state(model)
        return Judgement(model, breach, self.mismatch, "passes over it")

    def _tolerated(self) -> str:
        tolerance = None if self.mismatch is None else self.model.tolerance(self.mismatch)
        return "it is carried out: no victim is in use" if tolerance is None else tolerance

    def _ignored(self) -> bool:
        return self.outcome is None and difference(self.before, self.seen) is None

    def _refused(self) -> PolicyModel:
        """The model after a call that was not carried out: an offered block was made all the same."""
        model = copy.deepcopy(self.model)
        if self.call.name == INSERT and not self.call.again:
            model.made += 1
        return model

    def _wrong_answer(self, right: Evicted | None) -> PolicyBreach | None:
        got = self.outcome
        if got == right:
            return None
        if not isinstance(got, Evicted):
            if self._undecided(right):
                return None
            return PolicyBreach("no-false-refusal", f"it {right}", "it answers None")
        gone = [key for key in got.keys if self.model.ref_cnt.get(key, 0) != 0]
        if gone:
            counts = ", ".join(f"{key}: {self.model.ref_cnt[key]}" for key in gone)
            return PolicyBreach("pinned-stays", "blocks in use stay", f"it {got}, in use with ref_cnt {counts}")
        if set(got.keys).intersection(self.call.keys):
            return PolicyBreach("offer-protected", f"{list(self.call.keys)} stay", f"it {got}")
        real = {(key, self.model.blocks.get(key)) for key in got.keys}
        if len(got.blocks) != self.call.n or real != set(got.blocks):
            return PolicyBreach("answer", f"{self.call.n} resident keys, each with its block", f"it {got}")
        expected = "None: too few are evictable" if right is None else f"it {right}"
        return PolicyBreach("evict-order" if right is not None else "evictable-iff-idle", expected, f"it {got}")

    def _undecided(self, right: Evicted | None) -> bool:
        """No order is declared, and too few keys are beyond doubt: it need not see those that were never marked."""
        if self.model.order.exact or right is None:
            return False
        sure = self.model.marked - self.model.owed - set(self.call.keys)
        return len(sure) < self.call.n

    def _wrong_state(self, model: PolicyModel) -> PolicyBreach | None:
        right = model.state()
        if self.call.name == EVICT and self.outcome is None:
            changed = difference(self.before, self.seen)
            if changed is not None:
                return PolicyBreach("all-or-nothing", f"nothing changes: {changed[1]}", changed[2])
        found = difference(right, self.seen)
        return None if found is None else PolicyBreach(*found)

    def _breach(self, law: str, expected: str, observed: str) -> Judgement:
        return Judgement(self.model, PolicyBreach(law, expected, observed, self.mismatch))


def difference(right: PolicyState, seen: PolicyState) -> tuple[str, str, str] | None:
    """The first difference of two states, in what both show: the law, what is right, what is seen."""
    if right.blocks != seen.blocks:
        return _difference_of_blocks(right, seen)
    if (
        right.listed is not None
        and seen.listed is not None
        and sorted(right.listed, key=str) != sorted(seen.listed, key=str)
    ):
        return "evictable-iff-idle", f"evictable are {list(right.listed)}", f"evictable are {list(seen.listed)}"
    if right.order is not None and seen.order is not None and right.order != seen.order:
        return "evict-order", f"the order is {right.order}", f"the order is {seen.order}"
    return None


def _difference_of_blocks(right: PolicyState, seen: PolicyState) -> tuple[str, str, str]:
    for key in {**right.blocks, **seen.blocks}:
        one, other = right.blocks.get(key), seen.blocks.get(key)
        if one == other:
            continue
        if one is not None and other is not None and one[0] == other[0]:
            return "legal-step", f"the ref_cnt of {key} is {one[1]}", f"it is {other[1]}"
        return "answer", f"get({key}) finds {_block(one)}", f"it finds {_block(other)}"
    raise AssertionError("equal after all")


def _block(found: tuple[int, int] | None) -> str:
    return "nothing" if found is None else f"block {found[0]}" if found[0] > 0 else "a block that was never inserted"


def _errors_for(call: PolicyCall) -> tuple[str, ...]:
    return ("ValueError",) if call.name == RESTORE else TYPED
