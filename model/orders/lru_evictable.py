"""vLLM 0.24 to 0.30, pull request #46216, and the project's default."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Collection, Iterable, Sequence
from typing import Any

from attrs import define, field

from evictable.model.calls import Key
from evictable.model.orders.base import Order


@define
class LruEvictable(Order):
    """A list of the idle keys alone.

    A key joins at the end when its ``ref_cnt`` becomes 0; a touch, walking the keys backwards, moves those
    in the list to the end; pinned and pending keys are not touched.
    """

    name = "lru-evictable"

    _evictable: OrderedDict[Key, None] = field(factory=OrderedDict)

    def inserted(self, key: Key, request: str | None = None) -> None:
        pass

    def idle(self, key: Key) -> None:
        self._evictable[key] = None

    def busy(self, key: Key) -> None:
        del self._evictable[key]

    def removed(self, key: Key) -> None:
        self._evictable.pop(key, None)

    def touched(self, keys: Sequence[Key]) -> None:
        for key in reversed(keys):
            if key in self._evictable:
                self._evictable.move_to_end(key)

    def cleared(self) -> None:
        self._evictable.clear()

    def num_idle(self) -> int:
        return len(self._evictable)

    def is_idle(self, key: Key) -> bool:
        return key in self._evictable

    def victims(self, n: int, protected: Collection[Key]) -> list[Key] | None:
        chosen: list[Key] = []
        for key in self._evictable:
            if len(chosen) == n:
                break
            if key not in protected:
                chosen.append(key)
        return chosen if len(chosen) == n else None

    def state(self) -> Any:
        return tuple(self._evictable)

    def idle_keys(self) -> Iterable[Key]:
        return tuple(self._evictable)
