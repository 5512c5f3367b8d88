"""Do the proofs hold, do they refute seeded defects, and is nothing that is not proved ever called so?"""

from __future__ import annotations

import ast
import inspect
import json
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from attrs import evolve

z3 = pytest.importorskip("z3")

from evictable.specs.errors import UsageError  # noqa: E402
from evictable.specs.mutants import registry  # noqa: E402
from evictable.specs.proofs import executor, subjects  # noqa: E402
from evictable.specs.proofs.executor import CONTRADICTION, Unsupported  # noqa: E402
from evictable.specs.proofs.mutants import OF_IMPL, OF_MODEL_TEXT, ModelMutant, Refuted, mutated  # noqa: E402
from evictable.specs.proofs.prove import MODEL, attempt, prove, theorems  # noqa: E402
from evictable.specs.proofs.theorems import OF_MODEL, OF_SUBJECT, End, Statement, Texts  # noqa: E402
from evictable.specs.theorems import INCONCLUSIVE, PROVED, REFUTED  # noqa: E402

BY_NAME = {statement.name: statement for statement in (*OF_MODEL, *OF_SUBJECT)}


@pytest.fixture(scope="module")
def impl() -> Texts:
    return Texts(MODEL, subjects.load("impl"))


# --- what is proved ---


@pytest.mark.parametrize("statement", OF_MODEL, ids=lambda statement: statement.name)
def test_of_the_model(statement: Statement) -> None:
    result = attempt(statement, Texts(MODEL), statement.tried(False))
    assert (PROVED, result.detail) == (result.verdict, result.detail)


@pytest.mark.parametrize("statement", OF_SUBJECT, ids=lambda statement: statement.name)
def test_of_the_built_in_manager(statement: Statement, impl: Texts) -> None:
    result = attempt(statement, impl, statement.tried(False))
    assert (PROVED, result.detail) == (result.verdict, result.detail)


@pytest.mark.slow
def test_everything_with_three_keys() -> None:
    results = list(prove("impl", full=True))
    assert [PROVED] * len(theorems(True)) == [result.verdict for result in results]
    assert {"batches up to 3"} == {
        result.theorem.bound.rpartition(", ")[2] for result in results if "batches" in result.theorem.bound
    }


REFUTED_OF_0_24 = {
    # theorem: what its counterexample names
    "repeated-offer-counts-once": "prepare_store([0, 0]",
    "careless-load-changes-nothing": "prepare_load([0, 1]",
    "careless-unload-changes-nothing": "complete_load([0]",
    "careless-complete-store-changes-nothing": "complete_store([0]",
    "reset-drops-undrained-events": "",  # the calls that lead to the state may break a law before the reset does
}


@pytest.mark.release
def test_of_a_published_release(release: Callable[[str], Path]) -> None:
    release("0.24.0")
    verdicts = proved_apart("vllm==0.24.0")
    expected = {name: (REFUTED if name in REFUTED_OF_0_24 else PROVED) for name in verdicts}
    assert expected == {name: verdict for name, (verdict, _) in verdicts.items()}
    assert set(REFUTED_OF_0_24) == {name for name, call in REFUTED_OF_0_24.items() if call in verdicts[name][1]}


@pytest.mark.release
@pytest.mark.slow
@pytest.mark.parametrize("version", [f"0.{minor}.0" for minor in range(25, 31)])
def test_of_every_release_with_such_a_list(version: str, release: Callable[[str], Path]) -> None:
    release(version)
    verdicts = {name: verdict for name, (verdict, _) in proved_apart(f"vllm=={version}").items()}
    assert {name: (REFUTED if name in REFUTED_OF_0_24 else PROVED) for name in verdicts} == verdicts


@pytest.mark.release
def test_of_a_release_that_is_built_otherwise(release: Callable[[str], Path]) -> None:
    release("0.33.0")
    verdicts = proved_apart("vllm==0.33.0")
    assert {INCONCLUSIVE} == {verdict for verdict, _ in verdicts.values()}
    assert {True} == {"the order of vllm==0.33.0 is lru-ranked-request" in detail for _, detail in verdicts.values()}


def proved_apart(name: str) -> dict[str, tuple[str, str]]:
    command = [sys.executable, str(Path(__file__).with_name("prove_release.py")), name]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=600)
    return {theorem: (verdict, detail) for theorem, verdict, detail in json.loads(done.stdout)}


# --- what is refuted ---


