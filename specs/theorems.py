"""What is claimed, by which engine, up to which bound, and what came of it."""

from __future__ import annotations

from attrs import frozen


@frozen
class Theorem:
    """A claim that an engine decides."""

    name: str
    """A stable id, such as ``load-preserves-invariant``."""
    sentence: str
    """What it says."""
    engine: str
    """``exhaustive``, ``z3`` or ``crosshair``."""
    bound: str
    """In words: "any number of keys and slots, batches up to 2", "all 35 states of 4 keys and 3 slots"."""


PROVED, EXHAUSTED, CONFIRMED, REFUTED, INCONCLUSIVE = "proved", "exhausted", "confirmed", "refuted", "inconclusive"


@frozen
class Result:
    """What came of a theorem."""

    theorem: Theorem
    verdict: str
    seconds: float
    detail: str = ""
    """Counts; of a refutation the counterexample as calls and states; of an inconclusive one what stood in the way."""
