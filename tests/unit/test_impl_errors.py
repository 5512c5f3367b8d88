"""A call that raises changes nothing, whoever is at fault: the caller, the policy, the allocator or the event queue."""

from __future__ import annotations

import pickle
from collections import deque
from collections.abc import Callable, Iterable
from typing import Any

import pytest

from evictable.impl import (
    ARCCachePolicy,
    BlockStatus,
    CachePolicy,
    CPUOffloadingManager,
    KeyNotResident,
    LRUCachePolicy,
    NotPinned,
    NotReady,
    OffloadError,
    OffloadingEvent,
    OffloadKey,
    PolicyError,
    ReqContext,
    StaleCompletion,
)

# In `scene`: IDLE* are evictable in this order, LOADED is pinned twice by r1 and once by r2, PENDING* are being
# stored by r1, ABSENT was never there.
IDLE1, IDLE2, IDLE3, LOADED, PENDING1, PENDING2, ABSENT, NEW1, NEW2, NEW3, NEW4 = (
    OffloadKey(bytes([n])) for n in range(11)
)
R1, R2, R3 = (ReqContext(f"r{n}") for n in (1, 2, 3))

Call = Callable[[CPUOffloadingManager], object]


def scene(policy: type[CachePolicy] = LRUCachePolicy) -> CPUOffloadingManager:
    """A manager with a block in every state, one slot never used, one given back and one event in the queue."""
    manager = CPUOffloadingManager(8, policy, enable_events=True)
    manager.prepare_store([IDLE2, LOADED, IDLE3, IDLE1, ABSENT, PENDING1, PENDING2], R1)
    manager.complete_store([IDLE2, LOADED, IDLE3, IDLE1], R1)
    manager.complete_store([ABSENT], R1, success=False)
    manager.prepare_load([LOADED, LOADED], R1)
    manager.prepare_load([LOADED], R2)
    manager.touch([IDLE3, IDLE2, IDLE1], R1)
    return manager


def dump(manager: CPUOffloadingManager) -> dict[str, Any]:
    """Everything the manager and its policy know, in a form that later calls cannot change."""
    policy = manager._policy
    if isinstance(policy, ARCCachePolicy):
        blocks = dict(policy.t1) | dict(policy.t2)
        order: object = (*(tuple(part) for part in policy._parts), policy.target_t1_size)
    else:
        assert isinstance(policy, LRUCachePolicy | Plain)
        blocks, order = policy.blocks, list(policy.evictable_blocks)
    return {
        "blocks": {key: (b.block_id, b.ref_cnt, b.writer) for key, b in blocks.items()},
        "order": order,
        "free": list(manager._free_list),
        "counters": (
            manager._num_allocated_blocks,
            manager._num_evictable_cache_blocks,
            manager._num_write_pending_blocks,
        ),
        "loads": {request: dict(loads) for request, loads in manager._loads.items()},
        "events": list(manager.events or ()),
    }


def raises_and_changes_nothing(manager: CPUOffloadingManager, call: Call, error: type[Exception]) -> Exception:
    before = dump(manager)
    with pytest.raises(error) as raised:
        call(manager)
    assert before == dump(manager)
    assert error is raised.type
    return raised.value


# Callers at fault. Each bad key stands among good ones, so that a batch applied half-way would show.


@pytest.mark.parametrize(
    ("keys", "error", "key"),
    [
        ([IDLE1, ABSENT, IDLE2], KeyNotResident, ABSENT),
        ([IDLE1, LOADED, PENDING1], NotReady, PENDING1),
    ],
)
def test_prepare_load_pins_all_or_none(keys: list[OffloadKey], error: type[OffloadError], key: OffloadKey) -> None:
    raised = raises_and_changes_nothing(scene(), lambda m: m.prepare_load(keys, R3), error)
    assert isinstance(raised, OffloadError)
    assert ("prepare_load", key, "r3") == (raised.call, raised.key, raised.request)


