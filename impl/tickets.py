"""Tickets: which preparation a completion belongs to."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from evictable.impl.base import OffloadKey


class Ticket:
    """Stands for one preparation, of a store or of loads. Whoever carries it can end what it prepared, once.

    The manager answers with it (`CPULoadStoreSpec.ticket`), and a completion that carries it is told apart from one of
    an earlier preparation of the same key by the same request: completed before, given up, or forgotten in a reset.
    It knows what it has left by itself, so that a manager keeps no record of tickets.
    """

    __slots__ = ("_era", "_keys", "_left", "completion", "request")
    _left: Counter[OffloadKey]

    def __init__(self, completion: str, keys: tuple[OffloadKey, ...], request: str, era: object) -> None:
        """`completion` is the name of the call that it is for; `era` the time between two resets of one manager."""
        self.completion = completion
        self.request = request
        self._era = era
        self._keys = keys

    def uncovered(
        self, counts: Mapping[OffloadKey, int], completion: str, request: str, era: object
    ) -> OffloadKey | None:
        """The first key that it does not cover, named so many times in that completion; None if it covers all."""
        left = self._count()
        own = self._era is era and (self.completion, self.request) == (completion, request)
        return next((key for key, count in counts.items() if not own or left[key] < count), None)

    def complete(self, counts: Mapping[OffloadKey, int]) -> None:
        """What it covers has been completed."""
        self._count().subtract(counts)

    def _count(self) -> Counter[OffloadKey]:
        try:
            return self._left
        except AttributeError:  # most tickets are never asked
            self._left = Counter(self._keys)
            return self._left

    def __repr__(self) -> str:
        return f"<ticket for {self.completion} of request {self.request!r}: {dict(+self._count())}>"
