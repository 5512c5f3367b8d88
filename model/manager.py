"""The reference manager: what is right, call by call.

Every operation checks first and changes afterwards, so that a refusal changes nothing. Where the text
leaves freedom (which free slot; which victims, under an order that is not exact) an operation takes a
``hint``, the answer that an implementation gave: a legal choice in it is followed, any other is not.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence

from attrs import define, field, frozen

from evictable.model import calls
from evictable.model.admission import Admission
from evictable.model.calls import Answer, Call, Drained, Gauges, Key, Loaded, Outcome, Stored
from evictable.model.events import EventLedger
from evictable.model.lifecycle import abort_store, begin_store, commit_store, evict, is_evictable, is_ready, pin, unpin
from evictable.model.orders import Order
from evictable.model.snapshot import Snapshot


@frozen
class StorePlan:
    """What an offer needs: the new keys, how many must go, and which (``None``: the order finds too few)."""

    new: tuple[Key, ...]
    need: int
    available: int
    """Evictable keys outside the offer."""
    victims: tuple[Key, ...] | None

    @property
    def has_room(self) -> bool:
        return self.need <= self.available


@define
class Statistics:
    """What was counted since the last report. An offer that raised may have been counted or not."""

    skipped: int = 0
    sizes: list[int] = field(factory=list)
    failures: int = 0
    certain: bool = True

    def offered(self, plan: StorePlan, skipped: int) -> None:
        self.skipped += skipped
        if plan.new:
            self.sizes.append(len(plan.new))
        self.failures += plan.victims is None


@define
class Manager:
    """The state of a cache of ``capacity`` slots, and its operations."""

    capacity: int
    order: Order
    with_events: bool = True
    admission: Admission = field(factory=Admission)
    ref_cnt: dict[Key, int] = field(factory=dict)
    slots: dict[Key, int] = field(factory=dict)
    holders: dict[int, Key] = field(factory=dict)
    """The key in each slot that is taken."""
    num_pending: int = 0
    stores: dict[Key, str | None] = field(factory=dict)
    """Who is storing each pending key: a request, or where it carries one its ticket (`Call.owner`)."""
    loads: dict[tuple[str | None, Key], int] = field(factory=dict)
    """How many loads each of these has in flight of each key."""
    live: set[str] = field(factory=set)
    """Requests that were announced and have not finished."""
    finished: set[str] = field(factory=set)
    events: EventLedger = field(factory=EventLedger)
    statistics: Statistics = field(factory=Statistics)
    plan: StorePlan | None = None
    """What the latest offer needed."""

    # --- what can be asked about the state ---

    @property
    def num_free(self) -> int:
        return self.capacity - len(self.holders)

    @property
    def at_rest(self) -> bool:
        """No transfer is in flight."""
        return not self.stores and not self.loads

    def plan_store(self, keys: Sequence[Key]) -> StorePlan:
        """Which keys of an offer are new and admitted, and who must make room for them."""
        admits = self.admission.admits
        new = tuple(key for key in dict.fromkeys(keys) if key not in self.ref_cnt and admits(key))
        need = len(new) - self.num_free
        offer = frozenset(keys)
        available = self.order.num_idle() - sum(1 for key in offer if self.order.is_idle(key))
        if need <= 0:
            return StorePlan(new, 0, available, ())
        if need > available:
            return StorePlan(new, need, available, None)
        victims = self.order.victims(need, offer)
        return StorePlan(new, need, available, None if victims is None else tuple(victims))

    def misplaced(self, call: Call) -> tuple[int, ...]:
        """The places in ``call.keys`` that a careful caller would not have named.

        A key repeated in an offer; a load of what is absent or pending; a completion of what the request,
        or the ticket, has not prepared, or has completed already. Each occurrence counts.
        """
        name = call.name
        keys = call.keys
        if name == calls.PREPARE_STORE:
            return _repeats(keys)
        if name == calls.PREPARE_LOAD:
            return tuple(place for place, key in enumerate(keys) if not is_ready(self.ref_cnt.get(key)))
        if name == calls.COMPLETE_STORE:
            stores = self.stores
            foreign = [place for place, key in enumerate(keys) if key not in stores or stores[key] != call.owner]
            return tuple(sorted({*foreign, *_repeats(keys)}))
        if name == calls.COMPLETE_LOAD:
            left = {key: self.loads.get((call.owner, key), 0) for key in keys}
            wrong = []
            for place, key in enumerate(keys):
                if left[key] == 0:
                    wrong.append(place)
                else:
                    left[key] -= 1
            return tuple(wrong)
        return ()

    def may_refuse(self, call: Call) -> bool:
        """Whether ``call``, all its keys being good, breaks a promise of a careful caller all the same."""
        if _repeats(call.keys):
            return True
        if call.name == calls.ON_NEW_REQUEST:
            return call.request in self.live or call.request in self.finished
        if call.name == calls.RESET_CACHE:
            return not self.at_rest or self.events.undrained
        if call.name in calls.COMPLETIONS:
            return False
        return call.request is not None and call.request not in self.live

    def snapshot(self, keys: Collection[Key] | None = None) -> Snapshot:
        """The state of ``keys``, or with ``None`` of every resident key."""
        order = self.order
        if keys is None:
            return Snapshot(
                ref_cnt=dict(self.ref_cnt),
                slots=dict(self.slots),
                evictable=tuple(order.idle_keys()),
                num_resident=len(self.ref_cnt),
                num_evictable=order.num_idle(),
                num_pending=self.num_pending,
                num_free=self.num_free,
                full=True,
            )
        resident = [key for key in keys if key in self.ref_cnt]
        return Snapshot(
            ref_cnt={key: self.ref_cnt[key] for key in resident},
            slots={key: self.slots[key] for key in resident},
            evictable={key for key in resident if order.is_idle(key)},
            num_resident=len(self.ref_cnt),
            num_evictable=order.num_idle(),
            num_pending=self.num_pending,
            num_free=self.num_free,
        )

    # --- operations ---

    def perform(self, call: Call, hint: Outcome = None) -> Answer:
        """Carry out ``call``, none of whose keys is misplaced, and answer what is right.

        Raises `lifecycle.IllegalStep` or `KeyError` for a misplaced key, `ValueError` for an unknown name.
        """
        operation = _OPERATIONS.get(call.name)
        if operation is None:
            raise ValueError(f"unknown call {call.name!r}")
        if call.positions is not None:
            self.order.placed(call.request, call.keys, call.positions)
        return operation(self, call, hint)

    def on_new_request(self, request: str | None) -> None:
        if request is not None:
            self.live.add(request)
        self.order.announced(request)

    def on_request_finished(self, request: str | None) -> None:
        if request is not None:
            self.live.discard(request)
            self.finished.add(request)
        self.order.finished(request)

    def lookup(self, key: Key) -> str:
        self.admission.looked_up(key)
        return self.presence(key)

    def presence(self, key: Key) -> str:
        """What a lookup of ``key`` answers, asked without looking it up."""
        ref_cnt = self.ref_cnt.get(key)
        if ref_cnt is None:
            return calls.MISS
        return calls.HIT if is_ready(ref_cnt) else calls.HIT_PENDING

    def prepare_store(
        self,
        keys: Sequence[Key],
        request: str | None,
        hint: Stored | None = None,
        *,
        choose: Callable[[StorePlan], tuple[Key, ...] | None] | None = None,
        owner: str | None = None,
    ) -> Stored | None:
        """``choose`` may settle other victims than the plan's, which are the first in the order.

        The stores are the request's, unless an ``owner`` is named.
        """
        offer = tuple(dict.fromkeys(keys))
        self.admission.offered(offer)
        if self.order.by_request:
            admits, ref_cnt = self.admission.admits, self.ref_cnt
            new = {key for key in offer if key not in ref_cnt and admits(key)}
            ready = {key for key in offer if is_ready(ref_cnt.get(key))}
            self.order.offered(request, offer, new, ready)
        self.plan = plan = self.plan_store(offer)
        self.statistics.offered(plan, self.admission.skipped(offer, self.ref_cnt))
        victims = plan.victims if choose is None else choose(plan)
        if victims is None:
            return None
        if hint is not None and not self.order.exact and self._may_be_evicted(hint.evicted_keys, plan.need, keys):
            victims = hint.evicted_keys
        for victim in victims:
            self._leave(victim, evict(self.ref_cnt[victim]))
        self.order.evicted(victims)
        if victims and self.with_events:
            self.events.removed(victims)
        if hint is not None and self._may_be_taken(hint.block_ids, len(plan.new)):
            block_ids = hint.block_ids
        else:
            block_ids = self._lowest_free(len(plan.new))
        for key, block_id in zip(plan.new, block_ids, strict=True):
            self.ref_cnt[key] = begin_store(self.ref_cnt.get(key))  # type: ignore[assignment]
            self.slots[key] = block_id
            self.holders[block_id] = key
            self.stores[key] = request if owner is None else owner
            self.order.inserted(key, request)
        self.num_pending += len(plan.new)
        return Stored(plan.new, block_ids, victims)

    def complete_store(self, keys: Sequence[Key], success: bool) -> None:
        for key in keys:
            ref_cnt = self.ref_cnt[key]
            del self.stores[key]
            self.num_pending -= 1
            if success:
                self._set(key, commit_store(ref_cnt))
                self.order.idle(key)
            else:
                self._leave(key, abort_store(ref_cnt))
                self.order.removed(key)
        if success and self.with_events:
            self.events.stored(keys)

    def prepare_load(self, keys: Sequence[Key], request: str | None, owner: str | None = None) -> Loaded:
        """The loads are the request's, unless an ``owner`` is named."""
        owner = request if owner is None else owner
        for key in keys:
            before = self.ref_cnt[key]
            self._set(key, pin(before))
            if is_evictable(before):
                self.order.busy(key)
            self.loads[owner, key] = self.loads.get((owner, key), 0) + 1
        self.order.loaded(request, keys)
        return Loaded(tuple(self.slots[key] for key in keys))

    def complete_load(self, keys: Sequence[Key], owner: str | None) -> None:
        for key in keys:
            self._set(key, unpin(self.ref_cnt[key]))
            if is_evictable(self.ref_cnt[key]):
                self.order.idle(key)
            left = self.loads[owner, key] - 1
            if left:
                self.loads[owner, key] = left
            else:
                del self.loads[owner, key]

    def reset_cache(self) -> None:
        self.ref_cnt.clear()
        self.slots.clear()
        self.holders.clear()
        self.stores.clear()
        self.loads.clear()
        self.num_pending = 0
        self.order.cleared()
        self.events.reset()

    def get_stats(self) -> Gauges:
        """Fractions of the capacity: blocks that are not idle; of those, pending; and pinned. And what was counted."""
        used = len(self.ref_cnt) - self.order.num_idle()
        counted, self.statistics = self.statistics, Statistics()
        return Gauges(
            usage=used / self.capacity,
            write_usage=self.num_pending / self.capacity,
            read_usage=(used - self.num_pending) / self.capacity,
            stores_skipped=counted.skipped if counted.certain else None,
            allocation_sizes=tuple(counted.sizes) if counted.certain else None,
            allocation_failures=counted.failures if counted.certain else None,
        )

    # --- parts of operations ---

    def _set(self, key: Key, ref_cnt: int | None) -> None:
        if ref_cnt is None:
            raise ValueError(f"{key} is absent")
        self.ref_cnt[key] = ref_cnt

    def _leave(self, key: Key, ref_cnt: int | None) -> None:
        """Evicted, or its store failed: the slot is given back."""
        if ref_cnt is not None:
            raise ValueError(f"{key} stays")
        del self.ref_cnt[key]
        del self.holders[self.slots.pop(key)]

    def _may_be_evicted(self, victims: Sequence[Key], need: int, offer: Sequence[Key]) -> bool:
        return (
            need <= len(victims) == len(set(victims))
            and all(self.order.is_idle(victim) for victim in victims)
            and not set(victims).intersection(offer)
        )

    def _may_be_taken(self, block_ids: Sequence[int], count: int) -> bool:
        return (
            len(block_ids) == count == len(set(block_ids))
            and all(0 <= block_id < self.capacity for block_id in block_ids)
            and not any(block_id in self.holders for block_id in block_ids)
        )

    def _lowest_free(self, count: int) -> tuple[int, ...]:
        chosen: list[int] = []
        block_id = 0
        while len(chosen) < count:
            if block_id not in self.holders:
                chosen.append(block_id)
            block_id += 1
        return tuple(chosen)


