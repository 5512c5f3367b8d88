"""The judge: holds what a subject did against what the model says is right, after every call.

It compares first, in time proportional to the keys that a call touches, and asks the laws only where
something differs: they say which one is broken, and how. A difference that no law explains would be a hole
in the laws, and is reported as such.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Sequence
from typing import Any

from attrs import define, evolve, field, frozen

from evictable.model import calls
from evictable.model.breach import Breach
from evictable.model.calls import Call, Drained, Gauges, Key, Outcome, Raised, Stored, describe
from evictable.model.exchanges import Exchange
from evictable.model.laws import LAWS, Difference, Law, Step, same_gauges
from evictable.model.lifecycle import IDLE, rows_between
from evictable.model.manager import Manager, StorePlan
from evictable.model.orders.any import AnyOrder
from evictable.model.snapshot import Snapshot, left_out
from evictable.model.tiers import TieredManager
from evictable.specs.errors import LawlessDifference

SMALL = 16
"""With so few slots every call is judged by a full snapshot."""
SCAN_EVERY = 4096
"""Larger ones are scanned in full once in so many calls, or in as many as they have slots, so that the scans
add the same to a call at every size."""

Look = Callable[[Collection[Key] | None], Snapshot | None]
"""Shows a subject's inside: of the named keys, or with ``None`` in full."""


@frozen
class Broken:
    """A law that a step broke, and how."""

    law: Law
    difference: Difference

    def __str__(self) -> str:
        return (
            f"{self.law.id}: {self.law.sentence}\n"
            f"  expected  {self.difference.expected}\n"
            f"  observed  {self.difference.observed}"
        )


