"""What is measured of one subject: each trial sets up once, and is then asked for rounds.

A round answers with numbers by name (seconds of thread time, or what the trial says) and, where the answers decide,
with a digest of them: subjects with one profile have to agree in it.
"""

from __future__ import annotations

import gc
import hashlib
import random
import time
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import Any, Protocol

from attrs import define, field

from evictable.model.calls import key_bytes
from evictable.specs.bench import harness, memory
from evictable.specs.bench.judged import JudgedManager
from evictable.specs.bench.loads import Load, Mix, begun, copies, fill, finished, hot_of, keys_of, plan_of
from evictable.specs.bench.makers import Maker
from evictable.specs.bench.measured import Measured
from evictable.specs.bench.performers import Echo, Performer
from evictable.specs.callers.workload import Tally, Workload, read_requests
from evictable.specs.subjects.base import Setup

KEYS = 4
"""The seed of the keys that a cache is filled with."""


class Trial(Protocol):
    def round(self, seed: int) -> Measured:
        """One more measurement. With the same seeds in the same order two trials do the same work."""


def digest_of(answers: Iterable[Any]) -> str:
    """Of what the stores answered: the keys to store and those given up, in order. Slots are the manager's affair."""
    digest = hashlib.sha256()
    for answer in answers:
        if answer is None:
            digest.update(b"refused")
            continue
        for keys in (answer.keys_to_store, answer.evicted_keys):
            digest.update(len(keys).to_bytes(8, "big"))
            for key in keys:
                digest.update(key)
    return digest.hexdigest()


@define
class Judging:
    """The mixed load under the judge, once with requests of each size; at the end every block is evicted.

    Without that nothing would tell in which order the blocks stand that are touched again and again.
    """

    maker: Maker
    policy: str
    capacity: int
    batches: Sequence[int]

    def round(self, seed: int) -> Measured:
        kind = self.maker.kind
        assert kind is not None
        setup = Setup(self.capacity, self.policy, events=False)
        manager = JudgedManager(kind, setup, kind.profile(self.policy))
        keys, rng = keys_of(KEYS, self.capacity), random.Random(seed)
        answers: list[Any] = []
        load: Load | None = None
        for batch in self.batches:
            mix = Mix(self.policy, self.capacity, batch)
            if load is None:
                load = Load(manager, manager.request, mix, keys)
            load.with_mix(mix)
            hot = hot_of(keys, mix)
            load.run(plan_of(rng, mix, hot), hot)
            answers += load.answers
        if load is not None:
            answers += load.turn_over(keys_of(KEYS + 1, self.capacity))
        return Measured({"calls": manager.calls}, digest_of(answers))


@define
class Mixed:
    """Seconds of a request of the mixed load."""

    maker: Maker
    policy: str
    capacity: int
    batch: int
    _mix: Mix = field(init=False)
    _keys: list[bytes] = field(init=False)
    _load: Load = field(init=False)

    def __attrs_post_init__(self) -> None:
        self._mix = Mix(self.policy, self.capacity, self.batch)
        self._keys = keys_of(KEYS, self.capacity)
        self._load = Load(*self.maker.make(self.capacity, self.policy), self._mix, self._keys)
        gc.collect()
        gc.freeze()

    def round(self, seed: int) -> Measured:
        hot = hot_of(self._keys, self._mix)
        plan = plan_of(random.Random(seed), self._mix, hot)
        seconds = self._load.run(plan, hot)
        return Measured({"request": seconds / len(plan)}, digest_of(self._load.answers))


