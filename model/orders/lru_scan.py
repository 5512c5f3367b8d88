"""vLLM up to 0.23: one list of all blocks."""

from __future__ import annotations

from attrs import define

from evictable.model.calls import Key
from evictable.model.orders.ranked import RankedOrder


@define
class LruScan(RankedOrder):
    """One list of all resident keys, of which the first idle ones go; a place in the list is a rank.

    A key joins at the end when its store begins; a touch, walking the keys backwards, moves every resident
    one to the end, also while it is pinned or pending; pinning changes nothing.
    """

    name = "lru-scan"
    heeds_marks = False

    def inserted(self, key: Key, request: str | None = None) -> None:
        self._rank_last(key)
