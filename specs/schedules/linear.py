"""Is there an order of the two calls in which the model gives the same answers and the same state?

(Herlihy and Wing, "Linearizability", 1990.) For each order a fresh judge hears the calls before, the two calls with the
answers that they had under the schedule, and the calls after; the order is right if no law is broken. What the model
leaves free, such as which free slot, the judge leaves free.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from itertools import permutations

from attrs import define, field, frozen

from evictable.model import calls
from evictable.model.calls import Call, Key, Outcome, Stored
from evictable.model.snapshot import Snapshot
from evictable.specs.callers.disciplines import Promises
from evictable.specs.judge import Broken, Judge
from evictable.specs.schedules.pairs import Pair
from evictable.specs.session import model_of
from evictable.specs.subjects.base import Setup

AFTER = "after"
"""The request that makes the calls after the pair."""
_FRESH = 1000
"""The first key that nobody has named before."""


@frozen
class Made:
    """A call, what it came to, and the state after it where one was looked at."""

    call: Call
    outcome: Outcome
    state: Snapshot | None = None


@frozen
class History:
    """What was observed under one schedule."""

    before: tuple[Made, ...]
    pair: tuple[Made, ...]
    """In no order. The state is the one after all of them, in the last."""
    after: tuple[Made, ...]


@frozen
class Refuted:
    """An order of the calls, and what is wrong with it."""

    order: tuple[int, ...]
    call: Call
    broken: tuple[Broken, ...]


@define
class Linearizability:
    """Judges histories on subjects of one setup."""

    setup: Setup
    profile: str
    admission: str
    empty: Snapshot | None
    """What a fresh subject shows."""
    _known: dict[str, tuple[Refuted, ...]] = field(factory=dict)

    def refuted(self, history: History) -> tuple[Refuted, ...]:
        """Why each order is wrong; nothing if one is right."""
        seen = repr(history)
        if seen not in self._known:
            self._known[seen] = self._refute(history)
        return self._known[seen]

    @property
    def outcomes(self) -> int:
        """Different histories so far."""
        return len(self._known)

    def _refute(self, history: History) -> tuple[Refuted, ...]:
        found = []
        for order in permutations(range(len(history.pair))):
            wrong = self._wrong_with(history, order)
            if wrong is None:
                return ()
            found.append(wrong)
        return tuple(found)

    def _wrong_with(self, history: History, order: tuple[int, ...]) -> Refuted | None:
        window = _Window(self.empty)
        judge = Judge(model_of(self.setup, self.profile, self.admission), window.look)
        state = history.pair[-1].state
        pair = [Made(history.pair[place].call, history.pair[place].outcome) for place in order]
        pair[-1] = Made(pair[-1].call, pair[-1].outcome, state)
        for made in (*history.before, *pair, *history.after):
            window.state = made.state
            broken = judge.observe(made.call, made.outcome)
            if broken:
                return Refuted(order, made.call, broken)
        return None


@define
class _Window:
    """Shows a judge what was seen, when it was."""

    state: Snapshot | None

    def look(self, keys: Collection[Key] | None) -> Snapshot | None:
        return self.state


def calls_after(pair: Pair, history: Sequence[Made], pair_made: Sequence[Made]) -> list[Call]:
    """What brings to light what no snapshot shows: a drain, the metrics, every completion that may be due, and offers.

    The offers come one key at a time, so that the order of the victims shows, and then one of every slot.
    """
    made = [Call(calls.TAKE_EVENTS), Call(calls.GET_STATS)]
    for request, key in sorted(_due(history, pair_made, "stores"), key=str):
        made.append(Call(calls.COMPLETE_STORE, (key,), request))
    for request, key in sorted(_due(history, pair_made, "loads"), key=str):
        made.append(Call(calls.COMPLETE_LOAD, (key,), request))
    made.append(Call(calls.ON_NEW_REQUEST, request=AFTER))
    for batch in ((_FRESH,), (_FRESH + 1,), (_FRESH + 2, _FRESH + 3)):
        made += [Call(calls.PREPARE_STORE, batch, AFTER), Call(calls.COMPLETE_STORE, batch, AFTER)]
    return [*made, Call(calls.TAKE_EVENTS)]


def _due(history: Sequence[Made], pair_made: Sequence[Made], what: str) -> set[tuple[str | None, Key]]:
    """Transfers that are in flight after the calls in one order or another. One that is not may be refused."""
    due: set[tuple[str | None, Key]] = set()
    for order in permutations(pair_made):
        promises = Promises()
        for made in (*history, *order):
            promises.observe(made.call, made.outcome)
        due |= set(getattr(promises, what)) | set(getattr(promises, f"stale_{what}"))
    return due


def is_refusal(outcome: Outcome) -> bool:
    """Whether an offer was refused, so that there is nothing to complete."""
    return not isinstance(outcome, Stored)
