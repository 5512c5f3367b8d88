"""Hunting what no hand made: first by walks under every caller, then exhaustively, then by the project's unit tests."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress

from attrs import evolve, frozen

from evictable.specs.budget import Budget
from evictable.specs.callers.disciplines import CARELESS, CONTRACT, HOSTILE
from evictable.specs.errors import LawlessDifference, UsageError
from evictable.specs.exhaustive.explore import Exploration, counterexample
from evictable.specs.exhaustive.locksteps import QUICK
from evictable.specs.mutants.build import build
from evictable.specs.mutants.fate import ALIVE, EXHAUSTIVE, RANDOM, REFUTED, Fate
from evictable.specs.mutants.hunt import fate_of
from evictable.specs.mutants.mutant import Mutant
from evictable.specs.mutants.tested import failing_test
from evictable.specs.search import RANDOM as WALK
from evictable.specs.search import Finding, Search, Task
from evictable.specs.subjects.base import Setup, SubjectKind
from evictable.specs.subjects.builtin import kind_of

SHALLOW, DEEP = (3_000, 14_000), (70_000,)
"""Judged calls of walks, shared out among the callers: under every caller so many, before under one it is more."""
FEW, MANY = (500,), (5_000,)
"""Transitions in a small world. The unit tests are run between the shallow searches and the deep ones."""
TESTS, STILLBORN = "tests", "stillborn"
"""What else ends a mutant: a failing unit test; it cannot be imported, or no manager constructed."""


@frozen
class Caller:
    """Who calls what."""

    policy: str
    discipline: str
    store_threshold: int = 1

    @property
    def setup(self) -> Setup:
        return Setup(3, self.policy, store_threshold=self.store_threshold)


def callers_of(mutant: Mutant) -> list[Caller]:
    """Every caller that reaches the edited module."""
    policies = {"policies.lru": ("lru",), "policies.arc": ("arc",)}.get(mutant.module, ("lru", "arc"))
    callers = [Caller(policy, discipline) for discipline in (CONTRACT, CARELESS, HOSTILE) for policy in policies]
    return [*callers, *((Caller("lru", CARELESS, 2),) if "lru" in policies else ())]


def hunt_generated(mutant: Mutant, on_progress: Callable[[], None] = lambda: None) -> Fate:
    """What comes of a mutant of which nobody said what it breaks: any law will do."""
    began = time.perf_counter()
    fate = _fate(mutant, on_progress)
    return evolve(fate, seconds=time.perf_counter() - began)


def _fate(mutant: Mutant, on_progress: Callable[[], None]) -> Fate:
    try:
        kind = kind_of(f"mutant:{mutant.name}", build(mutant))
        for caller in callers_of(mutant):
            kind.make(caller.setup)
    except Exception as error:
        return Fate(STILLBORN, REFUTED, f"{type(error).__name__}", calls=0, judged=0)
    judged = 0
    notes: list[str] = []
    try:
        for fate in _hunts(mutant, kind, on_progress):
            judged += fate.judged or 0
            if fate.verdict == REFUTED:
                return evolve(fate, judged=judged)
            notes += [fate.note] if fate.note else []
    except UsageError as error:  # with as many slots, or as large a tracker, as a walk may ask for
        return Fate(STILLBORN, REFUTED, str(error), calls=0, judged=judged)
    except LawlessDifference as error:
        notes = [f"no law says how it differs: {error}"]
    nothing = f"no law was broken in {judged:,} calls, and no unit test fails"
    return Fate(RANDOM, ALIVE, judged=judged, note=notes[0] if notes else nothing)


def _hunts(mutant: Mutant, kind: SubjectKind, on_progress: Callable[[], None]) -> Iterator[Fate]:
    """One hunt after the other, the cheapest first."""
    yield from _walked(mutant, kind, SHALLOW, on_progress)
    yield from _explored(mutant, kind, FEW, on_progress)
    test = failing_test(mutant)
    if test is not None:
        yield Fate(TESTS, REFUTED, test)
    on_progress()
    yield from _walked(mutant, kind, DEEP, on_progress)
    yield from _explored(mutant, kind, MANY, on_progress)


class _Enough(Exception):
    """A law is broken."""


def _walked(
    mutant: Mutant, kind: SubjectKind, depths: Sequence[int], on_progress: Callable[[], None]
) -> Iterator[Fate]:
    def on_finding(finding: Finding) -> None:
        raise _Enough

    callers = callers_of(mutant)
    for depth in depths:
        for caller in callers:
            task = Task(
                kind,
                caller.setup,
                kind.profile(caller.policy),
                caller.discipline,
                vary_tracker=caller.store_threshold > 1,
            )
            search = Search(task, on_finding, lambda search: on_progress())
            with suppress(_Enough):
                search.run((WALK,), depth // len(callers), None)
            found = next(iter(search.findings.values()), None)
            if found is None:
                yield Fate(RANDOM, ALIVE, judged=search.steps)
            else:
                yield fate_of(RANDOM, found.counterexample, caller.discipline, search.steps)


def _explored(
    mutant: Mutant, kind: SubjectKind, depths: Sequence[int], on_progress: Callable[[], None]
) -> Iterator[Fate]:
    policies = {caller.policy for caller in callers_of(mutant)}
    scopes = [one.scope for one in QUICK if one.scope.setup.policy in policies and not one.scope.setup.tiers]
    for transitions in depths:
        for scope in scopes:
            exploration = Exploration(kind, scope, kind.profile(scope.setup.policy))
            session = next(exploration.run(Budget(max_calls=transitions), on_progress), None)
            if session is None:
                yield Fate(EXHAUSTIVE, ALIVE, judged=exploration.transitions)
            else:
                found = counterexample(exploration, session)
                yield fate_of(EXHAUSTIVE, found, scope.discipline, exploration.transitions)
