"""Which manager serves a policy fastest."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from evictable.impl.linked import LinkedOffloadingManager
from evictable.impl.manager import CPUOffloadingManager
from evictable.impl.policies.base import CachePolicy
from evictable.impl.pool import SlotPool


def make_manager(num_blocks: int, cache_policy: str | Callable[..., CachePolicy] = "lru", **options: Any) -> SlotPool:
    """A manager with that policy: on flat lists for the name of a built-in one, else one that the policy is put into.

    Both answer, raise and announce the same. `options` are those of `CPUOffloadingManager`. Raises ValueError as the
    managers do.
    """
    if isinstance(cache_policy, str):
        return LinkedOffloadingManager(num_blocks, cache_policy, **options)
    return CPUOffloadingManager(num_blocks, cache_policy, **options)
