"""The predicates of the laws: each finds a difference exactly where an independent formula says so.

The texts of differences name the numbers, which CrossHair then has to try one by one, so they are small here.
"""

from __future__ import annotations

from typing import Any

from evictable.model import calls, laws
from evictable.model.calls import Call, Raised, Stored
from evictable.model.laws import Step
from evictable.model.manager import StorePlan
from evictable.model.snapshot import Snapshot
from evictable.specs.contracts.caches import GONE, ME, chosen


def shown(counts: dict[Any, int], **more: Any) -> Snapshot:
    """What is seen of the keys that are there, each in the slot of its number, of a manager seen in full."""
    there = {key: count for key, count in counts.items() if count != GONE}
    parts: dict[str, Any] = {
        "slots": {key: key for key in there},
        "evictable": [key for key, count in there.items() if count == 0],
        "full": True,
    }
    return Snapshot(ref_cnt=there, **(parts | more))


def step_of(call: Call, before: Snapshot, seen: Snapshot, **more: Any) -> Step:
    """A step from ``before`` to what is ``seen``, which is right unless ``more`` says otherwise."""
    parts: dict[str, Any] = {
        "misplaced": (),
        "may_refuse": False,
        "outcome": None,
        "expected": None,
        "after": seen,
        "order_before": None,
        "events_before": None,
        "order_after": None,
        "plan": None,
        "at_rest_before": False,
        "at_rest_after": False,
        "order_is_exact": True,
        "capacity": 3,
    }
    return Step(call=call, before=before, seen=seen, **(parts | more))


NOTHING = Snapshot(ref_cnt={}, slots={}, evictable=())
TOUCH = Call(calls.TOUCH, (), ME)


def evictable_iff_idle(a: int, b: int, a_listed: bool, b_listed: bool) -> bool:
    """
    pre: -2 <= a <= 2 and -2 <= b <= 2
    post: _
    """
    listed = [key for key, there in ((0, a_listed), (1, b_listed)) if there]
    found = laws.evictable_iff_idle(step_of(TOUCH, NOTHING, shown({0: a, 1: b}, evictable=listed)))
    return (found is None) == (a_listed == (a == 0) and b_listed == (b == 0))


def counters_agree(a: int, b: int, evictable: int, pending: int) -> bool:
    """
    pre: -1 <= a <= 1 and -1 <= b <= 1 and -1 <= evictable <= 3 and -1 <= pending <= 3
    post: _
    """
    seen = shown({0: a, 1: b}, num_evictable=evictable, num_pending=pending)
    found = laws.counters_agree(step_of(TOUCH, NOTHING, seen))
    return (found is None) == (evictable == (a == 0) + (b == 0) and pending == (a == -1) + (b == -1))


def slots_conserved(s: int, t: int, free: int) -> bool:
    """
    pre: 0 <= s <= 2 and 0 <= t <= 2 and 0 <= free <= 2
    post: _
    """
    seen = shown({0: 0, 1: 1}, slots={0: s, 1: t}, free=(free,), handed_out=3)
    found = laws.slots_conserved(step_of(TOUCH, NOTHING, seen))
    return (found is None) == (s != t and s != free and t != free)


def ref_floor(a: int, b: int) -> bool:
    """
    pre: -4 <= a <= 1 and -4 <= b <= 1
    post: _
    """
    found = laws.ref_floor(step_of(TOUCH, NOTHING, Snapshot(ref_cnt={0: a, 1: b}, slots=None, evictable=None)))
    return (found is None) == (a >= -1 and b >= -1)


def capacity(resident: int, slots: int) -> bool:
    """
    pre: 0 <= resident <= 4 and 1 <= slots <= 4
    post: _
    """
    seen = shown({}, num_resident=resident)
    found = laws.capacity(step_of(TOUCH, NOTHING, seen, capacity=slots))
    return (found is None) == (resident <= slots)


def legal_pins(before: int, after: int, times: int, bystander: int) -> bool:
    """
    pre: -2 <= before <= 2 and -2 <= after <= 4 and 0 <= times <= 2 and -1 <= bystander <= 1
    post: _
    """
    named = (0,) * chosen(times, 0, 1, 2)
    seen = shown({0: after, 1: bystander})
    step = step_of(Call(calls.PREPARE_LOAD, named, ME), shown({0: before, 1: 0}), seen)
    found = laws.legal_step(step)
    steps = after - before
    legal = steps == 0 or (before >= 0 and 0 < steps <= times)
    return (found is None) == (legal and bystander == 0)


def legal_ends_of_stores(before: int, after: int, success: bool, named: bool) -> bool:
    """
    pre: -2 <= before <= 1 and -2 <= after <= 1
    post: _
    """
    keys = (0,) if named else ()
    step = step_of(Call(calls.COMPLETE_STORE, keys, ME, success), shown({0: before}), shown({0: after}))
    found = laws.legal_step(step)
    ends = named and before == -1 and after == (0 if success else GONE)
    return (found is None) == (before == after or ends)


def legal_evictions(before: int, after: int, offered: bool) -> bool:
    """
    pre: -2 <= before <= 2 and -2 <= after <= 2
    post: _
    """
    step = step_of(
        Call(calls.PREPARE_STORE, (0,) if offered else (), ME), shown({0: before}), shown({0: after}), outcome=None
    )
    found = laws.legal_step(step)
    begun = offered and before == GONE and after == -1
    return (found is None) == (before == after or begun or (before == 0 and after == GONE))


