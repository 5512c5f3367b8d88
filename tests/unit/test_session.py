"""A session: one subject, one model, every call recorded and judged, until a law is broken."""

from __future__ import annotations

import pytest
from seeded import (
    PROFILE,
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

from evictable.model.calls import Answer, Call, Raised
from evictable.specs.callers.disciplines import CARELESS, CONTRACT
from evictable.specs.errors import UsageError
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
