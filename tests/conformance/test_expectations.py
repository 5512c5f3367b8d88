"""`evictable check --expect`: failures that are known, each with a reason and a trace that shows it."""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from commandline import Run

ENTRY = {
    "subject": "factories:Sharing",
    "policy": "lru",
    "discipline": "contract",
    "law": "answer",
    "reason": "blocks are written one by one",
    "trace": "traces/sharing.jsonl",
}
BREAKS = (
    {"evictable_trace": 1, "capacity": 2},
    {"call": "on_new_request", "request": "r1"},
    {"call": "prepare_store", "request": "r1", "keys": [0, 1]},
)
LEAKS = (
    *BREAKS,
    {"call": "complete_store", "request": "r1", "keys": [0, 1], "success": False},
)
FEW = ("--engine", "random", "--max-calls", 300)


@pytest.fixture
def expect(folder: Path) -> Path:
    """The list, and a trace that breaks the law of `ENTRY`."""
    (folder / "lists" / "traces").mkdir(parents=True)
    write_trace(folder, *BREAKS)
    return write(folder, ENTRY)


def write(folder: Path, *entries: Mapping[str, str | bool]) -> Path:
    path = folder / "lists" / "known.toml"
    tables = ("[[expect]]\n" + "".join(f"{name} = {json.dumps(value)}\n" for name, value in e.items()) for e in entries)
    path.write_text("".join(tables))
    return path


def write_trace(folder: Path, *lines: Mapping[str, Any]) -> None:
    trace = folder / "lists" / "traces" / "sharing.jsonl"
    trace.write_text("".join(json.dumps(line) + "\n" for line in lines))


def test_a_listed_failure_is_no_error(evictable: Run, expect: Path, folder: Path) -> None:
    done = evictable("check", "factories:Sharing", "--expect", expect, *FEW, "--json", "r.json")
    assert 0 == done.returncode
    assert "broken by factories:Sharing lru contract (calls): answer (2) expected" in done.stdout
    known = "known: answer broken by factories:Sharing lru contract, 2 calls: blocks are written one by one"
    lines = done.stdout.splitlines()
    assert (1, "1 violate as expected") == (lines.count(known), lines[-1])
    assert re.search(r"^factories:Sharing +lru +contract +any +as expected ", done.stdout, re.M)
    assert "evictable replay" not in done.stdout
    (result,) = json.loads((folder / "r.json").read_text())["results"]
    assert "violates" == result["verdict"]
    assert ["blocks are written one by one"] == [one["expected_because"] for one in result["violations"]]


def test_next_to_a_listed_failure_another_is_shown(evictable: Run, expect: Path, folder: Path) -> None:
    write_trace(folder, *LEAKS)
    write(folder, ENTRY | {"subject": "factories:Leaking", "law": "drains"})
    done = evictable("check", "factories:Leaking", "--expect", expect, *FEW)
    assert 1 == done.returncode
    known = "known: drains broken by factories:Leaking lru contract, 3 calls: blocks are written one by one"
    assert 1 == done.stdout.splitlines().count(known)
    assert ["slots-conserved"] == re.findall(r"^(\S+) broken by factories:Leaking lru contract: ", done.stdout, re.M)
    assert re.search(r"^factories:Leaking +lru +contract +any +violates ", done.stdout, re.M)
    assert "(calls): drains (3) expected, slots-conserved (3)\n" in done.stdout
    assert "1 violate" == done.stdout.splitlines()[-1]


@pytest.mark.parametrize(
    "other", [{"discipline": "careless"}, {"policy": "arc"}, {"law": "drains"}, {"subject": "factories:Good"}]
)
def test_a_failure_that_is_not_listed_is_an_error(
    other: dict[str, str], evictable: Run, expect: Path, folder: Path
) -> None:
    write(folder, ENTRY | other)
    assert 1 == evictable("check", "factories:Sharing", "--expect", expect, *FEW).returncode


def test_an_entry_whose_trace_conforms_is_stale(evictable: Run, expect: Path, folder: Path) -> None:
    write(folder, ENTRY | {"subject": "factories:Good"})
    done = evictable("check", "factories:Good", "--expect", expect, *FEW)
    assert 3 == done.returncode
    path = folder / "lists" / "traces" / "sharing.jsonl"
    assert f"stale: {path} no longer breaks answer on factories:Good; take the entry out of the list" in done.stdout


def test_an_entry_that_is_not_strict_may_be_mended(evictable: Run, expect: Path, folder: Path) -> None:
    write(folder, ENTRY | {"subject": "factories:Good", "strict": False})
    done = evictable("check", "factories:Good", "--expect", expect, *FEW)
    assert 0 == done.returncode
    path = folder / "lists" / "traces" / "sharing.jsonl"
    assert f"not strict: {path} no longer breaks answer on factories:Good" in done.stdout


def test_a_stale_entry_excuses_nothing(evictable: Run, expect: Path, folder: Path) -> None:
    write_trace(folder, *BREAKS[:-1])
    done = evictable("check", "factories:Sharing", "--expect", expect, *FEW)
    assert 1 == done.returncode
    assert "stale: " in done.stdout


