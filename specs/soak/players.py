"""What the threads of a soak do: a careful scheduler's requests, and the jobs of tiers."""

from __future__ import annotations

from collections.abc import Callable
from random import Random

from attrs import define, evolve, field

from evictable.model import calls
from evictable.model.calls import Call, Key, Outcome, Raised, Stored
from evictable.model.tiers import TieredManager
from evictable.specs.session import Session

REQUESTS = 3
"""Requests that a thread runs at the same time."""
BATCH = 4
FAULT_RATE, TIER_FAULT_RATE = 0.1, 0.4
"""Calls in which a fault waits. In most it waits in vain: what it would strike is not used."""

_ACTIONS = ("serve",) * 6 + ("offer",) * 5 + ("store done",) * 6 + ("load done",) * 6 + ("finish",) * 2
_OTHERS = ("touch", "drain", "stats", "new")


@define
class Player:
    """One thread's requests. Each of its methods is called under the lock."""

    name: str
    session: Session
    random: Random
    keys: int
    """Keys are named from 0 to ``keys - 1``."""
    faults: bool
    step: Callable[[Call], Outcome]
    stores: list[tuple[str, tuple[Key, ...]]] = field(factory=list)
    loads: list[tuple[str, tuple[Key, ...]]] = field(factory=list)
    live: list[str] = field(factory=list)
    calls: int = 0
    requests: int = 0
    """So many were announced."""

    def act(self) -> None:
        """Make a call, or those that belong together."""
        if len(self.live) < REQUESTS:
            self._new()
        else:
            self._do(self.random.choice((*_ACTIONS, *_OTHERS, *(("step",) * 4 if self.session.setup.tiers else ()))))

    def settle(self) -> bool:
        """Complete one of its transfers; whether there was one."""
        if self.stores:
            self._store_done()
        elif self.loads:
            self._load_done()
        else:
            return False
        return True

    def _do(self, action: str) -> None:
        if action == "serve":
            self._serve()
        elif action == "offer":
            self._offer()
        elif action == "store done" and self.stores:
            self._store_done()
        elif action == "load done" and self.loads:
            self._load_done()
        elif action == "finish":
            self._finish()
        elif action == "new" and len(self.live) < 2 * REQUESTS:
            self._new()
        elif action == "touch":
            self._call(Call(calls.TOUCH, self._some(), self.random.choice(self.live)))
        elif action == "drain":
            self._call(Call(calls.TAKE_EVENTS))
        elif action == "stats":
            self._call(Call(calls.GET_STATS))
        elif action == "step":
            self._call(Call(calls.ON_SCHEDULE_END))

    def _serve(self) -> None:
        """Look up a prefix, and load what is there: in one hold of the lock, since a HIT is no pin."""
        request = self.random.choice(self.live)
        first = self.random.randrange(self.keys)
        hits: list[Key] = []
        for key in range(first, min(first + BATCH, self.keys)):
            if self._call(Call(calls.LOOKUP, (key,), request)) != calls.HIT:
                break
            hits.append(key)
        load = Call(calls.PREPARE_LOAD, tuple(hits), request)
        if hits and self.session.allows(load) and not isinstance(self._call(load), Raised):
            self.loads.append((request, load.keys))

    def _offer(self) -> None:
        request = self.random.choice(self.live)
        outcome = self._call(Call(calls.PREPARE_STORE, self._some(), request))
        if isinstance(outcome, Stored) and outcome.keys_to_store:
            self.stores.append((request, outcome.keys_to_store))

    def _store_done(self) -> None:
        request, keys = self.stores[0]
        success = self.random.random() < 0.9
        if not isinstance(self._call(Call(calls.COMPLETE_STORE, keys, request, success=success)), Raised):
            self.stores.pop(0)

    def _load_done(self) -> None:
        place = self.random.randrange(len(self.loads))
        request, keys = self.loads[place]
        if not isinstance(self._call(Call(calls.COMPLETE_LOAD, keys, request)), Raised):
            self.loads.pop(place)

    def _new(self) -> None:
        request = f"{self.name}-{self.requests}"
        self.requests += 1
        if not isinstance(self._call(Call(calls.ON_NEW_REQUEST, request=request)), Raised):
            self.live.append(request)

    def _finish(self) -> None:
        """Of a request that has nothing in flight, so that nothing need be remembered of it."""
        busy = {request for request, _ in (*self.stores, *self.loads)}
        ready = [request for request in self.live if request not in busy]
        if not ready:
            return
        request = self.random.choice(ready)
        if not isinstance(self._call(Call(calls.ON_REQUEST_FINISHED, request=request)), Raised):
            self.live.remove(request)

    def _some(self) -> tuple[Key, ...]:
        return tuple(self.random.sample(range(self.keys), self.random.randint(1, BATCH)))

    def _call(self, call: Call) -> Outcome:
        self.calls += 1
        tiers = self.session.setup.tiers
        if self.faults and self.random.random() < (TIER_FAULT_RATE if tiers else FAULT_RATE):
            # Above tiers it is those that raise: what else does, a manager may lay at a tier's door and go on.
            places = calls.TIER_FAULTS if tiers else self.session.subject.faults.places
            if places:  # in another process there are none
                call = evolve(call, raises_in=self.random.choice(places), at=self.random.choice((1, 1, 2, 3)))
        return self.step(call)


@define
class Tiers:
    """A thread of the tiers: jobs end, well or not, whenever it comes to them."""

    session: Session
    random: Random
    keys: int
    step: Callable[[Call], Outcome]
    calls: int = 0

    def act(self) -> None:
        model = self.session.judge.model
        assert isinstance(model, TieredManager)
        running = [number for number in model.jobs if number not in model.results]
        if running:
            number = self.random.choice(running)
            keys = model.jobs[number].keys
            moved = self.random.choice((keys, keys, keys, keys[: len(keys) // 2], ()))
            self._call(Call(calls.FINISH_JOB, moved, job=number))
        elif self.random.random() < 0.05:
            keys = tuple(self.random.sample(range(self.keys), BATCH))
            self._call(Call(calls.FILL_TIER, keys, tier=self.random.randrange(model.num_tiers)))

    def _call(self, call: Call) -> None:
        self.calls += 1
        self.step(call)
