"""The scopes that are searched from end to end, as theorems with their bounds."""

from __future__ import annotations

from collections.abc import Iterator

from attrs import evolve, field, frozen

from evictable.model.calls import describe
from evictable.model.orders import ORDERS
from evictable.specs.budget import Budget
from evictable.specs.callers.disciplines import CARELESS, CONTRACT, HOSTILE
from evictable.specs.counterexamples import trace_of
from evictable.specs.errors import LawlessDifference, UsageError
from evictable.specs.exhaustive.explore import Exploration, counterexample
from evictable.specs.exhaustive.scopes import Scope
from evictable.specs.search import INDISPENSABLE, INDISPENSABLE_WITH_TIERS
from evictable.specs.shrink import Counterexample
from evictable.specs.subjects.base import Setup, SubjectKind
from evictable.specs.theorems import EXHAUSTED, INCONCLUSIVE, REFUTED, Result, Theorem

ENGINE = "exhaustive"
MAX_SECONDS = 300.0
MAX_SECONDS_IN_FULL = 1200.0
"""Each for one scope. A search that is cut short has shown nothing: it is inconclusive."""
MOST_KEYS_BY_REQUEST = 3
"""Keys under orders that remember the keys of each request, in their sequence: with more there are too many states."""

_SENTENCES = {
    CONTRACT: "called as the contract says, the manager answers and changes as the model does",
    HOSTILE: "whatever of all that the manager calls raises, at whichever use, the call changes nothing",
    CARELESS: "whatever a careless caller does, the manager acts as the model allows, or refuses and changes nothing",
}


@frozen
class Lockstep:
    """A scope under a name, to be searched from end to end."""

    name: str
    scope: Scope

    @property
    def theorem(self) -> Theorem:
        return Theorem(self.name, _SENTENCES[self.scope.discipline], ENGINE, f"all states of {self._every_call}")

    @property
    def _every_call(self) -> str:
        scope = self.scope
        return f"{scope}; every call with batches up to {scope.batch}"

    def bound(self, exploration: Exploration) -> str:
        """The bound with its counts."""
        states = f"all {exploration.all_states:,} states ({exploration.states:,} up to renaming)"
        transitions = f"{exploration.all_transitions:,} transitions ({exploration.transitions:,} up to renaming)"
        return f"{states} of {self._every_call}: {transitions}"


def locksteps(*, full: bool = False) -> tuple[Lockstep, ...]:
    """What is searched; in ``full``, the larger scopes as well."""
    return QUICK + FULL if full else QUICK


def theorems(full: bool = False, *, tiers: bool = True) -> tuple[Theorem, ...]:
    """What `prove` decides, of a subject that can have ``tiers`` or not."""
    return tuple(one.theorem for one in locksteps(full=full) if tiers or not one.scope.setup.tiers)


def prove(subject: SubjectKind, *, full: bool = False) -> Iterator[Result]:
    """Search every scope from end to end, each up to its first broken law."""
    for proof in proofs(subject, full=full):
        yield proof.result


@frozen
class Proof:
    """A result, and what a refutation is made of."""

    result: Result
    exploration: Exploration | None = None
    """``None`` if there can be no such subject."""
    counterexample: Counterexample | None = field(default=None)


def proofs(subject: SubjectKind, *, full: bool = False) -> Iterator[Proof]:
    """As `prove`, with the searches behind the results."""
    for lockstep in locksteps(full=full):
        if lockstep.scope.setup.tiers and not subject.tiers:
            continue  # it can say nothing of them, and does not claim to
        yield search(subject, lockstep, MAX_SECONDS_IN_FULL if full else MAX_SECONDS)


