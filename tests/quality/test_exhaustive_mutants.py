"""Does the search of small worlds from end to end refute every seeded defect, and does it so soon?"""

from __future__ import annotations

from typing import Any

import pytest
from attrs import evolve

from evictable.specs import subjects
from evictable.specs.budget import Budget
from evictable.specs.callers.disciplines import HOSTILE
from evictable.specs.exhaustive.explore import Exploration
from evictable.specs.exhaustive.locksteps import QUICK
from evictable.specs.exhaustive.scopes import Scope
from evictable.specs.mutants.mutant import Mutant
from evictable.specs.mutants.registry import MUTANTS, named
from evictable.specs.session import Session, play
from evictable.specs.subjects.base import Setup
from evictable.specs.subjects.builtin import BUILT_IN

DEPTHS = (400, 2_000, 10_000, 40_000)
"""Transitions in one scope; some 20,000 take a second. All scopes are searched so far before one is any further."""

CANNOT_SHOW = {
    "refusal-touches": "two idle keys, and an offer that is refused and names one: it must name two new ones as well",
}
"""Mutants that no scope of 4 keys, 3 slots and batches of 2 refutes, and why."""


_DEEP = "it takes several jobs, one after the other, and more transitions than a test has time for"
_WHOLE = "no tier wants whole requests"
_PEERS = "no peer asks"
_RESET = "after a reset all that can be seen is as in the beginning, from where it was searched before"
NOT_WITH_TIERS = {
    "holds-outlive-the-step": _DEEP,
    "pinned-counted-among-the-held": _DEEP,
    "job-ids-repeat": _DEEP,
    "one-result-a-poll": _DEEP,
    "latest-result-first": _DEEP,
    "job-counts-as-use": _DEEP,
    "end-told-of-a-live-request": _DEEP,
    "cascade-in-the-way-of-an-offer": _WHOLE,
    "end-told-while-parked": _WHOLE,
    "whole-request-not-cascaded": _WHOLE,
    "whole-request-waits-for-the-pending": _WHOLE,
    "hit-of-a-peer-not-held": _PEERS,
    "origin-tier-asked": _PEERS,
    "pending-key-promised-to-a-peer": _PEERS,
    "job-of-a-peer-under-another-tier": _PEERS,
    "one-promotion-job-a-step": "there is one request",
    "reset-keeps-promotions": _RESET,
    "reset-keeps-jobs": _RESET,
}
"""Mutants of the tiering manager that these small worlds do not refute, and why."""


def small_scopes(mutant: Mutant) -> list[Scope]:
    """Worlds for the mutant's callers, of no more than 4 keys, 3 slots and batches of 2."""
    return (
        tiered_scopes(mutant)
        if mutant.tiers
        else [
            evolve(lockstep.scope, batch=min(lockstep.scope.batch, 2))
            for lockstep in QUICK
            if lockstep.scope.setup.policy == mutant.policy
            and (lockstep.scope.setup.store_threshold, lockstep.scope.setup.tiers) == (1, 0)
            and lockstep.scope.discipline == mutant.discipline
            and lockstep.scope.num_keys <= 4
            and lockstep.scope.setup.capacity <= 3
        ]
    )


def tiered_scopes(mutant: Mutant) -> list[Scope]:
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


def refuted(mutant: Mutant) -> Session | None:
    kind = subjects.load(f"mutant:{mutant.name}")
    for depth in DEPTHS:
        for scope in small_scopes(mutant):
            exploration = Exploration(kind, scope, kind.profile(mutant.policy))
            session = next(exploration.run(Budget(max_calls=depth)), None)
            if session is not None:
                return session
    return None


def check(mutant: Mutant) -> None:
    session = refuted(mutant)
    assert session is not None
    calls = [record.call for record in session.records]
    again = play(subjects.load(f"mutant:{mutant.name}"), session.setup, session.profile, calls, session.discipline)
    real = play(BUILT_IN, session.setup, session.profile, calls, session.discipline)
    assert (len(calls), session.broken) == (len(again.records), again.broken)
    assert () == real.broken


UNTIERED = [mutant for mutant in MUTANTS if not mutant.tiers]
TIERED = [mutant for mutant in MUTANTS if mutant.tiers and mutant.discipline != HOSTILE]
"""Nothing here makes a tier raise: mutants that only a hostile caller notices cannot show."""


@pytest.mark.parametrize(
    "mutant", [one for one in UNTIERED if one.name not in CANNOT_SHOW], ids=lambda mutant: mutant.name
)
def test_a_small_world_refutes_it_and_not_the_real_manager(mutant: Mutant) -> None:
    check(mutant)


@pytest.mark.parametrize("name", CANNOT_SHOW)
def test_what_cannot_show_with_batches_of_2_shows_with_3(name: str) -> None:
    mutant = named(name)
    assert refuted(mutant) is None
    scope = Scope(Setup(2, mutant.policy, events=False), 4, 3, mutant.discipline)
    exploration = Exploration(subjects.load(f"mutant:{name}"), scope, "lru-evictable")
    assert mutant.laws[0] in [broken.law.id for broken in next(exploration.run()).broken]


@pytest.mark.parametrize(
    "mutant", [one for one in TIERED if one.name not in NOT_WITH_TIERS], ids=lambda mutant: mutant.name
)
def test_a_small_world_with_tiers_refutes_it_and_not_the_real_manager(mutant: Mutant) -> None:
    check(mutant)


def test_what_is_left_out_exists() -> None:
    assert set() == {*CANNOT_SHOW, *NOT_WITH_TIERS} - {mutant.name for mutant in (*UNTIERED, *TIERED)}
