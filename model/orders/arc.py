"""Adaptive replacement (ARC), in the three forms that were published."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Collection, Iterable, Sequence
from typing import Any, ClassVar, Self

from attrs import define, field

from evictable.model.calls import Key
from evictable.model.orders.base import Order
from evictable.model.orders.ranked import RankedKeys
from evictable.model.requests import Requests


@define
class Arc(Order):
    """vLLM 0.30, and the project's own.

    T1 holds the keys seen once, T2 those seen again; B1 and B2 remember keys evicted from them. ``target`` is the
    size that T1 should have. Ghosts that are asked for again move the target.
    """

    name = "arc"
    heeds_marks = False
    falls_back: ClassVar[bool] = True
    """Whether T1 gives a victim below its target when T2 has none."""

    capacity: int = 0
    target: float = 0.0
    t1: RankedKeys = field(factory=RankedKeys)
    t2: RankedKeys = field(factory=RankedKeys)
    b1: OrderedDict[Key, None] = field(factory=OrderedDict)
    b2: OrderedDict[Key, None] = field(factory=OrderedDict)
    _pending: set[Key] = field(factory=set)
    _next: int = 0

    @classmethod
    def of_capacity(cls, capacity: int) -> Self:
        return cls(capacity=capacity)

    def inserted(self, key: Key, request: str | None = None) -> None:
        self._append(self.t1, key)
        self._pending.add(key)
        self.b1.pop(key, None)
        self.b2.pop(key, None)

    def idle(self, key: Key) -> None:
        self._pending.discard(key)
        self._holder(key).idle(key)

    def busy(self, key: Key) -> None:
        self._holder(key).busy(key)

    def removed(self, key: Key) -> None:
        self._pending.discard(key)
        self._holder(key).removed(key)

    def evicted(self, keys: Sequence[Key]) -> None:
        for key in keys:
            ghosts = self.b1 if key in self.t1.ranks else self.b2
            self._holder(key).removed(key)
            ghosts[key] = None
        for ghosts in (self.b1, self.b2):
            while len(ghosts) > self.capacity:
                ghosts.popitem(last=False)

    def touched(self, keys: Sequence[Key]) -> None:
        for key in reversed(keys):
            if key in self.t1.ranks:
                if key in self._pending:  # not really used twice: it was just offered
                    self._append(self.t1, key)
                else:
                    self._promote(key)
            elif key in self.t2.ranks:
                self._append(self.t2, key)
            else:
                self._adapt(key)

    def cleared(self) -> None:
        self.t1.cleared()
        self.t2.cleared()
        self.b1.clear()
        self.b2.clear()
        self._pending.clear()
        self.target = 0.0

    def num_idle(self) -> int:
        return self.t1.num_idle() + self.t2.num_idle()

    def is_idle(self, key: Key) -> bool:
        return self.t1.is_idle(key) or self.t2.is_idle(key)

    def victims(self, n: int, protected: Collection[Key]) -> list[Key] | None:
        from_t1 = iter(self.t1.first(n, protected))
        from_t2 = iter(self.t2.first(n, protected))
        size = len(self.t1.ranks)
        chosen: list[Key] = []
        for _ in range(n):
            victim = next(from_t1, None) if size >= int(self.target) else None
            in_t1 = victim is not None
            if victim is None:
                victim = next(from_t2, None)
            if victim is None and self.falls_back:
                victim = next(from_t1, None)
                in_t1 = True
            if victim is None:
                return None
            size -= in_t1
            chosen.append(victim)
        return chosen

    def idle_keys(self) -> Iterable[Key]:
        return (*self.t1.idle_keys(), *self.t2.idle_keys())

    def state(self) -> Any:
        lists = (self.t1.in_order(), self.t2.in_order(), tuple(self.b1), tuple(self.b2))
        return (*lists, self.target)

    def _holder(self, key: Key) -> RankedKeys:
        return self.t1 if key in self.t1.ranks else self.t2

    def _append(self, keys: RankedKeys, key: Key) -> None:
        self._next += 1
        keys.rank(key, self._next)

    def _promote(self, key: Key) -> None:
        was_idle = self.t1.is_idle(key)
        self.t1.removed(key)
        self._append(self.t2, key)
        if was_idle:
            self.t2.idle(key)

    def _adapt(self, key: Key) -> None:
        """A ghost is asked for again: its list deserved more room."""
        if key in self.b1:
            self.target = min(self.target + max(1, len(self.b2) / len(self.b1)), self.capacity)
            self.b1.move_to_end(key)
        elif key in self.b2:
            self.target = max(self.target - max(1, len(self.b1) / len(self.b2)), 0)
            self.b2.move_to_end(key)


@define
class ArcNoFallback(Arc):
    """vLLM to 0.29: when T1 is below its target and T2 has no victim, there is none."""

    name = "arc-no-fallback"
    falls_back = False


@define
class ArcRequest(Arc):
    """vLLM from 0.31 on: a request is one access.

    New keys of an offer move the target before they are inserted, once a request and also when the offer is
    refused. When the request finishes, keys that it reused are promoted, and keys that it only inserted move to
    the end of their list.
    """

    name = "arc-request"
    by_request = True

    _requests: Requests = field(factory=Requests)

    def announced(self, request: str | None) -> None:
        self._requests.announced(request)

    def placed(self, request: str | None, keys: Sequence[Key], positions: Sequence[int | None] | None) -> None:
        self._requests.place(request, keys, positions)

    def offered(self, request: str | None, offer: Sequence[Key], new: Collection[Key], ready: Collection[Key]) -> None:
        for key in reversed(self._requests.missed(request, (key for key in offer if key in new))):
            self._adapt(key)
        self._requests.see(request, (key for key in offer if key in new or key in ready), ready)

    def inserted(self, key: Key, request: str | None = None) -> None:
        Arc.inserted(self, key, request)
        self._requests.inserted(request, key)

    def loaded(self, request: str | None, keys: Sequence[Key]) -> None:
        self._requests.see(request, keys, keys)

    def finished(self, request: str | None) -> None:
        record = self._requests.finished(request)
        if record is None:
            return
        for key in reversed(self._requests.in_prefix_order(request, record)):
            if key in record.inserted and key not in record.reused:
                if key in self.t1.ranks or key in self.t2.ranks:
                    self._append(self._holder(key), key)
            elif key in record.reused:
                if key in self.t1.ranks:
                    self._promote(key)
                elif key in self.t2.ranks:
                    self._append(self.t2, key)

    def cleared(self) -> None:
        Arc.cleared(self)
        self._requests.cleared()
