"""What managers over a fixed pool of slots share, however they keep its blocks: slots, counters, events, metrics."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Collection, Iterator
from contextlib import AbstractContextManager

from evictable.impl.admission import AdmissionTracker
from evictable.impl.base import (
    CPULoadStoreSpec,
    OffloadingEvent,
    OffloadingManager,
    OffloadKey,
    ReqContext,
    RequestOffloadingContext,
)
from evictable.impl.errors import StaleCompletion
from evictable.impl.metrics import CPUOffloadingMetrics, OffloadingConnectorStats
from evictable.impl.tickets import Ticket


class SlotPool(OffloadingManager):
    """The part of `CPUOffloadingManager` that depends neither on its blocks nor on their order.

    Raises ValueError for a negative `num_blocks`, and a `max_tracker_size` below 1.
    """

    def __init__(self, num_blocks: int, enable_events: bool, store_threshold: int, max_tracker_size: int) -> None:
        if num_blocks < 0:
            raise ValueError(f"num_blocks is {num_blocks}; give the number of slots, 0 or more")
        if max_tracker_size < 1:
            raise ValueError(f"max_tracker_size is {max_tracker_size}; give the number of keys to remember, 1 or more")
        self.medium = CPULoadStoreSpec.medium()
        self.store_threshold = store_threshold
        self.max_tracker_size = max_tracker_size
        self.events: deque[OffloadingEvent] | None = deque() if enable_events else None
        self._lock = threading.Lock()
        self._num_blocks = num_blocks
        # Slots from this number on have never been used; those below are either resident or in the free list.
        self._num_allocated_blocks = 0
        self._free_list: list[int] = []

        self._num_evictable_cache_blocks = 0  # blocks with ref_cnt 0
        self._num_write_pending_blocks = 0  # blocks with ref_cnt -1

        self._admission = AdmissionTracker(store_threshold, max_tracker_size) if store_threshold >= 2 else None
        self.counts = None if self._admission is None else self._admission.counts

        # Since the last `get_stats`.
        self.stores_skipped_in_current_batch = 0
        self.allocation_failures_in_current_batch = 0
        self.allocation_sizes_in_current_batch: list[int] = []

        # Tickets of another time than this, or of another manager, are stale.
        self._era = object()

    @property
    def lock(self) -> AbstractContextManager[object]:
        """A lock of this manager's own, for callers to hold: over a call, a step, or a drain of `take_events`."""
        return self._lock

    def on_new_request(self, req_context: ReqContext) -> RequestOffloadingContext:
        return RequestOffloadingContext()

    def on_request_finished(self, req_context: ReqContext) -> None:
        """Nothing to do: transfers in flight end by their own completions, and no order depends on requests."""

    def take_events(self) -> Iterator[OffloadingEvent]:
        """Deliver the recorded events, oldest first, each exactly once.

        An event leaves the queue as it is delivered: what a consumer that stops early has not seen stays for the
        next drain. (vLLM 0.24 clears its queue after the last event, and so repeats those already seen.)
        """
        while self.events:
            yield self.events.popleft()

    def get_stats(self) -> OffloadingConnectorStats:
        """The metrics of `CPUOffloadingMetrics`: current levels, and what was counted since the last call.

        In use are blocks that are pinned or being stored; usages are shares of all slots. A refusal is an allocation
        failure; do not count it again where the answer None is seen, as vLLM does, which counts it only there.
        """
        num_in_use = self._num_allocated_blocks - len(self._free_list) - self._num_evictable_cache_blocks
        num_written = self._num_write_pending_blocks
        num_blocks = self._num_blocks or 1  # without slots nothing is in use
        stats = OffloadingConnectorStats()
        stats.set_gauge(CPUOffloadingMetrics.CPU_CACHE_USAGE_PERC, num_in_use / num_blocks)
        stats.set_gauge(CPUOffloadingMetrics.CPU_CACHE_WRITE_USAGE_PERC, num_written / num_blocks)
        stats.set_gauge(CPUOffloadingMetrics.CPU_CACHE_READ_USAGE_PERC, (num_in_use - num_written) / num_blocks)
        for size in self.allocation_sizes_in_current_batch:
            stats.observe_histogram(CPUOffloadingMetrics.CPU_ALLOCATION_SIZE, size)
        stats.increase_counter(CPUOffloadingMetrics.ALLOCATION_FAILURE, self.allocation_failures_in_current_batch)
        if self._admission is not None:
            stats.increase_counter(CPUOffloadingMetrics.STORES_SKIPPED, self.stores_skipped_in_current_batch)
        self.allocation_sizes_in_current_batch.clear()
        self.allocation_failures_in_current_batch = 0
        self.stores_skipped_in_current_batch = 0
        return stats

    def _forget_blocks(self) -> None:
        """Every slot is as if it had never been used, and what was prepared until now is stale."""
        self._num_evictable_cache_blocks = 0
        self._num_write_pending_blocks = 0
        self._num_allocated_blocks = 0
        self._free_list.clear()
        self._era = object()
        if self.events is not None:
            self.events.clear()

    def _get_num_free_blocks(self) -> int:
        return len(self._free_list) + self._num_blocks - self._num_allocated_blocks

    def _announce(self, keys: Collection[OffloadKey], removed: bool) -> None:
        if keys and self.events is not None:
            # A list of its own: the caller may change the one in the answer before the event is drained.
            self.events.append(OffloadingEvent(list(keys), self.medium, removed))

    def _check_ticket(self, ticket: Ticket, counts: dict[OffloadKey, int], call: str, req_id: str) -> None:
        uncovered = ticket.uncovered(counts, call, req_id, self._era)
        if uncovered is not None:
            raise StaleCompletion(call, uncovered, req_id)


def count_by_last_occurrence(keys: Collection[OffloadKey]) -> dict[OffloadKey, int]:
    """How often each key is named, in the order of the last time that it is named.

    That is the order in which the keys of a load completion become idle: a key's last pin goes with its last
    occurrence.
    """
    counts = dict.fromkeys(keys, 1)
    if len(counts) < len(keys):
        counts.clear()
        for key in keys:
            counts[key] = counts.pop(key, 0) + 1
    return counts
