"""Several threads, each a careful scheduler, on one long-lived manager: every call judged under the manager's lock.

Now and then all come to rest: every transfer is completed, the events are drained, memory is measured and the cache is
reset. Some calls meet a fault. What a soak adds to a search is time: what is lost a little at a time shows.
"""

from __future__ import annotations

import gc
import sys
import threading
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from random import Random
from typing import Any

from attrs import define, field, frozen

from evictable.model import calls
from evictable.model.calls import Call, Outcome
from evictable.model.exchanges import Submitted
from evictable.model.tiers import TieredManager
from evictable.specs.budget import Budget
from evictable.specs.callers.disciplines import HOSTILE
from evictable.specs.judge import Broken
from evictable.specs.schedules.search import OWN, lock_of
from evictable.specs.search import CONFORMS, INCONCLUSIVE, VIOLATES
from evictable.specs.session import Record, Session
from evictable.specs.soak.memory import Growth, Samples
from evictable.specs.soak.players import Player, Tiers
from evictable.specs.subjects.base import Setup, SubjectKind

LAST_CALLS = 40
"""Calls that are shown when a law breaks."""
REST_EVERY = 2000
"""Calls between two rests."""
REMEMBERED = 1000
"""Finished requests that `impl` remembers above tiers during a soak, so that the table is full early."""
SWITCH_INTERVAL = 1e-4
"""Seconds that a thread may run on; the default would let it make many calls."""


@frozen
class Plan:
    """What is run."""

    threads: int = 4
    faults: bool = True
    lock: str = OWN
    rest_every: int = REST_EVERY
    seed: int = 0


@frozen
class Deed:
    """A call, and the thread that made it."""

    thread: str
    record: Record


