"""`evictable check --level policy` as a user meets it, and its traces replayed."""

from __future__ import annotations

import json
import shlex
import shutil
from pathlib import Path

import pytest
from commandline import Run

POLICIES = Path(__file__).parents[1] / "unit" / "policies_apart.py"
FEW = ("--level", "policy", "--max-calls", 1500)


@pytest.fixture
def with_policies(folder: Path) -> Path:
    shutil.copy(POLICIES, folder)
    return folder


def test_our_policy_conforms_and_the_bound_is_told(evictable: Run) -> None:
    done = evictable("check", "impl", *FEW)
    assert 0 == done.returncode, done.stderr
    searched = "exhaustive search on impl lru contract at policy level: every call in all 9 states of the model"
    assert f"{searched} with 1 slots" in done.stdout


def test_a_wrong_mark_is_shown_with_what_comes_of_it_and_can_be_replayed(evictable: Run, with_policies: Path) -> None:
    done = evictable(
        "check", "policies_apart:Trusting", *FEW, "--discipline", "careless", "--json", "r.json", "--seed", 1
    )
    assert 1 == done.returncode
    assert "mismatch/mark-in-use broken by policies_apart:Trusting lru careless at policy level: a call that" in (
        done.stdout
    )
    assert "  observed  afterwards, of evict(1, protected=[0]): " not in done.stdout
    (result,) = json.loads((with_policies / "r.json").read_text())["results"]
    assert ("policy", "violates") == (result["level"], result["verdict"])
    (command,) = [
        line.removeprefix("  replay    evictable ")
        for line in done.stdout.splitlines()
        if line.startswith("  replay") and "mismatch-mark-in-use" in line
    ]
    again = evictable(*shlex.split(command))
    assert 1 == again.returncode
    assert "mismatch/mark-in-use broken: " in again.stdout
    assert "evict(1) then gives up 0, in use with ref_cnt -1" in again.stdout


def test_a_trace_conforms_on_a_policy_that_refuses(evictable: Run, with_policies: Path) -> None:
    lines = [
        {"evictable_trace": 1, "level": "policy", "capacity": 1},
        {"call": "insert", "key": 0, "ref_cnt": -1},
        {"call": "mark_evictable", "key": 0},
    ]
    (with_policies / "t.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    done = evictable("replay", "t.jsonl", "--subject", "impl")
    assert 0 == done.returncode, done.stderr
    assert "raises MismatchedMark: mark_evictable: key " in done.stdout
    assert "2 calls conform" in done.stdout


def test_recorded_answers_are_judged(at_once: Run, folder: Path) -> None:
    lines = [
        {"evictable_trace": 1, "level": "policy", "capacity": 1, "profile": "lru-evictable"},
        {
            "call": "insert",
            "key": 0,
            "ref_cnt": 0,
            "returns": None,
            "state": {"blocks": [[0, 1, 0]], "evictable": [0]},
        },
        {"call": "evict", "n": 1, "protected": [], "returns": None, "state": {"blocks": [[0, 1, 0]], "evictable": [0]}},
    ]
    (folder / "t.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    done = at_once("replay", "t.jsonl")
    assert 1 == done.returncode
    assert "no-false-refusal broken: " in done.stdout
    assert "  expected  it gives up [0]" in done.stdout


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--engine", "hypothesis"), "--level policy has the engines exhaustive, random, not --engine hypothesis"),
        (
            ("--tiers", 1, "--store-threshold", 2),
            "--level policy judges a policy without its manager: leave out --tiers, --store-threshold",
        ),
    ],
)
def test_options_of_a_manager_are_refused(options: tuple[object, ...], message: str, at_once: Run) -> None:
    done = at_once("check", "impl", "--level", "policy", *options)
    assert (2, f"evictable: {message}\n") == (done.returncode, done.stderr)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        ({"call": "set_ref_cnt", "key": 0, "ref_cnt": 1}, "line 2: nothing is said of ref_cnt of 0 = 1 here"),
        ({"call": "lookup"}, "line 2: unknown call 'lookup'; a policy knows "),
        ({"call": "clear"}, "line 2: clear has no recorded answer and state; replay the calls on a subject"),
    ],
)
def test_a_bad_trace_is_one_line(call: dict[str, object], message: str, at_once: Run, folder: Path) -> None:
    state = {"returns": None, "state": {"blocks": []}} if call["call"] == "set_ref_cnt" else {}
    head = {"evictable_trace": 1, "level": "policy", "capacity": 1, "profile": "lru-evictable"}
    (folder / "t.jsonl").write_text(json.dumps(head) + "\n" + json.dumps(call | state) + "\n")
    done = at_once("replay", "t.jsonl")
    assert 2 == done.returncode
    assert done.stderr.startswith(f"evictable: t.jsonl: {message}")
    assert 1 == len(done.stderr.splitlines())


def test_a_manager_is_no_policy(evictable: Run) -> None:
    done = evictable("check", "factories:Good", *FEW)
    assert 2 == done.returncode
    assert "evictable: factories:Good" in done.stderr
