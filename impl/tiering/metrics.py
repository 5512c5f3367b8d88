"""What the manager of tiers counts beyond what its primary tier measures. The names are vLLM's, from 0.28 on."""

from __future__ import annotations

from evictable.impl.metrics import OffloadingCounterMetadata, OffloadingMetricMetadata


class TieringOffloadingMetrics:
    """Names of counters. Those of jobs are labelled by tier: its number from 1 (0 is the primary) and its type."""

    PROMOTION_JOB_FAILURES = "vllm:kv_offload_tiering_promotion_job_failures"
    CASCADE_JOB_FAILURES = "vllm:kv_offload_tiering_cascade_job_failures"
    PROMOTION_ALLOCATION_FAILURES = "vllm:kv_offload_tiering_promotion_allocation_failures"


# To be declared besides those of `build_metric_definitions`.
TIERING_METRIC_DEFINITIONS: dict[str, OffloadingMetricMetadata] = {
    TieringOffloadingMetrics.PROMOTION_JOB_FAILURES: OffloadingCounterMetadata(
        "Promotions that the tier refused, or that failed at least in part.", ("tier",)
    ),
    TieringOffloadingMetrics.CASCADE_JOB_FAILURES: OffloadingCounterMetadata(
        "Stores into the tier that it refused, or that failed.", ("tier",)
    ),
    TieringOffloadingMetrics.PROMOTION_ALLOCATION_FAILURES: OffloadingCounterMetadata(
        "Blocks that were found in a tier and not promoted because there was no room for them."
    ),
}
