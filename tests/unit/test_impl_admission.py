"""Store thresholds: the tracker by itself, and what the manager makes of it."""

from __future__ import annotations

from typing import Any

import pytest

from evictable.impl import (
    AdmissionTracker,
    CPUOffloadingManager,
    LookupResult,
    LRUCachePolicy,
    OffloadKey,
    ReqContext,
    StaleCompletion,
)

A, B, C, D, E = (OffloadKey(bytes([n])) for n in range(5))
R1, R2 = ReqContext("r1"), ReqContext("r2")


def tracker_after(*offers: list[OffloadKey], size: int = 3, threshold: int = 2) -> AdmissionTracker:
    tracker = AdmissionTracker(threshold, size)
    for offer in offers:
        tracker.record(offer)
    return tracker


def counts(tracker: AdmissionTracker | CPUOffloadingManager) -> list[tuple[OffloadKey, int]]:
    """The next to be forgotten first."""
    assert tracker.counts is not None
    return list(tracker.counts.items())


def manager_after(*offers: list[OffloadKey], num_blocks: int = 4, **arguments: Any) -> CPUOffloadingManager:
    """A manager with threshold 2 (unless told otherwise) in which every store of the offers has completed."""
    manager = CPUOffloadingManager(num_blocks, **{"store_threshold": 2, **arguments})
    for offer in offers:
        store(manager, offer)
    return manager


def store(manager: CPUOffloadingManager, offer: list[OffloadKey]) -> list[OffloadKey] | None:
    output = manager.prepare_store(offer, R1)
    if output is None:
        return None
    manager.complete_store(output.keys_to_store, R1)
    return output.keys_to_store


# The tracker


def test_a_key_offered_again_is_counted_and_forgotten_later() -> None:
    assert [(B, 1), (A, 2)] == counts(tracker_after([A, B], [A]))


def test_a_key_repeated_in_an_offer_counts_once() -> None:
    assert [(A, 1)] == counts(tracker_after([A, A]))


def test_known_keys_of_an_offer_move_in_its_order() -> None:
    assert [(C, 1), (B, 2), (A, 2)] == counts(tracker_after([A, B, C], [B, A]))


def test_a_full_table_forgets_the_key_that_was_offered_longest_ago() -> None:
    assert [(B, 1), (C, 1), (D, 1)] == counts(tracker_after([A], [B], [C], [D]))


def test_an_offer_forgets_none_of_its_own_keys_known_before() -> None:
    assert [(A, 2), (D, 1), (E, 1)] == counts(tracker_after([A, B, C], [D, E, A]))


def test_an_offer_larger_than_the_table_is_remembered_in_part() -> None:
    assert [(A, 1), (B, 1), (C, 1)] == counts(tracker_after([A, B, C, D, E]))


def test_an_offer_larger_than_the_table_makes_progress() -> None:
    assert [(A, 2), (B, 2), (C, 2)] == counts(tracker_after([A, B, C, D, E], [A, B, C, D, E]))


@pytest.mark.parametrize(
    ("threshold", "offers", "admitted"), [(2, 0, False), (2, 1, True), (3, 1, False), (3, 2, True)]
)
def test_the_offer_that_reaches_the_threshold_is_admitted(threshold: int, offers: int, admitted: bool) -> None:
    assert admitted is tracker_after(*[[A]] * offers, threshold=threshold).admits(A)


@pytest.mark.parametrize(
    ("threshold", "size", "message"),
    [(1, 1, "store_threshold is 1; a tracker is for 2 or more"), (2, 0, "max_tracker_size is 0; give")],
)
def test_a_tracker_without_purpose_is_refused(threshold: int, size: int, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        AdmissionTracker(threshold, size)


# The manager


@pytest.mark.parametrize("threshold", [-1, 0, 1])
def test_without_a_threshold_every_key_is_stored_and_nothing_counted(threshold: int) -> None:
    manager = manager_after(store_threshold=threshold)
    assert ([A], None) == (store(manager, [A]), manager.counts)


def test_a_key_is_stored_from_the_offer_on_that_reaches_the_threshold() -> None:
    manager = manager_after(store_threshold=3)
    assert [[], [], [A]] == [store(manager, [A]) for _ in range(3)]


def test_of_an_offer_only_the_keys_offered_often_enough_are_stored() -> None:
    manager = manager_after([A, C])
    assert ([A, C], 1 + 2) == (store(manager, [A, B, C]), manager.stores_skipped_in_current_batch)


def test_lookups_do_not_count() -> None:
    manager = manager_after()
    manager.lookup(A, R1)
    assert ([], [(A, 1)]) == (store(manager, [A]), counts(manager))


def test_offers_of_resident_keys_count_and_are_not_skipped() -> None:
    manager = manager_after([A], [A], [A])
    assert ([(A, 3)], 1) == (counts(manager), manager.stores_skipped_in_current_batch)


def test_a_resident_key_that_the_tracker_forgot_is_protected() -> None:
    manager = manager_after([A], [A], [B], [C], num_blocks=1, max_tracker_size=2)
    assert A not in dict(counts(manager))
    assert (None, LookupResult.HIT) == (store(manager, [B, A]), manager.lookup(A, R1))


def test_what_is_skipped_needs_no_room() -> None:
    manager = manager_after([A], [A], [B], num_blocks=1)
    manager.prepare_load([A], R2)
    assert [] == store(manager, [C, D])


def test_a_refused_offer_counts() -> None:
    manager = manager_after([A], [A], [B], num_blocks=1)
    manager.prepare_load([A], R2)
    assert (None, [(A, 2), (B, 2), (C, 1)], 3) == (
        store(manager, [B, C]),
        counts(manager),
        manager.stores_skipped_in_current_batch,
    )


def test_an_offer_that_raises_does_not_count() -> None:
    class Broken(LRUCachePolicy):
        def insert(self, *args: Any) -> None:
            raise RuntimeError("insert")

    manager = manager_after([A], cache_policy=Broken)
    with pytest.raises(RuntimeError):
        manager.prepare_store([A, B], R1)
    assert ([(A, 1)], 1) == (counts(manager), manager.stores_skipped_in_current_batch)


def test_counts_survive_a_reset() -> None:
    manager = manager_after([A])
    manager.reset_cache()
    assert [A] == store(manager, [A])


def test_a_skipped_key_is_not_pending() -> None:
    manager = manager_after([A])
    manager.prepare_store([A, B], R1)
    with pytest.raises(StaleCompletion):
        manager.complete_store([A], R2)
    assert [LookupResult.HIT_PENDING, LookupResult.MISS] == [manager.lookup(key, R1) for key in (A, B)]
