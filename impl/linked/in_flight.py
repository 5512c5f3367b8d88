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

    def holds(self, request: str, slots: list[Slot]) -> bool:
        """Whether exactly `slots`, at least one, are known to be one preparation of that request."""
        held = self._of.get(request)
        return isinstance(held, list) and slots in held

    def counts(self, request: str) -> dict[Slot, int]:
        """How often each slot can be completed; to be read only."""
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
        """`slots` have ended, once for each occurrence. They are in flight: `holds` or `counts` has said so."""
        held = self._of[request]
        if isinstance(held, list):
            held.remove(slots)
        else:
            for slot in slots:
                left = held[slot] - 1
                if left:
                    held[slot] = left
                else:
                    del held[slot]
        if not held:
            del self._of[request]

    def clear(self) -> None:
        self._of.clear()
