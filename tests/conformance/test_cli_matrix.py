"""`evictable matrix`: what is found on one release is replayed on the others, and a finished cell is kept."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from commandline import Run

from evictable.model.trace import read
from evictable.specs.counterexamples import judge_recorded

ARGUMENTS = (
    *("matrix", "--release", "0.24.0", "--release", "0.33.0", "--policy", "lru", "--discipline", "careless"),
    *("--store-threshold", 1, "--tiers", 0, "--max-calls", 3000),
)


@pytest.fixture
def done(evictable: Run, folder: Path, release: Callable[[str], Path]) -> dict[str, dict[str, Any]]:
    """The result of each release."""
    for version in ("0.24.0", "0.33.0"):
        release(version)
    assert 0 == evictable(*ARGUMENTS).returncode
    results = json.loads((folder / "matrix" / "matrix.json").read_text())["results"]
    return {result["subject"]: result for result in results}


@pytest.mark.release
def test_each_release_has_its_verdict(done: dict[str, dict[str, Any]]) -> None:
    assert {"vllm==0.24.0": "violates", "vllm==0.33.0": "violates"} == {
        subject: result["verdict"] for subject, result in done.items()
    }
    calls = {one["law"]: one["calls"] for one in done["vllm==0.33.0"]["violations"]}
    assert (1, 2, 3) == (calls["slots-conserved"], calls["owner-completes"], calls["all-or-nothing"])


@pytest.mark.release
def test_every_counterexample_breaks_its_law(done: dict[str, dict[str, Any]]) -> None:
    for result in done.values():
        for one in result["violations"]:
            trace = read(one["trace"])
            assert result["subject"] == trace.head.subject
            assert one["law"] in {broken.law.id for broken in judge_recorded(trace, result["profile"])}


@pytest.mark.release
def test_the_table_and_a_run_that_goes_on(done: dict[str, dict[str, Any]], evictable: Run, folder: Path) -> None:
    table = (folder / "matrix" / "matrix.md").read_text().splitlines()
    assert "| policy | discipline | threshold | tiers | law | 0.24 | 0.33 |" in table
    assert "| lru | careless | 1 | 0 | `slots-conserved` | 1 | 1 |" in table
    assert "| lru | careless | 1 | 0 | `counters-agree` | - | 1 |" in table
    again = evictable(*ARGUMENTS)
    assert (0, "2 cells are finished already, in matrix") == (again.returncode, again.stderr.splitlines()[0])
    assert table == (folder / "matrix" / "matrix.md").read_text().splitlines()


@pytest.mark.release
def test_a_cell_in_which_too_little_was_tried_has_no_verdict(
    evictable: Run, folder: Path, release: Callable[[str], Path]
) -> None:
    release("0.24.0")
    few = ("matrix", "--release", "0.24.0", "--policy", "lru", "--discipline", "contract")
    run = evictable(*few, "--store-threshold", 1, "--tiers", 0, "--max-calls", 1)
    assert 3 == run.returncode
    assert run.stderr.splitlines()[-1].startswith(
        "no verdict on vllm==0.24.0 lru contract threshold 1: too little was tried ("
    )
    assert "| lru | contract | 1 | 0 | none | ? |" in run.stdout.splitlines()


@pytest.mark.release
def test_with_tiers_a_star_marks_what_scheduler_steps_reach(
    evictable: Run, folder: Path, release: Callable[[str], Path]
) -> None:
    release("0.24.0")
    few = ("matrix", "--release", "0.24.0", "--policy", "lru", "--discipline", "contract", "--tiers", 1)
    run = evictable(*few, "--max-calls", 12_000)
    assert 0 == run.returncode
    assert "| lru | contract | 1 | 1 | `tier-drains` | 4* |" in run.stdout.splitlines()
    (result,) = json.loads((folder / "matrix" / "matrix.json").read_text())["results"]
    assert (1, 1) == (result["tiers"], result["store_threshold"])
    assert 8 >= result["scheduler_steps"]["tier-drains"]
