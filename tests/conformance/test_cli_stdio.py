"""Managers in other languages, as a user checks them: one that conforms, one that leaks, some that break."""

from __future__ import annotations

import json
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from commandline import Run

ROOT = Path(__file__).resolve().parents[2]
CHILD = f"stdio:{shlex.quote(sys.executable)} -S {shlex.quote(str(ROOT / 'tests/misbehaving_child.py'))}"
needs_node = pytest.mark.skipif(shutil.which("node") is None, reason="there is no node on this machine")

HANGING = f"stdio:{shlex.quote(sys.executable)} {shlex.quote(str(ROOT / 'tests/hanging_child.py'))}"


def javascript(name: str) -> str:
    return f"stdio:node {shlex.quote(str(ROOT / 'examples' / name))}"


@needs_node
@pytest.mark.parametrize("discipline", ["contract", "careless"])
def test_the_manager_in_javascript_conforms(discipline: str, evictable: Run) -> None:
    more = ("--discipline", discipline, "--max-calls", 3000)
    done = evictable("check", javascript("manager.js"), *more)
    assert (0, "1 conform") == (done.returncode, done.stdout.splitlines()[-1])


@needs_node
def test_the_leak_is_found_and_shrunk_and_replayed(evictable: Run, folder: Path) -> None:
    subject = javascript("leaky_manager.js")
    done = evictable("check", subject, "--max-calls", 1000, "--engine", "random", "--json", "r.json")
    assert 1 == done.returncode
    (row,) = json.loads((folder / "r.json").read_text())["results"]
    found = {one["law"]: one for one in row["violations"]}
    assert 3 == found["slots-conserved"]["calls"]
    trace = found["slots-conserved"]["trace"]
    assert 1 == evictable("replay", trace, "--subject", subject).returncode
    assert 0 == evictable("replay", trace, "--subject", javascript("manager.js")).returncode


@needs_node
def test_the_manager_in_javascript_under_a_workload(evictable: Run, folder: Path) -> None:
    requests = [{"timestamp": 0, "hash_ids": [one % 5, 5 + one % 7, 12 + one]} for one in range(100)]
    (folder / "w.jsonl").write_text("\n".join(map(json.dumps, requests)))
    more = ("--capacity", 2000, "--profile", "lru-evictable")
    done = evictable("workload", "w.jsonl", "--subject", javascript("manager.js"), *more)
    assert 0 == done.returncode
    assert done.stdout.splitlines()[1].endswith(": conforms")


@pytest.mark.parametrize(("way", "raised"), [("crash", "ManagerDied"), ("garbage", "BadAnswer")])
def test_a_crash_is_a_broken_law(way: str, raised: str, evictable: Run, folder: Path) -> None:
    (folder / "t.jsonl").write_text(
        '{"evictable_trace": 1, "capacity": 1}\n'
        '{"call": "on_new_request", "request": "r1"}\n'
        '{"call": "lookup", "request": "r1", "keys": [7]}\n'
    )
    done = evictable("replay", "t.jsonl", "--subject", f"{CHILD} {way}", "--profile", "any")
    assert 1 == done.returncode
    assert "answer broken" in done.stdout
    assert f"raises {raised}" in done.stdout


@pytest.mark.parametrize("engine", ["random", "hypothesis"])
def test_a_hang_is_inconclusive_and_its_calls_are_kept(engine: str, evictable: Run, folder: Path) -> None:
    done = evictable("check", HANGING, "--max-calls", 2000, "--engine", engine, "--trace-dir", "t")
    assert 3 == done.returncode
    assert "did not come back: no answer in 0.5 s, as call" in done.stdout
    (kept,) = (folder / "t").iterdir()
    assert "prepare_load" == json.loads(kept.read_text().splitlines()[-1])["call"]


def test_a_hang_in_a_replay_is_inconclusive(evictable: Run, folder: Path) -> None:
    (folder / "t.jsonl").write_text(
        '{"evictable_trace": 1, "capacity": 1}\n{"call": "lookup", "request": "r1", "keys": [7]}\n'
    )
    done = evictable("replay", "t.jsonl", "--subject", f"{CHILD} hang")
    assert (3, "") == (done.returncode, done.stdout)
    assert "lookup(7, request=r1) did not come back: no answer in 0.3 s" in done.stderr


@needs_node
@pytest.mark.parametrize(("manager", "code"), [("manager.js", 0), ("leaky_manager.js", 1)])
def test_golden_traces_without_python(manager: str, code: int) -> None:
    golden = ROOT / "specs" / "golden" / "lru-evictable.jsonl"
    done = subprocess.run(["node", ROOT / "examples/golden.js", golden, f"./{manager}"], capture_output=True, text=True)
    assert code == done.returncode
    assert ("are right" if code == 0 else "free slots: expected") in done.stdout


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (("check", "--level", "policy"), "a policy by itself cannot be called in another process; leave out --level"),
        (("check", "--tiers", 1), "a manager in another process has no tiers; leave out --tiers"),
        (("schedules", "--lock", "none"), "threads of another process cannot be interleaved; name a subject in Python"),
    ],
)
def test_what_another_process_cannot_have_is_one_line(
    arguments: tuple[object, ...], problem: str, evictable: Run
) -> None:
    done = evictable(arguments[0], f"{CHILD} well", *arguments[1:])
    assert 2 == done.returncode
    assert problem in done.stderr
    assert "Traceback" not in done.stderr


def test_a_command_that_shakes_no_hands_is_one_line(evictable: Run) -> None:
    done = evictable("check", "stdio:cat /dev/null", "--max-calls", 10)
    assert 2 == done.returncode
    assert "evictable: stdio:cat /dev/null: does not shake hands (the process ended with 0)" in done.stderr
    assert "Traceback" not in done.stderr