def test_an_entry_of_a_subject_that_is_not_checked_is_left_alone(evictable: Run, expect: Path) -> None:
    done = evictable("check", "factories:Good", "--expect", expect, *FEW)
    assert 0 == done.returncode
    note = "expected failures that are not checked here: factories:Sharing lru contract (1)"
    assert note == done.stderr.splitlines()[0]


def test_an_entry_that_the_search_does_not_meet_is_no_error(evictable: Run, expect: Path) -> None:
    # In one slot there is nothing to share.
    done = evictable("check", "factories:Sharing", "--expect", expect, "--capacity", 1, *FEW)
    assert (0, "1 conform") == (done.returncode, done.stdout.splitlines()[-1])


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({"law": "murphy"}, "entry 1: unknown law 'murphy'; known: evictable-iff-idle, "),
        ({"policy": "fifo"}, "entry 1: unknown policy 'fifo'; known: lru, arc"),
        ({"discipline": "wild"}, "entry 1: unknown discipline 'wild'; known: contract, careless"),
        ({"reason": " "}, "entry 1: give a reason why this failure is accepted"),
        ({"strict": "no"}, "entry 1: strict is neither true nor false; write [[expect]] tables with subject, policy"),
        (
            {"until": "never"},
            "entry 1: unknown until; write [[expect]] tables with subject, policy, discipline, law, reason and trace",
        ),
    ],
)
def test_a_bad_entry(change: dict[str, str], problem: str, at_once: Run, expect: Path, folder: Path) -> None:
    write(folder, ENTRY | change)
    done = at_once("check", "factories:Sharing", "--expect", expect, *FEW)
    assert 2 == done.returncode
    (line,) = done.stderr.splitlines()
    assert line.startswith(f"evictable: {expect}: {problem}")


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        ("[[expect]\n", "not TOML ("),
        ("\N{SNOWMAN}".encode("utf-16"), "not TOML ("),
        ("expect = 3\n", "write [[expect]] tables with "),
        ("[[expected]]\n", "write [[expect]] tables with "),
        ("expect = [3]\n", "entry 1: not a table; write [[expect]] tables with "),
        ("[[expect]]\nlaw = 'answer'\n", "entry 1: no subject; write [[expect]] tables with "),
        ("[[expect]]\nsubject = 3\n", "entry 1: subject is not a string; write [[expect]] tables with "),
    ],
)
def test_a_list_that_is_none(content: str | bytes, problem: str, at_once: Run, expect: Path) -> None:
    expect.write_bytes(content if isinstance(content, bytes) else content.encode())
    done = at_once("check", "factories:Sharing", "--expect", expect, *FEW)
    assert 2 == done.returncode
    (line,) = done.stderr.splitlines()
    assert line.startswith(f"evictable: {expect}: {problem}")


def test_a_list_or_a_trace_that_is_not_there(at_once: Run, expect: Path, folder: Path) -> None:
    for missing in (folder / "lists" / "traces" / "sharing.jsonl", expect):
        missing.unlink()
        done = at_once("check", "factories:Sharing", "--expect", expect, *FEW)
        assert 2 == done.returncode
        (line,) = done.stderr.splitlines()
        assert line.startswith(f"evictable: {missing}: cannot be read (No such file or directory); ")


def test_a_trace_that_kills_its_subject_is_inconclusive(evictable: Run, expect: Path, folder: Path) -> None:
    write(folder, ENTRY | {"subject": "factories:Exiting"})
    done = evictable("check", "factories:Exiting", "--expect", expect, *FEW)
    assert 3 == done.returncode
    path = folder / "lists" / "traces" / "sharing.jsonl"
    assert (
        f"evictable: {path}: cannot be replayed on factories:Exiting: the process of the subject ended with 0: "
        "it said nothing\n"
    ) == done.stderr


def test_what_breaks_in_fewer_calls_than_listed_is_told(evictable: Run, expect: Path, folder: Path) -> None:
    """It may be another defect of that law."""
    more = {"call": "lookup", "request": "r1", "keys": [0]}
    write_trace(folder, *BREAKS[:2], *(more,) * 3, *BREAKS[2:])
    done = evictable("check", "factories:Sharing", "--expect", expect, *FEW)
    told = f"answer on factories:Sharing lru contract in 2 calls, fewer than in {expect.parent}/traces/sharing.jsonl: "
    assert 0 == done.returncode
    assert [f"{told}is it the same? see traces/factories-Sharing-lru-contract-answer.jsonl"] == [
        line for line in done.stdout.splitlines() if "fewer than" in line
    ]
    write_trace(folder, *BREAKS)
    assert "fewer than" not in evictable("check", "factories:Sharing", "--expect", expect, *FEW).stdout


