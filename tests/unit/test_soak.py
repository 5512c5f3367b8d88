"""A soak in small: by calls, not by the clock. Threads switch as the machine likes, and so no two runs are the same."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from typing import Any

import pytest
from seeded import PROFILE, Leaks, kind_of_manager, laws

from evictable.impl import CPUOffloadingManager
from evictable.specs.budget import Budget
from evictable.specs.errors import UsageError
from evictable.specs.mutants.build import build
from evictable.specs.mutants.locks import MUTANTS_OF_LOCKS
from evictable.specs.mutants.registry import named
from evictable.specs.search import CONFORMS, INCONCLUSIVE, VIOLATES
from evictable.specs.soak.memory import Growth, Sample
from evictable.specs.soak.soak import LAST_CALLS, Plan, Soak
from evictable.specs.subjects.base import Setup, SubjectKind
from evictable.specs.subjects.builtin import BUILT_IN, kind_of


@pytest.fixture(autouse=True)
def quiet() -> Iterator[None]:
    """What tiers log when they fail pytest would keep, with the traceback: memory would grow."""
    logging.disable(logging.CRITICAL)
    yield
    logging.disable(logging.NOTSET)


def soaked(
    kind: SubjectKind = BUILT_IN, tiers: int = 0, max_calls: int = 4500, policy: str = "lru", **plan: Any
) -> Soak:
    profile = {"lru": PROFILE, "arc": "arc"}[policy]
    setup = Setup(24, policy, tiers=tiers)
    soak = Soak(kind, setup, profile, Plan(**{"rest_every": 400, **plan}), Budget(max_calls=max_calls))
    soak.run()
    return soak


def mutant(name: str) -> SubjectKind:
    return kind_of(f"mutant:{name}", build(named(name)))


@pytest.mark.parametrize(("tiers", "policy"), [(0, "lru"), (0, "arc"), (2, "lru")])
def test_the_built_in_manager_conforms(tiers: int, policy: str) -> None:
    soak = soaked(tiers=tiers, policy=policy)
    assert (CONFORMS, "", True) == (soak.verdict, soak.problem, soak.came_to_rest)
    assert 4 == len([player for player in soak.players if player.calls])
    assert (True, True, bool(tiers)) == (soak.struck > 0, soak.rests > 5, soak.jobs > 0)
    state = soak.session.subject.snapshot(None)
    assert state is not None
    assert (24, 0) == (state.num_evictable, state.num_pending)
    assert list(range(24)) == sorted([*(state.slots or {}).values(), *(state.free or ())])


class Hoards(CPUOffloadingManager):
    """Remembers every load that ever was."""

    def __init__(self, *arguments: Any, **more: Any) -> None:
        super().__init__(*arguments, **more)
        self.hoard: list[Any] = []

    def complete_load(self, keys: Any, req_context: Any, *arguments: Any, **more: Any) -> None:
        super().complete_load(keys, req_context, *arguments, **more)
        self.hoard.append([[place] for place in range(400)])  # much, beside what other tests have left


def test_a_leak_of_memory_is_found() -> None:
    soak = soaked(kind_of_manager(Hoards))
    assert ((), VIOLATES) == (soak.broken, soak.verdict)
    assert soak.growth is not None
    assert not soak.growth.constant


def test_a_lost_slot_is_found_and_the_last_calls_are_kept() -> None:
    soak = soaked(kind_of_manager(Leaks))
    assert VIOLATES == soak.verdict
    assert "slots-conserved" in laws(soak.broken)
    assert 0 < len(soak.last) <= LAST_CALLS


@pytest.mark.parametrize(("name", "tiers"), [("no-mark-when-unpinned", 0), ("victims-stay-listed", 2)])
def test_a_defect_is_found(name: str, tiers: int) -> None:
    assert VIOLATES == soaked(mutant(name), tiers=tiers).verdict


@pytest.mark.parametrize("name", [one.name for one in MUTANTS_OF_LOCKS])
def test_a_lock_that_lets_two_in_is_found(name: str) -> None:
    soak = soaked(mutant(name), max_calls=20_000)
    assert (VIOLATES, "the lock let two threads in at a time") == (soak.verdict, soak.problem)


def test_a_run_that_is_too_short_is_inconclusive() -> None:
    soak = soaked(max_calls=300)
    assert (INCONCLUSIVE, "only 0 rests: too few to compare memory; run longer") == (soak.verdict, soak.problem)


class Breaks(CPUOffloadingManager):
    """Ends the thread that asks for metrics."""

    def get_stats(self) -> Any:
        raise KeyboardInterrupt


def test_what_ends_a_thread_ends_the_run() -> None:
    with pytest.raises(KeyboardInterrupt):
        soaked(kind_of_manager(Breaks), faults=False)


class OfOneThread(CPUOffloadingManager):
    """Has no lock."""

    lock = None  # type: ignore[assignment]


def test_without_a_lock_there_is_no_soak() -> None:
    with pytest.raises(UsageError, match="--lock external"):
        soaked(kind_of_manager(OfOneThread))
    assert soaked(kind_of_manager(OfOneThread), max_calls=100, lock="external").came_to_rest


def growths() -> Iterator[tuple[int, int, bool]]:
    yield 100_000, 50 << 20, True
    yield 100_900, 50 << 20, True
    yield 101_100, 50 << 20, False
    yield 90_000, 50 << 20, True
    yield 100_000, 58 << 20, False


@pytest.mark.parametrize(("blocks", "resident", "constant"), list(growths()))
def test_memory_is_constant_within_the_tolerance(blocks: int, resident: int, constant: bool) -> None:
    assert constant == Growth(Sample(1, 100_000, 50 << 20), Sample(2, blocks, resident)).constant


@pytest.mark.slow
@pytest.mark.parametrize("tiers", [0, 2])
def test_a_longer_soak(tiers: int) -> None:
    soak = soaked(tiers=tiers, max_calls=600_000, rest_every=3000)
    assert (CONFORMS, "") == (soak.verdict, soak.problem)
