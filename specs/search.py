"""Searching for broken laws: the engines, one shortest counterexample for each law, and a verdict."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from functools import partial

from attrs import define, evolve, field, frozen

from evictable.model.calls import Call
from evictable.model.laws import LAWS
from evictable.specs.budget import Budget
from evictable.specs.callers import scheduler
from evictable.specs.callers.disciplines import CARELESS, CONTRACT, HOSTILE
from evictable.specs.callers.walk import walk
from evictable.specs.exercise import Exercise
from evictable.specs.faults import Strikes
from evictable.specs.judge import SMALL
from evictable.specs.session import Session
from evictable.specs.shrink import Counterexample, Shrinker, fault_of
from evictable.specs.subjects.base import Setup, SubjectKind

CONFORMS = "conforms"
VIOLATES = "violates"
INCONCLUSIVE = "inconclusive"

RANDOM = "random"
HYPOTHESIS = "hypothesis"
SCHEDULER = "scheduler"
EXHAUSTIVE = "exhaustive"
ENGINES = (RANDOM, HYPOTHESIS)
ENGINES_WITH_TIERS = (RANDOM, SCHEDULER, HYPOTHESIS)
"""Scheduler steps are careful: they are what a careful search of a manager with tiers adds."""
# The walk is an order of magnitude faster; the machine varies what the walk was not written to vary.
_SHARES = {RANDOM: 0.75, HYPOTHESIS: 0.25, SCHEDULER: 0.5, EXHAUSTIVE: 0.5}


def engines_for(engines: tuple[str, ...], discipline: str, tiers: int) -> tuple[str, ...]:
    """Those of ``engines`` that can search so; all of them where there are none."""
    return tuple(one for one in engines if one != SCHEDULER or (tiers and discipline == CONTRACT))


INDISPENSABLE = ("answer", "pinned-stays", "progress")
"""A search that has not put these to the test is inconclusive: nothing was evicted, or hardly anything called."""
INDISPENSABLE_ROWS = ("begin store", "commit store", "pin an idle block", "unpin for the last time", "evict")
INDISPENSABLE_WITH_TIERS = (*INDISPENSABLE, "pin-has-job", "hit-loads", "tier-drains", "slot-contents")


def untouched(
    tiers: int, discipline: str, exercised: Collection[str], rows: Collection[str] | None, *, struck: bool
) -> tuple[str, ...]:
    """What a search needs to have met and has not, having put ``exercised`` laws and ``rows`` of the life cycle to
    the test (``None``: rows were not counted); ``struck``: some fault was."""
    needed = INDISPENSABLE_WITH_TIERS if tiers else INDISPENSABLE
    laws = tuple(law for law in needed if law not in exercised)
    left = tuple(row for row in INDISPENSABLE_ROWS if rows is not None and row not in rows)
    hostile = discipline == HOSTILE and not tiers
    faults = ("any fault",) if hostile and not struck else ()
    unjudged = ("all-or-nothing",) if hostile and "all-or-nothing" not in exercised else ()
    return (*laws, *left, *faults, *unjudged)


FURTHER_TRIES = 40
"""How many more times a law is shrunk from another place: a shorter sequence may hide behind another start."""
FURTHER_TRIES_OF_PLANS = 8
SHRINKING = 0.3
"""Those further times may play so many calls for each call of the search: by calls, so that a run repeats."""
SHORT = 8
"""Calls; a longer one is tried again whatever it costs."""


@frozen
class Task:
    """What is searched: a subject under a policy, a profile and a discipline, from a seed."""

    kind: SubjectKind
    setup: Setup
    profile: str
    discipline: str
    seed: int = 0
    vary_capacity: bool = True
    vary_tracker: bool = False
    also_breaks: Callable[[Setup, Sequence[Call]], Collection[str]] | None = None
    """The laws that the same calls break on a baseline, if there is one: these are found, each for itself, and what is
    broken here alone."""
    parts: Callable[[Setup, Sequence[Call]], bool] = lambda setup, calls: False
    """Whether that baseline is elsewhere before the last of the calls: what that breaks here alone tells little."""


@frozen
class Finding:
    """A law that was broken: the shortest counterexample, and how long it took to be found first."""

    counterexample: Counterexample
    engine: str
    steps: int
    seconds: float
    shared: bool = False
    """The baseline breaks it by the same calls."""

    @property
    def id(self) -> str:
        """The law; where it was broken by a fault, which; and whether the baseline breaks it, too."""
        return _id(self.counterexample.law, self.counterexample.fault, self.shared)


def _id(law: str, fault: str | None, shared: bool) -> str:
    return law + ("" if fault is None else f" ({fault})") + (" (shared)" if shared else "")


@define
class Search:
    """Runs the engines over one task. ``on_finding`` hears of every new or shorter counterexample."""

    task: Task
    on_finding: Callable[[Finding], None] = lambda finding: None
    on_progress: Callable[[Search], None] = lambda search: None
    on_reached: Callable[[Finding], None] = lambda finding: None
    """Hears likewise of what scheduler steps reach."""
    findings: dict[str, Finding] = field(factory=dict)
    """By `Finding.id`: of a fault by law and place, since a law may be broken in several places."""
    reached: dict[str, Finding] = field(factory=dict)
    """The shortest counterexamples that are scheduler steps from beginning to end."""
    steps: int = 0
    seconds: float = 0.0
    exercised: set[str] = field(factory=set)
    strikes: Strikes = field(factory=Strikes)
    worlds: list[str] = field(factory=list)
    """What was searched exhaustively, in words."""
    exercise: Exercise = field(init=False)
    """What was put to the test, and how often, by all engines but the exhaustive one, whose runs are one call long."""
    _tries: dict[str, int] = field(factory=dict)
    _parted: set[str] = field(factory=set)
    """What seemed to be broken here alone, and was not."""
    _played: int = 0

    def __attrs_post_init__(self) -> None:
        self.exercise = Exercise(self.task.setup.tiers)

    def run(self, engines: tuple[str, ...], max_calls: int | None, max_seconds: float | None) -> None:
        """Search until the bounds are reached; they are shared out among the engines."""
        total = sum(_SHARES[engine] for engine in engines)
        for engine in engines:
            share = _SHARES[engine] / total
            budget = Budget(
                max_calls=None if max_calls is None else max(1, int(max_calls * share)),
                max_seconds=None if max_seconds is None else max_seconds * share,
            )
            before_steps, before_seconds = self.steps, self.seconds

            def ended(
                session: Session,
                engine: str = engine,
                budget: Budget = budget,
                steps: int = before_steps,
                seconds: float = before_seconds,
            ) -> None:
                self.steps, self.seconds = steps + budget.calls, seconds + budget.seconds
                self._take(session, engine)
                self.on_progress(self)

            self._run_engine(engine, budget, ended)
            self.steps, self.seconds = before_steps + budget.calls, before_seconds + budget.seconds
            self.on_progress(self)

    @property
    def verdict(self) -> str:
        if self.findings:
            return VIOLATES
        return INCONCLUSIVE if self.untouched else CONFORMS

    @property
    def untouched(self) -> tuple[str, ...]:
        """What did not occur, though without it nothing was tried: laws, rows of the life cycle, for hostile callers
        a fault."""
        taken = [row for row, times in self.exercise.rows.items() if times]
        return untouched(
            self.task.setup.tiers,
            self.task.discipline,
            self.exercised,
            taken if self.exercise.runs else None,
            struck=bool(self.strikes.struck),
        )

    @property
    def not_exercised(self) -> tuple[str, ...]:
        """Laws that no call has put to the test, of those that the discipline can; a broken one has been."""
        careless, tiers = self.task.discipline == CARELESS, self.task.setup.tiers > 0
        broken = {finding.counterexample.law for finding in self.findings.values()}
        return tuple(
            law.id
            for law in LAWS
            if law.id not in self.exercised
            and law.id not in broken
            and law.can_be_tested(careless=careless, tiers=tiers)
        )

    def _run_engine(self, engine: str, budget: Budget, ended: Callable[[Session], None]) -> None:
        task = self.task
        if engine == RANDOM:
            for session in walk(
                task.kind,
                task.setup,
                task.profile,
                task.discipline,
                budget,
                task.seed,
                vary_capacity=task.vary_capacity,
                vary_tracker=task.vary_tracker,
            ):
                ended(session)
        elif engine == SCHEDULER:
            self._run_scheduler(budget, ended)
        elif engine == EXHAUSTIVE:
            self._run_exhaustive(budget, ended)
        else:
            from evictable.specs.callers import machine  # Hypothesis: a good part of a short run's time

            machine.drive(
                task.kind,
                task.setup,
                task.profile,
                task.discipline,
                budget,
                task.seed,
                ended,
                vary_capacity=task.vary_capacity,
                vary_tracker=task.vary_tracker,
            )

    def _run_exhaustive(self, budget: Budget, ended: Callable[[Session], None]) -> None:
        from evictable.specs.exhaustive.explore import Exploration  # seldom asked for
        from evictable.specs.exhaustive.locksteps import scopes_for

        task = self.task
        for scope in scopes_for(
            task.kind,
            task.setup,
            task.profile,
            task.discipline,
            vary_capacity=task.vary_capacity,
            vary_tracker=task.vary_tracker,
        ):
            if budget.spent:
                return
            exploration = Exploration(task.kind, scope, task.profile, exercised=self.exercised)
            for session in exploration.run(budget, lambda: self.on_progress(self)):
                ended(session)
            self.strikes.add(exploration.strikes)
            how = "all" if exploration.complete else "not all of the calls in the first"
            of = f"{scope}, every call with batches up to {scope.batch}"
            self.worlds.append(f"{how} {exploration.all_states:,} states of {of}")

    def _run_scheduler(self, budget: Budget, ended: Callable[[Session], None]) -> None:
        task = self.task
        for plan in scheduler.plans(
            task.setup,
            task.seed,
            budget,
            vary_capacity=task.vary_capacity,
            request_level=task.kind.request_level,
        ):
            session = scheduler.play(task.kind, task.profile, plan, to_rest=True)
            budget.calls += len(session.records)
            ended(session)
            for broken in session.broken:
                self._reach(plan, broken.law.id)

    def _reach(self, plan: scheduler.Plan, law: str) -> None:
        """Shrink a plan that breaks ``law`` to one that is still a plan: a scheduler may make all of its calls."""
        tries = self._tries.get(SCHEDULER + law, 0)
        if tries >= FURTHER_TRIES_OF_PLANS:
            return
        self._tries[SCHEDULER + law] = tries + 1
        session = scheduler.shrink(self.task.kind, self.task.profile, plan, law)
        if session is None:
            return  # it breaks only when the run is brought to rest, which is no scheduler's doing
        found = Counterexample(law, session.setup, self.task.profile, tuple(session.records), session.broken)
        known = self.reached.get(law)
        if known is None or found.size < known.counterexample.size:
            first = Finding(found, SCHEDULER, self.steps, self.seconds)
            self.reached[law] = first if known is None else evolve(known, counterexample=found)
            self.on_reached(self.reached[law])
            self._keep(found, SCHEDULER)  # whatever is left of a plan, its caller keeps the contract

    def _take(self, session: Session, engine: str) -> None:
        self.exercised |= session.judge.exercised
        self.strikes.add(session.strikes)
        if engine != EXHAUSTIVE:
            self.exercise.observe(session)
        for broken in session.broken:
            self._shrink(session, broken.law.id, engine)

    def _shrink(self, session: Session, law: str, engine: str) -> None:
        calls = [record.call for record in session.records]
        fault = fault_of(calls)
        shared = self._is_shared(law, session.setup, calls)
        of = _id(law, fault, shared)
        known = self.findings.get(of)
        if known is not None:
            tries = self._tries.get(of, 0)
            short = known.counterexample.size[0] <= SHORT
            spent = short and self._played > SHRINKING * self.steps
            # A large one costs much, and ends larger than what small ones end in.
            large = self.task.vary_capacity and session.setup.capacity > SMALL
            if large or tries >= FURTHER_TRIES or spent or known.counterexample.size[0] == 1:
                return
            self._tries[of] = tries + 1
        elif of in self._parted and self._played > SHRINKING * self.steps:
            return
        task = self.task
        own = None if shared or task.also_breaks is None else partial(self._is_shared, law)
        shrinker = Shrinker(task.kind, task.profile, task.discipline, law, fault, unless=own)
        smallest = shrinker.shrink(session.setup, calls)
        if known is not None or of in self._parted:
            self._played += shrinker.played
        if smallest is None:
            # Played again, the calls do not break the law: the subject depends on something else.
            smallest = Counterexample(law, session.setup, task.profile, tuple(session.records), session.broken)
        for broken in smallest.broken:  # what breaks one law in few calls may break another
            self._keep(evolve(smallest, law=broken.law.id), engine)

    def _keep(self, counterexample: Counterexample, engine: str) -> None:
        shared = self._is_shared(counterexample.law, counterexample.setup, counterexample.calls)
        if not shared and self.task.parts(counterexample.setup, counterexample.calls):
            other = self._shared_instead(counterexample)
            if other is not None:
                self._parted.add(_id(counterexample.law, counterexample.fault, shared))
                counterexample, shared = other, True
        of = _id(counterexample.law, counterexample.fault, shared)
        known = self.findings.get(of)
        if known is None:
            found = Finding(counterexample, engine, self.steps, self.seconds, shared)
        elif counterexample.size < known.counterexample.size:
            found = evolve(known, counterexample=counterexample)
        else:
            return
        self.findings[of] = found
        self.on_finding(found)

    def _shared_instead(self, counterexample: Counterexample) -> Counterexample | None:
        """What it comes to that the baseline breaks, too, once it need not be broken here alone.

        For a law that both break, calls that are not shared are easily had: some that take the baseline elsewhere,
        which may order its evictions otherwise, or break another law first, and then the defect of both.
        """
        task = self.task
        shrinker = Shrinker(task.kind, task.profile, task.discipline, counterexample.law, counterexample.fault)
        found = shrinker.shrink(counterexample.setup, counterexample.calls)
        self._played += shrinker.played
        return found if found is not None and self._is_shared(found.law, found.setup, found.calls) else None

    def _is_shared(self, law: str, setup: Setup, calls: Sequence[Call]) -> bool:
        also_breaks = self.task.also_breaks
        return also_breaks is not None and law in also_breaks(setup, calls)
