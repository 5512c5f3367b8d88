"""The pairs of calls that are interleaved, and the small caches that they meet.

Two slots. In front of a pair a third request has stored what the two calls need: something idle to look up, to load,
to touch and to evict; what a completion completes is in flight for the request that completes it.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import combinations_with_replacement

from attrs import frozen

from evictable.model import calls
from evictable.model.calls import Call, Key

CAPACITY = 2
FIRST, SECOND, BEFORE = "r1", "r2", "r0"

FAILED_STORE = "complete_store:failed"
NAMES = (
    calls.LOOKUP,
    calls.PREPARE_LOAD,
    calls.COMPLETE_LOAD,
    calls.PREPARE_STORE,
    calls.COMPLETE_STORE,
    FAILED_STORE,
    calls.TOUCH,
    calls.TAKE_EVENTS,
    calls.RESET_CACHE,
    calls.GET_STATS,
    calls.ON_REQUEST_FINISHED,
)
"""What is paired: the calls of a manager, a store's completion both ways."""
_STORES = (calls.COMPLETE_STORE, FAILED_STORE)

IDLE, BUSY = "idle", "busy"
_FIRST_KEY, _SECOND_KEY, _NEW, _ALSO_NEW = 0, 1, 2, 3


@frozen
class Pair:
    """Two calls of two requests, and the calls before them."""

    first: Call
    second: Call
    before: tuple[Call, ...]
    cache: str
    """IDLE: what is not in flight for the pair is idle. BUSY: somebody else is loading the second key."""
    names: tuple[str, str]

    @property
    def calls(self) -> tuple[Call, Call]:
        return self.first, self.second

    def __str__(self) -> str:
        return " || ".join(self.names)


def pairs(wanted: Iterable[tuple[str, str]] = ()) -> tuple[Pair, ...]:
    """Every unordered pair of `NAMES`, a call with itself too, on each cache that it can meet; or those wanted."""
    named = list(wanted) or list(combinations_with_replacement(NAMES, 2))
    return tuple(_pair(names, cache) for names in named for cache in (IDLE, BUSY) if _can_be(names, cache))


def _can_be(names: tuple[str, str], cache: str) -> bool:
    # A second key that is being stored cannot be loaded by somebody else.
    return cache == IDLE or not any(name in _STORES for name in names)


def _pair(names: tuple[str, str], cache: str) -> Pair:
    both_store = all(name in _STORES for name in names)
    stored_by_second: Key = _FIRST_KEY if both_store else _SECOND_KEY
    pending = {
        key: request
        for name, request, key in ((names[0], FIRST, _SECOND_KEY), (names[1], SECOND, stored_by_second))
        if name in _STORES
    }
    first = _call(names[0], FIRST, _SECOND_KEY, (_NEW,))
    second = _call(names[1], SECOND, stored_by_second, (_NEW, _ALSO_NEW))
    # Whoever resets drains before: then a reset of an idle cache is what a careful caller may do.
    drain = (Call(calls.TAKE_EVENTS),) if calls.RESET_CACHE in names else ()
    return Pair(first, second, (*_fill(pending), *_load(names, pending, cache), *drain), cache, names)


def _fill(pending: dict[Key, str]) -> tuple[Call, ...]:
    """Three requests, and two keys, stored or being stored."""
    made = [Call(calls.ON_NEW_REQUEST, request=request) for request in (BEFORE, FIRST, SECOND)]
    for key in (_FIRST_KEY, _SECOND_KEY):
        owner = pending.get(key, BEFORE)
        made.append(Call(calls.PREPARE_STORE, (key,), owner))
        if owner == BEFORE:
            made.append(Call(calls.COMPLETE_STORE, (key,), owner))
    return tuple(made)


def _load(names: tuple[str, str], pending: dict[Key, str], cache: str) -> tuple[Call, ...]:
    """What is being loaded before the pair begins; and a look-up, so that the pair may load the first key itself."""
    loads = [(_SECOND_KEY, BEFORE)] if cache == BUSY else []
    if _FIRST_KEY not in pending:
        both = zip(names, (FIRST, SECOND), strict=True)
        loads += [(_FIRST_KEY, request) for name, request in both if name == calls.COMPLETE_LOAD]
    made = []
    for key, request in loads:
        made += [Call(calls.LOOKUP, (key,), request), Call(calls.PREPARE_LOAD, (key,), request)]
    return (*made, Call(calls.LOOKUP, (_FIRST_KEY,), BEFORE))


def _call(name: str, request: str, stored: Key, offered: tuple[Key, ...]) -> Call:
    if name in _STORES:
        return Call(calls.COMPLETE_STORE, (stored,), request, success=name == calls.COMPLETE_STORE)
    if name == calls.PREPARE_STORE:
        return Call(name, offered, request)
    if name in (calls.LOOKUP, calls.PREPARE_LOAD, calls.COMPLETE_LOAD, calls.TOUCH):
        return Call(name, (_FIRST_KEY,), request)
    if name == calls.ON_REQUEST_FINISHED:
        return Call(name, request=request)
    return Call(name)
