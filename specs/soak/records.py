"""A soak as plain data."""

from __future__ import annotations

from typing import Any

from evictable.model.calls import describe
from evictable.specs.records import broken_record
from evictable.specs.soak.soak import Soak


def soak_record(soak: Soak) -> dict[str, Any]:
    """How far it has come."""
    return {
        "calls": soak.calls,
        "seconds": round(soak.budget.seconds, 1),
        "requests": sum(player.requests for player in soak.players),
        "rests": soak.rests,
        "faults": soak.struck,
        "memory": list(soak.samples.latest),
    }


def ending_record(soak: Soak) -> dict[str, Any]:
    """What came of it: what is broken, and the calls before."""
    growth = soak.growth
    return {
        "crowded": soak.crowded,
        "came_to_rest": soak.came_to_rest,
        "constant": None if growth is None else growth.constant,
        "growth": str(growth),
        "threads": [player.calls for player in soak.players],
        "jobs": soak.jobs,
        "broken": [broken_record(one) for one in soak.broken],
        "last": [[deed.thread, str(deed.record.call), describe(deed.record.outcome)] for deed in soak.last],
    }
