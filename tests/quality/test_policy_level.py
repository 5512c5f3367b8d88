"""Does the search at policy level find every seeded defect of the policies, and what do published ones do?"""

from __future__ import annotations

import ast
import json
import subprocess
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from evictable.model.policy_calls import EVICT, INSERT, TOUCH, PolicyCall
from evictable.specs import subjects
from evictable.specs.callers.disciplines import CONTRACT
from evictable.specs.mutants.build import edited_source, source_of
from evictable.specs.mutants.marks import MUTANTS_OF_MARKS, PolicyMutant
from evictable.specs.mutants.mutant import Mutant
from evictable.specs.mutants.registry import MUTANTS
from evictable.specs.policy_level.search import ENGINES, PolicyFinding, PolicySearch
from evictable.specs.policy_level.session import PolicySession
from evictable.specs.search import CONFORMS
from evictable.specs.subjects.policies import load_policy

MAX_CALLS = 20_000
NOT_REACHED = {
    "arc-size-of-t1-before-the-eviction": (
        *(PolicyCall(INSERT, (key,)) for key in (0, 1)),
        PolicyCall(EVICT, n=2),
        PolicyCall(TOUCH, (0, 1)),
        *(PolicyCall(INSERT, (key,)) for key in (2, 3, 4)),
        PolicyCall(TOUCH, (4,)),
        PolicyCall(EVICT, n=2),
    )
}
"""Not found within the bound; the calls that show it."""
MOST_CALLS = 12
"""In a counterexample, after it was shrunk."""


class _Enough(Exception):
    """What was looked for is found."""


def hunt(mutant: Mutant, discipline: str, law: str | None) -> PolicySession:
    """A session that breaks the law; any law, where none is named."""
    found: list[PolicySession] = []

    def on_finding(finding: PolicyFinding) -> None:
        breach = finding.session.breach
        if breach is not None and law in (None, breach.name):
            found.append(finding.session)
            raise _Enough

    kind = load_policy(f"mutant:{mutant.name}", mutant.policy)
    search = PolicySearch(kind, kind.profile, discipline, on_finding=on_finding)
    with suppress(_Enough):
        search.run(ENGINES, MAX_CALLS, None)
    assert found
    return found[-1]


def conforms(session: PolicySession, policy: str) -> bool:
    """Whether our policy passes the same calls."""
    kind = load_policy("impl", policy)
    again = PolicySession.begin(kind, session.capacity, kind.profile, session.discipline, session.keys)
    for call in session.calls:
        again.step(call)
        if again.breach is not None:
            return False
    return True


@pytest.mark.parametrize("mutant", MUTANTS_OF_MARKS, ids=lambda mutant: mutant.name)
def test_a_mark_that_is_not_refused_is_found_and_ours_refuses_it(mutant: PolicyMutant) -> None:
    session = hunt(mutant, mutant.discipline, mutant.laws[0])
    assert len(session.calls) <= MOST_CALLS
    assert conforms(session, mutant.policy)


@pytest.mark.parametrize(
    "mutant",
    [one for one in MUTANTS if one.module.startswith("policies.") and one.name not in NOT_REACHED],
    ids=lambda mutant: mutant.name,
)
def test_a_defect_of_a_policy_that_a_manager_shows_is_found_at_policy_level_too(mutant: Mutant) -> None:
    session = hunt(mutant, CONTRACT, None)
    assert len(session.calls) <= MOST_CALLS
    assert conforms(session, mutant.policy)


@pytest.mark.parametrize("name", NOT_REACHED)
def test_what_is_not_found_is_judged_where_it_shows(name: str) -> None:
    broken = {}
    for subject in (f"mutant:{name}", "impl"):
        kind = load_policy(subject, "arc")
        session = PolicySession.begin(kind, 4, kind.profile, CONTRACT, tuple(range(5)))
        for call in NOT_REACHED[name]:
            assert session.allows(call)
            session.step(call)
        broken[subject] = None if session.breach is None else session.breach.law
    assert {f"mutant:{name}": "evict-order", "impl": None} == broken


@pytest.mark.parametrize("mutant", MUTANTS_OF_MARKS, ids=lambda mutant: mutant.name)
def test_its_edit_applies_and_leaves_a_module(mutant: PolicyMutant) -> None:
    assert ast.dump(ast.parse(edited_source(mutant))) != ast.dump(ast.parse(source_of(mutant.module)))


