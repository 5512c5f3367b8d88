"""`evictable soak`: figures, a verdict, and exit codes."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from commandline import Run

from evictable.ci.soak import seconds_of
from evictable.specs.errors import UsageError


def test_figures_and_a_verdict(evictable: Run, folder: Path) -> None:
    run = evictable("soak", "--max-calls", 22_000, "--tiers", 1, "--json", "soak.json")
    assert 0 == run.returncode
    assert "memory constant" in run.stdout
    assert "conforms" == run.stdout.splitlines()[-1]
    row = json.loads((folder / "soak.json").read_text())["results"][0]
    assert ("conforms", True, []) == (row["verdict"], row["came_to_rest"], row["broken"])
    assert row["calls"] >= 22_000


def test_a_defect_is_shown_with_the_calls_before_it(evictable: Run) -> None:
    run = evictable("soak", "mutant:no-mark-when-unpinned", "--max-calls", 5000)
    assert 1 == run.returncode
    assert "evictable-iff-idle broken" in run.stdout
    assert "complete_load(" in run.stdout


def test_too_few_calls_are_inconclusive(evictable: Run) -> None:
    run = evictable("soak", "--max-calls", 100)
    assert 3 == run.returncode
    assert "run longer" in run.stdout


@pytest.mark.parametrize(
    ("arguments", "said"),
    [(("--for", "soon"), "--for soon: give a time such as 90s"), (("nobody",), "nobody")],
)
def test_bad_input_is_one_line(evictable: Run, arguments: tuple[str, ...], said: str) -> None:
    run = evictable("soak", *arguments)
    assert 2 == run.returncode
    assert said in run.stderr.splitlines()[-1]


@pytest.mark.parametrize(("text", "seconds"), [("90", 90), ("90s", 90), ("10m", 600), ("1h", 3600), ("0.5m", 30)])
def test_times(text: str, seconds: float) -> None:
    assert seconds == seconds_of(text)


@pytest.mark.parametrize("text", ["", "0", "0s", "-1s", "1d", "10 m"])
def test_what_is_no_time(text: str) -> None:
    with pytest.raises(UsageError, match="10m"):
        seconds_of(text)
