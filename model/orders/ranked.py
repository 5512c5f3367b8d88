"""Idle keys by rank: what the orders share in which a key keeps its place while it is pinned."""

from __future__ import annotations

import heapq
from collections.abc import Collection, Iterable, Sequence
from typing import Any

from attrs import define, field

from evictable.model.calls import Key, key_bytes
from evictable.model.orders.base import Order

Rank = Any
"""Anything that compares. Two resident keys of the same rank go by their bytes."""
_Entry = tuple[Rank, bytes, Key]


@define
class RankedKeys:
    """Every resident key has a rank; the lowest idle one goes first.

    A heap with entries that may be out of date (an entry counts only while its key is idle at that very
    rank) keeps a selection as cheap as the keys that it looks at, not all that are resident or pinned.
    """

    ranks: dict[Key, Rank] = field(factory=dict)
    _idle: set[Key] = field(factory=set)
    _heap: list[_Entry] = field(factory=list)

    def rank(self, key: Key, rank: Rank) -> None:
        self.ranks[key] = rank
        if key in self._idle:
            self._push(key)

    def idle(self, key: Key) -> None:
        self._idle.add(key)
        self._push(key)

    def busy(self, key: Key) -> None:
        self._idle.remove(key)

    def removed(self, key: Key) -> None:
        del self.ranks[key]
        self._idle.discard(key)

    def cleared(self) -> None:
        self.ranks.clear()
        self._idle.clear()
        self._heap.clear()

    def num_idle(self) -> int:
        return len(self._idle)

    def is_idle(self, key: Key) -> bool:
        return key in self._idle

    def victims(self, n: int, protected: Collection[Key]) -> list[Key] | None:
        chosen = self.first(n, protected)
        return chosen if len(chosen) == n else None

    def first(self, n: int, protected: Collection[Key]) -> list[Key]:
        """The first ``n`` idle keys outside ``protected``, or as many as there are."""
        chosen: dict[Key, None] = {}
        seen: list[_Entry] = []
        while self._heap and len(chosen) < n:
            entry = heapq.heappop(self._heap)
            rank, _, key = entry
            if key not in self._idle or self.ranks[key] != rank or key in chosen:
                continue
            seen.append(entry)
            if key not in protected:
                chosen[key] = None
        for entry in seen:
            heapq.heappush(self._heap, entry)
        return list(chosen)

    def idle_keys(self) -> Iterable[Key]:
        return sorted(self._idle, key=self._place)

    def in_order(self) -> tuple[Key, ...]:
        """All keys, pinned and pending ones too, lowest rank first (costs the whole list)."""
        return tuple(sorted(self.ranks, key=self._place))

    def _place(self, key: Key) -> tuple[Rank, bytes]:
        return self.ranks[key], key_bytes(key)

    def _push(self, key: Key) -> None:
        heapq.heappush(self._heap, (*self._place(key), key))
        if len(self._heap) > 64 + 4 * len(self._idle):
            self._heap = [(*self._place(key), key) for key in self._idle]
            heapq.heapify(self._heap)


@define
class RankedOrder(Order):
    """An order of ranks: a key keeps its place while it is pinned or pending, and numbers that only grow rank it."""

    _keys: RankedKeys = field(factory=RankedKeys)
    _next: int = 0

    def idle(self, key: Key) -> None:
        self._keys.idle(key)

    def busy(self, key: Key) -> None:
        self._keys.busy(key)

    def removed(self, key: Key) -> None:
        self._keys.removed(key)

    def cleared(self) -> None:
        self._keys.cleared()
        self._next = 0

    def touched(self, keys: Sequence[Key]) -> None:
        for key in reversed(keys):
            if key in self._keys.ranks:
                self._rank_last(key)

    def num_idle(self) -> int:
        return self._keys.num_idle()

    def is_idle(self, key: Key) -> bool:
        return self._keys.is_idle(key)

    def victims(self, n: int, protected: Collection[Key]) -> list[Key] | None:
        return self._keys.victims(n, protected)

    def idle_keys(self) -> Iterable[Key]:
        return self._keys.idle_keys()

    def state(self) -> Any:
        return self._keys.in_order()

    def _next_rank(self) -> int:
        self._next += 1
        return self._next

    def _rank_last(self, key: Key) -> None:
        """To the end of the order. (A second part of the rank lets positions come between.)"""
        self._keys.rank(key, (self._next_rank(), 0))
