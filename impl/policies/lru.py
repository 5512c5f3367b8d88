"""Least recently used first, over a list of the evictable blocks only (vLLM PR #46216)."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable
from itertools import islice

from evictable.impl.base import OffloadKey
from evictable.impl.blocks import BlockStatus
from evictable.impl.policies.base import CachePolicy


class LRUCachePolicy(CachePolicy):
    """The order `lru-evictable`: a block goes to the end when it becomes idle and when it is touched while idle.

    `blocks` holds all resident blocks, `evictable_blocks` the idle ones with the next victim first, so that an
    eviction costs the blocks it looks at and not all that are cached. Offers `RestorableOrder`.
    """

    def __init__(self, cache_capacity: int) -> None:
        self.blocks: dict[OffloadKey, BlockStatus] = {}
        # The value is the time of the key's last move to the end, so values rise along the list. Only
        # `restore` reads them: a linked list forgets where a removed key stood.
        self.evictable_blocks: OrderedDict[OffloadKey, int] = OrderedDict()
        self._clock = 0
        # Keys that left the list since the last checkpoint. None until the first one, because a host that
        # never takes a checkpoint would never empty it either.
        self._departed: dict[OffloadKey, int] | None = None

    def get(self, key: OffloadKey) -> BlockStatus | None:
        return self.blocks.get(key)

    def insert(self, key: OffloadKey, block: BlockStatus) -> None:
        self.blocks[key] = block
        if block.ref_cnt == 0:
            self._join(key)

    def remove(self, key: OffloadKey) -> None:
        del self.blocks[key]
        if key in self.evictable_blocks:
            self._leave(key)

    def touch(self, keys: Iterable[OffloadKey]) -> None:
        evictable = self.evictable_blocks
        clock = self._clock
        # Backwards, so that the head of a prefix outlives its tail, which is useless without it.
        for key in [key for key in reversed(list(keys)) if key in evictable]:
            clock += 1
            evictable[key] = clock
            evictable.move_to_end(key)
        self._clock = clock

    def evict(self, n: int, protected: set[OffloadKey]) -> list[tuple[OffloadKey, BlockStatus]] | None:
        candidates: Iterable[OffloadKey] = self.evictable_blocks
        if protected:
            candidates = (key for key in candidates if key not in protected)
        victims = list(islice(candidates, n))
        if len(victims) < n:
            return None
        for key in victims:
            self._leave(key)
        pop = self.blocks.pop
        return [(key, pop(key)) for key in victims]

    def clear(self) -> None:
        self.blocks.clear()
        self.evictable_blocks.clear()
        self._departed = None

    def mark_evictable(self, key: OffloadKey) -> None:
        self._clock += 1
        self.evictable_blocks[key] = self._clock

    def mark_non_evictable(self, key: OffloadKey) -> None:
        moved = self.evictable_blocks.pop(key)
        if self._departed is not None:
            self._departed[key] = moved

    # For insert, remove and evict: they are no marks, and do not change when a subclass overrides the marks.
    _join = mark_evictable
    _leave = mark_non_evictable

    def checkpoint(self) -> object:
        """Begin to note which keys leave the list, and where they stood."""
        self._departed = {}
        return self._departed

    def restore(self, token: object) -> None:
        """Put the keys that left the list since `checkpoint` answered `token`, and came back, where they stood.

        Costs a sort of the list, which is nearly sorted. Raises ValueError for a token that a later checkpoint
        or a `clear` has replaced.
        """
        departed = self._departed
        if departed is None or token is not departed:
            raise ValueError("only the latest checkpoint can be restored; take one at the start of each call")
        evictable = self.evictable_blocks
        evictable.update((key, moved) for key, moved in departed.items() if key in evictable)
        for key in sorted(evictable, key=evictable.__getitem__):
            evictable.move_to_end(key)
