"""The random walk: many short episodes of judged calls, each on a fresh subject."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from random import Random

from attrs import evolve

from evictable.model.calls import Key, plain_key
from evictable.model.orders import ORDERS
from evictable.specs.budget import Budget
from evictable.specs.callers.disciplines import CARELESS, HOSTILE
from evictable.specs.callers.proposals import (
    ACTIONS,
    ESSENTIAL,
    ESSENTIAL_WITH_TIERS,
    TIER_ACTIONS,
    Proposer,
    mistakes_of,
)
from evictable.specs.judge import SMALL
from evictable.specs.session import Session
from evictable.specs.subjects.base import Setup, SubjectKind

# Small ones find most, and shrink well; what is written for a handful needs more than a handful to fail.
CAPACITIES = (1, 2, 3, 4, 1, 2, 3, 4, 8)
LARGE = (64, 100, 300)
BATCHES = (2, 3, 3, 6)
REQUESTS = (3, 3, 3, 8)
LENGTHS = (6, 12, 25, 25, 50, 50, 200)
TRACKER_SIZES = (1, 2, 3, 4, 7)
KEYS = 7

Begin = Callable[[SubjectKind, Setup, str, str], Session]
"""How a run begins: `Session.begin`, or what makes a session of another kind."""


def walk(
    kind: SubjectKind,
    setup: Setup,
    profile: str,
    discipline: str,
    budget: Budget,
    seed: int,
    *,
    vary_capacity: bool,
    vary_tracker: bool = False,
    begin: Begin = Session.begin,
) -> Iterator[Session]:
    """Yield every episode, ended: by a broken law, or at rest with none.

    ``setup`` is used as it is but for what is varied. One seed and a budget of calls make one run.
    """
    draw = Random(seed)
    while not budget.spent:
        episode = Random(draw.getrandbits(64))
        varied = setup
        if vary_capacity:
            large = episode.random() < 0.02
            varied = evolve(varied, capacity=episode.choice(LARGE if large else CAPACITIES))
        if episode.random() < 0.1:
            varied = evolve(varied, events=False)
        if setup.tiers and kind.request_level and episode.random() < 0.4:
            wanting = tuple(tier for tier in range(setup.tiers) if episode.random() < 0.6)
            varied = evolve(varied, request_level=wanting)
        if vary_tracker:
            varied = evolve(varied, max_tracker_size=episode.choice(TRACKER_SIZES))
        session = begin(kind, varied, profile, discipline)
        proposer = proposer_of(session, episode, tickets=kind.tickets)
        length = episode.choice(LENGTHS) if varied.capacity <= SMALL else 400
        while not session.broken and len(session.records) < length and not budget.spent:
            session.step(proposer.next_call())
            budget.calls += 1
        if not session.broken and not budget.spent:
            before = len(session.records)
            session.finish()
            budget.calls += len(session.records) - before
        yield session


def _numbered(numbers: Sequence[int]) -> Sequence[Key]:
    return numbers


def _in_two_groups(numbers: Sequence[int]) -> Sequence[Key]:
    """Each hash in two KV-cache groups: only the last four bytes tell the keys apart."""
    return [plain_key(f"{number // 2:016x}{number % 2:08x}") for number in numbers]


def _with_long_hashes(numbers: Sequence[int]) -> Sequence[Key]:
    """Hashes of 32 bytes that differ in the first ones alone."""
    return [f"{number:04x}{0:060x}{0:08x}" for number in numbers]


_NAMES: tuple[Callable[[Sequence[int]], Sequence[Key]], ...] = (
    *(_numbered,) * 6,
    _in_two_groups,
    _in_two_groups,
    _with_long_hashes,
)


def proposer_of(session: Session, episode: Random, *, tickets: bool, born: int = 0) -> Proposer:
    """A swarm: each episode leaves out a random part of the vocabulary. ``born`` requests have been named before."""
    known, essential = dict.fromkeys(ACTIONS), ESSENTIAL
    if session.setup.tiers:
        known, essential = known | dict.fromkeys(TIER_ACTIONS), ESSENTIAL | ESSENTIAL_WITH_TIERS
        if episode.random() < 0.5:
            del known["finish"]  # what goes wrong after it would hide the rest
    actions = [action for action in known if action in essential or episode.random() < 0.75]
    ticketed = tickets and not session.setup.tiers and episode.random() < 0.3
    possible = mistakes_of(session.discipline, session.setup.tiers, ticketed=ticketed)
    mistakes = [mistake for mistake in possible if len(possible) == 1 or episode.random() < 0.5]
    capacity = session.setup.capacity
    keys = episode.choice(_NAMES)(range(max(KEYS, 2 * capacity) if capacity <= SMALL else 2 * capacity))
    hostile = session.discipline == HOSTILE and not session.setup.tiers
    placed = episode.choice((0.0, 0.7, 1.0)) if ORDERS[session.profile].by_request else 0.0
    return Proposer(
        session,
        episode,
        keys=tuple(keys),
        actions=actions,
        mistakes=mistakes,
        mistake_rate=episode.choice((0.05, 0.2, 0.4)),
        ticketed=ticketed,
        fault_rate=episode.choice((0.1, 0.3, 0.6)) if hostile else 0.0,
        batch=episode.choice(BATCHES) if capacity <= SMALL else min(capacity // 4, 64),
        requests=episode.choice(REQUESTS),
        placed=placed,
        num_requests=born,
        num_peers=born,
        whole=session.setup.tiers > 0 and session.discipline != CARELESS and episode.random() < 0.7,
    )
