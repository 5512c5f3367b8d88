"""The Hypothesis machine: a state machine like any other, and an engine that is as repeatable as the walk."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis.stateful import run_state_machine_as_test
from seeded import PROFILE, Leaks, Miscounts, Puppet, Unpins, kind_of, kind_of_manager
from tiered import KeepsPins, kind_of_tiers

from evictable.model import calls
from evictable.model.calls import Call
from evictable.specs.budget import Budget
from evictable.specs.callers.disciplines import CARELESS, CONTRACT, DISCIPLINES, HOSTILE, Promises
from evictable.specs.callers.machine import LawBroken, ManagerMachine, drive
from evictable.specs.callers.machine_tiers import TieredMachine
from evictable.specs.session import Session
from evictable.specs.subjects.base import Setup, SubjectKind
from evictable.specs.subjects.builtin import BUILT_IN

QUICKLY = settings(
    max_examples=200,
    database=None,
    derandomize=True,
    phases=[Phase.generate],
    suppress_health_check=list(HealthCheck),
)


def machine_of(of: SubjectKind, under: str = CONTRACT) -> type[ManagerMachine]:
    class Machine(ManagerMachine):
        kind = of
        discipline = under

    return Machine


def driven(
    kind: SubjectKind = BUILT_IN, discipline: str = CONTRACT, max_calls: int = 1500, seed: int = 1, **options: Any
) -> tuple[list[Session], Budget]:
    sessions: list[Session] = []
    budget = Budget(max_calls=max_calls)
    setup, profile = options.pop("setup", Setup(3)), options.pop("profile", PROFILE)
    drive(kind, setup, profile, discipline, budget, seed, sessions.append, vary_capacity=True, **options)
    return sessions, budget


@pytest.fixture(scope="module")
def careful() -> list[Session]:
    """A run under the contract that several tests look at."""
    return driven(max_calls=2500, vary_tracker=True)[0]


@pytest.fixture(scope="module")
def careless() -> list[Session]:
    return driven(discipline=CARELESS, max_calls=3000)[0]


@pytest.mark.parametrize(
    ("manager", "law"), [(Leaks, "slots-conserved"), (Miscounts, "counters-agree"), (Unpins, "legal-step")]
)
def test_it_finds_a_seeded_defect(manager: Any, law: str) -> None:
    with pytest.raises(LawBroken, match=f"(?m)^{law}: "):
        run_state_machine_as_test(machine_of(kind_of_manager(manager)), settings=QUICKLY)


@pytest.mark.parametrize("discipline", DISCIPLINES)
def test_it_passes_where_nothing_is_wrong(discipline: str) -> None:
    run_state_machine_as_test(machine_of(BUILT_IN, discipline), settings=settings(QUICKLY, max_examples=10))


def test_it_finds_nothing_where_nothing_is_wrong(careful: list[Session], careless: list[Session]) -> None:
    assert [] == [session.broken for session in (*careful, *careless) if session.broken]


def test_under_the_contract_no_rule_breaks_it(careful: list[Session]) -> None:
    assert {None} == {breach for session in careful for breach in breaches(session)}


@pytest.mark.parametrize(
    "breach",
    [
        "twice in one call",
        "no transfer of",
        "was not a HIT",
        "not announced",
        "is finished",
        "half way",
        "transfers in flight",
        "undrained",
        "not a fresh id",
    ],
)
def test_careless_rules_break_every_promise(careless: list[Session], breach: str) -> None:
    assert any(breach in (found or "") for session in careless for found in breaches(session))


def breaches(session: Session, discipline: str = CONTRACT) -> list[str | None]:
    """Of the contract, by each call of a session."""
    promises, found = Promises(tiers=session.setup.tiers), []
    for record in session.records:
        found.append(promises.breach(record.call, discipline))
        promises.observe(record.call, record.outcome, record.exchanges)
    return found


def test_everything_a_scheduler_does_turns_up_often(careful: list[Session]) -> None:
    names = Counter(record.call.name for session in careful for record in session.records)
    assert set(calls.CallName) - calls.WITH_TIERS == set(names)
    assert min(names[calls.PREPARE_LOAD], names[calls.COMPLETE_LOAD]) > 50


def test_a_seed_and_a_number_of_calls_make_one_run() -> None:
    first, second, other = ([session.records for session in driven(seed=seed, max_calls=600)[0]] for seed in (1, 1, 2))
    assert first == second
    assert first != other


@pytest.mark.parametrize("max_calls", [1, 50, 700])
def test_the_budget_is_kept(max_calls: int) -> None:
    sessions, budget = driven(max_calls=max_calls)
    assert max_calls <= budget.calls <= max_calls + 40
    assert sum(len(session.records) for session in sessions) <= budget.calls


def test_a_broken_law_is_handed_over_once_and_the_run_goes_on() -> None:
    sessions, _ = driven(kind_of_manager(Leaks), max_calls=1500)
    broken = [session for session in sessions if session.broken]
    assert len(broken) == len({id(session) for session in broken})
    assert 1 < len(broken) < len(sessions)


def test_what_varies(careful: list[Session]) -> None:
    assert {1, 2, 3, 4} == {session.setup.capacity for session in careful}
    assert {1, 2, 3, 4} == {session.setup.max_tracker_size for session in careful}


def test_positions_are_told_where_they_matter() -> None:
    sessions, _ = driven(kind_of(Puppet, "lru-ranked-request"), profile="lru-ranked-request", max_calls=600)
    placed = [record.call for session in sessions for record in session.records if record.call.positions]
    assert {calls.PREPARE_STORE, calls.PREPARE_LOAD} == {call.name for call in placed}
    assert [call.positions for call in placed] == [
        tuple(key + 1 for key in call.keys if isinstance(key, int)) for call in placed
    ]


def test_a_finished_request_comes_again_under_a_fresh_id(careful: list[Session]) -> None:
    requests = {record.call.request for session in careful for record in session.records}
    assert {"r1", "r1.2"} <= requests


# --- with tiers -----------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def tiered() -> dict[str, list[Session]]:
    """Runs with two tiers, by discipline."""
    setup = Setup(3, tiers=2)
    return {under: driven(discipline=under, setup=setup, max_calls=1500)[0] for under in DISCIPLINES}


def calls_in(sessions: list[Session]) -> list[Call]:
    return [record.call for session in sessions for record in session.records]


@pytest.mark.parametrize("discipline", DISCIPLINES)
def test_with_tiers_it_finds_nothing_where_nothing_is_wrong(tiered: dict[str, list[Session]], discipline: str) -> None:
    assert [] == [session.broken for session in tiered[discipline] if session.broken]


def test_with_tiers_everything_turns_up(tiered: dict[str, list[Session]]) -> None:
    made = [call for sessions in tiered.values() for call in calls_in(sessions)]
    assert set(calls.CallName) == {call.name for call in made}
    assert {None, 0, 1} == {call.tier for call in made}


@pytest.mark.parametrize("discipline", DISCIPLINES)
def test_with_tiers_no_rule_breaks_a_promise(tiered: dict[str, list[Session]], discipline: str) -> None:
    assert {None} == {breach for session in tiered[discipline] for breach in breaches(session, discipline)}


@pytest.mark.parametrize(("discipline", "faults"), [(CONTRACT, ()), (CARELESS, ()), (HOSTILE, calls.TIER_FAULTS)])
def test_only_a_hostile_caller_makes_tiers_raise(
    tiered: dict[str, list[Session]], discipline: str, faults: tuple[str, ...]
) -> None:
    assert {None, *faults} == {call.raises_in for call in calls_in(tiered[discipline])}


def test_with_tiers_it_finds_a_seeded_defect() -> None:
    class Machine(TieredMachine):
        kind = kind_of_tiers(KeepsPins)
        setup = Setup(3, tiers=1)

    with pytest.raises(LawBroken, match=r"(?m)^pin-has-job: "):
        run_state_machine_as_test(Machine, settings=QUICKLY)
