"""Do faults strike where and when they are to, once, and leave no trace of themselves?"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterable
from typing import Any

import pytest
from attrs import evolve
from seeded import PROFILE, announce, holding, kind_of_manager, load, lookup, offer, touch

from evictable.impl import CPUOffloadingManager, ReqContext
from evictable.impl.policies.lru import LRUCachePolicy
from evictable.model import calls
from evictable.model.calls import Call, Raised
from evictable.specs.callers.disciplines import CONTRACT, HOSTILE
from evictable.specs.faults import Faults, InjectedFault, Strikes
from evictable.specs.search import CONFORMS, HYPOTHESIS, RANDOM, Search, Task
from evictable.specs.session import Session
from evictable.specs.subjects.base import Setup
from evictable.specs.subjects.builtin import BUILT_IN

REQUEST = ReqContext("r1")
OFFER = [b"a", b"b"]


def manager_and_faults() -> tuple[CPUOffloadingManager, Faults]:
    manager = CPUOffloadingManager(2, enable_events=True)
    return manager, Faults((manager,))


def offering(place: str | None, at: int = 1) -> Call:
    return Call(calls.PREPARE_STORE, (0, 1), "r1", raises_in=place, at=at)


@pytest.mark.parametrize(
    ("place", "at", "kind", "uses"),
    [
        ("policy.get", 1, InjectedFault, {"policy.get": 1}),
        ("policy.get", 2, InjectedFault, {"policy.get": 2}),
        ("slots.allocate", 1, MemoryError, {"policy.get": 2, "slots.allocate": 1}),
        ("slots.record", 2, MemoryError, {"policy.get": 2, "slots.allocate": 1, "slots.record": 2}),
    ],
)
def test_it_strikes_at_the_use_that_was_named(place: str, at: int, kind: type[Exception], uses: dict[str, int]) -> None:
    manager, faults = manager_and_faults()
    with faults.armed(offering(place, at)), pytest.raises(kind) as raised:
        manager.prepare_store(OFFER, REQUEST)
    assert f"{place} raises at use {at}, as the caller wants it" == str(raised.value)
    assert (True, Counter(uses)) == (faults.struck, faults.uses)


def test_it_strikes_once_and_what_takes_steps_back_is_spared() -> None:
    manager, faults = manager_and_faults()
    with faults.armed(offering("policy.insert", 2)), pytest.raises(InjectedFault):
        manager.prepare_store(OFFER, REQUEST)
    assert {"policy.get": 2, "slots.allocate": 1, "slots.record": 2, "policy.insert": 2} == faults.uses


def test_without_an_occasion_nothing_happens_and_the_uses_are_counted() -> None:
    manager, faults = manager_and_faults()
    with faults.armed(offering("policy.remove")):
        manager.prepare_store(OFFER, REQUEST)
    assert (False, 2) == (faults.struck, faults.uses["policy.insert"])


def test_afterwards_the_manager_is_made_of_what_it_was_made_of() -> None:
    manager, faults = manager_and_faults()
    policy, queue = manager._policy, manager.events
    with faults.armed(offering(None)):
        manager.prepare_store(OFFER, REQUEST)
        manager.complete_store(OFFER, REQUEST)
    assert policy is manager._policy
    assert queue is manager.events
    assert [] == [name for name in vars(manager) if name in ("_allocate_blocks", "_free_blocks")]
    assert (deque, [OFFER]) == (type(manager.events), [event.keys for event in manager.take_events()])


def test_a_queue_that_the_manager_has_exchanged_meanwhile_stays() -> None:
    class Detaching(CPUOffloadingManager):
        def take_events(self) -> Any:
            events, self.events = self.events, deque()
            return iter(events or ())

    manager = Detaching(2, enable_events=True)
    with Faults((manager,)).armed(Call(calls.TAKE_EVENTS)):
        manager.prepare_store(OFFER, REQUEST)
        manager.complete_store(OFFER, REQUEST)
        taken = list(manager.take_events())
    assert ([OFFER], deque()) == ([event.keys for event in taken], manager.events)


def test_who_keeps_no_policy_and_no_events_has_nothing_to_strike() -> None:
    assert () == Faults((object(),)).places
    assert set(calls.MANAGER_FAULTS) - {
        "policy.on_store_miss",
        "policy.on_request_finished",
        "policy.on_request_access",
    } == set(manager_and_faults()[1].places)


def hostile(sequence: Iterable[Call], kind: Any = BUILT_IN, setup: Setup | None = None) -> Session:
    session = Session.begin(kind, setup or Setup(2), PROFILE, HOSTILE)
    for call in sequence:
        session.step(call)
    return session


def test_a_session_records_the_faults_that_struck_and_no_others() -> None:
    last = [evolve(offer("r1", 0), raises_in=place) for place in ("policy.remove", "policy.get")]
    session = hostile((announce("r1"), *last))
    assert [None, None, "policy.get"] == [record.call.raises_in for record in session.records]
    assert Raised("InjectedFault", "policy.get raises at use 1, as the caller wants it") == session.records[-1].outcome
    assert {("prepare_store", "policy.get"): Counter({1: 1})} == session.strikes.struck
    assert ("prepare_store", "policy.insert") in session.strikes.missed


def test_what_several_runs_struck_is_put_together() -> None:
    first, second = Strikes(), Strikes()
    first.reached["touch", "policy.touch"], second.reached["touch", "policy.touch"] = 1, 3
    second.struck["touch", "policy.touch"] = Counter({3: 1})
    second.restores_order = False
    first.add(second)
    assert [{"call": "touch", "place": "policy.touch", "uses": 3, "struck": {3: 1}}] == first.records()
    assert (False, []) == (first.restores_order, first.missed)


@pytest.mark.parametrize("policy", ["lru", "arc"])
@pytest.mark.parametrize(("engine", "places"), [(RANDOM, 15), (HYPOTHESIS, 3)])
def test_the_built_in_manager_survives_whatever_is_struck(policy: str, engine: str, places: int) -> None:
    search = Search(Task(BUILT_IN, Setup(3, policy), BUILT_IN.profile(policy), HOSTILE))
    search.run((engine,), 4000 if engine == RANDOM else 1000, None)
    assert {} == {name: finding.counterexample.broken for name, finding in search.findings.items()}
    assert places <= len(search.strikes.struck)


# --- policies that cannot be put back to where they were ------------------------------------------


class Plain:
    """The policy of the built-in manager, without `checkpoint` and `restore`."""

    def __init__(self, cache_capacity: int) -> None:
        self._real = LRUCachePolicy(cache_capacity)
        self.blocks, self.evictable_blocks = self._real.blocks, self._real.evictable_blocks
        for name in ("get", "insert", "remove", "touch", "evict", "clear", "mark_evictable", "mark_non_evictable"):
            setattr(self, name, getattr(self._real, name))


PLAIN = kind_of_manager(CPUOffloadingManager, Plain)
# The mark of 1 is taken back, which puts it behind 2; then the order is 2, 1.
MOVED = (
    *holding(1, 2),
    lookup("r2", 1),
    lookup("r2", 2),
    evolve(load("r2", 1, 2), raises_in=calls.MANAGER_FAULTS[7], at=2),
)


def test_the_own_keys_of_a_call_may_have_moved() -> None:
    session = hostile(MOVED, PLAIN)
    assert "policy.mark_non_evictable" == session.records[-1].call.raises_in
    assert (2, 1) == session.subject.snapshot(None).order  # type: ignore[union-attr]
    assert ((), False, False) == (session.broken, session.strikes.restores_order, session.judge.model.order.exact)


def test_a_policy_that_can_restore_its_order_must() -> None:
    class Forgetful(LRUCachePolicy):
        def restore(self, token: object) -> None:
            """Forgets to."""

    session = hostile(MOVED, kind_of_manager(CPUOffloadingManager, Forgetful))
    assert ["all-or-nothing"] == [broken.law.id for broken in session.broken]
    assert "order (2, 1)" == session.broken[0].difference.observed


def test_other_keys_may_not_have_moved() -> None:
    class Shuffling(Plain):
        def __init__(self, cache_capacity: int) -> None:
            super().__init__(cache_capacity)
            unmark = self._real.mark_non_evictable

            def unmark_and_shuffle(key: bytes) -> None:
                unmark(key)
                self.evictable_blocks.move_to_end(next(reversed(self.evictable_blocks)), last=False)

            self.mark_non_evictable = unmark_and_shuffle

    begun = (*holding(1, 2, 3, 4), lookup("r2", 4), lookup("r2", 1))
    last = evolve(load("r2", 4, 1), raises_in="policy.mark_non_evictable", at=2)
    session = hostile((*begun, last), kind_of_manager(CPUOffloadingManager, Shuffling), Setup(4))
    assert ["all-or-nothing"] == [broken.law.id for broken in session.broken]
    assert ("unchanged order (2, 3)", "order (3, 2)") == (
        session.broken[0].difference.expected,
        session.broken[0].difference.observed,
    )


def test_a_policy_without_them_is_searched_all_the_same() -> None:
    search = Search(Task(PLAIN, Setup(3), PROFILE, HOSTILE))
    search.run((RANDOM,), 4000, None)
    assert ({}, False) == (search.findings, search.strikes.restores_order)


# --- what a fault is excused for, and what not ----------------------------------------------------


class Leaking(CPUOffloadingManager):
    """Takes a slot and, when its policy raises, forgets it."""

    def prepare_store(self, keys: Any, req_context: Any) -> Any:
        try:
            return super().prepare_store(keys, req_context)
        except InjectedFault:
            self._free_list.pop() if self._free_list else None
            self._num_allocated_blocks += 1
            raise


def test_what_is_lost_by_a_fault_is_found_and_named() -> None:
    search = Search(Task(kind_of_manager(Leaking), Setup(3), PROFILE, HOSTILE))
    search.run((RANDOM,), 2000, None)
    found = search.findings["all-or-nothing (policy.insert in prepare_store)"].counterexample
    assert 2 == len(found.calls)
    assert "prepare_store([0], request=r1, policy.insert raises)" == str(found.calls[-1])


def test_who_raises_with_no_fault_is_not_excused() -> None:
    class Raising(CPUOffloadingManager):
        def touch(self, keys: Any, req_context: Any) -> None:
            raise RuntimeError("never")

    session = hostile((announce("r1"), evolve(touch("r1", 0), raises_in="policy.touch")), kind_of_manager(Raising))
    assert ["answer"] == [broken.law.id for broken in session.broken]


def test_only_a_hostile_caller_makes_anything_raise() -> None:
    session = Session.begin(BUILT_IN, Setup(2), PROFILE, CONTRACT)
    session.step(announce("r1"))
    assert "policy.get raises" == session.promises.breach(evolve(offer("r1", 0), raises_in="policy.get"), CONTRACT)


# --- managers that are built in other ways --------------------------------------------------------


class LenPolicy(LRUCachePolicy):
    """Is asked for its length, which is asked of a class and not of an object."""

    def __len__(self) -> int:
        return len(self.blocks)


class Measuring(CPUOffloadingManager):
    def __init__(self, *arguments: Any) -> None:
        super().__init__(arguments[0], LenPolicy, *arguments[2:])

    def prepare_store(self, keys: Any, req_context: Any) -> Any:
        assert 0 <= len(self._policy)  # type: ignore[arg-type]
        return super().prepare_store(keys, req_context)


class OwnQueue:
    """A queue of its own kind, made of nothing."""

    def __init__(self) -> None:
        self._held: list[Any] = []
        self.pop, self.clear, self.extend = self._held.pop, self._held.clear, self._held.extend

    def append(self, event: Any) -> None:
        self._held.append(event)

    def popleft(self) -> Any:
        return self._held.pop(0)

    def __len__(self) -> int:
        return len(self._held)

    def __iter__(self) -> Any:
        return iter(self._held)


class Queueing(CPUOffloadingManager):
    def __init__(self, num_blocks: int, policy: Any, events: bool) -> None:
        super().__init__(num_blocks, policy, events)
        self.events = OwnQueue() if events else None  # type: ignore[assignment]


class NoRoom:
    """A policy without room for attributes."""

    __slots__ = ("_real", "blocks", "evictable_blocks")

    def __init__(self, cache_capacity: int) -> None:
        self._real = LRUCachePolicy(cache_capacity)
        self.blocks, self.evictable_blocks = self._real.blocks, self._real.evictable_blocks

    def __getattr__(self, name: str) -> Any:
        return getattr(self._real, name)


class Renewing(CPUOffloadingManager):
    """Has another policy after a reset."""

    def reset_cache(self) -> None:
        super().reset_cache()
        self._policy = self._order = LRUCachePolicy(self._num_blocks)


class RefusingWithoutMemory(CPUOffloadingManager):
    def prepare_store(self, keys: Any, req_context: Any) -> Any:
        try:
            return super().prepare_store(keys, req_context)
        except MemoryError:
            return None


@pytest.mark.parametrize(
    ("manager", "policy"),
    [
        (Measuring, "lru"),
        (Queueing, "lru"),
        (Renewing, "lru"),
        (RefusingWithoutMemory, "lru"),
        (CPUOffloadingManager, NoRoom),
    ],
    ids=["measuring", "own queue", "renewing", "refusing", "no room"],
)
def test_whoever_changes_nothing_is_accused_of_nothing(manager: Any, policy: Any) -> None:
    search = Search(Task(kind_of_manager(manager, policy), Setup(3), PROFILE, HOSTILE))
    search.run((RANDOM,), 2500, None)
    assert ({}, CONFORMS) == (search.findings, search.verdict)
    places = {place for _, place in search.strikes.struck}
    assert {"policy.insert", "events.append"} <= places


def test_methods_that_a_manager_keeps_bound_are_struck_too() -> None:
    class Bound(CPUOffloadingManager):
        """Pins key by key, with no way back."""

        def __init__(self, *arguments: Any) -> None:
            super().__init__(*arguments)
            self._unmark = self._policy.mark_non_evictable

        def _mark_non_evictable(self, keys: Any) -> None:
            for key in keys:
                self._unmark(key)

    search = Search(Task(kind_of_manager(Bound), Setup(3), PROFILE, HOSTILE))
    search.run((RANDOM,), 4000, None)
    assert "all-or-nothing (policy.mark_non_evictable in prepare_load)" in search.findings


def test_what_a_policy_asks_of_itself_is_no_use_of_it() -> None:
    class Marking(LRUCachePolicy):
        def insert(self, key: Any, block: Any) -> None:
            super().insert(key, block)
            assert self.get(key) is block

    manager = CPUOffloadingManager(2, Marking)
    faults = Faults((manager,))
    with faults.armed(offering("policy.get", 3)):
        manager.prepare_store(OFFER, REQUEST)
    assert (False, 2, 2) == (faults.struck, faults.uses["policy.get"], faults.uses["policy.insert"])


@pytest.mark.parametrize(
    ("offers", "restores"),
    [(("checkpoint", "restore"), True), (("checkpoint",), False), (("restore",), False), ((), False)],
)
def test_an_order_is_restored_by_who_offers_both(offers: tuple[str, ...], restores: bool) -> None:
    class Host:
        def __init__(self) -> None:
            self._policy = type("Policy", (), dict.fromkeys(offers))()

    assert restores is Faults((Host(),)).restores_order
