"""Hunting a mutant, one function an engine. A time-out or a crash on the way refutes nothing."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress

from attrs import evolve

from evictable.specs import subjects
from evictable.specs.budget import Budget
from evictable.specs.errors import LawlessDifference, UsageError
from evictable.specs.exhaustive.explore import Exploration, counterexample
from evictable.specs.mutants.fate import ALIVE, CROSSHAIR, EXHAUSTIVE, OUTSIDE, RANDOM, REFUTED, Z3, Fate
from evictable.specs.mutants.mutant import Mutant
from evictable.specs.mutants.outside import outside
from evictable.specs.mutants.worlds import DEPTHS, worlds_of
from evictable.specs.search import RANDOM as WALK
from evictable.specs.search import SCHEDULER, Finding, Search, Task, engines_for
from evictable.specs.session import play
from evictable.specs.shrink import Counterexample
from evictable.specs.subjects.base import Setup, SubjectKind
from evictable.specs.subjects.builtin import BUILT_IN
from evictable.specs.subjects.linked import LINKED

MAX_CALLS = 200_000
"""Judged calls in a random walk. The slowest is found within some forty thousand: this leaves room for a walk that
draws its calls another way."""
AT_LEAST = 1_000
"""Calls by which a search that goes on for a shorter counterexample goes on at least."""
SECONDS = 60.0
"""Processor time for one contract on a mutant: a refutation takes a fraction of a confirmation."""
LATE = ("refinement-reports-of-two",)
"""Contracts that take longest to be confirmed, and so come last."""

Alive = Callable[[], None]
"""Heard now and then while a hunt goes on."""


def hunt(
    engine: str,
    mutant: Mutant,
    on_progress: Alive = lambda: None,
    *,
    max_calls: int = MAX_CALLS,
    everywhere: bool = False,
) -> Fate:
    """What comes of ``mutant`` under ``engine``; ``everywhere`` tries also what is said to be outside.

    ``max_calls`` bounds the random walk; what bounds the others is in `worlds_of`, and batches of 2.

    Raises `UsageError` if a library that the engine needs is not installed.
    """
    began = time.perf_counter()
    reason = outside(engine, mutant)
    if reason is not None and not everywhere:
        return Fate(engine, OUTSIDE, note=reason)
    try:
        fate = _randomly(mutant, on_progress, max_calls) if engine == RANDOM else _HUNTS[engine](mutant, on_progress)
    except UsageError:
        raise
    except Exception as error:  # of the harness: no verdict on the mutant
        fate = Fate(engine, ALIVE, note=f"the hunt ended in {type(error).__name__}: {error}")
    return evolve(fate, seconds=time.perf_counter() - began)


class _Enough(Exception):
    """The law that was looked for is broken, and no shorter counterexample came up for long enough."""


def walk(
    mutant: Mutant, on_progress: Alive = lambda: None, max_calls: int = MAX_CALLS, *, further: float = 0.0
) -> Search:
    """The search for the law that the mutant is known to break.

    Ended when it is found, or ``further`` times as many calls later: what was found first need not be the shortest.
    """

    def look(search: Search) -> None:
        on_progress()
        found = shortest(search, mutant.laws[0])
        if found is not None and search.steps >= found.steps + further * (found.steps + AT_LEAST):
            raise _Enough

    def on_finding(finding: Finding) -> None:
        look(search)

    kind = subjects.load(f"mutant:{mutant.name}")
    setup = Setup(3, mutant.policy, tiers=mutant.tiers)
    task = Task(kind, setup, kind.profile(mutant.policy), mutant.discipline)
    search = Search(task, on_finding, look)
    with suppress(_Enough):
        search.run(engines_for((WALK, SCHEDULER), mutant.discipline, mutant.tiers), max_calls, None)
    return search


def shortest(search: Search, law: str) -> Finding | None:
    """What breaks the law in the fewest calls, with a fault or without."""
    found = [finding for finding in search.findings.values() if finding.counterexample.law == law]
    return min(found, key=lambda finding: finding.counterexample.size, default=None)


def _randomly(mutant: Mutant, on_progress: Alive, max_calls: int) -> Fate:
    search = walk(mutant, on_progress, max_calls, further=1.0)
    found = shortest(search, mutant.laws[0])
    if found is None:
        others = f", though {', '.join(search.findings)}" if search.findings else ""
        return Fate(RANDOM, ALIVE, note=f"{mutant.laws[0]} was not broken in {search.steps:,} calls{others}")
    return fate_of(RANDOM, found.counterexample, mutant.discipline, found.steps, real_of(mutant))


def real_of(mutant: Mutant) -> SubjectKind:
    """The manager that it is a copy of."""
    return LINKED if mutant.is_linked else BUILT_IN


def fate_of(engine: str, found: Counterexample, discipline: str, judged: int, real: SubjectKind | None = None) -> Fate:
    """Refuted by ``found``, if the real manager (by default the built-in one) stands it."""
    again = play(real or BUILT_IN, found.setup, found.profile, found.calls, discipline)
    if again.broken:
        note = f"what it breaks, the real manager breaks too: {again.broken[0].law.id}"
        return Fate(engine, ALIVE, judged=judged, note=note)
    return Fate(engine, REFUTED, found.law, found.law, len(found.calls), judged)


def _exhaustively(mutant: Mutant, on_progress: Alive) -> Fate:
    kind = subjects.load(f"mutant:{mutant.name}")
    profile = kind.profile(mutant.policy)
    judged = 0
    for exploration, depth in explorations(kind, profile, mutant):
        budget = Budget(max_calls=depth)
        try:
            session = next(exploration.run(budget, on_progress), None)
        except LawlessDifference as error:
            return Fate(EXHAUSTIVE, ALIVE, judged=judged, note=f"no law says how it differs: {error}")
        judged += budget.calls
        if session is not None:
            return fate_of(
                EXHAUSTIVE, counterexample(exploration, session), session.discipline, judged, real_of(mutant)
            )
    return Fate(EXHAUSTIVE, ALIVE, judged=judged, note=f"no law was broken in {judged:,} transitions")


def explorations(kind: SubjectKind, profile: str, mutant: Mutant) -> Iterator[tuple[Exploration, int]]:
    """The small worlds for the mutant, again and again, each with how many more transitions to search in it."""
    worlds = [Exploration(kind, scope, profile) for scope in worlds_of(mutant)]
    searched = 0
    for depth in DEPTHS:
        yield from ((world, depth - searched) for world in worlds if not world.complete)
        searched = depth


def _by_proof(mutant: Mutant, on_progress: Alive) -> Fate:
    from evictable.specs.prove import load_engine

    load_engine(Z3)
    from evictable.specs.proofs import subjects as texts
    from evictable.specs.proofs.prove import MODEL, attempt
    from evictable.specs.proofs.theorems import OF_SUBJECT, Texts

    text = Texts(MODEL, texts.load(f"mutant:{mutant.name}"))
    obstacles: list[str] = []
    for size in (1, 2):  # all theorems with one key, which is quick, before any with two
        for statement in OF_SUBJECT:
            if size not in statement.tried(full=False):
                continue
            result = attempt(statement, text, (size,))
            on_progress()
            if result.verdict == "refuted":
                lines = result.detail.splitlines()
                return Fate(Z3, REFUTED, statement.name, _law_of(lines), sum(map(_is_call, lines)))
            if result.verdict == "inconclusive":
                obstacles.append(f"{statement.name}: {result.detail}")
    return Fate(Z3, ALIVE, note=obstacles[0] if obstacles else "every theorem holds with batches up to 2")


def _is_call(line: str) -> bool:
    return line.startswith("  ") and " -> " in line


def _law_of(lines: Sequence[str]) -> str:
    """The law that a counterexample told in these lines breaks: the last line but two."""
    return next((line.partition(":")[0] for line in reversed(lines) if not line.startswith(" ")), "")


def _by_contract(mutant: Mutant, on_progress: Alive) -> Fate:
    from evictable.specs.contracts.copies import Edit
    from evictable.specs.contracts.run import Job, chosen, examine

    edit = Edit(f"impl.{mutant.module}", mutant.old, mutant.new)
    of_arc = mutant.module == "policies.arc"  # which the others do not call
    chosen_ones = [one for one in chosen(subject=mutant) if one.name.startswith("policies-arc") or not of_arc]
    contracts = sorted(chosen_ones, key=lambda contract: contract.name in LATE)
    jobs = [Job(evolve(contract, seconds=SECONDS), (edit,), mutant.name) for contract in contracts]
    doubts: list[str] = []
    results = examine(jobs, processes=1)
    try:
        for job, result in results:
            on_progress()
            if result.verdict == "refuted":
                return Fate(CROSSHAIR, REFUTED, job.contract.name)
            if result.verdict == "inconclusive":
                doubts.append(f"{job.contract.name}: {result.detail}")
    finally:
        results.close()  # type: ignore[attr-defined]
    return Fate(CROSSHAIR, ALIVE, note=doubts[0] if doubts else "every contract is confirmed")


_HUNTS: dict[str, Callable[[Mutant, Alive], Fate]] = {
    EXHAUSTIVE: _exhaustively,
    Z3: _by_proof,
    CROSSHAIR: _by_contract,
}
