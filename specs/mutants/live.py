"""Patches of a live manager of a vLLM release: nothing of vLLM is stored, its loaded methods are wrapped.

A patch is a function that takes a `Live` and changes what the manager, or its policy, does from then on.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from attrs import frozen

Patch = Callable[["Live"], None]
Method = Callable[..., Any]


def nothing(*arguments: Any, **named: Any) -> None:
    """Stands for a method that is left out."""


@frozen
class Live:
    """A manager, and how its release calls things: newest name first."""

    manager: Any

    @property
    def policy(self) -> Any:
        return self.manager._policy

    @property
    def num_evictable(self) -> str:
        return self._named("_num_evictable_cache_chunks", "_num_evictable_cache_blocks")

    @property
    def num_pending(self) -> str:
        return self._named("_num_write_pending_chunks", "_num_write_pending_blocks")

    @property
    def free(self) -> str:
        return self._named("_free_chunk", "_free_block")

    @property
    def num_free(self) -> int:
        return int(getattr(self.manager, self._named("_get_num_free_chunks", "_get_num_free_blocks"))())

    @property
    def evictable(self) -> list[Any]:
        """The evictable keys, the next victim first."""
        policy = self.policy
        if hasattr(policy, "evictable_blocks"):
            return list(policy.evictable_blocks)
        return sorted(policy._evictable, key=lambda key: (policy._ranks[key], key))

    @property
    def event_class(self) -> Any:
        return sys.modules[type(self.manager).__module__].OffloadingEvent

    def block(self, key: Any) -> Any:
        return self.policy.get(key)

    def list_key(self, key: Any) -> None:
        """Put a key into the evictable list, whatever its block is doing."""
        policy = self.policy
        if hasattr(policy, "evictable_blocks"):
            policy.evictable_blocks[key] = None
        else:
            policy._evictable.add(key)

    def _named(self, *names: str) -> str:
        return next(name for name in names if hasattr(self.manager, name))


def replaced(thing: Any, name: str, make: Callable[[Method], Method]) -> None:
    """Let ``thing`` have another method from now on, made of the one that it has."""
    setattr(thing, name, make(getattr(thing, name)))


@contextmanager
def without(thing: Any, name: str, instead: Method = nothing) -> Iterator[None]:
    """Let ``thing`` have another method for a while."""
    had = vars(thing).get(name)
    setattr(thing, name, instead)
    try:
        yield
    finally:
        if had is None:
            delattr(thing, name)
        else:
            setattr(thing, name, had)


def leaves_out(call: str, whose: str, name: str) -> Patch:
    """During ``call`` the manager's (or its policy's) method ``name`` does nothing."""

    def patch(live: Live) -> None:
        thing = live.policy if whose == "policy" else live.manager
        method = live.free if name == "free" else name

        def make(act: Method) -> Method:
            def called(*arguments: Any, **named: Any) -> Any:
                with without(thing, method):
                    return act(*arguments, **named)

            return called

        replaced(live.manager, call, make)

    return patch


def keeps(call: str, counter: str) -> Patch:
    """``call`` leaves a counter as it was."""

    def patch(live: Live) -> None:
        name = getattr(live, counter)

        def make(act: Method) -> Method:
            def called(*arguments: Any, **named: Any) -> Any:
                before = getattr(live.manager, name)
                try:
                    return act(*arguments, **named)
                finally:
                    setattr(live.manager, name, before)

            return called

        replaced(live.manager, call, make)

    return patch


def afterwards(call: str, act_too: Callable[..., Any]) -> Patch:
    """After ``call``, ``act_too`` gets the live manager, the answer and the arguments; it may change the answer."""

    def patch(live: Live) -> None:
        def make(act: Method) -> Method:
            def called(*arguments: Any, **named: Any) -> Any:
                answer = act(*arguments, **named)
                act_too(live, answer, *arguments, **named)
                return answer

            return called

        replaced(live.manager, call, make)

    return patch


def answers(call: str, other: Callable[[Any], Any]) -> Patch:
    """What ``call`` answers is passed through ``other``."""

    def patch(live: Live) -> None:
        replaced(live.manager, call, lambda act: lambda *arguments, **named: other(act(*arguments, **named)))

    return patch


def calls_with(whose: str, call: str, other: Callable[..., tuple[Any, ...]]) -> Patch:
    """The arguments of ``call`` are passed through ``other``."""

    def patch(live: Live) -> None:
        thing = live.policy if whose == "policy" else live.manager
        replaced(thing, call, lambda act: lambda *arguments: act(*other(*arguments)))

    return patch


def silences(call: str) -> Patch:
    """``call`` announces nothing."""

    def patch(live: Live) -> None:
        def make(act: Method) -> Method:
            def called(*arguments: Any, **named: Any) -> Any:
                events = live.manager.events
                number = None if events is None else len(events)
                answer = act(*arguments, **named)
                if number is not None:
                    del live.manager.events[number:]
                return answer

            return called

        replaced(live.manager, call, make)

    return patch
