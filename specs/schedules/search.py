"""Interleaving one pair of calls on a subject, and what comes of it."""

from __future__ import annotations

import linecache
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from threading import Lock
from typing import Any

from attrs import define, field, frozen

from evictable.model import calls
from evictable.model.calls import Call, Outcome, Raised, describe
from evictable.specs.errors import UsageError
from evictable.specs.schedules.baton import OPCODE, Baton, NotTheSame, Stuck, Switch
from evictable.specs.schedules.explore import Exploration
from evictable.specs.schedules.linear import AFTER, History, Linearizability, Made, Refuted, calls_after, is_refusal
from evictable.specs.schedules.locks import Watched
from evictable.specs.schedules.pairs import CAPACITY, Pair
from evictable.specs.search import CONFORMS, INCONCLUSIVE, VIOLATES
from evictable.specs.session import outcome_of
from evictable.specs.subjects.base import Setup, Subject, SubjectKind

OWN, EXTERNAL, NONE = "own", "external", "none"
LOCKS = (OWN, EXTERNAL, NONE)
"""Held around each call: the manager's own, one of ours, or none."""


@frozen
class Way:
    """How a pair is interleaved."""

    lock: str = OWN
    grain: str = OPCODE
    preemptions: int | None = None
    outside: frozenset[str] = frozenset()
    """Calls that are made without the lock."""


@frozen
class Finding:
    """A schedule under which no order explains what was observed."""

    history: History
    refuted: tuple[Refuted, ...]
    steps: tuple[str, ...]
    """The schedule in words."""
    schedule: int
    """It was the so many-th schedule."""
    preemptions: int


@define
class Outcomes:
    """What interleaving a pair came to."""

    pair: Pair
    verdict: str
    schedules: int = 0
    points: int = 0
    seconds: float = 0.0
    different: int = 0
    """Different histories among the schedules."""
    finding: Finding | None = None
    problem: str = ""
    """Why it is inconclusive."""


@define
class PairSearch:
    """Interleaves a pair on fresh subjects."""

    kind: SubjectKind
    policy: str
    profile: str
    pair: Pair
    way: Way
    _last: History | None = None
    _linear: Linearizability = field(init=False)

    def __attrs_post_init__(self) -> None:
        setup = Setup(CAPACITY, self.policy, self.kind.events)
        empty = self.kind.make(setup).snapshot(None)
        self._linear = Linearizability(setup, self.profile, self.kind.admission, empty)

    def run(self, max_seconds: float | None = None, on_run: Callable[[], None] = lambda: None) -> Outcomes:
        """Up to the first schedule that no order explains, or all. Raises `UsageError` if there is no such lock."""
        started = time.monotonic()
        exploration = Exploration(self._play, self.way.grain, self.way.preemptions)
        made = Outcomes(self.pair, CONFORMS)
        try:
            for baton, preemptions in exploration.runs():
                on_run()
                made.finding = self._judge(baton, exploration.schedules, preemptions)
                if made.finding is not None:
                    made.verdict = VIOLATES
                    break
                if max_seconds is not None and time.monotonic() - started > max_seconds and not exploration.complete:
                    made.verdict, made.problem = INCONCLUSIVE, f"not all schedules in {max_seconds:.1f} s"
                    break
        except (Stuck, NotTheSame) as error:
            made.verdict, made.problem = INCONCLUSIVE, str(error)
        made.schedules, made.points = exploration.schedules, exploration.points
        made.seconds, made.different = time.monotonic() - started, self._linear.outcomes
        return made

    def _play(self, baton: Baton) -> None:
        subject = self.kind.make(self._linear.setup)
        before = tuple(Made(call, outcome_of(subject, call)) for call in self.pair.before)
        find_lock = lock_of(subject, self.way.lock, self.kind.name)
        outcomes: dict[int, Outcome] = {}

        def body(number: int, call: Call) -> Callable[[], None]:
            guard: AbstractContextManager[Any]
            guard = nullcontext() if call.name in self.way.outside or find_lock is None else Watched(find_lock(), baton)

            def make() -> None:
                with guard:
                    outcomes[number] = outcome_of(subject, call)

            return make

        baton.run([body(number, call) for number, call in enumerate(self.pair.calls)])
        self._last = None if baton.deadlock else self._history(subject, before, outcomes)

    def _history(self, subject: Subject, before: tuple[Made, ...], outcomes: dict[int, Outcome]) -> History:
        state = subject.snapshot(None)
        made = tuple(Made(call, outcomes[number], state) for number, call in enumerate(self.pair.calls))
        after: list[Made] = []
        refused = False
        for call in calls_after(self.pair, before, made):
            if refused and call.name == calls.COMPLETE_STORE and call.request == AFTER:
                continue
            outcome = outcome_of(subject, call)
            refused = call.name == calls.PREPARE_STORE and is_refusal(outcome)
            after.append(Made(call, outcome))
        after[-1] = Made(after[-1].call, after[-1].outcome, subject.snapshot(None))
        return History(before, made, tuple(after))

    def _judge(self, baton: Baton, schedule: int, preemptions: int) -> Finding | None:
        history = self._last
        if history is None:
            return Finding(History((), (), ()), (), _steps_of(self.pair, baton, {}), schedule, preemptions)
        refuted = self._linear.refuted(history)
        if not refuted:
            return None
        outcomes = {number: made.outcome for number, made in enumerate(history.pair)}
        return Finding(history, refuted, _steps_of(self.pair, baton, outcomes), schedule, preemptions)


