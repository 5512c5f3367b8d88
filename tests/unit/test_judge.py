"""The judge: what it looks at, when it looks at everything, and what it has put to the test."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

import pytest
from attrs import evolve
from seeded import (
    DRAIN,
    PROFILE,
    RESET,
    STATS,
    Blind,
    Leaks,
    Miscounts,
    Puppet,
    Unpins,
    announce,
    drain,
    failed,
    holding,
    judged,
    kind_of,
    kind_of_manager,
    laws,
    load,
    loaded,
    lookup,
    offer,
    outcomes,
    stored,
    touch,
)

from evictable.impl import CPUOffloadingManager, LRUCachePolicy
from evictable.model import calls
from evictable.model.calls import Answer, Call, Drained, Key, Stored
from evictable.model.snapshot import Snapshot
from evictable.specs import judge
from evictable.specs.errors import LawlessDifference
from evictable.specs.judge import Judge
from evictable.specs.session import play
from evictable.specs.subjects.base import Setup, SubjectKind

PINNED = (*holding(1, 2), load("r1", 1))


class LosesMark(LRUCachePolicy):
    """A block becomes idle again and is not listed."""

    def __init__(self, cache_capacity: int) -> None:
        super().__init__(cache_capacity)
        self.marked: set[Any] = set()

    def mark_evictable(self, key: Any) -> None:
        if key not in self.marked:
            self.marked.add(key)
            super().mark_evictable(key)


DEFECTS = {
    "a leak": (kind_of_manager(Leaks), (*holding(1), offer("r1", 2), failed("r1", 2), lookup("r1", 1))),
    "a wrong counter": (kind_of_manager(Miscounts), (*PINNED, loaded("r1", 1), lookup("r1", 1))),
    "a lost pin": (kind_of_manager(Unpins), (*PINNED, touch("r2", 1), lookup("r1", 1))),
    "a lost mark": (kind_of_manager(CPUOffloadingManager, LosesMark), (*PINNED, loaded("r1", 1), lookup("r1", 1))),
}


@pytest.mark.parametrize(("kind", "sequence"), DEFECTS.values(), ids=DEFECTS.keys())
def test_named_keys_show_a_defect_as_soon_as_a_full_look(
    kind: SubjectKind, sequence: Sequence[Call], monkeypatch: pytest.MonkeyPatch
) -> None:
    keyed = play(kind, Setup(40), PROFILE, sequence)
    monkeypatch.setattr(judge, "SMALL", 40)
    full = play(kind, Setup(40), PROFILE, sequence)
    assert len(sequence) - 1 == len(keyed.records)
    assert (laws(full.broken), len(full.records)) == (laws(keyed.broken), len(keyed.records))


class LosesAnother(Puppet):
    """A touch takes key 1 off the list, whatever it names. No counter tells."""

    lost = False

    def perform(self, call: Call) -> Answer:
        self.lost |= call.name == calls.TOUCH
        return super().perform(call)

    def seen(self, shown: Snapshot) -> Snapshot:
        listed = [key for key in shown.evictable or () if key != 1 or not self.lost]
        return evolve(shown, evictable=listed)


@pytest.mark.parametrize(("capacity", "found_after"), [(16, 5), (40, 40), (60, 60)])
def test_what_no_call_names_is_found_by_the_next_scan(
    capacity: int, found_after: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        "evictable.specs.session.SCAN_EVERY", 10
    )  # but not more often than a scan has blocks to look at
    sequence = (*holding(1, 2), touch("r1", 2), *[STATS] * 100)
    session = judged(LosesAnother, sequence, capacity)
    assert (found_after, ["evictable-iff-idle"]) == (len(session.records), laws(session.broken))


class EvictsTwice(Puppet):
    """Evicts one more than it says, and keeps no evictable counter that could tell."""

    def does(self, call: Call) -> Answer:
        right = super().does(call)
        if isinstance(right, Stored) and right.evicted_keys:
            self.gone = next(iter(self.model.order.idle_keys()))
        return right

    gone: Key | None = None

    def seen(self, shown: Snapshot) -> Snapshot:
        lost = self.gone in self.model.ref_cnt
        return evolve(
            shown,
            ref_cnt={key: ref_cnt for key, ref_cnt in shown.ref_cnt.items() if key != self.gone},
            slots={key: slot for key, slot in (shown.slots or {}).items() if key != self.gone},
            evictable=[key for key in shown.evictable or () if key != self.gone],
            num_evictable=None,
            num_resident=(shown.num_resident or 0) - lost,
            num_free=(shown.num_free or 0) + lost,
            free=None,
        )


@pytest.mark.parametrize("capacity", [16, 40])
def test_a_count_that_is_off_makes_the_judge_look_at_everything(capacity: int) -> None:
    keys = range(1, capacity + 1)
    session = judged(EvictsTwice, (*holding(*keys), offer("r1", 99)), capacity)
    assert [("answer", (2,))] == [(one.law.id, one.difference.keys) for one in session.broken]


def test_victims_that_were_spared_are_part_of_the_picture() -> None:
    """Only the order is wrong, so only the order is reported, also where little was looked at."""

    class LastFirst(LRUCachePolicy):
        def touch(self, keys: Any) -> None:
            super().touch(reversed(list(keys)))

    keys = range(1, 41)
    sequence = (*holding(*keys), touch("r1", *keys), offer("r1", 99))
    session = play(kind_of_manager(CPUOffloadingManager, LastFirst), Setup(40), PROFILE, sequence)
    assert [("evict-order", (1, 40))] == [(one.law.id, one.difference.keys) for one in session.broken]


@pytest.mark.parametrize("capacity", [3, 40])
def test_a_refusal_spares_everything(capacity: int) -> None:
    """What should have gone is still there, in its slot: nothing but the refusal is wrong."""

    class Refuses(Puppet):
        def does(self, call: Call) -> Answer:
            return None if call == offer("r1", 99) else super().does(call)

    session = judged(Refuses, (*holding(*range(capacity)), offer("r1", 99)), capacity)
    assert ["no-false-refusal", "progress"] == laws(session.broken)


def test_a_refusal_just_when_everything_is_scanned(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(judge, "SCAN_EVERY", 20)
    session = judged(Puppet, (*holding(1, 2), *[offer("r1", *range(30))] * 40), capacity=20)
    assert () == session.broken


@pytest.mark.parametrize("always_full", [False, True])
def test_what_is_looked_at(always_full: bool) -> None:
    asked: list[Collection[Key] | None] = []
    puppet = Puppet(Setup(40))

    def look(keys: Collection[Key] | None) -> Snapshot | None:
        asked.append(keys)
        return puppet.snapshot(keys)

    observer = Judge(Puppet(Setup(40)).model, look, always_full=always_full)
    for call in (*holding(1), DRAIN, RESET):
        observer.observe(call, puppet.perform(call))
    named: list[Collection[Key] | None] = [(), (), (), (1,), (1,), (), ()]
    assert ([None] * 7 if always_full else named) == asked


def test_a_difference_that_no_law_explains_is_reported_as_a_hole(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(judge, "LAWS", ())
    made = (*holding(1), lookup("r1", 1))
    with pytest.raises(LawlessDifference, match=r"lookup\(1, request=r1\) came to MISS; right: HIT") as caught:
        play(kind_of(Absentminded), Setup(3), PROFILE, made)
    assert (f"call {len(made)}", Setup(3), made) == (caught.value.where, caught.value.setup, caught.value.made)


class Absentminded(Puppet):
    def answer(self, call: Call, right: Answer) -> Answer:
        return calls.MISS if call.name == calls.LOOKUP else right


def test_a_broken_law_is_told_with_its_sentence() -> None:
    (broken,) = judged(Absentminded, (*holding(1), lookup("r1", 1))).broken
    assert ["  expected  HIT", "  observed  MISS"] == str(broken).splitlines()[1:]
    assert f"answer: {broken.law.sentence}" == str(broken).splitlines()[0]


# --- by answers alone -----------------------------------------------------------------------------


def without_inside(kind: SubjectKind) -> SubjectKind:
    def make(setup: Setup) -> Any:
        subject = kind.make(setup)
        subject.snapshot = lambda keys: None  # type: ignore[method-assign]
        return subject

    return SubjectKind(kind.name, make, kind.profile)


FULL = holding(1, 2)


@pytest.mark.parametrize(
    ("kind", "sequence", "law"),
    [
        (
            DEFECTS["a leak"][0],
            (announce("r1"), offer("r1", 1, 2), failed("r1", 1), offer("r1", 3)),
            "no-false-refusal",
        ),
        (DEFECTS["a lost pin"][0], (*FULL, load("r1", 1), touch("r1", 1), offer("r1", 3, 4)), "pinned-stays"),
        (DEFECTS["a lost mark"][0], (*FULL, load("r1", 1), loaded("r1", 1), offer("r1", 3, 4)), "progress"),
        (kind_of(Absentminded), (*FULL, lookup("r1", 1)), "answer"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_defect_is_found_by_answers_alone(kind: SubjectKind, sequence: Sequence[Call], law: str) -> None:
    session = play(without_inside(kind), Setup(2), PROFILE, sequence)
    assert (len(sequence), True) == (len(session.records), law in laws(session.broken))


# --- what has been put to the test ----------------------------------------------------------------

ALWAYS = {"evictable-iff-idle", "counters-agree", "slots-conserved", "ref-floor", "capacity", "legal-step"}


@pytest.mark.parametrize(
    ("sequence", "exercised"),
    [
        (holding(), set()),
        (holding(1), {"progress", "drains"}),
        ((*PINNED, offer("r1", 3)), {"evict-order", "pinned-stays"}),
        ((*PINNED, offer("r1", 2, 3, 4)), {"no-false-refusal", "all-or-nothing"}),
        ((*holding(1, 2), offer("r1", 1, 3)), {"offer-protected"}),
        ((*PINNED, loaded("r2", 1)), {"owner-completes", "all-or-nothing"}),
        ((*holding(1), DRAIN), {"events-once", "events-replay"}),
        ((*holding(1), DRAIN, DRAIN), set()),
        ((*holding(1), load("r1", 9)), {"all-or-nothing"}),
    ],
)
def test_which_laws_a_call_puts_to_the_test(sequence: Sequence[Call], exercised: set[str]) -> None:
    whole = judged(Puppet, sequence, capacity=2).judge.exercised
    before = judged(Puppet, sequence[:-1], capacity=2).judge.exercised
    assert exercised <= whole
    assert exercised or whole == before
    assert ALWAYS | {"answer"} <= whole


def test_no_order_puts_no_order_to_the_test() -> None:
    session = judged(Puppet, (*holding(1, 2), offer("r1", 3)), capacity=2, profile="any")
    assert "evict-order" not in session.judge.exercised


def test_answers_alone_do_not_put_the_inside_to_the_test() -> None:
    session = judged(Blind, (*PINNED, loaded("r2", 1), loaded("r1", 1)))
    assert {"answer", "progress"} == session.judge.exercised


def test_events_that_are_off_must_not_be_told() -> None:
    class Chatters(Blind):
        def answer(self, call: Call, right: Answer) -> Answer:
            return Drained((calls.Event(False, (1,)),)) if call.name == calls.TAKE_EVENTS else right

    silent, chatty = (
        play(kind_of(subject), Setup(2, events=False), PROFILE, (*holding(1), DRAIN)) for subject in (Blind, Chatters)
    )
    assert ([], ["events-once"]) == (laws(silent.broken), laws(chatty.broken))


def test_a_drain_may_be_dropped_and_goes_on_where_it_was() -> None:
    sequence = (*holding(1), offer("r1", 2), stored("r1", 2), drain(1), drain(0), drain(5))
    session = judged(Puppet, sequence)
    assert ((), [1, 0, 1]) == (session.broken, [len(taken.events) for taken in outcomes(session)[-3:]])  # type: ignore[union-attr]
