"""What the releases' own schedulers make of lookups, against our account of the newest."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Mapping
from itertools import permutations
from pathlib import Path
from typing import Any

import pytest

from evictable.specs.subjects.releases import KNOWN_RELEASES

FAST = ("0.24.0", "0.29.0", "0.33.0")
VERSIONS = [
    pytest.param(version, marks=[] if version in FAST else pytest.mark.slow, id=version) for version in KNOWN_RELEASES
]
pytestmark = pytest.mark.release

PENDING_BEHIND_A_GAP = [("HHMP", 2)]
PENDING_IN_A_WINDOW = [("HP", 1)]
SHORTER_THAN_ASKED = [("HHM", None), ("HHH", 1)]


@pytest.fixture(scope="module")
def played(release: Callable[[str], Path]) -> Callable[[str], Mapping[str, Any]]:
    """What the scheduler of a release does."""
    known: dict[str, Mapping[str, Any]] = {}

    def of(version: str) -> Mapping[str, Any]:
        release(version)
        if version not in known:
            cases = json.dumps([PENDING_BEHIND_A_GAP, PENDING_IN_A_WINDOW, SHORTER_THAN_ASKED])
            call = [sys.executable, Path(__file__).with_name("play_scheduling.py"), f"vllm=={version}", cases]
            known[version] = json.loads(subprocess.run(call, stdout=subprocess.PIPE, check=True).stdout)
        return known[version]

    return of


def minor(version: str) -> int:
    return int(version.split(".")[1])


@pytest.mark.parametrize("version", VERSIONS)
def test_its_own_code_is_driven(version: str, played: Callable[[str], Mapping[str, Any]]) -> None:
    assert played(version)["faithful"]


@pytest.mark.parametrize("version", VERSIONS)
def test_against_the_reference(version: str, played: Callable[[str], Mapping[str, Any]]) -> None:
    """From 0.30 the two agree; before, a window waits for whatever its lookups met that is pending."""
    differences = played(version)["differences"]
    if minor(version) >= 30:
        assert [] == differences
    else:
        assert differences
        for case, mine, reference in differences:
            assert any("P" in answers for answers, _ in case)
            assert mine["loads"] in (None, reference["loads"])


@pytest.mark.parametrize("version", VERSIONS)
def test_what_changed(version: str, played: Callable[[str], Mapping[str, Any]]) -> None:
    behind_a_gap, in_a_window, shorter = played(version)["cases"]
    # From 0.30 the gap takes what is pending behind it out of the question.
    assert (None if minor(version) < 30 else [0, 1]) == behind_a_gap["loads"]
    # To 0.24 there is one word for pending and for not known yet, and it breaks a window.
    assert ([1, 0] if minor(version) < 25 else [1]) == in_a_window["asked"]
    assert None is in_a_window["loads"]
    # To 0.30 keys are touched: of a window, those that it needed and those further on.
    assert [0, 1, 4] == shorter["loads"]
    assert ([[0, 1, 2], [4, 5]] if minor(version) < 31 else []) == shorter["touched"]


@pytest.mark.parametrize("version", VERSIONS)
def test_a_hit_that_is_evicted_before_it_is_loaded(version: str, played: Callable[[str], Mapping[str, Any]]) -> None:
    """From 0.30: the last chunk's promotion evicts chunk 0, and the gap before it hides that there was one.

    The full-attention group is asked before the window, and not again once that has shortened the load. To 0.29
    a step in which anything was promoted either waits or asks everybody again.
    """
    expected = [[[0, *others], [5]] for others in permutations((1, 2, 3))] if minor(version) >= 30 else []
    assert expected == played(version)["lost"]
