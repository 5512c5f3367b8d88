"""Does every engine refute the mutants that it covers, and is what it leaves outside really beyond it?"""

from __future__ import annotations

import sys

import pytest

from evictable.specs.errors import UsageError
from evictable.specs.mutants import registry
from evictable.specs.mutants.fate import ALIVE, CROSSHAIR, ENGINES, EXHAUSTIVE, OUTSIDE, RANDOM, REFUTED, Z3
from evictable.specs.mutants.hunt import hunt
from evictable.specs.mutants.mutant import Mutant
from evictable.specs.mutants.outside import OUTSIDE as LEFT_OUT
from evictable.specs.mutants.outside import outside
from evictable.specs.mutants.registry import MUTANTS, named

SURVIVOR = Mutant(
    "survivor",
    "the same in other words",
    "manager",
    "if block is None:\n            return LookupResult.MISS",
    "if block is None and True:\n            return LookupResult.MISS",
    ("answer",),
)


@pytest.fixture
def survivor() -> Mutant:
    registry.add(SURVIVOR)
    return SURVIVOR


@pytest.mark.parametrize(
    ("engine", "name", "by", "calls"),
    [
        (RANDOM, "mark-at-insert", "evictable-iff-idle", 2),
        (EXHAUSTIVE, "mark-at-insert", "evictable-iff-idle", 2),
        (EXHAUSTIVE, "stored-backwards", "evict-order", 4),
        (Z3, "pending-while-pinned", "lookup-refines-model", 4),
        (CROSSHAIR, "counter-counts-pinned", "refinement-load-of-two", None),
    ],
)
def test_a_refutation_says_by_what_and_in_how_many_calls(engine: str, name: str, by: str, calls: int | None) -> None:
    fate = hunt(engine, named(name))
    assert (REFUTED, by, calls) == (fate.verdict, fate.by, fate.calls)


@pytest.mark.parametrize("engine", [RANDOM, EXHAUSTIVE])
def test_what_changes_nothing_is_alive(engine: str, survivor: Mutant, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("evictable.specs.mutants.worlds.DEPTHS", (400,))
    monkeypatch.setattr("evictable.specs.mutants.hunt.DEPTHS", (400,))
    fate = hunt(engine, survivor, max_calls=2_000)
    assert (ALIVE, None) == (fate.verdict, fate.calls)


def test_what_is_outside_has_a_reason() -> None:
    fate = hunt(EXHAUSTIVE, named("refusal-touches"))
    assert (OUTSIDE, LEFT_OUT[EXHAUSTIVE]["refusal-touches"]) == (fate.verdict, fate.note)


def test_what_the_real_manager_breaks_too_is_no_refutation(monkeypatch: pytest.MonkeyPatch) -> None:
    from evictable.specs import subjects

    mutant = named("mark-at-insert")
    monkeypatch.setattr("evictable.specs.mutants.hunt.BUILT_IN", subjects.load(f"mutant:{mutant.name}"))
    fate = hunt(EXHAUSTIVE, mutant)
    assert (ALIVE, "what it breaks, the real manager breaks too: evictable-iff-idle") == (fate.verdict, fate.note)


def test_a_crash_of_the_harness_is_no_refutation(monkeypatch: pytest.MonkeyPatch) -> None:
    def crash(mutant: Mutant) -> None:
        raise MemoryError("full")

    monkeypatch.setattr("evictable.specs.mutants.hunt.worlds_of", crash)
    fate = hunt(EXHAUSTIVE, named("mark-at-insert"))
    assert (ALIVE, "the hunt ended in MemoryError: full") == (fate.verdict, fate.note)


@pytest.mark.parametrize(("engine", "library"), [(Z3, "z3"), (CROSSHAIR, "crosshair")])
def test_a_library_that_is_missing_is_told(engine: str, library: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, library, None)
    with pytest.raises(UsageError, match=r"pip install 'evictable\[prove\]'"):
        hunt(engine, named("mark-at-insert"))


def test_the_walk_covers_every_mutant() -> None:
    assert [] == [mutant.name for mutant in MUTANTS if outside(RANDOM, mutant) is not None]


def test_what_is_left_out_exists_and_is_left_out_for_one_reason() -> None:
    names = {mutant.name for mutant in MUTANTS}
    assert set(LEFT_OUT) <= set(ENGINES)
    assert set() == {name for reasons in LEFT_OUT.values() for name in reasons} - names


def test_a_name_that_is_taken_is_refused() -> None:
    with pytest.raises(UsageError, match="there is another mutant 'mark-at-insert'"):
        registry.add(named("mark-at-insert"))


@pytest.mark.slow
@pytest.mark.parametrize("engine", ENGINES)
def test_what_an_engine_covers_it_refutes(engine: str) -> None:
    covered = [mutant for mutant in MUTANTS if outside(engine, mutant) is None]
    fates = {mutant.name: hunt(engine, mutant) for mutant in covered}
    assert len(MUTANTS) // 3 < len(covered)
    assert {} == {name: fate.note for name, fate in fates.items() if fate.verdict != REFUTED}


@pytest.mark.slow
@pytest.mark.parametrize("engine", LEFT_OUT)
def test_what_an_engine_leaves_out_it_cannot_refute(engine: str) -> None:
    fates = {name: hunt(engine, named(name), everywhere=True) for name in LEFT_OUT[engine]}
    assert {} == {name: fate.by for name, fate in fates.items() if fate.verdict != ALIVE}
