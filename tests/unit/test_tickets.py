"""Does a completion that carries a ticket end what that very preparation began, and nothing else?"""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from attrs import evolve
from seeded import PROFILE, RESET, announce, failed, kind_of_manager, load, loaded, lookup, offer, stored

from evictable.impl import CPUOffloadingManager, OffloadKey, ReqContext, StaleCompletion, Ticket
from evictable.model import trace as traces
from evictable.model.calls import Call, Raised
from evictable.specs.callers.disciplines import CARELESS, CONTRACT
from evictable.specs.session import Session, play
from evictable.specs.subjects.base import Setup
from evictable.specs.subjects.builtin import BUILT_IN

ONE, OTHER = ReqContext("r1"), ReqContext("r2")
A, B = OffloadKey(b"a"), OffloadKey(b"b")


def holding(*keys: OffloadKey) -> CPUOffloadingManager:
    manager = CPUOffloadingManager(2)
    manager.prepare_store(keys, ONE)
    manager.complete_store(keys, ONE)
    return manager


def store(manager: CPUOffloadingManager, *keys: OffloadKey) -> Ticket:
    output = manager.prepare_store(keys, ONE)
    assert output is not None
    assert isinstance(output.store_spec.ticket, Ticket)
    return output.store_spec.ticket


def pin(manager: CPUOffloadingManager, *keys: OffloadKey, request: ReqContext = ONE) -> Ticket:
    ticket = manager.prepare_load(keys, request).ticket
    assert ticket is not None
    return ticket


def pins(manager: CPUOffloadingManager, key: OffloadKey) -> int:
    block = manager._policy.get(key)
    assert block is not None
    return block.ref_cnt


def test_a_store_ends_with_its_ticket_key_by_key() -> None:
    manager = CPUOffloadingManager(2)
    ticket = store(manager, A, B)
    manager.complete_store([B], ONE, ticket=ticket)
    assert (-1, 0) == (pins(manager, A), pins(manager, B))
    manager.complete_store([A], ONE, success=False, ticket=ticket)
    assert None is manager._policy.get(A)


def test_a_load_ends_with_its_ticket_as_often_as_it_was_named() -> None:
    manager = holding(A)
    ticket = pin(manager, A, A)
    manager.complete_load([A], ONE, ticket)
    manager.complete_load([A], ONE, ticket)
    assert 0 == pins(manager, A)


def test_a_load_reported_twice_leaves_the_other_load_alone() -> None:
    manager = holding(A)
    first, _ = pin(manager, A), pin(manager, A)
    manager.complete_load([A], ONE, first)
    with pytest.raises(StaleCompletion, match="complete_load for request 'r1'"):
        manager.complete_load([A], ONE, first)
    assert 1 == pins(manager, A)


def test_no_more_than_a_ticket_covers() -> None:
    manager = holding(A)
    first, _ = pin(manager, A), pin(manager, A)
    with pytest.raises(StaleCompletion):
        manager.complete_load([A, A], ONE, first)
    assert 2 == pins(manager, A)


def test_a_key_that_it_does_not_cover() -> None:
    manager = holding(A, B)
    ticket = pin(manager, A)
    pin(manager, B)
    with pytest.raises(StaleCompletion) as raised:
        manager.complete_load([A, B], ONE, ticket)
    assert (B, 1, 1) == (raised.value.key, pins(manager, A), pins(manager, B))


def test_a_failed_store_reported_late_leaves_the_new_one_alone() -> None:
    manager = CPUOffloadingManager(2)
    first = store(manager, A)
    manager.complete_store([A], ONE, success=False, ticket=first)
    second = store(manager, A)
    with pytest.raises(StaleCompletion):
        manager.complete_store([A], ONE, ticket=first)
    assert -1 == pins(manager, A)
    manager.complete_store([A], ONE, ticket=second)
    assert 0 == pins(manager, A)


@pytest.mark.parametrize("again", [False, True], ids=["gone", "begun again"])
def test_what_a_reset_has_ended(again: bool) -> None:
    manager = CPUOffloadingManager(2)
    ticket = store(manager, A)
    manager.reset_cache()
    if again:
        store(manager, A)
    with pytest.raises(StaleCompletion):
        manager.complete_store([A], ONE, ticket=ticket)


def test_tickets_of_another_request_another_call_and_another_manager() -> None:
    manager = holding(A)
    own, foreign = pin(manager, A), pin(manager, A, request=OTHER)
    of_store, elsewhere = store(manager, B), pin(holding(A), A)
    for ticket in (foreign, of_store, elsewhere):
        with pytest.raises(StaleCompletion):
            manager.complete_load([A], ONE, ticket)
    manager.complete_load([A], ONE, own)
    assert 1 == pins(manager, A)


