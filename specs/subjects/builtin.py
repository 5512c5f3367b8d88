"""The built-in manager as a subject."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any

import evictable.impl
from evictable.specs.errors import UsageError
from evictable.specs.subjects.base import Setup, Subject, SubjectKind
from evictable.specs.subjects.managers import ManagerSubject
from evictable.specs.subjects.tiers import tiered_subject


def kind_of(name: str, impl: Any) -> SubjectKind:
    """The subject that the package ``impl`` is: `evictable.impl`, or a copy of it with a defect."""

    def make(setup: Setup) -> Subject:
        if setup.tiers:
            # By the name of the package, which may be a copy; and only now, since most runs have no tiers.
            tiering = importlib.import_module(f"{impl.__name__}.tiering")
            return tiered_subject(name, setup, tiering, impl.ReqContext)
        return ManagerSubject(construct(name, impl.CPUOffloadingManager, setup), impl.ReqContext)

    return SubjectKind(name, make, profile=lambda policy: PROFILES.get(policy, "any"), tickets=True)


def construct(name: str, manager: Callable[..., Any], setup: Setup) -> Any:
    """One of our managers. Raises `UsageError` for what it takes no value of."""
    try:
        return manager(
            setup.capacity,
            cache_policy=setup.policy,
            enable_events=setup.events,
            store_threshold=setup.store_threshold,
            max_tracker_size=setup.max_tracker_size,
        )
    except ValueError as error:
        raise UsageError(f"{name}: {error}") from error


PROFILES = {"lru": "lru-evictable", "arc": "arc"}
"""Of our policies, by name."""
BUILT_IN = kind_of("impl", evictable.impl)