@pytest.mark.parametrize(
    ("keys", "request_", "error"),
    [
        pytest.param([LOADED, ABSENT], R1, KeyNotResident, id="absent"),
        pytest.param([LOADED, LOADED, LOADED], R1, NotPinned, id="more than its own pins, though r2 has one"),
        pytest.param([LOADED], R3, StaleCompletion, id="pinned by others only"),
        pytest.param([LOADED, IDLE1], R1, StaleCompletion, id="not pinned at all"),
        pytest.param([LOADED, PENDING1], R1, StaleCompletion, id="a store, not a load"),
    ],
)
def test_complete_load_ends_only_loads_of_its_request(
    keys: list[OffloadKey], request_: ReqContext, error: type[OffloadError]
) -> None:
    raises_and_changes_nothing(scene(), lambda m: m.complete_load(keys, request_), error)


@pytest.mark.parametrize("success", [True, False])
@pytest.mark.parametrize(
    ("keys", "request_", "error"),
    [
        pytest.param([PENDING1, ABSENT], R1, KeyNotResident, id="absent"),
        pytest.param([PENDING1, PENDING2], R2, StaleCompletion, id="another request's store"),
        pytest.param([PENDING1, IDLE1], R1, StaleCompletion, id="completed before"),
        pytest.param([PENDING1, LOADED], R1, StaleCompletion, id="a load, not a store"),
        pytest.param([PENDING1, PENDING2, PENDING1], R1, StaleCompletion, id="named twice"),
    ],
)
def test_complete_store_ends_only_stores_of_its_request(
    keys: list[OffloadKey], request_: ReqContext, error: type[OffloadError], success: bool
) -> None:
    raises_and_changes_nothing(scene(), lambda m: m.complete_store(keys, request_, success), error)


def test_a_completed_load_cannot_be_completed_again() -> None:
    manager = scene()
    manager.complete_load([LOADED], R2)
    raises_and_changes_nothing(manager, lambda m: m.complete_load([LOADED], R2), StaleCompletion)


def test_after_a_failed_store_the_next_writer_owns_the_key() -> None:
    manager = scene()
    manager.complete_store([PENDING1], R1, success=False)
    manager.prepare_store([PENDING1], R2)
    raises_and_changes_nothing(manager, lambda m: m.complete_store([PENDING1], R1), StaleCompletion)


@pytest.mark.parametrize(
    "late",
    [lambda m: m.complete_load([LOADED], R1), lambda m: m.complete_store([PENDING1], R1)],
    ids=["load", "store"],
)
def test_transfers_older_than_a_reset_are_stale(late: Call) -> None:
    manager = scene()
    manager.reset_cache()
    raises_and_changes_nothing(manager, late, KeyNotResident)
    manager.prepare_store([LOADED, PENDING1], R2)
    manager.complete_store([LOADED], R2)
    raises_and_changes_nothing(manager, late, StaleCompletion)


@pytest.mark.parametrize("keys", [[NEW1, NEW2], [IDLE1, NEW1, NEW2]])
def test_a_refusal_changes_nothing(keys: list[OffloadKey]) -> None:
    manager = scene()
    manager.prepare_load([IDLE1, IDLE2, IDLE3], R1)
    manager.prepare_store([ABSENT], R1)
    before = dump(manager)
    assert manager.prepare_store(keys, R2) is None
    assert before == dump(manager)


# Collaborators at fault. A fault strikes before the struck method acts.


class Fault(Exception):
    pass


def strike(owner: object, method: str, nth: int) -> None:
    """Make the `nth` use of `owner.method`, counted from 1, raise; other uses work."""
    real = getattr(owner, method)
    uses = 0

    def struck(*args: Any) -> Any:
        nonlocal uses
        uses += 1
        if uses == nth:
            raise Fault(method)
        return real(*args)

    setattr(owner, method, struck)


class Queue(deque[OffloadingEvent]):
    """A deque whose methods can be struck."""


def store_that_evicts_two(manager: CPUOffloadingManager) -> object:
    """Four new keys for the two free slots; IDLE2 and IDLE3 have to go, because IDLE1 is in the offer."""
    return manager.prepare_store([IDLE1, NEW1, NEW2, NEW3, NEW4, PENDING1], R2)


