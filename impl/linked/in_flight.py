"""Transfers in flight, by request: which blocks a completion may name, and how often."""

from __future__ import annotations

from evictable.impl.linked.slots import Slot

Counts = dict[Slot, int]
_MOST_PREPARATIONS = 32
"""Of one request, before they are merged: a completion is compared with each."""


class InFlight:
    """The stores, or the loads, that were prepared and have not ended.

    A completion nearly always names what one preparation has named, in the same order. So a preparation is kept as
    the list of its slots, and comparing two lists settles the whole batch. For any other completion the lists of that
    request are merged into counts, which stay until all its transfers have ended; each slot is merged once at most.
    """

    __slots__ = ("_counts", "_preparations")

    def __init__(self) -> None:
        # Of each request that has any, in one of the two: its preparations, or how often each slot is left.
        self._preparations: dict[str, list[list[Slot]]] = {}
        self._counts: dict[str, Counts] = {}

    def begin(self, request: str, slots: list[Slot]) -> None:
        """`slots`, at least one, once for each occurrence. Keeps the list."""
        preparations = self._preparations.get(request)
        if preparations is not None and len(preparations) < _MOST_PREPARATIONS:
            preparations.append(slots)
        elif preparations is None and request not in self._counts:
            self._preparations[request] = [slots]
        else:
            _add(self.counts(request), slots)

    def take(self, request: str, slots: list[Slot]) -> bool:
        """End `slots` if they are exactly one preparation of that request; else nothing happens, and `counts` tells."""
        preparations = self._preparations.get(request)
        if preparations is None:
            return False
        try:
            preparations.remove(slots)
        except ValueError:
            return False
        if not preparations:
            del self._preparations[request]
        return True

    def counts(self, request: str) -> Counts:
        """How often each slot can be completed."""
        counts = self._counts.get(request)
        if counts is None:
            counts = {}
            for slots in self._preparations.get(request, ()):
                _add(counts, slots)
            if counts:
                self._counts[request] = counts
                del self._preparations[request]
        return counts

    def end(self, request: str, slots: list[Slot]) -> None:
        """`slots` have ended, once for each occurrence, and `counts` has said that they are in flight."""
        if self.take(request, slots):
            return
        counts = self.counts(request)
        for slot in slots:
            left = counts[slot] - 1
            if left:
                counts[slot] = left
            else:
                del counts[slot]
        if not counts:
            del self._counts[request]

    def clear(self) -> None:
        self._preparations.clear()
        self._counts.clear()


def _add(counts: Counts, slots: list[Slot]) -> None:
    for slot in slots:
        counts[slot] = counts.get(slot, 0) + 1
