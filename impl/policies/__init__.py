"""Eviction orders, and the contract that a new one fulfils."""

from evictable.impl.policies.arc import ARCCachePolicy
from evictable.impl.policies.base import CachePolicy, RestorableOrder
from evictable.impl.policies.factory import CACHE_POLICIES, make_cache_policy
from evictable.impl.policies.lru import LRUCachePolicy

__all__ = ["CACHE_POLICIES", "ARCCachePolicy", "CachePolicy", "LRUCachePolicy", "RestorableOrder", "make_cache_policy"]
