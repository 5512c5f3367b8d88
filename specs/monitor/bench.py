"""What a monitor costs: the same requests on a bare manager and on watched ones, in turn, in one process."""

from __future__ import annotations

import gc
import random
import statistics
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from attrs import define, field, frozen

from evictable.specs.monitor.inside import LEVELS
from evictable.specs.monitor.monitor import watch
from evictable.specs.subjects.base import Setup, SubjectKind

BARE = "bare"
KEYS_OF_ROUND = 20_000
"""Keys of one round: large requests come in fewer numbers."""
TOKENS = 16
"""Of a block, for the positions that a scheduler tells."""


@frozen
class Mix:
    """A request looks up, touches and loads ``batch / 2`` keys that are there and stores as many new ones."""

    policy: str
    capacity: int
    batch: int
    """Keys of a request, at least 2."""


@frozen
class Cost:
    mix: Mix
    microseconds: dict[str, float]
    """Process time of a request, the median over the rounds, bare and by level."""
    ratios: dict[str, float]
    """The median over the rounds of a level's time to the bare manager's in the same round."""


def measure(kind: SubjectKind, mix: Mix, rounds: int, levels: Sequence[str] = LEVELS) -> Iterator[Cost | None]:
    """Yield ``None`` after every round and then the cost.

    Each level takes turns with a bare manager of its own, and no third that would push both out of the processor's
    caches. The first round of each warms up and does not count.
    """
    spent: dict[str, float] = {}
    ratios: dict[str, float] = {}
    for level in levels:
        times: dict[str, list[float]] = {BARE: [], level: []}
        for taken in _take_turns(kind, mix, rounds, level):
            for whose, seconds in taken.items():
                times[whose].append(seconds)
            yield None
        spent |= {whose: statistics.median(taken) * 1e6 for whose, taken in times.items()}
        ratios[level] = statistics.median(one / bare for one, bare in zip(times[level], times[BARE], strict=True))
    yield Cost(mix, spent, ratios)


def _take_turns(kind: SubjectKind, mix: Mix, rounds: int, level: str) -> Iterator[dict[str, float]]:
    """Seconds of a request in each round, on either manager. Raises `RuntimeError` if a law is broken."""
    rng = random.Random(5)
    keys = [rng.randbytes(32) + bytes(4) for _ in range(mix.capacity)]
    hot = keys[: max(mix.capacity // 8, mix.batch)]
    drivers = [_Driver(kind, mix, BARE, keys), _Driver(kind, mix, level, keys)]
    half = mix.batch // 2
    most = min(KEYS_OF_ROUND, mix.capacity) // 2  # new keys: more would push out those that are to be loaded
    number = max(8, min(2500, most // half))
    gc.collect()
    gc.freeze()
    for turn in range(rounds + 1):
        plan = [(rng.sample(hot, half), [rng.randbytes(32) + bytes(4) for _ in range(half)]) for _ in range(number)]
        taken = {driver.level: driver.run(plan, hot) / number for driver in rng.sample(drivers, len(drivers))}
        if turn:
            yield taken
    gc.unfreeze()
    for driver in drivers:
        if driver.broken:
            raise RuntimeError(f"a law is broken: {driver.broken}")


@define
class _Driver:
    """A manager, full to begin with, and the requests whose transfers are in flight."""

    kind: SubjectKind
    mix: Mix
    level: str
    keys: list[bytes]
    manager: Any = field(init=False)
    context: Callable[[str], Any] = field(init=False)
    monitor: Any = None
    waiting: deque[Any] = field(factory=deque)

    def __attrs_post_init__(self) -> None:
        subject: Any = self.kind.make(Setup(self.mix.capacity, self.mix.policy, events=False))
        self.manager, self.context = subject.manager, subject.request_context
        for at in range(0, len(self.keys), 1000):
            batch = self.keys[at : at + 1000]
            context = self._begun(batch)
            self.manager.prepare_store(batch, context)
            self.manager.complete_store(batch, context)
            self._finished(context)
        if self.level != BARE:
            self.monitor = watch(self.manager, level=self.level)

    @property
    def broken(self) -> Any:
        if self.monitor is None:
            return None
        return self.monitor.failure or (self.monitor.violations or [None])[0]

    def _begun(self, keys: Sequence[bytes]) -> Any:
        context = self.context("request")
        if hasattr(context, "set_offload_key_position"):
            for place, key in enumerate(keys, 1):
                context.set_offload_key_position(key, place * TOKENS)
        self.manager.on_new_request(context)
        return context

    def _finished(self, context: Any) -> None:
        getattr(self.manager, "on_request_finished", lambda context: None)(context)

    def _request(self, hit: list[bytes], new: list[bytes]) -> tuple[list[bytes], list[bytes], Any]:
        hit, new = [bytes(bytearray(key)) for key in hit], [bytes(bytearray(key)) for key in new]
        return hit, new, self._begun(hit + new)

    def run(self, plan: Sequence[tuple[list[bytes], list[bytes]]], hot: list[bytes]) -> float:
        """Seconds of process time in the calls."""
        manager, waiting = self.manager, self.waiting
        manager.touch(hot, self.context("keeper"))  # so that they are there to be loaded
        requests = [self._request(*one) for one in reversed(plan)]
        most = max(1, min(16, self.mix.capacity // (4 * self.mix.batch)))
        lookup, finished = manager.lookup, getattr(manager, "on_request_finished", None)
        started = time.process_time()
        while requests:  # a request that has ended is given up within the time: by a bare manager's caller, too
            hit, new, context = requests.pop()
            for key in hit:
                lookup(key, context)
            lookup(new[0], context)
            manager.touch(hit, context)
            manager.prepare_load(hit, context)
            stored = manager.prepare_store(new, context).keys_to_store
            waiting.append((hit, stored, context))
            if len(waiting) > most:
                hit, stored, context = waiting.popleft()
                manager.complete_load(hit, context)
                manager.complete_store(stored, context)
                if finished is not None:
                    finished(context)
        return time.process_time() - started