def first_of_each(mutants: Sequence[Any]) -> list[Any]:
    """One of each theorem and size; the rest are slow."""
    seen: set[tuple[str, int]] = set()
    chosen = []
    for mutant in mutants:
        fast = (mutant.theorem, mutant.size) not in seen and mutant.size < 3
        seen.add((mutant.theorem, mutant.size))
        name = mutant.mutant if isinstance(mutant, Refuted) else mutant.name
        chosen.append(pytest.param(mutant, id=name, marks=() if fast else pytest.mark.slow))
    return chosen


@pytest.mark.parametrize("refuted", first_of_each(OF_IMPL))
def test_a_mutant_of_impl_is_refuted(refuted: Refuted) -> None:
    statement, texts = BY_NAME[refuted.theorem], Texts(MODEL, subjects.load(f"mutant:{refuted.mutant}"))
    assert [PROVED] * (refuted.size - 1) == smaller(statement, texts, refuted.size)
    result = attempt(statement, texts, (refuted.size,))
    assert REFUTED == result.verdict
    # Readable, and the judge agrees: what breaks is what the mutant is known to break.
    lines = result.detail.splitlines()
    assert "capacity" == lines[1].split()[0]
    laws = registry.named(refuted.mutant).laws
    assert [True] == [line.split(":")[0] in laws for line in lines if not line.startswith(" ")][2:]


@pytest.mark.parametrize("mutant", first_of_each(OF_MODEL_TEXT))
def test_a_mutant_of_the_model_is_refuted(mutant: ModelMutant) -> None:
    statement, texts = BY_NAME[mutant.theorem], Texts(mutated(mutant))
    assert [PROVED] * (mutant.size - 1) == smaller(statement, texts, mutant.size)
    result = attempt(statement, texts, (mutant.size,))
    assert REFUTED == result.verdict
    assert "capacity" == result.detail.splitlines()[1].split()[0]


def smaller(statement: Statement, texts: Texts, size: int) -> list[str]:
    """The verdicts at batches that are too small to show the defect. A repeated key needs two."""
    tried = [less for less in range(1, size) if less in statement.tried(False)]
    return [attempt(statement, texts, (less,)).verdict for less in tried] or [PROVED] * (size - 1)


def test_every_theorem_has_a_mutant_that_refutes_it() -> None:
    refuted = {one.theorem for one in OF_IMPL} | {one.theorem for one in OF_MODEL_TEXT}
    # That the invariant can hold at all is no theorem about the code; see below for how that fails.
    assert set(BY_NAME) - {"model-invariant-satisfiable", "invariant-satisfiable"} == refuted


def test_some_defects_show_only_with_two_keys() -> None:
    assert 10 <= sum(size == 2 for size in [*(one.size for one in OF_IMPL), *(one.size for one in OF_MODEL_TEXT)])


@pytest.mark.parametrize("mutant", OF_MODEL_TEXT, ids=lambda mutant: mutant.name)
def test_the_edit_of_the_model_applies(mutant: ModelMutant) -> None:
    source = inspect.getsource(mutant.module)
    assert 1 == source.count(mutant.old)
    assert ast.dump(ast.parse(source)) != ast.dump(ast.parse(source.replace(mutant.old, mutant.new)))


def test_a_text_of_the_model_that_has_moved_is_told() -> None:
    with pytest.raises(UsageError, match=r"occurs 0 times in evictable\.model\.manager; bring the mutant up to date"):
        mutated(evolve(OF_MODEL_TEXT[0], old="no such text"))


def test_a_mutant_of_the_model_is_no_part_of_the_model() -> None:
    assert mutated(OF_MODEL_TEXT[0]).manager.Manager is not MODEL.manager.Manager


# --- what is neither ---


def verdict_on(run: Callable[..., Any], texts: Texts) -> tuple[str, str]:
    result = attempt(Statement("made-up", "for this test", run, batches=False), texts, (1,))
    return result.verdict, result.detail