@define
class Judge:
    """Judges one subject, from its construction on. After the first broken law it must not be used further."""

    model: Manager
    look: Look
    scan_every: int = SCAN_EVERY
    """Calls between two full looks, above `SMALL`; as many as there are slots, if those are more."""
    always_full: bool = False
    """Every look shows everything, whatever it asks for: so do the states of a trace."""
    restores_order: bool = True
    """After a fault the subject's order is as it was; else the call's own keys may have moved in it."""
    exercised: set[str] = field(factory=set)
    """Laws that some call has put to the test."""
    rows: Counter[str] | None = None
    """How often each row of the life cycle was taken, if somebody wants to know."""
    _order: Any = None
    _num_events: int | None = None
    _shown: bool = True
    _small: bool = field(init=False)
    _scan_every: int = field(init=False)
    _until_scan: int = field(init=False)
    _known: Snapshot | None = None
    """The model's full state after the last call, so that it is not built twice."""

    def __attrs_post_init__(self) -> None:
        self._small = self.always_full or self.model.capacity <= SMALL
        self._until_scan = self._scan_every = max(self.scan_every, self.model.capacity)
        first = self.look(None if self._small else ())
        self._shown = first is not None
        if first is not None:
            self._order, self._num_events = first.order, first.num_events

    def shows_everything(self, everything: bool) -> None:
        """Whether the next look is one at everything: of a recording, if the next entry has a state."""
        self._small = everything

    def observe(self, call: Call, outcome: Outcome, exchanges: Sequence[Exchange] = ()) -> tuple[Broken, ...]:
        """The laws that ``call``, having come to ``outcome``, broke; none if all is right.

        ``exchanges`` is what manager and tiers said to each other meanwhile.
        """
        model = self.model
        tiered = model if isinstance(model, TieredManager) else None
        full = self._is_full()
        touched = None if full else self._touched(call, outcome)
        if tiered is not None:
            touched = self._begin_with_tiers(tiered, call, exchanges, touched)
        before = self._known if full and self._known is not None else model.snapshot(touched)
        misplaced, at_rest_before = model.misplaced(call), model.at_rest

        taken = self._take(call, outcome, misplaced, tiered)
        if tiered is not None:
            taken.faults = (*taken.faults, *tiered.breaches)
            taken.right = taken.right and not tiered.breaches
            self.exercised |= tiered.exercised
        moved = _own_keys(call, taken.plan) if taken.struck and not self.restores_order else frozenset()

        seen = self.look(touched) if self._shown else None
        # With nothing to compare it to, and nothing wrong, the state is not read again.
        unread = seen is None and taken.right and self.rows is None
        after = before if unread else model.snapshot(touched)
        self._known = after if full and not unread else None
        refused = isinstance(outcome, Raised) or (outcome is None and call.name == calls.PREPARE_STORE)
        agrees = seen is None or seen.agrees_with(after)
        if refused and agrees and seen is not None:
            agrees = self._is_as_before(seen, moved, full=full)
        if self.rows is not None and before.ref_cnt != after.ref_cnt:
            self._count_rows(call, before, after)
        self._note(call, outcome, misplaced, taken.plan, seen, refused=refused, at_rest_before=at_rest_before)
        order_before, events_before = self._order if full else None, self._num_events
        self._num_events = None if seen is None else seen.num_events
        self._order = None if seen is None else seen.order
        if seen is not None and not full and not agrees:
            # A call may have changed more than it touches: the laws are asked of everything.
            seen, after = self.look(None), model.snapshot(None)
            before = _all_before(before, after, touched or (), taken.expected, seen)
        if taken.right and agrees:
            self._follow(call, outcome, struck=taken.struck)
            return ()
        return _broken(
            Step(
                call=call,
                misplaced=misplaced,
                may_refuse=taken.may_refuse,
                outcome=outcome,
                expected=taken.expected,
                before=before,
                after=after,
                seen=seen,
                order_before=order_before,
                events_before=events_before,
                order_after=model.order.state(),
                plan=taken.plan,
                at_rest_before=at_rest_before,
                at_rest_after=model.at_rest,
                order_is_exact=model.order.exact,
                may_have_moved=moved,
                capacity=model.capacity,
                tiers=0 if tiered is None else tiered.num_tiers,
                concerned=frozenset() if tiered is None else frozenset(tiered.concerned),
                breaches=tuple(taken.faults),
            )
        )

    def _is_full(self) -> bool:
        """Whether the next look is one at everything: always in small caches, now and then in others."""
        if self._small:
            return True
        self._until_scan -= 1
        if self._until_scan > 0:
            return False
        self._until_scan = self._scan_every
        return True

    def _begin_with_tiers(
        self, tiered: TieredManager, call: Call, exchanges: Sequence[Exchange], touched: Collection[Key] | None
    ) -> Collection[Key] | None:
        """Tell the model what manager and tiers said; answers what the call touches with that."""
        if touched is not None:
            touched = tiered.touched(exchanges).union(touched)
        if tiered.begin(exchanges):  # the subject did as much before the call itself
            self._known, self._num_events = None, None
            self._order = None if self._order is None else tiered.order.state()
        if call.name == calls.PREPARE_LOAD:
            tiered.loads_hits(call)
        return touched

    def _take(self, call: Call, outcome: Outcome, misplaced: tuple[int, ...], tiered: TieredManager | None) -> _Taken:
        """Let the model make the call, as ``outcome`` says where there is a choice."""
        struck = call.raises_in in calls.MANAGER_FAULTS
        if isinstance(outcome, Raised) or (struck and call.name == calls.PREPARE_STORE and outcome is None):
            return self._take_refusal(call, outcome, misplaced, tiered, struck=struck)
        if call.name == calls.TAKE_EVENTS:
            faults = self._drain(call, outcome)
            if tiered is not None:
                tiered.end()
            drained = outcome if isinstance(outcome, Drained) else Drained(())
            return _Taken(drained, outcome == drained and not faults, faults=faults)
        good = call if not misplaced else call.with_keys(_without(call.keys, misplaced))
        expected = self.model.perform(good, hint=outcome)
        right = outcome == expected or _alike(outcome, expected)
        if call.name != calls.PREPARE_STORE:
            return _Taken(expected, right)
        plan = self.model.plan
        return _Taken(expected, right and (outcome is not None or plan is None or not plan.has_room), plan)

    def _take_refusal(
        self,
        call: Call,
        outcome: Outcome,
        misplaced: tuple[int, ...],
        tiered: TieredManager | None,
        *,
        struck: bool,
    ) -> _Taken:
        """The call raised, or answered None under a fault, which is as good."""
        model = self.model
        may_refuse = struck or model.may_refuse(call)
        lost = isinstance(outcome, Raised) and outcome.type in calls.LOST
        excused = (bool(misplaced) or may_refuse) and not lost
        expected: Outcome = outcome if excused else describe_right(model, call)
        plan = None
        if call.name == calls.PREPARE_STORE:
            plan = model.plan_store(call.keys)
            model.statistics.certain = False
        if tiered is not None and not excused:
            tiered.claims()
        return _Taken(expected, excused, plan, may_refuse=may_refuse, struck=struck)

    def _is_as_before(self, seen: Snapshot, moved: frozenset[Key], *, full: bool) -> bool:
        """Whether a refusal left events and order alone, but for the keys that may have moved."""
        if self._num_events is not None and self._num_events != seen.num_events:
            return False
        order = self.model.order
        if not full or not order.exact or self._order is None:
            return True
        return left_out(seen.order, moved) in (left_out(self._order, moved), left_out(order.state(), moved))

    def _follow(self, call: Call, outcome: Outcome, *, struck: bool) -> None:
        """After a call that was right: what it left open, the subject decides."""
        model = self.model
        if struck and not self.restores_order:
            model.order = AnyOrder.in_place_of(model.order)  # where its own keys are now is not known
        if isinstance(outcome, Raised) and call.name == calls.PREPARE_STORE and model.admission.threshold > 1:
            # Whether an offer that raised was counted is left open.
            shown = self.look(None) if self._shown else None
            if shown is not None and shown.tracker is not None:
                model.admission.follow(shown.tracker)

    def _touched(self, call: Call, outcome: Outcome) -> Collection[Key]:
        if call.name == calls.RESET_CACHE:
            return ()
        if isinstance(outcome, Stored) and outcome.evicted_keys:
            return {*call.keys, *outcome.evicted_keys}
        return call.keys

    def _count_rows(self, call: Call, before: Snapshot, after: Snapshot) -> None:
        assert self.rows is not None
        for key in {**before.ref_cnt, **after.ref_cnt}:
            was, now = before.ref_cnt.get(key), after.ref_cnt.get(key)
            if was != now:
                self.rows.update(("reset",) if call.name == calls.RESET_CACHE else rows_between(was, now))

    def _drain(self, call: Call, outcome: Outcome) -> Sequence[Breach]:
        if not isinstance(outcome, Drained):
            return ()
        if not self.model.with_events:
            told = tuple(key for event in outcome.events for key in event.keys)
            return (Breach("events-once", "no event: events are off", describe(outcome), told),) if told else ()
        whole = call.limit is None or len(outcome.events) < call.limit
        return self.model.events.delivered(outcome.events, whole=whole)

    def _note(
        self,
        call: Call,
        outcome: Outcome,
        misplaced: tuple[int, ...],
        plan: StorePlan | None,
        seen: Snapshot | None,
        *,
        refused: bool,
        at_rest_before: bool,
    ) -> None:
        exercised = self.exercised
        exercised.add("answer")
        if seen is not None:
            exercised.update(_OF_EVERY_CALL)
            if seen.evictable is not None:
                exercised.add("evictable-iff-idle")
            if seen.num_evictable is not None or seen.num_pending is not None:
                exercised.add("counters-agree")
            if refused:
                exercised.add("all-or-nothing")
            if misplaced and call.name in calls.COMPLETIONS:
                exercised.add("owner-completes")
            if call.name in calls.COMPLETIONS and self.model.at_rest:
                exercised.add("drains")
        if plan is not None:
            if plan.need > 0 and isinstance(outcome, Stored):
                exercised.add("pinned-stays")
                if self.model.order.exact:
                    exercised.add("evict-order")
                if len(plan.new) < len(call.keys):
                    exercised.add("offer-protected")
            if outcome is None:
                exercised.add("no-false-refusal")
            elif at_rest_before and plan.new:
                exercised.add("progress")
        elif call.name == calls.TAKE_EVENTS and isinstance(outcome, Drained) and outcome.events:
            exercised.update(("events-replay", "events-once"))


