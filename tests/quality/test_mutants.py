"""Does the search still find every seeded defect of the built-in managers, and name the law that it breaks?"""

from __future__ import annotations

import ast
import json
import subprocess
import sys
from pathlib import Path

import pytest
from attrs import evolve
from sampling import sampled

from evictable.model.laws import LAWS
from evictable.specs import subjects
from evictable.specs.callers.disciplines import CONTRACT, DISCIPLINES
from evictable.specs.errors import UsageError
from evictable.specs.mutants.build import build, edited_source, source_of
from evictable.specs.mutants.hunt import real_of, shortest, walk
from evictable.specs.mutants.kinds import FROM_THE_FIELD, KINDS
from evictable.specs.mutants.mutant import Mutant
from evictable.specs.mutants.registry import MUTANTS, named
from evictable.specs.search import CONFORMS, RANDOM, VIOLATES, Search, Task
from evictable.specs.session import play
from evictable.specs.subjects.base import Setup
from evictable.specs.subjects.builtin import kind_of

every_mutant = pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name)


FAR = (
    "arc-ghosts-survive-reset",
    "arc-target-survives-reset",
    "arc-size-of-t1-before-the-eviction",
    "linked-taken-by-a-stale-entry",
    "linked-returned-and-pinned-again",
)
"""Found after some ten thousand calls and more: left to the slow tests."""
each_mutant = pytest.mark.parametrize("mutant", sampled(MUTANTS, FAR))


@each_mutant
def test_the_search_finds_it_and_the_real_manager_does_better(mutant: Mutant) -> None:
    search = walk(mutant)
    assert VIOLATES == search.verdict
    finding = shortest(search, mutant.laws[0])
    assert finding is not None
    found = finding.counterexample
    assert () == play(real_of(mutant), found.setup, found.profile, found.calls, mutant.discipline).broken


@every_mutant
def test_its_edit_applies_and_leaves_a_module(mutant: Mutant) -> None:
    assert 1 == source_of(mutant.module).count(mutant.old)
    edited = ast.dump(ast.parse(edited_source(mutant)))
    assert edited != ast.dump(ast.parse(source_of(mutant.module)))


def test_names_and_edits_are_unique() -> None:
    assert len(MUTANTS) == len({mutant.name for mutant in MUTANTS})
    assert len(MUTANTS) == len({(mutant.module, mutant.old, mutant.new) for mutant in MUTANTS})


def test_disciplines_are_known() -> None:
    assert set() == {mutant.discipline for mutant in MUTANTS} - set(DISCIPLINES)


def test_kinds_are_known_and_those_from_the_field_are_all_there() -> None:
    kinds = {mutant.kind for mutant in MUTANTS}
    assert set() == kinds - set(KINDS)
    assert set() == set(FROM_THE_FIELD) - kinds


def test_the_lazy_heap_itself_conforms() -> None:
    heap = evolve(named("heap-stale-after-touch"), name="heap-as-it-is", new="if self._ranks.get(key) != int(rank):")
    kind = kind_of(heap.name, build(heap))
    search = Search(Task(kind, Setup(3), "lru-evictable", CONTRACT))
    search.run((RANDOM,), 5_000, None)
    assert (CONFORMS, {}) == (search.verdict, search.findings)
    assert "LazyHeapPolicy" == type(kind.make(Setup(3))._manager._policy).__name__  # type: ignore[attr-defined]


def test_every_law_is_broken_by_some_mutant() -> None:
    assert {law.id for law in LAWS} == {law for mutant in MUTANTS for law in mutant.laws}


def test_mutants_and_the_real_manager_share_no_class() -> None:
    first, second = build(MUTANTS[0]), build(MUTANTS[1])
    real = sys.modules["evictable.impl"]
    assert 3 == len({package.CPUOffloadingManager for package in (first, second, real)})
    of_first = [module for name, module in sys.modules.items() if name.startswith(f"{first.__name__}.")]
    origins = {getattr(value, "__module__", None) for module in of_first for value in vars(module).values()}
    assert set() == {origin for origin in origins if isinstance(origin, str) and origin.startswith("evictable.impl")}


def test_a_mutant_is_built_once() -> None:
    assert build(MUTANTS[0]) is build(MUTANTS[0])


def test_a_text_that_has_moved_is_told() -> None:
    moved = evolve(MUTANTS[0], old="no such text")
    with pytest.raises(UsageError, match=r"mutant:.* occurs 0 times in evictable\.impl\.manager; bring .* up to date"):
        build(moved)


@pytest.mark.parametrize("step", [lambda name: subjects.prepare(name, print), subjects.load])
def test_an_unknown_name_is_told_with_some_that_are_known(step: object) -> None:
    assert callable(step)
    with pytest.raises(UsageError) as raised:
        step("mutant:nonesuch")
    near = ", ".join(mutant.name for mutant in MUTANTS[:3])
    told = f"unknown mutant 'nonesuch'; such as {near}; evictable mutants hunts all {len(MUTANTS)}"
    assert told == str(raised.value)


@pytest.mark.parametrize("name", ["foreign-store-completion-accepted", "refused-store-keeps-its-pins"])
def test_the_command_line_finds_it(name: str, tmp_path: Path) -> None:
    mutant = named(name)
    options = (*mutant.options.split(), "--max-calls", "5000", "--json", "report.json")
    command = (sys.executable, "-m", "evictable.ci.cli", "check", f"mutant:{name}", *options)
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False, timeout=120)
    assert 1 == done.returncode, done.stderr
    (result,) = json.loads((tmp_path / "report.json").read_text())["results"]
    assert (f"mutant:{name}", VIOLATES) == (result["subject"], result["verdict"])
    assert mutant.laws[0] in {violation["law"] for violation in result["violations"]}


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("touch-forwards", "--policy lru --discipline contract"),
        ("refusal-ends-the-cascade", "--policy lru --discipline hostile --tiers 2"),
    ],
)
def test_who_asks_for_one_is_told_what_is_wrong_and_who_notices(name: str, options: str) -> None:
    told: list[str] = []
    assert f"mutant:{name}" == subjects.prepare(f"mutant:{name}", told.append)
    assert [f"mutant:{name}: {named(name).sentence}; noticed with {options}"] == told
