"""The reference manager keeps its own laws, refuses without a trace, and follows legal choices only."""

from __future__ import annotations

from collections.abc import Sequence
from copy import deepcopy

import pytest
from hypothesis import given
from hypothesis import strategies as st
from seeded import (
    DRAIN,
    RESET,
    STATS,
    announce,
    failed,
    finish,
    holding,
    load,
    loaded,
    lookup,
    offer,
    stored,
    touch,
)

from evictable.model import calls
from evictable.model.calls import HIT, HIT_PENDING, MISS, Call, Drained, Key, Loaded, Stored
from evictable.model.laws import LAWS, Step
from evictable.model.lifecycle import IllegalStep
from evictable.model.manager import Manager
from evictable.model.orders import ORDERS
from evictable.model.profiles import PROFILES, reference

KEYS = st.integers(0, 5)
REQUESTS = st.sampled_from(("r1", "r2"))
CALLS = st.one_of(
    st.builds(
        lambda make, request, keys: make(request, *keys),
        st.sampled_from((offer, stored, failed, load, loaded, touch)),
        REQUESTS,
        st.lists(KEYS, min_size=1, max_size=3),
    ),
    st.builds(lookup, REQUESTS, KEYS),
    st.builds(lambda make, request: make(request), st.sampled_from((announce, finish)), REQUESTS),
    st.sampled_from((RESET, STATS, DRAIN)),
)


def manager_after(*sequence: Call, capacity: int = 3, profile: str = "lru-evictable") -> Manager:
    manager = reference(profile, capacity)
    for call in sequence:
        manager.perform(call)
    return manager


def legal(manager: Manager, call: Call) -> Call:
    misplaced = manager.misplaced(call)
    return call.with_keys(tuple(key for place, key in enumerate(call.keys) if place not in misplaced))


def own_step(manager: Manager, call: Call) -> Step:
    """The step that ``call`` is, judged by what the manager shows of itself."""
    before, at_rest_before, order_before = manager.snapshot(), manager.at_rest, manager.order.state()
    outcome = manager.perform(call)
    after = manager.snapshot()
    after.free = tuple(slot for slot in range(manager.capacity) if slot not in manager.holders)
    after.handed_out = manager.capacity
    after.order = manager.order.state()
    return Step(
        call=call,
        misplaced=(),
        may_refuse=False,
        outcome=outcome,
        expected=outcome,
        before=before,
        after=after,
        seen=after,
        order_before=None if manager.order.by_request else order_before,
        events_before=None,
        order_after=manager.order.state(),
        plan=manager.plan,
        at_rest_before=at_rest_before,
        at_rest_after=manager.at_rest,
        order_is_exact=manager.order.exact,
        capacity=manager.capacity,
    )


@pytest.mark.parametrize("profile", PROFILES)
@given(script=st.lists(CALLS, max_size=30), capacity=st.integers(1, 4))
def test_it_keeps_every_law(profile: str, script: list[Call], capacity: int) -> None:
    manager = reference(profile, capacity)
    # By its rule ARC before 0.30 overlooks victims.
    excepted = {"no-false-refusal", "progress"} if profile == "arc-no-fallback" else set()
    for call in script:
        step = own_step(manager, legal(manager, call))
        broken = {law.id: law.check(step) for law in LAWS if law.id not in excepted}
        assert dict.fromkeys(broken) == broken


@given(script=st.lists(CALLS, max_size=30), keys=st.sets(KEYS))
def test_a_snapshot_of_some_keys_is_part_of_the_full_one(script: list[Call], keys: set[Key]) -> None:
    manager = reference("lru-evictable", 3)
    for call in script:
        manager.perform(legal(manager, call))
    full, named = manager.snapshot(), manager.snapshot(keys)
    assert {key: ref_cnt for key, ref_cnt in full.ref_cnt.items() if key in keys} == named.ref_cnt
    assert {key: slot for key, slot in (full.slots or {}).items() if key in keys} == named.slots
    assert set(full.evictable or ()) & keys == set(named.evictable or ())
    assert (full.num_resident, full.num_evictable, full.num_pending, full.num_free) == (
        named.num_resident,
        named.num_evictable,
        named.num_pending,
        named.num_free,
    )


@pytest.mark.parametrize("profile", [name for name, order in ORDERS.items() if not order.by_request])
@given(script=st.lists(CALLS, max_size=30), keys=st.lists(KEYS, min_size=2, max_size=6))
def test_a_refusal_changes_nothing(profile: str, script: list[Call], keys: list[Key]) -> None:
    manager = reference(profile, 2)
    for call in script:
        manager.perform(legal(manager, call))
    before, order, events = manager.snapshot(), manager.order.state(), deepcopy(manager.events)
    if manager.prepare_store(keys, "r1") is None:
        assert (before, order, events) == (manager.snapshot(), manager.order.state(), manager.events)


