"""What the jobs of a worker have in common: what they send, how often, and the rules that they judge by."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any

from attrs import define

from evictable.model.profiles import PROFILES
from evictable.specs.errors import UsageError

Send = Callable[[Mapping[str, Any]], None]
"""Takes a record, as `evictable.specs.worker` writes it."""

PROGRESS_EVERY = 0.2
"""Seconds between two lines of progress."""


@define
class Pace:
    """Lets something through now and then: first at once, unless it is told when it last did."""

    seconds: float = PROGRESS_EVERY
    _last: float = float("-inf")

    def is_due(self) -> bool:
        """Whether ``seconds`` have gone by since this was last true."""
        now = time.monotonic()
        if now - self._last < self.seconds:
            return False
        self._last = now
        return True


def profile_of(wanted: str, own: str) -> str:
    """The profile to judge by: ``wanted``, or the subject's ``own`` for ``auto``. Raises `UsageError`."""
    profile = own if wanted == "auto" else wanted
    if profile not in PROFILES:
        raise UsageError(f"unknown profile {profile!r}; known: auto, {', '.join(PROFILES)}")
    return profile
