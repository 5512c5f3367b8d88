"""A session: one subject, one model, every call recorded and judged, until a law is broken."""

from __future__ import annotations

import pytest
from seeded import (
    PROFILE,
    RESET,
    Leaks,
    Puppet,
    announce,
    failed,
    holding,
    kind_of,
    kind_of_manager,
    laws,
    load,
    lookup,
    offer,
    outcomes,
    stored,
)
from tiered import BEGUN, END, done, fill, kind_of_tiers

from evictable.impl.tiering import TieringOffloadingManager
from evictable.model import calls
from evictable.model.calls import Answer, Call, Key, Raised
from evictable.model.exchanges import ToldFinished
from evictable.model.tiers import TieredManager
from evictable.specs.callers.disciplines import CARELESS, CONTRACT
from evictable.specs.errors import UsageError
from evictable.specs.judge import SMALL
from evictable.specs.session import Record, Session, play
from evictable.specs.subjects.base import Setup
from evictable.specs.subjects.builtin import BUILT_IN


def begun(discipline: str = CARELESS, *sequence: Call, capacity: int = 3, events: bool = True) -> Session:
    session = Session.begin(kind_of(Puppet), Setup(capacity, events=events), PROFILE, discipline)
    for call in sequence:
        session.step(call)
    return session


def test_what_is_called_and_answered_is_recorded() -> None:
    session = begun(CARELESS, *holding(1), lookup("r1", 1))
    assert (Record(lookup("r1", 1), "HIT"), 5) == (session.records[-1], len(session.records))


def test_what_the_subject_raises_is_an_outcome() -> None:
    session = begun(CARELESS, load("r1", 9))
    assert (Raised("ValueError"), "misplaced") == (outcomes(session)[0], outcomes(session)[0].message)  # type: ignore[union-attr]


def test_what_is_meant_to_end_the_process_is_not() -> None:
    class Interrupted(Puppet):
        def does(self, call: Call) -> Answer:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        play(kind_of(Interrupted), Setup(1), PROFILE, (announce("r1"),))


def test_after_a_broken_law_nothing_more_is_judged() -> None:
    session = play(kind_of_manager(Leaks), Setup(2), PROFILE, (offer("r1", 1), failed("r1", 1), lookup("r1", 1)))
    assert (["slots-conserved", "drains"], 2) == (laws(session.broken), len(session.records))
    with pytest.raises(RuntimeError, match="a law is broken"):
        session.step(lookup("r1", 1))
    session.finish()
    assert 2 == len(session.records)


@pytest.mark.parametrize(("discipline", "allowed"), [(CARELESS, True), (CONTRACT, False)])
def test_the_discipline_says_what_is_allowed(discipline: str, allowed: bool) -> None:
    assert allowed == begun(discipline).allows(lookup("r1", 1))


def test_bringing_a_run_to_rest() -> None:
    session = begun(CONTRACT, *holding(1, 2), lookup("r1", 1), lookup("r1", 2), load("r1", 1, 2))
    session.finish()
    assert ((), True, 0) == (session.broken, session.promises.at_rest, session.judge.model.num_free)
    made = [record.call.name for record in session.records[7:]]
    closing = ["on_new_request", "prepare_store", "complete_store", "take_events"]
    assert ["complete_load", "complete_load", *closing] == made[-6:]
    assert {"drains", "progress", "events-replay"} <= session.judge.exercised


@pytest.mark.parametrize("events", [True, False])
def test_stores_in_flight_are_ended_too(events: bool) -> None:
    session = begun(CONTRACT, announce("r1"), announce("r2"), offer("r1", 1, 2), offer("r2", 3), events=events)
    session.finish()
    assert (True, 0) == (session.promises.at_rest, session.judge.model.num_pending)
    assert events == ("take_events" in [record.call.name for record in session.records])


def test_the_keys_at_the_end_are_new() -> None:
    session = begun(CARELESS, announce("r1"), offer("r1", 7), stored("r1", 7))
    session.finish()
    (last,) = [record.call for record in session.records[3:] if record.call.name == "prepare_store"]
    assert (8, 9, 10) == last.keys


def test_a_refusal_at_the_end_is_broken_progress() -> None:
    class Refuses(Puppet):
        def does(self, call: Call) -> Answer:
            return None if call.name == "prepare_store" else super().does(call)

    session = Session.begin(kind_of(Refuses), Setup(2), PROFILE)
    session.finish()
    assert ["no-false-refusal", "progress"] == laws(session.broken)


