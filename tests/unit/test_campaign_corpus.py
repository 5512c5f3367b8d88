"""Runs that begin with a trace of the corpus: whoever made it, the caller keeps its own promises."""

from __future__ import annotations

from itertools import islice
from random import Random

import pytest
from attrs import evolve
from seeded import PROFILE

from evictable.model import calls
from evictable.model.calls import Call
from evictable.model.trace import Entry, Head, Trace
from evictable.specs.budget import Budget
from evictable.specs.callers.disciplines import CARELESS, CONTRACT, DISCIPLINES, Promises
from evictable.specs.callers.walk import walk
from evictable.specs.campaign.corpus import altered, extensions, fitted
from evictable.specs.campaign.features import Bits
from evictable.specs.campaign.scout import Scout
from evictable.specs.session import RESTING, Session
from evictable.specs.subjects.base import Setup
from evictable.specs.subjects.builtin import BUILT_IN

STORE = Call(calls.PREPARE_STORE, (0,), "r1")


def traces_of(discipline: str, tiers: int = 0) -> list[Trace]:
    setup = Setup(3, tiers=tiers)
    budget = Budget(400)
    runs = walk(BUILT_IN, setup, PROFILE, discipline, budget, 3, vary_capacity=True)
    head = Head(3, tiers=tiers)
    return [Trace(head, tuple(Entry(one.call) for one in run.records)) for run in runs]


def begun(discipline: str = CONTRACT, tiers: int = 0) -> Session:
    session = Session.begin(BUILT_IN, Setup(2, tiers=tiers), PROFILE, discipline)
    session.step(Call(calls.ON_NEW_REQUEST, request="r1"))
    return session


@pytest.mark.parametrize("tiers", [0, 1])
@pytest.mark.parametrize("discipline", DISCIPLINES)
def test_promises_are_kept_whoever_made_the_trace(discipline: str, tiers: int) -> None:
    parents, budget = traces_of(CARELESS, tiers), Budget(1500)
    runs = list(extensions(BUILT_IN, Setup(3, tiers=tiers), PROFILE, discipline, parents, budget, 1))
    assert 1500 <= budget.calls
    for run in runs:
        promises = Promises(events=run.setup.events, tiers=tiers)
        for record in run.records:
            assert promises.breach(record.call, discipline) is None
            promises.observe(record.call, record.outcome, record.exchanges)
        assert () == run.broken


def test_one_seed_and_a_budget_of_calls_are_one_run() -> None:
    parents = traces_of(CONTRACT)
    one, other = (
        [run.records for run in extensions(BUILT_IN, Setup(3), PROFILE, CONTRACT, parents, Budget(500), 7)]
        for _ in range(2)
    )
    assert one == other


def test_the_parents_are_played_as_they_are_first() -> None:
    made = (Call(calls.ON_NEW_REQUEST, request="r1"), STORE)
    parents = [Trace(Head(2), tuple(map(Entry, made)))] * 2
    for seed in range(5):
        runs = extensions(BUILT_IN, Setup(2), PROFILE, CONTRACT, parents, Budget(200), seed)
        begun = [tuple(record.call for record in run.records[:2]) for run in islice(runs, len(parents))]
        assert [made, made] == begun


def test_a_neighbour_differs_and_names_nothing_new() -> None:
    made = (Call(calls.ON_NEW_REQUEST, request="r1"), STORE, Call(calls.COMPLETE_STORE, (0,), "r1"))
    neighbours = {altered(Random(seed), made, ()) for seed in range(40)}
    assert len(neighbours) > 10
    assert {"r1"} == {call.request for neighbour in neighbours for call in neighbour}


def test_a_fault_is_for_hostile_callers_only() -> None:
    raising = evolve(STORE, raises_in="policy.insert")
    assert STORE == fitted(begun(), raising)


def test_what_is_no_call_here_is_left_out() -> None:
    session = begun()
    gone = (
        Call(calls.COMPLETE_STORE, (0,), "r1"),
        Call(calls.FILL_TIER, (0,), tier=0),
        Call(calls.ON_NEW_REQUEST, request=RESTING[0]),
    )
    assert [None, None, None] == [fitted(session, call) for call in gone]


def test_names_of_peers_are_their_own() -> None:
    session = begun(CARELESS, tiers=2)
    asks = Call(calls.PEER_LOOKUP, (0,), "p1", tier=0)
    assert asks == fitted(session, asks)
    session.step(asks)
    others = (evolve(asks, tier=1), evolve(asks, request="r1"), Call(calls.LOOKUP, (0,), "p1"))
    assert [None, None, None] == [fitted(session, call) for call in others]


def test_a_job_that_nobody_submitted_does_not_end() -> None:
    assert fitted(begun(tiers=1), Call(calls.FINISH_JOB, (0,), job=0)) is None


def test_a_swarm_leaves_calls_out() -> None:
    scout = Scout(BUILT_IN, PROFILE, CONTRACT, frozenset({calls.TOUCH, calls.PREPARE_LOAD}), Bits(), {})
    runs = list(walk(BUILT_IN, Setup(3), PROFILE, CONTRACT, Budget(800), 1, vary_capacity=True, begin=scout.begin))
    names = {record.call.name for run in runs for record in run.records[: run.before_rest]}  # type: ignore[attr-defined]
    assert set() == names & {calls.TOUCH, calls.PREPARE_LOAD}
    assert calls.LOOKUP in names


def test_a_scout_keeps_what_is_new_and_nothing_twice() -> None:
    def scouted(known: Bits) -> Scout:
        scout = Scout(BUILT_IN, PROFILE, CONTRACT, frozenset(), known, {})
        for run in walk(BUILT_IN, Setup(3), PROFILE, CONTRACT, Budget(300), 1, vary_capacity=True, begin=scout.begin):
            scout.take(run)
        return scout

    first = scouted(Bits())
    assert 0 < len(first.kept)
    assert [] == scouted(first.new).kept
