"""Runs that begin with what earlier ones did: a trace of the corpus, altered a little, then gone on from."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from random import Random

from attrs import evolve

from evictable.model import calls
from evictable.model.calls import Call, Key
from evictable.model.tiers import TieredManager
from evictable.model.trace import Trace
from evictable.specs.budget import Budget
from evictable.specs.callers.walk import KEYS, Begin, proposer_of
from evictable.specs.judge import SMALL
from evictable.specs.recorded import setup_of
from evictable.specs.session import RESTING, Session
from evictable.specs.subjects.base import Setup, SubjectKind

MOST_ALTERATIONS = 3
LENGTHS_BEYOND = (0, 3, 6, 12, 25)


def extensions(
    kind: SubjectKind,
    setup: Setup,
    profile: str,
    discipline: str,
    parents: Sequence[Trace],
    budget: Budget,
    seed: int,
    *,
    capacity: int | None = None,
    begin: Begin = Session.begin,
) -> Iterator[Session]:
    """Yield every run, ended: by a broken law, or at rest with none. The parents come first, as they are."""
    draw = Random(seed)
    waiting = list(parents)
    while parents and not budget.spent:
        one = Random(draw.getrandbits(64))
        as_it_is = bool(waiting) or one.random() < 0.1
        parent = waiting.pop() if waiting else one.choice(parents)
        made = parent.calls if as_it_is else altered(one, parent.calls, one.choice(parents).calls)
        session = begin(kind, _setup(one, setup, parent, kind, capacity), profile, discipline)
        for call in made:
            if session.broken or budget.spent:
                break
            fitting = fitted(session, call)
            if fitting is not None:
                session.step(fitting)
                budget.calls += 1
        _go_on(session, one, budget)
        yield session


def altered(draw: Random, sequence: Sequence[Call], other: Sequence[Call]) -> tuple[Call, ...]:
    """A neighbour of ``sequence``: cut, spliced with ``other``, with calls left out, repeated, moved or renamed."""
    made = list(sequence)
    if made and draw.random() < 0.5:
        made = made[: draw.randint(1, len(made))]
    for _ in range(draw.randint(0, MOST_ALTERATIONS)):
        if not made:
            break
        place, to = draw.randrange(len(made)), draw.randrange(len(made))
        what = draw.choice(("leave out", "repeat", "move", "keys", "request", "splice", "fault"))
        if what == "leave out":
            del made[place]
        elif what == "repeat":
            made.insert(to, made[place])
        elif what == "move":
            made.insert(to, made.pop(place))
        elif what == "keys":
            made[place] = _with_keys_of(draw, made[place], made)
        elif what == "request":
            requests = [call.request for call in made if call.request is not None]
            if requests and made[place].request is not None:
                made[place] = evolve(made[place], request=draw.choice(requests))
        elif what == "splice" and other:
            made = [*made[: place + 1], *other[draw.randrange(len(other)) :]]
        elif made[place].raises_in is not None:
            made[place] = evolve(made[place], at=draw.randint(1, 3))
    return tuple(made)


def _with_keys_of(draw: Random, call: Call, sequence: Sequence[Call]) -> Call:
    known = list(dict.fromkeys(key for one in sequence for key in one.keys))
    if not call.keys or not known:
        return call
    keys = list(call.keys)
    keys[draw.randrange(len(keys))] = draw.choice(known)
    return evolve(call, keys=tuple(keys), positions=None)


def fitted(session: Session, call: Call) -> Call | None:
    """``call`` as it can be made here, of another subject's run and without tickets; ``None`` if it cannot."""
    if call.request in RESTING or _is_anothers(session, call):
        return None
    if call.ticket is not None:
        call = evolve(call, ticket=None)
    if call.raises_in is not None and not session.allows(call):
        call = evolve(call, raises_in=None, at=1)
    if call.raises_in in calls.MANAGER_FAULTS and call.raises_in not in session.subject.faults.places:
        call = evolve(call, raises_in=None, at=1)
    if call.tier is not None and call.tier >= session.setup.tiers:
        return None
    if call.name == calls.FINISH_JOB:
        model = session.judge.model
        job = model.jobs.get(call.job) if isinstance(model, TieredManager) and call.job is not None else None
        if job is None or (isinstance(model, TieredManager) and call.job in model.results):
            return None
        call = evolve(call, keys=tuple(key for key in job.keys if key in call.keys) or job.keys)
    return call if session.allows(call) else None


def _is_anothers(session: Session, call: Call) -> bool:
    """Whether a peer would ask in the name of a request that there is already, or a request would bear a peer's name.

    No caller's mistake, however careless: names of peers come from elsewhere, and are their own.
    """
    if call.name == calls.PEER_LOOKUP:
        return any(call.request == record.call.request for record in session.records)
    return call.request in session.promises.peers


def _setup(draw: Random, setup: Setup, parent: Trace, kind: SubjectKind, capacity: int | None) -> Setup:
    """As the parent was built, as far as the place leaves that open."""
    of = setup_of(parent.head)
    slots = capacity or of.capacity
    if capacity is None and slots <= SMALL and draw.random() < 0.2:
        slots = max(1, slots + draw.choice((-1, 1)))
    wanting = tuple(tier for tier in of.request_level if tier < setup.tiers) if kind.request_level else ()
    tracked = of.max_tracker_size if of.store_threshold > 1 else setup.max_tracker_size
    return evolve(
        setup,
        capacity=slots,
        events=of.events and kind.events,
        request_level=wanting,
        max_tracker_size=tracked if setup.store_threshold > 1 else setup.max_tracker_size,
    )


def _go_on(session: Session, draw: Random, budget: Budget) -> None:
    """Further calls, about the same keys, for new requests; then the run is brought to rest."""
    used = tuple(dict.fromkeys(key for record in session.records for key in record.call.keys))
    more: tuple[Key, ...] = tuple(range(KEYS)) if all(isinstance(key, int) for key in used) else ()
    proposer = proposer_of(session, draw, tickets=False, born=_highest_number(session))
    if used:
        proposer.keys = tuple(dict.fromkeys((*used, *more)))
    length = len(session.records) + draw.choice(LENGTHS_BEYOND)
    while not session.broken and len(session.records) < length and not budget.spent:
        session.step(proposer.next_call())
        budget.calls += 1
    if not session.broken and not budget.spent:
        before = len(session.records)
        session.finish()
        budget.calls += len(session.records) - before


def _highest_number(session: Session) -> int:
    """Of the numbers in the names of requests so far: new ones come after it."""
    numbers = (re.sub(r"\D", "", record.call.request or "") for record in session.records)
    return max((int(number) for number in numbers if number), default=0)
