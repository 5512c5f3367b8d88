"""Small inputs whose right answer is known, on the published releases and on the built-in manager.

`cases/` holds a trace for each, and `index.json` says of each which law the releases from the first to the last
named one break, and at which calls their answers (or states) are ``wrong`` and those of `impl` ``right``.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from commandline import Run

from evictable.model import trace as traces
from evictable.model.profiles import PROFILES, reference
from evictable.specs.subjects.releases import KNOWN_RELEASES

CASES = Path(__file__).parent / "cases"
INDEX: list[dict[str, Any]] = json.loads((CASES / "index.json").read_text())
BY_PROFILE = "completion-order-is-eviction-order"
"""No defect: the victim of its last call is another one for each profile."""

FAST = ("0.24.0", "0.27.0", "0.33.0")
OTHERS = tuple(version for version in KNOWN_RELEASES if version not in FAST)

Case = Mapping[str, Any]
Played = Mapping[str, Any]


@pytest.fixture(scope="module")
def played() -> Callable[[str], Played]:
    """What came of every case on a subject."""
    known: dict[str, Played] = {}

    def on(subject: str) -> Played:
        if subject not in known:
            call = [sys.executable, Path(__file__).with_name("play_cases.py"), subject, CASES]
            known[subject] = json.loads(subprocess.run(call, stdout=subprocess.PIPE, check=True).stdout)
        return known[subject]

    return on


def pairs(versions: Sequence[str]) -> list[Any]:
    """Every case with every release among these that it is about."""
    found = []
    for case in INDEX:
        first, last = map(KNOWN_RELEASES.index, case["releases"])
        for version in KNOWN_RELEASES[first : last + 1]:
            if version in versions:
                found.append(pytest.param(case, version, id=f"{case['case']}, {case['law']}, {version}"))
    return found


def shown(expected: Any, seen: Any) -> Any:
    """What was seen, without the fields of records that are not expected."""
    if isinstance(expected, list) and isinstance(seen, list) and len(expected) == len(seen):
        return [shown(*pair) for pair in zip(expected, seen, strict=True)]
    if isinstance(expected, dict) and isinstance(seen, dict):
        return {name: shown(value, seen[name]) for name, value in expected.items() if name in seen}
    return seen


def assert_answers(expected: Mapping[str, Any], answers: list[Any]) -> None:
    assert expected == {number: shown(answer, answers[int(number) - 1]) for number, answer in expected.items()}


def assert_wrong(case: Case, played: Played) -> None:
    """The release does what the case says, and is convicted of it if that is wrong."""
    found = played[case["case"]]
    if case["law"] is None:
        assert [] == found["broken"]
        assert_answers(case.get("also_right", case["right"]), found["answers"])
    else:
        assert case["law"] in found["broken"]
        assert case["breaks_at"] == found["broken_at"]
        assert_answers(case["wrong"], found["answers"])


@pytest.mark.release
@pytest.mark.parametrize(("case", "version"), pairs(FAST))
def test_on_a_release(
    case: Case, version: str, release: Callable[[str], Path], played: Callable[[str], Played]
) -> None:
    release(version)
    assert_wrong(case, played(f"vllm=={version}"))


@pytest.mark.slow
@pytest.mark.release
@pytest.mark.parametrize(("case", "version"), pairs(OTHERS))
def test_on_every_other_release(
    case: Case, version: str, release: Callable[[str], Path], played: Callable[[str], Played]
) -> None:
    release(version)
    assert_wrong(case, played(f"vllm=={version}"))


@pytest.mark.parametrize("case", INDEX, ids=lambda case: f"{case['case']}, {case['law']}")
def test_on_the_built_in_manager(case: Case, played: Callable[[str], Played]) -> None:
    found = played("impl")[case["case"]]
    assert [] == found["broken"]
    assert_answers(case["right"], found["answers"])


def test_every_trace_is_in_the_index() -> None:
    assert {path.stem for path in CASES.glob("*.jsonl")} == {case["case"] for case in INDEX} | {BY_PROFILE}


# --- as a user replays them -----------------------------------------------------------------------


@pytest.mark.release
@pytest.mark.parametrize(
    ("case", "law"),
    [
        ("half-pinned", "all-or-nothing"),
        ("foreign-load-completion", "owner-completes"),
        ("hex-keys-half-pinned", "all-or-nothing"),
    ],
)
def test_replayed(case: str, law: str, evictable: Run, release: Callable[[str], Path]) -> None:
    release("0.27.0")
    done = evictable("replay", CASES / f"{case}.jsonl", "--subject", "vllm==0.27.0")
    assert 1 == done.returncode
    assert f"\n{law} broken: " in done.stdout
    assert 0 == evictable("replay", CASES / f"{case}.jsonl", "--subject", "impl").returncode


# --- the order of eviction ------------------------------------------------------------------------

VICTIMS = {"lru-scan": 3, "lru-evictable": 1, "lru-ranked": 3, "lru-ranked-request": 3, "arc": 3}


@pytest.mark.parametrize(("profile", "victim"), [(name, VICTIMS[name]) for name in PROFILES if name in VICTIMS])
def test_the_victim_that_a_profile_names(profile: str, victim: int) -> None:
    trace = traces.read((CASES / f"{BY_PROFILE}.jsonl").read_text().splitlines())
    manager = reference(profile, trace.head.capacity)
    *_, last = map(manager.perform, trace.calls)
    assert (victim,) == last.evicted_keys  # type: ignore[union-attr]


def victims(played: Played) -> list[int]:
    assert [] == played[BY_PROFILE]["broken"]
    return played[BY_PROFILE]["answers"][-1]["returns"]["evicted_keys"]


@pytest.mark.parametrize(
    ("subject", "victim"),
    [
        ("impl", 1),
        pytest.param("vllm==0.23.0", 3, marks=(pytest.mark.release, pytest.mark.slow)),
        pytest.param("vllm==0.24.0", 1, marks=pytest.mark.release),
        pytest.param("vllm==0.33.0", 3, marks=pytest.mark.release),
    ],
)
def test_the_victim_that_a_subject_names(
    subject: str, victim: int, release: Callable[[str], Path], played: Callable[[str], Played]
) -> None:
    if subject != "impl":
        release(subject.removeprefix("vllm=="))
    assert [victim] == victims(played(subject))


def test_the_victim_of_another_profile_breaks_the_order(evictable: Run) -> None:
    done = evictable("replay", CASES / f"{BY_PROFILE}.jsonl", "--subject", "impl", "--profile", "lru-scan")
    assert 1 == done.returncode
    assert ["  expected  evicts [3]", "  observed  evicts [1]"] == done.stdout.splitlines()[-2:]
