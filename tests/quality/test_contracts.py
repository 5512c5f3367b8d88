"""Does CrossHair confirm every contract, and refute every mutant by a counterexample that can be played?"""

from __future__ import annotations

import pytest
from attrs import evolve

from evictable.specs.contracts import crosshair
from evictable.specs.contracts.copies import Edit, copy_of
from evictable.specs.contracts.registry import CONTRACTS, Contract, named
from evictable.specs.contracts.run import Job, examine, prove, theorem_of
from evictable.specs.errors import UsageError
from evictable.specs.mutants.registry import named as mutant_named
from evictable.specs.theorems import CONFIRMED, INCONCLUSIVE, REFUTED

QUICK = tuple(contract for contract in CONTRACTS if not contract.slow)
SLOW = tuple(contract for contract in CONTRACTS if contract.slow)


def by_module(contracts: tuple[Contract, ...]) -> pytest.MarkDecorator:
    """Together, because a process takes a second to start."""
    modules = dict.fromkeys(contract.module for contract in contracts)
    groups = [[contract for contract in contracts if contract.module == module] for module in modules]
    return pytest.mark.parametrize("contracts", groups, ids=modules)


def not_so(verdict: str, jobs: list[Job]) -> dict[str, str]:
    """What came of the jobs that end otherwise; several processes of the test run do this, so it takes one more."""
    results = [result for _, result in examine(jobs, processes=1)]
    assert len(jobs) == len(results)
    return {result.theorem.name: result.detail for result in results if result.verdict != verdict}


@by_module(QUICK)
def test_each_is_confirmed(contracts: list[Contract]) -> None:
    assert {} == not_so(CONFIRMED, [Job(contract) for contract in contracts])


@by_module(QUICK)
def test_each_mutant_is_refuted(contracts: list[Contract]) -> None:
    assert {} == not_so(REFUTED, [Job(contract, (contract.mutant,), contract.name) for contract in contracts])


@pytest.mark.slow
@by_module(SLOW)
def test_each_slow_one_is_confirmed(contracts: list[Contract]) -> None:
    assert {} == not_so(CONFIRMED, [Job(contract) for contract in contracts])


@pytest.mark.slow
@by_module(SLOW)
def test_each_slow_mutant_is_refuted(contracts: list[Contract]) -> None:
    assert {} == not_so(REFUTED, [Job(contract, (contract.mutant,), contract.name) for contract in contracts])


def test_what_is_not_exhausted_is_inconclusive() -> None:
    contract = named("refinement-offer-of-two")
    hurried = evolve(contract, seconds=0.2)
    ((_, result),) = examine([Job(hurried)])
    assert INCONCLUSIVE == result.verdict
    assert result.detail.startswith("CANNOT_CONFIRM after ")


def test_a_process_that_dies_is_inconclusive_and_replaced(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("evictable.specs.contracts.run.GRACE", -3.9)
    slow = evolve(named("refinement-offer-of-two"), seconds=1.0)
    (_, killed), (_, next_one) = examine([Job(slow), Job(named("laws-capacity"))], processes=1)
    assert (INCONCLUSIVE, CONFIRMED) == (killed.verdict, next_one.verdict)
    assert "no answer within 0.1 s (exit code -9)" == killed.detail


def test_a_mutant_that_cannot_be_built_is_inconclusive() -> None:
    contract = named("laws-capacity")
    edit = Edit("model.laws", "no such text", "")
    ((_, result),) = examine([Job(contract, (edit,), "unfit")])
    assert INCONCLUSIVE == result.verdict
    assert "occurs 0 times in evictable.model.laws" in result.detail


def test_without_crosshair_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("evictable.specs.contracts.run.find_spec", lambda name: None)
    with pytest.raises(UsageError, match=r"not installed: pip install 'evictable\[prove\]'"):
        next(prove())


def test_a_search_that_is_left_ends_its_processes() -> None:
    results = prove()
    first = next(results)
    results.close()
    assert CONFIRMED == first.verdict
    assert first.theorem in map(theorem_of, QUICK)


@pytest.mark.parametrize(
    ("mutant", "contract"),
    [
        ("mark-at-every-unpin", "refinement-unload-of-two"),
        ("second-reader-not-counted", "refinement-load-of-two"),
        ("slot-leaks-when-store-fails", "refinement-end-of-two-stores"),
    ],
)
def test_a_defect_of_the_registry_is_refuted(mutant: str, contract: str) -> None:
    results = prove(mutant_named(mutant))
    try:
        refuted = next(one for one in results if one.theorem.name == contract)
    finally:
        results.close()  # type: ignore[attr-defined]
    assert REFUTED == refuted.verdict, refuted.detail


@pytest.mark.slow
@pytest.mark.parametrize("name", ["refinement-load-of-two", "laws-legal-pins"])
def test_contracts_of_called_functions_make_no_difference(name: str) -> None:
    contract = named(name)
    module = copy_of(f"specs.contracts.harnesses.{contract.module}", "inside")
    function = getattr(module, contract.function)
    alone, inside = crosshair.examine(function, 300.0), crosshair.examine(function, 300.0, inside=True)
    assert (crosshair.CONFIRMED, alone.paths) == (inside.state, inside.paths)
    assert crosshair.CONFIRMED == alone.state
