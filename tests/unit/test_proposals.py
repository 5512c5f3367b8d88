"""Proposed calls keep the promises of the discipline, and everything that can be done or done wrong turns up."""

from __future__ import annotations

from itertools import pairwise
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from seeded import PROFILE, Puppet, kind_of

from evictable.model import calls
from evictable.model.calls import Call
from evictable.model.exchanges import Exchange, Submitted
from evictable.specs.budget import Budget
from evictable.specs.callers.disciplines import CARELESS, CONTRACT, DISCIPLINES, HOSTILE
from evictable.specs.callers.proposals import (
    ACTIONS,
    ESSENTIAL,
    ESSENTIAL_WITH_TIERS,
    MISTAKES,
    TIER_ACTIONS,
    TIER_FAULT,
    Proposer,
    mistakes_of,
)
from evictable.specs.callers.walk import walk
from evictable.specs.session import Session
from evictable.specs.subjects.base import Setup
from evictable.specs.subjects.builtin import BUILT_IN

KEYS = tuple(range(7))
WITH_TIERS = tuple({**ACTIONS, **TIER_ACTIONS})


def proposer(discipline: str, seed: int, tiers: int = 0, **changes: object) -> Proposer:
    kind = BUILT_IN if tiers else kind_of(Puppet)
    session = Session.begin(kind, Setup(3, tiers=tiers), "lru-evictable", discipline)
    actions = WITH_TIERS if tiers else tuple(ACTIONS)
    return Proposer(session, Random(seed), KEYS, **{"actions": actions, **changes})  # type: ignore[arg-type]


def proposed(of: Proposer, count: int) -> list[Call]:
    """So many calls, made as they are proposed."""
    made = []
    for _ in range(count):
        made.append(of.next_call())
        assert of.session.allows(made[-1])
        of.session.step(made[-1])
    return made


@settings(max_examples=40)
@given(seed=st.integers(0, 2**32), discipline=st.sampled_from(DISCIPLINES), tiers=st.integers(0, 2))
def test_no_proposal_breaks_a_promise(seed: int, discipline: str, tiers: int) -> None:
    of = proposer(discipline, seed, tiers, mistakes=mistakes_of(discipline), mistake_rate=0.3)
    assert 60 == len(proposed(of, 60))
    if discipline != CARELESS:  # who announces finished requests again has more of them
        assert len(of.session.promises.live) <= of.requests + 1


def test_everything_a_scheduler_does_turns_up() -> None:
    names = {call.name for seed in range(20) for call in proposed(proposer(CONTRACT, seed), 50)}
    assert set(calls.CallName) - calls.WITH_TIERS == names


def test_with_tiers_everything_turns_up() -> None:
    made = [call for seed in range(20) for call in proposed(proposer(CONTRACT, seed, tiers=2), 50)]
    assert set(calls.CallName) == {call.name for call in made}
    assert {True, False} == {call.success for call in made if call.name == calls.RESET_CACHE}
    assert {None, 0, 1} == {call.tier for call in made}


def test_tiers_hold_something_from_the_beginning() -> None:
    first = [proposed(proposer(CONTRACT, seed, tiers=1), 1)[0] for seed in range(20)]
    assert 10 < sum(call.name == calls.FILL_TIER and bool(call.keys) for call in first) < 20


def said_by(of: Proposer, count: int) -> list[Exchange]:
    proposed(of, count)
    return [exchange for record in of.session.records for exchange in record.exchanges]


def test_jobs_end_whole_in_part_and_not_at_all() -> None:
    shares = set()
    for seed in range(40):
        of = proposer(CONTRACT, seed, tiers=1)
        jobs = [len(one.keys) for one in said_by(of, 100) if isinstance(one, Submitted)]
        ended = [record.call for record in of.session.records]
        shares |= {len(call.keys) / jobs[call.job] for call in ended if call.job is not None}
    assert {0, 1 / 2, 1} <= shares <= {0, 1 / 3, 1 / 2, 2 / 3, 1}


def test_what_is_essential_makes_tiers_work() -> None:
    essential = tuple(sorted(ESSENTIAL | ESSENTIAL_WITH_TIERS))
    said = [one for seed in range(5) for one in said_by(proposer(CONTRACT, seed, 1, actions=essential), 60)]
    assert {True, False} == {one.promotion for one in said if isinstance(one, Submitted)}


def test_what_is_not_there_is_not_dealt_with() -> None:
    of = proposer(CONTRACT, 1, tiers=1, actions=("load hits", "finish job"))
    assert {calls.FILL_TIER, calls.ON_NEW_REQUEST} == {call.name for call in proposed(of, 40)}


