"""What no caller sees that keeps to the interface: defaults, limits, and arguments that can be read only once."""

from __future__ import annotations

import pytest

from evictable.impl import (
    BlockStatus,
    CPUOffloadingManager,
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
