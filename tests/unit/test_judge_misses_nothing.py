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
from evictable.model.calls import Answer, Call, Drained, Gauges, Key, Loaded, Stored
from evictable.model.snapshot import Snapshot
from evictable.specs.callers.disciplines import DISCIPLINES
from evictable.specs.callers.proposals import Proposer, mistakes_of
from evictable.specs.session import Session
from evictable.specs.subjects.base import Setup, SubjectKind


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
