"""The built-in manager on flat lists as a subject: its inside is slots and links, not a policy."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from typing import Any

import evictable.impl
from evictable.impl.linked.arc import RETURNED
from evictable.model.calls import Key
from evictable.model.snapshot import Snapshot
from evictable.specs.errors import UsageError
from evictable.specs.subjects.base import Setup, Subject, SubjectKind
from evictable.specs.subjects.builtin import PROFILES, construct
from evictable.specs.subjects.keys import KeyTable
from evictable.specs.subjects.managers import Lens, ManagerSubject

_WALKED = 4096
"""Slots up to which every snapshot walks the whole order. In larger caches, what a snapshot of named keys says of
their place is read from their neighbours alone, which full snapshots make up for."""


class LinkedLens(Lens):
    """Reads the lists: what is evictable is what an eviction would come to, whatever the reference counts say."""

    def _find_lists(self) -> None:
        self._is_arc = hasattr(self._manager._slots, "t1")

    @property
    def _slots(self) -> Any:
        return self._manager._slots

    def look(self, table: KeyTable, keys: Collection[Key] | None) -> Snapshot:
        manager, slots = self._manager, self._slots
        decode, index = table.decode, slots.index
        if keys is None:
            found = {decode(raw): slot for raw, slot in index.items()}
        else:
            found = {key: index[raw] for key in keys if (raw := table.encode(key)) in index}
        snapshot = Snapshot(
            ref_cnt={key: slots.ref_cnt[slot] for key, slot in found.items()},
            slots=found,
            evictable=None,
            num_resident=len(index),
            num_evictable=manager._num_evictable_cache_blocks,
            num_pending=manager._num_write_pending_blocks,
            num_free=len(manager._free_list) + manager._num_blocks - manager._num_allocated_blocks,
            num_events=None if manager.events is None else len(manager.events),
        )
        if keys is None:
            owner = slots.owner
            snapshot.full = True
            snapshot.evictable = tuple([decode(owner[slot]) for slot in self._reached()])
            snapshot.free = tuple(manager._free_list)
            snapshot.handed_out = manager._num_allocated_blocks
            snapshot.order = self._state(decode)
            if manager.counts is not None:
                snapshot.tracker = {decode(raw): count for raw, count in manager.counts.items()}
        else:
            reached = self._reached() if slots.capacity <= _WALKED else filter(self._seems_reached, found.values())
            evictable = set(reached)
            snapshot.evictable = {key for key, slot in found.items() if slot in evictable}
        return snapshot

    def _reached(self) -> list[int]:
        """The slots that evictions would take, in their order; those of ARC's T1 before those of T2."""
        slots = self._slots
        if not self._is_arc:
            return list(self._linked(slots.capacity))
        reached: list[int] = []
        for end in (slots.t1, slots.t2):
            for number, slot in sorted(slots.returned[end]):
                if slots.next[slot] == RETURNED and slots.previous[slot] == number and slots.ref_cnt[slot] == 0:
                    reached.append(slot)
            reached += [slot for slot in self._linked(end) if slots.ref_cnt[slot] == 0]
        return reached

    def _linked(self, end: int) -> Iterator[int]:
        """What the links lead to, once around: a link that leads astray ends the walk."""
        slots = self._slots
        slot = slots.next[end]
        for _ in range(slots.capacity + 1):
            if not 0 <= slot < slots.capacity:
                break
            yield slot
            slot = slots.next[slot]

    def _seems_reached(self, slot: int) -> bool:
        slots = self._slots
        if slots.ref_cnt[slot] != 0:
            return False
        ahead = slots.next[slot]
        return ahead < 0 or bool(slots.previous[ahead] == slot and slots.next[slots.previous[slot]] == slot)

    def _state(self, decode: Callable[[bytes], Key]) -> Any:
        slots = self._slots
        if not self._is_arc:
            return tuple([decode(slots.owner[slot]) for slot in self._reached()])
        parts = tuple(tuple([decode(slots.owner[slot]) for slot in self._part(end)]) for end in (slots.t1, slots.t2))
        ghosts = tuple(tuple([decode(raw) for raw in part]) for part in (slots.b1, slots.b2))
        return (*parts, *ghosts, slots.target)

    def _part(self, end: int) -> list[int]:
        """T1 or T2: what has a number precedes what is linked."""
        slots = self._slots
        of_part = [slot for slot in slots.index.values() if slots.capacity + slots.in_t2[slot] == end]
        numbered = [slot for slot in of_part if slots.next[slot] < 0]
        return [*sorted(numbered, key=slots.previous.__getitem__), *self._linked(end)]


class LinkedSubject(ManagerSubject):
    lens = LinkedLens


def kind_of(name: str, impl: Any) -> SubjectKind:
    """The subject that the linked manager of ``impl`` is: `evictable.impl`, or a copy of it with a defect."""

    def make(setup: Setup) -> Subject:
        if setup.tiers:
            raise UsageError(f"{name}: it is no primary tier; leave out --tiers, or check impl")
        return LinkedSubject(construct(name, impl.LinkedOffloadingManager, setup), impl.ReqContext)

    return SubjectKind(name, make, profile=PROFILES.__getitem__, tickets=True, tiers=False)


LINKED = kind_of("impl:linked", evictable.impl)