def test_names_are_unique_and_tell_how_they_are_noticed() -> None:
    names = [mutant.name for mutant in (*MUTANTS, *MUTANTS_OF_MARKS)]
    assert len(names) == len(set(names))
    told: list[str] = []
    subjects.prepare("mutant:mark-of-a-block-in-use", told.append)
    assert told[0].endswith("; noticed with --level policy --policy lru --discipline careless")


# --- published releases ---------------------------------------------------------------------------


def checked(folder: Path, version: str, policy: str, discipline: str) -> dict[str, Any]:
    """The result of a search, with the findings by their law."""
    script = "from evictable.ci.cli import main; main()"
    options = ("--level", "policy", "--policy", policy, "--discipline", discipline, "--max-calls", "3000")
    subprocess.run(
        [sys.executable, "-c", script, "check", f"vllm=={version}", *options, "--json", "r.json"],
        cwd=folder,
        stdout=subprocess.DEVNULL,
        check=False,
    )
    (result,) = json.loads((folder / "r.json").read_text())["results"]
    return result


@pytest.mark.release
@pytest.mark.parametrize("version", ["0.24.0", "0.33.0"])
@pytest.mark.parametrize("policy", ["lru", "arc"])
def test_matching_marks_find_nothing_in_published_policies(
    version: str, policy: str, release: Callable[[str], Path], tmp_path: Path
) -> None:
    release(version)
    assert CONFORMS == checked(tmp_path, version, policy, CONTRACT)["verdict"]


def told(result: dict[str, Any]) -> dict[str, tuple[int, str]]:
    return {one["law"]: (one["calls"], one["observed"].partition(": b'")[0]) for one in result["violations"]}


@pytest.mark.release
def test_what_lru_of_0_24_does_with_marks_that_do_not_match(release: Callable[[str], Path], tmp_path: Path) -> None:
    release("0.24.0")
    result = checked(tmp_path, "0.24.0", "lru", "careless")
    assert {
        "mismatch/mark-absent": (1, "evictable are [0]; evict(1) then raises KeyError"),
        "mismatch/mark-in-use": (2, "evictable are [0]; evict(1) then raises AssertionError"),
        "mismatch/insert-resident": (2, "it finds block 2"),
    } == told(result)
    assert {"raises KeyError"} == set(result["mismatches"]["unmark-unmarked"])
    assert {"ignored"} == set(result["mismatches"]["mark-marked"])


@pytest.mark.release
def test_what_lru_of_0_33_does_with_marks_that_do_not_match(release: Callable[[str], Path], tmp_path: Path) -> None:
    release("0.33.0")
    result = checked(tmp_path, "0.33.0", "lru", "careless")
    assert {
        "all-or-nothing/mark-absent": (1, "it raises KeyError"),
        "all-or-nothing/evict-in-use": (4, "afterwards, of evict(1, protected=[1]): it answers None"),
        "mismatch/mark-in-use": (2, "evictable are [0]; evict(1) then raises AssertionError"),
        "mismatch/insert-resident": (2, "it finds block 2"),
    } == told(result)
    assert {"raises KeyError"} == set(result["mismatches"]["unmark-unmarked"])


@pytest.mark.release
@pytest.mark.parametrize("version", ["0.24.0", "0.33.0"])
def test_arc_of_the_releases_ignores_marks_and_replaces_resident_blocks(
    version: str, release: Callable[[str], Path], tmp_path: Path
) -> None:
    release(version)
    result = checked(tmp_path, version, "arc", "careless")
    assert {"mismatch/insert-resident": (2, "it finds block 2")} == told(result)
    assert {"nothing happens: marks are ignored"} == set(result["mismatches"]["mark-in-use"])


@pytest.mark.release
def test_without_assertions_lru_of_0_24_gives_up_a_block_in_use(release: Callable[[str], Path], tmp_path: Path) -> None:
    release("0.24.0")
    played = subprocess.run(
        [sys.executable, "-O", Path(__file__).with_name("play_wrong_mark.py"), "vllm==0.24.0"],
        stdout=subprocess.PIPE,
        check=True,
        text=True,
    )
    assert "evict(1) then gives up 0, in use with ref_cnt 1\n" == played.stdout