def pinned_stays(count: int, gone: bool, moved: bool, completed: bool) -> bool:
    """
    pre: -1 <= count <= 2
    post: _
    """
    call = Call(calls.COMPLETE_STORE, (0,), ME) if completed else Call(calls.COMPLETE_LOAD, (0,), ME)
    seen = shown({} if gone else {0: count}, slots={} if gone else {0: 1 if moved else 0})
    found = laws.pinned_stays(step_of(call, shown({0: count}), seen))
    return (found is None) == (count == 0 or completed or not (gone or moved))


def offer_protected(a: int, b: int, offered: bool, evicted: bool) -> bool:
    """
    pre: -2 <= a <= 1 and -2 <= b <= 1
    post: _
    """
    offer = (0, 2) if offered else (2,)
    answer = Stored((2,), (2,), (0,) if evicted else ())
    seen = shown({0: GONE if evicted else a, 1: b})
    call = Call(calls.PREPARE_STORE, offer, ME)
    found = laws.offer_protected(step_of(call, shown({0: a, 1: b}), seen, outcome=answer))
    return (found is None) == (not (offered and evicted))


def evict_order(seen_first: int, right_first: int, exact: bool, two: bool) -> bool:
    """
    pre: 0 <= seen_first <= 2 and 0 <= right_first <= 2
    post: _
    """
    seen, right = chosen(seen_first, 0, 1, 2), chosen(right_first, 0, 1, 2)
    outcome = Stored((9,), (0,), (seen, 7) if two else (seen,))
    expected = Stored((9,), (0,), (7, right) if two else (right,))
    call = Call(calls.PREPARE_STORE, (9,), ME)
    found = laws.evict_order(step_of(call, NOTHING, NOTHING, outcome=outcome, expected=expected, order_is_exact=exact))
    return (found is None) == (not exact or seen == right)


def no_false_refusal(need: int, available: int, refused: bool) -> bool:
    """
    pre: 0 <= need <= 4 and 0 <= available <= 4
    post: _
    """
    plan = StorePlan((9,), need, available, None)
    call = Call(calls.PREPARE_STORE, (9,), ME)
    outcome = None if refused else Stored((9,), (0,), ())
    found = laws.no_false_refusal(step_of(call, NOTHING, NOTHING, outcome=outcome, plan=plan))
    return (found is None) == (not refused or need > available)


def all_or_nothing(before: int, after: int, counter: int, refused: bool) -> bool:
    """
    pre: -2 <= before <= 1 and -2 <= after <= 1 and 0 <= counter <= 2
    post: _
    """
    outcome = Raised("Refused") if refused else None
    seen = shown({0: after}, num_evictable=counter)
    was = shown({0: before}, num_evictable=1)
    found = laws.all_or_nothing(step_of(Call(calls.PREPARE_LOAD, (0,), ME), was, seen, outcome=outcome))
    return (found is None) == (not refused or (before == after and counter == 1))


def owner_completes(before: int, after: int, misplaced: bool, raised: bool) -> bool:
    """
    pre: -2 <= before <= 2 and -2 <= after <= 2
    post: _
    """
    step = step_of(
        Call(calls.COMPLETE_LOAD, (0,), ME),
        shown({0: before}),
        shown({0: after}),
        misplaced=(0,) if misplaced else (),
        outcome=Raised("Stale") if raised else None,
        after=shown({0: before}),
    )
    return (laws.owner_completes(step) is None) == (not misplaced or before == after)


def drains(a: int, b: int, at_rest: bool, lost: int) -> bool:
    """
    pre: -1 <= a <= 1 and -1 <= b <= 1 and 0 <= lost <= 1
    post: _
    """
    seen = shown({0: a, 1: b}, num_resident=2, num_free=1 - lost)
    call = Call(calls.COMPLETE_LOAD, (0,), ME)
    found = laws.drains(step_of(call, NOTHING, seen, at_rest_after=at_rest))
    return (found is None) == (not at_rest or (a == 0 and b == 0 and lost == 0))


def progress(new: int, slots: int, at_rest: bool, raised: bool) -> bool:
    """
    pre: 1 <= new <= 3 and 1 <= slots <= 4
    post: _
    """
    keys = (7, 8, 9)[: chosen(new - 1, 1, 2, 3)]
    step = step_of(
        Call(calls.PREPARE_STORE, keys, ME),
        NOTHING,
        NOTHING,
        plan=StorePlan(keys, 0, 0, None),
        outcome=Raised("Full") if raised else None,
        at_rest_before=at_rest,
        capacity=slots,
    )
    return (laws.progress(step) is None) == (not at_rest or new > slots)


def answers_of_lookups(said: int, right: int, may_refuse: bool, raised: bool) -> bool:
    """
    pre: 0 <= said <= 3 and 0 <= right <= 3
    post: _
    """
    words = (calls.MISS, calls.HIT, calls.HIT_PENDING, calls.RETRY)
    outcome = Raised("Error") if raised else chosen(said, *words)
    step = step_of(
        Call(calls.LOOKUP, (0,), ME),
        NOTHING,
        NOTHING,
        outcome=outcome,
        expected=chosen(right, *words),
        may_refuse=may_refuse,
    )
    return (laws.answer(step) is None) == (may_refuse if raised else said == right)