CALLS: dict[str, Call] = {
    "prepare_load": lambda m: m.prepare_load([IDLE2, IDLE1, LOADED, IDLE3], R2),
    "complete_load": lambda m: m.complete_load([LOADED], R2),
    "prepare_store": store_that_evicts_two,
    "complete_store": lambda m: m.complete_store([PENDING2, PENDING1], R1),
    "fail_store": lambda m: m.complete_store([PENDING2, PENDING1], R1, False),
    "touch": lambda m: m.touch([IDLE1, IDLE2], R1),
    "reset_cache": lambda m: m.reset_cache(),
}

FAULTS = [
    ("prepare_load", "get", 3),
    ("prepare_load", "checkpoint", 1),
    *(("prepare_load", "mark_non_evictable", n) for n in (1, 2, 3)),
    ("complete_load", "mark_evictable", 1),
    ("prepare_store", "get", 2),
    ("prepare_store", "checkpoint", 1),
    ("prepare_store", "evict", 1),
    ("prepare_store", "_allocate_blocks", 1),
    ("prepare_store", "_get_load_store_spec", 1),
    *(("prepare_store", "insert", n) for n in (1, 2, 4)),
    ("prepare_store", "append", 1),
    ("complete_store", "append", 1),
    ("complete_store", "checkpoint", 1),
    *(("complete_store", "mark_evictable", n) for n in (1, 2)),
    *(("fail_store", "remove", n) for n in (1, 2)),
    ("touch", "touch", 1),
    ("reset_cache", "clear", 1),
]


def struck_scene(policy: type[CachePolicy], call: str, method: str, nth: int) -> CPUOffloadingManager:
    manager = scene(policy)
    if call == "complete_load":  # let the struck call drop the last pin
        manager.complete_load([LOADED, LOADED], R1)
    manager.events = Queue(manager.events or ())
    owners = (manager._policy, manager, manager.events)
    strike(next(owner for owner in owners if hasattr(owner, method)), method, nth)
    return manager


@pytest.mark.parametrize("policy", [LRUCachePolicy, ARCCachePolicy])
@pytest.mark.parametrize(("call", "method", "nth"), FAULTS)
def test_a_failing_collaborator_leaves_everything_as_it_was(
    policy: type[CachePolicy], call: str, method: str, nth: int
) -> None:
    raises_and_changes_nothing(struck_scene(policy, call, method, nth), CALLS[call], Fault)


@pytest.mark.parametrize("policy", [LRUCachePolicy, ARCCachePolicy])
@pytest.mark.parametrize(("call", "method", "nth"), FAULTS)
def test_the_call_can_be_made_again_after_the_fault(
    policy: type[CachePolicy], call: str, method: str, nth: int
) -> None:
    untouched = struck_scene(policy, call, method, nth=0)
    struck = struck_scene(policy, call, method, nth)
    expected = CALLS[call](untouched)
    with pytest.raises(Fault):
        CALLS[call](struck)
    assert (expected, dump(untouched)) == (CALLS[call](struck), dump(struck))


def test_a_fault_without_an_event_queue_leaves_everything_as_it_was() -> None:
    manager = struck_scene(LRUCachePolicy, "complete_store", "mark_evictable", 1)
    manager.events = None
    raises_and_changes_nothing(manager, CALLS["complete_store"], Fault)


class Plain(CachePolicy):
    """The LRU policy without checkpoints."""

    def __init__(self, cache_capacity: int) -> None:
        self.lru = LRUCachePolicy(cache_capacity)
        self.blocks = self.lru.blocks
        self.evictable_blocks = self.lru.evictable_blocks

    def get(self, key: OffloadKey) -> BlockStatus | None:
        return self.lru.get(key)

    def insert(self, key: OffloadKey, block: BlockStatus) -> None:
        self.lru.insert(key, block)

    def remove(self, key: OffloadKey) -> None:
        self.lru.remove(key)

    def touch(self, keys: Iterable[OffloadKey]) -> None:
        self.lru.touch(keys)

    def evict(self, n: int, protected: set[OffloadKey]) -> list[tuple[OffloadKey, BlockStatus]] | None:
        return self.lru.evict(n, protected)

    def clear(self) -> None:
        self.lru.clear()

    def mark_evictable(self, key: OffloadKey) -> None:
        self.lru.mark_evictable(key)

    def mark_non_evictable(self, key: OffloadKey) -> None:
        self.lru.mark_non_evictable(key)


