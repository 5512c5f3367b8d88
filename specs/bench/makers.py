"""How the process of a measurement makes managers of one subject."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

from attrs import frozen

from evictable.specs import subjects
from evictable.specs.bench import floor
from evictable.specs.bench.loads import Context
from evictable.specs.errors import UsageError
from evictable.specs.subjects.base import Setup, SubjectKind
from evictable.specs.subjects.managers import ManagerSubject

NEUTRAL = "neutral"
"""The subject of measurements that need none."""


@frozen
class Maker:
    """Makes live managers. ``kind`` is ``None`` of the floor, which is no subject."""

    name: str
    make: Callable[[int, str], tuple[Any, Context]]
    """From a capacity and a policy: a manager that records no events, and what makes its requests."""
    kind: SubjectKind | None = None


def maker_of(name: str) -> Maker:
    """Raises `UsageError` if there is no such subject, or none whose manager can be had."""
    if name in (floor.NAME, NEUTRAL):
        return Maker(name, lambda capacity, policy: (floor.Floor(capacity), _request))
    kind = subjects.load(name)

    def make(capacity: int, policy: str) -> tuple[Any, Context]:
        subject = kind.make(Setup(capacity, policy, events=False))
        if not isinstance(subject, ManagerSubject):
            raise UsageError(f"{name}: its manager is not in this process, so its calls cannot be timed; leave it out")
        return subject.manager, subject.request_context

    return Maker(name, make, kind)


def _request(identity: str) -> Any:
    return SimpleNamespace(req_id=identity)
