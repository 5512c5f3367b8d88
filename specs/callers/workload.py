"""A production workload: a request trace in the Mooncake format, driven as a scheduler would.

For each request: look up its prefix, load the part that hits, store the rest. Completions come some requests
later, so that loads and stores overlap and blocks are pinned while others are evicted.
"""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from typing import Protocol

from attrs import define, frozen

from evictable.model import calls
from evictable.model.calls import Call, Key, Outcome, Stored
from evictable.specs.errors import UsageError


def read_requests(lines: Iterable[str], name: str) -> Iterator[tuple[Key, ...]]:
    """The block keys of each request. Raises `UsageError` with the line number of the first bad one."""
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            record = json.loads(line)
            blocks = record["hash_ids"]
            if not isinstance(blocks, list) or not all(type(block) is int and 0 <= block < 2**64 for block in blocks):
                raise TypeError
        except (ValueError, KeyError, TypeError, RecursionError):
            raise UsageError(
                f"{name}:{number}: not a request of the Mooncake format; "
                'expected {"timestamp": ..., "hash_ids": [0, 1, ...]}'
            ) from None
        yield tuple(dict.fromkeys(blocks))


@frozen
class Tally:
    """What a run of a workload came to. Blocks are counted, not requests, but for ``requests`` and ``refusals``."""

    requests: int
    calls: int
    looked_up: int
    hits: int
    stored: int
    evicted: int
    refusals: int

    @property
    def hit_rate(self) -> float:
        """Of the blocks that the requests referred to, the fraction that was loaded."""
        return self.hits / self.looked_up if self.looked_up else 0.0


class Performer(Protocol):
    """Makes a call: judged or bare."""

    def __call__(self, call: Call) -> Outcome: ...


@define
class Workload:
    """Drives one manager through a request trace.

    ``delay`` is the number of requests that begin between a preparation and its completion. ``stop`` ends the
    run early; ``batch`` bounds the keys of one call to what a cache can hold at all.
    """

    perform: Performer
    capacity: int
    delay: int = 8
    stop: Callable[[], bool] = lambda: False
    events: bool = True
    drain_every: int = 16

    def run(self, requests: Iterable[tuple[Key, ...]]) -> Iterator[Tally]:
        """Yield a tally after every request, and a last one when everything has completed."""
        perform = self.perform
        waiting: deque[list[Call]] = deque()
        number = made = looked_up = hits = stored = evicted = refusals = 0

        def tally() -> Tally:
            return Tally(number, made, looked_up, hits, stored, evicted, refusals)

        for blocks in requests:
            number += 1
            request = f"r{number}"
            perform(Call(calls.ON_NEW_REQUEST, request=request))
            made += 1
            hit = 0
            for block in blocks:
                made += 1
                if perform(Call(calls.LOOKUP, (block,), request)) != calls.HIT:
                    break
                hit += 1
            completions = []
            if hit:
                prefix = blocks[:hit]
                perform(Call(calls.TOUCH, prefix, request))
                perform(Call(calls.PREPARE_LOAD, prefix, request))
                completions.append(Call(calls.COMPLETE_LOAD, prefix, request))
                made += 2
            rest = blocks[hit : hit + self.capacity]
            if rest:
                outcome = perform(Call(calls.PREPARE_STORE, rest, request))
                made += 1
                if isinstance(outcome, Stored):
                    stored += len(outcome.keys_to_store)
                    evicted += len(outcome.evicted_keys)
                    if outcome.keys_to_store:
                        completions.append(Call(calls.COMPLETE_STORE, outcome.keys_to_store, request))
                else:
                    refusals += 1
            perform(Call(calls.ON_REQUEST_FINISHED, request=request))
            made += 1
            looked_up += len(blocks)
            hits += hit
            waiting.append(completions)
            if len(waiting) > self.delay:
                for call in waiting.popleft():
                    perform(call)
                    made += 1
            if self.events and number % self.drain_every == 0:
                perform(Call(calls.TAKE_EVENTS))
                made += 1
            if self.stop():
                break
            yield tally()
        for completions in waiting:
            for call in completions:
                if self.stop():
                    break
                perform(call)
                made += 1
        yield tally()
