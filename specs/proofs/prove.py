"""The prover: every path of every theorem, every goal on every path."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence

import z3
from attrs import define, field

from evictable.model import manager as model_manager
from evictable.model.orders import lru_evictable
from evictable.specs.proofs import subjects
from evictable.specs.proofs.counterexample import confirm_on_model, confirm_on_subject, scene_of, smallest
from evictable.specs.proofs.executor import CONTRADICTION, Path, explore
from evictable.specs.proofs.state import ModelText, NoProof
from evictable.specs.proofs.theorems import OF_MODEL, OF_SUBJECT, End, Statement, Texts
from evictable.specs.theorems import INCONCLUSIVE, PROVED, REFUTED, Result, Theorem

MODEL = ModelText(model_manager, lru_evictable)


def theorems(full: bool, subject: str = "impl") -> tuple[Theorem, ...]:
    """What `prove` tries of the subject, in that order."""
    return tuple(statement.theorem(full) for statement in _statements(subject))


def _statements(subject: str) -> tuple[Statement, ...]:
    return (*OF_MODEL, *OF_SUBJECT) if subject == "impl" else OF_SUBJECT


def prove(subject: str = "impl", *, full: bool = False) -> Iterator[Result]:
    """Try every theorem: of the model if the subject is `impl`, and of the subject.

    Batches have 1 and 2 keys, with `full` also 3. Raises `UsageError` for a subject that cannot be loaded.
    """
    if subject == "impl":
        yield from prove_all(OF_MODEL, Texts(MODEL), full=full)
    try:
        texts = Texts(MODEL, subjects.load(subject))
    except NoProof as obstacle:
        for statement in OF_SUBJECT:
            yield Result(statement.theorem(full), INCONCLUSIVE, 0.0, str(obstacle))
        return
    yield from prove_all(OF_SUBJECT, texts, full=full)


def prove_all(statements: Sequence[Statement], texts: Texts, *, full: bool = False) -> Iterator[Result]:
    for statement in statements:
        yield attempt(statement, texts, statement.tried(full), full=full)


@define
class Tally:
    """What came of the paths of one theorem."""

    paths: int = 0
    returning: int = 0
    refusing: int = 0
    beside: int = 0
    """Paths that the theorem does not speak of."""
    obstacles: list[str] = field(factory=list)
    refutation: str = ""

    def __str__(self) -> str:
        return f"{self.paths} paths: {self.returning} return, {self.refusing} raise; {self.beside} beside the point"


def attempt(statement: Statement, texts: Texts, sizes: Sequence[int], *, full: bool = False) -> Result:
    """Try one theorem at batches of these sizes. The first refutation ends it."""
    began = time.perf_counter()
    tally = Tally()
    try:
        for size in sizes:
            _try_size(statement, texts, size, tally)
            if tally.refutation:
                break
    except NoProof as obstacle:
        tally.obstacles.append(str(obstacle))
    if tally.refutation:
        verdict, detail = REFUTED, tally.refutation
    elif tally.obstacles:
        verdict, detail = INCONCLUSIVE, "; ".join(dict.fromkeys(tally.obstacles))
    elif not (tally.returning or (statement.may_refuse and tally.refusing)):
        verdict, detail = INCONCLUSIVE, f"no path does what the theorem speaks of ({tally})"
    else:
        verdict, detail = PROVED, str(tally)
    return Result(statement.theorem(full), verdict, time.perf_counter() - began, detail)


def _try_size(statement: Statement, texts: Texts, size: int, tally: Tally) -> None:
    for path, end in explore(lambda path: statement.run(path, texts, size)):
        if path.obstacles:
            tally.obstacles += path.obstacles
            continue
        if end is None:
            tally.beside += 1
            continue
        if not _is_open(path, tally):
            continue
        tally.paths += 1
        if end.returned:
            tally.returning += 1
        else:
            tally.refusing += 1
        _check_goals(statement, texts, path, end, tally)
        if tally.refutation:
            return


def _is_open(path: Path, tally: Tally) -> bool:
    """Whether there is a state from which the path is taken: every path was entered because there seemed to be one."""
    answer = path.solver.check()
    if answer == z3.unsat:
        tally.obstacles.append(CONTRADICTION)
    elif answer == z3.unknown:
        tally.obstacles.append(f"z3 does not know whether a path is feasible ({path.solver.reason_unknown()})")
    return bool(answer == z3.sat)


def _check_goals(statement: Statement, texts: Texts, path: Path, end: End, tally: Tally) -> None:
    if not end.goals:
        return
    path.solver.push()
    path.solver.add(z3.Not(z3.And([term for _, term in end.goals])))
    answer = path.solver.check()
    if answer == z3.sat:
        _refute(texts, path, end, tally)
    elif answer == z3.unknown:
        tally.obstacles.append(f"z3 does not know ({path.solver.reason_unknown()})")
    path.solver.pop()


def _refute(texts: Texts, path: Path, end: End, tally: Tally) -> None:
    """A counterexample counts once running it has confirmed it."""
    found = smallest(path, end.shows_best)
    broken = [name for name, term in end.goals if not z3.is_true(found.eval(term, model_completion=True))]
    what = ", ".join(dict.fromkeys(broken))
    scene = scene_of(path, found, end)
    if texts.subject is None:
        confirmed = confirm_on_model(texts.model, scene)
    else:
        confirmed = confirm_on_subject(texts.subject.name, scene)
    if confirmed is None:
        tally.obstacles.append(f"z3 has a counterexample to '{what}' that running it does not confirm: {scene}")
    else:
        tally.refutation = f"fails: {what}\n{confirmed}"