@define
class Calls:
    """Seconds of each call on idle blocks, while a share of all blocks, the coldest ones, is pinned."""

    maker: Maker
    policy: str
    capacity: int
    pinned: float
    """Share of the blocks, from 0 to less than 1."""
    batches: Mapping[str, int]
    """Keys of a call, to how many calls of a round."""
    _manager: Any = field(init=False)
    _context: Any = field(init=False)
    _idle: dict[bytes, None] = field(init=False)

    def __attrs_post_init__(self) -> None:
        self._manager, self._context = self.maker.make(self.capacity, self.policy)
        keys = keys_of(KEYS, self.capacity)
        fill(self._manager, self._context, keys, tail_first=False)
        number = round(self.capacity * self.pinned)
        pin(self._manager, self._context, keys[:number])
        self._idle = dict.fromkeys(keys[number:])
        gc.collect()
        gc.freeze()

    def round(self, seed: int) -> Measured:
        rng = random.Random(seed)
        numbers: dict[str, float] = {}
        answers: list[Any] = []
        for batch, times in self.batches.items():
            numbers |= self._round(rng, int(batch), times, answers)
        return Measured(numbers, digest_of(answers))

    def _round(self, rng: random.Random, batch: int, times: int, answers: list[Any]) -> dict[str, float]:
        manager, context, clock = self._manager, self._context, time.thread_time
        idle = list(self._idle)
        known = [copies(rng.sample(idle, batch)) for _ in range(times)]
        new = [[rng.randbytes(32) + bytes(4) for _ in range(batch)] for _ in range(times)]
        loading = [(keys, begun(manager, context, keys)) for keys in known]
        storing = [(keys, begun(manager, context, keys)) for keys in new]
        took: dict[str, float] = {}

        def timed(name: str, call: Callable[..., Any], asked: Iterable[tuple[Any, Any]]) -> list[Any]:
            asked = list(asked)
            started = clock()
            came = [call(keys, request) for keys, request in asked]
            took[f"{name} {batch}"] = (clock() - started) / times
            return came

        timed("lookup", manager.lookup, [(key, request) for keys, request in loading for key in keys])
        timed("touch", manager.touch, loading)
        timed("prepare_load", manager.prepare_load, loading)
        timed("complete_load", manager.complete_load, loading)
        stored = timed("prepare_store", manager.prepare_store, storing)
        reserved = [(answer.keys_to_store, asked[1]) for answer, asked in zip(stored, storing, strict=True) if answer]
        timed("complete_store", manager.complete_store, reserved)
        for _, request in loading + storing:
            finished(manager, request)
        for answer in stored:
            if answer is None:
                continue
            self._idle |= dict.fromkeys(answer.keys_to_store)
            for key in answer.evicted_keys:
                del self._idle[key]
        answers += stored
        return took


def pin(manager: Any, context: Any, keys: Sequence[bytes], batch: int = 1000) -> None:
    """By loads that do not end, of requests that tell no positions: whose recency nothing changes."""
    for at in range(0, len(keys), batch):
        request = context("pin")
        manager.on_new_request(request)
        manager.prepare_load(keys[at : at + batch], request)


