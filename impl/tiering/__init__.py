"""Tiers: a CPU tier that GPUs load from and store into, over slower ones."""

from evictable.impl.tiering.base import JobId, JobMetadata, JobResult, ParentManager, SecondaryTierManager
from evictable.impl.tiering.filesystem import FileSystemTier
from evictable.impl.tiering.manager import CPUPrimaryTierOffloadingManager, TieringOffloadingManager
from evictable.impl.tiering.metrics import TIERING_METRIC_DEFINITIONS, TieringOffloadingMetrics
from evictable.impl.tiering.scripted import ScriptedTier

__all__ = [
    "TIERING_METRIC_DEFINITIONS",
    "CPUPrimaryTierOffloadingManager",
    "FileSystemTier",
    "JobId",
    "JobMetadata",
    "JobResult",
    "ParentManager",
    "ScriptedTier",
    "SecondaryTierManager",
    "TieringOffloadingManager",
    "TieringOffloadingMetrics",
]
