"""The shortest sequence of calls that still breaks a law.

Delta debugging on the recorded calls, by playing every candidate on a fresh subject. A candidate counts only
if its caller keeps the promises of the discipline and the law breaks at the very last call.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from attrs import define, evolve, frozen

from evictable.model.calls import Call, Key
from evictable.specs.judge import Broken
from evictable.specs.session import Record, Session
from evictable.specs.subjects.base import Setup, SubjectKind


@frozen
class Counterexample:
    """A sequence of calls, the last of which breaks a law."""

    law: str
    setup: Setup
    profile: str
    records: tuple[Record, ...]
    broken: tuple[Broken, ...]

    @property
    def calls(self) -> tuple[Call, ...]:
        return tuple(record.call for record in self.records)

    @property
    def size(self) -> tuple[int, int, int]:
        """What is compared: calls, then keys named, then slots."""
        return len(self.records), sum(len(record.call.keys) for record in self.records), self.setup.capacity

    def difference_of(self) -> Broken:
        return next(broken for broken in self.broken if broken.law.id == self.law)


@define
class Shrinker:
    """Shrinks for one subject under one discipline; ``tries`` counts the candidates played."""

    kind: SubjectKind
    profile: str
    discipline: str
    law: str
    most_tries: int = 4000
    tries: int = 0

    def shrink(self, setup: Setup, sequence: Sequence[Call]) -> Counterexample | None:
        """The smallest counterexample found; ``None`` if ``sequence`` itself does not break the law."""
        best = self.attempt(setup, sequence)
        if best is None:
            return None
        improved = True
        while improved and self.tries < self.most_tries:
            improved = False
            for candidate_setup, candidate in self._candidates(best):
                if self.tries >= self.most_tries:
                    break
                smaller = self.attempt(candidate_setup, candidate)
                if smaller is not None and (smaller.size, _names(smaller)) < (best.size, _names(best)):
                    best, improved = smaller, True
                    break
        return best

    def attempt(self, setup: Setup, sequence: Sequence[Call]) -> Counterexample | None:
        """Play ``sequence``; a counterexample, cut after the call that breaks the law, or ``None``."""
        self.tries += 1
        session = Session.begin(self.kind, setup, self.profile, self.discipline)
        for call in sequence:
            if not session.allows(call):
                return None
            session.step(call)
            if session.broken:
                break
        if not any(broken.law.id == self.law for broken in session.broken):
            return None
        return Counterexample(self.law, setup, self.profile, tuple(session.records), session.broken)

    def _candidates(self, best: Counterexample) -> Iterator[tuple[Setup, Sequence[Call]]]:
        sequence, setup = best.calls, best.setup
        length = len(sequence)
        size = length // 2
        while size >= 1:
            for start in range(0, length, size):
                yield setup, sequence[:start] + sequence[start + size :]
            size //= 2
        for first in range(length):  # two calls that only go together: a load and its completion
            for second in range(first + 1, min(length, first + 8)):
                yield setup, sequence[:first] + sequence[first + 1 : second] + sequence[second + 1 :]
        for capacity in range(1, setup.capacity):
            yield evolve(setup, capacity=capacity), sequence
        for place, call in enumerate(sequence):
            if len(call.keys) > 1:
                for out in range(len(call.keys)):
                    fewer = evolve(call, keys=call.keys[:out] + call.keys[out + 1 :], positions=_less(call, out))
                    yield setup, (*sequence[:place], fewer, *sequence[place + 1 :])
        keys = list(dict.fromkeys(key for call in sequence for key in call.keys))
        for key in keys:  # one key less, everywhere
            kept = tuple(_drop(call, key) for call in sequence)
            yield setup, tuple(call for call in kept if call is not None)
        yield setup, _rename_keys(sequence, {key: place for place, key in enumerate(keys)})
        for one in keys:
            for other in keys:
                if one != other:
                    yield setup, _rename_keys(sequence, {other: one})
        requests = list(dict.fromkeys(call.request for call in sequence if call.request is not None))
        yield setup, _rename_requests(sequence, {name: f"r{place + 1}" for place, name in enumerate(requests)})
        for one in requests:
            for other in requests:
                if one != other:
                    merged = _rename_requests(sequence, {other: one})
                    yield setup, _without_repeated_announcements(merged)


def _names(counterexample: Counterexample) -> tuple[tuple[str, ...], tuple[tuple[bool, Key], ...]]:
    """Breaks ties: plainer names are smaller."""
    return (
        tuple(call.request or "" for call in counterexample.calls),
        tuple((isinstance(key, str), key) for call in counterexample.calls for key in call.keys),
    )


def _less(call: Call, out: int) -> tuple[int | None, ...] | None:
    return None if call.positions is None else call.positions[:out] + call.positions[out + 1 :]


def _drop(call: Call, key: Key) -> Call | None:
    """``call`` without ``key``; ``None`` if nothing is left of it."""
    if key not in call.keys:
        return call
    keys = tuple(kept for kept in call.keys if kept != key)
    return call.with_keys(keys) if keys else None


def _rename_keys(sequence: Sequence[Call], names: dict[Key, Key]) -> tuple[Call, ...]:
    return tuple(evolve(call, keys=tuple(names.get(key, key) for key in call.keys)) for call in sequence)


def _rename_requests(sequence: Sequence[Call], names: dict[str, str]) -> tuple[Call, ...]:
    return tuple(
        call if call.request is None else evolve(call, request=names.get(call.request, call.request))
        for call in sequence
    )


def _without_repeated_announcements(sequence: Sequence[Call]) -> tuple[Call, ...]:
    announced: set[str | None] = set()
    kept = []
    for call in sequence:
        if call.name == "on_new_request":
            if call.request in announced:
                continue
            announced.add(call.request)
        kept.append(call)
    return tuple(kept)
