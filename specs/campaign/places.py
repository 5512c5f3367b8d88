"""Where a campaign searches: a subject under a policy, a discipline, tiers or a threshold, at a level."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from attrs import asdict, frozen

from evictable.specs.callers.disciplines import CONTRACT, HOSTILE
from evictable.specs.search import EXHAUSTIVE, HYPOTHESIS, RANDOM, SCHEDULER

MANAGER, POLICY = "manager", "policy"
CORPUS = "corpus"
"""The engine that alters and extends what earlier units have kept."""
SHRINK = "shrink"
"""Not an engine that searches: it shortens what another has found."""


@frozen
class Place:
    """One row of a campaign's table."""

    subject: str
    policy: str
    discipline: str
    tiers: int = 0
    threshold: int = 1
    level: str = MANAGER

    @property
    def name(self) -> str:
        words = [self.subject, self.policy, self.discipline]
        words += [f"tiers {self.tiers}"] if self.tiers else []
        words += [f"threshold {self.threshold}"] if self.threshold > 1 else []
        words += ["at policy level"] if self.level == POLICY else []
        return " ".join(words)

    @property
    def engines(self) -> tuple[str, ...]:
        """What can search here, in the order in which each has its first turn."""
        if self.level == POLICY:
            return (RANDOM, EXHAUSTIVE)
        engines = [RANDOM, HYPOTHESIS, CORPUS]
        if self.tiers and self.discipline == CONTRACT:
            engines.insert(1, SCHEDULER)
        if not (self.tiers and self.discipline == HOSTILE):
            engines.append(EXHAUSTIVE)
        return tuple(engines)

    def record(self) -> dict[str, Any]:
        return asdict(self)

    def resembles(self, other: Place) -> bool:
        """Whether a trace of the one can be played on the other."""
        return (self.level, bool(self.tiers)) == (other.level, bool(other.tiers))

    def can_break(self, fault: str | None) -> bool:
        """Whether what ``fault`` broke, or no fault did, can be met here."""
        return (fault is None) or self.discipline == HOSTILE


def places_of(
    subjects: Sequence[str],
    policies: Sequence[str],
    disciplines: Sequence[str],
    tiers: Sequence[int],
    thresholds: Sequence[int],
    levels: Sequence[str],
) -> tuple[Place, ...]:
    """All combinations that mean something: with tiers there is no threshold; a policy by itself has neither."""
    places = []
    for subject in subjects:
        for policy in policies:
            for discipline in disciplines:
                if MANAGER in levels:
                    for number in tiers:
                        for threshold in (1,) if number else thresholds:
                            places.append(Place(subject, policy, discipline, number, threshold))
                if POLICY in levels and discipline != HOSTILE:
                    places.append(Place(subject, policy, discipline, level=POLICY))
    return tuple(places)