@pytest.mark.parametrize(
    "call", [load("r1", 9), loaded("r1", 1), stored("r1", 9), load("r1", 2), failed("r1", 1)], ids=str
)
def test_a_misplaced_key_is_nothing_it_could_perform(call: Call) -> None:
    manager = manager_after(*holding(1), offer("r1", 2))
    with pytest.raises((KeyError, IllegalStep)):
        manager.perform(call)


def test_an_unknown_call_is_refused() -> None:
    with pytest.raises(ValueError, match="unknown call 'fly'"):
        manager_after().perform(Call("fly"))


# --- answers --------------------------------------------------------------------------------------


def test_what_a_lookup_answers() -> None:
    manager = manager_after(*holding(1), offer("r1", 2), load("r2", 1))
    assert [HIT, HIT_PENDING, MISS] == [manager.lookup(key) for key in (1, 2, 3)]


def test_an_offer_takes_the_new_keys_alone_and_the_lowest_slots() -> None:
    manager = manager_after(*holding(1))
    assert Stored((2, 3), (1, 2), ()) == manager.perform(offer("r1", 2, 1, 3, 2))


def test_an_offer_without_a_new_key_needs_nothing() -> None:
    assert Stored((), (), ()) == manager_after(*holding(1, 2, 3)).perform(offer("r1", 3, 1))


def test_a_load_answers_a_slot_for_each_occurrence() -> None:
    assert Loaded((1, 0, 1)) == manager_after(*holding(1, 2)).perform(load("r1", 2, 1, 2))


@pytest.mark.parametrize(
    ("sequence", "usages"),
    [
        (holding(1, 2), (0.0, 0.0, 0.0)),
        ((*holding(1, 2), load("r1", 1)), (0.25, 0.0, 0.25)),
        ((*holding(1, 2), load("r1", 1, 1), offer("r2", 3, 4)), (0.75, 0.5, 0.25)),
    ],
)
def test_gauges_are_fractions_of_the_capacity(sequence: Sequence[Call], usages: tuple[float, float, float]) -> None:
    gauges = manager_after(*sequence, capacity=4).get_stats()
    assert usages == (gauges.usage, gauges.write_usage, gauges.read_usage)


def test_what_is_told_of_evictions_and_stores() -> None:
    manager = manager_after(*holding(1, 2), DRAIN, offer("r1", 3, 4))
    assert manager.events.undrained
    assert Drained(()) == manager.perform(DRAIN)


def test_with_events_off_nothing_is_to_be_told() -> None:
    manager = reference("lru-evictable", 2, events=False)
    for call in (*holding(1, 2), offer("r1", 3)):
        manager.perform(call)
    assert not manager.events.undrained


@pytest.mark.parametrize("key", [1, 2])
def test_a_failed_store_leaves_no_trace(key: Key) -> None:
    manager = manager_after(announce("r1"), offer("r1", 1, 2), failed("r1", key))
    assert (MISS, 1, 2) == (manager.lookup(key), manager.num_pending, manager.num_free)


def test_a_reset_forgets_everything_but_the_requests() -> None:
    manager = manager_after(*holding(1, 2), load("r2", 1), offer("r1", 3), RESET)
    fresh = reference("lru-evictable", 3)
    assert (fresh.snapshot(), True, {"r1", "r2"}) == (manager.snapshot(), manager.at_rest, manager.live)


def test_each_request_has_its_own_loads() -> None:
    manager = manager_after(*holding(1), load("r1", 1, 1), load("r2", 1), loaded("r1", 1))
    assert ({("r1", 1): 1, ("r2", 1): 1}, 2) == (manager.loads, manager.ref_cnt[1])


# --- plans and choices ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("keys", "new", "need", "victims"),
    [
        ((3,), (3,), 0, ()),
        ((3, 3, 4), (3, 4), 1, (1,)),
        ((3, 4, 1), (3, 4), 1, (2,)),
        ((3, 4, 5, 1), (3, 4, 5), 2, None),
        ((3, 4, 5, 6), (3, 4, 5, 6), 3, None),
    ],
)
def test_what_an_offer_needs(
    keys: tuple[Key, ...], new: tuple[Key, ...], need: int, victims: tuple[Key, ...] | None
) -> None:
    plan = manager_after(*holding(1, 2)).plan_store(keys)
    assert (new, need, victims, victims is not None) == (plan.new, plan.need, plan.victims, plan.has_room)


