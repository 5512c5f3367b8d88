"""Adaptive replacement (ARC): recency and frequency in a proportion that follows what is asked for again."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Iterator
from typing import Any

from evictable.impl.base import OffloadKey
from evictable.impl.blocks import BlockStatus
from evictable.impl.policies.base import CachePolicy, already_resident, not_resident

# Key -> block in T1 and T2, key -> None in B1 and B2; the next to go is first.
_Part = OrderedDict[OffloadKey, Any]


class ARCCachePolicy(CachePolicy):
    """The order `arc` (vLLM 0.30): T1 gives up its first idle block while it is larger than its target, else T2.

    `t1` holds the blocks seen once, `t2` those seen again. `b1` and `b2` remember keys evicted from them, at most
    `cache_capacity` each; one that is touched again moves `target_t1_size`, a real number in 0 .. capacity, in
    favour of the list that it came from. Where the list whose turn it is has no idle block, the other one gives.

    An eviction looks at the lists' blocks in order and passes over those in use, so nothing has to be kept in step
    with `ref_cnt` and the marks do nothing. A block keeps its place while it is pinned; a touch before its load, as
    in vLLM to 0.30, puts it where evictions look last. Offers `RestorableOrder`.
    """

    def __init__(self, cache_capacity: int) -> None:
        self.cache_capacity = cache_capacity
        self.target_t1_size = 0.0
        self.t1: OrderedDict[OffloadKey, BlockStatus] = OrderedDict()
        self.t2: OrderedDict[OffloadKey, BlockStatus] = OrderedDict()
        self.b1: OrderedDict[OffloadKey, None] = OrderedDict()
        self.b2: OrderedDict[OffloadKey, None] = OrderedDict()
        # No key is in two of the lists.
        self._parts: tuple[_Part, ...] = (self.t1, self.t2, self.b1, self.b2)
        # The time of each key's last move to the end of its list, so times rise along a list. Only `restore` reads
        # them: a linked list forgets where a removed key stood.
        self._moved: dict[OffloadKey, int] = {}
        self._clock = 0
        self._notes: _Notes | None = None

    def get(self, key: OffloadKey) -> BlockStatus | None:
        block = self.t1.get(key)
        return block if block is not None else self.t2.get(key)

    def insert(self, key: OffloadKey, block: BlockStatus) -> None:
        if self.get(key) is not None:
            raise already_resident(key)
        self._leave(key)
        self._append(self.t1, key, block)

    def remove(self, key: OffloadKey) -> None:
        if self.get(key) is None:
            raise not_resident("remove", key)
        self._leave(key)

    def touch(self, keys: Iterable[OffloadKey]) -> None:
        # Backwards, so that the head of a prefix outlives its tail, which is useless without it.
        for key in reversed(list(keys)):
            block = self.get(key)
            if block is None:
                self._touch_ghost(key)
            else:
                # A pending block was only just offered: that is no second use.
                again = block.ref_cnt >= 0 or key in self.t2
                self._leave(key)
                self._append(self.t2 if again else self.t1, key, block)

    def evict(self, n: int, protected: set[OffloadKey]) -> list[tuple[OffloadKey, BlockStatus]] | None:
        t1 = ((key, self.b1) for key in _idle(self.t1, protected))
        t2 = ((key, self.b2) for key in _idle(self.t2, protected))
        target = int(self.target_t1_size)
        t1_size = len(self.t1)
        victims: list[tuple[OffloadKey, _Part]] = []
        for _ in range(n):
            first, second = (t1, t2) if t1_size >= target else (t2, t1)
            victim = next(first, None) or next(second, None)
            if victim is None:
                return None
            if victim[1] is self.b1:
                t1_size -= 1
            victims.append(victim)

        evicted = []
        for key, ghosts in victims:
            evicted.append((key, self._leave(key)))
            self._append(ghosts, key, None)
        for ghosts in (self.b1, self.b2):
            while len(ghosts) > self.cache_capacity:
                self._leave(next(iter(ghosts)))
        return evicted

    def clear(self) -> None:
        for part in self._parts:
            part.clear()
        self._moved.clear()
        self.target_t1_size = 0.0
        self._notes = None

    def checkpoint(self) -> object:
        """Begin to note where keys stood that leave their list."""
        self._notes = _Notes(self.target_t1_size)
        return self._notes

    def restore(self, token: object) -> None:
        """Put all four lists and the target back as they were when `checkpoint` answered `token`.

        Costs a sort of the lists, which are nearly sorted. Raises ValueError for a token that a later checkpoint or
        a `clear` has replaced.
        """
        notes = self._notes
        if notes is None or token is not notes:
            raise ValueError("only the latest checkpoint can be restored; take one at the start of each call")
        for key, place in notes.places.items():
            self._leave(key)
            if place is not None:
                part, value, moved = place
                part[key] = value
                self._moved[key] = moved
        for part in self._parts:
            for key in sorted(part, key=self._moved.__getitem__):
                part.move_to_end(key)
        self.target_t1_size = notes.target
        notes.places.clear()

    def _touch_ghost(self, key: OffloadKey) -> None:
        """A key is asked for again that was evicted too early: its list deserved more room."""
        if key in self.b1:
            gain = max(1.0, len(self.b2) / len(self.b1))
            self.target_t1_size = min(self.target_t1_size + gain, float(self.cache_capacity))
            part = self.b1
        elif key in self.b2:
            gain = max(1.0, len(self.b1) / len(self.b2))
            self.target_t1_size = max(self.target_t1_size - gain, 0.0)
            part = self.b2
        else:
            return
        self._leave(key)
        self._append(part, key, None)

    def _append(self, part: _Part, key: OffloadKey, value: BlockStatus | None) -> None:
        """Put a key that is nowhere at the end of a list."""
        self._clock += 1
        self._moved[key] = self._clock
        part[key] = value

    def _leave(self, key: OffloadKey) -> Any:
        """Take the key out of its list, if it is in one, and answer its block, if it has one."""
        place = None
        for part in self._parts:
            if key in part:
                place = (part, part.pop(key), self._moved.pop(key))
                break
        if self._notes is not None:
            self._notes.places.setdefault(key, place)
        return None if place is None else place[1]


class _Notes:
    """What `restore` needs: the target, and the place of each key that left its list, if only to its end."""

    __slots__ = ("places", "target")

    def __init__(self, target: float) -> None:
        self.target = target
        # Key -> its list, its value there and the time of its last move; None if it was in no list.
        self.places: dict[OffloadKey, tuple[_Part, Any, int] | None] = {}


def _idle(part: OrderedDict[OffloadKey, BlockStatus], protected: set[OffloadKey]) -> Iterator[OffloadKey]:
    return (key for key, block in part.items() if block.ref_cnt == 0 and key not in protected)
