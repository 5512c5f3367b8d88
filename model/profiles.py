"""Profiles: which release follows which rules. The table of the project's page of behaviour, as data."""

from __future__ import annotations

from evictable.model.manager import Manager
from evictable.model.orders import DEFAULT_ORDER, ORDERS

PROFILES: tuple[str, ...] = tuple(ORDERS)

# (policy, first release, last release) -> profile. What is not in the table has no exact profile yet: `any`.
_BY_RELEASE: tuple[tuple[str, tuple[int, int], tuple[int, int], str], ...] = (
    ("lru", (0, 0), (0, 23), "lru-scan"),
    ("lru", (0, 24), (0, 30), "lru-evictable"),
)


def profile_of_release(policy: str, release: str) -> str:
    """The profile of a published vLLM release such as ``0.24.0`` under a policy; ``any`` if it has no exact one."""
    major, minor = (int(part) for part in release.split(".")[:2])
    for of_policy, first, last, profile in _BY_RELEASE:
        if policy == of_policy and first <= (major, minor) <= last:
            return profile
    return "any"


def reference(profile: str, capacity: int, *, events: bool = True) -> Manager:
    """A fresh reference manager under a profile. Raises `KeyError` for an unknown one."""
    return Manager(capacity=capacity, order=ORDERS[profile](), with_events=events)


__all__ = ["DEFAULT_ORDER", "PROFILES", "profile_of_release", "reference"]
