"""What a search has put to the test, and how often: a law that nothing could have broken has not been shown to hold."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise
from typing import Any

from attrs import define, field

from evictable.model import calls
from evictable.model.calls import Raised, Stored
from evictable.model.lifecycle import ROWS
from evictable.specs.coverage import PairCoverage, vocabulary
from evictable.specs.session import Record, Session

NO_ROOM = "no room"


@define
class Exercise:
    """Counts over the runs of one search."""

    tiers: int = 0
    runs: int = 0
    rows: Counter[str] = field(factory=Counter)
    """Rows of the life cycle -> how often a block took it."""
    laws: Counter[str] = field(factory=Counter)
    """Laws -> runs in which they were put to the test."""
    refusals: Counter[tuple[str, str]] = field(factory=Counter)
    """Call and why it was refused (`NO_ROOM`, or what it raised) -> how often."""
    consecutive: Counter[tuple[str, str]] = field(factory=Counter)
    """Two calls, one right after the other, whoever made them -> how often."""
    pairs: PairCoverage = field(init=False)
    """Calls of two requests that met, in each order."""

    def __attrs_post_init__(self) -> None:
        self.pairs = PairCoverage(vocabulary(self.tiers))

    def observe(self, session: Session) -> None:
        """A run has ended."""
        self.runs += 1
        if session.judge.rows is not None:
            self.rows.update(session.judge.rows)
        self.laws.update(session.judge.exercised)
        self.pairs.observe_run(record.call for record in session.records)
        names = [record.call.name for record in session.records]
        self.consecutive.update(pairwise(names))
        for record in session.records:
            reason = _refusal(record)
            if reason is not None:
                self.refusals[record.call.name, reason] += 1

    @property
    def missing_rows(self) -> tuple[str, ...]:
        """Rows of the life cycle that no block has taken."""
        return tuple(row for row in ROWS if not self.rows[row])

    def record(self) -> dict[str, Any]:
        """All of it as plain data."""
        every = len(self.pairs.names) ** 2
        return {
            "runs": self.runs,
            "rows": {row: self.rows[row] for row in ROWS},
            "laws": dict(sorted(self.laws.items())),
            "refusals": _nested(self.refusals),
            "consecutive": _nested(self.consecutive),
            "pairs": {
                "of": every,
                "met": every - len(self.pairs.missing()),
                "directly": every - len(self.pairs.missing(directly=True)),
                "missing": [list(pair) for pair in self.pairs.missing()],
            },
        }


def _nested(counts: Counter[tuple[str, str]]) -> dict[str, dict[str, int]]:
    nested: dict[str, dict[str, int]] = {}
    for (first, second), times in sorted(counts.items()):
        nested.setdefault(first, {})[second] = times
    return nested


def _refusal(record: Record) -> str | None:
    if isinstance(record.outcome, Raised):
        return record.outcome.type
    refused = record.call.name == calls.PREPARE_STORE and not isinstance(record.outcome, Stored)
    return NO_ROOM if refused else None
