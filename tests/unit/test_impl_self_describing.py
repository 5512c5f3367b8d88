"""Payloads from the store of a key to its removal, through failures, retries and late or dropped drains."""

from __future__ import annotations

from dataclasses import FrozenInstanceError
from itertools import islice

import pytest

from evictable.impl import (
    BlockPayload,
    BlockRemoved,
    BlockStored,
    CPUOffloadingManager,
    OffloadingEvent,
    OffloadKey,
    ReqContext,
    SelfDescribingEvents,
    make_offload_key,
)

A, B, C = (make_offload_key(name, 3) for name in (b"a", b"b", b"c"))
R1 = ReqContext("r1")


def payload(name: str) -> BlockPayload:
    """One of several that the same key may have, to tell them apart."""
    return BlockPayload((name.encode(),), None, (1, 2), 2, group_idx=3)


def stored(*keys: OffloadKey, medium: str = "CPU") -> OffloadingEvent:
    return OffloadingEvent(list(keys), medium, removed=False)


def removed(*keys: OffloadKey, medium: str = "CPU") -> OffloadingEvent:
    return OffloadingEvent(list(keys), medium, removed=True)


def told(tracker: SelfDescribingEvents, *events: OffloadingEvent) -> list[tuple[str, bytes]]:
    """What a whole drain delivers, in short."""
    return [(type(record).__name__, b"".join(record.block_hashes)) for record in tracker.take_events(events)]


def test_a_stored_event_carries_the_whole_payload_medium_and_locality() -> None:
    tracker = SelfDescribingEvents()
    tracker.record_store(
        A,
        BlockPayload(
            block_hashes=(b"1", b"2"),
            parent_block_hash=b"0",
            token_ids=(5, 6, 7, 8),
            block_size=2,
            group_idx=3,
            kv_cache_spec_kind="sliding_window",
            kv_cache_spec_sliding_window=128,
            lora_id=7,
            lora_name="adapter",
            extra_keys=(None, ("salt",)),
        ),
    )
    event = OffloadingEvent([A], "CPU", removed=False, locality="LOCAL", ownership="tier")
    expected = BlockStored(
        block_hashes=(b"1", b"2"),
        parent_block_hash=b"0",
        token_ids=(5, 6, 7, 8),
        block_size=2,
        lora_id=7,
        medium="CPU",
        lora_name="adapter",
        extra_keys=(None, ("salt",)),
        group_idx=3,
        kv_cache_spec_kind="sliding_window",
        kv_cache_spec_sliding_window=128,
        locality="LOCAL",
        ownership="tier",
    )
    assert [expected] == list(tracker.take_events([event]))


def test_a_removed_event_names_the_hashes_that_were_stored() -> None:
    tracker = SelfDescribingEvents()
    tracker.record_store(A, BlockPayload((b"1", b"2"), None, (5, 6), 1, group_idx=3))
    list(tracker.take_events([stored(A)]))
    event = OffloadingEvent([A], "CPU", removed=True, locality="LOCAL", ownership="tier")
    expected = BlockRemoved((b"1", b"2"), "CPU", group_idx=3, locality="LOCAL", ownership="tier")
    assert [expected] == list(tracker.take_events([event]))


def test_each_key_of_an_event_has_an_event_of_its_own() -> None:
    tracker = SelfDescribingEvents()
    tracker.record_store(A, payload("1"))
    tracker.record_store(B, payload("2"))
    expected = [("BlockStored", b"1"), ("BlockStored", b"2"), ("BlockRemoved", b"2"), ("BlockRemoved", b"1")]
    assert expected == told(tracker, stored(A, B), removed(B, A))


def test_a_retry_after_a_failed_store_has_its_own_payload() -> None:
    tracker = SelfDescribingEvents()
    tracker.record_store(A, payload("failed"))
    tracker.record_failure([A])
    tracker.record_store(A, payload("retry"))
    assert [("BlockStored", b"retry"), ("BlockRemoved", b"retry")] == told(tracker, stored(A), removed(A))


def test_a_key_stored_again_before_the_drain_keeps_both_payloads_apart() -> None:
    tracker = SelfDescribingEvents()
    for name in ("first", "second"):
        tracker.record_store(A, payload(name))
    expected = [
        ("BlockStored", b"first"),
        ("BlockRemoved", b"first"),
        ("BlockStored", b"second"),
        ("BlockRemoved", b"second"),
    ]
    assert expected == told(tracker, stored(A), removed(A), stored(A), removed(A))


