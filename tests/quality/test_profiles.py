"""Every release follows its own profile exactly, and is told apart under the profile of another era."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from evictable.ci.jobs import run_jobs
from evictable.model.profiles import profile_of_release
from evictable.specs.subjects.releases import KNOWN_RELEASES

ORDERS_OF = {
    "lru": ("lru-scan", "lru-evictable", "lru-ranked", "lru-ranked-request"),
    "arc": ("arc-no-fallback", "arc", "arc-request"),
}
FAST = ("0.24.0",)
"""The others are slow tests: two minutes of processor time."""


def search(release: str, policy: str, profile: str, max_calls: int) -> Mapping[str, Any]:
    """A contract-keeping random walk of so many judged calls, in a process of its own."""
    payload = {
        "job": "check",
        "subject": f"vllm=={release}",
        "policy": policy,
        "discipline": "contract",
        "profile": profile,
        "engines": ["random"],
        "max_time": None,
        "max_calls": max_calls,
        "seed": 3,
        "capacity": None,
        "store_threshold": 1,
        "max_tracker_size": None,
    }
    records: list[Mapping[str, Any]] = []
    run_jobs([payload], lambda index, record: records.append(record))
    (result,) = [record for record in records if record["kind"] == "result"]
    return {**result, "laws": {record["law"] for record in records if record["kind"] == "finding"}}


CELLS = [
    pytest.param(version, policy, marks=() if version in FAST else pytest.mark.slow)
    for version in KNOWN_RELEASES
    for policy in ORDERS_OF
]


@pytest.mark.release
@pytest.mark.parametrize(("version", "policy"), CELLS)
def test_a_release_follows_its_own_profile(version: str, policy: str, release: Callable[[str], Path]) -> None:
    release(version)
    result = search(version, policy, "auto", 100_000 if version not in FAST else 20_000)
    gives_up = profile_of_release(policy, version) == "arc-no-fallback"
    assert ({"no-false-refusal", "progress"} if gives_up else set()) == result["laws"]
    assert "evict-order" not in result["not_exercised"]


@pytest.mark.release
@pytest.mark.parametrize(("version", "policy"), CELLS)
def test_a_release_is_told_apart_under_any_other_profile(
    version: str, policy: str, release: Callable[[str], Path]
) -> None:
    release(version)
    own = profile_of_release(policy, version)
    for profile in ORDERS_OF[policy]:
        if profile != own:
            laws = search(version, policy, profile, 20_000)["laws"]
            assert laws & {"evict-order", "no-false-refusal"}, f"{version} {policy} passes for {profile}"
