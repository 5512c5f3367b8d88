"""Who calls a policy: a random walk of many short episodes, and every call in every state of a small world."""

from __future__ import annotations

import copy
import itertools
from collections import deque
from collections.abc import Iterator, Sequence
from random import Random

from attrs import define, evolve, frozen

from evictable.model.calls import Key, Raised
from evictable.model.policy import MISMATCHES, PolicyModel
from evictable.model.policy_calls import (
    CHECKPOINT,
    CLEAR,
    EVICT,
    INSERT,
    MARK,
    OF_KEYS,
    OF_ONE_KEY,
    ON_REQUEST_FINISHED,
    ON_STORE_MISS,
    REMOVE,
    RESTORE,
    SET_REF_CNT,
    TOUCH,
    UNMARK,
    PolicyCall,
    PolicyState,
)
from evictable.specs.budget import Budget
from evictable.specs.callers.disciplines import CARELESS
from evictable.specs.policy_level.session import PolicySession, replayed
from evictable.specs.subjects.policies import PolicyKind

CAPACITIES = (1, 2, 2, 3, 3, 4)
LENGTHS = (6, 12, 25, 50, 100)
NUM_KEYS = (5, 5, 8)
WORLDS = ((1, 2), (2, 2), (2, 3))
"""Slots and keys of the small worlds."""

_WEIGHTS = {
    INSERT: 6,
    REMOVE: 2,
    TOUCH: 5,
    EVICT: 4,
    CLEAR: 0.6,
    MARK: 5,
    UNMARK: 3,
    SET_REF_CNT: 5,
    CHECKPOINT: 1,
    RESTORE: 1,
    ON_STORE_MISS: 2,
    ON_REQUEST_FINISHED: 2,
}
_ESSENTIAL = frozenset({INSERT, EVICT, MARK, UNMARK, SET_REF_CNT})
_TRIES = 40
_TRIES_OF_A_WAY = 6


def walk(
    kind: PolicyKind, profile: str, discipline: str, budget: Budget, seed: int, capacity: int | None = None
) -> Iterator[PolicySession]:
    """Yield every episode, ended by a broken law or by its length. One seed and a budget of calls make one run."""
    draw = Random(seed)
    while not budget.spent:
        episode = Random(draw.getrandbits(64))
        slots = capacity or episode.choice(CAPACITIES)
        keys = tuple(range(max(episode.choice(NUM_KEYS), slots + 1)))
        session = PolicySession.begin(kind, slots, profile, discipline, keys)
        mistakes = episode.choice((0.05, 0.2)) if discipline == CARELESS else 0.0
        weights = _swarm(episode)
        for _ in range(episode.choice(LENGTHS)):
            call = _next_call(session, episode, mistakes, weights)
            if call is None or budget.spent:
                break
            session.step(call)
            budget.calls += 1
            if session.breach is not None:
                break
        _give_up_all(session, budget)
        yield session


def _give_up_all(session: PolicySession, budget: Budget) -> None:
    """Evictions until there is no more to evict: what a policy hides shows in them."""
    call = PolicyCall(EVICT, n=1)
    while session.breach is None and not budget.spent and session.allows(call):
        session.step(call)
        budget.calls += 1
        if session.records[-1].outcome is None or isinstance(session.records[-1].outcome, Raised):
            return


def _swarm(draw: Random) -> dict[str, float]:
    """Each episode has calls of its own that it likes, and some that it leaves out."""
    if draw.random() < 0.2:  # checkpoints, and nothing that a restore does not take back
        return _WEIGHTS | {CHECKPOINT: 3, RESTORE: 3, TOUCH: 0.5, CLEAR: 0}
    return {
        name: weight * draw.choice((1, 1, 3) if name in _ESSENTIAL else (0, 0, 1, 3))
        for name, weight in _WEIGHTS.items()
    }


def _next_call(session: PolicySession, draw: Random, mistakes: float, weights: dict[str, float]) -> PolicyCall | None:
    """A call that matches, or now and then one that does not. ``None`` if none is found."""
    if draw.random() < mistakes and (wrong := _wrong_call(session, draw)) is not None:
        return wrong
    owed = _owed_call(session.model, draw)
    if owed is not None and session.allows(owed):
        return owed
    fallback = None
    for _ in range(_TRIES):
        call = _taken_back_call(session.model, draw) or _any_call(session, draw, _drawn(weights, draw))
        if session.allows(call):
            if session.model.mismatch(call) is None:
                return call
            fallback = fallback or call
    return fallback


def _wrong_call(session: PolicySession, draw: Random) -> PolicyCall | None:
    """Any way not to match that is open now is worth as much as any other."""
    ways = list(MISMATCHES.values())
    draw.shuffle(ways)
    for mismatch in ways:
        for _ in range(_TRIES_OF_A_WAY):
            call = _any_call(session, draw, mismatch.method)
            if session.model.mismatch(call) == mismatch and session.allows(call):
                return call
    return None


