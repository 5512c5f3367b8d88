"""What a block costs in memory, the keys left out, and what it costs to read a block's record."""

from __future__ import annotations

import ctypes
import gc
import random
import statistics
import time
import tracemalloc
from collections.abc import Callable
from typing import Any

from attrs import define, frozen

from evictable.specs.bench.loads import fill, keys_of
from evictable.specs.bench.makers import Maker
from evictable.specs.bench.measured import Measured
from evictable.specs.soak.memory import resident

MANAGER = "manager"
ACCESSES = 100_000
COLLECTIONS = 3
"""Of which the median is told."""


class Structure(ctypes.Structure):
    """A record as vLLM's is to 0.33: two numbers of C."""

    _fields_ = (("ref_cnt", ctypes.c_int32), ("block_id", ctypes.c_int64))


class Slotted:
    """The same two in a Python object."""

    __slots__ = ("block_id", "ref_cnt")

    def __init__(self, ref_cnt: int, block_id: int) -> None:
        self.ref_cnt, self.block_id = ref_cnt, block_id


@frozen
class Records:
    """Blocks by key, and how one of them is pinned and unpinned."""

    held: Any
    pin_and_unpin: Callable[[list[bytes]], None]


def _objects(make: Callable[[int, int], Any]) -> Callable[[list[bytes]], Records]:
    def build(keys: list[bytes]) -> Records:
        blocks = {key: make(0, number) for number, key in enumerate(keys)}

        def pin_and_unpin(asked: list[bytes]) -> None:
            for key in asked:
                block = blocks[key]
                block.ref_cnt += 1
                block.ref_cnt -= 1

        return Records(blocks, pin_and_unpin)

    return build


def _lists(keys: list[bytes]) -> Records:
    slots = {key: number for number, key in enumerate(keys)}
    ref_cnt = [0] * len(keys)

    def pin_and_unpin(asked: list[bytes]) -> None:
        for key in asked:
            slot = slots[key]
            ref_cnt[slot] += 1
            ref_cnt[slot] -= 1

    return Records((slots, ref_cnt), pin_and_unpin)


RECORDS: dict[str, Callable[[list[bytes]], Records]] = {
    "__slots__": _objects(Slotted),
    "ctypes": _objects(Structure),
    "flat lists": _lists,
}
"""Ways to keep a block's reference count and slot, each with the dictionary that finds it by its key."""


@define
class Memory:
    """One measurement, of a process that has done nothing before: bytes a block, or one of the records."""

    maker: Maker
    what: str
    """`MANAGER`, or one of `RECORDS`."""
    capacity: int
    traced: bool
    """By what the interpreter's allocators gave out (then nothing else is measured), or by the resident size."""
    policy: str = "lru"

    def round(self, seed: int) -> Measured:
        keys = keys_of(seed, self.capacity)
        gc.collect()
        if self.traced:
            tracemalloc.start()
            held = self._build(keys)
            gc.collect()
            return Measured({"traced": tracemalloc.get_traced_memory()[0] / self.capacity}, held=held)
        before = resident()
        held = self._build(keys)
        gc.collect()
        numbers = {"resident": (resident() - before) / self.capacity, "gc": _collection()}
        if isinstance(held, Records):
            asked = random.Random(seed).choices(keys, k=ACCESSES)
            started = time.thread_time()
            held.pin_and_unpin(asked)
            numbers["access"] = (time.thread_time() - started) / ACCESSES
        return Measured(numbers, held=held)

    def _build(self, keys: list[bytes]) -> Any:
        if self.what != MANAGER:
            return RECORDS[self.what](keys)
        manager, context = self.maker.make(self.capacity, self.policy)
        fill(manager, context, keys)
        return manager


def _collection() -> float:
    """Seconds of a full collection."""
    took = []
    for _ in range(COLLECTIONS):
        started = time.thread_time()
        gc.collect()
        took.append(time.thread_time() - started)
    return statistics.median(took)
