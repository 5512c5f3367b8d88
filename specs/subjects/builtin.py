"""The built-in manager as a subject."""

from __future__ import annotations

import importlib
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
        try:
            manager = impl.CPUOffloadingManager(
                setup.capacity,
                cache_policy=setup.policy,
                enable_events=setup.events,
                store_threshold=setup.store_threshold,
                max_tracker_size=setup.max_tracker_size,
            )
        except ValueError as error:
            raise UsageError(f"{name}: {error}") from error
        return ManagerSubject(manager, impl.ReqContext)

    return SubjectKind(name, make, profile=lambda policy: _PROFILES.get(policy, "any"), tickets=True)


_PROFILES = {"lru": "lru-evictable", "arc": "arc"}
BUILT_IN = kind_of("impl", evictable.impl)