@define
class _Taken:
    """What the model made of a call and its outcome."""

    expected: Outcome
    right: bool
    plan: StorePlan | None = None
    """Of `prepare_store`."""
    faults: Sequence[Breach] = ()
    may_refuse: bool = False
    struck: bool = False
    """Something was to raise in the call, which refused or raised."""


def _broken(step: Step) -> tuple[Broken, ...]:
    """The laws that a step breaks that is not right. Raises `LawlessDifference` if there is none."""
    broken = tuple(Broken(law, difference) for law in LAWS if (difference := law.check(step)) is not None)
    if not broken:
        raise LawlessDifference(
            f"{step.call} came to {describe(step.outcome)}; right: {describe(step.expected)}; "
            f"seen {step.seen}; expected {step.after}"
        )
    return broken


_OF_EVERY_CALL = ("slots-conserved", "ref-floor", "capacity", "legal-step")


def describe_right(model: Manager, call: Call) -> str:
    """What ``call`` should have come to, in words, without carrying it out."""
    if call.name == calls.LOOKUP:
        return model.presence(call.keys[0])
    if call.name == calls.PREPARE_STORE:
        plan = model.plan_store(call.keys)
        return "None" if plan.victims is None else f"store {list(plan.new)}, evicting {list(plan.victims)}"
    if model.misplaced(call) or model.may_refuse(call):
        return "an answer, or a refusal that changes nothing"
    return "an answer: every key is named as it may be"


