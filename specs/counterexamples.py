"""Counterexamples as traces, and traces as evidence."""

from __future__ import annotations

from collections.abc import Iterable

from attrs import evolve

from evictable.model.admission import Admission
from evictable.model.calls import Call
from evictable.model.snapshot import Snapshot
from evictable.model.trace import NOT_RECORDED, Entry, Head, Trace
from evictable.specs.errors import UsageError
from evictable.specs.judge import Broken, Judge
from evictable.specs.session import Session, model_of
from evictable.specs.shrink import Counterexample
from evictable.specs.subjects.base import Setup, SubjectKind


def setup_of(head: Head) -> Setup:
    """How to build the subject of a trace."""
    setup = Setup(
        head.capacity,
        head.policy,
        head.events,
        head.store_threshold,
        tiers=head.tiers,
        request_level=head.request_level,
    )
    return setup if head.max_tracker_size is None else evolve(setup, max_tracker_size=head.max_tracker_size)


def replay(
    kind: SubjectKind, setup: Setup, profile: str, sequence: Iterable[Call], head: Head
) -> tuple[Session, Trace]:
    """Play ``sequence`` on a fresh subject up to its first broken law, recording the state after every call."""
    session = Session.begin(kind, setup, profile)
    head = evolve(head, inside=True)  # whatever subject it was recorded of
    entries = []
    for call in sequence:
        session.step(call)
        shown = session.subject.snapshot(None)
        head = head if shown is not None else evolve(head, inside=False)
        state = session.judge.model.snapshot(None) if shown is None else shown
        made = session.records[-1]
        entries.append(Entry(made.call, made.outcome, state, exchanges=made.exchanges))
        if session.broken:
            break
    return session, Trace(head, tuple(entries))


def head_of(kind: SubjectKind, setup: Setup, profile: str, discipline: str, law: str | None = None) -> Head:
    """The head of a trace of calls to a subject of that setup."""
    counted = setup.store_threshold > 1
    return Head(
        capacity=setup.capacity,
        subject=kind.name,
        policy=setup.policy,
        profile=profile,
        events=setup.events,
        store_threshold=setup.store_threshold,
        max_tracker_size=setup.max_tracker_size if counted else None,
        admission=kind.admission if counted else None,
        discipline=discipline,
        law=law,
        tiers=setup.tiers,
        request_level=setup.request_level,
    )


def trace_of(kind: SubjectKind, found: Counterexample, discipline: str) -> Trace:
    """The trace of a counterexample, its states included."""
    head = head_of(kind, found.setup, found.profile, discipline, found.law)
    _, trace = replay(kind, found.setup, found.profile, found.calls, head)
    return trace


def judge_recorded(trace: Trace, profile: str) -> tuple[Broken, ...]:
    """The laws that the answers of a trace, and its states where it has any, break, at the first call that does.

    Raises `UsageError` if an entry has no answer.
    """
    setup = setup_of(trace.head)
    states: list[Snapshot | None] = [entry.state for entry in trace.entries]
    shown = any(state is not None for state in states) and trace.head.inside
    first = Snapshot({}, {}, (), num_events=0 if _counts_events(states) else None, full=True, order=None)
    current: list[Snapshot | None] = [first if shown else None]
    model = model_of(setup, profile, trace.head.admission or Admission.name)
    judge = Judge(model, lambda keys: current[0], always_full=shown)
    for entry in trace.entries:
        if entry.outcome is NOT_RECORDED:
            raise UsageError(
                f"line {entry.line}: {entry.call.name} has no recorded answer; replay the calls on a subject "
                "with --subject"
            )
        current[0] = entry.state if shown else None
        broken = judge.observe(entry.call, entry.outcome, entry.exchanges)
        if broken:
            return broken
    return ()


def _counts_events(states: list[Snapshot | None]) -> bool:
    return any(state is not None and state.num_events is not None for state in states)