def test_what_z3_does_not_know_is_not_proved(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(executor, "TIMEOUT", 200)
    x, y, z = z3.Ints("x y z")

    def run(path: Any, texts: Texts, size: int) -> End:
        sum_of_cubes = z3.And(x > 1, y > 1, z > 1, x * x * x + y * y * y == z * z * z)
        return End([("Fermat", z3.Not(sum_of_cubes))])

    verdict, detail = verdict_on(run, Texts(MODEL))
    assert INCONCLUSIVE == verdict
    assert detail.startswith("z3 does not know")


def test_a_counterexample_that_running_does_not_confirm_is_no_refutation(impl: Texts) -> None:
    lookup = BY_NAME["lookup-refines-model"].run

    def run(path: Any, texts: Texts, size: int) -> End | None:
        end = lookup(path, texts, size)
        return None if end is None else evolve(end, goals=[("nonsense", z3.BoolVal(False))])

    verdict, detail = verdict_on(run, impl)
    assert INCONCLUSIVE == verdict
    assert detail.startswith(
        "z3 has a counterexample to 'nonsense' that running it does not confirm: a cache of 1 slots"
    )


def test_a_theorem_that_speaks_of_no_path_is_not_proved() -> None:
    verdict, detail = verdict_on(lambda path, texts, size: None, Texts(MODEL))
    assert (INCONCLUSIVE, True) == (verdict, detail.startswith("no path does what the theorem speaks of"))


def test_a_theorem_on_whose_paths_everything_raises_is_not_proved() -> None:
    verdict, _ = verdict_on(lambda path, texts, size: End([], returned=False), Texts(MODEL))
    assert INCONCLUSIVE == verdict


def test_an_assumption_that_contradicts_itself_proves_nothing() -> None:
    def run(path: Any, texts: Texts, size: int) -> End:
        path.assume(z3.BoolVal(False))
        return End([("anything", z3.BoolVal(False))])

    assert (INCONCLUSIVE, CONTRADICTION) == verdict_on(run, Texts(MODEL))


@pytest.mark.parametrize("name", ["model-invariant-satisfiable", "invariant-satisfiable"])
def test_an_invariant_that_cannot_hold_is_noticed(name: str, impl: Texts) -> None:
    satisfiable = BY_NAME[name].run

    def run(path: Any, texts: Texts, size: int) -> End | None:
        path.for_all(("Key",), lambda key: z3.Not(executor.current().terms("Key")[0] == key))
        return satisfiable(path, texts, size)

    assert (INCONCLUSIVE, CONTRADICTION) == verdict_on(run, impl if name == "invariant-satisfiable" else Texts(MODEL))


def test_one_cut_path_among_many_is_enough() -> None:
    def run(path: Any, texts: Texts, size: int) -> End:
        if path.decide(z3.Bool("rare")):
            raise Unsupported("a spell")
        return End([])

    verdict, detail = verdict_on(run, Texts(MODEL))
    assert (INCONCLUSIVE, True) == (verdict, detail.startswith("a spell"))


def test_a_state_that_the_proof_does_not_know_is_an_obstacle(impl: Texts) -> None:
    """A manager that counts its lookups, say, may come to act otherwise after so many: not from a fresh count."""
    assert impl.subject is not None

    class Counts(sys.modules["evictable.impl"].CPUOffloadingManager):  # type: ignore[misc]
        lookups = 0

        def lookup(self, *arguments: Any) -> Any:
            self.lookups += 1
            return super().lookup(*arguments)

    texts = evolve(impl, subject=evolve(impl.subject, construct=lambda capacity: Counts(capacity, enable_events=True)))
    result = attempt(BY_NAME["lookup-refines-model"], texts, (1,))
    assert INCONCLUSIVE == result.verdict
    assert "the call changes lookups, of which the proof knows nothing" == result.detail


def test_a_subject_of_unknown_make_is_inconclusive() -> None:
    results = list(prove("package.module:factory"))
    assert [INCONCLUSIVE] * len(theorems(False, "package.module:factory")) == [result.verdict for result in results]
    assert {"package.module:factory: proofs are of impl, its mutants and vLLM's manager, whose inside they know"} == {
        result.detail for result in results
    }


# --- how it is told ---


@pytest.mark.parametrize(("full", "most"), [(False, 2), (True, 3)])
def test_bounds_are_stated(full: bool, most: int) -> None:
    told = {theorem.bound for theorem in theorems(full)}
    anything = "any number of keys, slots and requests"
    assert {anything, f"{anything}, batches up to {most}"} == told


def test_names_are_unique() -> None:
    names = [theorem.name for theorem in theorems(False)]
    assert sorted(set(names)) == sorted(names)


def test_the_source_that_is_run_is_left_as_it_was(impl: Texts) -> None:
    attempt(BY_NAME["lookup-refines-model"], impl, (1,))
    texts = impl.subject
    assert texts is not None
    assert [] == [
        (module.__name__, name)
        for module in (*MODEL.modules, *texts.modules)
        for name in ("len", "range")
        if name in vars(module)
    ]