@define
class Pinning:
    """An eviction after so many blocks at the cold end were pinned: the first one, and those that follow.

    Each round begins with an empty cache. Every call is timed by itself, so the slowest is known, too; the garbage
    collector runs as it would.
    """

    maker: Maker
    policy: str
    capacity: int
    pinned: Sequence[int]
    """Rising numbers of blocks. What is pinned stays so until the last eviction; then all is unpinned."""
    batch: int = 16
    """Keys that are stored, and so blocks that are evicted, in a call."""
    times: int = 5
    """Evictions after the first one."""
    _keys: list[bytes] = field(init=False)
    _longest: tuple[float, str] = (0.0, "")
    _answer: Any = None

    def __attrs_post_init__(self) -> None:
        self._keys = keys_of(KEYS, self.capacity)

    def round(self, seed: int) -> Measured:
        self._longest = (0.0, "")
        manager, context = self.maker.make(self.capacity, self.policy)
        keys = self._keys
        new = iter(keys_of(seed + 1000, (self.times + 1) * self.batch * len(self.pinned)))
        self._fill(manager, context, keys)
        numbers: dict[str, float] = {}
        answers: list[Any] = []
        loads: list[tuple[list[bytes], Any]] = []
        at = pinned = 0
        for number in self.pinned:
            batch = keys[at : at + number - pinned]
            loads += self._pin(manager, context, batch)
            at, pinned = at + number - pinned, number
            took = []
            for _ in range(self.times + 1):
                offer = [next(new) for _ in range(self.batch)]
                request = begun(manager, context, offer, tail_first=False)
                took.append(self._timed("prepare_store", manager.prepare_store, offer, request))
                answers.append(self._answer)
                if self._answer is not None:
                    self._timed("complete_store", manager.complete_store, offer, request)
                finished(manager, request)
            at += (self.times + 1) * self.batch  # they were the next to go
            numbers[f"first {number}"] = took[0]
            numbers[f"steady {number}"] = sorted(took[1:])[self.times // 2]
        for batch, request in loads:
            self._timed("complete_load", manager.complete_load, batch, request)
        numbers["slowest"] = self._longest[0]
        return Measured(numbers, digest_of(answers), {"slowest": self._longest[1]})

    def _timed(self, name: str, call: Callable[..., Any], keys: Sequence[bytes], request: Any) -> float:
        started = time.thread_time()
        self._answer = call(keys, request)
        took = time.thread_time() - started
        if took > self._longest[0]:
            self._longest = took, f"{name} of {len(keys)} keys"
        return took

    def _fill(self, manager: Any, context: Any, keys: list[bytes]) -> None:
        for at in range(0, len(keys), 1000):
            batch = keys[at : at + 1000]
            request = begun(manager, context, batch, tail_first=False)
            self._timed("prepare_store", manager.prepare_store, batch, request)
            self._timed("complete_store", manager.complete_store, batch, request)
            finished(manager, request)

    def _pin(self, manager: Any, context: Any, keys: list[bytes]) -> list[tuple[list[bytes], Any]]:
        loads = []
        for at in range(0, len(keys), 1000):
            batch = keys[at : at + 1000]
            request = context("pin")
            manager.on_new_request(request)
            self._timed("prepare_load", manager.prepare_load, batch, request)
            loads.append((batch, request))
        return loads


@define
class Recorded:
    """A request trace in the Mooncake format, bare: seconds of a request.

    What it takes to make the calls is taken off: the same run on a manager that only repeats the answers.
    """

    maker: Maker
    policy: str
    capacity: int
    file: str
    requests: int
    """Of its beginning."""
    _requests: list[tuple[bytes, ...]] = field(init=False)

    def __attrs_post_init__(self) -> None:
        with Path(self.file).open(encoding="utf-8") as lines:
            asked = islice(read_requests(lines, self.file), self.requests)
            self._requests = [tuple(map(key_bytes, keys)) for keys in asked]

    def round(self, seed: int) -> Measured:
        manager, context = self.maker.make(self.capacity, self.policy)
        answers: deque[Any] = deque()
        bare, tally = self._drive(Performer(manager, context))
        self._drive(Performer(self.maker.make(self.capacity, self.policy)[0], context, answers.append))
        again, _ = self._drive(Performer(Echo(answers.popleft), context))
        numbers = {"request": (bare - again) / max(tally.requests, 1), "hit rate": tally.hit_rate}
        return Measured(numbers, f"{tally.stored} {tally.evicted} {tally.hits} {tally.refusals}")

    def _drive(self, performer: Performer) -> tuple[float, Tally]:
        run = Workload(performer, self.capacity, events=False)
        started = time.thread_time()
        (tally,) = deque(run.run(self._requests), maxlen=1)  # type: ignore[arg-type]  # it does not look into keys
        return time.thread_time() - started, tally


TRIALS: dict[str, Callable[..., Trial]] = {
    "judging": Judging,
    "mixed": Mixed,
    "calls": Calls,
    "pinning": Pinning,
    "trace": Recorded,
    "memory": memory.Memory,
    "engine": harness.Engine,
    "defects": harness.Defects,
}