def test_nothing_to_store_and_nothing_to_load_have_tickets_too() -> None:
    manager = holding(A)
    manager.complete_store([], ONE, ticket=store(manager, A))
    manager.complete_load([], ONE, pin(manager))
    with pytest.raises(StaleCompletion):
        manager.complete_load([A], ONE, pin(manager))


def test_without_a_ticket_the_request_and_the_key_count() -> None:
    manager = holding(A)
    pin(manager, A)
    manager.complete_load([A], ONE)
    assert 0 == pins(manager, A)


def test_a_ticket_says_what_it_is_for() -> None:
    assert "<ticket for complete_load of request 'r1': {b'a': 2}>" == repr(pin(holding(A), A, A))


# --- in the model, in traces, for callers ---------------------------------------------------------


def with_ticket(call: Call, number: int) -> Call:
    return evolve(call, ticket=number)


LATE = (
    announce("r1"),
    with_ticket(offer("r1", 0), 1),
    RESET,
    with_ticket(offer("r1", 0), 2),
    with_ticket(stored("r1", 0), 1),
)
SPENT = (
    announce("r1"),
    with_ticket(offer("r1", 0), 1),
    with_ticket(failed("r1", 0), 1),
    with_ticket(offer("r1", 0), 2),
    with_ticket(stored("r1", 0), 1),
)
TWO_LOADS = (
    announce("r1"),
    with_ticket(offer("r1", 0), 1),
    with_ticket(stored("r1", 0), 1),
    lookup("r1", 0),
    with_ticket(load("r1", 0), 2),
    with_ticket(load("r1", 0), 3),
    with_ticket(loaded("r1", 0, 0), 2),
)


class Credulous(CPUOffloadingManager):
    """Looks at no ticket."""

    def complete_store(self, keys, req_context, success=True, ticket=None):  # type: ignore[no-untyped-def]
        super().complete_store(keys, req_context, success)

    def complete_load(self, keys, req_context, ticket=None):  # type: ignore[no-untyped-def]
        super().complete_load(keys, req_context)


@pytest.mark.parametrize("sequence", [LATE, SPENT, TWO_LOADS], ids=["late", "spent", "two loads"])
def test_the_judge_knows_whose_a_completion_is(sequence: Sequence[Call]) -> None:
    good = play(BUILT_IN, Setup(2), PROFILE, sequence)
    assert ((), "StaleCompletion") == (good.broken, getattr(good.records[-1].outcome, "type", None))
    bad = play(kind_of_manager(Credulous), Setup(2), PROFILE, sequence)
    assert ["owner-completes"] == [broken.law.id for broken in bad.broken]
    assert not isinstance(bad.records[-1].outcome, Raised)


def test_a_trace_keeps_tickets() -> None:
    trace = traces.Trace(traces.Head(2), tuple(traces.Entry(call) for call in LATE))
    assert LATE == traces.read(traces.write(trace)).calls


@pytest.mark.parametrize(
    ("before", "call", "breach"),
    [
        (2, stored("r1", 0), "r1 uses tickets"),
        (2, with_ticket(stored("r1", 0), 7), "there is no ticket 7"),
        (2, with_ticket(offer("r1", 1), 1), "ticket 1 was given before"),
        (5, with_ticket(load("r1", 0), 9), None),
        (6, with_ticket(loaded("r1", 0), 1), "r1 with ticket 1 has no transfer of 0"),
    ],
)
def test_what_a_caller_promises_of_tickets(before: int, call: Call, breach: str | None) -> None:
    session = Session.begin(BUILT_IN, Setup(2), PROFILE, CONTRACT)
    for made in TWO_LOADS[:before]:
        session.step(made)
    assert breach == session.promises.breach(call, CONTRACT)


def test_a_careless_caller_may_load_a_key_twice_where_tickets_tell_the_loads_apart() -> None:
    session = Session.begin(BUILT_IN, Setup(2), PROFILE, CARELESS)
    for made in TWO_LOADS[:6]:
        assert session.allows(made)
        session.step(made)
    assert 2 == session.judge.model.ref_cnt[0]


def test_a_manager_without_tickets_is_called_without_them() -> None:
    class Ticketless(CPUOffloadingManager):
        def complete_store(self, keys, req_context, success=True):  # type: ignore[no-untyped-def, override]
            super().complete_store(keys, req_context, success)

        def prepare_store(self, keys, req_context):  # type: ignore[no-untyped-def]
            output = super().prepare_store(keys, req_context)
            if output is not None:
                del output.store_spec.ticket  # type: ignore[attr-defined]
                assert None is getattr(output.store_spec, "ticket", None)
            return output

    session = play(kind_of_manager(Ticketless), Setup(2), PROFILE, TWO_LOADS[:3])
    assert ((), None) == (session.broken, session.records[-1].outcome)
