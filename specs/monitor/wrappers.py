"""The calls of a watched manager: made, judged in bulk, noted.

Each is a closure over what it needs, and judges by a few operations on whole batches. What these do not confirm goes to
`Watcher.hesitate`, which judges exactly; until then the state has not been changed. What is noted of a call is
``(name, keys, context, outcome, undo)``; the last says what going back over the call needs besides.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from operator import attrgetter, not_
from typing import Any, Protocol

from evictable.model import calls
from evictable.model.lifecycle import IDLE, PENDING
from evictable.specs.monitor.inside import COUNTERS, READBACK, Inside
from evictable.specs.monitor.shadow import Shadow

Method = Callable[..., Any]
Note = tuple[str, Any, Any, Any, Any]

_REF_CNT = attrgetter("ref_cnt")


class Watcher(Protocol):
    """What takes over where a call is not plainly right."""

    def hesitate(self, name: str, keys: Any, context: Any, outcome: Any, success: bool = True) -> None:
        """Judge exactly what a call of keys came to, and note it."""

    def hesitate_at_lookup(self, key: Any, context: Any, answer: Any) -> None:
        """Likewise."""

    def give_up(self, error: Exception) -> None:
        """The monitor itself failed: the manager is watched no more."""


def wrappers(
    level: str, inside: Inside, shadow: Shadow, note: Callable[[Note], None], watcher: Watcher
) -> dict[str, Method]:
    """The methods that stand before those of ``inside.manager``, by name."""
    manager = inside.manager
    made = (_counting if level == COUNTERS else _following)(level, inside, shadow, note, watcher)
    for name in (calls.ON_NEW_REQUEST, calls.ON_REQUEST_FINISHED):
        if hasattr(manager, name):
            made[name] = _noted(getattr(manager, name), name, note)
    made[calls.RESET_CACHE] = _reset(manager.reset_cache, shadow, note, watcher)
    if shadow.threshold > 1 and level == COUNTERS:
        made[calls.LOOKUP] = _noted_lookup(manager.lookup, note)
    return made


def _noted(act: Method, name: str, note: Callable[[Note], None]) -> Method:
    def called(req_context: Any) -> Any:
        answer = act(req_context)
        note((name, (), req_context, None, None))
        return answer

    return called


def _noted_lookup(act: Method, note: Callable[[Note], None]) -> Method:
    def lookup(key: Any, req_context: Any) -> Any:
        answer = act(key, req_context)
        note((calls.LOOKUP, (key,), req_context, answer, None))
        return answer

    return lookup


def _reset(act: Method, shadow: Shadow, note: Callable[[Note], None], watcher: Watcher) -> Method:
    def reset_cache() -> Any:
        had = (dict(shadow.ref), dict(shadow.slot))
        answer = act()
        note((calls.RESET_CACHE, (), None, None, had))
        watcher.hesitate(calls.RESET_CACHE, (), None, None)
        return answer

    return reset_cache


def _counting(
    level: str, inside: Inside, shadow: Shadow, note: Callable[[Note], None], watcher: Watcher
) -> dict[str, Method]:
    """Level `counters`: what a call does to the counters, as far as its keys alone tell."""
    manager, counters, hesitate = inside.manager, inside.counters, watcher.hesitate
    act_store, act_stored = manager.prepare_store, manager.complete_store
    act_load, act_loaded, act_touch = manager.prepare_load, manager.complete_load, manager.touch
    idles, pends = int(inside.counts_idle), int(inside.counts_pending)

    def prepare_store(keys: Collection[Any], req_context: Any) -> Any:
        try:
            outcome = act_store(keys, req_context)
        except Exception as error:
            hesitate(calls.PREPARE_STORE, keys, req_context, error)
            raise
        try:
            now = counters()
            if outcome is None:
                right = now == shadow.counts
            else:
                new, gone = len(outcome.keys_to_store), len(outcome.evicted_keys)
                idle, used, pending = shadow.counts
                right = now == (idle - gone * idles, used - gone + new, pending + new * pends) and new == len(
                    outcome.store_spec.block_ids
                )
        except Exception as error:
            watcher.give_up(error)
            return outcome
        if right:
            shadow.counts = now
            note((calls.PREPARE_STORE, tuple(keys), req_context, outcome, None))
        else:
            hesitate(calls.PREPARE_STORE, keys, req_context, outcome)
        return outcome

    def complete_store(keys: Collection[Any], req_context: Any, success: bool = True, **more: Any) -> Any:
        try:
            outcome = act_stored(keys, req_context, success, **more)
        except Exception as error:
            hesitate(calls.COMPLETE_STORE, keys, req_context, error, success)
            raise
        now = counters()
        idle, used, pending = shadow.counts
        number = len(keys)
        left = pending - number * pends
        if now == ((idle + number * idles, used, left) if success else (idle, used - number, left)):
            shadow.counts = now
            note((calls.COMPLETE_STORE, tuple(keys), req_context, None, success))
        else:
            hesitate(calls.COMPLETE_STORE, keys, req_context, None, success)
        return outcome

    def prepare_load(keys: Collection[Any], req_context: Any) -> Any:
        try:
            outcome = act_load(keys, req_context)
        except Exception as error:
            hesitate(calls.PREPARE_LOAD, keys, req_context, error)
            raise
        now = counters()
        idle, used, pending = shadow.counts
        number = len(keys)
        if idle - number <= now[0] <= idle and now[1] == used and now[2] == pending and len(outcome.block_ids) == number:
            shadow.counts = now
            note((calls.PREPARE_LOAD, tuple(keys), req_context, outcome, None))
        else:
            hesitate(calls.PREPARE_LOAD, keys, req_context, outcome)
        return outcome

    def complete_load(keys: Collection[Any], req_context: Any, **more: Any) -> Any:
        try:
            outcome = act_loaded(keys, req_context, **more)
        except Exception as error:
            hesitate(calls.COMPLETE_LOAD, keys, req_context, error)
            raise
        now = counters()
        idle, used, pending = shadow.counts
        if idle <= now[0] <= idle + len(keys) and now[1] == used and now[2] == pending:
            shadow.counts = now
            note((calls.COMPLETE_LOAD, tuple(keys), req_context, None, None))
        else:
            hesitate(calls.COMPLETE_LOAD, keys, req_context, None)
        return outcome

    def touch(keys: Collection[Any], req_context: Any) -> Any:
        try:
            outcome = act_touch(keys, req_context)
        except Exception as error:
            hesitate(calls.TOUCH, keys, req_context, error)
            raise
        if counters() == shadow.counts:
            note((calls.TOUCH, tuple(keys), req_context, None, None))
        else:
            hesitate(calls.TOUCH, keys, req_context, None)
        return outcome

    return {
        calls.PREPARE_STORE: prepare_store,
        calls.COMPLETE_STORE: complete_store,
        calls.PREPARE_LOAD: prepare_load,
        calls.COMPLETE_LOAD: complete_load,
        calls.TOUCH: touch,
    }


def _following(
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
    lists = level == READBACK and inside.are_listed is not None
    ref, slot, taken = shadow.ref, shadow.slot, shadow.taken
    ref_of, ref_at, slot_at, ref_pop, slot_pop = ref.get, ref.__getitem__, slot.__getitem__, ref.pop, slot.pop
    resident = ref.keys()

    def agree(keys: Collection[Any], expected: list[int]) -> bool:
        """Whether the manager has these ref counts, and with them the evictable set."""
        if list(map(_REF_CNT, inside.blocks(keys))) != expected:
            return False
        return not lists or list(map(inside.are_listed, keys)) == list(map(not_, expected))  # type: ignore[arg-type]

    def are_absent(keys: Collection[Any]) -> bool:
        if inside.blocks(keys).count(None) != len(keys):
            return False
        return not lists or True not in map(inside.are_listed, keys)  # type: ignore[arg-type]

    def lookup(key: Any, req_context: Any) -> Any:
        answer = act_lookup(key, req_context)
        ref_cnt = ref_of(key)
        if answer is not (miss if ref_cnt is None else hit if ref_cnt >= IDLE else pending_answer):
            watcher.hesitate_at_lookup(key, req_context, answer)
        return answer

    miss, hit, pending_answer = _lookup_answers(manager)

    def counted_lookup(key: Any, req_context: Any) -> Any:
        answer = lookup(key, req_context)
        note((calls.LOOKUP, (key,), req_context, answer, None))
        return answer

    def prepare_store(keys: Collection[Any], req_context: Any) -> Any:
        try:
            outcome = act_store(keys, req_context)
        except Exception as error:
            hesitate(calls.PREPARE_STORE, keys, req_context, error)
            raise
        try:
            freed = None if outcome is None else stored_rightly(keys, outcome)
        except (KeyError, AttributeError):
            freed = None
        except Exception as error:
            watcher.give_up(error)
            return outcome
        if freed is None:
            hesitate(calls.PREPARE_STORE, keys, req_context, outcome)
        else:
            note((calls.PREPARE_STORE, tuple(keys), req_context, outcome, freed))
        return outcome

    def stored_rightly(keys: Collection[Any], outcome: Any) -> list[int] | None:
        """The slots that were given up, in the order of the evicted keys; ``None`` if it is not plainly right."""
        new, evicted = outcome.keys_to_store, outcome.evicted_keys
        ids = outcome.store_spec.block_ids
        ids = ids.tolist() if hasattr(ids, "tolist") else list(ids)
        number = len(new)
        if not (number == len(ids) == len(set(ids))):
            return None
        if number == len(keys) and all_are_stored:
            if not resident.isdisjoint(new) or list(keys) != new:
                return None
        elif all_are_stored:
            if [key for key in keys if key not in ref] != new:
                return None
        elif not resident.isdisjoint(new):
            return None
        freed: list[int] = []
        idle, used, pending = shadow.counts
        if evicted:
            gone = len(evicted)
            if any(map(ref_at, evicted)) or gone != used + number - capacity or len(set(evicted)) != gone:
                return None
            if number != len(keys) and not set(evicted).isdisjoint(keys):
                return None
            freed = list(map(slot_at, evicted))
            if not taken.intersection(ids).issubset(freed):
                return None
            now = (idle - gone * idles, used - gone + number, pending + number * pends)
        else:
            if not taken.isdisjoint(ids):
                return None
            now = (idle, used + number, pending + number * pends)
        if now[1] > capacity or counters() != now or (evicted and not are_absent(evicted)):
            return None
        if ids and (min(ids) < 0 or max(ids) >= capacity):
            return None
        if not agree(new, [PENDING] * number):
            return None
        if number != len(keys):
            others = [key for key in keys if key in ref]
            if not agree(others, list(map(ref_at, others))):
                return None
        for key in evicted:
            del ref[key], slot[key]
        taken.difference_update(freed)
        ref.update(dict.fromkeys(new, PENDING))
        slot.update(zip(new, ids, strict=True))
        taken.update(ids)
        shadow.counts = now
        return freed

    def complete_store(keys: Collection[Any], req_context: Any, success: bool = True, **more: Any) -> Any:
        try:
            outcome = act_stored(keys, req_context, success, **more)
        except Exception as error:
            hesitate(calls.COMPLETE_STORE, keys, req_context, error, success)
            raise
        number = len(keys)
        try:
            idle, used, pending = shadow.counts
            expected = [IDLE] * number
            now = (
                (idle + number * idles, used, pending - number * pends)
                if success
                else (idle, used - number, pending - number * pends)
            )
            right = (
                list(map(ref_of, keys)) == [PENDING] * number
                and counters() == now
                and (agree(keys, expected) if success else are_absent(keys))
            )
        except (KeyError, AttributeError):
            right = False
        if not right:
            hesitate(calls.COMPLETE_STORE, keys, req_context, None, success)
            return outcome
        shadow.counts = now
        undo: Any = True
        if success:
            ref.update(zip(keys, expected, strict=True))
        else:
            undo = list(map(slot_pop, keys))
            taken.difference_update(undo)
            for key in keys:
                del ref[key]
        note((calls.COMPLETE_STORE, tuple(keys), req_context, None, undo))
        return outcome

    def prepare_load(keys: Collection[Any], req_context: Any) -> Any:
        try:
            outcome = act_load(keys, req_context)
        except Exception as error:
            hesitate(calls.PREPARE_LOAD, keys, req_context, error)
            raise
        try:
            before = list(map(ref_at, keys))
            after = [one + 1 for one in before]
            idle, used, pending = shadow.counts
            now = (idle - before.count(IDLE) * idles, used, pending)
            ids = outcome.block_ids
            right = (
                IDLE not in after
                and (ids.tolist() if hasattr(ids, "tolist") else list(ids)) == list(map(slot_at, keys))
                and counters() == now
                and agree(keys, after)
            )
        except (KeyError, AttributeError):
            right = False
        if right:
            shadow.counts = now
            ref.update(zip(keys, after, strict=True))
            note((calls.PREPARE_LOAD, tuple(keys), req_context, outcome, None))
        else:
            hesitate(calls.PREPARE_LOAD, keys, req_context, outcome)
        return outcome

    def complete_load(keys: Collection[Any], req_context: Any, **more: Any) -> Any:
        try:
            outcome = act_loaded(keys, req_context, **more)
        except Exception as error:
            hesitate(calls.COMPLETE_LOAD, keys, req_context, error)
            raise
        try:
            after = [one - 1 for one in map(ref_at, keys)]
            idle, used, pending = shadow.counts
            now = (idle + after.count(IDLE) * idles, used, pending)
            right = (not after or min(after) >= IDLE) and counters() == now and agree(keys, after)
        except (KeyError, AttributeError):
            right = False
        if right:
            shadow.counts = now
            ref.update(zip(keys, after, strict=True))
            note((calls.COMPLETE_LOAD, tuple(keys), req_context, None, None))
        else:
            hesitate(calls.COMPLETE_LOAD, keys, req_context, None)
        return outcome

    def touch(keys: Collection[Any], req_context: Any) -> Any:
        try:
            outcome = act_touch(keys, req_context)
        except Exception as error:
            hesitate(calls.TOUCH, keys, req_context, error)
            raise
        try:
            expected: list[Any] = list(map(ref_of, keys))
            if None in expected:  # which is no fault
                held = [key for key in keys if key in ref]
                right = counters() == shadow.counts and agree(held, list(map(ref_at, held)))
            else:
                right = counters() == shadow.counts and agree(keys, expected)
        except (KeyError, AttributeError):
            right = False
        if right:
            note((calls.TOUCH, tuple(keys), req_context, None, None))
        else:
            hesitate(calls.TOUCH, keys, req_context, None)
        return outcome

    return {
        calls.LOOKUP: lookup if all_are_stored else counted_lookup,
        calls.PREPARE_STORE: prepare_store,
        calls.COMPLETE_STORE: complete_store,
        calls.PREPARE_LOAD: prepare_load,
        calls.COMPLETE_LOAD: complete_load,
        calls.TOUCH: touch,
    }


def _lookup_answers(manager: Any) -> tuple[Any, Any, Any]:
    """The objects for a miss, a hit and one that is pending: of the manager's own module, or as before vLLM 0.25."""
    function = getattr(type(manager), calls.LOOKUP, None)
    answers = getattr(function, "__globals__", {}).get("LookupResult")
    return (False, True, None) if answers is None else (answers.MISS, answers.HIT, answers.HIT_PENDING)
