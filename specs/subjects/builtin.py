"""The built-in manager as a subject."""

from __future__ import annotations

from evictable.impl import CPUOffloadingManager, ReqContext
from evictable.specs.subjects.base import Setup, Subject, SubjectKind
from evictable.specs.subjects.managers import ManagerSubject


def _make(setup: Setup) -> Subject:
    manager = CPUOffloadingManager(setup.capacity, cache_policy=setup.policy, enable_events=setup.events)
    return ManagerSubject(manager, ReqContext)


BUILT_IN = SubjectKind("impl", _make, profile=lambda policy: {"lru": "lru-evictable"}.get(policy, "any"))
