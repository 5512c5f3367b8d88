"""The random walk: many short episodes of judged calls, each on a fresh subject."""

from __future__ import annotations

from collections.abc import Iterator
from random import Random

from attrs import evolve

from evictable.specs.budget import Budget
from evictable.specs.callers.proposals import ACTIONS, ESSENTIAL, Proposer, mistakes_of
from evictable.specs.session import Session
from evictable.specs.subjects.base import Setup, SubjectKind

CAPACITIES = (1, 2, 3, 4)
KEYS = 7


def walk(
    kind: SubjectKind, setup: Setup, profile: str, discipline: str, budget: Budget, seed: int, *, vary_capacity: bool
) -> Iterator[Session]:
    """Yield every episode, ended: by a broken law, or at rest with none.

    ``setup.capacity`` is used as it is unless ``vary_capacity``. One seed and a budget of calls make one run.
    """
    draw = Random(seed)
    while not budget.spent:
        episode = Random(draw.getrandbits(64))
        capacity = episode.choice(CAPACITIES) if vary_capacity else setup.capacity
        session = Session.begin(kind, evolve(setup, capacity=capacity), profile, discipline)
        proposer = _proposer(session, episode)
        length = episode.choice((6, 12, 25, 50))
        while not session.broken and len(session.records) < length and not budget.spent:
            session.step(proposer.next_call())
            budget.calls += 1
        if not session.broken and not budget.spent:
            before = len(session.records)
            session.finish()
            budget.calls += len(session.records) - before
        yield session


def _proposer(session: Session, episode: Random) -> Proposer:
    """A swarm: each episode leaves out a random part of the vocabulary."""
    actions = [action for action in ACTIONS if action in ESSENTIAL or episode.random() < 0.75]
    mistakes = [mistake for mistake in mistakes_of(session.discipline) if episode.random() < 0.5]
    capacity = session.setup.capacity
    return Proposer(
        session,
        episode,
        keys=tuple(range(max(KEYS, 2 * capacity) if capacity <= 16 else 2 * capacity)),
        actions=actions,
        mistakes=mistakes,
        mistake_rate=episode.choice((0.05, 0.2, 0.4)),
        batch=min(max(3, capacity // 4), 64),
    )
