"""Levels `touched` and `readback`: what is known of each block, against what the manager has.

Closures, for speed: a name of the enclosing function is read faster than an attribute.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection, Iterable
from operator import attrgetter, not_
from typing import Any

from evictable.model.calls import COMPLETE_LOAD, COMPLETE_STORE, LOOKUP, PREPARE_LOAD, PREPARE_STORE, TOUCH
from evictable.model.lifecycle import IDLE, PENDING
from evictable.specs.monitor.inside import READBACK, Inside
from evictable.specs.monitor.shadow import Shadow
from evictable.specs.monitor.watching import Method, Note, Watcher

_REF_CNT = attrgetter("ref_cnt")
_UNLIKELY = (KeyError, IndexError, AttributeError, TypeError)
"""What a look may raise where a key or a block is not as it should be."""


def following(
    level: str, inside: Inside, shadow: Shadow, note: Callable[[Note], None], watcher: Watcher
) -> dict[str, Method]:
    """Levels `touched` and `readback`: the state is followed, and the touched blocks compared with it."""
    manager, counters, hesitate = inside.manager, inside.counters, watcher.hesitate
    act_store, act_stored = manager.prepare_store, manager.complete_store
    act_load, act_loaded, act_touch, act_lookup = (
        manager.prepare_load,
        manager.complete_load,
        manager.touch,
        manager.lookup,
    )
    idles, pends = int(inside.counts_idle), int(inside.counts_pending)
    capacity, all_are_stored = inside.capacity, shadow.threshold < 2
    lists = level == READBACK and inside.has_list
    ref: list[Any] = shadow.ref
    slot, owner = shadow.slot, shadow.owner
    ref_at, set_ref, owner_at, set_owner = ref.__getitem__, ref.__setitem__, owner.__getitem__, owner.__setitem__
    slot_of, slot_at, slot_pop = slot.get, slot.__getitem__, slot.pop
    resident = slot.keys()
    block_of, blocks_of, none_resident = inside.block, inside.blocks, inside.none_resident
    is_listed, none_listed = inside.is_listed, inside.none_listed

    its_of: Callable[[Any], Any] | None = None

    def slots_in(blocks: Iterable[Any]) -> list[Any]:
        """Where blocks of the manager are."""
        nonlocal its_of
        if its_of is None:  # what the field is called only a block tells
            its_of = attrgetter(inside.lens.block_id_name())
        return list(map(its_of, blocks))

    def held(keys: list[Any]) -> tuple[list[int], list[int]] | None:
        """The slots and ref counts of the manager's blocks of ``keys``, if the blocks are where they should be."""
        blocks = list(blocks_of(keys))
        slots = slots_in(blocks)
        if (slots and min(slots) < 0) or list(map(owner_at, slots)) != keys:
            return None
        return slots, list(map(_REF_CNT, blocks))

    def listed_by(keys: Collection[Any], counts: list[int]) -> bool:
        """Whether those of ``keys`` are in the evictable set, and no others, whose ref count is 0."""
        if not lists:
            return True
        idle = counts.count(IDLE)
        if idle == 0:
            return none_listed(keys)
        if idle == len(counts):
            return all(map(is_listed, keys))
        return list(map(is_listed, keys)) == list(map(not_, counts))

    def unchanged(keys: Collection[Any]) -> bool:
        """Whether the resident ones of ``keys`` are as they should be."""
        there = [key for key in keys if key in slot]
        found = held(there)
        return found is not None and found[1] == list(map(ref_at, found[0])) and listed_by(there, found[1])

    def are_absent(keys: Collection[Any]) -> bool:
        return none_resident(keys) and (not lists or none_listed(keys))

    def lookup(key: Any, req_context: Any) -> Any:
        answer = act_lookup(key, req_context)
        its = slot_of(key)
        if answer is not (miss if its is None else hit if ref[its] >= IDLE else pending_answer):
            watcher.hesitate_at_lookup(key, req_context, answer)
        return answer

    miss, hit, pending_answer = _lookup_answers(manager)

    def counted_lookup(key: Any, req_context: Any) -> Any:
        answer = lookup(key, req_context)
        note((LOOKUP, (key,), req_context, answer, None))
        return answer

    def prepare_store(keys: Collection[Any], req_context: Any) -> Any:
        try:
            outcome = act_store(keys, req_context)
        except Exception as error:
            hesitate(PREPARE_STORE, keys, req_context, error)
            raise
        try:
            freed = None if outcome is None else stored_rightly(keys, outcome)
        except _UNLIKELY:
            freed = None
        except Exception as error:
            watcher.give_up(error)
            return outcome
        if freed is None:
            hesitate(PREPARE_STORE, keys, req_context, outcome)
        else:
            note((PREPARE_STORE, keys, req_context, outcome, freed))
        return outcome

    def one_stored_rightly(
        keys: Collection[Any], new: list[Any], evicted: list[Any], ids: list[int]
    ) -> list[int] | None:
        """The same for a single key, without the machinery for many."""
        (key,), (its,) = new, ids
        if not 0 <= its < capacity:
            return None
        idle, used, pending = shadow.counts
        freed = []
        if evicted:
            (gone,) = evicted
            freed = [slot[gone]]
            now = (idle - idles, used, pending + pends)
            if (
                ref[freed[0]] != IDLE
                or used != capacity
                or block_of(gone) is not None
                or (lists and is_listed(gone))
                or (ref[its] is not None and its not in freed)
            ):
                return None
        elif ref[its] is not None or used >= capacity:
            return None
        else:
            now = (idle, used + 1, pending + pends)
        if (
            key in slot
            or key not in keys
            or (block := block_of(key)).ref_cnt != PENDING
            or slots_in((block,)) != ids
            or counters() != now
            or (lists and is_listed(key))
        ):
            return None
        if evicted:
            del slot[gone]
            ref[freed[0]] = owner[freed[0]] = None
        ref[its], owner[its], slot[key] = PENDING, key, its
        shadow.counts = now
        return freed

    def stored_rightly(keys: Collection[Any], outcome: Any) -> list[int] | None:
        """The slots that were given up, in the order of the evicted keys; ``None`` if it is not plainly right."""
        new, evicted = outcome.keys_to_store, outcome.evicted_keys
        ids = outcome.store_spec.block_ids
        ids = ids.tolist()
        number = len(new)
        if number == 1 == len(keys) and len(evicted) < 2:
            return one_stored_rightly(keys, new, evicted, ids)
        fresh = set(ids)
        if not (number == len(ids) == len(fresh)):
            return None
        if not all_are_stored:
            if not resident.isdisjoint(new):
                return None
        elif number == len(keys):
            if not resident.isdisjoint(new) or list(keys) != new:
                return None
        elif [key for key in keys if key not in slot] != new:
            return None
        freed: list[int] = []
        idle, used, pending = shadow.counts
        gone = len(evicted)
        now = (idle - gone * idles, used - gone + number, pending + number * pends)
        if gone:
            freed = list(map(slot_at, evicted))
            if any(map(ref_at, freed)) or now[1] != capacity or not are_absent(evicted):
                return None
            if number != len(keys) and not set(evicted).isdisjoint(keys):
                return None
            given_up = set(freed)
            if len(given_up) != gone:  # some key is named twice: each has a slot of its own
                return None
        else:
            given_up = set()
        if fresh != given_up:
            if min(fresh, default=0) < 0 or max(fresh, default=0) >= capacity or now[1] > capacity:
                return None
            if not all(ref[its] is None for its in fresh - given_up):
                return None
        blocks = list(blocks_of(new))
        if counters() != now or list(map(_REF_CNT, blocks)) != [PENDING] * number or slots_in(blocks) != ids:
            return None
        if (lists and not none_listed(new)) or (number != len(keys) and not unchanged(keys)):
            return None
        for key in evicted:
            del slot[key]
        for its in given_up - fresh:
            ref[its] = owner[its] = None
        for its in ids:
            ref[its] = PENDING
        deque(map(set_owner, ids, new), 0)
        slot.update(zip(new, ids))  # noqa: B905  (of one length, see above)
        shadow.counts = now
        return freed

    def complete_store(keys: Collection[Any], req_context: Any, success: bool = True) -> Any:
        try:
            outcome = act_stored(keys, req_context, success)
        except Exception as error:
            hesitate(COMPLETE_STORE, keys, req_context, error, success)
            raise
        number = len(keys)
        try:
            idle, used, pending = shadow.counts
            if number == 1 and success:
                (key,) = keys
                its = slot[key]
                now = (idle + idles, used, pending - pends)
                if (
                    ref[its] == PENDING
                    and block_of(key).ref_cnt == IDLE
                    and counters() == now
                    and not (lists and not is_listed(key))
                ):
                    shadow.counts, ref[its] = now, IDLE
                    note((COMPLETE_STORE, keys, req_context, None, True))
                else:
                    hesitate(COMPLETE_STORE, keys, req_context, None, success)
                return outcome
            if success:
                now = (idle + number * idles, used, pending - number * pends)
                found = held(list(keys))
                slots, counts = found if found is not None else ([], [])
                right = (
                    counts.count(IDLE) == number
                    and list(map(ref_at, slots)).count(PENDING) == number
                    and counters() == now
                    and listed_by(keys, counts)
                )
            else:
                now = (idle, used - number, pending - number * pends)
                slots = list(map(slot_at, keys))
                right = list(map(ref_at, slots)) == [PENDING] * number and counters() == now and are_absent(keys)
        except _UNLIKELY:
            right = False
        if not right:
            hesitate(COMPLETE_STORE, keys, req_context, None, success)
            return outcome
        shadow.counts = now
        undo: Any = True
        if success:
            for its in slots:
                ref[its] = IDLE
        else:
            undo = list(map(slot_pop, keys))
            for its in undo:
                ref[its] = owner[its] = None
        note((COMPLETE_STORE, keys, req_context, None, undo))
        return outcome

    def prepare_load(keys: Collection[Any], req_context: Any) -> Any:
        try:
            outcome = act_load(keys, req_context)
        except Exception as error:
            hesitate(PREPARE_LOAD, keys, req_context, error)
            raise
        try:
            if len(keys) == 1:
                (key,) = keys
                its = slot[key]
                one_after = ref[its] + 1
                idle, used, pending = shadow.counts
                now = (idle - idles, used, pending) if one_after == 1 else shadow.counts
                if (
                    one_after > IDLE
                    and block_of(key).ref_cnt == one_after
                    and counters() == now
                    and outcome.block_ids.tolist() == [its]
                    and not (lists and is_listed(key))
                ):
                    shadow.counts, ref[its] = now, one_after
                    note((PREPARE_LOAD, keys, req_context, outcome, None))
                else:
                    hesitate(PREPARE_LOAD, keys, req_context, outcome)
                return outcome
            slots = outcome.block_ids.tolist()
            found = held(list(keys))
            before = list(map(ref_at, slots))
            after = [one + 1 for one in before]
            idle, used, pending = shadow.counts
            now = (idle - before.count(IDLE) * idles, used, pending)
            right = found == (slots, after) and IDLE not in after and counters() == now and listed_by(keys, after)
        except _UNLIKELY:
            right = False
        if right:
            shadow.counts = now
            deque(map(set_ref, slots, after), 0)
            note((PREPARE_LOAD, keys, req_context, outcome, None))
        else:
            hesitate(PREPARE_LOAD, keys, req_context, outcome)
        return outcome

    def complete_load(keys: Collection[Any], req_context: Any) -> Any:
        try:
            outcome = act_loaded(keys, req_context)
        except Exception as error:
            hesitate(COMPLETE_LOAD, keys, req_context, error)
            raise
        try:
            if len(keys) == 1:
                (key,) = keys
                its = slot[key]
                one_after = ref[its] - 1
                idle, used, pending = shadow.counts
                now = shadow.counts if one_after else (idle + idles, used, pending)
                if (
                    one_after >= IDLE
                    and block_of(key).ref_cnt == one_after
                    and counters() == now
                    and not (lists and is_listed(key) is (one_after != IDLE))
                ):
                    shadow.counts, ref[its] = now, one_after
                    note((COMPLETE_LOAD, keys, req_context, None, None))
                else:
                    hesitate(COMPLETE_LOAD, keys, req_context, None)
                return outcome
            found = held(list(keys))
            slots, after = found if found is not None else ([], [])
            idle, used, pending = shadow.counts
            now = (idle + after.count(IDLE) * idles, used, pending)
            right = (
                found is not None
                and list(map(ref_at, slots)) == [one + 1 for one in after]
                and (not after or min(after) >= IDLE)
                and counters() == now
                and listed_by(keys, after)
            )
        except _UNLIKELY:
            right = False
        if right:
            shadow.counts = now
            deque(map(set_ref, slots, after), 0)
            note((COMPLETE_LOAD, keys, req_context, None, None))
        else:
            hesitate(COMPLETE_LOAD, keys, req_context, None)
        return outcome

    def touch(keys: Collection[Any], req_context: Any) -> Any:
        try:
            outcome = act_touch(keys, req_context)
        except Exception as error:
            hesitate(TOUCH, keys, req_context, error)
            raise
        try:
            if len(keys) == 1:
                (key,) = keys
                ref_cnt = ref[slot[key]]
                if (
                    block_of(key).ref_cnt == ref_cnt
                    and counters() == shadow.counts
                    and not (lists and is_listed(key) is (ref_cnt != IDLE))
                ):
                    note((TOUCH, keys, req_context, None, None))
                else:
                    hesitate(TOUCH, keys, req_context, None)
                return outcome
            try:
                found = held(list(keys))
            except AttributeError:  # some key is absent, which is no fault
                absent = [key for key in keys if key not in slot]
                right = counters() == shadow.counts and unchanged(keys) and are_absent(absent)
            else:
                right = (
                    found is not None
                    and list(map(ref_at, found[0])) == found[1]
                    and counters() == shadow.counts
                    and listed_by(keys, found[1])
                )
        except _UNLIKELY:
            right = False
        if right:
            note((TOUCH, keys, req_context, None, None))
        else:
            hesitate(TOUCH, keys, req_context, None)
        return outcome

    return {
        LOOKUP: lookup if all_are_stored else counted_lookup,
        PREPARE_STORE: prepare_store,
        COMPLETE_STORE: complete_store,
        PREPARE_LOAD: prepare_load,
        COMPLETE_LOAD: complete_load,
        TOUCH: touch,
    }


def _lookup_answers(manager: Any) -> tuple[Any, Any, Any]:
    """The objects for a miss, a hit and one that is pending: of the manager's own module, or as before vLLM 0.25."""
    function = getattr(type(manager), LOOKUP, None)
    answers = getattr(function, "__globals__", {}).get("LookupResult")
    return (False, True, None) if answers is None else (answers.MISS, answers.HIT, answers.HIT_PENDING)
