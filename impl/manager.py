"""The offload manager over a fixed pool of CPU slots.

It stands where vLLM 0.24's `CPUOffloadingManager` stands (PR #46216: evicting looks at evictable blocks only) and
keeps the laws that the published one breaks under careless callers and failing collaborators. Every call checks
the whole batch first. Then it takes the steps that may still fail, those of the policy, the slot allocation and
the event queue, and takes them back if one does. What cannot fail comes last.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from typing import cast

from evictable.impl.base import CPULoadStoreSpec, LookupResult, OffloadKey, PrepareStoreOutput, ReqContext
from evictable.impl.blocks import BlockStatus
from evictable.impl.errors import KeyNotResident, NotPinned, NotReady, PolicyError, StaleCompletion
from evictable.impl.policies.base import CachePolicy, RestorableOrder
from evictable.impl.policies.factory import make_cache_policy
from evictable.impl.pool import SlotPool, count_by_last_occurrence
from evictable.impl.tickets import Ticket


class CPUOffloadingManager(SlotPool):
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
        super().__init__(num_blocks, enable_events, store_threshold, max_tracker_size)
        self._policy = make_cache_policy(cache_policy, num_blocks)
        self._order = cast(RestorableOrder, self._policy) if _is_restorable(self._policy) else None

        # Loads in flight: request id -> key -> how often. A block has one writer, kept in its record, but many
        # readers. Entries go when their count does, so the size is bounded by the loads in flight.
        self._loads: dict[str, dict[OffloadKey, int]] = {}

    # Requests

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
        if not isinstance(keys, (list, tuple)):
            keys = list(keys)  # it may be something that can be read once only
        req_id = req_context.req_id
        loads = self._loads.get(req_id, {})
        counts = count_by_last_occurrence(keys)
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
        if not isinstance(keys, (list, tuple)):
            keys = list(keys)  # it may be something that can be read once only
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
            self._check_ticket(ticket, count_by_last_occurrence(keys), "complete_store", req_id)
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
        self._loads.clear()
        self._forget_blocks()

    # Slots

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