@pytest.mark.parametrize(("call", "method", "nth"), [fault for fault in FAULTS if fault[1] != "checkpoint"])
def test_without_checkpoints_all_but_the_order_is_restored(call: str, method: str, nth: int) -> None:
    def unordered(manager: CPUOffloadingManager) -> dict[str, Any]:
        state = dump(manager)
        return state | {"order": sorted(state["order"])}

    manager = struck_scene(Plain, call, method, nth)
    before = unordered(manager)
    with pytest.raises(Fault):
        CALLS[call](manager)
    assert before == unordered(manager)


# Policies that break their contract.


class Generous(LRUCachePolicy):
    """Evicts one block more than asked."""

    def evict(self, n: int, protected: set[OffloadKey]) -> list[tuple[OffloadKey, BlockStatus]] | None:
        return super().evict(n + 1, set())


class Stingy(LRUCachePolicy):
    """Evicts one block less than asked."""

    def evict(self, n: int, protected: set[OffloadKey]) -> list[tuple[OffloadKey, BlockStatus]] | None:
        return super().evict(n - 1, protected)


class Twofold(LRUCachePolicy):
    """Names its first victim twice."""

    def evict(self, n: int, protected: set[OffloadKey]) -> list[tuple[OffloadKey, BlockStatus]] | None:
        victims = super().evict(n - 1, protected)
        return victims and victims[:1] + victims


class Blind(LRUCachePolicy):
    """Evicts keys of the offer."""

    def evict(self, n: int, protected: set[OffloadKey]) -> list[tuple[OffloadKey, BlockStatus]] | None:
        return super().evict(n, set())


class Ruthless(LRUCachePolicy):
    """Evicts a block in use."""

    def evict(self, n: int, protected: set[OffloadKey]) -> list[tuple[OffloadKey, BlockStatus]] | None:
        victims = super().evict(n - 1, protected)
        return victims and [*victims, (LOADED, self.blocks.pop(LOADED))]


class Hoarder(LRUCachePolicy):
    """Names one victim too many, and drops none."""

    def evict(self, n: int, protected: set[OffloadKey]) -> list[tuple[OffloadKey, BlockStatus]] | None:
        return [(key, self.blocks[key]) for key in self.evictable_blocks][: n + 1]


@pytest.mark.parametrize(
    ("policy", "key"),
    [(Generous, None), (Hoarder, None), (Stingy, None), (Twofold, None), (Blind, IDLE1), (Ruthless, LOADED)],
)
def test_wrong_victims_are_taken_back(policy: type[CachePolicy], key: OffloadKey | None) -> None:
    raised = raises_and_changes_nothing(scene(policy), store_that_evicts_two, PolicyError)
    assert isinstance(raised, PolicyError)
    assert key == raised.key


# What an error says.


@pytest.mark.parametrize("error", [KeyNotResident, NotReady, NotPinned, StaleCompletion])
def test_an_error_names_call_request_key_and_remedy_in_one_line(error: type[OffloadError]) -> None:
    text = str(error("prepare_load", IDLE1, "r1"))
    assert f"prepare_load for request 'r1': key {IDLE1!r} {error.problem}; {error.remedy}" == text
    assert "\n" not in text


def test_a_policy_error_may_have_no_key() -> None:
    error = PolicyError("prepare_store", None, "r1", "evicted nothing")
    assert str(error).startswith("prepare_store for request 'r1': evicted nothing; mend the policy")


@pytest.mark.parametrize(
    "error", [KeyNotResident("touch", IDLE1, "r1"), PolicyError("prepare_store", IDLE1, "r1", "is wrong")]
)
def test_errors_cross_process_borders(error: OffloadError) -> None:
    copy = pickle.loads(pickle.dumps(error))
    assert (type(error), str(error), error.key) == (type(copy), str(copy), copy.key)
