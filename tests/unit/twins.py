"""Two managers that are asked the same, as one subject: where they differ, it is noted."""

from __future__ import annotations

from collections.abc import Collection

from attrs import define, evolve, field

from evictable.model.calls import Answer, Call, Key
from evictable.model.exchanges import Exchange
from evictable.model.snapshot import Snapshot
from evictable.specs.budget import Budget
from evictable.specs.callers.walk import walk
from evictable.specs.faults import Faults
from evictable.specs.session import outcome_of
from evictable.specs.subjects.base import Setup, Subject, SubjectKind


@define
class Twins:
    """Answers as the first does. Each call is followed by a look at both of them in full."""

    first: Subject
    second: Subject
    differences: list[str]
    calls: list[Call] = field(factory=list)

    @property
    def faults(self) -> Faults:
        return Faults(())

    def exchanges(self) -> tuple[Exchange, ...]:
        return ()

    def snapshot(self, keys: Collection[Key] | None) -> Snapshot | None:
        return self.first.snapshot(keys)

    def perform(self, call: Call) -> Answer:
        self.calls.append(call)
        told = outcome_of(self.second, call)
        expected = outcome_of(self.first, call)
        seen, shown = _inside(self.first), _inside(self.second)
        if (expected, seen) != (told, shown):
            self.differences.append(f"{len(self.calls)} calls, {call}: {expected} {told}; {seen} {shown}")
        # The first has made the call; what it came to is told as it would have told it.
        return _again(expected)


def _inside(subject: Subject) -> Snapshot:
    seen = subject.snapshot(None)
    assert seen is not None
    # The order has it; ARC's policy keeps no list of the evictable.
    return evolve(seen, evictable=None)


def _again(outcome: object) -> Answer:
    if hasattr(outcome, "message"):
        raise type(outcome.type, (Exception,), {})(outcome.message)  # type: ignore[attr-defined]
    return outcome  # type: ignore[return-value]


def differences(
    first: SubjectKind, second: SubjectKind, setup: Setup, discipline: str, calls: int, seed: int
) -> list[str]:
    """What the two differ in, over so many random calls of both, block ids and errors with their messages included."""
    found: list[str] = []

    def make(setup: Setup) -> Subject:
        return Twins(first.make(setup), second.make(setup), found)

    kind = evolve(first, make=make)
    profile, budget = first.profile(setup.policy), Budget(max_calls=calls)
    varied = setup.store_threshold > 1
    for session in walk(kind, setup, profile, discipline, budget, seed, vary_capacity=True, vary_tracker=varied):
        if found or session.broken:
            return found or [str(session.broken)]
    return found
