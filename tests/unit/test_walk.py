"""The random walk: repeatable, within its budget, and every episode comes to rest or breaks a law."""

from __future__ import annotations

from itertools import pairwise

import pytest
from attrs import evolve
from seeded import PROFILE, Miscounts, Puppet, kind_of, kind_of_manager

from evictable.specs.budget import Budget
from evictable.specs.callers.disciplines import CARELESS, CONTRACT, DISCIPLINES
from evictable.specs.callers.walk import CAPACITIES, KEYS, LARGE, TRACKER_SIZES, walk
from evictable.specs.session import Record, Session
from evictable.specs.subjects.base import Setup, SubjectKind
from evictable.specs.subjects.builtin import BUILT_IN

ROOM_TO_CLOSE = 40
"""Calls that bring the last episode to rest, at most."""


def episodes(
    kind: SubjectKind = BUILT_IN,
    discipline: str = CONTRACT,
    max_calls: int = 2000,
    seed: int = 1,
    setup: Setup | None = None,
    profile: str = PROFILE,
    **varied: bool,
) -> tuple[list[Session], Budget]:
    budget = Budget(max_calls=max_calls)
    options = {"vary_capacity": setup is None, **varied}
    return list(walk(kind, setup or Setup(3), profile, discipline, budget, seed, **options)), budget


def records(sessions: list[Session]) -> list[list[Record]]:
    return [session.records for session in sessions]


@pytest.mark.parametrize("discipline", DISCIPLINES)
def test_a_seed_and_a_number_of_calls_make_one_run(discipline: str) -> None:
    first, second, other = (episodes(discipline=discipline, seed=seed)[0] for seed in (1, 1, 2))
    assert records(first) == records(second)
    assert records(first) != records(other)


@pytest.mark.parametrize("max_calls", [1, 7, 100, 1000])
def test_the_budget_counts_every_call_and_is_kept(max_calls: int) -> None:
    sessions, budget = episodes(max_calls=max_calls)
    made = sum(len(session.records) for session in sessions)
    assert made == budget.calls
    assert max_calls <= made <= max_calls + ROOM_TO_CLOSE


def test_episodes_come_to_rest() -> None:
    sessions, _ = episodes()
    assert [(True, ())] * (len(sessions) - 1) == [(one.promises.at_rest, one.broken) for one in sessions[:-1]]


@pytest.mark.parametrize(("seed", "discipline"), [(1, CONTRACT), (2, CARELESS)])
def test_a_broken_law_ends_its_episode_and_not_the_walk(seed: int, discipline: str) -> None:
    sessions, _ = episodes(kind_of_manager(Miscounts), discipline, seed=seed)
    assert {(), ("counters-agree",)} <= {tuple(one.law.id for one in session.broken[:1]) for session in sessions}
    assert 0 < sum(bool(before.broken and after.records) for before, after in pairwise(sessions))


def test_what_varies() -> None:
    sessions, _ = episodes(vary_tracker=True, max_calls=8000)
    assert set(CAPACITIES) == {session.setup.capacity for session in sessions} - set(LARGE)
    assert set(TRACKER_SIZES) == {session.setup.max_tracker_size for session in sessions}


@pytest.mark.parametrize(("capacity", "keys"), [(2, KEYS), (8, 16), (20, 40)])
def test_there_are_always_more_keys_than_slots(capacity: int, keys: int) -> None:
    sessions, _ = episodes(setup=Setup(capacity), max_calls=6000)
    assert set(range(keys)) <= {key for session in sessions for record in session.records for key in record.call.keys}
    assert {capacity} == {session.setup.capacity for session in sessions}


def test_an_order_that_heeds_requests_is_told_positions_and_groups() -> None:
    sessions, _ = episodes(kind_of(Puppet, "lru-ranked"), profile="lru-ranked")
    made = [record.call for session in sessions for record in session.records]
    assert any(call.positions for call in made)
    assert any(isinstance(key, str) for call in made for key in call.keys)


# --- with tiers -----------------------------------------------------------------------------------

TIERED = Setup(3, tiers=2)


@pytest.mark.parametrize("discipline", DISCIPLINES)
def test_with_tiers_a_seed_and_a_number_of_calls_make_one_run(discipline: str) -> None:
    first, again, other = (
        episodes(discipline=discipline, setup=TIERED, seed=seed, max_calls=800)[0] for seed in (1, 1, 2)
    )
    assert records(first) == records(again)
    assert records(first) != records(other)
    assert {()} == {session.broken for session in first}


@pytest.mark.parametrize(
    ("able", "wanting"), [(True, {(), (0,), (1,), (0, 1)}), (False, {()})], ids=["whole requests", "blocks only"]
)
def test_any_tier_may_want_whole_requests_where_there_are_such(able: bool, wanting: set[tuple[int, ...]]) -> None:
    sessions, _ = episodes(evolve(BUILT_IN, request_level=able), setup=TIERED, max_calls=4000)
    assert wanting == {session.setup.request_level for session in sessions}


def test_with_tiers_an_episode_ends_when_they_are_at_rest() -> None:
    sessions, _ = episodes(setup=TIERED, max_calls=1500)
    assert [{}] * (len(sessions) - 1) == [session.judge.model.jobs for session in sessions[:-1]]  # type: ignore[attr-defined]
