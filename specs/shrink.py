"""The shortest sequence of calls that still breaks a law.

Delta debugging on the recorded calls, by playing every candidate on a fresh subject. A candidate counts only
if its caller keeps the promises of the discipline and the law breaks at the very last call.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Collection, Sequence

from attrs import define, evolve, frozen

from evictable.model.calls import LOOKUP, MANAGER_FAULTS, Call, Key
from evictable.model.exchanges import Submitted
from evictable.specs.errors import UsageError
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
    def fault(self) -> str | None:
        """What raised in the last call, where that is how the law was broken: ``policy.insert in prepare_store``."""
        return fault_of(self.calls)

    @property
    def size(self) -> tuple[int, ...]:
        """What is compared: calls, keys named, slots, positions, tickets, size of the tracker, and so on."""
        return (
            len(self.records),
            sum(len(record.call.keys) for record in self.records),
            self.setup.capacity,
            sum(record.call.positions is not None for record in self.records),
            sum(record.call.ticket is not None for record in self.records),
            self.setup.max_tracker_size,
            0 if self.setup.events else 1,
            len(self.setup.request_level),
            sum(record.call.at for record in self.records if record.call.raises_in is not None),
        )

    def difference_of(self) -> Broken:
        return next(broken for broken in self.broken if broken.law.id == self.law)


def fault_of(calls: Sequence[Call]) -> str | None:
    """What raises of all that the manager calls in the last of ``calls``, and in which; ``None`` if nothing does."""
    if not calls or calls[-1].raises_in not in MANAGER_FAULTS:
        return None
    return f"{calls[-1].raises_in} in {calls[-1].name}"


MOST_KEYS = 12
"""So many names are tried for each other; a long sequence has lost most of its keys by then."""


@define
class Shrinker:
    """Shrinks for one subject under one discipline; counts the candidates tried and the calls played in them."""

    kind: SubjectKind
    profile: str
    discipline: str
    law: str
    fault: str | None = None
    """As `Counterexample.fault`: a law may be broken in several places, each for itself."""
    ends_in: str | None = None
    """The call that is to break it, where it matters which."""
    unless: Callable[[Setup, Sequence[Call]], bool] | None = None
    """Calls that do not count, though they break it: whoever else they break it for is asked."""
    most_tries: int = 4000
    most_played: int = 40_000
    """Calls, over all candidates: a long sequence may not be tried as often as a short one."""
    tries: int = 0
    played: int = 0
    _best: Counterexample | None = None

    def shrink(self, setup: Setup, sequence: Sequence[Call]) -> Counterexample | None:
        """The smallest counterexample found; ``None`` if ``sequence`` itself does not break the law."""
        self._best = self.attempt(setup, sequence)
        before: Counterexample | None = None
        while self._best is not before:
            before = self._best
            for shorten in (
                self._leave_out_calls,
                self._leave_out_pairs,
                self._merge_calls,
                self._simplify_setup,
                self._leave_out_slots,
                self._leave_out_keys,
                self._leave_out_positions,
                self._strike_earlier,
                self._unify_names,
            ):
                shorten()
        return self._best

    def attempt(self, setup: Setup, sequence: Sequence[Call]) -> Counterexample | None:
        """Play ``sequence``; a counterexample, cut after the call that breaks the law, or ``None``."""
        self.tries += 1
        try:
            session = Session.begin(self.kind, setup, self.profile, self.discipline)
        except UsageError:
            return None  # it cannot be built as small as that
        for call in sequence:
            if not session.allows(call):
                return None
            session.step(call)
            self.played += 1
            if session.broken:
                break
        if not any(broken.law.id == self.law for broken in session.broken):
            return None
        if self.fault is not None and fault_of([record.call for record in session.records]) != self.fault:
            return None
        if self.ends_in is not None and session.records[-1].call.name != self.ends_in:
            return None
        found = Counterexample(self.law, setup, self.profile, tuple(session.records), session.broken)
        return None if self.unless is not None and self.unless(setup, found.calls) else found

    # --- passes: each tries smaller neighbours of the best so far ---

    def _leave_out_calls(self) -> None:
        size = len(self._calls) // 2
        while size >= 1:
            start = 0
            while start < len(self._calls):
                if not self._try_without(range(start, start + size)):
                    start += size
            size //= 2

    def _leave_out_pairs(self) -> None:
        """Two calls that only go together, as a preparation and its completion."""
        for first in range(len(self._calls)):
            if self._spent:
                return
            for second in range(first + 1, first + 8):
                if second < len(self._calls):
                    self._try_without((first, second))

    def _try_without(self, places: Collection[int]) -> bool:
        """Leave out the calls at these places. The jobs that they submitted go with them: the others move up."""
        best = self._best
        if best is None:
            return False
        kept = tuple(record.call for place, record in enumerate(best.records) if place not in places)
        gone = {
            exchange.job
            for place in places
            if place < len(best.records)
            for exchange in best.records[place].exchanges
            if isinstance(exchange, Submitted)
        }
        return (bool(gone) and self._try(_without_jobs(kept, gone))) or self._try(kept)

    def _merge_calls(self) -> None:
        """Two calls of a kind as one about the keys of both."""
        for first in range(len(self._calls)):
            if self._spent:
                return
            for second in range(first + 1, len(self._calls)):
                calls = self._calls
                if second >= len(calls):
                    break
                one, other = calls[first], calls[second]
                if one.keys and evolve(one, keys=other.keys, positions=other.positions) == other and one.name != LOOKUP:
                    keys = tuple(dict.fromkeys(one.keys + other.keys))
                    merged = evolve(one, keys=keys, positions=None)
                    rest = calls[first + 1 : second] + calls[second + 1 :]
                    if not self._try((*calls[:first], merged, *rest)):
                        self._try((*calls[:first], *calls[first + 1 : second], merged, *calls[second + 1 :]))

    def _simplify_setup(self) -> None:
        if self._setup.request_level:
            self._try(self._calls, evolve(self._setup, request_level=()))
        for capacity in range(1, self._setup.capacity):
            if self._try(self._calls, evolve(self._setup, capacity=capacity)):
                break
        if self.kind.events and not self._setup.events:
            self._try(self._calls, evolve(self._setup, events=True))
        if self._setup.store_threshold > 1:
            for size in range(1, min(self._setup.max_tracker_size, 8)):
                if self._try(self._calls, evolve(self._setup, max_tracker_size=size)):
                    break

    def _leave_out_slots(self) -> None:
        """Keys and as many slots: where a law takes a full cache, neither can go without the other."""
        size = min(len(self._keys), self._setup.capacity) // 2
        while size >= 1:
            start = 0
            while start < len(self._keys) and not self._spent:
                gone = set(self._keys[start : start + size])
                if not self._try_without_slots_of(gone):
                    start += size
            size //= 2

    def _try_without_slots_of(self, gone: Collection[Key]) -> bool:
        capacity = self._setup.capacity - len(gone)
        kept = (_drop(call, gone) for call in self._calls)
        smaller = evolve(self._setup, capacity=max(1, capacity))
        return capacity >= 1 and self._try(tuple(call for call in kept if call is not None), smaller)

    def _leave_out_keys(self) -> None:
        for key in self._keys:
            kept = (_drop(call, (key,)) for call in self._calls)
            self._try(tuple(call for call in kept if call is not None))
        for place in range(len(self._calls)):
            out = 0
            while place < len(self._calls) and len(self._calls[place].keys) > 1 and out < len(self._calls[place].keys):
                call = self._calls[place]
                fewer = evolve(call, keys=call.keys[:out] + call.keys[out + 1 :], positions=_less(call, out))
                if not self._try(_with(self._calls, place, fewer)):
                    out += 1

    def _leave_out_positions(self) -> None:
        """And tickets, if they do not matter."""
        self._try(tuple(evolve(call, ticket=None) for call in self._calls))
        self._try(tuple(evolve(call, positions=None) for call in self._calls))
        for place in range(len(self._calls)):
            if place < len(self._calls) and self._calls[place].positions is not None:
                self._try(_with(self._calls, place, evolve(self._calls[place], positions=None)))

    def _strike_earlier(self) -> None:
        """No fault, or one at an earlier use."""
        for place in range(len(self._calls)):
            if place < len(self._calls) and self._calls[place].raises_in is not None:
                self._try(_with(self._calls, place, evolve(self._calls[place], raises_in=None, at=1)))
            for at in range(1, self._calls[place].at if place < len(self._calls) else 1):
                if self._try(_with(self._calls, place, evolve(self._calls[place], at=at))):
                    break

    def _unify_names(self) -> None:
        """Fewer and plainer keys and requests."""
        keys = self._keys
        for one, other in itertools.permutations(keys[:MOST_KEYS], 2):
            if self._spent:
                return
            self._try(_rename_keys(self._calls, {other: one}))
        keys = self._keys
        self._try(_rename_keys(self._calls, {key: place for place, key in enumerate(keys)}))
        requests = list(dict.fromkeys(call.request for call in self._calls if call.request is not None))
        for one, other in itertools.permutations(requests[:MOST_KEYS], 2):
            if self._spent:
                return
            self._try(_without_repeated_announcements(_rename_requests(self._calls, {other: one})))
        requests = list(dict.fromkeys(call.request for call in self._calls if call.request is not None))
        self._try(_rename_requests(self._calls, {name: f"r{place + 1}" for place, name in enumerate(requests)}))

    # --- the best so far ---

    @property
    def _spent(self) -> bool:
        return self.tries >= self.most_tries or self.played >= self.most_played

    @property
    def _calls(self) -> tuple[Call, ...]:
        return () if self._best is None else self._best.calls

    @property
    def _keys(self) -> list[Key]:
        return list(dict.fromkeys(key for call in self._calls for key in call.keys))

    @property
    def _setup(self) -> Setup:
        assert self._best is not None
        return self._best.setup

    def _try(self, sequence: Sequence[Call], setup: Setup | None = None) -> bool:
        """Take ``sequence`` for the best if it breaks the law and is smaller; whether it was."""
        best = self._best
        if best is None or self._spent or (setup is None and sequence == best.calls):
            return False
        smaller = self.attempt(setup or best.setup, sequence)
        if smaller is None or (smaller.size, _names(smaller)) >= (best.size, _names(best)):
            return False
        self._best = smaller
        return True


def _names(counterexample: Counterexample) -> tuple[tuple[str, ...], tuple[tuple[bool, Key], ...]]:
    """Breaks ties: plainer names are smaller."""
    return (
        tuple(call.request or "" for call in counterexample.calls),
        tuple((isinstance(key, str), key) for call in counterexample.calls for key in call.keys),
    )


def _less(call: Call, out: int) -> tuple[int | None, ...] | None:
    return None if call.positions is None else call.positions[:out] + call.positions[out + 1 :]


def _with(sequence: Sequence[Call], place: int, call: Call) -> tuple[Call, ...]:
    return (*sequence[:place], call, *sequence[place + 1 :])


def _drop(call: Call, gone: Collection[Key]) -> Call | None:
    """``call`` without the keys in ``gone``; ``None`` if nothing is left of it."""
    keys = tuple(key for key in call.keys if key not in gone)
    if keys == call.keys:
        return call
    return call.with_keys(keys) if keys else None


def _rename_keys(sequence: Sequence[Call], names: dict[Key, Key]) -> tuple[Call, ...]:
    return tuple(evolve(call, keys=tuple(names.get(key, key) for key in call.keys)) for call in sequence)


def _rename_requests(sequence: Sequence[Call], names: dict[str, str]) -> tuple[Call, ...]:
    return tuple(
        call if call.request is None else evolve(call, request=names.get(call.request, call.request))
        for call in sequence
    )


def _without_jobs(sequence: Sequence[Call], gone: Collection[int]) -> tuple[Call, ...]:
    """The calls about other jobs than these, under the numbers that those get without these."""
    return tuple(
        call if call.job is None else evolve(call, job=call.job - sum(other < call.job for other in gone))
        for call in sequence
        if call.job not in gone
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
