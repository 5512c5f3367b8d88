"""Level `counters`: a few sums for each call, of the manager's counters and the sizes of answers."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Any

from evictable.model.calls import COMPLETE_LOAD, COMPLETE_STORE, PREPARE_LOAD, PREPARE_STORE
from evictable.specs.monitor.inside import Inside
from evictable.specs.monitor.shadow import Shadow
from evictable.specs.monitor.watching import Method, Note, Watcher


def counting(
    level: str, inside: Inside, shadow: Shadow, note: Callable[[Note], None], watcher: Watcher
) -> dict[str, Method]:
    """Level `counters`: what a call does to the counters, as far as its keys alone tell.

    A touch has nothing to do with them: if it changes any, the next call shows it.
    """
    manager, counters, hesitate = inside.manager, inside.counters, watcher.hesitate
    act_store, act_stored = manager.prepare_store, manager.complete_store
    act_load, act_loaded = manager.prepare_load, manager.complete_load
    idles, pends = int(inside.counts_idle), int(inside.counts_pending)

    def prepare_store(keys: Collection[Any], req_context: Any) -> Any:
        try:
            outcome = act_store(keys, req_context)
        except Exception as error:
            hesitate(PREPARE_STORE, keys, req_context, error)
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
            if outcome is not None:
                shadow.counts = now
                shadow.storing += new
            note((PREPARE_STORE, keys, req_context, outcome, None))
        else:
            hesitate(PREPARE_STORE, keys, req_context, outcome)
        return outcome

    def complete_store(keys: Collection[Any], req_context: Any, success: bool = True) -> Any:
        try:
            outcome = act_stored(keys, req_context, success)
        except Exception as error:
            hesitate(COMPLETE_STORE, keys, req_context, error, success)
            raise
        now = counters()
        idle, used, pending = shadow.counts
        number = len(keys)
        left = pending - number * pends
        if now == ((idle + number * idles, used, left) if success else (idle, used - number, left)):
            shadow.counts = now
            shadow.storing -= number
            note((COMPLETE_STORE, keys, req_context, None, success))
        else:
            hesitate(COMPLETE_STORE, keys, req_context, None, success)
        return outcome

    def prepare_load(keys: Collection[Any], req_context: Any) -> Any:
        try:
            outcome = act_load(keys, req_context)
        except Exception as error:
            hesitate(PREPARE_LOAD, keys, req_context, error)
            raise
        now = counters()
        idle, used, pending = shadow.counts
        number = len(keys)
        if (
            idle - number <= now[0] <= idle
            and now[1] == used
            and now[2] == pending
            and len(outcome.block_ids) == number
        ):
            shadow.counts = now
            shadow.flying += number
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
        now = counters()
        idle, used, pending = shadow.counts
        flying = shadow.flying - len(keys)
        # As many blocks are pinned as are in use, but not idle or being stored; each by a load that is in flight.
        if (
            idle <= now[0] <= idle + len(keys)
            and now[1] == used
            and now[2] == pending
            and (not idles or 0 <= used - now[0] - shadow.storing <= flying)
        ):
            shadow.counts = now
            shadow.flying = flying
            note((COMPLETE_LOAD, keys, req_context, None, None))
        else:
            hesitate(COMPLETE_LOAD, keys, req_context, None)
        return outcome

    return {
        PREPARE_STORE: prepare_store,
        COMPLETE_STORE: complete_store,
        PREPARE_LOAD: prepare_load,
        COMPLETE_LOAD: complete_load,
    }
