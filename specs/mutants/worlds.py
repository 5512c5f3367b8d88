"""The small worlds in which mutants are hunted exhaustively: up to 4 keys, 3 slots and batches of 2."""

from __future__ import annotations

from typing import Any

from attrs import evolve

from evictable.specs.exhaustive.locksteps import QUICK
from evictable.specs.exhaustive.scopes import Scope
from evictable.specs.mutants.mutant import LAZY_HEAP, Mutant
from evictable.specs.subjects.base import Setup

DEPTHS = (400, 2_000, 10_000, 40_000)
"""Transitions in one world; some 20,000 take a second. All worlds are searched so far before one is any further."""


def worlds_of(mutant: Mutant) -> list[Scope]:
    """Worlds for the callers that notice the mutant."""
    return _with_tiers(mutant) if mutant.tiers else _without_tiers(mutant)


def _without_tiers(mutant: Mutant) -> list[Scope]:
    hidden = mutant.module == LAZY_HEAP  # what is stale in it is not shown
    return [
        evolve(lockstep.scope, batch=min(lockstep.scope.batch, 2), remembers=lockstep.scope.remembers or hidden)
        for lockstep in QUICK
        if lockstep.scope.setup.policy == mutant.policy
        and (lockstep.scope.setup.store_threshold, lockstep.scope.setup.tiers) == (1, 0)
        and lockstep.scope.discipline == mutant.discipline
        and lockstep.scope.num_keys <= 4
        and lockstep.scope.setup.capacity <= 3
    ]


def _with_tiers(mutant: Mutant) -> list[Scope]:
    """Tiers that are full from the beginning: what goes wrong in promotions is near."""

    def scope(num_slots: int, num_keys: int, batch: int, *, events: bool = False, **more: Any) -> Scope:
        setup = Setup(num_slots, mutant.policy, events=events, tiers=mutant.tiers)
        return Scope(setup, num_keys, batch, mutant.discipline, filled=True, **more)

    if mutant.tiers > 1:
        return [scope(1, 1, 1), scope(1, 2, 1)]
    return [
        scope(1, 2, 1),
        scope(2, 2, 2, lifetimes=True),
        scope(1, 2, 1, events=True),
        scope(2, 3, 1, in_flight=1),
    ]
