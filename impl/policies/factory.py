"""Which class a policy name stands for."""

from __future__ import annotations

from collections.abc import Callable

from evictable.impl.policies.arc import ARCCachePolicy
from evictable.impl.policies.base import CachePolicy
from evictable.impl.policies.lru import LRUCachePolicy

CACHE_POLICIES: dict[str, type[CachePolicy]] = {"lru": LRUCachePolicy, "arc": ARCCachePolicy}


def make_cache_policy(cache_policy: str | Callable[..., CachePolicy], cache_capacity: int) -> CachePolicy:
    """A new policy for `cache_capacity` blocks.

    `cache_policy` is a name of `CACHE_POLICIES`, or a class (or any callable) that takes `cache_capacity` as a
    keyword, as vLLM's policy classes do. Raises ValueError for an unknown name.
    """
    if isinstance(cache_policy, str):
        if cache_policy not in CACHE_POLICIES:
            raise ValueError(
                f"unknown cache policy {cache_policy!r}; give one of {sorted(CACHE_POLICIES)}, or a policy class"
            )
        cache_policy = CACHE_POLICIES[cache_policy]
    return cache_policy(cache_capacity=cache_capacity)
