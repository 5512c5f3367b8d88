"""Managers in other languages, as a user checks them: one that conforms, one that leaks, some that break."""

from __future__ import annotations

import json
import shlex
import shutil
import sys
from pathlib import Path

import pytest
from commandline import Run

ROOT = Path(__file__).resolve().parents[2]
CHILD = f"stdio:{shlex.quote(sys.executable)} -S {shlex.quote(str(ROOT / 'tests/misbehaving_child.py'))}"
needs_node = pytest.mark.skipif(shutil.which("node") is None, reason="there is no node on this machine")


def javascript(name: str) -> str:
    return f"stdio:node {shlex.quote(str(ROOT / 'examples' / name))}"


@needs_node
@pytest.mark.parametrize("discipline", ["contract", "careless"])
def test_the_manager_in_javascript_conforms(discipline: str, evictable: Run) -> None:
    more = ("--discipline", discipline, "--max-calls", 6000, "--json", "-")
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
def test_a_crash_is_a_broken_law_with_the_shortest_calls(way: str, raised: str, evictable: Run, folder: Path) -> None:
    """This one stores nothing, which is another defect: calls that need a crash are taken from a trace."""
    (folder / "t.jsonl").write_text(
        '{"evictable_trace": 1, "capacity": 1}\n'
        '{"call": "on_new_request", "request": "r1"}\n'
        '{"call": "lookup", "request": "r1", "keys": [7]}\n'
    )
    done = evictable("replay", "t.jsonl", "--subject", f"{CHILD} {way}", "--profile", "any")
    assert 1 == done.returncode
    assert "answer broken" in done.stdout
    assert f"raises {raised}" in done.stdout


def test_a_crash_in_a_search_is_shrunk(evictable: Run, folder: Path) -> None:
    program = folder / "child.py"
    program.write_text(
        "import json, sys\n"
        "for line in sys.stdin:\n"
        "    asked = json.loads(line)\n"
        "    if asked.get('call') == 'touch': sys.exit('ZeroDivisionError: division by zero')\n"
        "    hello = {'evictable_stdio': 1} if 'evictable_trace' in asked else {'returns': None}\n"
        "    print(json.dumps({'returns': 'MISS'} if asked.get('call') == 'lookup' else hello), flush=True)\n"
    )
    subject = f"stdio:{shlex.quote(sys.executable)} -S child.py"
    done = evictable("check", subject, "--max-calls", 60, "--engine", "random", "--seed", 3, "--json", "r.json")
    assert 1 == done.returncode
    (row,) = json.loads((folder / "r.json").read_text())["results"]
    found = {one["law"]: one for one in row["violations"]}
    assert "ManagerDied: the process ended with 1: ZeroDivisionError" in found["answer"]["observed"]
    assert 2 == found["answer"]["calls"]


def test_a_hang_is_inconclusive_and_its_calls_are_kept(evictable: Run, folder: Path) -> None:
    done = evictable("check", f"{CHILD} hang", "--max-calls", 2000, "--engine", "random", "--trace-dir", "t")
    (kept,) = [path for path in (folder / "t").iterdir() if "hang" in path.name]
    assert "did not come back: no answer in 0.3 s" in done.stdout
    assert {"call": "lookup", "request": "r1", "keys": [7]}.keys() == json.loads(kept.read_text().splitlines()[-1]).keys()


def test_a_command_that_shakes_no_hands_is_one_line(evictable: Run) -> None:
    done = evictable("check", "stdio:cat /dev/null", "--max-calls", 10)
    assert 2 == done.returncode
    assert "evictable: stdio:cat /dev/null: does not shake hands (the process ended with 0)" in done.stderr
    assert "Traceback" not in done.stderr
