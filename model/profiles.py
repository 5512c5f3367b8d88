"""Profiles: which release follows which rules. The tables of README.md in this folder, as data."""

from __future__ import annotations

from collections.abc import Iterable

from evictable.model.admission import ADMISSIONS, Admission
from evictable.model.manager import Manager
from evictable.model.orders import DEFAULT_ORDER, ORDERS
from evictable.model.tiers import TieredManager

PROFILES: tuple[str, ...] = tuple(ORDERS)

# (policy, first minor release, last or None, profile), of major release 0.
_ORDER_OF_RELEASE: tuple[tuple[str, int, int | None, str], ...] = (
    ("lru", 0, 23, "lru-scan"),
    ("lru", 24, 30, "lru-evictable"),
    ("lru", 31, 32, "lru-ranked"),
    ("lru", 33, 33, "lru-ranked-request"),
    ("arc", 0, 29, "arc-no-fallback"),
    ("arc", 30, 30, "arc"),
    ("arc", 31, 33, "arc-request"),
)
_ADMISSION_OF_RELEASE: tuple[tuple[int, int | None, str], ...] = (
    (0, 28, "lookups"),
    (29, 29, "one-by-one"),
    (30, 30, "whole-offers"),
    (31, None, "new-keys"),
)


def minor_of(release: str) -> int | None:
    """The second number of a release such as ``0.24.0``; ``None`` for one that is no 0.x release."""
    parts = release.split(".")
    return int(parts[1]) if len(parts) > 1 and parts[0] == "0" and parts[1].isdecimal() else None


def profile_of_release(policy: str, release: str) -> str:
    """The profile of a published vLLM release under a policy; ``any`` if it has no exact one."""
    minor = minor_of(release)
    for of_policy, first, last, profile in _ORDER_OF_RELEASE:
        if minor is not None and policy == of_policy and first <= minor and (last is None or minor <= last):
            return profile
    return "any"


def admission_of_release(release: str) -> str:
    """The rule of the admission tracker of a published vLLM release; that of the latest for an unknown one."""
    minor = minor_of(release)
    for first, last, admission in _ADMISSION_OF_RELEASE:
        if minor is not None and first <= minor and (last is None or minor <= last):
            return admission
    return Admission.name


def reference(
    profile: str,
    capacity: int,
    *,
    events: bool = True,
    admission: str = Admission.name,
    store_threshold: int = 1,
    max_tracker_size: int = 64_000,
    tiers: int = 0,
    request_level: Iterable[int] = (),
) -> Manager:
    """A fresh reference manager under a profile, over so many tiers. Raises `KeyError` for an unknown one."""
    order = ORDERS[profile].of_capacity(capacity)
    admits = ADMISSIONS[admission](store_threshold, max_tracker_size)
    if not tiers:
        return Manager(capacity=capacity, order=order, with_events=events, admission=admits)
    return TieredManager(
        capacity=capacity,
        order=order,
        with_events=events,
        admission=admits,
        contents=[set() for _ in range(tiers)],
        delayed=[set() for _ in range(tiers)],
        request_level=frozenset(request_level),
    )


__all__ = ["DEFAULT_ORDER", "PROFILES", "admission_of_release", "minor_of", "profile_of_release", "reference"]
