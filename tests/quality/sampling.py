"""Which mutants the fast tests try."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from evictable.specs.mutants.mutant import Mutant


def sampled(mutants: Sequence[Mutant], far: Sequence[str]) -> list[Any]:
    """One of each law, discipline, policy and kind of manager, but none of the ``far``; the others are slow.

    `evictable mutants` hunts all of them.
    """
    chosen: dict[Any, str] = {}
    for mutant in mutants:
        if mutant.name not in far:
            chosen.setdefault((mutant.laws[0], mutant.discipline, mutant.policy, bool(mutant.tiers)), mutant.name)
    fast = frozenset(chosen.values())
    return [
        pytest.param(mutant, id=mutant.name, marks=() if mutant.name in fast else pytest.mark.slow)
        for mutant in mutants
    ]