def search(subject: SubjectKind, lockstep: Lockstep, max_seconds: float | None = None) -> Proof:
    """Search one scope up to its first broken law, or to its end."""
    profile = subject.profile(lockstep.scope.setup.policy)
    scope = fitting(subject, profile, lockstep.scope)
    lockstep = evolve(lockstep, scope=scope)
    theorem = lockstep.theorem
    exploration = Exploration(subject, scope, profile)
    budget = Budget(max_seconds=max_seconds)
    try:
        session = next(exploration.run(budget), None)
    except UsageError as error:
        return Proof(Result(theorem, INCONCLUSIVE, budget.seconds, str(error)))
    except LawlessDifference as error:
        detail = (
            "; ".join(map(str, exploration.unexplained)) + f": model and subject differ, and no law says so: {error}"
        )
        return Proof(Result(theorem, REFUTED, budget.seconds, detail), exploration)
    if session is not None:
        if exploration.unrepeatable:
            calls = "; ".join(str(record.call) for record in session.records)
            detail = f"{session.broken[0].law.id} was broken once, and held when the calls were played again: {calls}"
            return Proof(Result(theorem, INCONCLUSIVE, budget.seconds, detail), exploration)
        found = counterexample(exploration, session)
        result = Result(theorem, REFUTED, budget.seconds, described(subject, found, scope.discipline))
        return Proof(result, exploration, found)
    if not exploration.complete:
        detail = f"out of time after {exploration.states:,} states and {exploration.transitions:,} transitions"
        return Proof(Result(theorem, INCONCLUSIVE, budget.seconds, detail), exploration)
    untouched = [law for law in _needed(scope) if law not in exploration.exercised]
    if untouched:
        detail = f"nothing put to the test {', '.join(untouched)}"
        return Proof(Result(theorem, INCONCLUSIVE, budget.seconds, detail), exploration)
    theorem = evolve(theorem, bound=lockstep.bound(exploration))
    detail = f"{exploration.transitions:,} transitions in {budget.seconds:.1f} s"
    return Proof(Result(theorem, EXHAUSTED, budget.seconds, detail), exploration)


def fitting(subject: SubjectKind, profile: str, scope: Scope) -> Scope:
    """``scope``, as far as the subject has it, and smaller under orders that remember what each request did."""
    setup = scope.setup
    if setup.events and not subject.events:
        setup = evolve(setup, events=False)
    if not ORDERS[profile].by_request or scope.num_keys <= MOST_KEYS_BY_REQUEST:
        return evolve(scope, setup=setup)
    capacity = min(setup.capacity, MOST_KEYS_BY_REQUEST - 1)
    return evolve(scope, setup=evolve(setup, capacity=capacity), num_keys=MOST_KEYS_BY_REQUEST)


def scopes_for(
    subject: SubjectKind, setup: Setup, profile: str, discipline: str, *, vary_capacity: bool, vary_tracker: bool
) -> tuple[Scope, ...]:
    """Scopes for a search of a subject of that set-up, small ones first, as far as one has the time."""
    model = "arc" if profile.startswith("arc") else "lru"
    scopes = []
    for scope in (lockstep.scope for lockstep in locksteps(full=True)):
        of, counts = scope.setup, setup.store_threshold > 1
        if of.policy != (model if not (counts or setup.tiers) else "lru") or scope.discipline != discipline:
            continue
        if (of.store_threshold > 1) != counts or bool(of.tiers) != bool(setup.tiers):
            continue
        wanted = evolve(setup, capacity=of.capacity, events=of.events)
        if vary_tracker:
            wanted = evolve(wanted, max_tracker_size=of.max_tracker_size)
        if not vary_capacity:
            wanted = evolve(wanted, capacity=setup.capacity)
            scope = evolve(scope, num_keys=max(scope.num_keys, setup.capacity + 1))
        scope = fitting(subject, profile, evolve(scope, setup=wanted))
        if scope not in scopes and (vary_capacity or scope.setup.capacity == setup.capacity):
            scopes.append(scope)
    return tuple(scopes)


def _needed(scope: Scope) -> tuple[str, ...]:
    """Laws without which nothing was tried. Where every key has a slot, nothing can be evicted."""
    needed = INDISPENSABLE_WITH_TIERS if scope.setup.tiers else INDISPENSABLE
    return needed if scope.num_keys > scope.setup.capacity else tuple(law for law in needed if law != "pinned-stays")


