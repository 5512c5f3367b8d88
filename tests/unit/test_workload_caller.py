"""A production workload: well-formed requests only, and a scheduler that keeps the contract."""

from __future__ import annotations

import json

import pytest
from attrs import define, field
from hypothesis import given
from hypothesis import strategies as st

from evictable.model import calls
from evictable.model.calls import Call, Key, Outcome
from evictable.specs.callers.disciplines import CONTRACT
from evictable.specs.callers.workload import Tally, Workload, read_requests
from evictable.specs.errors import UsageError
from evictable.specs.session import Session
from evictable.specs.subjects.base import Setup
from evictable.specs.subjects.builtin import BUILT_IN

Requests = list[tuple[Key, ...]]


@define
class Judged:
    """Makes the calls of a workload in a session, and minds the contract."""

    session: Session
    breaches: list[str] = field(factory=list)

    def __call__(self, call: Call) -> Outcome:
        breach = self.session.promises.breach(call, CONTRACT)
        self.breaches += [breach] if breach else []
        return self.session.step(call)


def run(requests: Requests, capacity: int = 3, **options: int) -> tuple[Judged, list[Tally]]:
    perform = Judged(Session.begin(BUILT_IN, Setup(capacity), "lru-evictable", CONTRACT))
    return perform, list(Workload(perform, capacity, **options).run(requests))  # type: ignore[arg-type]


def names(judged: Judged) -> list[str]:
    return [record.call.name for record in judged.session.records]


BLOCKS = st.lists(st.integers(0, 6), max_size=6, unique=True).map(tuple)


@given(st.lists(BLOCKS, max_size=12), st.integers(1, 4), st.integers(0, 4))
def test_it_keeps_the_contract_and_comes_to_rest(requests: Requests, capacity: int, delay: int) -> None:
    judged, tallies = run(requests, capacity, delay=delay, drain_every=3)
    assert ([], (), True) == (judged.breaches, judged.session.broken, judged.session.promises.at_rest)
    assert (len(requests), len(judged.session.records)) == (tallies[-1].requests, tallies[-1].calls)
    assert len(requests) + 1 == len(tallies)


def test_what_a_request_does() -> None:
    judged, _ = run([(1, 2), (1, 2, 3)], delay=0)
    first = [calls.ON_NEW_REQUEST, calls.LOOKUP, calls.PREPARE_STORE, calls.ON_REQUEST_FINISHED, calls.COMPLETE_STORE]
    loads = [calls.TOUCH, calls.PREPARE_LOAD, calls.PREPARE_STORE, calls.ON_REQUEST_FINISHED]
    ends = [calls.COMPLETE_LOAD, calls.COMPLETE_STORE]
    assert [*first, calls.ON_NEW_REQUEST, *[calls.LOOKUP] * 3, *loads, *ends] == names(judged)


def test_what_is_counted() -> None:
    _, tallies = run([(1, 2), (1, 2, 3), (4, 5), ()], delay=0)
    last = tallies[-1]
    assert (4, 7, 2, 5, 2, 0) == (
        last.requests,
        last.looked_up,
        last.hits,
        last.stored,
        last.evicted,
        last.refusals,
    )
    assert 2 / 7 == last.hit_rate


def test_nothing_referred_to_is_no_hit() -> None:
    assert 0.0 == run([])[1][-1].hit_rate


def test_completions_come_some_requests_later() -> None:
    judged, tallies = run([(1,), (2,), (3,)], delay=1)
    ended = [place for place, name in enumerate(names(judged)) if name == calls.COMPLETE_STORE]
    assert (3, tallies[-2].calls + 1) == (len(ended), tallies[-1].calls)


def test_a_refusal_is_counted_and_passed_over() -> None:
    _, tallies = run([(1, 2), (3, 4)], capacity=2, delay=5)
    assert (1, 2) == (tallies[-1].refusals, tallies[-1].stored)


def test_no_more_is_offered_than_a_cache_can_hold() -> None:
    judged, _ = run([tuple(range(9))], capacity=2)
    assert [2] == [len(record.call.keys) for record in judged.session.records if record.call.name == "prepare_store"]


@pytest.mark.parametrize(("events", "drains"), [(True, 2), (False, 0)])
def test_events_are_drained_now_and_then(events: bool, drains: int) -> None:
    judged = Judged(Session.begin(BUILT_IN, Setup(3), "lru-evictable", CONTRACT))
    list(Workload(judged, 3, events=events, drain_every=2).run([(1,)] * 5))
    assert drains == names(judged).count(calls.TAKE_EVENTS)


def test_a_run_can_be_stopped() -> None:
    made: list[Call] = []

    def perform(call: Call) -> Outcome:
        made.append(call)
        return None

    run = Workload(perform, 3, stop=lambda: len(made) > 6)
    assert [1, 2] == [tally.requests for tally in run.run([(1,), (2,), (3,)])]


def test_a_stop_leaves_completions_undone() -> None:
    judged = Judged(Session.begin(BUILT_IN, Setup(3), "lru-evictable", CONTRACT))
    stopping = Workload(judged, 3, stop=lambda: len(judged.session.records) >= 4)
    (last,) = stopping.run([(1,), (2,)])
    assert (1, 4, False) == (last.requests, last.calls, judged.session.promises.at_rest)


# --- reading --------------------------------------------------------------------------------------


def test_each_block_of_a_request_counts_once() -> None:
    lines = ['{"timestamp": 0, "hash_ids": [3, 1, 3]}\n', "\n", '{"hash_ids": []}']
    assert [(3, 1), ()] == list(read_requests(lines, "file"))


@pytest.mark.parametrize(
    "line",
    [
        "x",
        "3",
        "[]",
        "{}",
        "[" * 100_000,
        '{"hash_ids": 3}',
        '{"hash_ids": [-1]}',
        '{"hash_ids": [1.0]}',
        '{"hash_ids": [true]}',
        '{"hash_ids": ["a"]}',
        json.dumps({"hash_ids": [2**64]}),
    ],
    ids=lambda line: line[:20],
)
def test_a_bad_line_is_refused_with_its_number(line: str) -> None:
    with pytest.raises(UsageError, match="file:3: not a request of the Mooncake format"):
        list(read_requests(['{"hash_ids": [1]}', "", line], "file"))
