"""`evictable replay` as a user meets it: a trace judged as it was recorded, or on another subject."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from commandline import Run

Record = Mapping[str, Any]

HEAD = {"evictable_trace": 1, "capacity": 2, "policy": "lru", "profile": "lru-evictable"}
STORE = {"call": "prepare_store", "request": "r1", "keys": [0, 1]}
STORED = {"keys_to_store": [0, 1], "block_ids": [0, 1], "evicted_keys": []}
LATEST_FIRST = {"call": "complete_store", "request": "r1", "keys": [1, 0], "returns": None}
ONE_MORE = {"call": "prepare_store", "request": "r1", "keys": [2]}


@pytest.fixture
def trace(folder: Path) -> Path:
    return folder / "t.jsonl"


def write(trace: Path, *records: Record) -> None:
    trace.write_text("".join(json.dumps(record) + "\n" for record in records))


def evicting(key: int, slot: int) -> Record:
    return {**ONE_MORE, "returns": {"keys_to_store": [2], "block_ids": [slot], "evicted_keys": [key]}}


def test_recorded_answers_that_are_right(evictable: Run, trace: Path) -> None:
    write(trace, HEAD, {**STORE, "returns": STORED}, LATEST_FIRST, evicting(1, 1))
    done = evictable("replay", trace)
    assert 0 == done.returncode
    assert [
        "  3 calls, capacity 2, profile lru-evictable",
        "#  call  answer  ref_cnt  evictable",
        "1  prepare_store([0, 1], request=r1)  store [0, 1] in slots [0, 1], evicting []",
        "2  complete_store([1, 0], request=r1, success=True)  None",
        "3  prepare_store([2], request=r1)  store [2] in slots [1], evicting [1]",
        "3 calls conform",
    ] == [re.sub(r"(?<=\S) {2,}", "  ", line.rstrip()) for line in done.stdout.splitlines()]


def test_a_recorded_answer_that_is_wrong(evictable: Run, trace: Path) -> None:
    write(trace, HEAD, {**STORE, "returns": STORED}, LATEST_FIRST, evicting(0, 0))
    done = evictable("replay", trace)
    assert 1 == done.returncode
    assert [
        "evict-order broken: the victims are exactly the first unprotected evictable keys in the declared order, and "
        "no more than needed",
        "  expected  evicts [1]",
        "  observed  evicts [0]",
    ] == done.stdout.splitlines()[-3:]


@pytest.mark.parametrize(("profile", "code"), [("lru-evictable", 0), ("lru-scan", 1), ("any", 0)])
def test_the_profile_may_be_another_than_was_recorded(profile: str, code: int, evictable: Run, trace: Path) -> None:
    write(trace, {**HEAD, "profile": "lru-scan"}, {**STORE, "returns": STORED}, LATEST_FIRST, evicting(1, 1))
    assert code == evictable("replay", trace, "--profile", profile).returncode
    assert 1 == evictable("replay", trace).returncode


def test_a_recorded_state_that_is_wrong(evictable: Run, trace: Path) -> None:
    state = {"ref_cnt": {"0": -1, "1": -1}, "slots": {"0": 0, "1": 1}, "evictable": [1]}
    write(trace, HEAD, {**STORE, "returns": STORED, "state": state})
    done = evictable("replay", trace)
    assert 1 == done.returncode
    assert "\nevictable-iff-idle broken: " in done.stdout


def test_on_a_subject_its_answers_and_its_profile_count(evictable: Run, trace: Path) -> None:
    write(trace, {**HEAD, "profile": "lru-scan"}, {**STORE, "returns": None}, LATEST_FIRST, evicting(0, 0))
    done = evictable("replay", trace, "--subject", "impl")
    assert 0 == done.returncode
    assert "  3 calls, capacity 2, profile lru-evictable" == done.stdout.splitlines()[0]
    assert (
        "3  prepare_store([2], request=r1)                    store [2] in slots [1], evicting [1]       0:0  2:-1"
        in (done.stdout)
    )


def test_a_subject_without_events_owes_none(evictable: Run, trace: Path) -> None:
    write(trace, HEAD, {**STORE, "returns": STORED}, LATEST_FIRST, {"call": "take_events"})
    done = evictable("replay", trace, "--subject", "factories:Quiet")
    assert 0 == done.returncode
    assert "  3 calls, capacity 2, profile any, events off" == done.stdout.splitlines()[0]
    assert re.search(r"^3  take_events\(\) +events: none ", done.stdout, re.M)


def test_it_ends_with_the_first_broken_law(evictable: Run, trace: Path) -> None:
    write(trace, HEAD, STORE, LATEST_FIRST, ONE_MORE)
    done = evictable("replay", trace, "--subject", "factories:Sharing")
    assert 1 == done.returncode
    assert "  expected  store [0, 1] in slots [0, 1], evicting []" in done.stdout
    assert "complete_store" not in done.stdout


def test_fields_that_nobody_knows_are_ignored(evictable: Run, trace: Path) -> None:
    write(trace, {**HEAD, "host": "a"}, {**STORE, "returns": STORED, "micros": 12})
    assert 0 == evictable("replay", trace).returncode


def test_keys_may_be_hexadecimal(evictable: Run, trace: Path) -> None:
    key = "00" * 8 + "0000002a"
    write(trace, HEAD, {**STORE, "keys": [key]})
    done = evictable("replay", trace, "--subject", "impl")
    assert 0 == done.returncode
    assert re.search(rf"^1  prepare_store\(\[{key}\], request=r1\) .* {key}:-1 ", done.stdout, re.M)
    assert "1 call conforms\n" in done.stdout


def test_names_are_shown_as_they_are(evictable: Run, trace: Path) -> None:
    request = "[bold]:x:[/]"
    write(trace, HEAD, {"call": "on_new_request", "request": request})
    assert f"on_new_request(request={request})" in evictable("replay", trace, "--subject", "impl").stdout


def test_several_traces_in_a_file_are_replayed_one_after_the_other(evictable: Run, trace: Path) -> None:
    right = (HEAD, {**STORE, "returns": STORED}, LATEST_FIRST, evicting(1, 1))
    write(trace, *right, *right)
    for more in ((), ("--subject", "impl")):
        done = evictable("replay", trace, *more)
        assert (0, "2 traces, 6 calls: all conform\n") == (done.returncode, done.stdout)
    write(trace, *right, *right[:-1], evicting(0, 0))
    done = evictable("replay", trace)
    lines = done.stdout.splitlines()
    assert (1, "trace 2 of 2, from line 5", "2 traces, 6 calls: 1 break a law") == (
        done.returncode,
        lines[0],
        lines[-1],
    )
    assert "\nevict-order broken: " in done.stdout


def test_where_no_law_says_what_is_wrong_there_is_no_verdict(
    at_once: Run, trace: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("evictable.specs.judge.LAWS", ())
    write(trace, HEAD, {**STORE, "returns": STORED}, LATEST_FIRST, evicting(0, 0))
    done = at_once("replay", trace)
    assert (3, 1) == (done.returncode, len(done.stderr.splitlines()))
    assert done.stderr.startswith("evictable: line 4: no law says what is wrong, report this to evictable: prepare_st")
