"""An offload manager with reference counts and an evictable list: the system of vLLM PR #46216, written anew.

It has the names and signatures of vLLM 0.24 (lookup answers as in 0.25), and either does what a call says or raises
an `OffloadError` and changes nothing. It needs the standard library only; `PrometheusExporter` alone needs more, when
it is made.
"""

from evictable.impl.admission import AdmissionTracker
from evictable.impl.base import (
    CPULoadStoreSpec,
    LoadStoreSpec,
    LookupResult,
    OffloadingEvent,
    OffloadingManager,
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
from evictable.impl.factory import make_manager
from evictable.impl.linked import LinkedOffloadingManager
from evictable.impl.lookup_delay import LookupDelays
from evictable.impl.manager import CPUOffloadingManager
from evictable.impl.metrics import (
    CPUOffloadingMetrics,
    LookupMetrics,
    OffloadingConnectorStats,
    OffloadingCounterMetadata,
    OffloadingGaugeMetadata,
    OffloadingHistogramMetadata,
    OffloadingMetricMetadata,
    build_metric_definitions,
)
from evictable.impl.policies import ARCCachePolicy, CachePolicy, LRUCachePolicy, RestorableOrder
from evictable.impl.prometheus import PrometheusExporter
from evictable.impl.self_describing import BlockPayload, BlockRemoved, BlockStored, SelfDescribingEvents
from evictable.impl.tickets import Ticket
from evictable.impl.tiering import (
    CPUPrimaryTierOffloadingManager,
    JobMetadata,
    JobResult,
    ParentManager,
    SecondaryTierManager,
    TieringOffloadingManager,
)

__all__ = [
    "ARCCachePolicy",
    "AdmissionTracker",
    "BlockPayload",
    "BlockRemoved",
    "BlockStatus",
    "BlockStored",
    "CPULoadStoreSpec",
    "CPUOffloadingManager",
    "CPUOffloadingMetrics",
    "CPUPrimaryTierOffloadingManager",
    "CachePolicy",
    "JobMetadata",
    "JobResult",
    "KeyNotResident",
    "LRUCachePolicy",
    "LinkedOffloadingManager",
    "LoadStoreSpec",
    "LookupDelays",
    "LookupMetrics",
    "LookupResult",
    "NotPinned",
    "NotReady",
    "OffloadError",
    "OffloadKey",
    "OffloadPolicy",
    "OffloadingConnectorStats",
    "OffloadingCounterMetadata",
    "OffloadingEvent",
    "OffloadingGaugeMetadata",
    "OffloadingHistogramMetadata",
    "OffloadingManager",
    "OffloadingMetricMetadata",
    "ParentManager",
    "PolicyError",
    "PrepareStoreOutput",
    "PrometheusExporter",
    "ReqContext",
    "RequestOffloadingContext",
    "RestorableOrder",
    "SecondaryTierManager",
    "SelfDescribingEvents",
    "StaleCompletion",
    "Ticket",
    "TieringOffloadingManager",
    "build_metric_definitions",
    "get_offload_block_hash",
    "get_offload_group_idx",
    "make_manager",
    "make_offload_key",
]
