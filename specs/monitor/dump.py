"""The latest calls of a watched manager as a trace, after calls that rebuild the state before them.

Rebuilt are who is resident, in which slot, being stored or with how many loads in flight; and whose those are, where
the latest calls end them. Not rebuilt: the order in which idle blocks would be evicted (ranks, ARC's lists, ghosts and
target), what an admission tracker counted, and events. So a trace that does not go back to an empty cache has the
profile `any`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

from attrs import evolve

from evictable.model import calls
from evictable.model.calls import Call, Key, Loaded, Outcome, Raised, Stored, plain_key
from evictable.model.lifecycle import IDLE, PENDING
from evictable.model.snapshot import Snapshot
from evictable.model.trace import Entry, Head, Trace
from evictable.specs.monitor.inside import Inside
from evictable.specs.subjects.keys import KeyTable

BEFORE = "before"
"""The request in whose name the state is rebuilt."""
BATCH = 1000
"""Keys of one call that rebuilds."""


def trace_of_notes(
    inside: Inside,
    subject: str,
    notes: Sequence[Any],
    ref: dict[Any, int],
    slot: dict[Any, int],
    law: str | None,
    *,
    complete: bool,
) -> Trace:
    """``ref`` and ``slot`` are the state after ``notes``, and are changed; ``complete``: it was empty before them."""
    if complete:
        ref, slot = {}, {}
    else:
        for note in reversed(notes):
            _go_back(note, ref, slot)
    known = {key: plain_key(key.hex()) for key in ref}
    latest = [_entry(note) for note in notes]
    entries = rebuilding(
        {known[key]: ref_cnt for key, ref_cnt in ref.items()},
        {known[key]: slot[key] for key in ref},
        [entry.call for entry in latest],
    )
    entries += latest
    manager = inside.manager
    threshold = max(getattr(manager, "store_threshold", 1), 1)
    head = Head(
        capacity=inside.capacity,
        subject=subject,
        policy=inside.policy,
        profile="any",  # the order is not known
        events=getattr(manager, "events", None) is not None,
        store_threshold=threshold,
        max_tracker_size=manager.max_tracker_size if threshold > 1 else None,
        law=law,
    )
    return Trace(head, tuple(entries))


def state_now(inside: Inside, *, with_slots: bool) -> Snapshot:
    """The whole state, under the names that keys have in traces; without order and events, which are not followed."""
    table = KeyTable()
    for raw in inside.state()[0]:
        table.encode(plain_key(raw.hex()))
    state = inside.lens.look(table, None)
    return evolve(
        state, slots=state.slots if with_slots else None, order=None, tracker=None, num_events=None, free=None
    )


def rebuilding(ref: dict[Key, int], slot: dict[Key, int] | None, following: Sequence[Call]) -> list[Entry]:
    """Calls that lead an empty cache to these ref counts, and where the slots are given, the answers that say so.

    What ``following`` completes without having prepared it is prepared in the name of the request that completes it,
    and its requests that began before are announced.
    """
    entries: list[Entry] = []

    def add(call: Call, outcome: Outcome) -> None:
        entries.append(Entry(call) if slot is None else Entry(call, outcome))

    def slots_of(keys: tuple[Key, ...]) -> tuple[int, ...]:
        return () if slot is None else tuple(slot[key] for key in keys)

    for request in (*([BEFORE] if ref else []), *_begun_before(following)):
        add(Call(calls.ON_NEW_REQUEST, request=request), None)
    enders = _enders(following)
    for batch in _batches(list(ref)):
        pending = [key for key in batch if ref[key] == PENDING]
        ready = tuple(key for key in batch if ref[key] >= IDLE)
        for owner, keys in _by_owner(pending, calls.PREPARE_STORE, enders).items():
            add(Call(calls.PREPARE_STORE, keys, owner), Stored(keys, slots_of(keys), ()))
        if ready:
            add(Call(calls.PREPARE_STORE, ready, BEFORE), Stored(ready, slots_of(ready), ()))
            add(Call(calls.COMPLETE_STORE, ready, BEFORE), None)
    for times in range(1, max(ref.values(), default=0) + 1):
        for batch in _batches([key for key in ref if ref[key] >= times]):
            for owner, keys in _by_owner(batch, calls.PREPARE_LOAD, enders).items():
                for key in keys:  # who loads has been told that it is there
                    add(Call(calls.LOOKUP, (key,), owner), calls.HIT)
                add(Call(calls.PREPARE_LOAD, keys, owner), Loaded(slots_of(keys)))
    return entries


_BEGINS = {calls.COMPLETE_STORE: calls.PREPARE_STORE, calls.COMPLETE_LOAD: calls.PREPARE_LOAD}
Enders = dict[tuple[str, Key], list[str | None]]


def _enders(following: Sequence[Call]) -> Enders:
    """Which requests complete what they have not prepared here, by how it is prepared and the key."""
    enders: Enders = {}
    prepared: Counter[tuple[str, str | None, Key]] = Counter()
    for call in following:
        for key in call.keys:
            if call.name in _BEGINS.values():
                prepared[call.name, call.request, key] += 1
            elif call.name in _BEGINS:
                begun = (_BEGINS[call.name], call.request, key)
                if prepared[begun]:
                    prepared[begun] -= 1
                else:
                    enders.setdefault((_BEGINS[call.name], key), []).append(call.request)
    return enders


def _by_owner(keys: Iterable[Key], begins: str, enders: Enders) -> dict[str | None, tuple[Key, ...]]:
    owned: dict[str | None, tuple[Key, ...]] = {}
    for key in keys:
        waiting = enders.get((begins, key))
        request = waiting.pop(0) if waiting else BEFORE
        owned[request] = (*owned.get(request, ()), key)
    return owned


def _begun_before(following: Sequence[Call]) -> list[str]:
    """The requests whose first call here is not their announcement."""
    met: dict[str, bool] = {}
    for call in following:
        if call.request is not None:
            met.setdefault(call.request, call.name == calls.ON_NEW_REQUEST)
    return [request for request, told in met.items() if not told]


def _batches(keys: list[Key]) -> Iterable[tuple[Key, ...]]:
    return (tuple(keys[at : at + BATCH]) for at in range(0, len(keys), BATCH))


def _go_back(note: Any, ref: dict[Any, int], slot: dict[Any, int]) -> None:
    """Undo one call on the state after it."""
    name, keys, _, outcome, undo = note
    if isinstance(undo, tuple) and name == calls.RESET_CACHE:
        for state, had in ((ref, undo[0]), (slot, undo[1])):
            state.clear()
            state.update(had)
    elif isinstance(undo, tuple):
        for key, (ref_cnt, held) in undo[1].items():
            ref.pop(key, None)
            slot.pop(key, None)
            if ref_cnt is not None:
                ref[key], slot[key] = ref_cnt, held
    elif isinstance(outcome, BaseException):
        return
    elif name == calls.PREPARE_STORE and outcome is not None:
        _take_back(outcome, undo, ref, slot)
    elif name == calls.COMPLETE_STORE:
        for place, key in enumerate(keys):
            ref[key] = PENDING
            if isinstance(undo, list):
                slot[key] = undo[place]
            elif key not in slot:  # it has left; at the level `counters` a completion too many may have named it
                slot[key] = _unused(slot)
    elif name in (calls.PREPARE_LOAD, calls.COMPLETE_LOAD):
        for key in keys:
            if key in ref:
                ref[key] = max(IDLE, ref[key] + (1 if name == calls.COMPLETE_LOAD else -1))


def _take_back(outcome: Any, freed: Sequence[int] | None, ref: dict[Any, int], slot: dict[Any, int]) -> None:
    """A store. Where it was not noted which slots were given up, they are taken to be those that it took."""
    for key in outcome.keys_to_store:
        ref.pop(key, None)
        slot.pop(key, None)
    likely = [one for one in _ids(outcome.store_spec) if one not in set(slot.values())] if freed is None else []
    for place, key in enumerate(outcome.evicted_keys):
        ref[key] = IDLE
        slot[key] = freed[place] if freed is not None else likely.pop(0) if likely else _unused(slot)


def _unused(slot: dict[Any, int]) -> int:
    held = set(slot.values())
    return next(one for one in range(len(held) + 1) if one not in held)


def _ids(spec: Any) -> tuple[int, ...]:
    ids = spec.block_ids
    return tuple(ids.tolist() if hasattr(ids, "tolist") else ids)


def _request(context: Any) -> str:
    return str(getattr(context, "req_id", "?"))


def _entry(note: Any) -> Entry:
    name, raws, context, outcome, undo = note
    keys = tuple(plain_key(raw.hex()) for raw in raws)
    success = undo is not False
    if name == calls.COMPLETE_STORE:
        success = undo is True or (isinstance(undo, tuple) and undo[0])
    call = Call(
        name,
        keys,
        None if context is None else _request(context),
        success=success if name == calls.COMPLETE_STORE else True,
        positions=_positions(raws, context),
    )
    return Entry(call, _outcome(name, outcome))


def _positions(raws: Sequence[Any], context: Any) -> tuple[int | None, ...] | None:
    get = getattr(context, "get_offload_key_position", None)
    positions = () if get is None else tuple(get(raw) for raw in raws)
    return positions if any(place is not None for place in positions) else None


def _outcome(name: str, outcome: Any) -> Outcome:
    if isinstance(outcome, BaseException):
        return Raised(type(outcome).__name__, str(outcome))
    if name == calls.LOOKUP:
        told = getattr(outcome, "name", None)
        return str(told or {True: calls.HIT, False: calls.MISS, None: calls.HIT_PENDING}[outcome])
    if outcome is None:
        return None
    if name == calls.PREPARE_LOAD:
        return Loaded(_ids(outcome))
    new, gone = (tuple(plain_key(raw.hex()) for raw in raws) for raws in (outcome.keys_to_store, outcome.evicted_keys))
    return Stored(new, _ids(outcome.store_spec), gone)
