"""What lies in the slots: whose data is read, and who writes where somebody else is at work."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from evictable.model.breach import Breach
from evictable.model.transfers import LAW, Slots, Transfer


def holding(key: int, slot: int) -> Slots:
    slots = Slots()
    assert [] == slots.begin_write("a store", [key], [slot])
    slots.end("a store", [key], [slot], [key])
    return slots


def test_what_was_written_whole_may_be_read() -> None:
    slots = holding(1, 0)
    assert [] == slots.begin_read("a load", [1], [0])


def test_several_may_read_at_a_time() -> None:
    slots = holding(1, 0)
    assert [] == slots.begin_read("a load", [1], [0]) + slots.begin_read("job 0", [1], [0])


def written_in_part() -> Slots:
    slots = Slots()
    slots.begin_write("job 0", [1, 2], [0, 1])
    slots.end("job 0", [1, 2], [0, 1], [2])
    return slots


def being_written() -> Slots:
    slots = Slots()
    slots.begin_write("job 0", [1], [0])
    return slots


def written_again() -> Slots:
    slots = holding(1, 0)
    slots.begin_write("job 0", [2], [0])
    slots.end("job 0", [2], [0], [])
    return slots


def flushed() -> Slots:
    slots = holding(1, 0)
    slots.flushed([])
    return slots


@pytest.mark.parametrize(
    ("slots", "observed"),
    [
        (Slots, "slot 0 holds nothing that was written"),
        (written_in_part, "slot 0 holds nothing that was written"),
        (being_written, "slot 0 holds nothing that was written"),
        (written_again, "slot 0 holds nothing that was written"),
        (flushed, "slot 0 holds nothing that was written"),
        (lambda: holding(2, 0), "slot 0 holds that of 2"),
    ],
    ids=["never", "in part", "not yet", "since", "before a reset", "of another key"],
)
def test_what_was_not_written_must_not_be_read(slots: Callable[[], Slots], observed: str) -> None:
    expected = [Breach(LAW, "a load reads 1 where its data is", observed, (1,))]
    assert expected == slots().begin_read("a load", [1], [0])


def test_of_a_transfer_in_part_what_arrived_may_be_read() -> None:
    assert [] == written_in_part().begin_read("a load", [2], [1])


@pytest.mark.parametrize("writes", [True, False])
def test_nobody_writes_where_somebody_is_at_work(writes: bool) -> None:
    slots = holding(1, 0)
    (slots.begin_write if writes else slots.begin_read)("job 0", [1], [0])
    there = f"job 0 {'writes' if writes else 'reads'} 1 there too"
    expected = [Breach(LAW, "slot 0 is written by a store alone", there, (2, 1))]
    assert expected == slots.begin_write("a store", [2], [0])


def test_nobody_reads_where_somebody_writes_what_is_there_already() -> None:
    slots = holding(1, 0)
    slots.under_way[0] = [Transfer("job 0", 1, writes=True)]
    expected = [Breach(LAW, "nobody writes slot 0 while a load reads it", "job 0 writes 1", (1,))]
    assert expected == slots.begin_read("a load", [1], [0])


def test_each_slot_is_judged_for_itself() -> None:
    slots = holding(1, 0)
    assert [(2,), (3,)] == [breach.keys for breach in slots.begin_read("a load", [1, 2, 3], [0, 1, 2])]


def test_what_has_ended_is_in_nobodys_way() -> None:
    slots = holding(1, 0)
    slots.begin_read("a load", [1], [0])
    slots.end("a load", [1], [0], [])
    assert [] == slots.begin_write("a store", [2], [0])


def test_a_reader_that_ends_has_written_nothing() -> None:
    slots = holding(1, 0)
    slots.begin_read("a load", [1], [0])
    slots.contents.clear()
    slots.end("a load", [1], [0], [1])
    assert {} == slots.contents


def test_two_readers_of_one_name_end_one_by_one() -> None:
    slots = holding(1, 0)
    slots.begin_read("a load", [1, 1], [0, 0])
    slots.end("a load", [1], [0], [])
    assert [Transfer("a load", 1, writes=False)] == slots.under_way[0]


@pytest.mark.parametrize(("owner", "key", "slot"), [("job 1", 1, 0), ("job 0", 2, 0), ("job 0", 1, 7)])
def test_the_end_of_what_has_not_begun_changes_nothing(owner: str, key: int, slot: int) -> None:
    slots = being_written()
    slots.end(owner, [key], [slot], [key])
    assert ({}, [Transfer("job 0", 1, writes=True)]) == (slots.contents, slots.under_way[0])


def test_a_reset_flushes_the_transfers_of_requests() -> None:
    slots = being_written()
    assert [] == slots.flushed([])
    assert [] == slots.begin_write("a store", [2], [0])


def test_what_goes_on_after_a_reset_is_wrong_and_in_the_way() -> None:
    slots = being_written()
    expected = [Breach(LAW, "no transfer goes on after a reset", "job 0 writes 1 in slot 0", (1,))]
    assert expected == slots.flushed(["job 0"])
    assert 1 == len(slots.begin_write("a store", [2], [0]))
