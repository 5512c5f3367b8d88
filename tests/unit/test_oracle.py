"""What the oracle says is right, what it leaves open, and what it finds wrong."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from seeded import DRAIN, RESET, STATS, announce, failed, finish, load, loaded, lookup, offer, stored, touch

from evictable.model import calls
from evictable.model.calls import Call, Drained, Event, Gauges, Loaded, Raised, Stored
from evictable.model.profiles import PROFILES
from evictable.model.snapshot import Snapshot
from evictable.model.trace import Head, TraceError
from evictable.specs.budget import Budget
from evictable.specs.callers.walk import walk
from evictable.specs.errors import UsageError
from evictable.specs.oracle import Expectation, Oracle, Parted, Stream
from evictable.specs.subjects.base import Setup
from evictable.specs.subjects.builtin import BUILT_IN


def after(*made: Call, capacity: int = 2, profile: str = "auto") -> Oracle:
    oracle = Oracle(Setup(capacity), profile)
    for call in (announce("r1"), announce("r2"), *made):
        oracle.answer(call)
    return oracle


HOLDING = (offer("r1", 0, 1), stored("r1", 0, 1))


@pytest.mark.parametrize(
    ("call", "expected"),
    [
        (lookup("r1", 0), Expectation(calls.HIT)),
        (lookup("r1", 5), Expectation(calls.MISS)),
        (touch("r1", 0), Expectation(None)),
        (load("r1", 1, 0), Expectation(Loaded((1, 0)))),
        (offer("r1", 0), Expectation(Stored((), (), ()))),
        (offer("r1", 5), Expectation(Stored((5,), (0,), (0,)), block_ids=(0,))),
        (offer("r1", 5, 6, 7), Expectation(None)),
        (DRAIN, Expectation(Drained((Event(False, (0, 1)),)))),
        (Call(calls.TAKE_EVENTS, limit=0), Expectation(Drained(()), may_raise=False)),
        (RESET, Expectation(None, may_raise=True)),
        (lookup("r9", 0), Expectation(calls.HIT, may_raise=True)),
        (announce("r1"), Expectation(None, may_raise=True)),
    ],
)
def test_what_is_expected(call: Call, expected: Expectation) -> None:
    assert expected == after(*HOLDING).expect(call)


def test_statistics_are_expected_and_not_used_up() -> None:
    oracle = after(*HOLDING)
    first = oracle.expect(STATS)
    assert isinstance(first.outcome, Gauges)
    assert (2,) == first.outcome.allocation_sizes
    assert first == oracle.expect(STATS)


@pytest.mark.parametrize(
    ("call", "misplaced", "otherwise"),
    [
        (load("r1", 0, 7), (7,), Loaded((0,))),
        (loaded("r1", 0), (0,), None),
        (stored("r1", 0), (0,), None),
        (offer("r1", 7, 7), (7,), Stored((7,), (0,), (0,))),
    ],
)
def test_of_bad_keys_it_allows_two_things(call: Call, misplaced: tuple[int, ...], otherwise: object) -> None:
    oracle = after(*HOLDING)
    expected = oracle.expect(call)
    assert (misplaced, otherwise) == (expected.misplaced, expected.otherwise)
    assert isinstance(expected.outcome, Raised)
    assert () == after(*HOLDING).observe(call, expected.outcome)
    assert () == after(*HOLDING).observe(call, expected.otherwise)


def test_under_any_every_idle_key_may_go() -> None:
    oracle = after(*HOLDING, profile="any")
    call = offer("r1", 5)
    assert (0, 1) == oracle.expect(call).evicted_keys
    assert () == oracle.observe(call, Stored((5,), (1,), (1,)))


def test_under_an_order_they_may_not() -> None:
    (broken,) = after(*HOLDING).observe(offer("r1", 5), Stored((5,), (1,), (1,)))
    assert "evict-order" == broken.law.id


def test_any_free_slot_will_do() -> None:
    assert () == after(capacity=4).observe(offer("r1", 5), Stored((5,), (3,), ()))


def test_a_state_is_judged_too() -> None:
    oracle = after(offer("r1", 0))
    (broken, *_) = oracle.observe(stored("r1", 0), None, Snapshot({0: 0}, {0: 0}, (), full=True))
    assert "evictable-iff-idle" == broken.law.id


def test_a_state_is_judged_of_large_caches() -> None:
    oracle = after(offer("r1", 0), capacity=100)
    assert () == oracle.observe(stored("r1", 0), None, Snapshot({0: 0}, {0: 0}, (0,), full=True))


def test_after_a_broken_law_nothing_can_be_told() -> None:
    oracle = after()
    assert oracle.observe(lookup("r1", 0), calls.HIT)
    with pytest.raises(Parted):
        oracle.expect(DRAIN)
    with pytest.raises(Parted):
        oracle.observe(DRAIN, Drained(()))


def test_expecting_changes_nothing() -> None:
    oracle, other = (after(*HOLDING, lookup("r1", 0), profile="arc-request") for _ in range(2))
    for call in (offer("r2", 5), offer("r1", 5, 6, 7), load("r1", 0), lookup("r1", 3), STATS, DRAIN, RESET):
        oracle.expect(call)
    assert other.state == oracle.state


def test_a_profile_that_breaks_a_law_by_itself_is_told() -> None:
    oracle = after(*HOLDING, failed("r1"), profile="arc-no-fallback")
    oracle.model.order.target = 2.0  # type: ignore[attr-defined]
    oracle.model.order._promote(0)  # type: ignore[attr-defined]
    oracle.answer(load("r1", 0))
    assert "no-false-refusal" == oracle.expect(offer("r2", 5)).breaks


@pytest.mark.parametrize("profile", [profile for profile in PROFILES if profile != "arc-no-fallback"])
@pytest.mark.parametrize("threshold", [1, 2])
def test_whatever_is_called_its_own_answers_are_right(profile: str, threshold: int) -> None:
    """Answers only, careless callers, positions and tickets included: as its calls come from a search."""
    setup = Setup(2, store_threshold=threshold, max_tracker_size=3)
    budget = Budget(max_calls=250)
    for session in walk(BUILT_IN, setup, "any", "careless", budget, 1, vary_capacity=True, vary_tracker=False):
        oracle = Oracle(session.setup, profile)
        for record in session.records:
            oracle.answer(record.call)
        assert not oracle.parted


def test_an_unknown_profile_and_tiers_are_one_line() -> None:
    with pytest.raises(UsageError, match="unknown profile 'x'; known: auto, lru-scan"):
        Oracle(Head(2), "x")
    with pytest.raises(UsageError, match="record the answers instead"):
        Oracle(Head(2, tiers=1)).expect(Call(calls.ON_SCHEDULE_END))


HEAD = '{"evictable_trace": 1, "capacity": 1}'


def said(stream: Stream, *lines: str) -> list[dict[str, object]]:
    return [stream.answer(number, line) for number, line in enumerate(lines, 1)]


def test_lines_are_answered_and_judged() -> None:
    stream = Stream()
    hello, stored_, refused, right, wrong, after_ = said(
        stream,
        '{"evictable_trace": 1, "capacity": 2, "state": false}',
        '{"call": "prepare_store", "request": "r1", "keys": [3]}',
        '{"call": "prepare_load", "request": "r1", "keys": [3]}',
        '{"call": "lookup", "request": "r1", "keys": [3], "returns": "HIT_PENDING"}',
        '{"call": "lookup", "request": "r1", "keys": [3], "returns": "HIT"}',
        '{"call": "take_events"}',
    )
    assert (1, "lru-evictable") == (hello["evictable_stdio"], hello["profile"])
    assert {
        "returns": {"keys_to_store": [3], "block_ids": [0], "evicted_keys": []},
        "may_raise": True,
        "free": {"block_ids": [0, 1]},
    } == stored_
    assert ("Refused", [3], {"returns": {"block_ids": []}}) == (
        refused["raises"],
        refused["misplaced"],
        refused["or"],
    )
    assert {"right": True} == right
    assert (False, "answer") == (wrong["right"], wrong["broken"][0]["law"])  # type: ignore[index]
    assert {"right": None, "message": "not judged: model and manager have parted in line 5"} == after_
    assert 1 == stream.num_broken


def test_a_head_begins_anew() -> None:
    stream = Stream()
    call = '{"call": "lookup", "request": "r1", "keys": [3], "returns": "HIT"}'
    assert [False, False] == [said(stream, HEAD, call)[1]["right"] for _ in range(2)]


@pytest.mark.parametrize(
    ("lines", "problem"),
    [
        (("{",), "line 1: not a JSON object"),
        (('{"call": "take_events"}',), "line 1: no head line"),
        ((HEAD, '{"call": "leap"}'), "line 2: unknown call"),
        ((HEAD, '{"call": "on_schedule_end"}'), "line 2: on_schedule_end needs tiers"),
        (('{"evictable_trace": 1, "capacity": 1, "profile": "x"}',), "line 1: unknown profile"),
    ],
)
def test_a_bad_line_is_named(lines: tuple[str, ...], problem: str) -> None:
    with pytest.raises(TraceError) as error:
        said(Stream(), *lines)
    assert str(error.value).startswith(problem)


def test_answers_are_json() -> None:
    oracle = after(*HOLDING, finish("r1"))
    assert "{" == json.dumps(oracle.expect(DRAIN).record())[0]


def test_where_no_law_says_what_is_wrong_the_line_has_no_verdict(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("evictable.specs.judge.LAWS", ())
    stream = Stream()
    wrong = '{"call": "lookup", "request": "r1", "keys": [3], "returns": "HIT"}'
    _, told, after_ = said(stream, HEAD, wrong, wrong)
    assert told["right"] is None
    assert str(told["message"]).startswith("no law says what is wrong, report this to evictable: lookup(3")
    assert {"right": None, "message": "not judged: model and manager have parted in line 2"} == after_
    assert (0, 1) == (stream.num_broken, stream.num_unexplained)


def test_the_session_in_the_documentation_is_what_the_oracle_says() -> None:
    text = (Path(__file__).resolve().parents[2] / "docs" / "implementers.md").read_text()
    session = text.split("Lines in (`>`) and out:\n\n```\n")[1].split("\n```")[0].splitlines()
    asked, shown = session[::2], session[1::2]
    stream = Stream()
    answers = [json.dumps(stream.answer(number, line.removeprefix("> "))) for number, line in enumerate(asked, 1)]
    assert 6 == len(answers)
    for answer, line in zip(answers, shown, strict=True):
        assert re.fullmatch(re.escape(line).replace(r"\.\.\.", ".*"), answer)
