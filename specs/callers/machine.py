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
    get_state_machine_test,
    initialize,
    multiple,
    precondition,
    rule,
)

from evictable.model import calls
from evictable.model.calls import Call, Key, Loaded, Outcome, Stored
from evictable.specs.budget import Budget
from evictable.specs.callers.disciplines import CARELESS, CONTRACT
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

    stores: Bundle[Job] = Bundle("stores")
    loads: Bundle[Job] = Bundle("loads")

    session: Session

    @initialize(capacity=st.integers(1, 4), live=st.sets(REQUESTS, min_size=1))
    def begin(self, capacity: int, live: set[str]) -> None:
        setup = evolve(self.setup, capacity=capacity) if self.vary_capacity else self.setup
        profile = self.profile or self.kind.profile(setup.policy)
        self.session = Session.begin(self.kind, setup, profile, self.discipline)
        self.generation = 0
        for request in sorted(live):
            self.step(Call(calls.ON_NEW_REQUEST, request=request))

    def ended(self, session: Session) -> None:
        """The session has ended. By default a broken law fails the test."""
        if session.broken:
            raise LawBroken("\n".join(map(str, session.broken)))

    def step(self, call: Call) -> Outcome:
        """Make ``call`` if the discipline allows it; ``None`` if it does not, or the session has ended."""
        session = self.session
        if session.broken or not session.allows(call):
            return None
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

    # --- what a scheduler does ---

    @rule(request=REQUESTS)
    def announce(self, request: str) -> None:
        self.step(Call(calls.ON_NEW_REQUEST, request=request))

    @rule(request=REQUESTS)
    def finish_request(self, request: str) -> None:
        self.step(Call(calls.ON_REQUEST_FINISHED, request=request))

    @rule(target=stores, request=REQUESTS, keys=BATCH)
    def offer(self, request: str, keys: tuple[Key, ...]) -> Any:
        outcome = self.step(Call(calls.PREPARE_STORE, keys, request))
        return (
            Job(request, outcome.keys_to_store) if isinstance(outcome, Stored) and outcome.keys_to_store else multiple()
        )

    @rule(job=stores, success=st.booleans(), backwards=st.booleans())
    def end_store(self, job: Job, success: bool, backwards: bool) -> None:
        keys = tuple(key for key in job.keys if (job.request, key) in self.session.promises.stores)
        if keys:
            self.step(Call(calls.COMPLETE_STORE, keys[::-1] if backwards else keys, job.request, success=success))

    @rule(target=loads, request=REQUESTS, keys=BATCH)
    def load(self, request: str, keys: tuple[Key, ...]) -> Any:
        hits = tuple(key for key in keys if self.step(Call(calls.LOOKUP, (key,), request)) == calls.HIT)
        outcome = self.step(Call(calls.PREPARE_LOAD, hits, request)) if hits else None
        return Job(request, hits) if isinstance(outcome, Loaded) else multiple()

    @rule(job=loads, backwards=st.booleans())
    def end_load(self, job: Job, backwards: bool) -> None:
        keys = tuple(key for key in job.keys if (job.request, key) in self.session.promises.loads)
        if keys:
            self.step(Call(calls.COMPLETE_LOAD, keys[::-1] if backwards else keys, job.request))

    @rule(request=REQUESTS, keys=BATCH)
    def touch(self, request: str, keys: tuple[Key, ...]) -> None:
        self.step(Call(calls.TOUCH, keys, request))

    @rule()
    def drain(self) -> None:
        self.step(Call(calls.TAKE_EVENTS))

    @rule()
    def stats(self) -> None:
        self.step(Call(calls.GET_STATS))

    @rule()
    def reset(self) -> None:
        self.step(Call(calls.RESET_CACHE))

    # --- what a careless caller does ---

    @precondition(careless)
    @rule(request=REQUESTS, keys=st.lists(KEYS, min_size=1, max_size=3).map(tuple))
    def offer_anything(self, request: str, keys: tuple[Key, ...]) -> None:
        self.step(Call(calls.PREPARE_STORE, keys, request))

    @precondition(careless)
    @rule(request=REQUESTS, keys=st.lists(KEYS, min_size=1, max_size=3).map(tuple))
    def load_anything(self, request: str, keys: tuple[Key, ...]) -> None:
        self.step(Call(calls.PREPARE_LOAD, keys, request))

    @precondition(careless)
    @rule(request=REQUESTS, job=stores, stray=KEYS, success=st.booleans())
    def end_store_with_stray(self, request: str, job: Job, stray: Key, success: bool) -> None:
        self.step(Call(calls.COMPLETE_STORE, (*job.keys, stray), request, success=success))

    @precondition(careless)
    @rule(request=REQUESTS, job=loads, stray=KEYS)
    def end_load_with_stray(self, request: str, job: Job, stray: Key) -> None:
        self.step(Call(calls.COMPLETE_LOAD, (*job.keys, stray), request))

    @precondition(careless)
    @rule(job=loads)
    def end_load_again(self, job: Job) -> None:
        self.step(Call(calls.COMPLETE_LOAD, job.keys, job.request))

    @precondition(careless)
    @rule(job=stores, success=st.booleans())
    def end_store_again(self, job: Job, success: bool) -> None:
        self.step(Call(calls.COMPLETE_STORE, job.keys, job.request, success=success))

    @precondition(careless)
    @rule(limit=st.integers(1, 2))
    def drop_drain(self, limit: int) -> None:
        self.step(Call(calls.TAKE_EVENTS, limit=limit))


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
) -> None:
    """Run the machine until ``budget`` is spent, a new seed every hundred examples; `on_session` gets every run.

    Nothing is raised for a broken law: the sessions tell, and the project's own shrinker is faster here.
    """

    class Driven(ManagerMachine):
        def ended(self, session: Session) -> None:
            on_session(session)

        def step(self, call: Call) -> Outcome:
            if budget.spent:
                raise _BudgetSpent
            made = len(self.session.records)
            outcome = super().step(call)
            budget.calls += len(self.session.records) - made
            return outcome

        def teardown(self) -> None:
            if not budget.spent:
                super().teardown()

    Driven.kind, Driven.setup, Driven.profile = kind, setup, profile
    Driven.discipline, Driven.vary_capacity = discipline, vary_capacity
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
