"""The shortest sequence of calls that still breaks a law in the same way: delta debugging, as for managers.

A candidate counts only if its caller keeps the promises of the discipline and the law breaks at its very last call.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence

from attrs import evolve

from evictable.model.policy_calls import EVICT, INSERT, MARK, SET_REF_CNT, PolicyCall
from evictable.specs.policy_level.session import PolicySession

MOST_TRIES = 2000

_Candidate = tuple[int, tuple[PolicyCall, ...]]


def size(session: PolicySession) -> tuple[int, int, int, int]:
    """What is compared: calls, then keys named, slots, blocks to evict."""
    calls = session.calls
    return len(calls), sum(len(call.keys) for call in calls), session.capacity, sum(call.n for call in calls)


def shrink(session: PolicySession) -> PolicySession:
    """The smallest that was found, played again from the beginning; ``session`` itself if it does not break again."""
    best = attempt(session, session.capacity, session.calls)
    if best is None:
        return session
    tries = 0
    improved = True
    while improved and tries < MOST_TRIES:
        improved = False
        for capacity, calls in _smaller(best):
            tries += 1
            found = attempt(best, capacity, calls)
            if found is not None and (size(found), _names(found)) < (size(best), _names(best)):
                best, improved = found, True
                break
    return best


def attempt(like: PolicySession, capacity: int, calls: Sequence[PolicyCall]) -> PolicySession | None:
    """Play ``calls``; a session that breaks the same law in the same way, cut after that call, or ``None``."""
    assert like.breach is not None
    session = PolicySession.begin(like.kind, capacity, like.profile, like.discipline, like.keys)
    for call in calls:
        if not session.allows(call):
            return None
        session.step(call)
        if session.breach is not None:
            return session if session.breach.name == like.breach.name else None
    return None


def _smaller(best: PolicySession) -> Iterator[_Candidate]:
    calls, capacity = best.calls, best.capacity
    for length in (len(calls) // 2, 3, 2, 1):
        for start in range(len(calls) - length if length else 0):
            yield capacity, (*calls[:start], *calls[start + length :])
    for pair in itertools.combinations(range(len(calls) - 1), 2):
        yield capacity, tuple(call for place, call in enumerate(calls) if place not in pair)
    yield from ((capacity, born_idle) for born_idle in _born_idle(calls))
    for fewer in range(1, capacity):
        yield fewer, calls
    for place, call in enumerate(calls):
        for simpler in _simpler(call):
            yield capacity, (*calls[:place], simpler, *calls[place + 1 :])
    names = list(dict.fromkeys(key for call in calls for key in call.keys))
    for one, other in itertools.permutations(names, 2):
        yield capacity, _renamed(calls, {other: one})
    yield capacity, _renamed(calls, {key: place for place, key in enumerate(names)})


def _born_idle(calls: tuple[PolicyCall, ...]) -> Iterator[tuple[PolicyCall, ...]]:
    """A block inserted idle, in place of one that becomes so by the next change of its ref_cnt and its mark."""
    for place, call in enumerate(calls):
        if call.name != INSERT or call.ref_cnt >= 0:
            continue
        later = [at for at in range(place + 1, len(calls)) if calls[at].keys == call.keys]
        ready = [at for at in later if calls[at].name in (SET_REF_CNT, MARK)][:2]
        kept = [other for at, other in enumerate(calls) if at not in ready]
        kept[place] = evolve(call, ref_cnt=0)
        yield tuple(kept)


def _simpler(call: PolicyCall) -> Iterator[PolicyCall]:
    if call.name == EVICT or len(call.keys) > 1:
        yield from (evolve(call, keys=call.keys[:out] + call.keys[out + 1 :]) for out in range(len(call.keys)))
    if call.n > 1:
        yield evolve(call, n=call.n - 1)
    if call.ref_cnt > 1:
        yield evolve(call, ref_cnt=1)
    if call.again:
        yield evolve(call, again=False)


def _renamed(calls: Sequence[PolicyCall], names: dict[object, object]) -> tuple[PolicyCall, ...]:
    return tuple(
        evolve(call, keys=tuple(dict.fromkeys(names.get(key, key) for key in call.keys)))  # type: ignore[misc]
        for call in calls
    )


def _names(session: PolicySession) -> list[str]:
    """Breaks ties: plainer names are smaller."""
    return [str(key) for call in session.calls for key in call.keys]
