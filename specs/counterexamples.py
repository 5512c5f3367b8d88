"""Counterexamples as traces, and traces as evidence."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from attrs import evolve

from evictable.model.calls import Call
from evictable.model.manager import Manager
from evictable.model.trace import Entry, Head, Trace
from evictable.specs.judge import Broken
from evictable.specs.recorded import RecordedJudge, setup_of
from evictable.specs.session import Session
from evictable.specs.shrink import Counterexample
from evictable.specs.subjects.base import Setup, SubjectKind


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
    return next((broken for _, broken in judged(trace, profile) if broken), ())


def judged(trace: Trace, profile: str) -> Iterator[tuple[Manager, tuple[Broken, ...]]]:
    """Judge the answers of a trace call by call: the model after each, and the laws that it broke, with which it ends.

    Raises `UsageError` if an entry has no answer.
    """
    judge = RecordedJudge(trace.head, profile)
    for entry in trace.entries:
        broken = judge.observe(entry)
        yield judge.model, broken
        if broken:
            return


__all__ = ["head_of", "judge_recorded", "replay", "setup_of", "trace_of"]
