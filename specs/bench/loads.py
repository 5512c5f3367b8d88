"""The mixed load: requests that look up, touch and load what is there and store what is not, transfers in flight."""

from __future__ import annotations

import random
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from attrs import define, field, frozen

KEYS_OF_ROUND = 20_000
"""Keys of one round: large requests come in fewer numbers."""
TOKENS = 16
"""Of a block, for the positions that a scheduler tells."""
FILL = 1000
"""Keys of a request that fills a cache."""

Plan = Sequence[tuple[list[bytes], list[bytes]]]
"""Of each request of a round: the keys that are there, and the new ones."""
Context = Callable[[str], Any]
"""Makes a manager's own request object from an id."""


@frozen
class Mix:
    """A request looks up, touches and loads ``batch / 2`` keys that are there and stores as many new ones."""

    policy: str
    capacity: int
    batch: int
    """Keys of a request, at least 2."""

    @property
    def half(self) -> int:
        return self.batch // 2

    @property
    def requests(self) -> int:
        """Of a round. With more new keys they would push out those that are to be loaded."""
        most = min(KEYS_OF_ROUND, self.capacity) // 2
        return max(8, min(2500, most // self.half))

    @property
    def in_flight(self) -> int:
        """Requests whose transfers are not complete."""
        return max(1, min(16, self.capacity // (4 * self.batch)))


def keys_of(seed: int, number: int) -> list[bytes]:
    """As schedulers make them: a hash of 32 bytes and the number of a group. One seed gives the same everywhere."""
    rng = random.Random(seed)
    return [rng.randbytes(32) + bytes(4) for _ in range(number)]


def copies(keys: Sequence[bytes]) -> list[bytes]:
    """Equal keys that are other objects, as each request computes its own."""
    return [bytes(bytearray(key)) for key in keys]


def hot_of(keys: list[bytes], mix: Mix) -> list[bytes]:
    """The keys that requests come back to."""
    return keys[: max(mix.capacity // 8, mix.batch)]


def plan_of(rng: random.Random, mix: Mix, hot: list[bytes]) -> Plan:
    def new() -> list[bytes]:
        return [rng.randbytes(32) + bytes(4) for _ in range(mix.half)]

    return [(rng.sample(hot, mix.half), new()) for _ in range(mix.requests)]


def begun(manager: Any, context: Context, keys: Sequence[bytes], *, tail_first: bool = True) -> Any:
    """A request for ``keys`` that the manager has been told of.

    A manager that ranks by position gives up a request's last key first; not ``tail_first``, positions run the other
    way, and so keys go in the order in which they were stored, as with every other manager.
    """
    request = context("request")
    if hasattr(request, "set_offload_key_position"):
        places = range(1, len(keys) + 1) if tail_first else range(len(keys), 0, -1)
        for place, key in zip(places, keys, strict=True):
            request.set_offload_key_position(key, place * TOKENS)
    manager.on_new_request(request)
    return request


def finished(manager: Any, request: Any) -> None:
    getattr(manager, "on_request_finished", lambda request: None)(request)


def fill(
    manager: Any, context: Context, keys: Sequence[bytes], batch_size: int = FILL, *, tail_first: bool = True
) -> list[Any]:
    """Store ``keys``, so many in a request, and tell what each was answered."""
    answers = []
    for at in range(0, len(keys), batch_size):
        batch = keys[at : at + batch_size]
        request = begun(manager, context, batch, tail_first=tail_first)
        answers.append(manager.prepare_store(batch, request))
        if answers[-1] is not None:
            manager.complete_store(answers[-1].keys_to_store, request)
        finished(manager, request)
    return answers


@define
class Load:
    """A manager, full to begin with, and the requests whose transfers are in flight."""

    manager: Any
    context: Context
    mix: Mix
    keys: list[bytes]
    """To fill it with: as many as it has slots."""
    clock: Callable[[], float] = time.thread_time
    answers: list[Any] = field(factory=list)
    """What the stores of the latest round answered."""
    _waiting: deque[Any] = field(factory=deque)

    def __attrs_post_init__(self) -> None:
        fill(self.manager, self.context, self.keys)

    def with_mix(self, mix: Mix) -> None:
        """Go on with requests of another size, when none is in flight."""
        self._end()
        self.mix = mix

    def turn_over(self, keys: Sequence[bytes]) -> list[Any]:
        """Touch some keys and store as many new ones as there are slots: who goes, and when, shows the whole order.

        In the load itself a touch leaves no trace, for what is touched is loaded next.
        """
        self._end()
        self.manager.touch(hot_of(self.keys, self.mix), self.context("keeper"))
        few = max(1, len(keys) // 64)  # in which order those go that make room for one request is nobody's affair
        return fill(self.manager, self.context, keys, few)

    def run(self, plan: Plan, hot: list[bytes]) -> float:
        """Seconds of the clock in the calls. A request that has ended is given up within the time, as by any caller."""
        manager, waiting, clock = self.manager, self._waiting, self.clock
        manager.touch(hot, self.context("keeper"))  # so that they are there to be loaded
        requests = list(self._requests(plan))
        requests.reverse()
        answers = self.answers = []
        most = self.mix.in_flight
        lookup, finish = manager.lookup, getattr(manager, "on_request_finished", None)
        started = clock()
        while requests:
            hit, new, request = requests.pop()
            for key in hit:
                lookup(key, request)
            lookup(new[0], request)
            manager.touch(hit, request)
            manager.prepare_load(hit, request)
            answer = manager.prepare_store(new, request)
            answers.append(answer)
            waiting.append((hit, () if answer is None else answer.keys_to_store, request))
            if len(waiting) > most:
                hit, stored, request = waiting.popleft()
                manager.complete_load(hit, request)
                manager.complete_store(stored, request)
                if finish is not None:
                    finish(request)
        return clock() - started

    def _requests(self, plan: Plan) -> Iterator[tuple[list[bytes], list[bytes], Any]]:
        for known, unknown in plan:
            hit, new = copies(known), copies(unknown)
            yield hit, new, begun(self.manager, self.context, hit + new)

    def _end(self) -> None:
        while self._waiting:
            hit, stored, request = self._waiting.popleft()
            self.manager.complete_load(hit, request)
            self.manager.complete_store(stored, request)
            finished(self.manager, request)