def test_what_is_left_out_does_not_turn_up() -> None:
    names = {call.name for call in proposed(proposer(CONTRACT, 1, actions=("offer", "complete_store")), 200)}
    assert {calls.ON_NEW_REQUEST, calls.PREPARE_STORE, calls.COMPLETE_STORE} == names


def test_only_a_careless_caller_makes_mistakes() -> None:
    assert ((), MISTAKES) == (mistakes_of(CONTRACT), mistakes_of(CARELESS))


def test_the_mistakes_of_a_hostile_caller_are_those_of_the_tiers() -> None:
    assert (TIER_FAULT,) == mistakes_of(HOSTILE, tiers=2)
    faults = set()
    for seed in range(5):
        of = proposer(HOSTILE, seed, tiers=2, mistakes=(TIER_FAULT,), mistake_rate=0.5)
        faults |= {(call.raises_in, call.name, call.at) for call in proposed(of, 100) if call.raises_in is not None}
    stores, loads = {calls.COMPLETE_STORE, calls.PREPARE_STORE}, {calls.ON_SCHEDULE_END}
    expected = {"submit_store": stores, "submit_load": loads}
    assert {(method, name, at) for method, names in expected.items() for name in names for at in (1, 2)} == faults


BREACHES = {
    "repeat a key": "a key twice in one call",
    "name a stray key": "was not a HIT",
    "for another request": "has no transfer of",
    "once more": "has no transfer of",
    "unprepared": "has no transfer of",
    "after finish": "is finished",
    "reset in flight": "a reset with transfers in flight",
    "report late": "has no transfer of",
    "drop a drain": "a drain is dropped half way",
    "announce again": "is not a fresh id",
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_each_mistake_breaks_the_contract_in_its_way(mistake: str) -> None:
    others = ("reset in flight",) if mistake == "report late" else ()
    of = proposer(CARELESS, 1, mistakes=(mistake, *others), mistake_rate=0.3)
    breaches = set()
    for _ in range(300):
        call = of.next_call()
        breaches.add(of.session.promises.breach(call, CONTRACT) or "")
        of.session.step(call)
    assert any(BREACHES[mistake] in breach for breach in breaches)


def test_a_call_is_made_once_more() -> None:
    made = proposed(proposer(CARELESS, 1, mistakes=("once more",), mistake_rate=0.3), 100)
    assert 10 < sum(one == other and bool(one.keys) for one, other in pairwise(made))


def test_only_what_is_ready_is_loaded_with_a_stray_key() -> None:
    of = proposer(CARELESS, 1, actions=("offer", "complete_store"), mistakes=("name a stray key",), mistake_rate=0.3)
    loads = []
    for _ in range(300):
        call = of.next_call()
        if call.name == calls.PREPARE_LOAD:
            loads.append([of.session.judge.model.presence(key) for key in call.keys])
        of.session.step(call)
    assert loads
    assert max(sum(found != "HIT" for found in load) for load in loads) == 1


def test_a_batch_is_not_larger_than_asked() -> None:
    made = proposed(proposer(CONTRACT, 1, batch=2), 300)
    sizes = {len(call.keys) for call in made if call.name not in calls.COMPLETIONS}
    assert {0, 1, 2} == sizes


def test_a_request_sticks_to_its_positions() -> None:
    told: dict[tuple[object, object], set[int | None]] = {}
    for call in proposed(proposer(CONTRACT, 1, placed=0.7), 300):
        for key, position in zip(call.keys, call.positions or (), strict=call.positions is not None):
            told.setdefault((call.request, key), set()).add(position)
    assert [1] * len(told) == [len(positions) for positions in told.values()]
    assert any(None in positions for positions in told.values())
    assert any(None not in positions for positions in told.values())


def test_where_a_key_must_be_asked_for_it_is_looked_up_before_it_is_offered() -> None:
    session = Session.begin(kind_of(Puppet), Setup(3, store_threshold=2), "lru-evictable", CONTRACT)
    made = proposed(Proposer(session, Random(1), KEYS, actions=("offer", "complete_store")), 200)
    asked = [call.keys for call in made if call.name == calls.LOOKUP]
    assert {key for call in made if call.name == calls.PREPARE_STORE for key in call.keys} <= {key for (key,) in asked}


def test_there_always_is_a_call() -> None:
    of = proposer(CONTRACT, 1, actions=("complete_load",))  # of which there is none
    assert [calls.ON_NEW_REQUEST] * 5 == [call.name for call in proposed(of, 5)]


def test_a_lookup_has_one_key_whatever_mistake_is_made() -> None:
    setup = Setup(2, store_threshold=2)
    runs = walk(BUILT_IN, setup, PROFILE, CARELESS, Budget(4000), 2, vary_capacity=True, vary_tracker=True)
    lookups = [record.call for run in runs for record in run.records if record.call.name == calls.LOOKUP]
    assert {1} == {len(call.keys) for call in lookups}
