"""What no caller sees that keeps to the interface: defaults, limits, and arguments that can be read only once."""

from __future__ import annotations

import re

import pytest

from evictable.impl import (
    ARCCachePolicy,
    BlockStatus,
    CPUOffloadingManager,
    CPUOffloadingMetrics,
    LRUCachePolicy,
    OffloadKey,
    ReqContext,
)

A, B = OffloadKey(b"a"), OffloadKey(b"b")
R1 = ReqContext("r1")


@pytest.mark.parametrize(("ref_cnt", "ready"), [(-1, False), (0, True), (1, True)])
def test_a_block_is_ready_from_zero_on(ref_cnt: int, ready: bool) -> None:
    block = BlockStatus(3)
    block.ref_cnt = ref_cnt
    assert ready == block.is_ready


def test_the_defaults() -> None:
    manager = CPUOffloadingManager(1)
    assert (None, 1, 64_000) == (manager.events, manager.store_threshold, manager.max_tracker_size)


def test_the_least_that_can_be_asked_for() -> None:
    manager = CPUOffloadingManager(0, store_threshold=2, max_tracker_size=1)
    assert manager.prepare_store([A], R1) is not None
    assert manager.prepare_store([A], R1) is None


def test_keys_may_be_read_once_only() -> None:
    manager = CPUOffloadingManager(2)
    manager.prepare_store([A, B], R1)
    manager.complete_store(iter([A, B]), R1)  # type: ignore[arg-type]
    manager.prepare_load(iter([A, B]), R1)  # type: ignore[arg-type]
    manager.complete_load([A, B], R1)
    assert 2 == manager._num_evictable_cache_blocks


def test_a_policy_gets_what_it_must_not_evict_as_a_set() -> None:
    seen: list[object] = []

    class Recording(LRUCachePolicy):
        def evict(self, n: int, protected: set[OffloadKey]) -> list[tuple[OffloadKey, BlockStatus]] | None:
            seen.append(protected)
            return super().evict(n, protected)

    manager = CPUOffloadingManager(2, cache_policy=Recording)
    manager.prepare_store([A, B], R1)
    manager.complete_store([A, B], R1)
    manager.prepare_store([A, OffloadKey(b"c")], R1)
    assert [({A}, set)] == [(protected, type(protected)) for protected in seen]


def test_keys_may_be_read_once_only_with_a_ticket_too() -> None:
    manager = CPUOffloadingManager(2)
    output = manager.prepare_store([A, B], R1)
    assert output is not None
    manager.complete_store(iter([A, B]), R1, ticket=output.store_spec.ticket)  # type: ignore
    assert 2 == manager._num_evictable_cache_blocks


def test_callers_can_hold_the_lock() -> None:
    manager = CPUOffloadingManager(1)
    with manager.lock:
        assert manager.lock.locked()  # type: ignore[attr-defined]


def test_what_is_raised_for_want_of_memory_is_passed_on(monkeypatch: pytest.MonkeyPatch) -> None:
    manager = CPUOffloadingManager(1)
    manager.prepare_store([A], R1)
    manager.complete_store([A], R1)

    def no_memory(*arguments: object) -> None:
        raise MemoryError("none left")

    monkeypatch.setattr("evictable.impl.manager.BlockStatus", no_memory)
    with pytest.raises(MemoryError, match="none left"):
        manager.prepare_store([B], R1)


def test_the_known_policies_are_named() -> None:
    with pytest.raises(ValueError, match=re.escape("give one of ['arc', 'lru'], or a policy class")):
        CPUOffloadingManager(1, cache_policy="none")


policies = pytest.mark.parametrize("kind", [LRUCachePolicy, ARCCachePolicy])


@policies
def test_nothing_can_be_restored_without_a_checkpoint(kind: type[LRUCachePolicy]) -> None:
    policy = kind(cache_capacity=1)
    with pytest.raises(ValueError, match="only the latest checkpoint"):
        policy.restore(None)


@policies
def test_a_cleared_policy_is_as_a_new_one_and_its_checkpoint_is_void(kind: type[LRUCachePolicy]) -> None:
    policy = kind(cache_capacity=1)
    token = policy.checkpoint()
    policy.insert(A, ready())
    policy.evict(1, set())
    policy.touch([A])
    policy.insert(A, ready())
    policy.clear()
    assert {**vars(kind(cache_capacity=1)), "_clock": 0} == {**vars(policy), "_clock": 0}
    with pytest.raises(ValueError, match="only the latest checkpoint"):
        policy.restore(token)


def ready() -> BlockStatus:
    block = BlockStatus(0)
    block.ref_cnt = 0
    return block


def test_arc_knows_when_it_moved_what_it_holds_and_nothing_else() -> None:
    policy = ARCCachePolicy(cache_capacity=1)
    policy.insert(A, ready())
    policy.evict(1, set())
    policy.insert(B, ready())
    policy.evict(1, set())
    policy.insert(OffloadKey(b"c"), ready())
    policy.remove(OffloadKey(b"c"))
    assert {*policy.b1} == {*policy._moved}


@pytest.mark.parametrize(("others", "loss"), [(1, 1.0), (2, 1.0), (4, 2.0), (6, 3.0)])
def test_a_ghost_of_t2_lowers_the_target_of_arc_by_the_ratio_or_by_one(others: int, loss: float) -> None:
    policy = ARCCachePolicy(cache_capacity=8)
    policy.target_t1_size = 5.0
    for key in (A, B):
        policy._append(policy.b2, key, None)
    for number in range(others):
        policy._append(policy.b1, OffloadKey(bytes([number])), None)
    policy.touch([A])
    assert 5.0 - loss == policy.target_t1_size


def test_of_several_victims_of_arc_each_counts_the_ones_before_it() -> None:
    policy = ARCCachePolicy(cache_capacity=4)
    for number in range(4):
        policy.insert(OffloadKey(bytes([number])), ready())
    policy.touch([OffloadKey(bytes([3])), OffloadKey(bytes([2]))])
    policy.target_t1_size = 2.0
    evicted = policy.evict(2, set())
    assert evicted is not None
    assert [OffloadKey(bytes([0])), OffloadKey(bytes([2]))] == [key for key, _ in evicted]


def test_without_a_threshold_no_skipped_store_is_reported() -> None:
    assert CPUOffloadingMetrics.STORES_SKIPPED not in CPUOffloadingManager(1).get_stats().data["data"]
    assert CPUOffloadingMetrics.STORES_SKIPPED in CPUOffloadingManager(1, store_threshold=2).get_stats().data["data"]
