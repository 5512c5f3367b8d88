"""A cache policy of anybody, fitted to the manager that hosts it: both may be of any era of vLLM's interface.

From 0.26 a host hands a request to ``touch``, from 0.33 also to ``insert``; from 0.24 it marks; from 0.31 it has hooks.
A guest takes the requests that its methods ask for, and has the marks and hooks that it has.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable
from functools import lru_cache
from typing import Any

Construct = Callable[[int], Any]
"""Makes a policy for so many blocks."""

HOOKS = {"on_store_miss": 1, "on_request_access": 1, "on_request_finished": 3}
"""What a host of 0.31 or later calls besides (the second from 0.33), and with how much before the request."""
_PENDING, _IDLE = -1, 0


def guest_class(base: type, construct: Construct) -> type:
    """A class that a host constructs as its policy, ``base`` being the host's own ``CachePolicy``."""
    kind = Guest if hasattr(base, "mark_evictable") else UnmarkedGuest
    hooks = {name: _hook(name, plain) for name, plain in HOOKS.items() if hasattr(base, name)}
    return type("Guest", (kind, base), {"construct": staticmethod(construct), **hooks})


class Guest:
    """Stands for a policy. Whatever a host asks of it beyond the interface, the policy itself is asked."""

    construct: Construct
    request: Any = None
    """Whose call the manager is in: for what a host of an earlier era hands on without it."""

    def __init__(self, cache_capacity: int) -> None:
        self.cache_capacity = cache_capacity
        self.guest = self.construct(cache_capacity)

    def __getattr__(self, name: str) -> Any:
        if name == "guest":  # it is still being constructed
            raise AttributeError(name)
        return getattr(self.guest, name)

    def get(self, key: bytes) -> Any:
        return self.guest.get(key)

    def insert(self, key: bytes, block: Any, request: Any = None) -> None:
        """Take in a block. One that is idle comes back (`impl` takes an eviction back so), which no release does:
        the guest sees what it knows, a store that is committed at once."""
        idle = block.ref_cnt == _IDLE
        if idle:
            block.ref_cnt = _PENDING
        try:
            called(self.guest.insert, (key, block), self.request if request is None else request)
        finally:
            if idle:
                block.ref_cnt = _IDLE
        if idle:
            self.mark_evictable(key)

    def remove(self, key: bytes) -> None:
        self.guest.remove(key)

    def touch(self, keys: Iterable[bytes], request: Any = None) -> None:
        called(self.guest.touch, (keys,), self.request if request is None else request)

    def evict(self, n: int, protected: set[bytes]) -> Any:
        return self.guest.evict(n, protected)

    def clear(self) -> None:
        self.guest.clear()

    def mark_evictable(self, key: bytes) -> None:
        mark = getattr(self.guest, "mark_evictable", None)
        if mark is not None:
            mark(key)

    def mark_non_evictable(self, key: bytes) -> None:
        mark = getattr(self.guest, "mark_non_evictable", None)
        if mark is not None:
            mark(key)


class UnmarkedGuest(Guest):
    """In a host from before 0.24, which changes ``ref_cnt`` and says nothing: the guest is told before it evicts."""

    def __init__(self, cache_capacity: int) -> None:
        super().__init__(cache_capacity)
        self._held: dict[bytes, Any] = {}
        self._marked: set[bytes] = set()

    def insert(self, key: bytes, block: Any, request: Any = None) -> None:
        super().insert(key, block, request)
        self._held[key] = block

    def remove(self, key: bytes) -> None:
        self._tell()
        super().remove(key)
        self._forget(key)

    def touch(self, keys: Iterable[bytes], request: Any = None) -> None:
        self._tell()
        super().touch(keys, request)

    def evict(self, n: int, protected: set[bytes]) -> Any:
        self._tell()
        evicted = super().evict(n, protected)
        for key, _ in evicted or ():
            self._forget(key)
        return evicted

    def clear(self) -> None:
        super().clear()
        self._held.clear()
        self._marked.clear()

    def _tell(self) -> None:
        for key, block in self._held.items():
            idle = block.ref_cnt == _IDLE
            if idle and key not in self._marked:
                self._marked.add(key)
                self.mark_evictable(key)
            elif not idle and key in self._marked:
                self._marked.discard(key)
                self.mark_non_evictable(key)

    def _forget(self, key: bytes) -> None:
        self._held.pop(key, None)
        self._marked.discard(key)


def called(method: Callable[..., Any], plain: tuple[Any, ...], request: Any) -> Any:
    """Call ``method`` with ``plain``, and with ``request`` where it takes one more, by position or by name."""
    function = getattr(method, "__func__", None)
    way = _way(method, len(plain)) if function is None else _way(function, len(plain) + 1)
    if way is None:
        return method(*plain)
    return method(*plain, request) if way == "" else method(*plain, **{way: request})


@lru_cache(maxsize=256)
def _way(function: Callable[..., Any], plain: int) -> str | None:
    """How it takes a request: not at all, by position (``""``), or by which name."""
    try:
        parameters = list(inspect.signature(function).parameters.values())
    except (TypeError, ValueError):
        return None
    kinds = [one.kind for one in parameters]
    positional = kinds.count(inspect.Parameter.POSITIONAL_ONLY) + kinds.count(inspect.Parameter.POSITIONAL_OR_KEYWORD)
    if inspect.Parameter.VAR_POSITIONAL in kinds or positional > plain:
        return ""
    named = [one.name for one in parameters if one.kind is inspect.Parameter.KEYWORD_ONLY]
    return "req_context" if "req_context" in named or inspect.Parameter.VAR_KEYWORD in kinds else None


def _hook(name: str, plain: int) -> Callable[..., None]:
    def hook(self: Any, *arguments: Any) -> None:
        own = getattr(self.guest, name, None)
        if own is None:
            getattr(super(Guest, self), name)(*arguments)  # what the host does by default: it touches, if anything
        else:
            called(own, arguments[:plain], arguments[plain])

    return hook
