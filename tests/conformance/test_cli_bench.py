"""`evictable bench` as a user meets it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from commandline import Run

from evictable.ci import bench
from evictable.specs.errors import UsageError


def test_a_subject_with_wrong_answers_is_not_timed(evictable: Run, folder: Path) -> None:
    wrong = "mutant:touch-forwards"
    done = evictable("bench", "impl", wrong, "--quick", "--rounds", 1, "--section", "mixed", "--json", "r.json")
    content = json.loads((folder / "r.json").read_text())
    lines = [line for line in done.stdout.splitlines() if line.startswith(wrong)]
    assert 1 == done.returncode
    assert ["prepare_store"] == [line.split()[1] for line in lines if "(lru)" in line]
    timed = {(row["subject"], row["policy"]) for row in content["results"]}
    assert ("impl", "lru") in timed
    assert (wrong, "lru") not in timed


@pytest.mark.parametrize(
    ("arguments", "remedy"),
    [
        (("--section", "speed"), "known: mixed"),
        (("--section", "trace"), "needs --trace FILE"),
        (("--trace", "nowhere.jsonl"), "nowhere.jsonl: no such file"),
        (("nobody",), "unknown subject 'nobody'"),
        (("stdio:cat", "--section", "mixed", "--quick"), "stdio:cat"),
    ],
)
def test_bad_input_is_one_line(arguments: tuple[str, ...], remedy: str, evictable: Run) -> None:
    done = evictable("bench", *arguments)
    (line,) = done.stderr.splitlines()
    assert (2, "") == (done.returncode, done.stdout)
    assert remedy in line


def test_an_eviction_is_plotted(evictable: Run, folder: Path) -> None:
    done = evictable("bench", "impl", "--quick", "--rounds", 1, "--section", "evict", "--plots", "plots")
    assert 0 == done.returncode
    assert ["evict-first.svg", "evict-steady.svg"] == sorted(path.name for path in (folder / "plots").iterdir())


@pytest.mark.parametrize(("raised", "code"), [(UsageError("no room"), 3), (KeyboardInterrupt(), 130)])
def test_what_was_measured_is_written_whatever_comes_then(
    raised: BaseException, code: int, at_once: Run, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    measure = bench.Run.measure

    def fail(run: bench.Run, section: Any) -> None:
        if section.name == "slowest":
            raise raised
        measure(run, section)

    monkeypatch.setattr(bench.Run, "measure", fail)
    sections = ("--section", "evict", "--section", "slowest")
    done = at_once("bench", "impl", "--quick", "--rounds", 1, *sections, "--json", "r.json")
    content = json.loads((folder / "r.json").read_text())
    assert (code, {"evict"}) == (done.returncode, {row["section"] for row in content["results"]})
    assert ["section slowest: no room"] * (code == 3) == content["failed"]
