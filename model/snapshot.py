"""What can be seen of a manager's inside, the model's and a subject's alike."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from attrs import define, field

from evictable.model.calls import Key


@define
class Snapshot:
    """The inside of a manager at one moment, of some keys or of all.

    A snapshot of named keys costs those keys; a ``full`` one names every resident key, and adds what only
    a walk can tell. A field that an implementation does not keep is ``None`` and is not judged.
    """

    ref_cnt: Mapping[Key, int]
    """Of the resident ones among the keys asked for."""
    slots: Mapping[Key, int] | None
    """The ``block_id`` of each of them."""
    evictable: Collection[Key] | None
    """Which of the keys asked for are in the evictable list; in eviction order when ``full``."""
    num_resident: int | None = None
    num_evictable: int | None = None
    """The counter, not the length of the list."""
    num_pending: int | None = None
    num_free: int | None = None
    """Slots that a store could take without evicting."""
    num_events: int | None = None
    """Events that wait for a drain."""
    full: bool = False
    free: tuple[int, ...] | None = field(default=None)
    """Full only: slots that were handed out and given back."""
    handed_out: int | None = None
    """Full only: slots ``0 .. handed_out - 1`` have been in use at some time since the last reset."""
    order: Any = None
    """Full only: everything that decides who is evicted next, in a form that compares."""

    tracker: Mapping[Key, int] | None = None
    """Full only: the counts of the admission tracker, the key that is pushed out next first."""

    def of(self, keys: Collection[Key]) -> Snapshot:
        """What a snapshot of ``keys`` would be, of a full one."""
        ref_cnt, slots, evictable = self.ref_cnt, self.slots, self.evictable
        return Snapshot(
            ref_cnt={key: ref_cnt[key] for key in keys if key in ref_cnt},
            slots=None if slots is None else {key: slots[key] for key in keys if key in slots},
            evictable=None if evictable is None else set(keys).intersection(evictable),
            num_resident=self.num_resident,
            num_evictable=self.num_evictable,
            num_pending=self.num_pending,
            num_free=self.num_free,
            num_events=self.num_events,
        )

    def agrees_with(self, expected: Snapshot) -> bool:
        """Whether nothing that both know of differs. ``order`` and ``num_events`` have no counterpart."""
        return (
            self.ref_cnt == expected.ref_cnt
            and (self.slots is None or self.slots == expected.slots)
            and (self.evictable is None or expected.evictable is None or self._same_evictable(expected.evictable))
            and (self.num_evictable is None or self.num_evictable == expected.num_evictable)
            and (self.num_resident is None or self.num_resident == expected.num_resident)
            and (self.num_pending is None or self.num_pending == expected.num_pending)
            and (self.num_free is None or self.num_free == expected.num_free)
            and self.accounts_for_slots()
        )

    def _same_evictable(self, expected: Collection[Key]) -> bool:
        assert self.evictable is not None
        return len(self.evictable) == len(expected) and set(self.evictable) == set(expected)

    def accounts_for_slots(self) -> bool:
        """Whether each slot that was handed out is taken or free, once; so, too, where it is not shown."""
        if self.free is None or self.slots is None or self.handed_out is None:
            return True
        shown = sorted([*self.slots.values(), *self.free])
        return len(shown) == self.handed_out and shown == list(range(len(shown)))


def left_out(order: Any, keys: Collection[Key]) -> Any:
    """An order as in `Snapshot.order`, a tuple of keys or of such tuples and numbers, without ``keys``."""
    if not keys or not isinstance(order, tuple):
        return order
    return tuple(left_out(part, keys) for part in order if isinstance(part, (tuple, float)) or part not in keys)