def test_the_built_in_manager_says_what_it_cannot_be() -> None:
    with pytest.raises(UsageError, match="impl: unknown cache policy 'fifo'"):
        Session.begin(BUILT_IN, Setup(2, "fifo"), PROFILE)


def test_no_key_has_to_be_a_number() -> None:
    session = Session.begin(BUILT_IN, Setup(2), PROFILE)
    session.step(offer("r1", "ab"))
    session.finish()
    assert () == session.broken


# --- with tiers -----------------------------------------------------------------------------------


def begun_with_tiers(*sequence: Call, capacity: int = 3, tiers: int = 1) -> Session:
    session = play(BUILT_IN, Setup(capacity, tiers=tiers), PROFILE, sequence, CONTRACT)
    assert (len(sequence), ()) == (len(session.records), session.broken)
    return session


def closing_of(session: Session) -> list[Record]:
    before = len(session.records)
    session.finish()
    assert () == session.broken
    return session.records[before:]


def test_what_manager_and_tiers_said_is_recorded() -> None:
    session = begun_with_tiers(*BEGUN, Call(calls.ON_REQUEST_FINISHED, request="r2"))
    assert (ToldFinished(0, "r2"),) == session.records[-1].exchanges


@pytest.mark.parametrize(
    "sequence",
    [
        (offer("r1", 1),),
        (offer("r1", 1), stored("r1", 1)),
        (fill(0, 5, 6), lookup("r1", 5)),
        (fill(0, 5, 6), lookup("r1", 5), END),
    ],
    ids=["store", "cascade", "staged promotion", "promotion"],
)
@pytest.mark.parametrize("tiers", [1, 2])
def test_bringing_tiers_to_rest(sequence: tuple[Call, ...], tiers: int) -> None:
    session = begun_with_tiers(*BEGUN, *sequence, tiers=tiers)
    closing_of(session)
    model = session.judge.model
    assert isinstance(model, TieredManager)
    assert (True, True, {}) == (session.promises.at_rest, model.at_rest, model.jobs)
    exercised = {"pin-has-job", "hit-loads", "tier-drains", "tier-progress", "slot-contents", "drains", "progress"}
    assert exercised <= session.judge.exercised


@pytest.mark.parametrize(("capacity", "served"), [(1, (0,)), (2, (0, 1)), (3, (0, 1, 2))])
def test_what_tiers_hold_is_served_as_far_as_it_fits(capacity: int, served: tuple[Key, ...]) -> None:
    closing = closing_of(begun_with_tiers(fill(0, 0, 1), fill(1, 2), capacity=capacity, tiers=2))
    loads = [record.call for record in closing if record.call.name == calls.PREPARE_LOAD]
    assert [Call(calls.PREPARE_LOAD, served, "waiting")] == loads


@pytest.mark.parametrize(("capacity", "waiting"), [(SMALL, ["r1", "waiting"]), (SMALL + 1, ["waiting"])])
def test_in_a_small_cache_a_request_that_has_been_about_waits_too(capacity: int, waiting: list[str]) -> None:
    closing = closing_of(begun_with_tiers(*BEGUN, offer("r1", 1), stored("r1", 1), fill(0, 2), capacity=capacity))
    loads = [record.call.request for record in closing if record.call.name == calls.PREPARE_LOAD]
    assert waiting == loads


def test_nobody_waits_to_load_what_was_loaded_before_a_reset_and_not_reported() -> None:
    held = (offer("r1", 1), stored("r1", 1), done(0, 1), END, lookup("r1", 1), load("r1", 1), RESET)
    session = play(BUILT_IN, Setup(1, tiers=1), PROFILE, (announce("r1"), *held), CARELESS)
    closing = closing_of(session)
    assert ["waiting"] == [record.call.request for record in closing if record.call.name == calls.PREPARE_LOAD]


def test_above_tiers_stores_are_completed_as_they_were_prepared() -> None:
    prepared = (offer("r1", 1), failed("r1", 1), offer("r1", 1, 2), offer("r2", 2, 3))
    closing = closing_of(begun_with_tiers(*BEGUN, *prepared))
    ended = [record.call for record in closing if record.call.name == calls.COMPLETE_STORE]
    assert [stored("r1", 1, 2), stored("r2", 3)] == ended[:2]


def test_a_manager_that_hears_of_no_job_does_not_come_to_rest() -> None:
    class Deaf(TieringOffloadingManager):
        def _poll(self) -> None:
            self._polled_this_step = True

    session = play(kind_of_tiers(Deaf), Setup(3, tiers=1), PROFILE, (*BEGUN, offer("r1", 1), stored("r1", 1)))
    session.finish()
    assert ["tier-drains"] == laws(session.broken)