def _owed_call(model: PolicyModel, draw: Random) -> PolicyCall | None:
    """Mostly what a ref_cnt demands follows at once: its mark, or of a careless caller the eviction that meets it."""
    owed = sorted(model.owed, key=str)
    if not owed or draw.random() < 0.2:
        return None
    key = draw.choice(owed)
    if model.ref_cnt[key] != 0:
        return PolicyCall(EVICT, n=draw.choice((1, 1, 2)))
    taken_back = model.checkpoint is not None and not model.touched
    pinned = draw.random() < (0.1 if taken_back else 0.4)
    return PolicyCall(SET_REF_CNT, (key,), ref_cnt=1) if pinned else PolicyCall(MARK, (key,))


def _taken_back_call(model: PolicyModel, draw: Random) -> PolicyCall | None:
    """After a checkpoint, often: a step as a manager's, or one taken back, or the order restored."""
    if model.checkpoint is None or model.touched or draw.random() < 0.2:
        return None
    _, ref_cnt, marked, _ = model.checkpoint
    gone = [key for key in ref_cnt if key not in model.blocks]
    if gone and draw.random() < 0.7:
        return PolicyCall(INSERT, (draw.choice(gone),), ref_cnt=ref_cnt[gone[0]], again=True)
    here = sorted(model.marked & marked, key=str)
    if here and draw.random() < 0.7:
        return PolicyCall(UNMARK, (draw.choice(here[:2]),))
    return PolicyCall(EVICT, n=1) if draw.random() < 0.3 else PolicyCall(RESTORE)


def _drawn(weights: dict[str, float], draw: Random) -> str:
    return draw.choices(tuple(weights), tuple(weights.values()))[0]


def _any_call(session: PolicySession, draw: Random, name: str) -> PolicyCall:
    keys: Sequence[Key] = session.keys
    if name == INSERT:
        again = draw.random() < 0.3
        return PolicyCall(name, (draw.choice(keys),), ref_cnt=draw.choice((-1, 0, 0, 1)), again=again)
    if session.model.blocks and draw.random() < 0.6:
        keys = sorted(session.model.blocks, key=str)
    if name == SET_REF_CNT:
        return PolicyCall(name, (draw.choice(keys),), ref_cnt=draw.choice((0, 0, 1, 2)))
    if name in OF_ONE_KEY:
        return PolicyCall(name, (draw.choice(keys),))
    if name in OF_KEYS:
        return PolicyCall(name, tuple(draw.sample(keys, draw.randint(1, min(3, len(keys))))))
    if name == EVICT:
        protected = draw.sample(session.keys, draw.choice((0, 0, 1, 2)))
        return PolicyCall(name, tuple(sorted(protected, key=str)), n=draw.choice((0, 1, 1, 1, 2, 2, 3)))
    return PolicyCall(name)


@frozen
class _Node:
    calls: tuple[PolicyCall, ...]
    model: PolicyModel
    seen: PolicyState


@define
class SmallWorld:
    """Every call in every state, breadth first: the first that breaks a law is a shortest one.

    Blocks are inserted pending, idle and pinned, touched one or two at a time, and evicted one or two at a time with
    no key protected or one. Checkpoints and the hooks of requests are left to the walk.
    """

    kind: PolicyKind
    profile: str
    discipline: str
    capacity: int
    keys: tuple[Key, ...]
    states: int = 1
    complete: bool = False
    """Every call was made in every state that can be reached without breaking a law."""

    def run(self, budget: Budget) -> Iterator[PolicySession]:
        """Yield the session of each transition, which ends with that call."""
        start = PolicySession.begin(self.kind, self.capacity, self.profile, self.discipline, self.keys)
        known = {start.model.identity()}
        queue = deque([_Node((), start.model, start.seen)])
        alphabet = tuple(self._alphabet())
        while queue and not budget.spent:
            node = queue.popleft()
            for call in alphabet:
                session = evolve(start, model=node.model, seen=node.seen, records=[], treated=[], earlier=node.calls)
                if not session.allows(call):
                    continue
                session.subject = replayed(self.kind, self.capacity, node.calls)
                session.model = copy.deepcopy(node.model)
                session.step(call)
                budget.calls += 1
                yield session
                if session.breach is None and (identity := session.model.identity()) not in known:
                    known.add(identity)
                    queue.append(_Node((*node.calls, call), session.model, session.seen))
            self.states = len(known)
        self.complete = not queue

    def _alphabet(self) -> Iterator[PolicyCall]:
        for key in self.keys:
            one = (key,)
            yield from (PolicyCall(INSERT, one, ref_cnt=count) for count in (-1, 0, 1))
            yield from (PolicyCall(SET_REF_CNT, one, ref_cnt=count) for count in (0, 1))
            yield from (PolicyCall(name, one) for name in (REMOVE, MARK, UNMARK))
        for size in (1, 2):
            yield from (PolicyCall(TOUCH, keys) for keys in itertools.permutations(self.keys, size))
        for n in (1, 2):
            yield PolicyCall(EVICT, n=n)
            yield from (PolicyCall(EVICT, (key,), n=n) for key in self.keys)
        yield PolicyCall(CLEAR)
