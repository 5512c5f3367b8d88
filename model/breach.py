"""What the model finds wrong by itself, where a law needs more than one step to see it."""

from __future__ import annotations

from attrs import frozen

from evictable.model.calls import Key


@frozen
class Breach:
    """Which law was broken, what it demands, and what was seen instead."""

    law: str
    expected: str
    observed: str
    keys: tuple[Key, ...] = ()
