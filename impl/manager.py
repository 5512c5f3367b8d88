"""The offload manager over a fixed pool of CPU slots.

It stands where vLLM 0.24's `CPUOffloadingManager` stands (PR #46216: evicting looks at evictable blocks only) and
keeps the laws that the published one breaks under careless callers and failing collaborators. Every call checks
the whole batch first. Then it takes the steps that may still fail, those of the policy, the slot allocation and
the event queue, and takes them back if one does. What cannot fail comes last.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import AbstractContextManager
from typing import cast

from evictable.impl.admission import AdmissionTracker
from evictable.impl.base import (
    CPULoadStoreSpec,
    LookupResult,
    OffloadingEvent,
    OffloadingManager,
    OffloadKey,
    PrepareStoreOutput,
    ReqContext,
    RequestOffloadingContext,
)
from evictable.impl.blocks import BlockStatus
from evictable.impl.errors import KeyNotResident, NotPinned, NotReady, PolicyError, StaleCompletion
from evictable.impl.metrics import CPUOffloadingMetrics, OffloadingConnectorStats
from evictable.impl.policies.base import CachePolicy, RestorableOrder
from evictable.impl.policies.factory import make_cache_policy
from evictable.impl.tickets import Ticket


class CPUOffloadingManager(OffloadingManager):
    """Reference counts, slots, counters and events; the order is the policy's.

    For one thread at a time: where there are several, whoever calls holds `lock`. `num_blocks` is the number of slots,
    numbered from 0. `cache_policy` is a name ("lru", "arc") or a policy class, see `make_cache_policy`. With
    `enable_events` false, `events` is None and nothing is recorded. With a `store_threshold` of 2 or more a key is
    stored only from its `store_threshold`-th offer on, as far as `max_tracker_size` keys can be remembered
    (`AdmissionTracker`); `counts` is what is remembered, or None with a lower threshold, which stores every key.

    A transfer is identified by (`req_context.req_id`, key); where its completion carries the `Ticket` that the
    preparation answered with (in the specification), by that. Every method either does what it says or raises and
    changes nothing; errors of collaborators (policy, event queue) pass through unchanged. The life of a request
    (`on_new_request`, `on_request_finished`) decides nothing: calls for one that was never announced, or that is
    finished, act as ever.

    Raises ValueError for a negative `num_blocks`, an unknown policy name, and a `max_tracker_size` below 1.
    """

    def __init__(
        self,
        num_blocks: int,
        cache_policy: str | Callable[..., CachePolicy] = "lru",
        enable_events: bool = False,
        store_threshold: int = 1,
        max_tracker_size: int = 64_000,
    ) -> None:
        if num_blocks < 0:
            raise ValueError(f"num_blocks is {num_blocks}; give the number of slots, 0 or more")
        if max_tracker_size < 1:
            raise ValueError(f"max_tracker_size is {max_tracker_size}; give the number of keys to remember, 1 or more")
        self.medium = CPULoadStoreSpec.medium()
        self.store_threshold = store_threshold
        self.max_tracker_size = max_tracker_size
        self.events: deque[OffloadingEvent] | None = deque() if enable_events else None
        self._policy = make_cache_policy(cache_policy, num_blocks)
        self._order = cast(RestorableOrder, self._policy) if _is_restorable(self._policy) else None

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

        # Loads in flight: request id -> key -> how often. A block has one writer, kept in its record, but many
        # readers. Entries go when their count does, so the size is bounded by the loads in flight.
        self._loads: dict[str, dict[OffloadKey, int]] = {}
        # Tickets of another time than this, or of another manager, are stale.
        self._era = object()

    @property
    def lock(self) -> AbstractContextManager[object]:
        """A lock of this manager's own, for callers to hold: over a call, a step, or a drain of `take_events`."""
        return self._lock

    # Requests

    def on_new_request(self, req_context: ReqContext) -> RequestOffloadingContext:
        return RequestOffloadingContext()

    def on_request_finished(self, req_context: ReqContext) -> None:
        """Nothing to do: transfers in flight end by their own completions, and no order depends on requests."""

    def lookup(self, key: OffloadKey, req_context: ReqContext) -> LookupResult:
        """HIT, HIT_PENDING while the key's store is in flight, or MISS."""
        block = self._policy.get(key)
        if block is None:
            return LookupResult.MISS
        return LookupResult.HIT if block.ref_cnt >= 0 else LookupResult.HIT_PENDING

    def touch(self, keys: Collection[OffloadKey], req_context: ReqContext) -> None:
        self._policy.touch(keys)

    # Loads

    def prepare_load(self, keys: Collection[OffloadKey], req_context: ReqContext) -> CPULoadStoreSpec:
        """Pin each key once for each time it is named; the answer has one block id for each occurrence.

        Raises KeyNotResident or NotReady for the first key that cannot be read; then nothing is pinned.
        """
        if not isinstance(keys, (list, tuple)):
            keys = list(keys)  # it may be something that can be read once only
        req_id = req_context.req_id
        get = self._policy.get
        blocks: list[BlockStatus] = []
        idle: dict[OffloadKey, None] = {}  # a set in the order of the keys
        for key in keys:
            block = get(key)
            if block is None:
                raise KeyNotResident("prepare_load", key, req_id)
            if block.ref_cnt < 0:
                raise NotReady("prepare_load", key, req_id)
            if block.ref_cnt == 0:
                idle[key] = None
            blocks.append(block)
        spec = self._get_load_store_spec(blocks, Ticket("complete_load", tuple(keys), req_id, self._era))

        self._mark_non_evictable(idle)

        self._num_evictable_cache_blocks -= len(idle)
        for block in blocks:
            block.ref_cnt += 1
        if blocks:
            loads = self._loads.setdefault(req_id, {})
            for key in keys:
                loads[key] = loads.get(key, 0) + 1
        return spec

    def complete_load(
        self, keys: Collection[OffloadKey], req_context: ReqContext, ticket: Ticket | None = None
    ) -> None:
        """Unpin each key once for each time it is named; keys whose last pin goes become evictable.

        Raises KeyNotResident for a key that is gone, StaleCompletion for one that the request has no load of in
        flight, NotPinned for one that is named more often than it has; then nothing is unpinned. With the `ticket` of
        the preparation, StaleCompletion for a key that it does not cover, or covers no more.

        Without a ticket, loads of a key by the same request are all alike: the late report of one that a reset has
        ended, or a second report, ends another load of that key that the request has meanwhile begun. Use tickets
        for all of a request's transfers or for none.
        """
        req_id = req_context.req_id
        loads = self._loads.get(req_id, {})
        counts = _count_by_last_occurrence(keys)
        if ticket is not None:
            self._check_ticket(ticket, counts, "complete_load", req_id)
        get = self._policy.get
        blocks: list[BlockStatus] = []
        idle: list[OffloadKey] = []
        for key, count in counts.items():
            block = get(key)
            if block is None:
                raise KeyNotResident("complete_load", key, req_id)
            in_flight = loads.get(key, 0)
            if count > in_flight:
                error = NotPinned if in_flight else StaleCompletion
                raise error("complete_load", key, req_id)
            if count == block.ref_cnt:
                idle.append(key)
            blocks.append(block)

        for block, count in zip(blocks, counts.values(), strict=True):
            block.ref_cnt -= count
        try:
            self._mark_evictable(idle)
        except BaseException:
            for block, count in zip(blocks, counts.values(), strict=True):
                block.ref_cnt += count
            raise

        self._num_evictable_cache_blocks += len(idle)
        for key, count in counts.items():
            if loads[key] == count:
                del loads[key]
            else:
                loads[key] -= count
        if counts and not loads:
            del self._loads[req_id]
        if ticket is not None:
            ticket.complete(counts)

    # Stores

    def prepare_store(self, keys: Collection[OffloadKey], req_context: ReqContext) -> PrepareStoreOutput | None:
        """Reserve a block for each key of the offer that is not in the cache, evicting idle blocks if need be.

        All or nothing: None, and no change, when the new keys outnumber the free slots plus the evictable keys
        outside the offer (or when the policy finds too few). Keys of the offer that are in the cache, ready or
        pending, are neither stored again nor evicted; a key named twice counts once. Raises PolicyError when
        the policy gives up other blocks than it may.

        With a store threshold, new keys that were not offered often enough are left out first. Every offer counts,
        also one that is refused, but not one that raises.
        """
        get = self._policy.get
        new: list[OffloadKey] = []
        resident: list[OffloadKey] = []
        num_idle = 0
        for key in dict.fromkeys(keys):
            block = get(key)
            if block is None:
                new.append(key)
            else:
                resident.append(key)
                if block.ref_cnt == 0:
                    num_idle += 1

        num_skipped = 0
        if self._admission is not None:
            admitted = [key for key in new if self._admission.admits(key)]
            num_skipped = len(new) - len(admitted)
            new = admitted

        output: PrepareStoreOutput | None
        if not new:
            spec = self._get_load_store_spec([], Ticket("complete_store", (), req_context.req_id, self._era))
            output = PrepareStoreOutput([], spec, [])
        else:
            output = self._begin_store(new, resident, num_idle, req_context.req_id)

        # Only now, because an offer that raises must not count.
        if self._admission is not None:
            self._admission.record(keys)
            self.stores_skipped_in_current_batch += num_skipped
        if new:
            self.allocation_sizes_in_current_batch.append(len(new))
        if output is None:
            self.allocation_failures_in_current_batch += 1
        return output

    def _begin_store(
        self, new: list[OffloadKey], resident: Collection[OffloadKey], num_idle: int, req_id: str
    ) -> PrepareStoreOutput | None:
        """Reserve a block for each of `new`, at least one. The `resident` keys stay, of which `num_idle` are idle."""
        policy = self._policy
        get = policy.get
        num_to_evict = len(new) - self._get_num_free_blocks()
        # Known without a walk: the idle ones of those keys are protected, all other idle keys are candidates.
        if num_to_evict > self._num_evictable_cache_blocks - num_idle:
            return None

        num_allocated = self._num_allocated_blocks
        num_free = len(self._free_list)
        victims: dict[OffloadKey, BlockStatus] = {}
        blocks: list[BlockStatus] = []
        token = self._checkpoint()
        try:
            if num_to_evict > 0:
                protected = set(resident)  # the new keys are not in the policy yet, so it cannot evict them
                evicted = policy.evict(num_to_evict, protected)
                if evicted is None:
                    return None
                victims = dict(evicted)
                _check_victims(victims, num_to_evict, protected, req_id)
                self._free_blocks(victims.values())
            blocks = self._allocate_blocks(new)
            spec = self._get_load_store_spec(blocks, Ticket("complete_store", tuple(new), req_id, self._era))
            for key, block in zip(new, blocks, strict=True):
                block.writer = req_id
                policy.insert(key, block)
            self._announce(victims, removed=True)
        except BaseException:
            for key in new:
                if get(key) is not None:
                    policy.remove(key)
            for key, block in victims.items():
                if get(key) is None:
                    policy.insert(key, block)
            # Fresh slots were handed out first, reused ones from the end of the free list.
            reused = blocks[self._num_allocated_blocks - num_allocated :]
            self._free_blocks(reversed(reused))
            del self._free_list[num_free:]
            self._num_allocated_blocks = num_allocated
            self._restore_order(token)
            raise

        self._num_evictable_cache_blocks -= len(victims)
        self._num_write_pending_blocks += len(new)
        return PrepareStoreOutput(new, spec, list(victims))

    def complete_store(
        self,
        keys: Collection[OffloadKey],
        req_context: ReqContext,
        success: bool = True,
        ticket: Ticket | None = None,
    ) -> None:
        """End stores of this request: the keys become ready and evictable, or with `success` false leave the cache.

        Raises KeyNotResident for a key that is gone, StaleCompletion for one that this request is not storing or
        that is named twice; then no store is ended. With the `ticket` of the preparation, StaleCompletion for a key
        that it does not cover, or covers no more.

        Without a ticket, stores of a key by the same request are all alike: the late report of one that failed, or
        that a reset has ended, ends the one that the request has meanwhile begun, whose data may not be there yet.
        Use tickets for all of a request's transfers or for none.
        """
        if not isinstance(keys, (list, tuple)):
            keys = list(keys)  # it may be something that can be read once only
        req_id = req_context.req_id
        if ticket is not None:
            self._check_ticket(ticket, _count_by_last_occurrence(keys), "complete_store", req_id)
        get = self._policy.get
        pending: dict[OffloadKey, BlockStatus] = {}
        for key in keys:
            block = get(key)
            if block is None:
                raise KeyNotResident("complete_store", key, req_id)
            if block.ref_cnt >= 0 or block.writer != req_id or key in pending:
                raise StaleCompletion("complete_store", key, req_id)
            pending[key] = block

        if not pending:
            return
        if success:
            self._commit_store(pending)
        else:
            self._abort_store(pending)
        self._num_write_pending_blocks -= len(pending)
        if ticket is not None:
            ticket.complete(dict.fromkeys(pending, 1))

    def _check_ticket(self, ticket: Ticket, counts: dict[OffloadKey, int], call: str, req_id: str) -> None:
        uncovered = ticket.uncovered(counts, call, req_id, self._era)
        if uncovered is not None:
            raise StaleCompletion(call, uncovered, req_id)

    def _commit_store(self, pending: dict[OffloadKey, BlockStatus]) -> None:
        self._announce(pending, removed=False)
        for block in pending.values():
            block.ref_cnt = 0
        try:
            self._mark_evictable(pending)
        except BaseException:
            for block in pending.values():
                block.ref_cnt = -1
            if self.events is not None:
                self.events.pop()
            raise
        self._num_evictable_cache_blocks += len(pending)

    def _abort_store(self, pending: dict[OffloadKey, BlockStatus]) -> None:
        policy = self._policy
        token = self._checkpoint()
        try:
            for key in pending:
                policy.remove(key)
            self._free_blocks(pending.values())
        except BaseException:
            for key, block in pending.items():
                if policy.get(key) is None:
                    policy.insert(key, block)
            self._restore_order(token)
            raise

    # The whole cache

    def reset_cache(self) -> None:
        """Forget every block, transfer and undrained event. Completions of older transfers are then stale.

        How often keys were offered is remembered, as in vLLM.
        """
        self._policy.clear()
        self._num_evictable_cache_blocks = 0
        self._num_write_pending_blocks = 0
        self._num_allocated_blocks = 0
        self._free_list.clear()
        self._loads.clear()
        self._era = object()
        if self.events is not None:
            self.events.clear()

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

    # Slots

    def _get_num_free_blocks(self) -> int:
        return len(self._free_list) + self._num_blocks - self._num_allocated_blocks

    def _allocate_blocks(self, keys: Collection[OffloadKey]) -> list[BlockStatus]:
        """A new record for each key, on fresh slots while there are any. The caller has checked that they suffice."""
        first = self._num_allocated_blocks
        end = min(first + len(keys), self._num_blocks)
        blocks = [BlockStatus(block_id) for block_id in range(first, end)]
        pop = self._free_list.pop
        reused = [pop() for _ in range(len(keys) - len(blocks))]
        try:
            blocks += [BlockStatus(block_id) for block_id in reused]
        except BaseException:
            self._free_list.extend(reversed(reused))
            raise
        self._num_allocated_blocks = end
        return blocks

    def _free_blocks(self, blocks: Iterable[BlockStatus]) -> None:
        self._free_list.extend([block.block_id for block in blocks])

    def _get_load_store_spec(self, blocks: Iterable[BlockStatus], ticket: Ticket | None = None) -> CPULoadStoreSpec:
        return CPULoadStoreSpec([block.block_id for block in blocks], ticket)

    # Steps that may fail, each of which happens as a whole or not at all

    def _announce(self, keys: Collection[OffloadKey], removed: bool) -> None:
        if keys and self.events is not None:
            # A list of its own: the caller may change the one in the answer before the event is drained.
            self.events.append(OffloadingEvent(list(keys), self.medium, removed))

    def _mark_evictable(self, keys: Collection[OffloadKey]) -> None:
        self._mark(keys, self._policy.mark_evictable, self._policy.mark_non_evictable)

    def _mark_non_evictable(self, keys: Collection[OffloadKey]) -> None:
        self._mark(keys, self._policy.mark_non_evictable, self._policy.mark_evictable)

    def _mark(
        self, keys: Collection[OffloadKey], mark: Callable[[OffloadKey], None], unmark: Callable[[OffloadKey], None]
    ) -> None:
        if not keys:
            return
        token = self._checkpoint()
        marked: list[OffloadKey] = []
        try:
            for key in keys:
                mark(key)
                marked.append(key)
        except BaseException:
            for key in reversed(marked):
                unmark(key)
            self._restore_order(token)
            raise

    def _checkpoint(self) -> object:
        return None if self._order is None else self._order.checkpoint()

    def _restore_order(self, token: object) -> None:
        if self._order is not None:
            self._order.restore(token)


def _is_restorable(policy: CachePolicy) -> bool:
    return hasattr(policy, "checkpoint") and hasattr(policy, "restore")


def _count_by_last_occurrence(keys: Collection[OffloadKey]) -> dict[OffloadKey, int]:
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


def _check_victims(
    victims: dict[OffloadKey, BlockStatus], asked: int, protected: set[OffloadKey], request: str
) -> None:
    if len(victims) != asked:
        raise PolicyError(
            "prepare_store", None, request, f"the policy evicted {len(victims)} blocks instead of {asked}"
        )
    for key, block in victims.items():
        if block.ref_cnt != 0 or key in protected:
            raise PolicyError(
                "prepare_store", key, request, "was evicted by the policy although it is in use or protected"
            )
