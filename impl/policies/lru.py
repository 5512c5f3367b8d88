"""Least recently used first, over a list of the evictable blocks only (vLLM PR #46216)."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable
from itertools import islice

from evictable.impl.base import OffloadKey
from evictable.impl.blocks import BlockStatus
from evictable.impl.errors import MismatchedMark, PolicyMisuse
from evictable.impl.policies.base import CachePolicy, already_resident, not_resident

_REMEDY_FOR_UNMARK = "unmark a listed block once, when its ref_cnt is about to leave 0"
_REMEDY_FOR_REF_CNT = "call mark_non_evictable before ref_cnt leaves 0"


class LRUCachePolicy(CachePolicy):
    """The order `lru-evictable`: a block goes to the end when it becomes idle and when it is touched while idle.

    `blocks` holds all resident blocks, `evictable_blocks` the idle ones with the next victim first, so that an
    eviction costs the blocks it looks at and not all that are cached. Offers `RestorableOrder`.

    Heeds the marks, and raises `MismatchedMark` for one that does not fit. A listed block whose `ref_cnt` was changed
    without a mark stays listed and can be touched; the eviction that comes to it raises `PolicyMisuse`. A block whose
    `ref_cnt` became 0 without a mark is no victim until it is marked.
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
        if key in self.blocks:
            raise already_resident(key)
        self.blocks[key] = block
        if block.ref_cnt == 0:
            self._clock += 1
            self.evictable_blocks[key] = self._clock

    def remove(self, key: OffloadKey) -> None:
        if key not in self.blocks:
            raise not_resident("remove", key)
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
        blocks = self.blocks
        for key in victims:
            if blocks[key].ref_cnt != 0:
                raise PolicyMisuse("evict", key, f"is listed with ref_cnt {blocks[key].ref_cnt}", _REMEDY_FOR_REF_CNT)
        for key in victims:
            self._leave(key)
        pop = self.blocks.pop
        return [(key, pop(key)) for key in victims]

    def clear(self) -> None:
        self.blocks.clear()
        self.evictable_blocks.clear()
        self._departed = None

    def mark_evictable(self, key: OffloadKey) -> None:
        try:
            in_use = self.blocks[key].ref_cnt != 0
        except KeyError:
            raise _mismatched(key, "is not resident") from None
        if in_use or key in self.evictable_blocks:
            raise _mismatched(key, "is in use" if in_use else "is listed as evictable already")
        self._clock += 1
        self.evictable_blocks[key] = self._clock

    def mark_non_evictable(self, key: OffloadKey) -> None:
        try:
            moved = self.evictable_blocks.pop(key)
        except KeyError:
            raise MismatchedMark("mark_non_evictable", key, "is not listed as evictable", _REMEDY_FOR_UNMARK) from None
        if self._departed is not None:
            self._departed.setdefault(key, moved)

    # For remove and evict: they are no marks, and do not change when a subclass overrides the marks.
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


def _mismatched(key: OffloadKey, problem: str) -> MismatchedMark:
    return MismatchedMark("mark_evictable", key, problem, "mark a resident block once, when its ref_cnt has become 0")
