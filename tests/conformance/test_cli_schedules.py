"""`evictable schedules`: a table of pairs with its bound, the schedule that no order explains, and exit codes."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from commandline import Run

from evictable.ci.schedules import Options, Schedules


def test_the_lock_lets_every_schedule_pass(evictable: Run, folder: Path) -> None:
    run = evictable("schedules", "--pair", "prepare_store,prepare_load", "--json", "schedules.json")
    assert 0 == run.returncode
    made = json.loads((folder / "schedules.json").read_text())
    assert {("lru", "linearizable"), ("arc", "linearizable")} == {
        (row["policy"], {"conforms": "linearizable"}[row["verdict"]]) for row in made["results"]
    }
    assert all(row["schedules"] > 50 for row in made["results"])
    assert made["bound"] in run.stdout


def test_a_lock_that_does_not_exclude_is_shown_with_its_schedule(evictable: Run, folder: Path) -> None:
    options = ("--policy", "lru", "--pair", "prepare_load,prepare_load", "--json", "race.json")
    run = evictable("schedules", "mutant:a-lock-each", *options)
    assert 1 == run.returncode
    assert "thread 1 runs up to" in run.stdout
    assert "thread 2 first is no explanation" in run.stdout
    finding = json.loads((folder / "race.json").read_text())["results"][0]["finding"]
    assert (1, [1, 2]) == (finding["preemptions"], [order["first"] for order in finding["orders"]])


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--pair", "prepare_load"), "--pair prepare_load"),
        (("--pair", "touch,sleep"), "'sleep' is no call that is paired"),
        (("--outside", "sleep"), "--outside sleep"),
        (("nobody",), "nobody"),
    ],
)
def test_bad_input_is_one_line(evictable: Run, arguments: tuple[str, ...], said: str) -> None:
    run = evictable("schedules", *arguments)
    assert 2 == run.returncode
    assert said in run.stderr.splitlines()[-1]


@pytest.mark.parametrize(
    ("verdicts", "failures", "code"),
    [
        (("conforms",), [], 0),
        (("conforms", "inconclusive"), [], 3),
        (("inconclusive", "violates"), [], 1),
        (("conforms",), ["lru: died"], 3),
        ((), [], 3),
    ],
)
def test_the_exit_code(verdicts: tuple[str, ...], failures: list[str], code: int) -> None:
    options = Options("impl", ("lru",), "auto", "own", "line", None, (), (), None)
    rows = [{"verdict": verdict} for verdict in verdicts]
    assert code == Schedules(options, rows=rows, failures=failures).exit_code
