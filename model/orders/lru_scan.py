"""vLLM up to 0.23: one list of all blocks."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import Any

from attrs import define, field

from evictable.model.calls import Key
from evictable.model.orders.base import Order
from evictable.model.orders.ranked import RankedKeys


@define
class LruScan(Order):
    """One list of all resident keys, of which the first idle ones go.

    A key joins at the end when its store begins; a touch, walking the keys backwards, moves every resident
    one to the end, also while it is pinned or pending; pinning changes nothing.
    """

    name = "lru-scan"

    # The list is kept as numbers that only grow: a place in it is a rank.
    _keys: RankedKeys = field(factory=RankedKeys)
    _next: int = 0

    def inserted(self, key: Key, request: str | None = None) -> None:
        self._append(key)

    def idle(self, key: Key) -> None:
        self._keys.idle(key)

    def busy(self, key: Key) -> None:
        self._keys.busy(key)

    def removed(self, key: Key) -> None:
        self._keys.removed(key)

    def touched(self, keys: Sequence[Key]) -> None:
        for key in reversed(keys):
            if key in self._keys.ranks:
                self._append(key)

    def cleared(self) -> None:
        self._keys.cleared()

    def num_idle(self) -> int:
        return self._keys.num_idle()

    def is_idle(self, key: Key) -> bool:
        return self._keys.is_idle(key)

    def victims(self, n: int, protected: Collection[Key]) -> list[Key] | None:
        return self._keys.victims(n, protected)

    def state(self) -> Any:
        return self._keys.in_order()

    def idle_keys(self) -> Iterable[Key]:
        return self._keys.idle_keys()

    def _append(self, key: Key) -> None:
        self._next += 1
        self._keys.rank(key, self._next)
