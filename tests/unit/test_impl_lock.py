"""The lock that callers hold: one for a manager and all that is below it."""

from __future__ import annotations

from contextlib import nullcontext

from evictable.impl import CPUOffloadingManager, ReqContext
from evictable.impl.base import OffloadingManager
from evictable.impl.tiering import CPUPrimaryTierOffloadingManager, TieringOffloadingManager


def test_a_manager_for_one_thread_has_none() -> None:
    default = OffloadingManager.lock.fget
    assert default is not None
    assert isinstance(default(CPUOffloadingManager(1)), nullcontext)


def test_it_is_the_same_each_time_and_each_manager_has_its_own() -> None:
    one, other = CPUOffloadingManager(1), CPUOffloadingManager(1)
    assert (True, False) == (one.lock is one.lock, one.lock is other.lock)


def test_it_excludes() -> None:
    manager = CPUOffloadingManager(1)
    lock = manager._lock
    with manager.lock:
        assert not lock.acquire(blocking=False)
    assert lock.acquire(blocking=False)


def test_no_method_takes_it() -> None:
    manager = CPUOffloadingManager(2, enable_events=True)
    request = ReqContext("r1")
    with manager.lock:  # a method that took it would wait for ever
        manager.on_new_request(request)
        manager.prepare_store([b"key"], request)
        manager.complete_store([b"key"], request)
        manager.lookup(b"key", request)
        manager.prepare_load([b"key"], request)
        manager.complete_load([b"key"], request)
        manager.touch([b"key"], request)
        assert 1 == len(list(manager.take_events()))
        manager.get_stats()
        manager.on_request_finished(request)
        manager.reset_cache()


def test_tiers_share_the_primary_tiers() -> None:
    primary = CPUPrimaryTierOffloadingManager(1)
    assert primary.lock is TieringOffloadingManager(primary).lock
