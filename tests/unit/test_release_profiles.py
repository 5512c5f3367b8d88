"""Which release follows which rules: the tables of behaviour, from the first release to the last."""

from __future__ import annotations

import pytest

from evictable.model.profiles import PROFILES, admission_of_release, profile_of_release, reference


@pytest.mark.parametrize(
    ("policy", "release", "profile"),
    [
        ("lru", "0.22.0", "lru-scan"),
        ("lru", "0.23.1", "lru-scan"),
        ("lru", "0.24.0", "lru-evictable"),
        ("lru", "0.30.2", "lru-evictable"),
        ("lru", "0.31.0", "lru-ranked"),
        ("lru", "0.32.0", "lru-ranked"),
        ("lru", "0.33.0", "lru-ranked-request"),
        ("lru", "0.34.0", "any"),
        ("lru", "1.0.0", "any"),
        ("lru", "main", "any"),
        ("arc", "0.22.0", "arc-no-fallback"),
        ("arc", "0.29.0", "arc-no-fallback"),
        ("arc", "0.30.0", "arc"),
        ("arc", "0.31.0", "arc-request"),
        ("arc", "0.33.0", "arc-request"),
        ("mine", "0.24.0", "any"),
    ],
)
def test_the_profile_of_a_release(policy: str, release: str, profile: str) -> None:
    assert profile == profile_of_release(policy, release)


@pytest.mark.parametrize(
    ("release", "rule"),
    [
        ("0.22.0", "lookups"),
        ("0.28.0", "lookups"),
        ("0.29.0", "one-by-one"),
        ("0.30.0", "whole-offers"),
        ("0.31.0", "new-keys"),
        ("0.33.0", "new-keys"),
        ("1.0.0", "new-keys"),
        ("main", "new-keys"),
    ],
)
def test_the_admission_of_a_release(release: str, rule: str) -> None:
    assert rule == admission_of_release(release)


@pytest.mark.parametrize("profile", PROFILES)
def test_a_reference_manager_is_named_after_its_profile(profile: str) -> None:
    assert (profile, 4) == ((manager := reference(profile, 4)).order.name, manager.capacity)


def test_an_unknown_profile_has_none() -> None:
    with pytest.raises(KeyError):
        reference("fifo", 4)
