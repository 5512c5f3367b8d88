"""A model and a built-in manager in a state that a few numbers describe, so that CrossHair can vary the numbers.

Keys, slots and the sizes of containers are fixed, since CrossHair never gets to the end of symbolic dictionaries.
How often a block is pinned is not: it stays a symbolic number, of any size.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any, TypeVar

from evictable.impl.base import ReqContext
from evictable.impl.blocks import BlockStatus
from evictable.impl.manager import CPUOffloadingManager
from evictable.impl.metrics import CPUOffloadingMetrics
from evictable.model.admission import Admission
from evictable.model.calls import Gauges, Key, Stored
from evictable.model.events import EventLedger
from evictable.model.lifecycle import RefCnt
from evictable.model.manager import Manager, Statistics
from evictable.model.orders.lru_evictable import LruEvictable

GONE = -2
"""Stands for an absent block where a number is wanted; -1, 0 and n > 0 are what they are as a ``ref_cnt``."""
ME = "me"
OTHER = "other"
"""Two requests: the one that calls, and somebody else."""

T = TypeVar("T")

# Parts that no call of these harnesses changes. They are shared, and containers are written as displays, because
# CrossHair puts its own, slow ones in the place of what `dict()` and `set()` make.
_ADMITS_ALL = Admission()
_NOBODY: set[str] = set()
_UNUSED = EventLedger()


def ref(count: int) -> RefCnt:
    return None if count == GONE else count


def chosen(number: int, *choices: T) -> T:
    """The ``number``-th choice (the last one for any other number), by comparing: a fixed value on each path."""
    for place, choice in enumerate(choices):
        if number == place:
            return choice
    return choices[-1]


def model_cache(counts: Sequence[int], spare: int = 0, late: bool = False, mine: bool = True) -> Manager:
    """The model with key k in slot k, ``counts[k]`` its ref_cnt, and ``spare`` further slots.

    The idle keys stand in the order of their numbers, or with ``late`` in the opposite one. Transfers are those
    of `ME`, or with ``mine`` false of `OTHER`.
    """
    who = ME if mine else OTHER
    cache = Manager(
        len(counts) + spare,
        LruEvictable(),
        with_events=False,
        admission=_ADMITS_ALL,
        ref_cnt={},
        slots={},
        holders={},
        stores={},
        loads={},
        live=_NOBODY,
        finished=_NOBODY,
        events=_UNUSED,
        statistics=Statistics(),
    )
    for key, count in _in_order(counts, late):
        if count == GONE:
            continue
        cache.ref_cnt[key] = count
        cache.slots[key] = key
        cache.holders[key] = key
        if count == -1:
            cache.stores[key] = who
            cache.num_pending += 1
        elif count == 0:
            cache.order.idle(key)
        else:
            cache.loads[who, key] = count
    return cache


def impl_cache(counts: Sequence[int], spare: int = 0, late: bool = False, mine: bool = True) -> Any:
    """The built-in manager in the state of `model_cache`; absent keys' slots were used and given back."""
    who = ME if mine else OTHER
    cache: Any = CPUOffloadingManager(len(counts) + spare, enable_events=True)
    cache._num_allocated_blocks = len(counts)
    for key, count in _in_order(counts, late):
        if count == GONE:
            cache._free_list.append(key)
            continue
        block = BlockStatus(key, who)
        block.ref_cnt = count
        cache._policy.insert(key, block)
        if count == -1:
            cache._num_write_pending_blocks += 1
        elif count == 0:
            cache._num_evictable_cache_blocks += 1
        else:
            cache._loads.setdefault(who, {})[key] = count
    return cache


def _in_order(counts: Sequence[int], late: bool) -> list[tuple[int, int]]:
    numbered = list(enumerate(counts))
    return numbered[::-1] if late else numbered


def context(mine: bool = True) -> ReqContext:
    return ReqContext(ME if mine else OTHER)


View = tuple[Any, ...]
"""A state in a form that compares: ref_cnt and slot of each key, the idle keys in order, counters, loads, stores."""


def view_of_model(cache: Manager) -> View:
    return (
        [(key, cache.ref_cnt[key], cache.slots[key]) for key in sorted(cache.ref_cnt)],
        list(cache.order.idle_keys()),
        cache.order.num_idle(),
        cache.num_pending,
        cache.num_free,
        [(who, key, cache.loads[who, key]) for who, key in sorted(cache.loads)],
        [(key, cache.stores[key]) for key in sorted(cache.stores)],
    )


def view_of_impl(cache: Any) -> View:
    blocks = cache._policy.blocks
    return (
        [(key, blocks[key].ref_cnt, blocks[key].block_id) for key in sorted(blocks)],
        list(cache._policy.evictable_blocks),
        cache._num_evictable_cache_blocks,
        cache._num_write_pending_blocks,
        cache._get_num_free_blocks(),
        [(who, key, loads[key]) for who, loads in sorted(cache._loads.items()) for key in sorted(loads)],
        [(key, blocks[key].writer) for key in sorted(blocks) if blocks[key].ref_cnt == -1],
    )


def events_of_impl(cache: Any) -> list[tuple[bool, list[Key]]]:
    return [(event.removed, list(event.keys)) for event in cache.events]


def gauges_of_impl(stats: Any) -> Gauges:
    """What the built-in manager reports, in the words of the model; without a threshold no store is skipped."""
    told = {name: values[()] for name, values in stats.data["data"].items()}
    return Gauges(
        usage=told[CPUOffloadingMetrics.CPU_CACHE_USAGE_PERC],
        write_usage=told[CPUOffloadingMetrics.CPU_CACHE_WRITE_USAGE_PERC],
        read_usage=told[CPUOffloadingMetrics.CPU_CACHE_READ_USAGE_PERC],
        stores_skipped=0,
        allocation_sizes=tuple(told.get(CPUOffloadingMetrics.CPU_ALLOCATION_SIZE, ())),
        allocation_failures=told.get(CPUOffloadingMetrics.ALLOCATION_FAILURE, 0),
    )


def stored_of_impl(output: Any) -> Stored | None:
    """The built-in manager's answer to an offer, in the words of the model."""
    if output is None:
        return None
    return Stored(tuple(output.keys_to_store), tuple(output.store_spec.block_ids), tuple(output.evicted_keys))


def whole(view: View, capacity: int, new: Collection[Key] = ()) -> bool:
    """Whether a state is sound: the idle keys are those with ref_cnt 0, counters agree, and no slot is lost."""
    blocks, idle, num_idle, num_pending, num_free, loads, _ = view
    slots = [slot for _, _, slot in blocks]
    return (
        sorted(idle) == [key for key, count, _ in blocks if count == 0]
        and num_idle == len(idle)
        and num_pending == len([key for key, count, _ in blocks if count == -1])
        and len(set(slots)) == len(slots)
        and num_free + len(slots) == capacity
        and all(count >= -1 for _, count, _ in blocks)
        and all(count == sum(n for _, k, n in loads if k == key) for key, count, _ in blocks if count > 0)
    )