@pytest.mark.parametrize("block_ids", [(2,), (1,)])
def test_any_free_slots_may_be_taken(block_ids: tuple[int, ...]) -> None:
    manager = manager_after(*holding(1))
    assert Stored((2,), block_ids, ()) == manager.perform(offer("r1", 2), Stored((2,), block_ids, ()))
    assert block_ids == (manager.slots[2],)


@pytest.mark.parametrize("block_ids", [(0,), (3,), (-1,), (1, 2), ()])
def test_no_other_slot_may(block_ids: tuple[int, ...]) -> None:
    manager = manager_after(*holding(1))
    assert Stored((2,), (1,), ()) == manager.perform(offer("r1", 2), Stored((2,), block_ids, ()))


def test_no_slot_may_be_taken_twice() -> None:
    manager = manager_after(announce("r1"))
    assert Stored((1, 2), (0, 1), ()) == manager.perform(offer("r1", 1, 2), Stored((1, 2), (2, 2), ()))


@pytest.mark.parametrize(
    ("profile", "chosen", "gone"),
    [
        ("any", (2,), (2,)),
        ("lru-evictable", (2,), (1,)),
        ("any", (3,), (1,)),  # pinned
        ("any", (4,), (1,)),  # of the offer
        ("any", (1, 2), (1, 2)),  # more than needed: that is an order's affair
        ("lru-evictable", (1, 2), (1,)),
        ("any", (), (1,)),  # too few
        ("any", (9,), (1,)),  # absent
    ],
)
def test_which_victims_may_be_chosen(profile: str, chosen: tuple[Key, ...], gone: tuple[Key, ...]) -> None:
    manager = manager_after(*holding(1, 2, 3, 4), load("r1", 3), capacity=4, profile=profile)
    answer = manager.perform(offer("r2", 5, 4), Stored((5,), (0,), chosen))
    assert isinstance(answer, Stored)
    assert gone == answer.evicted_keys


def test_no_victim_counts_twice() -> None:
    manager = manager_after(*holding(1, 2), capacity=2, profile="any")
    assert Stored((3, 4), (0, 1), (1, 2)) == manager.perform(offer("r1", 3, 4), Stored((3, 4), (0, 1), (1, 1)))


# --- what a careful caller would not do -----------------------------------------------------------

BUSY = (*holding(1, 2), offer("r1", 3), load("r1", 1))


@pytest.mark.parametrize(
    ("call", "places"),
    [
        (offer("r1", 4, 4, 5), (1,)),
        (offer("r1", 1, 3, 4), ()),
        (load("r2", 1, 9, 3, 2), (1, 2)),
        (load("r2", 1, 1), ()),
        (stored("r1", 3), ()),
        (stored("r1", 3, 3), (1,)),
        (stored("r2", 3), (0,)),
        (failed("r1", 1, 9, 3), (0, 1)),
        (loaded("r1", 1), ()),
        (loaded("r1", 1, 1), (1,)),
        (loaded("r2", 1), (0,)),
        (loaded("r1", 9, 1, 2), (0, 2)),
        (touch("r1", 9, 9), ()),
        (lookup("r1", 9), ()),
        (RESET, ()),
    ],
    ids=str,
)
def test_which_keys_are_misplaced(call: Call, places: tuple[int, ...]) -> None:
    assert places == manager_after(*BUSY, capacity=5).misplaced(call)


@pytest.mark.parametrize(
    ("sequence", "call", "may"),
    [
        (BUSY, announce("r1"), True),
        (BUSY, announce("r9"), False),
        ((*BUSY, finish("r2")), announce("r2"), True),
        (BUSY, finish("r1"), False),
        (BUSY, finish("r9"), True),
        (BUSY, touch("r2", 1), False),
        (BUSY, touch("r2", 1, 1), True),
        (BUSY, lookup("r9", 1), True),
        ((*BUSY, finish("r2")), offer("r2", 4), True),
        ((*BUSY, finish("r1")), stored("r1", 3), False),
        (BUSY, load("r2", 1, 1), True),
        (BUSY, RESET, True),
        (holding(1), RESET, True),
        ((), RESET, False),
        (BUSY, STATS, False),
        (BUSY, DRAIN, False),
    ],
    ids=str,
)
def test_when_a_call_may_be_refused(sequence: Sequence[Call], call: Call, may: bool) -> None:
    assert may == manager_after(*sequence, capacity=5).may_refuse(call)


def test_what_is_left_out_takes_its_position_along() -> None:
    call = Call(calls.PREPARE_STORE, (1, 2, 3), "r1", positions=(10, None, 30))
    assert Call(calls.PREPARE_STORE, (3, 2), "r1", positions=(30, None)) == call.with_keys((3, 2))