def described(subject: SubjectKind, found: Counterexample, discipline: str) -> str:
    """A counterexample as calls and states, the broken law last."""
    lines = [f"{found.setup.capacity} slots, {found.profile}, {discipline}"]
    for number, entry in enumerate(trace_of(subject, found, discipline).entries, 1):
        lines.append(f"{number}. {entry.call} -> {describe(entry.outcome)}")
        lines += [f"     {exchange}" for exchange in entry.exchanges]
        if entry.state is not None:
            evictable = [] if entry.state.evictable is None else list(entry.state.evictable)
            counts = ", ".join(f"{key}: {ref_cnt}" for key, ref_cnt in entry.state.ref_cnt.items())
            lines.append(f"     ref_cnt {{{counts}}}, evictable {evictable}")
    lines.append(str(found.difference_of()))
    return "\n".join(lines)


def _setup(capacity: int, policy: str = "lru", *, events: bool = False, tiers: int = 0) -> Setup:
    return Setup(capacity, policy, events=events, tiers=tiers)


def _counting(capacity: int, tracked: int) -> Setup:
    return Setup(capacity, events=False, store_threshold=2, max_tracker_size=tracked)


def _named(*scopes: tuple[str, Scope]) -> tuple[Lockstep, ...]:
    return tuple(Lockstep(f"lockstep-{name}-{scope.discipline}", scope) for name, scope in scopes)


# Small ones first: what they refute is short.
QUICK = _named(
    ("lru", Scope(_setup(3), 4, 2)),
    ("lru-wide", Scope(_setup(2), 4, 3)),
    ("lru-deep", Scope(_setup(4), 5, 3)),
    ("lru-events", Scope(_setup(1, events=True), 2, 2, lifetimes=True, remembers=True)),
    ("lru-requests", Scope(_setup(1, events=True), 2, 2, num_requests=2, lifetimes=True)),
    ("lru", Scope(_setup(2), 3, 2, CARELESS)),
    ("lru-memory", Scope(_setup(1), 1, 2, CARELESS, lifetimes=True, remembers=True)),
    ("lru-events", Scope(_setup(1, events=True), 2, 2, CARELESS)),
    ("lru-requests", Scope(_setup(1), 2, 2, CARELESS, num_requests=2)),
    ("lru", Scope(_setup(3), 4, 2, HOSTILE)),
    ("lru-wide", Scope(_setup(2), 4, 3, HOSTILE)),
    ("lru-events", Scope(_setup(1, events=True), 2, 2, HOSTILE)),
    ("arc", Scope(_setup(2, "arc"), 3, 2)),
    ("arc", Scope(_setup(1, "arc"), 2, 2, CARELESS)),
    ("arc", Scope(_setup(2, "arc"), 3, 2, HOSTILE)),
    ("threshold", Scope(_counting(2, 2), 3, 2)),
    ("threshold", Scope(_counting(1, 2), 2, 2, CARELESS)),
    ("tier", Scope(_setup(1, tiers=1), 2, 1, lifetimes=True)),
    ("tier-full", Scope(_setup(2, tiers=1), 2, 2, in_flight=1, filled=True)),
    ("two-tiers", Scope(_setup(1, tiers=2), 1, 1)),
)
FULL = _named(
    ("lru-large", Scope(_setup(5), 6, 3)),
    ("lru-requests-large", Scope(_setup(2, events=True), 3, 2, num_requests=2, lifetimes=True)),
    ("lru-large", Scope(_setup(3), 4, 2, CARELESS)),
    ("lru-wide", Scope(_setup(2), 4, 3, CARELESS)),
    ("lru-requests-large", Scope(_setup(2), 2, 2, CARELESS, num_requests=2)),
    ("arc-large", Scope(_setup(3, "arc"), 4, 2)),
    ("arc-large", Scope(_setup(2, "arc"), 3, 2, CARELESS)),
    ("threshold-large", Scope(_counting(3, 3), 4, 2)),
    ("threshold-large", Scope(_counting(2, 2), 3, 2, CARELESS)),
    ("tier-large", Scope(_setup(2, tiers=1), 2, 2)),
    ("tier-full-large", Scope(_setup(2, tiers=1), 2, 2, filled=True)),
    ("tier-full-wide", Scope(_setup(2, tiers=1), 3, 1, filled=True)),
    ("tier", Scope(_setup(1, tiers=1), 2, 2, CARELESS)),
    ("two-tiers-large", Scope(_setup(1, tiers=2), 1, 1, lifetimes=True)),
    ("two-tiers-full", Scope(_setup(1, tiers=2), 2, 1, filled=True)),
)
