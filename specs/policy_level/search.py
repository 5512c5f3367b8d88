"""Searches a policy for broken laws, and says what it does with calls that do not match."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator

from attrs import define, field, frozen

from evictable.model.policy import MISMATCHES
from evictable.model.policy_calls import CLEAR, EVICT, INSERT, MARK, REMOVE, SET_REF_CNT, TOUCH, UNMARK, Evicted
from evictable.specs.budget import Budget
from evictable.specs.callers.disciplines import CARELESS
from evictable.specs.policy_level.callers import WORLDS, SmallWorld, walk
from evictable.specs.policy_level.session import PolicySession
from evictable.specs.policy_level.shrink import shrink, size
from evictable.specs.search import CONFORMS, EXHAUSTIVE, INCONCLUSIVE, RANDOM, VIOLATES
from evictable.specs.subjects.policies import PolicyKind

ENGINES = (EXHAUSTIVE, RANDOM)
INDISPENSABLE: tuple[str, ...] = (INSERT, REMOVE, TOUCH, CLEAR, MARK, UNMARK, SET_REF_CNT, "victims", "refusal")
"""A search in which one of these never happened is inconclusive."""
FURTHER_TRIES = 10
"""How many more times a finding is shrunk from another place."""


@frozen
class PolicyFinding:
    """A broken law with the shortest session that breaks it."""

    session: PolicySession
    engine: str
    steps: int
    seconds: float


@define
class PolicySearch:
    """One policy under one profile and discipline. ``on_finding`` hears of every new or shorter counterexample."""

    kind: PolicyKind
    profile: str
    discipline: str
    seed: int = 0
    capacity: int | None = None
    on_finding: Callable[[PolicyFinding], None] = lambda finding: None
    on_progress: Callable[[], None] = lambda: None
    findings: dict[str, PolicyFinding] = field(factory=dict)
    treatments: dict[str, Counter[str]] = field(factory=dict)
    """By the name of a mismatch: what became of the calls."""
    exercised: set[str] = field(factory=set)
    steps: int = 0
    seconds: float = 0.0
    worlds: list[SmallWorld] = field(factory=list)
    walked: bool = False
    """Not only small worlds were searched."""
    _tries: Counter[str] = field(factory=Counter)

    def run(self, engines: tuple[str, ...], max_calls: int | None, max_seconds: float | None) -> None:
        """Search until the bounds are reached. An engine that ends early leaves its share to the next."""
        for left, engine in zip(range(len(engines), 0, -1), engines, strict=True):
            budget = Budget(
                max_calls=None if max_calls is None else max(1, (max_calls - self.steps) // left),
                max_seconds=None if max_seconds is None else (max_seconds - self.seconds) / left,
            )
            steps, seconds = self.steps, self.seconds
            for session in self._sessions(engine, budget):
                self.steps, self.seconds = steps + budget.calls, seconds + budget.seconds
                self._take(session, engine)
                self.on_progress()
            self.steps, self.seconds = steps + budget.calls, seconds + budget.seconds

    def _sessions(self, engine: str, budget: Budget) -> Iterator[PolicySession]:
        if engine == RANDOM:
            self.walked = True
            yield from walk(self.kind, self.profile, self.discipline, budget, self.seed, self.capacity)
            return
        for slots, num_keys in WORLDS:
            if self.capacity in (None, slots) and not budget.spent:
                world = SmallWorld(self.kind, self.profile, self.discipline, slots, tuple(range(num_keys)))
                self.worlds.append(world)
                yield from world.run(budget)

    @property
    def bound(self) -> str:
        """What was searched from end to end, and what only in part, in words."""
        parts = []
        for world in self.worlds:
            how = "every call in all" if world.complete else "not all calls in"
            parts.append(
                f"{how} {world.states} states of the model with {world.capacity} slots and {len(world.keys)} keys"
            )
        return "; ".join(parts)

    @property
    def verdict(self) -> str:
        if self.findings:
            return VIOLATES
        return INCONCLUSIVE if self.untouched else CONFORMS

    @property
    def untouched(self) -> tuple[str, ...]:
        needed = INDISPENSABLE
        if self.discipline == CARELESS:
            needed += tuple(self._mismatches_possible())
        return tuple(name for name in needed if name not in self.exercised)

    def _mismatches_possible(self) -> list[str]:
        restorable = "checkpoint" in self.kind.make(1).offers and self.walked  # small worlds take no checkpoints
        return [name for name in MISMATCHES if restorable or name != "restore-without"]

    def _take(self, session: PolicySession, engine: str) -> None:
        for record in session.records:
            name = record.call.name
            if name == EVICT:
                name = "victims" if isinstance(record.outcome, Evicted) and record.outcome.blocks else "refusal"
            self.exercised.add(name)
        for mismatch, treatment in session.treated:
            self.exercised.add(mismatch)
            self.treatments.setdefault(mismatch, Counter())[treatment] += 1
        if session.breach is not None:
            self._shrink(session, engine)

    def _shrink(self, session: PolicySession, engine: str) -> None:
        assert session.breach is not None
        name = session.breach.name
        known = self.findings.get(name)
        if known is not None:
            self._tries[name] += 1
            if self._tries[name] > FURTHER_TRIES or len(session.calls) <= len(known.session.calls) == 1:
                return
        smallest = shrink(session)
        if known is None or size(smallest) < size(known.session):
            first = (engine, self.steps, self.seconds) if known is None else (known.engine, known.steps, known.seconds)
            self.findings[name] = PolicyFinding(smallest, *first)
            self.on_finding(self.findings[name])
