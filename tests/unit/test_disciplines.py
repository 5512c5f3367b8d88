"""What a caller promises: each breach in words, and beside it the call that is just fine."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from attrs import evolve
from seeded import (
    DRAIN,
    PROFILE,
    RESET,
    STATS,
    Puppet,
    announce,
    drain,
    failed,
    finish,
    holding,
    judged,
    load,
    loaded,
    lookup,
    offer,
    stored,
    touch,
)
from tiered import BEGUN, END, delay, done, fill, peer

from evictable.model import calls
from evictable.model.calls import Call
from evictable.specs.callers.disciplines import CARELESS, CONTRACT, HOSTILE, Promises
from evictable.specs.session import play
from evictable.specs.subjects.base import Setup
from evictable.specs.subjects.builtin import BUILT_IN


def promises_after(sequence: Sequence[Call], events: bool = True) -> Promises:
    """What was promised when `Puppet` has answered these calls."""
    puppet, promises = Puppet(Setup(3, events=events)), Promises(events=events)
    for call in sequence:
        promises.observe(call, puppet.perform(call))
    return promises


HIT = (*holding(1, 2), lookup("r2", 1))
LOADING = (*HIT, load("r2", 1))
STORING = (*holding(1), offer("r1", 2))

BREACHES = {
    "a request that is not announced": (holding(1), lookup("r9", 1), "r9 was not announced"),
    "announced again": (holding(), announce("r1"), "r1 is not a fresh id"),
    "announced after its finish": ((*holding(), finish("r1")), announce("r1"), "r1 is not a fresh id"),
    "finished twice": ((*holding(), finish("r1")), finish("r1"), "r1 is finished"),
    "finished, not announced": (holding(), finish("r9"), "r9 was not announced"),
    "a lookup after the finish": ((*holding(1), finish("r1")), lookup("r1", 1), "r1 is finished"),
    "an offer after the finish": ((*holding(1), finish("r1")), offer("r1", 2), "r1 is finished"),
    "a load after the finish": ((*HIT, finish("r2")), load("r2", 1), "r2 is finished"),
    "a load without a lookup": (holding(1), load("r2", 1), "the latest lookup of [1] was not a HIT that still holds"),
    "a load of part of what was looked up": (HIT, load("r2", 1, 2), "the latest lookup of [2] was not a HIT that"),
    "a load after a miss": ((*holding(1), lookup("r1", 9)), load("r1", 9), "the latest lookup of [9] was not a HIT"),
    "a load of what is pending": ((*STORING, lookup("r1", 2)), load("r1", 2), "the latest lookup of [2] was not a HIT"),
    "a load after a prepare_store": ((*HIT, offer("r1", 3)), load("r2", 1), "the latest lookup of [1] was not a HIT"),
    "a load after a refusal": ((*HIT, offer("r1", 3, 4, 5, 6)), load("r2", 1), "the latest lookup of [1] was not"),
    "a load after a failed completion": (
        (*STORING, lookup("r2", 1), failed("r1", 2)),
        load("r2", 1),
        "the latest lookup of [1] was not a HIT",
    ),
    "a load after a reset": ((*HIT, RESET), load("r2", 1), "the latest lookup of [1] was not a HIT"),
    "a store that was not prepared": (STORING, stored("r1", 1), "r1 has no transfer of 1"),
    "a store of somebody else": (STORING, stored("r2", 2), "r2 has no transfer of 2"),
    "a store reported twice": ((*STORING, failed("r1", 2)), failed("r1", 2), "r1 has no transfer of 2"),
    "a load that was not prepared": (holding(1), loaded("r1", 1), "r1 has no transfer of 1"),
    "a load of somebody else": (LOADING, loaded("r1", 1), "r1 has no transfer of 1"),
    "a load reported twice": ((*LOADING, loaded("r2", 1)), loaded("r2", 1), "r2 has no transfer of 1"),
    "a store reported after a reset": ((*STORING, RESET), stored("r1", 2), "r1 has no transfer of 2"),
    "a key twice in an offer": (holding(), offer("r1", 1, 1), "a key twice in one call"),
    "a key twice in a load": (HIT, load("r2", 1, 1), "a key twice in one call"),
    "a key twice in a touch": (holding(1), touch("r1", 1, 1), "a key twice in one call"),
    "a key twice in a completion": (STORING, stored("r1", 2, 2), "a key twice in one call"),
    "a drain that is dropped": (holding(1), drain(1), "a drain is dropped half way"),
    "a reset with a store in flight": ((*STORING, DRAIN), RESET, "a reset with transfers in flight"),
    "a reset with a load in flight": ((*LOADING, DRAIN), RESET, "a reset with transfers in flight"),
    "a reset before a late report": ((*LOADING, RESET), RESET, "a reset with transfers in flight"),
    "a reset with a store undrained": (holding(1), RESET, "a reset with events undrained"),
    "a reset after half a drain": ((*holding(1), drain(1)), RESET, "a reset with events undrained"),
    "a reset with an eviction undrained": (
        (*holding(1, 2, 3), DRAIN, offer("r1", 4), failed("r1", 4)),
        RESET,
        "a reset with events undrained",
    ),
}


@pytest.mark.parametrize(("sequence", "call", "breach"), BREACHES.values(), ids=BREACHES.keys())
def test_a_breach_of_the_contract(sequence: Sequence[Call], call: Call, breach: str) -> None:
    promises = promises_after(sequence)
    assert str(promises.breach(call, CONTRACT)).startswith(breach)
    assert None is promises.breach(call, CARELESS)


FINE = {
    "a touch after the finish": ((*holding(1), finish("r1")), touch("r1", 1)),
    "a fresh request": ((*holding(), finish("r1")), announce("r3")),
    "a finish": (holding(), finish("r1")),
    "a completion after the finish": ((*STORING, finish("r1")), stored("r1", 2)),
    "the end of a load after the finish": ((*LOADING, finish("r2")), loaded("r2", 1)),
    "a load after a HIT": (HIT, load("r2", 1)),
    "a load after somebody else's HIT": (HIT, load("r1", 1)),
    "a load after another load": ((*LOADING,), load("r1", 1)),
    "a load after a completion": ((*STORING, lookup("r2", 1), stored("r1", 2)), load("r2", 1)),
    "a load after a touch and a drain": ((*HIT, touch("r1", 2), DRAIN), load("r2", 1)),
    "a load again after its end": ((*LOADING, loaded("r2", 1)), load("r2", 1)),
    "a part of a store": ((*holding(), offer("r1", 1, 2)), failed("r1", 2)),
    "two loads in any order": ((*HIT, lookup("r2", 2), load("r2", 1, 2)), loaded("r2", 2, 1)),
    "an offer of what is pending": (STORING, offer("r1", 2)),
    "a whole drain": (holding(1), DRAIN),
    "a reset at rest and drained": ((*LOADING, loaded("r2", 1), DRAIN), RESET),
    "a reset at once": (holding(), RESET),
    "a reset after the rest of a drain": ((*holding(1), drain(1), DRAIN), RESET),
    "a look at the figures": ((), STATS),
    "a touch of what is absent": (holding(), touch("r1", 9)),
}


@pytest.mark.parametrize(("sequence", "call"), FINE.values(), ids=FINE.keys())
def test_what_keeps_the_contract(sequence: Sequence[Call], call: Call) -> None:
    assert None is promises_after(sequence).breach(call, CONTRACT)


def test_events_that_are_off_need_no_drain() -> None:
    assert None is promises_after(holding(1), events=False).breach(RESET, CONTRACT)


def test_a_call_that_raised_has_promised_nothing() -> None:
    session = judged(Puppet, (*HIT, load("r2", 1, 9)))
    assert None is session.promises.breach(load("r2", 1), CONTRACT)


# Without tickets two transfers of one request and key cannot be told apart, so that nobody makes them.
@pytest.mark.parametrize("discipline", [CARELESS, CONTRACT])
@pytest.mark.parametrize(
    ("sequence", "call", "breach"),
    [
        (LOADING, load("r2", 1), "r2 has a load of [1] in flight"),
        ((*LOADING, RESET, offer("r1", 1), stored("r1", 1)), load("r2", 1), "r2 has a load of [1] in flight"),
        ((*STORING, RESET), offer("r1", 1, 2), "r1 has not reported its store of [2] from before the reset"),
    ],
)
def test_no_two_transfers_of_a_request_and_key(
    sequence: Sequence[Call], call: Call, breach: str, discipline: str
) -> None:
    assert breach == promises_after(sequence).breach(call, discipline)


@pytest.mark.parametrize(
    ("sequence", "call"),
    [
        (LOADING, load("r1", 1)),
        ((*STORING, RESET), offer("r2", 2)),
        ((*STORING, RESET), offer("r1", 1)),
        ((*LOADING, loaded("r2", 1)), load("r2", 1)),
    ],
)
def test_others_may(sequence: Sequence[Call], call: Call) -> None:
    assert None is promises_after(sequence).breach(call, CARELESS)


@pytest.mark.parametrize(
    ("late", "again"), [(stored("r1", 2), offer("r1", 2)), (loaded("r2", 1), load("r2", 1))], ids=str
)
def test_a_late_report_that_was_taken_makes_room_for_another_transfer(late: Call, again: Call) -> None:
    promises = promises_after((*STORING, lookup("r2", 1), load("r2", 1), RESET))
    assert None is not promises.breach(again, CARELESS)
    promises.observe(late, None)
    assert None is promises.breach(again, CARELESS)


def test_each_occurrence_is_a_load_of_its_own() -> None:
    promises = promises_after((*holding(1), load("r1", 1, 1), loaded("r1", 1)))
    assert (None, False) == (promises.breach(loaded("r1", 1), CONTRACT), promises.at_rest)


# --- with tiers -----------------------------------------------------------------------------------


def promises_with_tiers(sequence: Sequence[Call]) -> Promises:
    """What was promised when the built-in manager, over one tier, has answered these calls."""
    session = play(BUILT_IN, Setup(3, tiers=1), PROFILE, sequence)
    assert (len(sequence), ()) == (len(session.records), session.broken)
    return session.promises


PROMOTED = (*BEGUN, fill(0, 5), lookup("r1", 5), END, done(0, 5))
STORED = (*BEGUN, offer("r1", 1), stored("r1", 1))

BREACHES_WITH_TIERS = {
    "a completion of nothing": (STORED, stored("r1"), "a completion of nothing"),
    "a peer with the name of a request": (BEGUN, peer(0, "r1", 1), "r1 is not a fresh id"),
    "a peer with the name of a peer": ((*BEGUN, peer(0, "p1", 1)), peer(0, "p1", 1), "p1 is not a fresh id"),
    "a request with the name of a peer": ((*BEGUN, peer(0, "p1", 1)), announce("p1"), "p1 is not a fresh id"),
    "a peer that asks twice": (BEGUN, peer(0, "p1", 1, 1), "a key twice in one call"),
    "a load in the next step": ((*STORED, lookup("r1", 1), END), load("r1", 1), "the latest lookup of [1] was not"),
    "a load of what is promoted": ((*BEGUN, fill(0, 5), lookup("r1", 5)), load("r1", 5), "the latest lookup of [5]"),
    "a reset with a reservation untold": (
        (*BEGUN, fill(0, 5), lookup("r1", 5)),
        RESET,
        "a reset with events undrained",
    ),
    "a reset with an arrival untold": (
        (*BEGUN, fill(0, 5), lookup("r1", 5), DRAIN, END, done(0, 5), END),
        RESET,
        "a reset with events undrained",
    ),
}


@pytest.mark.parametrize(("sequence", "call", "breach"), BREACHES_WITH_TIERS.values(), ids=BREACHES_WITH_TIERS.keys())
def test_a_breach_of_the_contract_with_tiers(sequence: Sequence[Call], call: Call, breach: str) -> None:
    promises = promises_with_tiers(sequence)
    assert str(promises.breach(call, CONTRACT)).startswith(breach)
    assert str(promises.breach(call, HOSTILE)).startswith(breach)
    assert None is promises.breach(call, CARELESS)


FINE_WITH_TIERS = {
    "what happens in a tier": (BEGUN, fill(0, 1)),
    "a tier that takes its time": (BEGUN, delay(0, 1)),
    "the end of a step": (STORED, END),
    "the end of a job, in part": (STORED, done(0)),
    "a fresh peer": ((*BEGUN, peer(0, "p1", 1)), peer(0, "p2", 1)),
    "a load of what was promoted": ((*PROMOTED, lookup("r1", 5)), load("r1", 5)),
    "a load after another lookup has made room": (
        (*STORED, lookup("r1", 1), fill(0, 5), lookup("r2", 5)),
        load("r1", 1),
    ),
    "a reset while a job is under way": ((*STORED, DRAIN), RESET),
    "a reset after the rest was told": ((*PROMOTED, END, DRAIN), RESET),
}


@pytest.mark.parametrize(("sequence", "call"), FINE_WITH_TIERS.values(), ids=FINE_WITH_TIERS.keys())
def test_what_keeps_the_contract_with_tiers(sequence: Sequence[Call], call: Call) -> None:
    assert None is promises_with_tiers(sequence).breach(call, CONTRACT)


@pytest.mark.parametrize("call", [END, fill(0, 1), delay(0, 1), done(0, 1), peer(0, "p1", 1)], ids=str)
def test_without_tiers_nothing_happens_in_them(call: Call) -> None:
    assert {"there are no tiers"} == {Promises().breach(call, under) for under in (CONTRACT, CARELESS, HOSTILE)}


def test_only_a_hostile_caller_makes_a_tier_raise() -> None:
    promises = promises_with_tiers((*BEGUN, offer("r1", 1)))
    call = evolve(stored("r1", 1), raises_in=calls.FAULTS[0])
    assert {"submit_store raises"} == {promises.breach(call, under) for under in (CONTRACT, CARELESS)}
    assert None is promises.breach(call, HOSTILE)


def test_a_hostile_caller_keeps_the_contract_otherwise() -> None:
    assert "r9 was not announced" == promises_with_tiers(BEGUN).breach(lookup("r9", 1), HOSTILE)
