"""Hunting mutants of a release: a walk on the patched manager; what it finds, the release itself must stand."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import suppress

from attrs import evolve

from evictable.specs.errors import LawlessDifference
from evictable.specs.mutants.fate import ALIVE, RANDOM, REFUTED, Fate
from evictable.specs.mutants.hunt import MAX_CALLS, fate_of
from evictable.specs.mutants.live import Live
from evictable.specs.mutants.releases import LiveMutant
from evictable.specs.search import RANDOM as WALK
from evictable.specs.search import Finding, Search, Task
from evictable.specs.subjects.base import Setup, Subject, SubjectKind
from evictable.specs.subjects.managers import ManagerSubject


def patched(kind: SubjectKind, mutant: LiveMutant) -> SubjectKind:
    """The release with the mutant's patch in every manager."""

    def make(setup: Setup) -> Subject:
        subject = kind.make(setup)
        assert isinstance(subject, ManagerSubject)
        mutant.patch(Live(subject.manager))
        return subject

    return evolve(kind, name=f"{kind.name} with {mutant.name}", make=make)


class _Enough(Exception):
    """A law is broken that the release keeps under the same calls."""


def hunt_live(
    mutant: LiveMutant, kind: SubjectKind, on_progress: Callable[[], None] = lambda: None, max_calls: int = MAX_CALLS
) -> Fate:
    """What comes of a mutant of the release ``kind``, under the mutant's caller."""
    began = time.perf_counter()
    fates: list[Fate] = []

    def on_finding(finding: Finding) -> None:
        fates.append(fate_of(RANDOM, finding.counterexample, mutant.discipline, finding.steps, kind))
        if fates[-1].verdict == REFUTED:
            raise _Enough

    task = Task(patched(kind, mutant), Setup(3, mutant.policy), kind.profile(mutant.policy), mutant.discipline)
    search = Search(task, on_finding, lambda search: on_progress())
    try:
        with suppress(_Enough):
            search.run((WALK,), max_calls, None)
    except LawlessDifference as error:
        fates.append(Fate(RANDOM, ALIVE, note=f"no law says how it differs: {error}"))
    nothing = Fate(RANDOM, ALIVE, judged=search.steps, note=f"no law was broken in {search.steps:,} calls")
    return evolve(fates[-1] if fates else nothing, seconds=time.perf_counter() - began)
