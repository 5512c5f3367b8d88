"""The manager under Hypothesis: a stateful machine whose bundles hold the transfers that were prepared.

It is a `RuleBasedStateMachine` like any other: a project may subclass `ManagerMachine`, name its subject and
run it with its own settings, database and `@reproduce_failure`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

from attrs import evolve, frozen
from hypothesis import HealthCheck, Phase, seed, settings
from hypothesis import strategies as st
from hypothesis.errors import Flaky
from hypothesis.stateful import (
    Bundle,
    RuleBasedStateMachine,
    consumes,
    get_state_machine_test,
    initialize,
    multiple,
    precondition,
    rule,
)

from evictable.model import calls
from evictable.model.calls import Call, Key, Loaded, Outcome, Stored
from evictable.model.orders import ORDERS
from evictable.specs.budget import Budget
from evictable.specs.callers.disciplines import CARELESS, CONTRACT, HOSTILE
from evictable.specs.callers.walk import Begin
from evictable.specs.session import Session
from evictable.specs.subjects.base import Setup, SubjectKind

KEYS = st.integers(0, 6)
BATCH = st.lists(KEYS, min_size=1, max_size=3, unique=True).map(tuple)
REQUESTS = st.sampled_from(("r1", "r2", "r3"))


class LawBroken(AssertionError):
    """A step of the machine broke a law."""


@frozen
class Job:
    """A transfer that was prepared: who it belongs to, and which keys it moves."""

    request: str
    keys: tuple[Key, ...]


class ManagerMachine(RuleBasedStateMachine):
    """Rules are what a scheduler does; the careless ones run only under that discipline.

    A subclass sets ``kind``. After a law has broken the remaining rules of the run do nothing; `ended` is
    called with each session, and decides (by raising or not) whether Hypothesis hears of it.
    """

    kind: ClassVar[SubjectKind]
    setup: ClassVar[Setup] = Setup(capacity=3)
    profile: ClassVar[str | None] = None
    discipline: ClassVar[str] = CONTRACT
    vary_capacity: ClassVar[bool] = True
    vary_tracker: ClassVar[bool] = False

    stores: Bundle[Job] = Bundle("stores")
    loads: Bundle[Job] = Bundle("loads")
    ended_stores: Bundle[Job] = Bundle("ended_stores")
    ended_loads: Bundle[Job] = Bundle("ended_loads")

    session: Session

    @initialize(
        capacity=st.integers(1, 4),
        tracker=st.integers(1, 4),
        placed=st.booleans(),
        live=st.sets(REQUESTS, min_size=1),
        resident=st.lists(KEYS, max_size=4, unique=True),
    )
    def begin(self, capacity: int, tracker: int, placed: bool, live: set[str], resident: list[Key]) -> None:
        setup = evolve(self.setup, capacity=capacity) if self.vary_capacity else self.setup
        setup = evolve(setup, max_tracker_size=tracker) if self.vary_tracker else setup
        profile = self.profile or self.kind.profile(setup.policy)
        self.session = self.begin_session(setup, profile)
        self.placed = placed and ORDERS[profile].by_request
        self.lives: dict[str, int] = {}
        for request in sorted(live):
            self.step(Call(calls.ON_NEW_REQUEST, request=request))
        # Hypothesis leaves rules out of many a run: without blocks at the start little could happen in it.
        keys = tuple(resident[: setup.capacity])
        outcome = self.step(Call(calls.PREPARE_STORE, keys, min(live))) if keys else None
        if isinstance(outcome, Stored) and outcome.keys_to_store:
            self.step(Call(calls.COMPLETE_STORE, outcome.keys_to_store, min(live)))

    def begin_session(self, setup: Setup, profile: str) -> Session:
        return Session.begin(self.kind, setup, profile, self.discipline)

    def ended(self, session: Session) -> None:
        """The session has ended. By default a broken law fails the test."""
        if session.broken:
            raise LawBroken("\n".join(map(str, session.broken)))

    def step(self, call: Call) -> Outcome:
        """Make ``call`` if the discipline allows it; ``None`` if it does not, or the session has ended."""
        session = self.session
        if session.broken or not session.allows(call):
            return None
        if self.placed and call.name in (calls.PREPARE_STORE, calls.PREPARE_LOAD):
            call = evolve(call, positions=tuple(_position(key) for key in call.keys))
        outcome = session.step(call)
        if session.broken:
            self.ended(session)
        return outcome

    def teardown(self) -> None:
        session = getattr(self, "session", None)
        if session is not None and not session.broken:
            session.finish()
            self.ended(session)

    def careless(self) -> bool:
        return self.discipline == CARELESS

    def _now(self, request: str) -> str:
        """The id under which ``request`` lives now: it may have finished and come again."""
        life = self.lives.get(request, 1)
        return request if life == 1 else f"{request}.{life}"

    # --- what a scheduler does ---

    @rule(target=stores, request=REQUESTS, keys=BATCH, at_once=st.sampled_from((None, True, False)))
    def offer(self, request: str, keys: tuple[Key, ...], at_once: bool | None) -> Any:
        """``at_once`` says how the store ends before anything else happens, if it does."""
        request = self._now(request)
        outcome = self.step(Call(calls.PREPARE_STORE, keys, request))
        if not isinstance(outcome, Stored) or not outcome.keys_to_store:
            return multiple()
        if at_once is not None:
            self.step(Call(calls.COMPLETE_STORE, outcome.keys_to_store, request, success=at_once))
            return multiple()
        return Job(request, outcome.keys_to_store)

    @rule(target=ended_stores, job=consumes(stores), success=st.booleans(), backwards=st.booleans())
    def end_store(self, job: Job, success: bool, backwards: bool) -> Job:
        keys = tuple(key for key in job.keys if (job.request, key) in self.session.promises.stores)
        if keys:
            self.step(Call(calls.COMPLETE_STORE, keys[::-1] if backwards else keys, job.request, success=success))
        return job

    @rule(target=loads, request=REQUESTS, keys=BATCH)
    def load(self, request: str, keys: tuple[int, ...]) -> Any:
        request = self._now(request)
        resident = list(self.session.judge.model.ref_cnt)
        # Any key would do, and most would miss.
        chosen = tuple(dict.fromkeys(resident[key % len(resident)] for key in keys)) if resident else keys[:1]
        hits = tuple(key for key in chosen if self.step(Call(calls.LOOKUP, (key,), request)) == calls.HIT)
        outcome = self.step(Call(calls.PREPARE_LOAD, hits, request)) if hits else None
        return Job(request, hits) if isinstance(outcome, Loaded) else multiple()

    @rule(target=ended_loads, job=consumes(loads), backwards=st.booleans())
    def end_load(self, job: Job, backwards: bool) -> Job:
        keys = tuple(key for key in job.keys if (job.request, key) in self.session.promises.loads)
        if keys:
            self.step(Call(calls.COMPLETE_LOAD, keys[::-1] if backwards else keys, job.request))
        return job

    @rule(request=REQUESTS, keys=BATCH)
    def touch(self, request: str, keys: tuple[Key, ...]) -> None:
        self.step(Call(calls.TOUCH, keys, self._now(request)))

    # One rule for all of these: rules are drawn evenly, and it is stores and loads that matter.
    @rule(request=REQUESTS, what=st.sampled_from(("announce", "finish", "drain", "stats", "reset")))
    def keep_house(self, request: str, what: str) -> None:
        if what == "announce":
            if self._now(request) in self.session.promises.finished:  # a fresh id, or the run would run dry
                self.lives[request] = self.lives.get(request, 1) + 1
            self.step(Call(calls.ON_NEW_REQUEST, request=self._now(request)))
        elif what == "finish":
            self.step(Call(calls.ON_REQUEST_FINISHED, request=self._now(request)))
        else:
            names = {"drain": calls.TAKE_EVENTS, "stats": calls.GET_STATS, "reset": calls.RESET_CACHE}
            self.step(Call(names[what]))

    # --- what a careless caller does ---

    @precondition(careless)
    @rule(request=REQUESTS, keys=st.lists(KEYS, min_size=1, max_size=3).map(tuple))
    def offer_anything(self, request: str, keys: tuple[Key, ...]) -> None:
        self.step(Call(calls.PREPARE_STORE, keys, self._now(request)))

    @precondition(careless)
    @rule(request=REQUESTS, keys=st.lists(KEYS, min_size=1, max_size=3).map(tuple))
    def load_anything(self, request: str, keys: tuple[Key, ...]) -> None:
        self.step(Call(calls.PREPARE_LOAD, keys, self._now(request)))

    @precondition(careless)
    @rule(request=REQUESTS, job=stores, stray=KEYS, success=st.booleans())
    def end_store_with_stray(self, request: str, job: Job, stray: Key, success: bool) -> None:
        self.step(Call(calls.COMPLETE_STORE, (*job.keys, stray), self._now(request), success=success))

    @precondition(careless)
    @rule(request=REQUESTS, job=loads, stray=KEYS)
    def end_load_with_stray(self, request: str, job: Job, stray: Key) -> None:
        self.step(Call(calls.COMPLETE_LOAD, (*job.keys, stray), self._now(request)))

    @precondition(careless)
    @rule(job=ended_loads)
    def end_load_again(self, job: Job) -> None:
        self.step(Call(calls.COMPLETE_LOAD, job.keys, job.request))

    @precondition(careless)
    @rule(job=ended_stores, success=st.booleans())
    def end_store_again(self, job: Job, success: bool) -> None:
        self.step(Call(calls.COMPLETE_STORE, job.keys, job.request, success=success))

    @precondition(careless)
    @rule(limit=st.integers(1, 2))
    def drop_drain(self, limit: int) -> None:
        self.step(Call(calls.TAKE_EVENTS, limit=limit))


class HostileMachine(ManagerMachine):
    """A `ManagerMachine` under whose calls, now and then, what the manager calls raises."""

    armed: tuple[str, int] | None = None

    @rule(place=st.sampled_from(calls.MANAGER_FAULTS), at=st.sampled_from((1, 1, 1, 2, 2, 3)))
    def arm(self, place: str, at: int) -> None:
        """Let ``place`` raise in the next call, at that use of it."""
        if place in self.session.subject.faults.places:
            self.armed = place, at

    def step(self, call: Call) -> Outcome:
        if self.armed is not None:
            (place, at), self.armed = self.armed, None
            call = evolve(call, raises_in=place, at=at)
        return super().step(call)


def _position(key: Key) -> int | None:
    """A token position: keys are blocks of a prompt, in order."""
    return key + 1 if isinstance(key, int) else None


class _BudgetSpent(BaseException):
    """Ends a run of Hypothesis at once: an ordinary exception it would take for a failure and try again."""


def drive(
    kind: SubjectKind,
    setup: Setup,
    profile: str,
    discipline: str,
    budget: Budget,
    first_seed: int,
    on_session: Callable[[Session], None],
    *,
    vary_capacity: bool,
    vary_tracker: bool = False,
    begin: Begin = Session.begin,
) -> None:
    """Run the machine until ``budget`` is spent, a new seed every hundred examples; `on_session` gets every run.

    Nothing is raised for a broken law: the sessions tell, and the project's own shrinker is faster here.
    """

    machine: type[ManagerMachine] = ManagerMachine
    if setup.tiers:
        from evictable.specs.callers.machine_tiers import TieredMachine

        machine = TieredMachine
    elif discipline == HOSTILE:
        machine = HostileMachine

    class Driven(machine):  # type: ignore[misc,valid-type]
        def begin_session(self, setup: Setup, profile: str) -> Session:
            return begin(kind, setup, profile, discipline)

        def ended(self, session: Session) -> None:
            on_session(session)

        def step(self, call: Call) -> Outcome:
            if budget.spent:
                raise _BudgetSpent
            made = len(self.session.records)
            outcome: Outcome = super().step(call)
            budget.calls += len(self.session.records) - made
            return outcome

        def teardown(self) -> None:
            session = getattr(self, "session", None)
            if session is not None and not budget.spent:
                made = len(session.records)
                super().teardown()
                budget.calls += len(session.records) - made

    Driven.kind, Driven.setup, Driven.profile = kind, setup, profile
    Driven.discipline, Driven.vary_capacity, Driven.vary_tracker = discipline, vary_capacity, vary_tracker
    options = settings(
        max_examples=100,
        stateful_step_count=30,
        deadline=None,
        database=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    round_seed = first_seed
    while not budget.spent:
        try:
            seed(round_seed)(get_state_machine_test(Driven, settings=options))()
        except (_BudgetSpent, Flaky):
            # Hypothesis, on its way out, may find that the example which was cut short had gone on before.
            if not budget.spent:
                raise
        round_seed += 1
