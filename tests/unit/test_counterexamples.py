"""Counterexamples as traces: played again, or judged as recorded, they show the same."""

from __future__ import annotations

import json
from collections.abc import Sequence
from itertools import islice

import pytest
from attrs import evolve
from seeded import (
    PROFILE,
    Blind,
    Leaks,
    Miscounts,
    Puppet,
    announce,
    failed,
    holding,
    kind_of,
    kind_of_manager,
    laws,
    load,
    loaded,
    lookup,
    offer,
    stored,
)
from tiered import END, EvictsHits, KeepsPins, done, kind_of_tiers

from evictable.model.calls import Call
from evictable.model.profiles import PROFILES
from evictable.model.trace import Head, Trace, read, write
from evictable.specs.budget import Budget
from evictable.specs.callers.disciplines import CARELESS, CONTRACT, DISCIPLINES, HOSTILE
from evictable.specs.callers.walk import walk
from evictable.specs.counterexamples import judge_recorded, replay, setup_of, trace_of
from evictable.specs.errors import UsageError
from evictable.specs.shrink import Shrinker
from evictable.specs.subjects.base import Setup, SubjectKind
from evictable.specs.subjects.builtin import BUILT_IN

HEAD = Head(capacity=3)


def recorded(kind: SubjectKind, setup: Setup, sequence: Sequence[Call], profile: str = PROFILE) -> Trace:
    """Played, written, and read again."""
    tiers, request_level = setup.tiers, setup.request_level
    head = Head(capacity=setup.capacity, events=setup.events, tiers=tiers, request_level=request_level)
    return read(write(replay(kind, setup, profile, sequence, head)[1]))


@pytest.mark.parametrize(
    ("head", "setup"),
    [
        (Head(capacity=2), Setup(2)),
        (Head(capacity=2, policy="arc", events=False), Setup(2, "arc", events=False)),
        (
            Head(capacity=2, store_threshold=3, max_tracker_size=9),
            Setup(2, store_threshold=3, max_tracker_size=9),
        ),
        (Head(capacity=2, tiers=3, request_level=(0, 2)), Setup(2, tiers=3, request_level=(0, 2))),
    ],
)
def test_how_the_subject_of_a_trace_is_built(head: Head, setup: Setup) -> None:
    assert setup == setup_of(head)


def test_a_counterexample_as_a_trace() -> None:
    kind = kind_of_manager(Miscounts)
    sequence = (*holding(1), lookup("r1", 1), load("r1", 1), loaded("r1", 1))
    found = Shrinker(kind, PROFILE, CONTRACT, "counters-agree").shrink(Setup(3), sequence)
    assert found is not None
    trace = trace_of(kind, found, CONTRACT)
    assert ("seeded", 1, PROFILE, CONTRACT, "counters-agree") == (
        trace.head.subject,
        trace.head.capacity,
        trace.head.profile,
        trace.head.discipline,
        trace.head.law,
    )
    assert found.calls == trace.calls
    assert [1, 2] == [entry.state.num_evictable for entry in trace.entries[-3::2] if entry.state][:1] + [
        entry.state.num_evictable for entry in trace.entries[-1:] if entry.state
    ]


def test_a_replay_ends_with_the_first_broken_law() -> None:
    sequence = (offer("r1", 1), failed("r1", 1), lookup("r1", 1))
    session, trace = replay(kind_of_manager(Leaks), Setup(3), PROFILE, sequence, HEAD)
    assert (["slots-conserved", "drains"], sequence[:2]) == (laws(session.broken), trace.calls)


def test_without_an_inside_the_state_is_the_model_s() -> None:
    _, trace = replay(kind_of(Blind), Setup(3), PROFILE, holding(1), HEAD)
    assert {1: 0} == trace.entries[-1].state.ref_cnt  # type: ignore[union-attr]
    assert (False, False) == (trace.head.inside, read(write(trace)).head.inside)


def test_with_an_inside_the_states_are_the_subject_s() -> None:
    _, trace = replay(BUILT_IN, Setup(3), PROFILE, holding(1), evolve(HEAD, inside=False))
    assert trace.head.inside


def test_states_of_the_model_are_not_taken_for_the_subject_s() -> None:
    wrong = REFUSED | {"state": {"ref_cnt": {"1": -1}}}
    head, *entries = lines(wrong)
    assert ["all-or-nothing"] == laws(judge_recorded(read([head, *entries]), PROFILE))
    outside = json.dumps(json.loads(head) | {"inside": False})
    assert [] == laws(judge_recorded(read([outside, *entries]), PROFILE))


@pytest.mark.parametrize("profile", PROFILES)
@pytest.mark.parametrize("discipline", DISCIPLINES)
@pytest.mark.parametrize("capacity", [2, 20])
def test_what_was_recorded_of_a_good_subject_is_judged_good(profile: str, discipline: str, capacity: int) -> None:
    kind = kind_of(Puppet, profile)
    for session in walk(kind, Setup(capacity), profile, discipline, Budget(max_calls=400), 1, vary_capacity=False):
        if profile != "arc-no-fallback":  # which breaks laws by its rule
            trace = recorded(kind, session.setup, [record.call for record in session.records], profile)
            assert [] == laws(judge_recorded(trace, profile))


