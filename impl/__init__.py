"""An offload manager with reference counts and an evictable list: the system of vLLM PR #46216, written anew.

It has the names and signatures of vLLM 0.24 (lookup answers as in 0.25), needs the standard library only, and
either does what a call says or raises an `OffloadError` and changes nothing.
"""

from evictable.impl.base import (
    CPULoadStoreSpec,
    LoadStoreSpec,
    LookupResult,
    OffloadingEvent,
    OffloadingManager,
    OffloadingStats,
    OffloadKey,
    OffloadPolicy,
    PrepareStoreOutput,
    ReqContext,
    RequestOffloadingContext,
    get_offload_block_hash,
    get_offload_group_idx,
    make_offload_key,
)
from evictable.impl.blocks import BlockStatus
from evictable.impl.errors import (
    KeyNotResident,
    NotPinned,
    NotReady,
    OffloadError,
    PolicyError,
    StaleCompletion,
)
from evictable.impl.manager import CPU_CACHE_USAGE_PERC, CPUOffloadingManager
from evictable.impl.policies import CachePolicy, LRUCachePolicy, RestorableOrder

__all__ = [
    "CPU_CACHE_USAGE_PERC",
    "BlockStatus",
    "CPULoadStoreSpec",
    "CPUOffloadingManager",
    "CachePolicy",
    "KeyNotResident",
    "LRUCachePolicy",
    "LoadStoreSpec",
    "LookupResult",
    "NotPinned",
    "NotReady",
    "OffloadError",
    "OffloadKey",
    "OffloadPolicy",
    "OffloadingEvent",
    "OffloadingManager",
    "OffloadingStats",
    "PolicyError",
    "PrepareStoreOutput",
    "ReqContext",
    "RequestOffloadingContext",
    "RestorableOrder",
    "StaleCompletion",
    "get_offload_block_hash",
    "get_offload_group_idx",
    "make_offload_key",
]
