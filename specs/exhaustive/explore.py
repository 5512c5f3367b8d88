"""Lockstep from end to end: every reachable state, every call, model and subject side by side, judged in full.

States come breadth first, so the first sequence of calls that breaks a law is a shortest one. In every state the
subject is built anew, from a copy where it can be copied, else by the calls that lead there. A call that leaves the
state as it was leaves the subject in it, too, and the next call is made from there.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection, Iterator
from functools import cache
from operator import attrgetter
from typing import Any

import attrs
from attrs import define, evolve, field

from evictable.model.calls import CALLS_WITH_KEYS, IN_TIERS, MANAGER_FAULTS, Call, Key, Outcome, Raised
from evictable.model.manager import Manager
from evictable.model.snapshot import Snapshot
from evictable.specs.budget import Budget
from evictable.specs.callers.disciplines import HOSTILE, Promises
from evictable.specs.errors import LawlessDifference
from evictable.specs.exhaustive.copies import Press, copied
from evictable.specs.exhaustive.scopes import Scope
from evictable.specs.exhaustive.states import Identifier, Identity
from evictable.specs.faults import Strikes
from evictable.specs.judge import Judge
from evictable.specs.session import Session, outcome_of
from evictable.specs.shrink import Counterexample, Shrinker
from evictable.specs.subjects.base import Subject, SubjectKind

NEVER = 10**9
"""A use that no call comes to: a fault there does not strike, but the uses are counted."""


@define(eq=False)
class _Node:
    """A state that was reached, and all that it takes to enter it again."""

    identity: Identity
    model: Manager
    promises: Promises
    subject: bytes | None
    """A copy; ``None`` of a subject that cannot be copied."""
    seen: Snapshot | None
    """What the subject shows here."""
    before: _Node | None
    calls: tuple[Call, ...]
    """What leads here from the state ``before``."""

    @property
    def path(self) -> tuple[Call, ...]:
        node: _Node | None = self
        parts = []
        while node is not None:
            parts.append(node.calls)
            node = node.before
        return tuple(call for part in reversed(parts) for call in part)


class _Looking:
    """Looks inside a subject, and remembers what was seen last. The first look is spared: it was made before."""

    def __init__(self, subject: Subject, first: Snapshot | None = None) -> None:
        self._look = subject.snapshot
        self.seen = first
        self._known = first is not None

    def __call__(self, keys: Collection[Key] | None) -> Snapshot | None:
        if self._known:
            self._known = False
        else:
            self.seen = self._look(keys)
        return self.seen


@cache
def _deciding(kind: type) -> Callable[[Manager], tuple[Any, ...]]:
    """Picks the parts of a model that decide its future. What was counted does not."""
    return attrgetter(*[part.name for part in attrs.fields(kind) if part.name not in ("statistics", "plan")])


@define
class Exploration:
    """The search of one scope, and what it has come to so far."""

    kind: SubjectKind
    scope: Scope
    profile: str
    reduced: bool = True
    """Only one state is searched of those that differ in names only."""
    states: int = 0
    """States that were found."""
    all_states: int = 0
    """Those and all that differ from them in the names of keys and requests only."""
    transitions: int = 0
    """Calls that were judged, each from a state of its own or together with others that change nothing."""
    all_transitions: int = 0
    """Those and all that differ from them in the names of keys and requests only."""
    complete: bool = False
    """Every call was made in every state."""
    exercised: set[str] = field(factory=set)
    unrepeatable: int = 0
    """Broken laws that held when the calls were played again: the subject depends on something else."""
    unexplained: tuple[Call, ...] = ()
    """The calls that led to a `LawlessDifference`."""
    strikes: Strikes = field(factory=Strikes)
    _known: set[Any] = field(factory=set)
    _queue: deque[_Node] = field(factory=deque)
    _copies: bool = True
    _uses: dict[str, int] = field(factory=dict)
    """How often the latest call used what can be made to raise."""
    _press: Press = field(factory=Press)
    _identifier: Identifier = field(init=False)
    _deciding: Callable[[Manager], tuple[Any, ...]] = field(init=False)

    def __attrs_post_init__(self) -> None:
        self._identifier = Identifier(self.scope.keys, self.scope.requests, self.reduced)

    def run(self, budget: Budget | None = None, on_state: Callable[[], None] = lambda: None) -> Iterator[Session]:
        """Search, and yield a session that ends in a broken law for each transition that breaks one.

        The first is a shortest one. Transitions that break a law are not followed; all others are, to the end or
        until ``budget`` is spent; then a second run goes on where the first stopped. ``on_state`` hears of every state
        that is done with. Raises `LawlessDifference` as the judge does.
        """
        budget = Budget() if budget is None else budget
        if not self._known:
            yield from self._begin()
        while self._queue:
            node = self._queue.popleft()
            yield from self._leave(node, budget)
            on_state()
            if budget.spent:
                return
        self.complete = bool(self._known)

    def _begin(self) -> Iterator[Session]:
        """Find the first state; a session if what leads there breaks a law."""
        root = Session.begin(self.kind, self.scope.setup, self.profile, self.scope.discipline)
        root.judge.exercised = self.exercised
        root.judge.look = _Looking(root.subject)
        for call in self.scope.prelude:
            root.step(call)
            if root.broken:
                yield root
                return
        root.judge.look(None)
        kind: Any = type(root.judge.model)
        self._deciding = _deciding(kind)
        self._add(root, None, self.scope.prelude)

    def _leave(self, node: _Node, budget: Budget) -> Iterator[Session]:
        """Make every call in one state."""
        scope = self.scope
        session: Session | None = None
        counted = self.transitions, self.all_transitions
        for call in self._calls(node):
            if budget.spent:
                # Not done with: whoever goes on makes all its calls again, and counts them then.
                self._queue.appendleft(node)
                self.transitions, self.all_transitions = counted
                return
            if session is None:
                session = self._enter(node)
            try:
                outcome = session.step(call)
            except LawlessDifference:
                self.unexplained = (*node.path, *(record.call for record in session.records))
                raise
            if scope.discipline == HOSTILE:
                self._uses = dict(session.subject.faults.uses)
            self.transitions += 1
            self.all_transitions += node.identity.orbit * scope.images(call, node.identity.classes)
            budget.calls += 1
            if session.broken:
                yield self._played_again(node, session)
                session = None
                continue
            if self._stays(node, session, outcome):
                continue
            identity = self._identify(session, call)
            if identity.name not in self._known and scope.within(session.judge.model, session.judge.look.seen):  # type: ignore[attr-defined]
                if len(session.records) > 1:
                    alone = self._enter(node)
                    alone.step(call)
                    if not alone.broken and self._identify(alone, call).name == identity.name:
                        session = alone
                made = tuple(record.call for record in session.records)
                self._add(session, node, made, identity)
            session = None

    def _calls(self, node: _Node) -> Iterator[Call]:
        """What is called in a state; of a hostile caller also with every fault for which that gives an occasion."""
        scope = self.scope
        hostile = scope.discipline == HOSTILE
        for call in scope.calls(node.model, node.identity.classes):
            if node.promises.breach(call, scope.discipline) is not None:
                continue
            if not hostile or call.name in IN_TIERS:
                yield call
                continue
            yield evolve(call, raises_in=MANAGER_FAULTS[0], at=NEVER)
            for place, times in self._uses.items():
                for at in range(1, times + 1):
                    yield evolve(call, raises_in=place, at=at)

    def _stays(self, node: _Node, session: Session, outcome: Outcome) -> bool:
        """Whether plainly nothing has changed. If it has, the state may still be the same, but for names."""
        if self.scope.remembers and not isinstance(outcome, Raised):
            return False
        judge = session.judge
        return (
            judge.look.seen == node.seen  # type: ignore[attr-defined]
            and self._deciding(judge.model) == self._deciding(node.model)
            and (isinstance(outcome, Raised) or session.promises == node.promises)
        )

    def _identify(self, session: Session, call: Call | None) -> Identity:
        judge = session.judge
        seen = judge.look.seen  # type: ignore[attr-defined]
        last = None
        if self.scope.remembers and call is not None:
            nothing = call.name in CALLS_WITH_KEYS and not call.keys
            last = f"{call.name} of nothing" if nothing else call.name
        return self._identifier.of(judge.model, session.promises, session.discipline, seen, last)

    def _add(
        self, session: Session, before: _Node | None, made: tuple[Call, ...], identity: Identity | None = None
    ) -> None:
        if identity is None:
            identity = self._identify(session, None)
        self._known.add(identity.name)
        self.states += 1
        self.all_states += identity.orbit
        model, promises = session.judge.model, session.promises
        seen = session.judge.look.seen  # type: ignore[attr-defined]
        self._queue.append(_Node(identity, model, promises, self._copy_of(session.subject), seen, before, made))

    def _copy_of(self, subject: Subject) -> bytes | None:
        if not self._copies:
            return None
        copy = self._press.press(subject)
        self._copies = copy is not None
        return copy

    def _enter(self, node: _Node) -> Session:
        """The subject in a state, the model beside it."""
        setup = self.scope.setup
        subject: Subject
        if node.subject is not None:
            subject = self._press.copy(node.subject)
        else:
            subject = self.kind.make(setup)
            for call in node.path:
                outcome_of(subject, call)
        look = _Looking(subject, node.seen)
        judge = Judge(copied(node.model), look, always_full=True, exercised=self.exercised)
        promises = copied(node.promises)
        return Session(setup, self.profile, subject, judge, self.scope.discipline, promises, strikes=self.strikes)

    def _played_again(self, node: _Node, session: Session) -> Session:
        """The same broken law by as few calls as lead to it, on a fresh subject."""
        made = [record.call for record in session.records]
        laws = {broken.law.id for broken in session.broken}
        for tail in (made[-1:], made):
            again = Session.begin(self.kind, self.scope.setup, self.profile, self.scope.discipline)
            for call in (*node.path, *tail):
                again.step(call)
                if again.broken:
                    break
            if laws & {broken.law.id for broken in again.broken}:
                return again
        self.unrepeatable += 1
        return session


def counterexample(exploration: Exploration, session: Session) -> Counterexample:
    """What a session of an exploration came to, as short as it can be made."""
    law = session.broken[0].law.id
    found = Counterexample(law, session.setup, session.profile, tuple(session.records), session.broken)
    shrinker = Shrinker(exploration.kind, exploration.profile, exploration.scope.discipline, law)
    return shrinker.shrink(session.setup, found.calls) or found
