"""Is what was put to the test counted, and is a search that missed what matters inconclusive?"""

from __future__ import annotations

import pytest
from attrs import evolve
from seeded import DRAIN, PROFILE, RESET, announce, failed, holding, load, loaded, lookup, offer, stored

from evictable.model.lifecycle import ABSENT, IDLE, PENDING, ROWS, IllegalStep, row_between, rows_between
from evictable.specs.callers.disciplines import CONTRACT, HOSTILE
from evictable.specs.exercise import NO_ROOM, Exercise
from evictable.specs.search import CONFORMS, INCONCLUSIVE, RANDOM, Search, Task
from evictable.specs.session import play
from evictable.specs.subjects.base import Setup
from evictable.specs.subjects.builtin import BUILT_IN

TWO_PINS = (lookup("r1", 1), load("r1", 1), load("r2", 1), loaded("r1", 1), loaded("r2", 1))


@pytest.mark.parametrize(
    ("before", "after", "row"),
    [
        (ABSENT, PENDING, "begin store"),
        (PENDING, IDLE, "commit store"),
        (PENDING, ABSENT, "abort store"),
        (IDLE, 1, "pin an idle block"),
        (IDLE, 2, "pin an idle block"),
        (1, 2, "pin a pinned block"),
        (2, 1, "unpin"),
        (2, IDLE, "unpin for the last time"),
        (IDLE, ABSENT, "evict"),
    ],
)
def test_each_row_is_told_by_its_ends(before: int | None, after: int | None, row: str) -> None:
    assert row == row_between(before, after)


@pytest.mark.parametrize(("before", "after"), [(ABSENT, IDLE), (PENDING, 1), (1, ABSENT), (IDLE, PENDING), (1, 1)])
def test_what_is_no_row_is_told(before: int | None, after: int | None) -> None:
    with pytest.raises(IllegalStep, match="from ref_cnt"):
        row_between(before, after)


def exercised_by(*sequence: object) -> Exercise:
    exercise = Exercise()
    session = play(BUILT_IN, Setup(1), PROFILE, sequence)  # type: ignore[arg-type]
    assert () == session.broken
    exercise.observe(session)
    return exercise


def test_every_row_is_counted() -> None:
    exercise = exercised_by(*holding(1), *TWO_PINS, offer("r1", 2), failed("r1", 2), offer("r1", 3), DRAIN, RESET)
    expected = dict.fromkeys(ROWS, 1) | {"begin store": 3}
    assert (expected, ()) == (dict(exercise.rows), exercise.missing_rows)


def test_what_did_not_occur_is_named() -> None:
    assert ("abort store", "reset") == exercised_by(*holding(1), *TWO_PINS, offer("r1", 2)).missing_rows


def test_refusals_are_counted_by_their_reasons() -> None:
    exercise = exercised_by(announce("r1"), offer("r1", 1), offer("r1", 2), load("r1", 7), load("r1", 1))
    expected = {
        ("prepare_store", NO_ROOM): 1,
        ("prepare_load", "KeyNotResident"): 1,
        ("prepare_load", "NotReady"): 1,
    }
    assert expected == exercise.refusals


def test_consecutive_calls_and_calls_of_two_requests_are_counted_over_runs() -> None:
    exercise = exercised_by(announce("r1"), announce("r2"), offer("r1", 1), stored("r1", 1))
    exercise.observe(play(BUILT_IN, Setup(1), PROFILE, (announce("r2"), announce("r1"))))
    pair = ("on_new_request", "on_new_request")
    assert (2, 2) == (exercise.consecutive[pair], exercise.pairs.directly[pair])
    assert (1, 0) == (
        exercise.consecutive["prepare_store", "complete_store"],
        exercise.pairs.directly["prepare_store", "complete_store"],
    )
    record = exercise.record()
    assert (2, 2, 1) == (
        record["runs"],
        record["laws"]["answer"],
        record["consecutive"]["on_new_request"]["prepare_store"],
    )


def searched(discipline: str, max_calls: int) -> Search:
    search = Search(Task(BUILT_IN, Setup(3), PROFILE, discipline))
    search.run((RANDOM,), max_calls, None)
    return search


def test_a_search_that_met_everything_conforms() -> None:
    search = searched(CONTRACT, 3000)
    assert (CONFORMS, ()) == (search.verdict, search.untouched)
    assert () == search.exercise.pairs.missing()


def test_a_search_without_a_row_is_inconclusive() -> None:
    search = searched(CONTRACT, 3000)
    del search.exercise.rows["pin an idle block"]
    assert (INCONCLUSIVE, ("pin an idle block",)) == (search.verdict, search.untouched)


def test_a_hostile_search_in_which_nothing_raised_is_inconclusive() -> None:
    assert CONFORMS == searched(HOSTILE, 3000).verdict
    kind = evolve(BUILT_IN, make=lambda setup: _Deaf(BUILT_IN.make(setup)))
    search = Search(Task(kind, Setup(3), PROFILE, HOSTILE))
    search.run((RANDOM,), 3000, None)
    assert (INCONCLUSIVE, ("any fault",)) == (search.verdict, search.untouched)


class _Deaf:
    """A subject under which no fault is ever laid."""

    def __init__(self, subject: object) -> None:
        self._subject = subject

    def perform(self, call: object) -> object:
        return self._subject.perform(evolve(call, raises_in=None))  # type: ignore[attr-defined,type-var]

    def __getattr__(self, name: str) -> object:
        return getattr(self._subject, name)


@pytest.mark.parametrize(
    ("before", "after", "rows"),
    [
        (PENDING, 2, ("commit store", "pin an idle block")),
        (1, ABSENT, ("unpin for the last time", "evict")),
        (2, PENDING, ("unpin for the last time", "evict", "begin store")),
        (ABSENT, 1, ("begin store", "commit store", "pin an idle block")),
        (IDLE, PENDING, ("evict", "begin store")),
        (ABSENT, PENDING, ("begin store",)),
    ],
)
def test_a_call_above_tiers_may_take_several_rows(before: int | None, after: int | None, rows: tuple[str, ...]) -> None:
    assert rows == rows_between(before, after)
