"""What interleaving came to, as plain data."""

from __future__ import annotations

from typing import Any

from evictable.model.calls import describe
from evictable.model.trace import state_record
from evictable.specs.records import broken_record
from evictable.specs.schedules.search import Finding, Outcomes


def pair_record(made: Outcomes) -> dict[str, Any]:
    """What interleaving a pair came to, as plain data."""
    record = {
        "pair": str(made.pair),
        "cache": made.pair.cache,
        "verdict": made.verdict,
        "schedules": made.schedules,
        "points": made.points,
        "histories": made.different,
        "seconds": round(made.seconds, 3),
        "problem": made.problem,
    }
    if made.finding is not None:
        record["finding"] = _finding_record(made.finding)
    return record


def _finding_record(finding: Finding) -> dict[str, Any]:
    history = finding.history
    state = history.pair[-1].state if history.pair else None
    return {
        "before": [[str(made.call), describe(made.outcome)] for made in history.before],
        "calls": [[str(made.call), describe(made.outcome)] for made in history.pair],
        "schedule": list(finding.steps),
        "number": finding.schedule,
        "preemptions": finding.preemptions,
        "state": None if state is None else state_record(state),
        "orders": [
            {"first": one.order[0] + 1, "call": str(one.call), "broken": [broken_record(law) for law in one.broken]}
            for one in finding.refuted
        ],
    }