def test_a_list_is_written_and_excuses_what_is_in_it(evictable: Run, folder: Path) -> None:
    known = folder / "lists" / "known.toml"
    found = evictable("check", "factories:Leaking", "--write-expect", known, *FEW)
    assert 1 == found.returncode
    assert f"{known}: 2 added; give each a reason, and the file as --expect" in found.stderr
    assert 0 == evictable("check", "factories:Leaking", "--expect", known, *FEW).returncode
    entries = tomllib.loads(known.read_text())["expect"]
    assert {"drains", "slots-conserved"} == {one["law"] for one in entries}
    assert {True} == {(known.parent / one["trace"]).is_file() for one in entries}
    stale = evictable("check", "factories:Good", "--expect", renamed(known, "factories:Good"), *FEW)
    assert 3 == stale.returncode


def test_a_list_is_gone_on_with(evictable: Run, expect: Path) -> None:
    """Only what it does not have is added, and what it has stays as it is written."""
    before = expect.read_text()
    both = ("--expect", expect, "--write-expect", expect)
    again = evictable("check", "factories:Sharing", *both, *FEW)
    assert (0, before) == (again.returncode, expect.read_text())
    assert f"{expect}: 0 added; " in again.stderr
    assert 1 == evictable("check", "factories:Leaking", *both, *FEW).returncode
    assert expect.read_text().startswith(before)
    subjects = [one["subject"] for one in tomllib.loads(expect.read_text())["expect"]]
    assert ["factories:Sharing", "factories:Leaking", "factories:Leaking"] == subjects
    alone = evictable("check", "factories:Sharing", "--write-expect", expect, *FEW)
    (line,) = alone.stderr.splitlines()
    assert 2 == alone.returncode
    assert f"evictable: {expect} is there: give it as --expect, too, and only what it does not list is added" == line


@pytest.mark.parametrize("name", ["known", ".toml"])
def test_a_list_whose_name_has_no_end(evictable: Run, folder: Path, name: str) -> None:
    found = evictable("check", "factories:Leaking", "--write-expect", name, *FEW)
    assert 1 == found.returncode
    assert f"{name}: 2 added; give each a reason, and the file as --expect" in found.stderr
    both = ("--expect", folder / name, "--write-expect", name)
    assert 0 == evictable("check", "factories:Leaking", *both, *FEW).returncode


def test_a_list_that_is_no_file(at_once: Run) -> None:
    done = at_once("check", "factories:Leaking", "--write-expect", "/dev/full", *FEW)
    told = "evictable: /dev/full is no file; name one, for a list of known failures\n"
    assert (2, told) == (done.returncode, done.stderr)


def test_what_a_baseline_breaks_by_the_same_calls_is_expected(evictable: Run) -> None:
    same = evictable("check", "factories:Leaking", "--baseline", "factories:Leaking", *FEW)
    assert (0, "1 violate as expected") == (same.returncode, same.stdout.splitlines()[-1])
    because = "known: drains broken by factories:Leaking lru contract, 3 calls: factories:Leaking breaks it by the same"
    assert f"{because} calls" in same.stdout.splitlines()
    right = evictable("check", "factories:Leaking", "--baseline", "impl", *FEW)
    assert 1 == right.returncode
    assert "known: " not in right.stdout


def test_beside_what_a_baseline_breaks_the_subjects_own_is_shown(evictable: Run, folder: Path) -> None:
    """Though the same law is broken in fewer calls by what both do."""
    done = evictable(
        "check", "factories:LeakingAndSharing", "--baseline", "factories:Leaking", *FEW, "--summary", "s.md"
    )
    assert 1 == done.returncode
    (told,) = (line for line in done.stdout.splitlines() if line.startswith("broken by "))
    assert re.search(r" drains \(3\) expected, .*slots-conserved \([6-9]\)(,|$)", told)
    assert "slots-conserved broken by factories:LeakingAndSharing lru contract: slots of resident" in done.stdout
    assert re.search(r"^\d+ +complete_load\(.*\n +expected", done.stdout, re.M)
    assert "known: slots-conserved broken by factories:LeakingAndSharing lru contract, 3 calls: " in done.stdout
    assert " --baseline factories:Leaking --seed 0" in (folder / "s.md").read_text()  # else it is not found again
    assert re.search(r"slots-conserved \([6-9]\)[, ]", (folder / "s.md").read_text())


def test_a_baseline_that_is_none(evictable: Run) -> None:
    done = evictable("check", "factories:Good", "--baseline", "factories:Nothing", *FEW)
    assert 2 == done.returncode
    last = done.stderr.splitlines()[-1]
    assert last.startswith("evictable: baseline factories:Nothing: ")
    assert "Traceback" not in done.stderr


def test_a_baseline_that_cannot_be_set_up_so(evictable: Run) -> None:
    """Nothing would ever be broken there, and everything the subject's own."""
    done = evictable("check", "factories:Leaking", "--baseline", "factories:raising", *FEW)
    assert 2 == done.returncode
    assert done.stderr.splitlines()[-1].startswith("evictable: baseline factories:raising: ")


def renamed(path: Path, subject: str) -> Path:
    path.write_text(path.read_text().replace("factories:Leaking", subject))
    return path
