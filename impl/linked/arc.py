"""Adaptive replacement (ARC) as links between slots, where a block in use is passed over once."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Collection, Sequence
from heapq import heappop, heappush

from evictable.impl.base import OffloadKey
from evictable.impl.linked.slots import Slot, Slots

# In `next`, where no link is: the block has been passed over by an eviction, and `previous` holds its number.
PASSED = -1
RETURNED = -2  # and it is idle, with an entry in the heap

_Entry = tuple[int, Slot]


class ArcSlots(Slots):
    """The order `arc` (vLLM 0.30, see `ARCCachePolicy`), whose blocks keep their place while they are in use.

    T1 and T2 are circles of slots in the order of their last move, idle or not: pinning moves nothing. An eviction
    that comes to a block that it may not take unlinks it and gives it the next number. So whatever has a number
    precedes all that is linked in its part, in the order of the numbers; it joins a heap when it is idle again, and
    the heap is asked before the links. A touch links it anew, and its entry in the heap is then out of date.

    An eviction of n blocks costs O(n log m) amortised, m being the idle blocks with a number: each further step
    removes a link, and only a touch or a store makes one. A pin costs O(1), an unpin O(1), or O(log m) with a number.
    The links of a part are walked only when its heap is used up but for the offer, so a heap holds no more entries
    than there were blocks at the latest such walk.
    """

    num_sentinels = 2

    def __init__(self, capacity: int) -> None:
        super().__init__(capacity)
        self.t1, self.t2 = capacity, capacity + 1
        # Of each slot 0 or 1, which added to `capacity` gives the sentinel of its part.
        self.in_t2 = bytearray(capacity)
        self.b1: OrderedDict[OffloadKey, None] = OrderedDict()
        self.b2: OrderedDict[OffloadKey, None] = OrderedDict()
        self.returned: dict[Slot, list[_Entry]] = {}
        self._forget_order()

    def _forget_order(self) -> None:
        self.target = 0.0
        self.num_t1 = 0
        self.num_passed = 0
        for end in (self.t1, self.t2):
            self.next[end] = self.previous[end] = end
            self.returned[end] = []
        self.b1.clear()
        self.b2.clear()

    def clear(self) -> None:
        Slots.clear(self)
        self._forget_order()

    def touch(self, keys: list[OffloadKey]) -> None:
        following, previous, in_t2, ref_cnt = self.next, self.previous, self.in_t2, self.ref_cnt
        t2 = self.t2
        last = previous[t2]
        missed = False
        # Backwards, so that the head of a prefix outlives its tail, which is useless without it.
        for slot in map(self.index.get, reversed(keys)):
            if slot is None:
                missed = True
                continue
            if slot == last:
                continue
            after = following[slot]
            if after >= 0:
                before = previous[slot]
                following[before] = after
                previous[after] = before
            if not in_t2[slot]:
                if ref_cnt[slot] < 0:  # a pending block was only just offered: that is no second use
                    self._append_to_t1(slot)
                    continue
                in_t2[slot] = 1
                self.num_t1 -= 1
            following[last] = slot
            previous[slot] = last
            last = slot
        following[last] = t2
        previous[t2] = last
        if missed:
            self._touch_ghosts(keys)

    def _append_to_t1(self, slot: Slot) -> None:
        end = self.t1
        last = self.previous[end]
        self.next[last] = self.previous[end] = slot
        self.previous[slot] = last
        self.next[slot] = end

    def _touch_ghosts(self, keys: list[OffloadKey]) -> None:
        """Keys are asked for again that were evicted too early: their part deserved more room."""
        b1, b2 = self.b1, self.b2
        for key in reversed(keys):
            if key in b1:
                self.target = min(self.target + max(1.0, len(b2) / len(b1)), float(self.capacity))
                b1.move_to_end(key)
            elif key in b2:
                self.target = max(self.target - max(1.0, len(b1) / len(b2)), 0.0)
                b2.move_to_end(key)

    def pin(self, slots: list[Slot]) -> int:
        ref_cnt = self.ref_cnt
        num_idle = 0
        for slot in slots:
            count = ref_cnt[slot]
            if not count:
                num_idle += 1
            elif count < 0:
                for pinned in slots[: slots.index(slot)]:
                    ref_cnt[pinned] -= 1
                return -1
            ref_cnt[slot] = count + 1
        return num_idle

    def unpin(self, slots: list[Slot]) -> int:
        ref_cnt, following = self.ref_cnt, self.next
        num_idle = 0
        for slot in slots:
            count = ref_cnt[slot] - 1
            ref_cnt[slot] = count
            if not count:
                num_idle += 1
                if following[slot] == PASSED:
                    self._return(slot)
        return num_idle

    def _return(self, slot: Slot) -> None:
        """A block that was passed over is idle."""
        self.next[slot] = RETURNED
        heappush(self.returned[self.capacity + self.in_t2[slot]], (self.previous[slot], slot))

    def choose(self, n: int, protected: Collection[Slot]) -> tuple[list[Slot], list[_Walk]]:
        """The note is what was walked.

        T1 gives while it is not below its target, then T2, and T1 again when T2 has no more.
        """
        walks: list[_Walk] = []
        victims: list[Slot] = []
        from_t1 = min(n, max(0, self.num_t1 - int(self.target) + 1))
        try:
            if from_t1:
                walks.append(_Walk(self, self.t1))
                victims = walks[0].take(from_t1, protected)
            if len(victims) < n:
                walks.append(_Walk(self, self.t2))
                victims = victims + walks[-1].take(n - len(victims), protected)
            if len(victims) < n:
                if not from_t1:
                    walks.append(_Walk(self, self.t1))
                victims += walks[0 if from_t1 else 1].take(n - len(victims), protected)
            self._remember(walks)
        except BaseException:
            self.spare(walks)
            raise
        return victims, walks

    def _remember(self, walks: list[_Walk]) -> None:
        """The chosen become ghosts, behind those that there are."""
        owner = self.owner
        for walk in walks:
            ghosts = self.b1 if walk.end == self.t1 else self.b2
            for slot in walk.chosen:
                ghosts[owner[slot]] = None

    def spare(self, note: list[_Walk]) -> None:
        for walk in note:
            ghosts = self.b1 if walk.end == self.t1 else self.b2
            for slot in walk.chosen:
                ghosts.pop(self.owner[slot], None)
            for entry in (*walk.taken, *walk.protected):
                heappush(self.returned[walk.end], entry)

    def give_up(self, victims: list[Slot], note: list[_Walk]) -> None:
        for walk in note:
            # All that was walked over is unlinked: it is chosen, or has a number from now on.
            end = walk.end
            first = self.next[walk.at]
            self.next[end] = first
            self.previous[first] = end
            for slot in walk.passed:
                self._pass(slot)
            for entry in walk.protected:
                heappush(self.returned[end], entry)
            if end == self.t1:
                self.num_t1 -= len(walk.chosen)
        for ghosts in (self.b1, self.b2):
            while len(ghosts) > self.capacity:
                ghosts.popitem(last=False)

    def _pass(self, slot: Slot) -> None:
        self.num_passed += 1
        self.next[slot] = PASSED
        self.previous[slot] = self.num_passed
        if not self.ref_cnt[slot]:
            self._return(slot)

    def insert(self, slots: list[Slot], keys: list[OffloadKey]) -> None:
        owner, ref_cnt, following, previous, in_t2 = self.owner, self.ref_cnt, self.next, self.previous, self.in_t2
        end = self.t1
        last = previous[end]
        for slot, key in zip(slots, keys, strict=True):
            owner[slot] = key
            ref_cnt[slot] = -1
            in_t2[slot] = 0
            following[last] = slot
            previous[slot] = last
            last = slot
        following[last] = end
        previous[end] = last
        self.num_t1 += len(slots)
        b1, b2 = self.b1, self.b2
        for key in keys:
            if key in b1:
                del b1[key]
            elif key in b2:
                del b2[key]

    def commit(self, slots: list[Slot]) -> None:
        ref_cnt, following = self.ref_cnt, self.next
        for slot in slots:
            ref_cnt[slot] = 0
            if following[slot] == PASSED:
                self._return(slot)

    def remove(self, slots: list[Slot]) -> None:
        following, previous = self.next, self.previous
        for slot in slots:
            after = following[slot]
            if after >= 0:
                before = previous[slot]
                following[before] = after
                previous[after] = before
        self.num_t1 -= len(slots)  # what is pending was never used again


class _Walk:
    """Looks for victims in one part. Changes nothing but the heap, whose entries it keeps."""

    # Mostly there are none.
    passed: Sequence[Slot] = ()
    """Linked slots that may not be taken."""
    taken: Sequence[_Entry] = ()
    """Entries of the heap, of those chosen."""
    protected: Sequence[_Entry] = ()
    """Entries of the heap, of those that the offer protects."""

    def __init__(self, slots: ArcSlots, end: Slot) -> None:
        self._slots = slots
        self.end = end
        # The last slot that it has come to.
        self.at = end
        self.chosen: list[Slot] = []

    def take(self, n: int, protected: Collection[Slot]) -> list[Slot]:
        """The next `n` victims, or as many as there are."""
        slots = self._slots
        chosen = self._take_returned(n, protected) if slots.returned[self.end] else []
        passed = [*self.passed]
        ref_cnt, following, end = slots.ref_cnt, slots.next, self.end
        slot = self.at
        left = n - len(chosen)
        while left:
            ahead = following[slot]
            if ahead == end:
                break
            slot = ahead
            if ref_cnt[slot] or slot in protected:
                passed.append(slot)
            else:
                chosen.append(slot)
                left -= 1
        self.at = slot
        self.passed = passed
        self.chosen += chosen
        return chosen

    def _take_returned(self, n: int, protected: Collection[Slot]) -> list[Slot]:
        slots = self._slots
        heap = slots.returned[self.end]
        taken, kept = self.taken, self.protected = [*self.taken], [*self.protected]
        chosen: list[Slot] = []
        while heap and len(chosen) < n:
            entry = heappop(heap)
            number, slot = entry
            if slots.next[slot] != RETURNED or slots.previous[slot] != number:
                continue  # it was touched since, or given up
            if slots.ref_cnt[slot]:
                slots.next[slot] = PASSED  # pinned again: it comes back by itself
            elif slot in protected:
                kept.append(entry)
            else:
                taken.append(entry)
                chosen.append(slot)
        return chosen
