"""What comes of a mutant under one engine."""

from __future__ import annotations

from attrs import frozen

RANDOM, EXHAUSTIVE, Z3, CROSSHAIR = "random", "exhaustive", "z3", "crosshair"
ENGINES = (RANDOM, EXHAUSTIVE, Z3, CROSSHAIR)

REFUTED, ALIVE, OUTSIDE, EQUIVALENT = "refuted", "alive", "outside", "equivalent"
UNDECIDED = "undecided"
"""The hunt was interrupted before it came to it."""


@frozen
class Fate:
    """Refuted, alive, outside of what the engine speaks of, or equivalent to what is not mutated."""

    engine: str
    verdict: str
    by: str = ""
    """What refutes it: a law, a theorem or a contract."""
    law: str = ""
    """The law that the counterexample breaks; of a contract there is none."""
    calls: int | None = None
    """In the shortest counterexample, if it is one of calls."""
    judged: int | None = None
    """Calls that were judged before it was found, if calls were judged."""
    seconds: float = 0.0
    note: str = ""
    """Why it is outside, or what stood in the way of a refutation."""
