"""What an eviction order on flat lists answers to its manager."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection
from typing import Any, ClassVar

from evictable.impl.base import OffloadKey

Slot = int
"""A block id, 0 .. capacity - 1. What is known of a block stands at this place of each list."""

_NOBODY = OffloadKey(b"")


class Slots(ABC):
    """The blocks of a cache, and the order in which idle ones are given up.

    `index` finds the slot of a resident key; `owner`, `ref_cnt` and the links of the order are lists indexed by
    slot. They are as long as the cache from the start, so that no call pays for their growth, and hold the
    very integers that `index` holds, so that a link costs 8 bytes.

    Methods take a whole batch, because a call for each key would cost more than what it does. The manager has checked
    the batch; unless a method says otherwise it cannot fail.
    """

    num_sentinels: ClassVar[int]
    """Places behind the last slot, where the ends of the order's lists are linked."""

    def __init__(self, capacity: int) -> None:
        self.capacity = capacity
        self.index: dict[OffloadKey, Slot] = {}
        self.owner = [_NOBODY] * capacity
        length = capacity + self.num_sentinels
        # -1 while the store is in flight and of free slots; the sentinels are never idle.
        self.ref_cnt = [-1] * length
        self.next: list[Slot] = [capacity] * length
        self.previous: list[Slot] = [capacity] * length

    @abstractmethod
    def touch(self, keys: list[OffloadKey]) -> None:
        """Note a use of the keys; those that are not resident are passed over."""

    @abstractmethod
    def pin(self, slots: list[Slot]) -> int:
        """One pin more for each occurrence. Answers how many were idle; -1, and no change, if any is pending."""

    @abstractmethod
    def unpin(self, slots: list[Slot]) -> int:
        """One pin less for each occurrence. Answers how many are idle now."""

    @abstractmethod
    def choose(self, n: int, protected: Collection[Slot]) -> tuple[list[Slot], Any]:
        """The first `n` idle slots that are not in `protected`, of which there are as many, and a note.

        Nothing has happened to them when it fails. The note is for `give_up` or `spare`, before any other method.
        """

    @abstractmethod
    def give_up(self, victims: list[Slot], note: Any) -> None:
        """What was chosen leaves the order. Whose it was is still in `owner`."""

    def spare(self, note: Any) -> None:
        """What was chosen stays after all, where it was."""
        return

    @abstractmethod
    def insert(self, slots: list[Slot], keys: list[OffloadKey]) -> None:
        """The stores of these keys begin."""

    @abstractmethod
    def commit(self, slots: list[Slot]) -> None:
        """Their stores have ended: they are idle now."""

    @abstractmethod
    def remove(self, slots: list[Slot]) -> None:
        """Their stores have failed: they leave the order."""

    def clear(self) -> None:
        """Forget all blocks."""
        self.owner = [_NOBODY] * self.capacity
        self.index.clear()
