"""Least recently used first, as links between slots (vLLM PR #46216's order)."""

from __future__ import annotations

from collections.abc import Collection

from evictable.impl.base import OffloadKey
from evictable.impl.linked.slots import Slot, Slots


class LruSlots(Slots):
    """The order `lru-evictable`: a circle of the idle slots, whose sentinel stands before the next victim.

    A slot is linked exactly while its `ref_cnt` is 0, so a list of what is evictable is all that an eviction sees: it
    walks as many links as it takes, besides those of its own offer. Links of other slots mean nothing.
    """

    num_sentinels = 1

    def touch(self, keys: list[OffloadKey]) -> None:
        ref_cnt, following, previous = self.ref_cnt, self.next, self.previous
        end = self.capacity
        last = previous[end]
        # Backwards, so that the head of a prefix outlives its tail, which is useless without it.
        for slot in map(self.index.get, reversed(keys)):
            if slot is None or ref_cnt[slot] or slot == last:
                continue
            before = previous[slot]
            after = following[slot]
            following[before] = after
            previous[after] = before
            following[last] = slot
            previous[slot] = last
            last = slot
        following[last] = end
        previous[end] = last

    def pin(self, slots: list[Slot]) -> int:
        ref_cnt, following, previous = self.ref_cnt, self.next, self.previous
        num_idle = 0
        for slot in slots:
            count = ref_cnt[slot]
            if not count:
                before = previous[slot]
                after = following[slot]
                following[before] = after
                previous[after] = before
                num_idle += 1
            elif count < 0:
                self._take_pins_back(slots[: slots.index(slot)])
                return -1
            ref_cnt[slot] = count + 1
        return num_idle

    def _take_pins_back(self, slots: list[Slot]) -> None:
        """The latest pins. A slot that was unlinked last still knows its neighbours, and they are neighbours now."""
        for slot in reversed(slots):
            self.ref_cnt[slot] -= 1
            if not self.ref_cnt[slot]:
                self.next[self.previous[slot]] = self.previous[self.next[slot]] = slot

    def unpin(self, slots: list[Slot]) -> int:
        ref_cnt, following, previous = self.ref_cnt, self.next, self.previous
        end = self.capacity
        last = previous[end]
        num_idle = 0
        for slot in slots:
            count = ref_cnt[slot] - 1
            ref_cnt[slot] = count
            if not count:
                following[last] = slot
                previous[slot] = last
                last = slot
                num_idle += 1
        following[last] = end
        previous[end] = last
        return num_idle

    def choose(self, n: int, protected: Collection[Slot]) -> tuple[list[Slot], bool]:
        """The note is whether nothing was passed over."""
        following = self.next
        slot = self.capacity
        victims = []
        if not protected:
            for _ in range(n):
                slot = following[slot]
                victims.append(slot)
            return victims, True
        while len(victims) < n:
            slot = following[slot]
            if slot not in protected:
                victims.append(slot)
        return victims, False

    def give_up(self, victims: list[Slot], note: bool) -> None:
        following, previous = self.next, self.previous
        if note:
            end = self.capacity
            first = following[victims[-1]]
            following[end] = first
            previous[first] = end
            return
        for slot in victims:
            before = previous[slot]
            after = following[slot]
            following[before] = after
            previous[after] = before

    def insert(self, slots: list[Slot], keys: list[OffloadKey]) -> None:
        owner, ref_cnt = self.owner, self.ref_cnt
        for slot, key in zip(slots, keys):  # noqa: B905  (of one length: saying so takes time)
            owner[slot] = key
            ref_cnt[slot] = -1

    def commit(self, slots: list[Slot]) -> None:
        ref_cnt, following, previous = self.ref_cnt, self.next, self.previous
        end = self.capacity
        last = previous[end]
        for slot in slots:
            ref_cnt[slot] = 0
            following[last] = slot
            previous[slot] = last
            last = slot
        following[last] = end
        previous[end] = last

    def remove(self, slots: list[Slot]) -> None:
        pass  # what is pending is not linked

    def clear(self) -> None:
        Slots.clear(self)
        self.next[self.capacity] = self.previous[self.capacity] = self.capacity
