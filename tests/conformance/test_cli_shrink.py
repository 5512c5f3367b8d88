"""`evictable shrink`, and the recordings that it and `replay` take, as a user meets them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from commandline import Run

LONG = 2000
"""Calls above which `replay` does not show them all."""


@pytest.fixture
def workload(folder: Path) -> Path:
    path = folder / "w.jsonl"
    path.write_text("".join(json.dumps({"hash_ids": [number % 7, number % 5 + 10]}) + "\n" for number in range(500)))
    return path


def test_a_recorded_workload_is_shrunk(evictable: Run, workload: Path, folder: Path) -> None:
    seeded = "mutant:counter-forgets-unpins"
    done = evictable("workload", workload, "--subject", seeded, "--capacity", 50, "--record", "long.jsonl")
    assert 1 == done.returncode
    assert "  shrink    evictable shrink long.jsonl -o short.jsonl" == done.stdout.splitlines()[-1]
    done = evictable("shrink", "long.jsonl", "-o", "short.jsonl")
    assert 1 == done.returncode
    assert done.stdout.splitlines()[-2].endswith("no call and no key can be left out")
    assert 8 >= len((folder / "short.jsonl").read_text().splitlines()) - 1
    assert 1 == evictable("replay", "short.jsonl").returncode
    done = evictable("shrink", "short.jsonl", "--subject", "impl")
    assert 0 == done.returncode
    assert done.stdout.endswith("break no law on impl: nothing to shrink\n")


def test_what_cannot_be_shrunk(at_once: Run, folder: Path) -> None:
    (folder / "t.jsonl").write_text('{"evictable_trace": 1, "capacity": 2}\n')
    for arguments, message in (
        (("t.jsonl", "--law", "x"), "unknown law 'x'; known: "),
        (("no.jsonl",), "no.jsonl: cannot be read (No such file or directory); give a trace file"),
        (("t.jsonl", "--subject", "x"), "unknown subject 'x': "),
    ):
        done = at_once("shrink", *arguments)
        assert 2 == done.returncode
        assert done.stderr.startswith(f"evictable: {message}")


def test_a_long_recording_is_replayed_as_a_stream(evictable: Run, workload: Path, folder: Path) -> None:
    assert 0 == evictable("workload", workload, "--capacity", 6, "--record", "long.jsonl").returncode
    long = folder / "long.jsonl"
    lines = long.read_text().splitlines()
    calls = len(lines) - 1
    assert LONG < calls
    for more in ((), ("--subject", "impl")):
        done = evictable("replay", "long.jsonl", *more)
        assert 0 == done.returncode
        assert done.stdout.startswith(f"{calls:,} calls judged in ")
        assert done.stdout.endswith(": all conform\n")

    long.write_text("\n".join(lines)[:-5])
    done = evictable("replay", "long.jsonl")
    assert 0 == done.returncode
    assert f"long.jsonl: line {len(lines)}, the last, is cut off and left out\n" == done.stderr
    assert done.stdout.startswith(f"{calls - 1:,} calls judged in ")

    wrong = '{"call": "lookup", "request": "r1", "keys": [99], "returns": "HIT"}'
    long.write_text("\n".join([*lines, wrong, wrong]) + "\n")
    done = evictable("replay", "long.jsonl")
    assert 1 == done.returncode
    assert f"; the last of {calls + 1:,}" in done.stdout.splitlines()[0]
    assert done.stdout.endswith(": the last breaks answer\n")

    long.write_text("\n".join([*lines[:2100], "{", *lines[2100:]]) + "\n")
    done = evictable("replay", "long.jsonl")
    assert 2 == done.returncode
    assert done.stderr.startswith("evictable: long.jsonl: line 2101: not a JSON object")
