"""Transfers in flight, by request: which blocks a completion may name, and how often."""

from __future__ import annotations

from evictable.impl.linked.slots import Slot

_MOST_BATCHES = 32
"""Of one request, before they are merged: a completion is compared with each."""


class InFlight:
    """The stores, or the loads, that were prepared and have not ended.

    A completion nearly always names what one preparation has named, in the same order. So a preparation is kept as
    the list of its slots, and comparing two lists settles the whole batch. For any other completion the lists of that
    request are merged into counts, which stay until all its transfers have ended; each slot is merged once at most.
    """

    __slots__ = ("_of",)

    def __init__(self) -> None:
        # Request id -> its preparations, or how often each slot is left. No entry is empty.
        self._of: dict[str, list[list[Slot]] | dict[Slot, int]] = {}

    def begin(self, request: str, slots: list[Slot]) -> None:
        """`slots`, at least one, once for each occurrence. Keeps the list."""
        held = self._of.get(request)
        if held is None:
            self._of[request] = [slots]
        elif isinstance(held, list) and len(held) < _MOST_BATCHES:
            held.append(slots)
        else:
            counts = self.counts(request)
            for slot in slots:
                counts[slot] = counts.get(slot, 0) + 1

    def take(self, request: str, slots: list[Slot]) -> bool:
        """End `slots` if they are exactly one preparation of that request; else nothing happens, and `counts` tells."""
        held = self._of.get(request)
        if not isinstance(held, list) or slots not in held:
            return False
        if len(held) == 1:
            del self._of[request]
        else:
            held.remove(slots)
        return True

    def counts(self, request: str) -> dict[Slot, int]:
        """How often each slot can be completed."""
        held = self._of.get(request)
        if held is None:
            return {}
        if isinstance(held, dict):
            return held
        counts: dict[Slot, int] = {}
        for slots in held:
            for slot in slots:
                counts[slot] = counts.get(slot, 0) + 1
        self._of[request] = counts
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
            del self._of[request]

    def clear(self) -> None:
        self._of.clear()
