"""The offload manager whose blocks are places in flat lists."""

from __future__ import annotations

from collections.abc import Collection

from evictable.impl.base import CPULoadStoreSpec, LookupResult, OffloadKey, PrepareStoreOutput, ReqContext
from evictable.impl.errors import KeyNotResident, NotPinned, NotReady, OffloadError, StaleCompletion
from evictable.impl.linked.arc import ArcSlots
from evictable.impl.linked.in_flight import InFlight
from evictable.impl.linked.lru import LruSlots
from evictable.impl.linked.slots import Slot, Slots
from evictable.impl.pool import SlotPool, count_by_last_occurrence
from evictable.impl.tickets import Ticket

BUILT_IN: dict[str, type[Slots]] = {"lru": LruSlots, "arc": ArcSlots}

# Global names are read faster than members of an enumeration.
_HIT, _HIT_PENDING, _MISS = LookupResult.HIT, LookupResult.HIT_PENDING, LookupResult.MISS


class LinkedOffloadingManager(SlotPool):
    """Answers, raises and announces what `CPUOffloadingManager` does with the policies "lru" and "arc", but faster.

    It keeps no object for a block: one dict from key to slot, and lists indexed by slot for all else (`Slots`).
    Nothing is called for a single key. A policy of one's own needs `CPUOffloadingManager`.

    Arguments, promises and the meaning of every call are that manager's. A call checks the whole batch first; what
    can fail after that (the event queue, memory) comes before what cannot, or is taken back.

    Raises ValueError for another `cache_policy`, a negative `num_blocks`, and a `max_tracker_size` below 1.
    """

    def __init__(
        self,
        num_blocks: int,
        cache_policy: str = "lru",
        enable_events: bool = False,
        store_threshold: int = 1,
        max_tracker_size: int = 64_000,
    ) -> None:
        super().__init__(num_blocks, enable_events, store_threshold, max_tracker_size)
        if not isinstance(cache_policy, str) or cache_policy not in BUILT_IN:
            raise ValueError(
                f"unknown cache policy {cache_policy!r}; give one of {sorted(BUILT_IN)}, "
                "or a policy class to CPUOffloadingManager"
            )
        self._slots = BUILT_IN[cache_policy](num_blocks)
        # The same objects as in there, where they stay.
        self._index = self._slots.index
        self._ref_cnt = self._slots.ref_cnt
        self._slot_of = self._index.__getitem__
        self._resident = self._index.keys()
        self._loads = InFlight()
        self._stores = InFlight()

    # Requests

    def lookup(self, key: OffloadKey, req_context: ReqContext) -> LookupResult:
        """HIT, HIT_PENDING while the key's store is in flight, or MISS."""
        slot = self._index.get(key)
        if slot is None:
            return _MISS
        return _HIT if self._ref_cnt[slot] >= 0 else _HIT_PENDING

    def touch(self, keys: Collection[OffloadKey], req_context: ReqContext) -> None:
        self._slots.touch(keys if type(keys) is list else list(keys))

    # Loads

    def prepare_load(self, keys: Collection[OffloadKey], req_context: ReqContext) -> CPULoadStoreSpec:
        """Pin each key once for each time it is named; the answer has one block id for each occurrence.

        Raises KeyNotResident or NotReady for the first key that cannot be read; then nothing is pinned.
        """
        if type(keys) is not list:
            keys = list(keys)  # it may be something that can be read once only
        req_id = req_context.req_id
        try:
            slots = list(map(self._slot_of, keys))
        except KeyError:
            raise self._unreadable(keys, req_id) from None
        spec = CPULoadStoreSpec(slots, Ticket("complete_load", tuple(keys), req_id, self._era))
        if slots:
            num_idle = self._slots.pin(slots)
            if num_idle < 0:
                raise self._unreadable(keys, req_id)
            self._num_evictable_cache_blocks -= num_idle
            self._loads.begin(req_id, slots)
        return spec

    def _unreadable(self, keys: Collection[OffloadKey], req_id: str) -> OffloadError:
        """Why the first of the keys that cannot be read cannot be."""
        key = next(key for key in keys if self._ref_cnt[self._index.get(key, -1)] < 0)
        return (NotReady if key in self._index else KeyNotResident)("prepare_load", key, req_id)

    def complete_load(
        self, keys: Collection[OffloadKey], req_context: ReqContext, ticket: Ticket | None = None
    ) -> None:
        """Unpin each key once for each time it is named; keys whose last pin goes become evictable.

        Raises KeyNotResident for a key that is gone, StaleCompletion for one that the request has no load of in
        flight, NotPinned for one that is named more often than it has; then nothing is unpinned. With the `ticket` of
        the preparation, StaleCompletion for a key that it does not cover, or covers no more.
        """
        if type(keys) is not list:
            keys = list(keys)
        req_id = req_context.req_id
        try:
            slots = list(map(self._slot_of, keys))
            known = ticket is None and self._loads.take(req_id, slots)
        except KeyError:
            known = False
        if not known:
            counts = count_by_last_occurrence(keys)
            if ticket is not None:
                self._check_ticket(ticket, counts, "complete_load", req_id)
            self._check_loads(counts, req_id)
            if not counts:
                return
            if ticket is not None:
                ticket.complete(counts)
            self._loads.end(req_id, slots)
        self._num_evictable_cache_blocks += self._slots.unpin(slots)

    def _check_loads(self, counts: dict[OffloadKey, int], req_id: str) -> None:
        in_flight = self._loads.counts(req_id)
        for key, count in counts.items():
            slot = self._index.get(key)
            if slot is None:
                raise KeyNotResident("complete_load", key, req_id)
            left = in_flight.get(slot, 0)
            if count > left:
                raise (NotPinned if left else StaleCompletion)("complete_load", key, req_id)

    # Stores

    def prepare_store(self, keys: Collection[OffloadKey], req_context: ReqContext) -> PrepareStoreOutput | None:
        """Reserve a block for each key of the offer that is not in the cache, evicting idle blocks if need be.

        All or nothing: None, and no change, when the new keys outnumber the free slots plus the evictable keys
        outside the offer. Keys of the offer that are in the cache, ready or pending, are neither stored again nor
        evicted; a key named twice counts once.

        With a store threshold, new keys that were not offered often enough are left out first. Every offer counts,
        also one that is refused, but not one that raises.
        """
        if type(keys) is not list:
            keys = list(keys)
        all_new = self._resident.isdisjoint(keys)
        new = keys[:] if all_new else [key for key in keys if key not in self._index]
        if len(new) > 1:
            new = list(dict.fromkeys(new))
        num_skipped = 0
        if self._admission is not None:
            admitted = [key for key in new if self._admission.admits(key)]
            num_skipped = len(new) - len(admitted)
            new = admitted

        output: PrepareStoreOutput | None
        if not new:
            spec = CPULoadStoreSpec((), Ticket("complete_store", (), req_context.req_id, self._era))
            output = PrepareStoreOutput([], spec, [])
        else:
            output = self._begin_store(new, () if all_new else keys, req_context.req_id)

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
        self, new: list[OffloadKey], offer: Collection[OffloadKey], req_id: str
    ) -> PrepareStoreOutput | None:
        """Reserve a block for each of `new`, at least one. `offer` may be left empty where no key of it is resident."""
        num_to_evict = len(new) - len(self._free_list) - self._num_blocks + self._num_allocated_blocks
        if num_to_evict <= 0:
            return self._replace([], None, new, req_id)
        num_candidates = self._num_evictable_cache_blocks
        protected: Collection[Slot] = ()
        if offer:
            protected = {self._index[key] for key in offer if key in self._index}
            num_candidates -= [self._ref_cnt[slot] for slot in protected].count(0)
        if num_to_evict > num_candidates:
            return None
        victims, note = self._slots.choose(num_to_evict, protected)
        try:
            return self._replace(victims, note, new, req_id)
        except BaseException:
            self._slots.spare(note)
            raise

    def _replace(self, victims: list[Slot], note: object, new: list[OffloadKey], req_id: str) -> PrepareStoreOutput:
        """Put `new` on fresh and free slots and on those of the `victims`, all of whom are needed.

        What raises has changed nothing.
        """
        index = self._index
        evicted = list(map(self._slots.owner.__getitem__, victims))
        slots = self._allocate_blocks(len(new), victims)
        spec = CPULoadStoreSpec(slots, Ticket("complete_store", tuple(new), req_id, self._era))
        output = PrepareStoreOutput(new, spec, evicted)
        self._stores.begin(req_id, slots)
        try:
            for key in evicted:
                del index[key]
            index.update(zip(new, slots))  # noqa: B905  (of one length: saying so takes time)
            if self.events is not None:
                self._announce(evicted, removed=True)
        except BaseException:
            for key in new:
                index.pop(key, None)
            index.update(zip(evicted, victims, strict=True))
            self._stores.end(req_id, slots)
            raise

        if victims:
            self._slots.give_up(victims, note)
            self._num_evictable_cache_blocks -= len(victims)
        if len(slots) > len(victims):
            self._take_free_blocks(len(slots) - len(victims))
        self._slots.insert(slots, new)
        self._num_write_pending_blocks += len(slots)
        return output

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
        """
        if type(keys) is not list:
            keys = list(keys)
        req_id = req_context.req_id
        try:
            slots = list(map(self._slot_of, keys))
            known = ticket is None and self._stores.take(req_id, slots)
        except KeyError:
            known = False
        if not known:
            if ticket is not None:
                self._check_ticket(ticket, count_by_last_occurrence(keys), "complete_store", req_id)
            self._check_stores(keys, req_id)
            if not keys:
                return
            self._stores.end(req_id, slots)

        try:
            if not success:
                self._free_blocks(slots)
            elif self.events is not None:
                self._announce(keys, removed=False)
        except BaseException:
            self._stores.begin(req_id, slots)
            raise
        if success:
            self._slots.commit(slots)
            self._num_evictable_cache_blocks += len(slots)
        else:
            for key in keys:
                del self._index[key]
            self._slots.remove(slots)
        self._num_write_pending_blocks -= len(slots)
        if ticket is not None:
            ticket.complete(dict.fromkeys(keys, 1))

    def _check_stores(self, keys: Collection[OffloadKey], req_id: str) -> None:
        in_flight = self._stores.counts(req_id)
        seen: set[OffloadKey] = set()
        for key in keys:
            slot = self._index.get(key)
            if slot is None:
                raise KeyNotResident("complete_store", key, req_id)
            if slot not in in_flight or key in seen:
                raise StaleCompletion("complete_store", key, req_id)
            seen.add(key)

    # The whole cache

    def reset_cache(self) -> None:
        """Forget every block, transfer and undrained event. Completions of older transfers are then stale.

        How often keys were offered is remembered, as in vLLM.
        """
        self._slots.clear()
        self._loads.clear()
        self._stores.clear()
        self._forget_blocks()

    # Slots

    def _allocate_blocks(self, number: int, victims: list[Slot]) -> list[Slot]:
        """Which slots the next `number` blocks take: fresh ones, then the victims' and free ones, latest first.

        Takes none yet. The caller has checked that they suffice.
        """
        slots = victims[::-1]
        if len(slots) < number:
            first = self._num_allocated_blocks
            slots = list(range(first, min(first + number, self._num_blocks))) + slots
            slots += self._free_list[: len(slots) - number - 1 : -1]
        return slots

    def _take_free_blocks(self, number: int) -> None:
        """So many of the slots that were allocated were fresh or free."""
        num_fresh = min(number, self._num_blocks - self._num_allocated_blocks)
        self._num_allocated_blocks += num_fresh
        del self._free_list[len(self._free_list) - (number - num_fresh) :]

    def _free_blocks(self, slots: list[Slot]) -> None:
        self._free_list.extend(slots)
