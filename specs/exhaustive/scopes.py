"""What is enumerated: how small the world is, and every call that can be made in it."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterator, Sequence
from functools import cache
from math import perm, prod

from attrs import frozen

from evictable.model import calls
from evictable.model.calls import Call, Key
from evictable.model.manager import Manager
from evictable.model.snapshot import Snapshot
from evictable.model.tiers import TieredManager
from evictable.specs.callers.disciplines import CARELESS, CONTRACT
from evictable.specs.subjects.base import Setup


@frozen
class Scope:
    """A world that is small enough to be searched from end to end."""

    setup: Setup
    num_keys: int
    batch: int
    """Keys in one call, at most."""
    discipline: str = CONTRACT
    num_requests: int = 1
    lifetimes: bool = False
    """Requests are announced and finish; without, they are announced beforehand and live for ever."""
    undrained: int = 2
    """With events: facts about keys that are still to be told, at most, where the search goes on."""
    in_flight: int = 2
    """With tiers: jobs that are in flight or not heard of, at most, where the search goes on."""
    filled: bool = False
    """With tiers: they hold every key from the beginning, so that promotions are near."""
    remembers: bool = False
    """States that were entered by different calls are different states, so that a subject is tried in both: it may
    keep more than it shows."""

    @property
    def keys(self) -> tuple[Key, ...]:
        return tuple(range(self.num_keys))

    @property
    def requests(self) -> tuple[str, ...]:
        return tuple(f"r{number + 1}" for number in range(self.num_requests))

    @property
    def prelude(self) -> tuple[Call, ...]:
        """What is called before the search begins."""
        filling = [Call(calls.FILL_TIER, self.keys, tier=tier) for tier in range(self.setup.tiers)]
        announcing = [Call(calls.ON_NEW_REQUEST, request=request) for request in self.requests]
        return (*(filling if self.filled else ()), *(() if self.lifetimes else announcing))

    def within(self, model: Manager, seen: Snapshot | None) -> bool:
        """Whether the search goes on from here: from what the model is in and the subject shows."""
        if model.with_events and _untold(model) > self.undrained:
            return False
        if seen is not None and (seen.num_events or 0) > self.undrained:
            return False  # some tell more than is asked of them
        return not isinstance(model, TieredManager) or len(model.jobs) <= self.in_flight

    def calls(self, model: Manager, classes: tuple[int, ...]) -> Iterator[Call]:
        """Every call, whoever promises what; of calls that differ in exchangeable keys only, one."""
        yield from _alphabet(self, classes)
        if isinstance(model, TieredManager):
            for number, job in model.jobs.items():
                if number not in model.results:
                    for size in range(len(job.keys), -1, -1):
                        for part in itertools.combinations(job.keys, size):
                            yield Call(calls.FINISH_JOB, part, job=number)

    def images(self, call: Call, classes: tuple[int, ...]) -> int:
        """How many calls differ from ``call`` in exchangeable keys only, itself included."""
        named = Counter(classes[self.keys.index(key)] for key in set(call.keys))
        return prod(perm(classes.count(number), times) for number, times in named.items())

    def __str__(self) -> str:
        """The world in words."""
        setup = self.setup
        words = [f"{_many(self.num_keys, 'key')} and {_many(setup.capacity, 'slot')}"]
        if setup.tiers:
            full = "full " if self.filled else ""
            words.append(f"{_many(setup.tiers, full + 'tier')} with up to {_many(self.in_flight, 'job')} at a time")
        words.append(_many(self.num_requests, "request") + (", from announcement to finish" if self.lifetimes else ""))
        if setup.store_threshold > 1:
            words.append(f"threshold {setup.store_threshold}, {_many(setup.max_tracker_size, 'key')} tracked")
        words.append(f"up to {_many(self.undrained, 'fact')} undrained" if setup.events else "events off")
        if self.remembers:
            words.append("and the call before")
        return ", ".join(words)


def _untold(model: Manager) -> int:
    return sum(max(map(len, readings), default=0) for readings in model.events._waiting.values())


def _many(count: int, thing: str) -> str:
    return f"{count} {thing}" if count == 1 else f"{count} {thing}s"


@cache
def _alphabet(scope: Scope, classes: tuple[int, ...]) -> tuple[Call, ...]:
    """The calls that do not depend on the state; short ones first, so that what breaks is short.

    What was counted meanwhile is asked for at the end.
    """
    calls_ = tuple(sorted(_all_calls(scope, classes), key=lambda call: len(call.keys)))
    return (*calls_, Call(calls.GET_STATS))


def _all_calls(scope: Scope, classes: tuple[int, ...]) -> Iterator[Call]:
    repeats = scope.discipline == CARELESS
    batches = [
        batch for size in range(scope.batch + 1) for batch in _batches(scope.keys, classes, size, repeats=repeats)
    ]
    single = _batches(scope.keys, classes, 1, repeats=False)
    for request in scope.requests:
        if scope.lifetimes or repeats:
            yield Call(calls.ON_NEW_REQUEST, request=request)
        if scope.lifetimes:
            yield Call(calls.ON_REQUEST_FINISHED, request=request)
        for batch in single:
            yield Call(calls.LOOKUP, batch, request)
        for batch in batches:
            yield Call(calls.PREPARE_STORE, batch, request)
            yield Call(calls.COMPLETE_STORE, batch, request)
            yield Call(calls.COMPLETE_STORE, batch, request, success=False)
            yield Call(calls.PREPARE_LOAD, batch, request)
            yield Call(calls.COMPLETE_LOAD, batch, request)
            yield Call(calls.TOUCH, batch, request)
    yield Call(calls.TAKE_EVENTS)
    if scope.setup.events and repeats:
        for limit in range(scope.undrained):
            yield Call(calls.TAKE_EVENTS, limit=limit)
    yield Call(calls.RESET_CACHE)
    if scope.setup.tiers:
        yield Call(calls.RESET_CACHE, success=False)
        yield Call(calls.ON_SCHEDULE_END)
        for tier in range(scope.setup.tiers):
            for batch in single:
                yield Call(calls.FILL_TIER, batch, tier=tier)
                yield Call(calls.DELAY_TIER, batch, tier=tier)


def _batches(keys: Sequence[Key], classes: tuple[int, ...], size: int, *, repeats: bool) -> tuple[tuple[Key, ...], ...]:
    """Every batch of that size; of batches that differ in exchangeable keys only, the first."""
    every = itertools.product(keys, repeat=size) if repeats else itertools.permutations(keys, size)
    return tuple(batch for batch in every if _takes_the_first(batch, keys, classes))


def _takes_the_first(batch: tuple[Key, ...], keys: Sequence[Key], classes: tuple[int, ...]) -> bool:
    """Whether the keys of each class come in their own order, none left out."""
    waiting: dict[int, list[Key]] = {}
    for key, number in zip(keys, classes, strict=True):
        waiting.setdefault(number, []).append(key)
    of_key = dict(zip(keys, classes, strict=True))
    return all(waiting[of_key[key]].pop(0) == key for key in dict.fromkeys(batch))
