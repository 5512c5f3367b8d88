"""A cache policy over a lazy heap, to be plugged into the built-in manager; its mutants are edits of this text.

The order is `lru-evictable`. An entry of the heap is not taken out when its key is pinned, touched or removed: it is
stale from then on, and passed over when it comes up.
"""

from __future__ import annotations

from collections.abc import Iterable
from heapq import heappop, heappush
from typing import Any


class LazyHeapPolicy:
    """What `evictable.impl.policies.base.CachePolicy` asks for, without a base class: it is hosted by copies, too."""

    def __init__(self, cache_capacity: int) -> None:
        self.blocks: dict[bytes, Any] = {}
        self._evictable: set[bytes] = set()
        self._ranks: dict[bytes, int] = {}
        """Of the evictable keys: when each was last moved to the end."""
        self._heap: list[tuple[int, bytes]] = []
        self._clock = 0

    def get(self, key: bytes) -> Any:
        return self.blocks.get(key)

    def insert(self, key: bytes, block: Any) -> None:
        self.blocks[key] = block
        if block.ref_cnt == 0:
            self.mark_evictable(key)

    def remove(self, key: bytes) -> None:
        del self.blocks[key]
        self._evictable.discard(key)
        self._ranks.pop(key, None)

    def touch(self, keys: Iterable[bytes]) -> None:
        for key in reversed(list(keys)):
            if key in self._evictable:
                self.mark_evictable(key)

    def evict(self, n: int, protected: set[bytes]) -> list[tuple[bytes, Any]] | None:
        victims: list[tuple[int, bytes]] = []
        spared: list[tuple[int, bytes]] = []
        while self._heap and len(victims) < n:
            rank, key = heappop(self._heap)
            if self._ranks.get(key) != rank:
                continue
            (spared if key in protected else victims).append((rank, key))
        enough = len(victims) == n
        for entry in spared if enough else spared + victims:
            heappush(self._heap, entry)
        if not enough:
            return None
        for _, key in victims:
            self.mark_non_evictable(key)
        return [(key, self.blocks.pop(key)) for _, key in victims]

    def clear(self) -> None:
        self.blocks.clear()
        self._evictable.clear()
        self._ranks.clear()
        self._heap.clear()
        self._clock = 0

    def mark_evictable(self, key: bytes) -> None:
        self._clock += 1
        self._evictable.add(key)
        self._ranks[key] = self._clock
        heappush(self._heap, (self._clock, key))

    def mark_non_evictable(self, key: bytes) -> None:
        self._evictable.remove(key)
        del self._ranks[key]