def interleave(
    kind: SubjectKind,
    policy: str,
    profile: str,
    asked: Sequence[Pair],
    way: Way,
    max_seconds: float | None = None,
    on_run: Callable[[], None] = lambda: None,
) -> Iterator[Outcomes]:
    """One pair after the other, each for an equal share of half the time; what is cut off once more, for what is left.

    So no pair with many schedules takes the time of one in which a race is found at once. Raises `UsageError` of a
    subject whose threads are not here.
    """
    if not kind.threads:
        raise UsageError(f"{kind.name}: threads of another process cannot be interleaved; name a subject in Python")
    started = time.monotonic()
    cut_off = []
    for pair in asked:
        share = None if max_seconds is None else max_seconds / 2 / len(asked)
        made = PairSearch(kind, policy, profile, pair, way).run(share, on_run)
        if made.verdict == INCONCLUSIVE:
            cut_off.append(pair)
        else:
            yield made
    for done, pair in enumerate(cut_off):
        left = None if max_seconds is None else max(0.0, max_seconds - (time.monotonic() - started))
        share = None if left is None else left / (len(cut_off) - done)
        yield PairSearch(kind, policy, profile, pair, way).run(share, on_run)


def lock_of(subject: Any, which: str, name: str) -> Callable[[], Any] | None:
    """Finds what is held around a call; ``None`` if nothing is. Raises `UsageError` for want of a lock.

    It is asked for anew for each call, before the threads begin.
    """
    if which == NONE:
        return None
    if which == EXTERNAL:
        external = Lock()
        return lambda: external
    own = getattr(subject, "lock", None)
    if own is None or isinstance(own, nullcontext):
        raise UsageError(
            f"{name}: has no lock of its own, so it is for one thread; --lock external tries it under one of ours"
        )
    return lambda: subject.lock


def _steps_of(pair: Pair, baton: Baton, outcomes: dict[int, Outcome]) -> tuple[str, ...]:
    """Who ran up to where, in words."""
    begun: set[int] = set()
    running = [*baton.switches]
    ended = {switch.thread for switch in running if not switch.where}
    running += [Switch(thread, "") for thread in range(len(pair.calls)) if thread not in ended and outcomes]
    steps = []
    for switch in running:
        goes = "goes on" if switch.thread in begun else "runs"
        begun.add(switch.thread)
        call = pair.calls[switch.thread]
        if switch.where:
            steps.append(f"{_thread(switch.thread)} {goes} up to {_readable(switch.where)}")
        elif switch.thread in outcomes:
            steps.append(f"{_thread(switch.thread)} {goes} to its end: {call} {_came_to(outcomes[switch.thread])}")
    return tuple(steps)


def _came_to(outcome: Outcome) -> str:
    return str(outcome) if isinstance(outcome, Raised) else f"answers {describe(outcome)}"


def _thread(number: int) -> str:
    return f"thread {number + 1}"


def _readable(where: str) -> str:
    """``lru.py:76``, with the line's text where it can be read."""
    file, _, line = where.rpartition(":")
    if not file:
        return where
    text = linecache.getline(file, int(line)).strip()
    return f"{Path(file).name}:{line}" + (f"  {text}" if text else "")