def test_a_failed_store_after_an_undrained_eviction_costs_the_evicted_key_nothing() -> None:
    tracker = SelfDescribingEvents()
    tracker.record_store(A, payload("evicted"))
    tracker.record_store(A, payload("failed"))
    tracker.record_failure([A])
    assert [("BlockStored", b"evicted"), ("BlockRemoved", b"evicted")] == told(tracker, stored(A), removed(A))


@pytest.mark.parametrize("seen", range(5))
def test_a_drain_dropped_half_way_goes_on_later_with_what_was_not_seen(seen: int) -> None:
    manager = CPUOffloadingManager(2, enable_events=True)
    tracker = SelfDescribingEvents()
    for keys in ([A], [B, C]):
        manager.prepare_store(keys, R1)
        manager.complete_store(keys, R1)
    first = list(islice(tracker.take_events(manager.take_events()), seen))
    rest = list(tracker.take_events(manager.take_events()))
    hashes = [(type(record), *record.block_hashes) for record in first + rest]
    assert [(BlockStored, b"a"), (BlockRemoved, b"a"), (BlockStored, b"b"), (BlockStored, b"c")] == hashes


@pytest.mark.parametrize("enabled", [True, False])
def test_a_key_without_payload_is_told_by_the_hash_inside_it(enabled: bool) -> None:
    tracker = SelfDescribingEvents(enabled)
    tracker.record_store(A, None)
    expected = [
        BlockStored((b"a",), None, (), 0, None, "CPU", None, group_idx=3),
        BlockRemoved((b"a",), "CPU", group_idx=3),
    ]
    assert expected == list(tracker.take_events([stored(A), removed(A)]))


def test_an_undescribed_store_leaves_the_next_ones_payload_alone() -> None:
    tracker = SelfDescribingEvents()
    tracker.record_store(A, None)
    tracker.record_store(A, payload("1"))
    expected = [("BlockStored", b"a"), ("BlockRemoved", b"a"), ("BlockStored", b"1")]
    assert expected == told(tracker, stored(A), removed(A), stored(A))


def test_when_off_nothing_is_recorded() -> None:
    tracker = SelfDescribingEvents(enabled=False)
    tracker.record_store(A, payload("1"))
    tracker.record_failure([A])
    assert ({}, [("BlockStored", b"a")]) == (tracker._payloads, told(tracker, stored(A)))


def test_payloads_go_with_the_removal_or_the_failure_of_their_key() -> None:
    tracker = SelfDescribingEvents()
    for key in (A, A, B):
        tracker.record_store(key, payload("1"))
    told(tracker, stored(A), removed(A), stored(A), removed(A))
    tracker.record_failure([B])
    assert {} == tracker._payloads


def test_events_of_another_medium_have_no_payload_and_take_none() -> None:
    tracker = SelfDescribingEvents()
    tracker.record_store(A, payload("1"))
    expected = [("BlockStored", b"a"), ("BlockRemoved", b"a"), ("BlockStored", b"1")]
    assert expected == told(tracker, stored(A, medium="STORAGE"), removed(A, medium="STORAGE"), stored(A))


def test_a_removal_of_keys_that_were_never_announced_is_passed_over() -> None:
    event = OffloadingEvent([A], "CPU", removed=True, metadata_only=True)
    assert [] == told(SelfDescribingEvents(), event)


def test_a_reset_forgets_payloads_and_what_was_not_delivered() -> None:
    tracker = SelfDescribingEvents()
    tracker.record_store(A, payload("1"))
    next(iter(tracker.take_events([stored(A, B)])))
    tracker.reset()
    assert [("BlockStored", b"a")] == told(tracker, stored(A))


def test_a_payload_has_a_block() -> None:
    with pytest.raises(ValueError, match="no block hash"):
        BlockPayload((), None, (), 1, group_idx=0)


def test_records_cannot_be_changed_and_have_no_dict() -> None:
    record = BlockRemoved((b"a",), "CPU")
    with pytest.raises(FrozenInstanceError):
        record.medium = "GPU"  # type: ignore[misc]
    assert not hasattr(record, "__dict__")
