"""A long trace made short before the shrinker proper, whose every step plays the whole.

A law is seldom broken by all that went before. So only the last calls are played, after calls that rebuild the state
before them, of the keys that they name and in a cache as much smaller as the others took room; the shortest such end
that still breaks the law is what is shrunk. Where none does (it takes the order of eviction, or who began what),
the whole is shrunk in ever smaller chunks.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from attrs import define, evolve, field

from evictable.model import calls
from evictable.model.calls import Call, Key, Stored
from evictable.model.trace import Trace
from evictable.specs.callers.disciplines import CARELESS, CONTRACT
from evictable.specs.errors import UsageError
from evictable.specs.judge import Judge
from evictable.specs.monitor.dump import rebuilding
from evictable.specs.session import model_of, outcome_of
from evictable.specs.shrink import Counterexample, Shrinker
from evictable.specs.subjects.base import Setup, SubjectKind

LONG = 48
"""Calls above which the ends are tried first."""
KEPT = 4096
"""Calls before the broken law of which each may begin an end."""


@define
class Broke:
    """Where a trace, played once on the subject, broke a law: the calls so far, and what leads back from there."""

    law: str
    sequence: list[Call]
    resident: dict[Key, int]
    """Ref counts after the call that broke it, as the model has it before that call."""
    undo: list[dict[Key, int | None]]
    """Of each of the last calls, the ref counts before it of the keys that it changed."""


def play_once(kind: SubjectKind, setup: Setup, profile: str, sequence: Sequence[Call], law: str | None) -> Broke | None:
    """Play ``sequence`` up to the first broken law; ``None`` if all is kept.

    Raises `UsageError` if it is another law than ``law``.
    """
    subject = kind.make(setup)
    model = model_of(setup, profile, kind.admission)
    judge = Judge(model, subject.snapshot)
    undo: list[dict[Key, int | None]] = []
    for place, call in enumerate(sequence):
        outcome = outcome_of(subject, call)
        evicted = outcome.evicted_keys if isinstance(outcome, Stored) else ()
        named = model.ref_cnt if call.name == calls.RESET_CACHE else (*call.keys, *evicted)
        before = {key: model.ref_cnt.get(key) for key in named}
        broken = judge.observe(call, outcome, subject.exchanges() if setup.tiers else ())
        undo.append(before)
        if len(undo) > KEPT:
            del undo[0]
        if broken:
            laws = [one.law.id for one in broken]
            if law is not None and law not in laws:
                raise UsageError(
                    f"call {place + 1}, {call.name}, breaks {', '.join(laws)} and not {law}; name one with --law"
                )
            return Broke(law or laws[0], list(sequence[: place + 1]), dict(model.ref_cnt), undo)
    return None


@define
class LongShrinker:
    """Shrinks a trace for one subject to a counterexample that is locally minimal, or says that it is not."""

    kind: SubjectKind
    profile: str
    trace: Trace
    setup: Setup
    law: str | None = None
    minimal: bool = False
    """No call and no key of the result can be left out: each was tried."""
    tries: int = 0
    played: int = 0
    discipline: str = field(init=False, default=CONTRACT)

    def shrink(self) -> Counterexample | None:
        """``None`` if the trace breaks no law on the subject. Raises `UsageError`."""
        sequence = self.trace.calls
        broke = play_once(self.kind, self.setup, self.profile, sequence, self.law)
        self.played += 0 if broke is None else len(broke.sequence)
        if broke is None:
            return None
        found = self._start(broke)
        if found is None:
            raise UsageError("the law is not broken again by the same calls: the subject does not do the same twice")
        while True:
            shrinker = self._shrinker(broke.law)
            best = shrinker.shrink(found.setup, found.calls)
            self._count(shrinker)
            assert best is not None
            smaller = self._smaller(best)
            if smaller is None:
                return best
            found = smaller

    def _start(self, broke: Broke) -> Counterexample | None:
        """An end, if the trace is long, else all of it; by a caller who keeps the contract, if such a one will do."""
        ends = list(self._ends(broke)) if len(broke.sequence) > LONG and not self.setup.tiers else []
        for candidates in (ends, [(self.setup, broke.sequence)]):
            for self.discipline in (CONTRACT, CARELESS):
                for setup, sequence in candidates:
                    found = self._attempt(broke.law, setup, sequence)
                    if found is not None:
                        return found
        return None

    def _ends(self, broke: Broke) -> Iterator[tuple[Setup, list[Call]]]:
        """Ever longer ends, each in a cache of its own."""
        ref_cnt = dict(broke.resident)
        number, gone = 1, 0
        while gone < len(broke.undo):
            for before in reversed(broke.undo[len(broke.undo) - min(number, len(broke.undo)) : len(broke.undo) - gone]):
                for key, had in before.items():
                    if had is None:
                        ref_cnt.pop(key, None)
                    else:
                        ref_cnt[key] = had
            gone = min(number, len(broke.undo))
            yield self._end(broke.sequence[-gone:], ref_cnt)
            number *= 2

    def _end(self, last: list[Call], ref_cnt: dict[Key, int]) -> tuple[Setup, list[Call]]:
        named = {key for call in last for key in call.keys}
        held = {key: count for key, count in ref_cnt.items() if key in named}
        fresh = len(named) - len(held)
        free = min(self.setup.capacity - len(ref_cnt), fresh)
        # Somebody has to make room for what is new: as many idle blocks as would have had to go.
        idle = [key for key, count in ref_cnt.items() if count == 0 and key not in held][: fresh - free]
        held |= dict.fromkeys(idle, 0)
        before = [entry.call for entry in rebuilding(held, None, last)]
        return evolve(self.setup, capacity=max(1, len(held) + free)), [*before, *last]

    def _attempt(self, law: str, setup: Setup, sequence: Sequence[Call]) -> Counterexample | None:
        shrinker = self._shrinker(law)
        found = shrinker.attempt(setup, sequence)
        self._count(shrinker)
        return found

    def _shrinker(self, law: str) -> Shrinker:
        return Shrinker(self.kind, self.profile, self.discipline, law, most_played=200_000)

    def _count(self, shrinker: Shrinker) -> None:
        self.tries += shrinker.tries
        self.played += shrinker.played

    def _smaller(self, best: Counterexample) -> Counterexample | None:
        """One that is smaller by a call or a key, if there is any: `minimal` then tells that there is none."""
        for sequence in _neighbours(best.calls):
            found = self._attempt(best.law, best.setup, sequence)
            if found is not None and found.size < best.size:
                return found
        self.minimal = True
        return None


def _neighbours(sequence: tuple[Call, ...]) -> Iterator[tuple[Call, ...]]:
    """Without one call; without one place in the keys of a call; without a key anywhere."""
    for place in range(len(sequence)):
        yield sequence[:place] + sequence[place + 1 :]
    for place, call in enumerate(sequence):
        for out in range(len(call.keys)) if len(call.keys) > 1 else ():
            positions = None if call.positions is None else call.positions[:out] + call.positions[out + 1 :]
            fewer = evolve(call, keys=call.keys[:out] + call.keys[out + 1 :], positions=positions)
            yield (*sequence[:place], fewer, *sequence[place + 1 :])
    for key in dict.fromkeys(key for call in sequence for key in call.keys):
        kept = (call.with_keys(tuple(one for one in call.keys if one != key)) for call in sequence)
        yield tuple(new for old, new in zip(sequence, kept, strict=True) if new.keys or not old.keys)
