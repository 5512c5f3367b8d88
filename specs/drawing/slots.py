"""Slots and their owners."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterator

from evictable.model.calls import Key
from evictable.model.manager import Manager
from evictable.model.snapshot import Snapshot
from evictable.specs.drawing.drawing import Slot

MOST_SLOTS = 32
"""Of a larger cache only the slots of the drawn keys are shown."""


def slots_of(model: Manager, shown: Snapshot, keys: Collection[Key], *, owners: bool) -> tuple[Slot, ...]:
    """The slots as ``shown``, with the transfers that the model knows, if ``owners`` are known."""
    if shown.slots is None:
        return ()
    users = _users(model) if owners else {}
    holders: dict[int, list[Key]] = defaultdict(list)
    for key, slot in shown.slots.items():
        holders[slot].append(key)
    if model.capacity <= MOST_SLOTS:
        numbers = sorted({*range(model.capacity), *holders, *users})
    else:
        numbers = sorted({shown.slots[key] for key in keys if key in shown.slots})
    return tuple(
        Slot(number, tuple(holders.get(number, ())), _state(number, holders, shown), tuple(users.get(number, ())))
        for number in numbers
    )


def _state(number: int, holders: dict[int, list[Key]], shown: Snapshot) -> str:
    if number in holders:
        return "taken"
    if shown.handed_out is not None and shown.free is not None:
        if number >= shown.handed_out:
            return "unused"
        return "free" if number in shown.free else "lost"
    return "free"


def _users(model: Manager) -> dict[int, list[str]]:
    users: dict[int, list[str]] = defaultdict(list)
    for slot, who in _transfers(model):
        users[slot].append(who)
    return users


def _transfers(model: Manager) -> Iterator[tuple[int, str]]:
    for key, owner in model.stores.items():
        yield model.slots[key], f"{owner} writes {key}"
    for (owner, key), times in model.loads.items():
        if key in model.slots:
            yield model.slots[key], f"{owner} reads {key}" + (f" {times} times" if times > 1 else "")
