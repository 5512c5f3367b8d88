"""What a campaign has found, each once: at one place by law, by the call that breaks it, and by what raised in that.

The order in which results arrive does not matter: of all runs that end in the same way the shortest is kept.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from attrs import define, field

from evictable.specs.campaign.places import SHRINK, Place

Key = tuple[Place, str]
"""The place and the shape, see `evictable.specs.campaign.scout.shape_of`."""


@define
class Finding:
    """A broken law with the shortest run that breaks it so."""

    place: Place
    shape: str
    law: str
    fault: str | None
    broken: Mapping[str, Any]
    trace: list[str]
    size: list[int]
    shrunk: bool
    unit: int
    """That it was found by first: of all units the one with the lowest number."""
    engine: str
    seed: int
    of: int
    """The unit that the trace is of."""
    times: int = 1
    """Runs that ended so."""
    unrepeatable: str | None = None
    """Why it may be doubted: the calls, made again, did not break the law again."""
    reason: str | None = None
    """Why it is expected, if it is."""

    @property
    def calls(self) -> int:
        return len(self.trace) - 1

    @property
    def rank(self) -> tuple[Any, ...]:
        """The least is the best to show."""
        return (not self.shrunk, self.size, self.of)

    def record(self) -> dict[str, Any]:
        return {
            **self.place.record(),
            "law": self.law,
            "shape": self.shape,
            "fault": self.fault,
            "expected": self.broken["expected"],
            "observed": self.broken["observed"],
            "sentence": self.broken["sentence"],
            "calls": self.calls,
            "shrunk": self.shrunk,
            "times": self.times,
            "found_by": {"unit": self.unit, "engine": self.engine, "seed": self.seed},
            "unrepeatable": self.unrepeatable,
            "expected_because": self.reason,
        }


@define
class Findings:
    """By place and shape."""

    found: dict[Key, Finding] = field(factory=dict)

    def take(self, place: Place, unit: Mapping[str, Any], result: Mapping[str, Any]) -> list[Finding]:
        """Take in what a unit found; those that are new, or are known by a shorter run now."""
        news = []
        for one in result.get("findings", ()):
            found = Finding(
                place,
                one["shape"],
                one["law"],
                one["fault"],
                one["broken"],
                one["trace"],
                one["size"],
                one["shrunk"],
                unit["unit"],
                unit["engine"],
                unit["seed"],
                of=unit["unit"],
                times=0,
            )
            if self._offer(found):
                news.append(self.found[place, found.shape])
        if unit["engine"] != SHRINK:
            for shape, times in result.get("times", {}).items():
                if (place, shape) in self.found:
                    self.found[place, shape].times += times
        return news

    def _offer(self, found: Finding) -> bool:
        key = found.place, found.shape
        known = self.found.get(key)
        if known is None:
            self.found[key] = found
            return True
        if found.unit < known.unit:
            known.unit, known.engine, known.seed = found.unit, found.engine, found.seed
        if found.rank >= known.rank:
            return False
        known.broken, known.trace, known.size = found.broken, found.trace, found.size
        known.shrunk, known.of = found.shrunk, found.of
        return True

    def doubt(self, key: Key, message: str) -> None:
        """What was to be shrunk does not repeat. It stays, and says so, unless another run of it has repeated."""
        found = self.found.get(key)
        if found is not None and not found.shrunk:
            found.unrepeatable = message

    def settle(self) -> None:
        """What repeats after all is not doubted."""
        for found in self.found.values():
            if found.shrunk:
                found.unrepeatable = None

    @property
    def in_order(self) -> list[Finding]:
        return sorted(self.found.values(), key=lambda one: (one.place.name, one.law, one.calls, one.shape))