def _all_before(
    before: Snapshot, after: Snapshot, touched: Collection[Key], expected: Outcome, seen: Snapshot | None
) -> Snapshot:
    """The model's full state before a call, from what it touched and the full state after it."""
    ref_cnt = {key: ref_cnt for key, ref_cnt in after.ref_cnt.items() if key not in touched} | dict(before.ref_cnt)
    slots = {key: slot for key, slot in (after.slots or {}).items() if key not in touched} | dict(before.slots or {})
    for key in expected.evicted_keys if isinstance(expected, Stored) else ():
        if key not in ref_cnt:  # the subject spared it
            ref_cnt[key] = IDLE
            if seen is not None and seen.slots is not None and key in seen.slots:
                slots[key] = seen.slots[key]
    return evolve(before, ref_cnt=ref_cnt, slots=slots, evictable=None, full=True)


def _own_keys(call: Call, plan: StorePlan | None) -> frozenset[Key]:
    """The keys that a call is about: those that it names and those that make room for them."""
    return frozenset(call.keys if plan is None or plan.victims is None else (*call.keys, *plan.victims))


def _without(keys: tuple[Key, ...], places: tuple[int, ...]) -> tuple[Key, ...]:
    left_out = set(places)
    return tuple(key for place, key in enumerate(keys) if place not in left_out)


def _alike(outcome: Outcome, expected: Outcome) -> bool:
    """Whether a different outcome is as good: another sequence of the same victims, a gauge that is not kept."""
    if isinstance(outcome, Stored) and isinstance(expected, Stored):
        return (
            outcome.keys_to_store == expected.keys_to_store
            and outcome.block_ids == expected.block_ids
            and len(outcome.evicted_keys) == len(expected.evicted_keys)
            and set(outcome.evicted_keys) == set(expected.evicted_keys)
        )
    if isinstance(outcome, Gauges):
        return same_gauges(outcome, expected)
    return False