@define
class Soak:
    """One run on one subject."""

    kind: SubjectKind
    setup: Setup
    profile: str
    plan: Plan
    budget: Budget
    on_progress: Callable[[Soak], None] = lambda soak: None
    """Called under the lock, once a call."""
    session: Session = field(init=False)
    players: list[Player] = field(init=False)
    samples: Samples = field(factory=Samples)
    last: deque[Deed] = field(factory=lambda: deque(maxlen=LAST_CALLS))
    rests: int = 0
    struck: int = 0
    """Faults that struck."""
    came_to_rest: bool = False
    """Everything was completed in the end, and the last store was made."""
    crowded: bool = False
    """The lock let two threads in at a time: then nothing that was judged counts."""
    _inside: bool = False
    _tiers: list[Tiers] = field(factory=list)
    _find_lock: Callable[[], Any] = field(init=False)
    _resting: bool = False
    _ending: bool = False
    _next_rest: int = field(init=False)
    _left: int = 0
    """Players that have not ended."""
    _error: BaseException | None = None

    def __attrs_post_init__(self) -> None:
        draw = Random(self.plan.seed)
        self.session = Session.begin(self.kind, self.setup, self.profile, HOSTILE)
        find = lock_of(self.session.subject, self.plan.lock, self.kind.name)
        assert find is not None
        self._find_lock = find
        keys = 3 * self.setup.capacity
        self.players = [
            Player(name, self.session, Random(draw.random()), keys, self.plan.faults, self._stepper(name))
            for name in (f"t{number}" for number in range(1, self.plan.threads + 1))
        ]
        if self.setup.tiers:
            self._tiers = [Tiers(self.session, Random(draw.random()), keys, self._stepper("tiers"))]
            _remember_fewer(self.session.subject)
        self._next_rest = self.plan.rest_every
        self._left = len(self.players)

    @property
    def calls(self) -> int:
        return self.budget.calls

    @property
    def jobs(self) -> int:
        """What the thread of the tiers did."""
        return sum(tiers.calls for tiers in self._tiers)

    @property
    def broken(self) -> tuple[Broken, ...]:
        return self.session.broken

    @property
    def growth(self) -> Growth | None:
        return self.samples.growth

    def run(self) -> None:
        """Run all threads until the budget is spent or a law is broken, then bring everything to rest."""
        bodies = [*(self._play(player) for player in self.players), *(self._serve(tiers) for tiers in self._tiers)]
        threads = [threading.Thread(target=self._guarded, args=(body,)) for body in bodies]
        with _switching_often(), _older_objects_left_alone():
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
        if self.crowded:
            return
        if self._error is not None:
            raise self._error
        if not self.broken:
            with self._find_lock():
                self._finish()

    # --- the threads ---

    def _guarded(self, steps: Iterator[None]) -> None:
        """Each step of a thread is one hold of the lock."""
        try:
            while True:
                with self._find_lock():
                    if self._inside:
                        self.crowded = True
                        return
                    self._inside = True  # with nothing in between: who is let in as well must see it
                    try:
                        if self.crowded or self.broken or self._error is not None or next(steps, self) is self:
                            return
                    finally:
                        self._inside = False
        except BaseException as error:
            self._error = error

    def _play(self, player: Player) -> Iterator[None]:
        while not self._ending:
            if self._resting:
                player.settle()
                if self.session.promises.at_rest:
                    self._rest(player)
            else:
                player.act()
            yield
        player.faults = False
        while player.settle():
            yield
        self._left -= 1

    def _serve(self, tiers: Tiers) -> Iterator[None]:
        while self._left:
            tiers.act()
            yield

    def _stepper(self, name: str) -> Callable[[Call], Outcome]:
        def step(call: Call) -> Outcome:
            if self.broken:  # in the middle of calls that belong together
                return None
            session = self.session
            outcome = session.step(call)
            self.budget.calls += 1
            made = session.records[-1]
            self.struck += _has_struck(made)
            self.last.append(Deed(name, made))
            self._forget(made.call)
            self._ending = self._ending or self.budget.spent
            if self.budget.calls >= self._next_rest:
                self._resting = True
            self.on_progress(self)
            return outcome

        return step

    def _forget(self, call: Call) -> None:
        """What the judge would keep for ever: calls made, and requests that are finished and have nothing in flight."""
        session = self.session
        if len(session.records) > LAST_CALLS:
            del session.records[:-1]
        if call.name == calls.ON_REQUEST_FINISHED:
            session.promises.finished.discard(call.request)
            session.judge.model.finished.discard(str(call.request))
            contexts = getattr(session.subject, "_requests", {})
            contexts.pop(call.request, None)

    # --- at rest ---

    def _rest(self, player: Player) -> None:
        self._resting = False
        self._next_rest = self.budget.calls + self.plan.rest_every
        player.step(Call(calls.TAKE_EVENTS))
        if self.broken:
            return
        self.session.records.clear()
        self.samples.take(self.budget.calls)  # before the reset, which may give back what had gathered
        player.step(Call(calls.RESET_CACHE))
        if self.broken:
            return
        self.rests += 1
        self.last.clear()
        model = self.session.judge.model
        if isinstance(model, TieredManager):  # of requests that will not be heard of again
            model.told.clear()

    def _finish(self) -> None:
        session = self.session
        keys = self.players[0].keys
        if self.players[0].live:  # names a key above all others, so that those of the last store are new
            session.step(Call(calls.LOOKUP, (keys,), self.players[0].live[0]))
        if not session.broken:
            session.finish()
        self.came_to_rest = not session.broken and {"drains", "progress"} <= session.judge.exercised

    # --- what came of it ---

    @property
    def problem(self) -> str:
        """Why there is no verdict, or what is wrong that is no law; empty if all is well."""
        if self.crowded:
            return "the lock let two threads in at a time"
        if not self.came_to_rest:
            return "drains and progress were not put to the test"
        if self.growth is None:
            return f"only {len(self.samples)} rests: too few to compare memory; run longer"
        if self.plan.faults and not self.struck:
            return "no fault struck"
        if min(player.calls for player in self.players) * 100 * len(self.players) < self.budget.calls:
            return "a thread hardly came to run: it made less than a hundredth of an equal share of the calls"
        return ""

    @property
    def verdict(self) -> str:
        growth = self.growth
        if self.crowded or self.broken or (growth is not None and not growth.constant):
            return VIOLATES
        return INCONCLUSIVE if self.problem else CONFORMS


def _has_struck(made: Record) -> bool:
    """A fault above tiers may have waited in vain; what no other use was made of is struck from the record."""
    if made.call.raises_in in calls.TIER_FAULTS:
        return any(isinstance(one, Submitted) and one.raised for one in made.exchanges)
    return made.call.raises_in is not None


def _remember_fewer(subject: Any) -> None:
    manager = getattr(subject, "_manager", None)
    module = sys.modules.get(type(manager).__module__)
    if hasattr(module, "_MAX_TOLD"):
        module._MAX_TOLD = REMEMBERED  # type: ignore[union-attr]


@contextmanager
def _older_objects_left_alone() -> Iterator[None]:
    """Collections look only at what has been made since: there is one at each rest."""
    gc.freeze()
    try:
        yield
    finally:
        gc.unfreeze()


@contextmanager
def _switching_often() -> Iterator[None]:
    before = sys.getswitchinterval()
    sys.setswitchinterval(SWITCH_INTERVAL)
    try:
        yield
    finally:
        sys.setswitchinterval(before)
