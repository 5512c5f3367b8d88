"""One run of one subject under the judge: the one place where calls meet answers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from attrs import define, evolve, field, frozen

from evictable.model import calls
from evictable.model.calls import Call, Key, Outcome, Raised, Stored
from evictable.model.exchanges import Exchange
from evictable.model.manager import Manager
from evictable.model.profiles import reference
from evictable.model.tiers import TieredManager
from evictable.specs.callers.disciplines import CARELESS, Promises
from evictable.specs.errors import LawlessDifference
from evictable.specs.faults import Strikes
from evictable.specs.judge import SMALL, Broken, Judge
from evictable.specs.subjects.base import Setup, Subject, SubjectKind

MOST_STEPS = 24
"""Scheduler steps within which jobs that have ended are heard of, and within which a circle shows."""

RESTING = ("rest", "waiting")
"""The requests that bring a run to rest: nobody else may have their names."""
SCAN_EVERY = 128
"""Calls between two full looks in a search, whose episodes are short."""


@frozen
class Record:
    """A call that was made, and what it came to."""

    call: Call
    outcome: Outcome
    exchanges: tuple[Exchange, ...] = ()
    """What manager and tiers said to each other meanwhile."""


@define
class Session:
    """A fresh subject, the model beside it, and the record of what was called.

    After the first broken law the two have parted: nothing more may be judged, and `step` refuses.
    """

    setup: Setup
    profile: str
    subject: Subject
    judge: Judge
    discipline: str = CARELESS
    promises: Promises = field(factory=Promises)
    records: list[Record] = field(factory=list)
    broken: tuple[Broken, ...] = ()
    strikes: Strikes = field(factory=Strikes)
    """Which faults struck."""

    @classmethod
    def begin(cls, kind: SubjectKind, setup: Setup, profile: str, discipline: str = CARELESS) -> Session:
        subject = kind.make(setup)
        model = model_of(setup, profile, kind.admission)
        return cls(
            setup,
            profile,
            subject,
            Judge(model, subject.snapshot, scan_every=SCAN_EVERY, rows=Counter()),
            discipline,
            Promises(events=setup.events, tiers=setup.tiers),
        )

    def allows(self, call: Call) -> bool:
        """Whether the caller may make ``call`` without breaking a promise of its discipline."""
        return self.promises.breach(call, self.discipline) is None

    def step(self, call: Call) -> Outcome:
        """Make ``call`` and judge it. What the subject raises is an outcome; look at `broken` afterwards.

        A fault for which the manager gave no occasion is struck from the record.
        """
        if self.broken:
            raise RuntimeError("the session has ended: a law is broken")
        outcome = outcome_of(self.subject, call)
        if call.raises_in in calls.MANAGER_FAULTS:
            faults = self.subject.faults
            self.strikes.note(call, faults)
            self.judge.restores_order = faults.restores_order
            if not faults.struck:
                call = evolve(call, raises_in=None, at=1)
        exchanges = self.subject.exchanges() if self.setup.tiers else ()
        self.records.append(Record(call, outcome, exchanges))
        self.promises.observe(call, outcome, exchanges)
        try:
            self.broken = self.judge.observe(call, outcome, exchanges)
        except LawlessDifference as error:
            error.where = f"call {len(self.records):,}"
            error.setup, error.made = self.setup, tuple(record.call for record in self.records)
            raise
        return outcome

    def finish(self) -> None:
        """Bring the run to rest: complete every transfer, then store as many new keys as there are slots.

        What must hold in the long run (`drains`, `progress`) is judged on the way, as of any call.
        """
        closing = iter(self._closing_calls())
        while not self.broken and (call := next(closing, None)) is not None:
            self.step(call)

    def _closing_calls(self) -> Iterable[Call]:
        promises = self.promises
        for request, keys in self.stores_to_end():
            yield promises.completion(calls.COMPLETE_STORE, request, keys)
        for request, key in sorted(promises.loads.elements(), key=str):
            yield promises.completion(calls.COMPLETE_LOAD, request, (key,))
        yield from self._until_tiers_rest()
        if self.setup.tiers and promises.live and self.setup.capacity <= SMALL:  # else nobody could read it
            # Not a new one, and not in a fresh cache: which blocks make room depends on what has been.
            yield from self._wait_to_be_served(min(promises.live, key=str))
        request = RESTING[0]
        yield Call(calls.ON_NEW_REQUEST, request=request)
        used = [key for record in self.records for key in record.call.keys if isinstance(key, int)]
        first = max(used, default=-1) + 1
        fresh = tuple(range(first, first + self.setup.capacity))
        yield Call(calls.PREPARE_STORE, fresh, request)
        outcome = self.records[-1].outcome
        if isinstance(outcome, Stored):
            yield Call(calls.COMPLETE_STORE, outcome.keys_to_store, request)
        if self.setup.tiers:
            yield Call(calls.ON_REQUEST_FINISHED, request=request)
            yield from self._until_tiers_rest()
            yield Call(calls.ON_NEW_REQUEST, request=RESTING[1])
            yield Call(calls.ON_SCHEDULE_END)
            yield from self._wait_to_be_served(RESTING[1])
        if self.setup.events:
            yield Call(calls.TAKE_EVENTS)

    def stores_to_end(self) -> list[tuple[str | None, tuple[Key, ...]]]:
        """What is still being stored: key by key, above tiers as it was prepared, which schedulers do."""
        stores = self.promises.stores
        if not self.setup.tiers:
            return [(request, (key,)) for request, key in sorted(stores, key=str)]
        batches: list[tuple[str | None, tuple[Key, ...]]] = []
        for made in reversed(self.records):
            if isinstance(made.outcome, Stored):
                keys = [key for key in made.outcome.keys_to_store if (made.call.request, key) in stores]
                known = {key for request, batch in batches for key in batch if request == made.call.request}
                batches.append((made.call.request, tuple(key for key in keys if key not in known)))
        return [batch for batch in reversed(batches) if batch[1]]

    def _until_tiers_rest(self) -> Iterable[Call]:
        """End every job, and as many steps as it takes for the manager to hear of it."""
        model = self.judge.model
        if not isinstance(model, TieredManager):
            return
        for _ in range(MOST_STEPS):
            for number, job in list(model.jobs.items()):
                if number not in model.results:
                    yield Call(calls.FINISH_JOB, job.keys, job=number)
            yield Call(calls.ON_SCHEDULE_END)
            if not model.jobs:
                return

    def _wait_to_be_served(self, request: str | None) -> Iterable[Call]:
        """Ask for what is in the tiers, step by step, until all of it is there to be loaded."""
        model = self.judge.model
        assert isinstance(model, TieredManager)
        wanted = sorted(set().union(*model.contents), key=str)[: self.setup.capacity]
        if not wanted:
            return
        for _ in range(MOST_STEPS):
            answers = []
            for key in wanted:
                yield Call(calls.LOOKUP, (key,), request)
                answers.append(self.records[-1].outcome)
            if all(answer == calls.HIT for answer in answers):
                load = Call(calls.PREPARE_LOAD, tuple(wanted), request)
                if self.allows(load):  # unless it has yet to report one of them from before a reset
                    yield load
                    yield Call(calls.COMPLETE_LOAD, tuple(wanted), request)
                return
            yield Call(calls.ON_SCHEDULE_END)
            for number, job in list(model.jobs.items()):
                if number not in model.results:
                    yield Call(calls.FINISH_JOB, job.keys, job=number)


def outcome_of(subject: Subject, call: Call) -> Outcome:
    """What ``call`` comes to on ``subject``: what it raises is an outcome too."""
    try:
        return subject.perform(call)
    except Exception as error:
        return Raised(type(error).__name__, str(error))


def model_of(setup: Setup, profile: str, admission: str) -> Manager:
    """The reference manager beside a subject of that setup."""
    return reference(
        profile,
        setup.capacity,
        events=setup.events,
        admission=admission,
        store_threshold=setup.store_threshold,
        max_tracker_size=setup.max_tracker_size,
        tiers=setup.tiers,
        request_level=setup.request_level,
    )


def play(
    kind: SubjectKind, setup: Setup, profile: str, sequence: Iterable[Call], discipline: str = CARELESS
) -> Session:
    """A session in which ``sequence`` is called up to its first broken law."""
    session = Session.begin(kind, setup, profile, discipline)
    for call in sequence:
        session.step(call)
        if session.broken:
            break
    return session