@pytest.mark.parametrize("manager", [Leaks, Miscounts])
@pytest.mark.parametrize("capacity", [2, 20])
def test_what_was_recorded_of_a_bad_subject_is_judged_as_bad(manager: type, capacity: int) -> None:
    kind = kind_of_manager(manager)
    sessions = walk(kind, Setup(capacity), PROFILE, CONTRACT, Budget(max_calls=1500), 1, vary_capacity=False)
    broken = [session for session in sessions if session.broken]
    assert broken
    for session in broken:
        trace = recorded(kind, session.setup, [record.call for record in session.records])
        assert laws(session.broken) == laws(judge_recorded(trace, PROFILE))


@pytest.mark.parametrize("discipline", [CONTRACT, CARELESS, HOSTILE])
@pytest.mark.parametrize("capacity", [2, 20])
def test_what_was_recorded_of_good_tiers_is_judged_good(discipline: str, capacity: int) -> None:
    setup = Setup(capacity, tiers=2)
    for session in walk(BUILT_IN, setup, PROFILE, discipline, Budget(max_calls=400), 1, vary_capacity=False):
        trace = recorded(BUILT_IN, session.setup, [record.call for record in session.records])
        assert [record.exchanges for record in session.records] == [entry.exchanges for entry in trace.entries]
        assert [] == laws(judge_recorded(trace, PROFILE))


@pytest.mark.parametrize(
    ("kind", "law"),
    [(kind_of_tiers(KeepsPins), "pin-has-job"), (kind_of_tiers(primary=EvictsHits), "hit-loads")],
    ids=["keeps pins", "evicts hits"],
)
def test_what_was_recorded_of_bad_tiers_is_judged_as_bad(kind: SubjectKind, law: str) -> None:
    setup = Setup(2, tiers=2)
    sessions = walk(kind, setup, PROFILE, CONTRACT, Budget(max_calls=4000), 1, vary_capacity=False)
    broken = list(islice((session for session in sessions if law in laws(session.broken)), 5))
    assert broken
    for session in broken:
        trace = recorded(kind, session.setup, [record.call for record in session.records])
        assert laws(session.broken) == laws(judge_recorded(trace, PROFILE))


def test_a_counterexample_with_tiers_says_how_many() -> None:
    kind = kind_of_tiers(KeepsPins)
    setup = Setup(1, tiers=2)
    sequence = (announce("r1"), offer("r1", 1), stored("r1", 1), done(1), END)
    found = Shrinker(kind, PROFILE, CONTRACT, "pin-has-job").shrink(setup, sequence)
    assert found is not None
    trace = read(write(trace_of(kind, found, CONTRACT)))
    assert (setup, found.calls) == (setup_of(trace.head), trace.calls)
    assert [record.exchanges for record in found.records] == [entry.exchanges for entry in trace.entries]


def lines(*entries: dict[str, object]) -> list[str]:
    return ['{"evictable_trace": 1, "capacity": 2}', *map(json.dumps, entries)]


REFUSED = {"call": "prepare_store", "request": "r", "keys": [1, 2, 3], "returns": None}
HIT = {"call": "lookup", "request": "r", "keys": [1], "returns": "HIT"}


@pytest.mark.parametrize(
    ("entries", "expected"),
    [
        ([], []),
        ([REFUSED], []),
        ([REFUSED | {"state": {"ref_cnt": {}, "order": [], "num_events": 0}}], []),
        ([HIT], ["answer"]),
        ([REFUSED | {"state": {"ref_cnt": {"1": -1}}}], ["all-or-nothing"]),
        ([REFUSED | {"state": {"ref_cnt": {}, "num_events": 1}}], ["all-or-nothing"]),
        (
            [REFUSED | {"state": {"ref_cnt": {"1": 5}}}, HIT],
            ["legal-step", "all-or-nothing"],
        ),  # a state counts where it is
        ([REFUSED | {"state": {"ref_cnt": {}}}, HIT], []),
        ([{"call": "take_events", "returns": None}], ["answer"]),
    ],
)
def test_recorded_answers_are_judged(entries: list[dict[str, object]], expected: list[str]) -> None:
    if len(entries) == 2:
        entries[1] = entries[1] | {"returns": "MISS"}
    assert expected == laws(judge_recorded(read(lines(*entries)), PROFILE))


def test_a_call_without_an_answer_cannot_be_judged() -> None:
    trace = read(lines({"call": "take_events"}))
    with pytest.raises(UsageError, match="line 2: take_events has no recorded answer; replay the calls"):
        judge_recorded(trace, PROFILE)


def test_a_trace_of_another_subject_can_be_replayed_on_ours() -> None:
    trace = recorded(kind_of_manager(Leaks), Setup(2), (announce("r1"), offer("r1", 1), failed("r1", 1)))
    session, _ = replay(BUILT_IN, setup_of(trace.head), PROFILE, (*trace.calls, offer("r1", 2), stored("r1", 2)), HEAD)
    assert () == session.broken
