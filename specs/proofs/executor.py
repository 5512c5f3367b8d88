"""A symbolic executor for ordinary Python: fork by running again, and let z3 say which way is open.

Code runs on symbolic values (`evictable.specs.proofs.values`). Where it needs a plain truth value, the path asks z3
whether the condition can be true and whether it can be false; if both, it goes one way now and the other way in a
later run, which repeats the decisions made so far. So nothing of the code is translated, and no frame has to be
copied.
"""

from __future__ import annotations

import itertools
import traceback
from collections.abc import Callable, Iterator, Sequence
from types import TracebackType
from typing import Any

import z3

MOST_DECISIONS = 600
"""Decisions on one path; one that needs more is cut, and then nothing is proved."""

CONTRADICTION = "what is assumed on a path contradicts itself: it proves anything"

TIMEOUT = 20_000
"""Milliseconds for one question to z3. An answer `unknown` is never taken for a proof."""

Term = Any
"""A z3 expression. (Its package has no types to speak of.)"""


class PathEnded(BaseException):
    """Ends a run. Code that catches everything may swallow it: the path remembers why it ended."""


class Path:
    """One way through a piece of code: what was decided, and what is known because of it.

    `terms` of a sort are the constants in play. Each universal statement that is assumed (`for_all`) is
    instantiated at all of them, and at those that join later. That may be too few instances for a proof, never too
    many: it cannot make anything true.
    """

    def __init__(self, prefix: tuple[bool, ...] = ()) -> None:
        self.solver = z3.SolverFor("QF_UFLIA")
        self.solver.set("timeout", TIMEOUT)
        self.alternatives: list[tuple[bool, ...]] = []
        self.obstacles: list[str] = []
        """What stood in the way of a proof: constructs that cannot be run on symbolic values, cuts, `unknown`."""
        self.notes: dict[Any, Any] = {}
        """Of containers: what was found out once for all on this path."""
        self.facts: list[Term] = []
        self._prefix = prefix
        self._decided: list[bool] = []
        self._known: dict[int, tuple[Term, bool]] = {}
        self._terms: dict[str, list[Term]] = {}
        self._universals: list[tuple[tuple[str, ...], Callable[..., Term], bool]] = []
        self._of_all: list[tuple[str, Callable[..., Term]]] = []
        self._made: dict[str, int] = {}

    # --- what is known ---

    def assume(self, fact: Term) -> None:
        self.facts.append(fact)
        self.solver.add(fact)

    def for_all(self, sorts: Sequence[str], statement: Callable[..., Term], *, lasting: bool = False) -> None:
        """Assume a statement of all terms of these sorts, as far as they come into play.

        A `lasting` one is the same function on every path: its instances are made once.
        """
        universal = (tuple(sorts), statement, lasting)
        self._universals.append(universal)
        for terms in itertools.product(*(self._terms.get(sort, ()) for sort in sorts)):
            self.assume(_instance(statement, terms, lasting))

    def whenever(self, sort: str, statement: Callable[..., Term]) -> None:
        """Assume a statement of all terms of a sort together, each time that one joins. It is `lasting`."""
        self._of_all.append((sort, statement))

    def join(self, term: Term) -> None:
        """Bring a term into play."""
        sort = str(term.sort())
        present = self._terms.setdefault(sort, [])
        identity = term.get_id()
        if any(identity == other.get_id() for other in present):
            return
        present.append(term)
        for one, statement in self._of_all:
            if one == sort:
                self.assume(_instance(statement, tuple(present), lasting=True))
        for sorts, statement, lasting in self._universals:
            if sort not in sorts:
                continue
            for terms in itertools.product(*(self._terms.get(one, ()) for one in sorts)):
                if any(one is term for one in terms):
                    self.assume(_instance(statement, terms, lasting))

    def fresh(self, name: str, sort: Term) -> Term:
        """A new constant; the same name each time that the path is run again."""
        number = self._made[name] = self._made.get(name, 0) + 1
        return z3.Const(f"{name}{number}", sort)

    def terms(self, sort: str) -> list[Term]:
        return list(self._terms.get(sort, ()))

    # --- decisions ---

    def decide(self, condition: Term) -> bool:
        """The truth of a condition on this path."""
        condition = z3.simplify(condition)
        if z3.is_true(condition):
            return True
        if z3.is_false(condition):
            return False
        known = self._known.get(condition.get_id())
        if known is not None:
            return known[1]
        if len(self._decided) >= MOST_DECISIONS:
            self.cut(f"a path needs more than {MOST_DECISIONS} decisions")
        place = len(self._decided)
        if place < len(self._prefix):
            choice = self._prefix[place]
        else:
            # `unknown` counts as possible: the question at the end of the path is then asked all the same.
            can_be = self.solver.check(condition) != z3.unsat
            can_fail = self.solver.check(z3.Not(condition)) != z3.unsat
            if not can_be and not can_fail:
                self.cut(CONTRADICTION)
            choice = can_be
            if can_be and can_fail:
                self.alternatives.append((*self._decided, False))
        self._decided.append(choice)
        negation = z3.simplify(z3.Not(condition))
        self._known[condition.get_id()] = (condition, choice)
        self._known[negation.get_id()] = (negation, not choice)
        self.assume(condition if choice else negation)
        return choice

    def cut(self, why: str) -> None:
        self.obstacles.append(why)
        raise PathEnded

    # --- being the path that runs ---

    def __enter__(self) -> Path:
        _running.append(self)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        _running.pop()


_running: list[Path] = []


def current() -> Path:
    """The path that runs."""
    return _running[-1]


_instances: dict[tuple[int, ...], tuple[Term, Any, Any]] = {}
"""Of lasting statements. The statement and its terms are kept, so that nothing else gets their identities."""


def _instance(statement: Callable[..., Term], terms: tuple[Term, ...], lasting: bool) -> Term:
    if not lasting:
        return statement(*terms)
    known = (id(statement), *(term.get_id() for term in terms))
    if known not in _instances:
        _instances[known] = (statement(*terms), statement, terms)
    return _instances[known][0]


def forget_instances() -> None:
    _instances.clear()


class Unsupported(AttributeError):
    """Code uses a symbolic value in a way that has no symbolic meaning here; the path remembers it, too."""

    def __init__(self, construct: str) -> None:
        super().__init__(construct)
        if _running:
            _running[-1].obstacles.append(f"{construct} ({place_in_code(traceback.extract_stack())})")


def explore(run: Callable[[Path], Any]) -> Iterator[tuple[Path, Any]]:
    """Run to the end on every path that can be taken. Yields each path, open to questions, with what `run` answered.

    A path that was cut, or met something unsupported, has `obstacles`; its answer may be None.
    """
    waiting: list[tuple[bool, ...]] = [()]
    while waiting:
        with Path(waiting.pop()) as path:
            answer = None
            try:
                answer = run(path)
            except PathEnded:
                pass
            except Unsupported as error:
                if not path.obstacles:
                    path.obstacles.append(str(error))
            waiting += path.alternatives
            yield path, answer


def place_in_code(frames: Sequence[traceback.FrameSummary]) -> str:
    """The innermost line outside the executor."""
    for frame in reversed(frames):
        if "/proofs/" not in frame.filename:
            name = "/".join(frame.filename.rsplit("/", 2)[-2:])
            return f"{name}:{frame.lineno}: {frame.line}"
    return "?"