def _repeats(keys: Sequence[Key]) -> tuple[int, ...]:
    """The places of the second and later occurrences."""
    if len(set(keys)) == len(keys):
        return ()
    seen: set[Key] = set()
    places = []
    for place, key in enumerate(keys):
        if key in seen:
            places.append(place)
        seen.add(key)
    return tuple(places)


_OPERATIONS: dict[str, Callable[[Manager, Call, Outcome], Answer]] = {
    calls.ON_NEW_REQUEST: lambda manager, call, hint: manager.on_new_request(call.request),
    calls.ON_REQUEST_FINISHED: lambda manager, call, hint: manager.on_request_finished(call.request),
    calls.LOOKUP: lambda manager, call, hint: manager.lookup(call.keys[0]),
    calls.PREPARE_STORE: lambda manager, call, hint: manager.prepare_store(
        call.keys, call.request, hint if isinstance(hint, Stored) else None, owner=call.owner
    ),
    calls.COMPLETE_STORE: lambda manager, call, hint: manager.complete_store(call.keys, call.success),
    calls.PREPARE_LOAD: lambda manager, call, hint: manager.prepare_load(call.keys, call.request, call.owner),
    calls.COMPLETE_LOAD: lambda manager, call, hint: manager.complete_load(call.keys, call.owner),
    calls.TOUCH: lambda manager, call, hint: manager.order.touched(call.keys),
    calls.TAKE_EVENTS: lambda manager, call, hint: Drained(()),
    calls.RESET_CACHE: lambda manager, call, hint: manager.reset_cache(),
    calls.GET_STATS: lambda manager, call, hint: manager.get_stats(),
}
