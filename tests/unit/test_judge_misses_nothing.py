"""One lie of a subject, in what it answers or shows, at any call of any run: a law is broken, at that very call."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any

import pytest
from attrs import evolve
from hypothesis import given, settings
from hypothesis import strategies as st
from seeded import (
    Puppet,
)

from evictable.model import calls
from evictable.model.calls import HIT_PENDING, RETRY, Answer, Call, Drained, Gauges, Key, Loaded, Stored
from evictable.model.exchanges import Exchange, Reported, Reserved, Submitted, Waited
from evictable.model.snapshot import Snapshot
from evictable.specs.callers.disciplines import CONTRACT, DISCIPLINES, HOSTILE
from evictable.specs.callers.proposals import ACTIONS, TIER_ACTIONS, Proposer, mistakes_of
from evictable.specs.session import Session
from evictable.specs.subjects.base import Setup, Subject, SubjectKind
from evictable.specs.subjects.builtin import BUILT_IN


class Liar(Puppet):
    """Errs once, from its call number ``at`` on as soon as there is something to be wrong about."""

    def __init__(self, setup: Setup, profile: str, draw: Random, at: int, lie: Callable[..., Any]) -> None:
        super().__init__(setup, profile)
        self.draw, self.at, self.lie = draw, at, lie
        self.lied_at: int | None = None
        self.made = 0
        self.key: Key | None = None

    def perform(self, call: Call) -> Answer:
        self.made += 1
        return super().perform(call)

    def answer(self, call: Call, right: Answer) -> Answer:
        if self.lie not in ANSWERS or self.lied_at is not None or self.made < self.at:
            return right
        wrong = self.lie(self.draw, right)
        self.lied_at = self.made if wrong != right else None
        return wrong

    def seen(self, shown: Snapshot) -> Snapshot:
        if self.lie in ANSWERS or self.lied_at not in (None, self.made) or self.made < self.at:
            return shown
        if self.key is None and shown.ref_cnt:
            self.key, self.lied_at = self.draw.choice(list(shown.ref_cnt)), self.made
        return shown if self.key is None else self.lie(self.key, shown)


def another(draw: Random, right: tuple[int, ...]) -> tuple[int, ...]:
    """With one number left out, or one more, or one changed."""
    place = draw.randint(0, len(right))
    return right[:place] + (() if draw.random() < 0.5 else (draw.randint(0, 40),)) + right[place + 1 :]


def wrong_words(draw: Random, right: Answer) -> Answer:
    if isinstance(right, Stored):
        name = draw.choice(("keys_to_store", "block_ids", "evicted_keys"))
        return evolve(right, **{name: another(draw, getattr(right, name))})
    if isinstance(right, Loaded):
        return Loaded(another(draw, right.block_ids))
    if isinstance(right, str):
        return draw.choice((calls.HIT, calls.MISS, calls.HIT_PENDING, calls.RETRY))
    return right


def wrong_kind(draw: Random, right: Answer) -> Answer:
    return draw.choice((None, calls.HIT, Loaded((0,)), Drained(()), Gauges(0.9), Stored((), (), (7,))))


def wrong_count(key: Key, shown: Snapshot) -> Snapshot:
    return evolve(shown, ref_cnt={**shown.ref_cnt, key: shown.ref_cnt[key] + 1})


def wrong_count_throughout(key: Key, shown: Snapshot) -> Snapshot:
    """As above, and list and counters agree with it."""
    if key not in shown.ref_cnt:
        return shown
    was, now = shown.ref_cnt[key], shown.ref_cnt[key] + 1
    return evolve(
        shown,
        ref_cnt={**shown.ref_cnt, key: now},
        evictable=[other for other in shown.evictable or () if other != key] + ([key] if now == 0 else []),
        num_evictable=(shown.num_evictable or 0) + (now == 0) - (was == 0),
        num_pending=(shown.num_pending or 0) - (was == -1),
    )


def wrong_slot(key: Key, shown: Snapshot) -> Snapshot:
    return evolve(shown, slots={**(shown.slots or {}), key: (shown.slots or {})[key] + 100}, free=None)


def wrong_list(key: Key, shown: Snapshot) -> Snapshot:
    listed = [other for other in shown.evictable or () if other != key]
    return evolve(shown, evictable=listed if key in (shown.evictable or ()) else [*listed, key])


def gone(key: Key, shown: Snapshot) -> Snapshot:
    """The block is not there, and all that is counted agrees with it."""
    ref_cnt = shown.ref_cnt.get(key)
    return evolve(
        shown,
        ref_cnt={other: count for other, count in shown.ref_cnt.items() if other != key},
        slots={other: slot for other, slot in (shown.slots or {}).items() if other != key},
        evictable=[other for other in shown.evictable or () if other != key],
        num_evictable=(shown.num_evictable or 0) - (ref_cnt == 0),
        num_pending=(shown.num_pending or 0) - (ref_cnt == -1),
        num_resident=(shown.num_resident or 0) - 1,
        num_free=(shown.num_free or 0) + 1,
        free=None,
    )


def off_by_one(name: str) -> Callable[[Key, Snapshot], Snapshot]:
    return lambda key, shown: evolve(shown, **{name: getattr(shown, name) + 1})


ANSWERS = (wrong_words, wrong_kind)
LIES: dict[str, Callable[..., Any]] = {
    "wrong words": wrong_words,
    "wrong kind": wrong_kind,
    "wrong count": wrong_count,
    "wrong count throughout": wrong_count_throughout,
    "wrong slot": wrong_slot,
    "wrong list": wrong_list,
    "gone": gone,
    **{name: off_by_one(name) for name in ("num_evictable", "num_pending", "num_free", "num_resident")},
}


@pytest.mark.parametrize("lie", LIES.values(), ids=LIES.keys())
@settings(max_examples=60)
@given(
    seed=st.integers(0, 2**32),
    at=st.integers(1, 30),
    capacity=st.sampled_from((1, 2, 3, 20)),
    profile=st.sampled_from(("lru-evictable", "lru-scan", "any")),
    discipline=st.sampled_from(DISCIPLINES),
)
def test_whatever_is_wrong_at_a_call_breaks_a_law_there(
    lie: Callable[..., Any], seed: int, at: int, capacity: int, profile: str, discipline: str
) -> None:
    subjects: list[Liar] = []

    def make(setup: Setup) -> Liar:
        subjects.append(Liar(setup, profile, Random(seed), at, lie))
        return subjects[-1]

    session = Session.begin(SubjectKind("liar", make, lambda policy: profile), Setup(capacity), profile, discipline)
    mistakes = mistakes_of(discipline)
    proposer = Proposer(session, Random(seed), tuple(range(30)), mistakes=mistakes, mistake_rate=0.2 * bool(mistakes))
    while not session.broken and len(session.records) < at + 15:
        session.step(proposer.next_call())
    lied_at = subjects[0].lied_at
    assert (lied_at or at + 15, bool(lied_at)) == (len(session.records), bool(session.broken))


# --- with tiers -----------------------------------------------------------------------------------


class TieredLiar:
    """The built-in manager of tiers; it errs once, as `Liar` does, or what it is said to have said is wrong."""

    seen = Liar.seen

    def __init__(self, subject: Subject, draw: Random, at: int, lie: Callable[..., Any]) -> None:
        self.subject, self.draw, self.at, self.lie = subject, draw, at, lie
        self.lied_at: int | None = None
        self.made = 0
        self.key: Key | None = None
        self.said: tuple[Exchange, ...] = ()

    def answer(self, call: Call, right: Answer) -> Answer:
        if self.lie not in (*ANSWERS, wrong_words_with_tiers) or self.lied_at is not None or self.made < self.at:
            return right
        wrong = self.lie(self.draw, right)
        self.lied_at = self.made if wrong != right else None
        return wrong  # type: ignore[no-any-return]

    def perform(self, call: Call) -> Answer:
        self.made += 1
        try:
            return self.answer(call, self.subject.perform(call))
        finally:
            self.said = self.subject.exchanges()
            if self.lie in SAYINGS.values() and self.lied_at is None and self.made >= self.at:
                wrong = tuple(self.lie(self.draw, self.said))
                self.lied_at = self.made if wrong != self.said else None
                self.said = wrong

    def snapshot(self, keys: Any) -> Snapshot | None:
        shown = self.subject.snapshot(keys)
        assert shown is not None
        return shown if self.lie in (*SAYINGS.values(), wrong_words_with_tiers) else self.seen(shown)

    def exchanges(self) -> tuple[Exchange, ...]:
        return self.said


def about(kind: type, change: Callable[[Random, Any], list[Exchange]]) -> Callable[[Random, Any], list[Exchange]]:
    """A lie about the first exchange of a kind of which there is something to be wrong."""

    def lie(draw: Random, said: tuple[Exchange, ...]) -> list[Exchange]:
        for place, exchange in enumerate(said):
            if isinstance(exchange, kind) and (wrong := change(draw, exchange)) != [exchange]:
                return [*said[:place], *wrong, *said[place + 1 :]]
        return list(said)

    return lie


def untold(draw: Random, given: Submitted) -> list[Exchange]:
    return [given] if given.raised else []


def told_twice(draw: Random, given: Submitted) -> list[Exchange]:
    return [given] if given.raised else [given, evolve(given, job=given.job + 1000)]


def other_slots(draw: Random, given: Submitted) -> list[Exchange]:
    block_ids = list(given.block_ids)
    block_ids[draw.randrange(len(block_ids))] += draw.choice((-1, 1))
    return [evolve(given, block_ids=tuple(block_ids))]


def other_room(draw: Random, reserved: Reserved) -> list[Exchange]:
    return [reserved if reserved.block_ids is None else evolve(reserved, block_ids=(reserved.block_ids[0] + 40,))]


def other_victims(draw: Random, reserved: Reserved) -> list[Exchange]:
    victims = () if reserved.evicted else (77,)
    return [reserved if reserved.block_ids is None else evolve(reserved, evicted=victims)]


def result_untold(draw: Random, said: tuple[Exchange, ...]) -> list[Exchange]:
    if any(isinstance(exchange, Waited) for exchange in said):
        return list(said)  # in a reset, which ends it all the same
    return about(Reported, lambda draw, reported: [])(draw, said)


SAYINGS: dict[str, Callable[..., Any]] = {
    "a job is not told": about(Submitted, untold),
    "a job is told twice": about(Submitted, told_twice),
    "a job has other slots": about(Submitted, other_slots),
    "a job goes the other way": about(Submitted, lambda draw, job: [evolve(job, promotion=not job.promotion)]),
    "a job is refused": about(Submitted, lambda draw, job: [evolve(job, raised=True)]),
    "room is made elsewhere": about(Reserved, other_room),
    "another makes room": about(Reserved, other_victims),
    "no room is made": about(Reserved, lambda draw, reserved: [evolve(reserved, block_ids=None)]),
    "a result is not told": result_untold,
}


def wrong_words_with_tiers(draw: Random, right: Answer) -> Answer:
    wrong = wrong_words(draw, right)
    return right if {wrong, right} == {HIT_PENDING, RETRY} else wrong  # two words for the same, by release


WITH_TIERS = {**LIES, "wrong words": wrong_words_with_tiers, **SAYINGS}


@pytest.mark.parametrize("lie", WITH_TIERS.values(), ids=WITH_TIERS.keys())
@settings(max_examples=40)
@given(
    seed=st.integers(0, 2**32),
    at=st.integers(1, 40),
    capacity=st.sampled_from((1, 2, 3, 20)),
    tiers=st.integers(1, 2),
    discipline=st.sampled_from((CONTRACT, HOSTILE)),
)
def test_with_tiers_whatever_is_wrong_at_a_call_breaks_a_law_there(
    lie: Callable[..., Any], seed: int, at: int, capacity: int, tiers: int, discipline: str
) -> None:
    subjects: list[TieredLiar] = []

    def make(setup: Setup) -> TieredLiar:
        subjects.append(TieredLiar(BUILT_IN.make(setup), Random(seed), at, lie))
        return subjects[-1]

    profile = "lru-evictable"
    kind = SubjectKind("liar", make, lambda policy: profile)
    if lie in SAYINGS.values():
        capacity = min(capacity, 4)  # in a large cache nobody looks at what nobody names, but now and then
    setup = Setup(capacity, tiers=tiers, request_level=(0,) if seed % 2 else ())
    session = Session.begin(kind, setup, profile, discipline)
    mistakes = mistakes_of(discipline)
    actions = tuple({**ACTIONS, **TIER_ACTIONS})
    proposer = Proposer(
        session, Random(seed), tuple(range(30)), actions, mistakes=mistakes, mistake_rate=0.2 * bool(mistakes)
    )
    while not session.broken and len(session.records) < at + 25:
        session.step(proposer.next_call())
    lied_at = subjects[0].lied_at
    assert (lied_at or at + 25, bool(lied_at)) == (len(session.records), bool(session.broken))
