"""What a monitor costs: the same requests on a bare manager and on watched ones, in turn, in one process."""

from __future__ import annotations

import gc
import random
import statistics
import time
from collections.abc import Iterator, Sequence
from typing import Any

from attrs import frozen

from evictable.specs.bench.loads import Load, Mix, hot_of, keys_of, plan_of
from evictable.specs.monitor.inside import LEVELS
from evictable.specs.monitor.monitor import watch
from evictable.specs.subjects.base import Setup, SubjectKind

BARE = "bare"


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
    caches. The first round of each warms up and does not count. Garbage is collected before each turn, so that nobody
    pays for what the other has left behind.
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
    keys = keys_of(4, mix.capacity)
    hot = hot_of(keys, mix)
    loads = {BARE: _load(kind, mix, keys), level: _load(kind, mix, keys)}
    monitor = watch(loads[level].manager, level=level)
    gc.collect()
    gc.freeze()
    for turn in range(rounds + 1):
        plan = plan_of(rng, mix, hot)
        taken = {}
        for whose in rng.sample(list(loads), len(loads)):
            gc.collect()
            taken[whose] = loads[whose].run(plan, hot) / len(plan)
        if turn:
            yield taken
    gc.unfreeze()
    broken = [*([monitor.failure] if monitor.failure else []), *monitor.violations]
    if broken:
        raise RuntimeError(f"a law is broken: {broken[0]}")


def _load(kind: SubjectKind, mix: Mix, keys: list[bytes]) -> Load:
    subject: Any = kind.make(Setup(mix.capacity, mix.policy, events=False))
    # Of the process: a monitor may have a thread.
    return Load(subject.manager, subject.request_context, mix, keys, time.process_time)
