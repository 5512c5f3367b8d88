"""A unit of work: plain data, which says all that there is to know of it, wherever it is done."""

from __future__ import annotations

import hashlib
import importlib.metadata
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

from attrs import asdict, field, frozen

import evictable.specs
from evictable.specs.campaign.places import Place

VERSION = 1
OTHER_VERSION = "version"
"""The kind of problem of a unit that came to another version."""


@cache
def version() -> str:
    """Of evictable, and of its source: of another the same seed may be another search."""
    digest = hashlib.sha256()
    folder = Path(evictable.specs.__file__).parent.parent
    for file in sorted(file for part in ("model", "specs", "impl") for file in (folder / part).rglob("*.py")):
        digest.update(file.read_bytes())
    return f"{importlib.metadata.version('evictable')}+{digest.hexdigest()[:12]}"


@frozen
class Unit:
    """A bounded search of one place, or the shrinking of one finding.

    Bounded by calls, so that a unit comes to the same wherever and whenever it is done; ``max_seconds`` is for a
    subject that is too slow for that, and a unit which it cuts short says so.
    """

    number: int
    place: Place
    engine: str
    seed: int = 0
    max_calls: int = 20_000
    max_seconds: float = 30.0
    profile: str = "auto"
    capacity: int | None = None
    """``None`` is varied."""
    without: tuple[str, ...] = ()
    """Calls that are left out: a swarm."""
    scope: int = 0
    """Of an exhaustive search: the how manieth small world."""
    parents: tuple[tuple[str, ...], ...] = ()
    """Traces that are altered and extended, as lines."""
    known: str | None = None
    """What was reached before, see `Bits.text`."""
    settled: Mapping[str, int] = field(factory=dict)
    """Shapes that are known, and in how many calls: only a shorter one is news."""
    law: str = ""
    """Of a shrinking unit: what ``parents[0]`` breaks."""
    shape: str | None = None
    """Likewise: which finding that is."""
    memory: int = 0
    """MiB that the process may take; 0 is no limit."""

    @property
    def name(self) -> str:
        """What is needed to find it again."""
        return f"unit {self.number} ({self.engine}, seed {self.seed})"

    def record(self) -> dict[str, Any]:
        return {"unit_version": VERSION, "evictable": version(), **asdict(self)}

    @classmethod
    def of(cls, record: Mapping[str, Any]) -> Unit:
        """From `record`, which may have been JSON in between."""
        told = {name: value for name, value in record.items() if name not in ("unit_version", "evictable")}
        told["place"] = Place(**told["place"])
        told["without"] = tuple(told["without"])
        told["parents"] = tuple(map(tuple, told["parents"]))
        return cls(**told)
