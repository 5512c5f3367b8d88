"""Shrinking: shorter until nothing can be left out, and never by a caller who cheats."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from attrs import evolve
from seeded import (
    DRAIN,
    PROFILE,
    STATS,
    Leaks,
    Miscounts,
    Puppet,
    Unpins,
    announce,
    failed,
    finish,
    holding,
    kind_of,
    kind_of_manager,
    load,
    loaded,
    lookup,
    offer,
    stored,
    touch,
)
from tiered import END, KeepsPins, done, fill, kind_of_tiers, peer

from evictable.impl import ReqContext
from evictable.impl.tiering import TieringOffloadingManager
from evictable.model.calls import Answer, Call
from evictable.specs.budget import Budget
from evictable.specs.callers.disciplines import CARELESS, CONTRACT, DISCIPLINES, Promises
from evictable.specs.callers.walk import walk
from evictable.specs.errors import UsageError
from evictable.specs.session import Session
from evictable.specs.shrink import Counterexample, Shrinker
from evictable.specs.subjects.base import Setup, SubjectKind
from evictable.specs.subjects.builtin import BUILT_IN
from evictable.specs.subjects.managers import ManagerSubject

DEFECTS = [
    (Leaks, "slots-conserved", ["on_new_request", "prepare_store", "complete_store"]),
    (
        Miscounts,
        "counters-agree",
        ["on_new_request", "prepare_store", "complete_store", "lookup", "prepare_load", "complete_load"],
    ),
    (
        Unpins,
        "legal-step",
        ["on_new_request", "prepare_store", "complete_store", "lookup", "prepare_load", "touch"],
    ),
]
CASES = pytest.mark.parametrize(("manager", "law", "names"), DEFECTS)


def first_broken(kind: SubjectKind, law: str, discipline: str, seed: int) -> Session:
    sessions = walk(kind, Setup(3), PROFILE, discipline, Budget(max_calls=20_000), seed, vary_capacity=False)
    return next(one for one in sessions if any(broken.law.id == law for broken in one.broken))


def shrunk(kind: SubjectKind, law: str, discipline: str, setup: Setup, sequence: Sequence[Call]) -> Counterexample:
    smallest = Shrinker(kind, PROFILE, discipline, law).shrink(setup, sequence)
    assert smallest is not None
    return smallest


def calls_of(session: Session) -> list[Call]:
    return [record.call for record in session.records]


@CASES
@pytest.mark.parametrize("seed", [1, 2, 3])
def test_the_shortest_sequence_is_found(manager: Any, law: str, names: list[str], seed: int) -> None:
    kind = kind_of_manager(manager)
    session = first_broken(kind, law, CONTRACT, seed)
    smallest = shrunk(kind, law, CONTRACT, session.setup, calls_of(session))
    assert names == [call.name for call in smallest.calls]
    assert {(), (0,)} == {call.keys for call in smallest.calls}
    assert (1, {"r1"}) == (smallest.setup.capacity, {call.request for call in smallest.calls})
    assert law == smallest.difference_of().law.id


@CASES
@pytest.mark.parametrize("discipline", DISCIPLINES)
def test_nothing_more_can_be_left_out(manager: Any, law: str, names: list[str], discipline: str) -> None:
    kind = kind_of_manager(manager)
    session = first_broken(kind, law, discipline, 4)
    smallest = shrunk(kind, law, discipline, session.setup, calls_of(session))
    shrinker = Shrinker(kind, PROFILE, discipline, law)
    for place in range(len(smallest.calls)):
        shorter = smallest.calls[:place] + smallest.calls[place + 1 :]
        assert None is shrinker.attempt(smallest.setup, shorter)


@CASES
@pytest.mark.parametrize("seed", [5, 6])
def test_the_caller_keeps_its_promises(manager: Any, law: str, names: list[str], seed: int) -> None:
    kind = kind_of_manager(manager)
    session = first_broken(kind, law, CONTRACT, seed)
    promises = Promises()
    for record in shrunk(kind, law, CONTRACT, session.setup, calls_of(session)).records:
        assert None is promises.breach(record.call, CONTRACT)
        promises.observe(record.call, record.outcome)


def test_a_caller_who_promised_less_needs_fewer_calls() -> None:
    kind = kind_of_manager(Leaks)
    session = first_broken(kind, "slots-conserved", CARELESS, 1)
    smallest = shrunk(kind, "slots-conserved", CARELESS, session.setup, calls_of(session))
    assert ["prepare_store", "complete_store"] == [call.name for call in smallest.calls]


def test_a_sequence_that_cheats_proves_nothing() -> None:
    shrinker = Shrinker(kind_of_manager(Leaks), PROFILE, CONTRACT, "slots-conserved")
    cheating = (offer("r1", 1), failed("r1", 1))
    assert None is shrinker.shrink(Setup(1), cheating)
    assert None is not shrinker.shrink(Setup(1), (announce("r1"), *cheating))


def test_another_law_proves_nothing() -> None:
    shrinker = Shrinker(kind_of_manager(Leaks), PROFILE, CARELESS, "counters-agree")
    assert None is shrinker.shrink(Setup(1), (offer("r1", 1), failed("r1", 1)))


def test_what_does_not_happen_again_is_not_shrunk() -> None:
    assert None is Shrinker(BUILT_IN, PROFILE, CARELESS, "answer").shrink(Setup(3), holding(1))


def test_the_breaking_call_is_the_last() -> None:
    sequence = (offer("r1", 1), failed("r1", 1), DRAIN, STATS)
    found = Shrinker(kind_of_manager(Leaks), PROFILE, CARELESS, "slots-conserved").attempt(Setup(2), sequence)
    assert found is not None
    assert sequence[:2] == found.calls
    assert (2, 2, 2) == found.size[:3]


def test_the_number_of_tries_is_bounded() -> None:
    kind = kind_of_manager(Unpins)
    session = first_broken(kind, "legal-step", CONTRACT, 1)
    shrinker = Shrinker(kind, PROFILE, CONTRACT, "legal-step", most_tries=5)
    found = shrinker.shrink(session.setup, calls_of(session))
    assert found is not None
    assert 5 == shrinker.tries


class SecretHolder(Puppet):
    """Forgets a key once it has been touched by two requests, or told the position 7."""

    def __init__(self, setup: Setup, profile: str = PROFILE) -> None:
        super().__init__(setup, profile)
        self.touched: set[str | None] = set()

    def answer(self, call: Call, right: Answer) -> Answer:
        if call.name == "touch":
            self.touched.add(call.request)
        if call.name == "lookup" and (len(self.touched) > 1 or (call.positions or ())[:1] == (7,)):
            return "RETRY"
        return right


def placed(call: Call, *positions: int | None) -> Call:
    return evolve(call, positions=positions)


@pytest.mark.parametrize(
    ("sequence", "shortest"),
    [
        (
            (*holding(5, 6), touch("r1", 5, 6), load("r2", 5), touch("r2", 6), loaded("r2", 5), lookup("r2", 6)),
            (touch("r1", 0), touch("r2", 0), lookup("r2", 0)),
        ),
        (
            (placed(touch("r1", 5), 3), placed(touch("r2", 6), 4), placed(lookup("r3", 8), 5)),
            (touch("r1", 0), touch("r2", 0), lookup("r1", 0)),
        ),
        (
            (*holding(5), finish("r2"), placed(touch("r1", 5, 6), 6, None), placed(lookup("r1", 5), 7)),
            (placed(lookup("r1", 0), 7),),
        ),
    ],
)
def test_names_and_positions_become_as_plain_as_they_can(sequence: Sequence[Call], shortest: Sequence[Call]) -> None:
    assert tuple(shortest) == shrunk(kind_of(SecretHolder), "answer", CARELESS, Setup(3), sequence).calls


def test_a_tracker_becomes_small() -> None:
    def make(setup: Setup) -> ManagerSubject:
        manager = Leaks(setup.capacity, "lru", True, setup.store_threshold, setup.max_tracker_size)
        return ManagerSubject(manager, ReqContext)

    sequence = (offer("r1", 1, 2), offer("r1", 2, 1), stored("r1", 2), failed("r1", 1))
    setup = Setup(4, store_threshold=2, max_tracker_size=50)
    smallest = shrunk(SubjectKind("threshold", make, lambda _: PROFILE), "slots-conserved", CARELESS, setup, sequence)
    assert (1, 1) == (smallest.setup.capacity, smallest.setup.max_tracker_size)
    assert (offer("r1", 0), offer("r1", 0), failed("r1", 0)) == smallest.calls


def test_what_cannot_be_built_as_small_stays_larger() -> None:
    kind = kind_of_manager(Leaks)

    def make(setup: Setup) -> Any:
        if setup.capacity < 2:
            raise UsageError("too small")
        return kind.make(setup)

    sequence = (offer("r1", 1), failed("r1", 1))
    smallest = shrunk(SubjectKind("large", make, kind.profile), "slots-conserved", CARELESS, Setup(4), sequence)
    assert 2 == smallest.setup.capacity


@pytest.mark.parametrize("events", [True, False])
def test_events_are_put_on_where_a_subject_has_them(events: bool) -> None:
    kind = evolve(kind_of_manager(Leaks), events=events)
    sequence = (offer("r1", 1), failed("r1", 1))
    assert events == shrunk(kind, "slots-conserved", CARELESS, Setup(1, events=False), sequence).setup.events


# --- with tiers -----------------------------------------------------------------------------------

FAILING = (offer("r1", 7), stored("r1", 7), done(0, 7), END)
SHORTEST = (announce("r1"), offer("r1", 0), stored("r1", 0), done(0), END)


@pytest.mark.parametrize(
    "sequence",
    [
        (announce("r1"), offer("r1", 1), stored("r1", 1), done(0), END),
        # Jobs that nobody needs come before, between and after the one that fails.
        (announce("r1"), *FAILING, offer("r1", 1), stored("r1", 1), done(1), END),
        (
            *(announce("r1"), announce("r2"), offer("r1", 7), offer("r2", 8), offer("r1", 1)),
            *(stored("r2", 8), stored("r1", 1), stored("r1", 7), done(2, 7), done(1), END),
        ),
        # A promotion is one, too, and so is what a peer reads.
        (
            *(announce("r1"), fill(0, 7), lookup("r1", 7), END, done(0, 7), peer(0, "p1", 7), END),
            *(offer("r1", 1), stored("r1", 1), done(2), END),
        ),
    ],
    ids=["none", "before", "around", "others"],
)
def test_jobs_are_numbered_anew_when_calls_that_submit_some_go(sequence: Sequence[Call]) -> None:
    kind = kind_of_tiers(KeepsPins)
    assert SHORTEST == shrunk(kind, "pin-has-job", CONTRACT, Setup(3, tiers=1), sequence).calls


def test_jobs_of_two_tiers_come_from_one_call() -> None:
    sequence = (announce("r1"), offer("r1", 7), stored("r1", 7), *FAILING[2:], offer("r1", 1), stored("r1", 1), done(3))
    smallest = shrunk(kind_of_tiers(KeepsPins), "pin-has-job", CONTRACT, Setup(3, tiers=2), (*sequence, END))
    assert (*SHORTEST[:3], done(1), END) == smallest.calls


class Forgets(TieringOffloadingManager):
    """Does not bring what is there already to the tiers that want whole requests."""

    def _cascade_present(self, keys: Any, request: Any) -> None:
        pass


@pytest.mark.parametrize(
    ("manager", "law", "needed"), [(KeepsPins, "pin-has-job", ()), (Forgets, "answer", (1,))], ids=["not", "needed"]
)
def test_tiers_that_want_whole_requests_stay_where_they_are_needed(
    manager: Any, law: str, needed: tuple[int, ...]
) -> None:
    sequence = (*SHORTEST, lookup("r1", 0), offer("r1", 0), END)
    setup = Setup(2, tiers=2, request_level=(1,))
    assert needed == shrunk(kind_of_tiers(manager), law, CONTRACT, setup, sequence).setup.request_level
