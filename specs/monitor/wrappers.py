"""The calls of a watched manager: made, judged in bulk, noted.

Each is a closure over what it needs, and judges by a few operations on whole batches. What these do not confirm goes to
`Watcher.hesitate`, which judges exactly; until then the state has not been changed. What is noted of a call is
``(name, keys, context, outcome, undo)``; the last says what going back over the call needs besides.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Collection
from typing import Any

from evictable.model.calls import (
    COMPLETE_LOAD,
    COMPLETE_STORE,
    LOOKUP,
    ON_NEW_REQUEST,
    ON_REQUEST_FINISHED,
    RESET_CACHE,
)
from evictable.specs.monitor.counting import counting
from evictable.specs.monitor.following import following
from evictable.specs.monitor.inside import COUNTERS, Inside
from evictable.specs.monitor.shadow import Shadow
from evictable.specs.monitor.watching import Method, Note, Watcher


def wrappers(
    level: str, inside: Inside, shadow: Shadow, note: Callable[[Note], None], watcher: Watcher
) -> dict[str, Method]:
    """The methods that stand before those of ``inside.manager``, by name."""
    manager = inside.manager
    made = (counting if level == COUNTERS else following)(level, inside, shadow, note, watcher)
    for name in (ON_NEW_REQUEST, ON_REQUEST_FINISHED):
        if name in vars(type(manager)):  # what the interface has by default decides nothing
            made[name] = _idle(getattr(manager, name), name, inside, shadow, note, watcher)
    for name in (COMPLETE_STORE, COMPLETE_LOAD):
        if "ticket" in inspect.signature(getattr(manager, name)).parameters:
            made[name] = _with_ticket(name, getattr(manager, name), made[name], watcher)
    made[RESET_CACHE] = _reset(manager.reset_cache, shadow, note, watcher)
    if shadow.threshold > 1 and level == COUNTERS:
        made[LOOKUP] = _noted_lookup(manager.lookup, note)
    return made


def _idle(
    act: Method, name: str, inside: Inside, shadow: Shadow, note: Callable[[Note], None], watcher: Watcher
) -> Method:
    """A call that is not about blocks: none may change, not by a call either that the manager makes of itself."""
    counters = inside.counters

    def called(req_context: Any) -> Any:
        before = shadow.counts
        answer = act(req_context)
        if shadow.counts is before and counters() == before:
            note((name, (), req_context, None, None))
        else:
            watcher.hesitate(name, (), req_context, before)
        return answer

    return called


def _with_ticket(name: str, act: Method, judging: Method, watcher: Watcher) -> Method:
    """A completion that carries a ticket is judged the slow way; the fast one does not pay for it."""

    def called(keys: Collection[Any], req_context: Any, *success: bool, ticket: Any = None, **more: Any) -> Any:
        if ticket is None:
            return judging(keys, req_context, *success, **more)
        try:
            answer = act(keys, req_context, *success, ticket=ticket, **more)
        except Exception as error:
            watcher.hesitate(name, keys, req_context, error, *success, **more)
            raise
        watcher.hesitate(name, keys, req_context, None, *success, **more)
        return answer

    return called


def _noted_lookup(act: Method, note: Callable[[Note], None]) -> Method:
    def lookup(key: Any, req_context: Any) -> Any:
        answer = act(key, req_context)
        note((LOOKUP, (key,), req_context, answer, None))
        return answer

    return lookup


def _reset(act: Method, shadow: Shadow, note: Callable[[Note], None], watcher: Watcher) -> Method:
    def reset_cache() -> Any:
        had = shadow.blocks()
        answer = act()
        note((RESET_CACHE, (), None, None, had))
        watcher.hesitate(RESET_CACHE, (), None, None)
        return answer

    return reset_cache
