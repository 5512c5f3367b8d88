"""`evictable prove`: a table of theorems with their bounds, and exit codes as elsewhere."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from commandline import Run

from evictable.ci.prove import Proof, Row
from evictable.specs.theorems import INCONCLUSIVE, PROVED, REFUTED


def test_every_line_is_proved_up_to_its_bound(evictable: Run, folder: Path) -> None:
    run = evictable("prove", "--engine", "z3", "--json", "proofs.json")
    assert 0 == run.returncode
    rows = json.loads((folder / "proofs.json").read_text())["results"]
    assert {"proved"} == {row["verdict"] for row in rows}
    assert all("any number of keys, slots and requests" in row["bound"] for row in rows)
    assert "prepare-store-refines-model" in {row["theorem"] for row in rows}
    assert "any number of keys" in run.stdout


def test_a_seeded_defect_is_refuted_with_its_calls(evictable: Run) -> None:
    run = evictable("prove", "mutant:no-mark-when-unpinned", "--engine", "z3")
    assert 1 == run.returncode
    assert "refuted unload-refines-model" in run.stdout
    assert "complete_load([" in run.stdout


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("mutant:no-mark-when-unpinned", "--engine", "crosshair"), "says nothing of mutant:no-mark-when-unpinned"),
        (("nobody",), "nobody"),
    ],
)
def test_what_cannot_be_proved_of_is_one_line(evictable: Run, arguments: tuple[str, ...], said: str) -> None:
    run = evictable("prove", *arguments)
    assert 2 == run.returncode
    assert said in run.stderr.splitlines()[-1]


@pytest.mark.parametrize(
    ("verdicts", "code"), [((PROVED,), 0), ((PROVED, INCONCLUSIVE), 3), ((INCONCLUSIVE, REFUTED), 1), ((), 3)]
)
def test_the_exit_code(verdicts: tuple[str, ...], code: int) -> None:
    rows = {("z3", str(place)): Row(str(place), "", "z3", "", verdict) for place, verdict in enumerate(verdicts)}
    assert code == Proof("impl", False, ("z3",), rows=rows).exit_code


def test_an_engine_that_dies_leaves_nothing_shown() -> None:
    assert (
        3
        == Proof("impl", False, ("z3",), rows={("z3", "a"): Row("a", "", "z3", "", PROVED)}, failures=["z3"]).exit_code
    )
