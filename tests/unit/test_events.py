"""What a consumer of the event stream is told: once, whole, and in the end the truth."""

from __future__ import annotations

from collections.abc import Iterable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evictable.model.calls import Event
from evictable.model.events import EventLedger


def stored(*keys: int) -> Event:
    return Event(False, keys)


def removed(*keys: int) -> Event:
    return Event(True, keys)


def faults(ledger: EventLedger, *events: Event, whole: bool = True) -> list[str]:
    return [fault.law for fault in ledger.delivered(events, whole=whole)]


def after(*facts: Event) -> EventLedger:
    """A ledger that waits for these facts."""
    ledger = EventLedger()
    for fact in facts:
        (ledger.removed if fact.removed else ledger.stored)(fact.keys)
    return ledger


@pytest.mark.parametrize(
    "told",
    [
        [stored(1, 2), removed(1)],
        [stored(2), stored(1), removed(1)],
        [stored(1), removed(1), stored(2)],
    ],
    ids=str,
)
def test_facts_may_be_gathered_and_keys_interleaved(told: list[Event]) -> None:
    assert [] == faults(after(stored(1), stored(2), removed(1)), *told)


@pytest.mark.parametrize(
    ("told", "expected"),
    [
        ([], ["events-once", "events-replay"]),
        ([stored(1)], ["events-once", "events-replay"]),
        ([stored(1), stored(2), stored(2)], ["events-once"]),
        ([stored(1), removed(1), stored(2)], ["events-once", "events-replay"]),
        ([stored(1, 2), removed(3)], ["events-once"]),
        ([stored(1, 2), stored(3)], ["events-once", "events-replay"]),
    ],
    ids=str,
)
def test_a_drain_that_lacks_or_repeats_or_invents(told: list[Event], expected: list[str]) -> None:
    assert expected == faults(after(stored(1), stored(2)), *told)


def test_a_fault_says_what_was_expected_and_of_which_key() -> None:
    ledger = after(stored(1))
    (lost, apart) = ledger.delivered((), whole=True)
    assert ("an event about each of [1]", "the drain ends without it", (1,)) == (
        lost.expected,
        lost.observed,
        lost.keys,
    )
    assert ("of [1] ready: [1]", "the consumer believes in: []") == (apart.expected, apart.observed)
    (repeated,) = after(stored(1)).delivered((stored(1), stored(1)), whole=True)
    assert ("no further event about 1", "'stored 1' is delivered") == (repeated.expected, repeated.observed)


def test_a_removal_cannot_come_before_its_store() -> None:
    assert ["events-once", "events-once"] == faults(after(stored(1), removed(1)), removed(1), stored(1))[:2]


def test_a_dropped_drain_owes_the_rest_to_the_next() -> None:
    ledger = after(stored(1), stored(2))
    assert [] == faults(ledger, stored(1), whole=False)
    assert [] == faults(ledger, stored(2))


def test_a_dropped_drain_does_not_excuse_a_repetition() -> None:
    ledger = after(stored(1), stored(2))
    assert [] == faults(ledger, stored(1), whole=False)
    assert ["events-once"] == faults(ledger, stored(1), stored(2))


def test_the_clean_up_of_a_failed_store_changes_nothing() -> None:
    assert [] == faults(after(), Event(True, (1,), metadata_only=True))


def test_a_clean_up_must_not_take_a_ready_key_from_the_consumer() -> None:
    assert ["events-once", "events-replay"] == faults(
        after(stored(1)), stored(1), Event(True, (1,), metadata_only=True)
    )


@pytest.mark.parametrize("medium", [None, "CPU", "DRAM"])
def test_what_a_manager_calls_its_medium_is_its_own_affair(medium: str | None) -> None:
    assert [] == faults(after(stored(1)), Event(False, (1,), medium=medium))


@pytest.mark.parametrize(("drained", "undrained"), [(False, True), (True, False)])
def test_undrained_until_a_whole_drain(drained: bool, undrained: bool) -> None:
    ledger = after(stored(1))
    if drained:
        faults(ledger, stored(1))
    assert undrained == ledger.undrained


# A reset may discard what was not drained, or leave it to be told late. `S` is a store of key 1, `R` its removal.


def told(facts: str) -> list[Event]:
    return [stored(1) if fact == "S" else removed(1) for fact in facts]


@pytest.mark.parametrize(
    ("before", "after_reset", "delivered", "expected"),
    [
        ("S", "", "", []),
        ("S", "S", "S", []),
        ("SR", "S", "S", []),
        ("SR", "S", "SRS", []),
        ("SR", "", "SR", []),
        ("S", "", "S", ["events-replay"]),
        ("S", "S", "SS", []),
        ("S", "S", "SSS", ["events-once"]),
        ("SR", "S", "SR", ["events-once", "events-replay"]),
        ("S", "S", "", ["events-once", "events-replay"]),
    ],
)
def test_over_a_reset(before: str, after_reset: str, delivered: str, expected: list[str]) -> None:
    ledger = after(*told(before))
    ledger.reset()
    assert not ledger.undrained
    for fact in told(after_reset):
        (ledger.removed if fact.removed else ledger.stored)(fact.keys)
    assert expected == faults(ledger, *told(delivered))


def test_after_a_whole_drain_nothing_is_told_late() -> None:
    ledger = after(stored(1))
    ledger.reset()
    assert [] == faults(ledger)
    assert ["events-once", "events-replay"] == faults(ledger, stored(1))


@given(
    st.lists(st.tuples(st.booleans(), st.integers(0, 3)), max_size=20),
    st.lists(st.integers(0, 6), max_size=6),
)
def test_a_queue_that_is_drained_in_any_portions_is_faultless(
    changes: list[tuple[bool, int]], portions: Iterable[int]
) -> None:
    ledger, ready, queue = EventLedger(), set[int](), list[Event]()
    for leaves, key in changes:
        if leaves == (key in ready):
            (ledger.removed if leaves else ledger.stored)((key,))
            ready ^= {key}
            queue.append(Event(leaves, (key,)))
    for portion in portions:
        assert [] == faults(ledger, *queue[:portion], whole=False)
        del queue[:portion]
    assert [] == faults(ledger, *queue)
