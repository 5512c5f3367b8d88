"""One run of one policy under the judge of policies."""

from __future__ import annotations

import copy
from collections.abc import Iterable, Sequence

from attrs import define, field, frozen

from evictable.model.calls import Key, Raised
from evictable.model.orders import ORDERS
from evictable.model.policy import PolicyModel
from evictable.model.policy_calls import EVICT, INSERT, SET_REF_CNT, Evicted, PolicyCall, PolicyOutcome, PolicyState
from evictable.specs.callers.disciplines import CARELESS
from evictable.specs.policy_level.judge import Judgement, PolicyBreach, judge
from evictable.specs.subjects.policies import PolicyKind, PolicySubject


@frozen
class PolicyRecord:
    """A call, what it came to, and what was seen afterwards."""

    call: PolicyCall
    outcome: PolicyOutcome
    state: PolicyState


@define
class PolicySession:
    """A fresh policy and the model beside it. After the first broken law nothing more may be called."""

    kind: PolicyKind
    capacity: int
    profile: str
    discipline: str
    keys: tuple[Key, ...]
    """All that are ever named; each is looked up after every call."""
    subject: PolicySubject
    model: PolicyModel
    seen: PolicyState
    records: list[PolicyRecord] = field(factory=list)
    breach: PolicyBreach | None = None
    judgement: Judgement | None = None
    """Of the latest call."""
    treated: list[tuple[str, str]] = field(factory=list)
    """The mismatches of the calls so far, each with what became of it."""
    earlier: tuple[PolicyCall, ...] = ()
    """Calls that were made of the policy, and judged, before the session."""

    @classmethod
    def begin(
        cls, kind: PolicyKind, capacity: int, profile: str, discipline: str, keys: Sequence[Key]
    ) -> PolicySession:
        subject = kind.make(capacity)
        model = PolicyModel(ORDERS[profile].of_capacity(capacity))
        return cls(kind, capacity, profile, discipline, tuple(keys), subject, model, subject.look(keys))

    @property
    def calls(self) -> tuple[PolicyCall, ...]:
        return (*self.earlier, *(record.call for record in self.records))

    def allows(self, call: PolicyCall) -> bool:
        """Whether the caller may make it, the slots suffice, and the policy offers it."""
        model = self.model
        if call.name == INSERT and len(model.blocks) >= self.capacity and call.key not in model.blocks:
            return False
        if call.name not in self.subject.offers or not model.possible(call):
            return False
        return self.discipline == CARELESS or model.careful(call)

    def step(self, call: PolicyCall) -> None:
        """Make ``call`` and judge it; look at `breach` afterwards."""
        if self.breach is not None:
            raise RuntimeError("the session has ended: a law is broken")
        before, model = self.seen, self.model
        outcome = self.subject.perform(call)
        self.seen = self.subject.look(self.keys)
        self.records.append(PolicyRecord(call, outcome, self.seen))
        self.judgement = found = judge(model, self.kind.documented, call, outcome, before, self.seen)
        self.model, self.breach = found.model, found.breach
        if found.mismatch is not None and self.breach is None and call.name != SET_REF_CNT:
            self.breach = self._aftermath()
        if found.mismatch is not None:
            spoilt = found.treatment if self.breach is None else f"breaks {self.breach.law}"
            self.treated.append((found.mismatch.name, spoilt))

    def _aftermath(self) -> PolicyBreach | None:
        """What the call that did not match has spoilt out of sight, seen by giving everything up on a policy apart.

        Keys whose mark is not what it should be stay out of it.
        """
        subject = replayed(self.kind, self.capacity, self.calls)
        model = copy.deepcopy(self.model)
        protected = tuple(sorted(model.owed, key=str))
        for _ in range(self.capacity + 1):
            call = PolicyCall(EVICT, protected, n=1)
            before = subject.look(self.keys)
            outcome = subject.perform(call)
            found = judge(model, self.kind.documented, call, outcome, before, subject.look(self.keys))
            if found.breach is not None:
                mismatch = None if self.judgement is None else self.judgement.mismatch
                law = "all-or-nothing" if isinstance(self.records[-1].outcome, Raised) else "mismatch"
                observed = f"afterwards, of {call}: {found.breach.observed}"
                return PolicyBreach(law, found.breach.expected, observed, mismatch)
            if outcome is None:
                return None
            model = found.model
        return None


def replayed(kind: PolicyKind, capacity: int, calls: Iterable[PolicyCall]) -> PolicySubject:
    """A fresh policy after ``calls``, whatever they came to."""
    subject = kind.make(capacity)
    for call in calls:
        subject.perform(call)
    return subject


def consequence(session: PolicySession) -> str | None:
    """What becomes of evictions after the call that ended ``session`` by not matching, in words."""
    if session.breach is None or session.breach.mismatch is None:
        return None
    subject = replayed(session.kind, session.capacity, session.calls)
    ref_cnt = {key: count for key, (_, count) in subject.look(session.keys).blocks.items()}
    for _ in range(session.capacity + 1):
        outcome = subject.perform(PolicyCall(EVICT, n=1))
        if isinstance(outcome, Raised):
            return f"evict(1) then {outcome}"
        if outcome is None:
            return None
        assert isinstance(outcome, Evicted)
        used = [key for key in outcome.keys if ref_cnt.get(key, 0) != 0]
        if used:
            return f"evict(1) then gives up {used[0]}, in use with ref_cnt {ref_cnt[used[0]]}"
        ref_cnt = {key: count for key, count in ref_cnt.items() if key not in outcome.keys}
    return None
