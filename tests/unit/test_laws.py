"""Every law: what breaks it, what it says then, and that it says nothing of the same calls done right."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any

import pytest
from attrs import evolve, frozen
from seeded import (
    DRAIN,
    PROFILE,
    RESET,
    STATS,
    Blind,
    Puppet,
    announce,
    finish,
    holding,
    judged,
    laws,
    load,
    loaded,
    lookup,
    offer,
    stored,
    touch,
)
from tiered import BEGUN, CIRCLE, END, Told, badly, cascade, done, drained, fill, promotion, room, settled, told, well

from evictable.model import calls
from evictable.model.calls import HIT, HIT_PENDING, Answer, Call, Drained, Event, Key, Loaded, Raised, Stored
from evictable.model.exchanges import ToldFinished
from evictable.model.laws import LAW_BY_ID, LAWS, Difference, Step
from evictable.model.manager import StorePlan
from evictable.model.snapshot import Snapshot
from evictable.specs.judge import Broken
from evictable.specs.session import Session

PINNED = (*holding(1, 2), load("r1", 1))


@frozen
class Case:
    """A sequence of calls, of which the last is answered, or shown, or done wrongly."""

    laws: tuple[str, ...]
    difference: Difference
    sequence: Sequence[Call]
    answer: Callable[[Any], Answer] = lambda right: right
    shown: Mapping[str, Any] = MappingProxyType({})
    """What the snapshot after the last call says instead."""
    does: Callable[[Puppet, Call], Answer] | None = None
    capacity: int = 3
    profile: str = PROFILE
    blind: bool = False

    def play(self, lying: bool = True) -> Session:
        case, last = self, len(self.sequence)

        class Liar(Blind if case.blind else Puppet):  # type: ignore[misc]
            made = 0

            def perform(self, call: Call) -> Answer:
                self.made += 1
                if lying and case.does is not None and self.made == last:
                    return case.does(self, call)
                return super().perform(call)

            def answer(self, call: Call, right: Answer) -> Answer:
                return case.answer(right) if lying and self.made == last else right

            def seen(self, shown: Snapshot) -> Snapshot:
                return evolve(shown, **case.shown) if lying and self.made == last else shown

        return judged(Liar, self.sequence, self.capacity, self.profile)


def evicting(*victims: Key) -> Callable[[Stored], Stored]:
    return lambda right: evolve(right, evicted_keys=victims)


def pins_and_raises(puppet: Puppet, call: Call) -> Answer:
    puppet.model.perform(call.with_keys(call.keys[:1]))
    raise KeyError(call.keys[1])


def moves_and_raises(puppet: Puppet, call: Call) -> Answer:
    puppet.model.order.touched((1,))
    raise KeyError(call.keys[1])


def announces_and_raises(puppet: Puppet, call: Call) -> Answer:
    puppet.queue.append(Event(True, (1,)))
    raise KeyError(call.keys[1])


CASES = {
    "a pinned block is listed": Case(
        ("evictable-iff-idle",),
        Difference("evictable: (2,)", "evictable: [1, 2]", (1,)),
        PINNED,
        shown={"evictable": (1, 2)},
    ),
    "an idle block is not listed": Case(
        ("evictable-iff-idle",),
        Difference("evictable: (1, 2)", "evictable: [2]", (1,)),
        (*holding(1, 2), touch("r1", 1)),
        shown={"evictable": (2,)},
    ),
    "an idle block is listed twice": Case(
        ("evictable-iff-idle",),
        Difference("evictable: (1, 2)", "evictable: [1, 2, 1]", (1, 2)),
        holding(1, 2),
        shown={"evictable": (1, 2, 1)},
    ),
    "the evictable counter drifts": Case(
        ("counters-agree",),
        Difference("evictable counter 1", "evictable counter 2"),
        PINNED,
        shown={"num_evictable": 2},
    ),
    "the write-pending counter drifts": Case(
        ("counters-agree",),
        Difference("write-pending counter 1", "write-pending counter 0"),
        (announce("r1"), offer("r1", 1)),
        shown={"num_pending": 0},
    ),
    "two blocks in one slot": Case(
        ("slots-conserved", "legal-step"),
        Difference("one block in each slot", "slots [0] hold several", (1, 2)),
        (*holding(1, 2), touch("r1", 1)),
        shown={"slots": {1: 0, 2: 0}},
    ),
    "a slot is lost": Case(
        ("slots-conserved",),
        Difference("slots [0, 1, 2] each taken or free, once", "taken [0, 1], free []"),
        (*holding(1, 2), touch("r1", 1)),
        shown={"free": ()},
    ),
    "a slot is taken and free": Case(
        ("slots-conserved",),
        Difference("slots [0, 1, 2] each taken or free, once", "taken [0, 1], free [1, 2]"),
        (*holding(1, 2), touch("r1", 1)),
        shown={"free": (1, 2)},
    ),
    "more slots are said to be handed out than there can be": Case(
        ("slots-conserved",),
        Difference("slots [0, ..., 999999999999] each taken or free, once", "taken [0, 1], free [2]"),
        (*holding(1, 2), touch("r1", 1)),
        shown={"free": (2,), "handed_out": 10**12},
    ),
    "too few slots can be had": Case(
        ("slots-conserved",),
        Difference("3 slots, taken or free", "2 taken and 0 free"),
        (*holding(1, 2), touch("r1", 1)),
        shown={"num_free": 0, "free": None},
    ),
    "a block without a slot": Case(
        ("slots-conserved",),
        Difference("a slot for each of [1, 2]", "slots of [1]", (2,)),
        (*holding(1, 2), touch("r1", 1)),
        shown={"slots": {1: 0}},
    ),
    "a touch that pins": Case(
        ("legal-step",),
        Difference("ref_cnt of 1: 0", "0 became 1", (1,)),
        (*holding(1, 2), touch("r1", 1)),
        shown={"ref_cnt": {1: 1, 2: 0}, "evictable": (2,), "num_evictable": 1},
    ),
    "a load that pins twice": Case(
        ("legal-step",),
        Difference("ref_cnt of 1: 0 or 1", "0 became 2", (1,)),
        PINNED,
        shown={"ref_cnt": {1: 2, 2: 0}},
    ),
    "a load that does not pin": Case(
        ("legal-step",),
        Difference("ref_cnt of 1: 1", "stopped short at 0", (1,)),
        PINNED,
        shown={"ref_cnt": {1: 0, 2: 0}, "evictable": (1, 2), "num_evictable": 2},
    ),
    "an idle block moves": Case(
        ("legal-step",),
        Difference("2 keeps slot 1", "2 is in slot 2", (2,)),
        (*holding(1, 2), touch("r1", 1)),
        shown={"slots": {1: 0, 2: 2}, "free": (1,)},
    ),
    "a block survives a reset": Case(
        ("legal-step",),
        Difference("nothing resident after a reset", "ref_cnt {1: 0}", (1,)),
        (*holding(1), DRAIN, RESET),
        shown={
            "ref_cnt": {1: 0},
            "slots": {1: 0},
            "evictable": (1,),
            "num_evictable": 1,
            "num_resident": 1,
            "num_free": 2,
            "free": (1, 2),
        },
    ),
    "a pinned block is evicted": Case(
        ("pinned-stays",),
        Difference("only idle blocks are evicted", "[1] in use and evicted", (1,)),
        (*PINNED, offer("r1", 3)),
        answer=evicting(1),
        capacity=2,
        profile="any",
        blind=True,
    ),
    "a pinned block moves": Case(
        ("pinned-stays",),
        Difference("1 (ref_cnt 1) keeps slot 0", "1 is in slot 2", (1,)),
        (*PINNED, touch("r1", 2)),
        shown={"slots": {1: 2, 2: 1}, "free": (0,)},
    ),
    "a pinned block goes away": Case(
        ("legal-step", "pinned-stays"),
        Difference("ref_cnt of 1: 1", "1 became absent", (1,)),
        (*PINNED, touch("r1", 2)),
        shown={"ref_cnt": {2: 0}, "slots": {2: 1}, "free": (0, 2), "num_free": 2, "num_resident": 1},
    ),
    "a key of the offer is evicted": Case(
        ("offer-protected",),
        Difference("no key of the offer is evicted", "[1] evicted", (1,)),
        (*holding(1, 2), offer("r1", 3, 1)),
        answer=evicting(1),
        capacity=2,
        profile="any",
        blind=True,
    ),
    "another is evicted": Case(
        ("evict-order",),
        Difference("evicts [1]", "evicts [2]", (1, 2)),
        (*holding(1, 2), offer("r1", 3)),
        answer=evicting(2),
        capacity=2,
        blind=True,
    ),
    "more are evicted than needed": Case(
        ("evict-order",),
        Difference("1 evicted: [1]", "2 evicted: [1, 2]", (1, 2)),
        (*holding(1, 2), offer("r1", 3)),
        answer=evicting(1, 2),
        capacity=2,
        blind=True,
    ),
    "a refusal with room": Case(
        ("no-false-refusal",),
        Difference("store [3] in slots [1], evicting [2]", "None, although there is room", (3,)),
        (*PINNED, offer("r1", 3)),
        does=lambda puppet, call: None,
        capacity=2,
    ),
    "a load raises half way": Case(
        ("all-or-nothing",),
        Difference("unchanged ref_cnt {1: 0, 2: 0}", "ref_cnt {1: 1, 2: 0}", (1,)),
        (*holding(1, 2), load("r2", 1, 9)),
        does=pins_and_raises,
    ),
    "a call raises and moves the order": Case(
        ("all-or-nothing",),
        Difference("unchanged order (1, 2)", "order (2, 1)"),
        (*holding(1, 2), load("r2", 1, 9)),
        does=moves_and_raises,
    ),
    "a call raises and leaves an event": Case(
        ("all-or-nothing",),
        Difference("unchanged undrained events 1", "undrained events 2"),
        (*holding(1, 2), load("r2", 1, 9)),
        does=announces_and_raises,
    ),
    "a lookup lies": Case(
        ("answer",), Difference("HIT", "MISS", (1,)), (*holding(1), lookup("r1", 1)), answer=lambda right: calls.MISS
    ),
    "a slot in use is given away": Case(
        ("answer",),
        Difference(
            "store [2] in slots [1], evicting []",
            "store [2] in slots [0], evicting []",
            (2,),
        ),
        (*holding(1), offer("r1", 2)),
        answer=lambda right: evolve(right, block_ids=(0,)),
    ),
    "another slot is answered than is taken": Case(
        ("answer",),
        Difference("1 in slot 2, as answered", "1 in slot 0", (1,)),
        (announce("r1"), offer("r1", 1)),
        answer=lambda right: evolve(right, block_ids=(2,)),
    ),
    "an eviction is kept secret": Case(
        ("answer",),
        Difference("evicted, as answered: (3,)", "evicted: (1, 3)", (1,)),
        (*holding(1, 2, 3), load("r1", 2), touch("r1", 1), offer("r1", 4)),
        shown={
            "ref_cnt": {2: 1, 4: -1},
            "slots": {2: 1, 4: 2},
            "evictable": (),
            "num_evictable": 0,
            "num_resident": 2,
            "num_free": 1,
            "free": (0,),
        },
    ),
    "a victim is named twice": Case(
        ("answer",),
        Difference(
            "store [3, 4] in slots [0, 1], evicting [1, 2]", "store [3, 4] in slots [0, 1], evicting [1, 1]", (3, 4)
        ),
        (*holding(1, 2), offer("r1", 3, 4)),
        answer=evicting(1, 1),
        capacity=2,
        profile="any",
        blind=True,
    ),
    "an answer of another kind": Case(
        ("answer",), Difference("events: none", "None"), (announce("r1"), DRAIN), answer=lambda right: None
    ),
    "a load of somebody else is ended": Case(
        ("owner-completes",),
        Difference("r2 has no such transfer of 1 in flight: its ref_cnt is 1", "its ref_cnt is 0", (1,)),
        (*PINNED, loaded("r2", 1)),
        does=lambda puppet, call: puppet.does(evolve(call, request="r1")),
    ),
    "a consumer is left with a wrong belief": Case(
        ("events-replay",),
        Difference("of [1] ready: []", "the consumer believes in: [1]", (1,)),
        (*holding(1), RESET, DRAIN),
        answer=lambda right: Drained((Event(False, (1,)),)),
    ),
    "an event is told twice": Case(
        ("events-once",),
        Difference("no further event about 1", "'stored 1' is delivered", (1,)),
        (*holding(1), DRAIN),
        answer=lambda right: Drained((Event(False, (1,)), Event(False, (1,)))),
    ),
    "a store fails when nothing is in flight": Case(
        ("no-false-refusal", "progress"),
        Difference("store [3] in slots [0], evicting [1]", "None, although there is room", (3,)),
        (*holding(1, 2), offer("r1", 3)),
        does=lambda puppet, call: None,
        capacity=2,
    ),
}


@pytest.mark.parametrize("case", CASES.values(), ids=CASES.keys())
def test_what_breaks_a_law(case: Case) -> None:
    session = case.play()
    assert (len(case.sequence), list(case.laws)) == (len(session.records), laws(session.broken))
    assert case.difference == session.broken[0].difference


@pytest.mark.parametrize("case", CASES.values(), ids=CASES.keys())
def test_the_same_calls_done_right(case: Case) -> None:
    assert [] == laws(case.play(lying=False).broken)


@frozen
class TierCase:
    """Steps that are right, and a last one in which manager or tiers go wrong; or what is shown after it is."""

    laws: tuple[str, ...]
    difference: Difference
    steps: tuple[Told, ...]
    wrong: Told
    right: tuple[Told, ...] = ()
    """What is right instead; nothing if it is what is shown that is wrong."""
    shown: Mapping[str, Any] = MappingProxyType({})
    options: Mapping[str, Any] = MappingProxyType({})

    def play(self, *last: Told, lying: bool = True) -> Sequence[Broken]:
        options = {"capacity": 2, **self.options, "shown": self.shown if lying else {}}
        return told(*self.steps, *last, **options)[1]


STORING = (*BEGUN, (offer("r1", 1), Stored((1,), (0,), ())))
CASCADING = (*STORING, (stored("r1", 1), None, cascade(0, {1: 0})))
PROMOTING = (*BEGUN, fill(0, 5), (lookup("r1", 5), HIT_PENDING, room(5, 0)))
FULL = (*settled(1, 2), fill(0, 5))
TIER_CASES = {
    "nobody loads what room was made for": TierCase(
        ("pin-has-job",),
        Difference("a job of tier 0 loads 5 by the end of the step", "its slot is reserved and no job loads it", (5,)),
        PROMOTING,
        END,
        right=((END, None, promotion(0, {5: 0})),),
    ),
    "a cascade fails and its pin stays": TierCase(
        ("pin-has-job", "tier-drains"),
        Difference("ref_cnt of 1, by the jobs and loads that there are: 0", "1", (1,)),
        (*CASCADING, done(0)),
        (END, None, badly(0)),
        shown={"ref_cnt": {1: 1}, "evictable": (), "num_evictable": 0},
    ),
    "a promotion fails and its key stays": TierCase(
        ("pin-has-job",),
        Difference("ref_cnt of 5, by the jobs and loads that there are: absent", "0", (5,)),
        (*PROMOTING, (END, None, promotion(0, {5: 0})), done(0)),
        (END, None, badly(0)),
        shown={
            "ref_cnt": {5: 0},
            "slots": {5: 0},
            "evictable": (5,),
            "num_evictable": 1,
            "num_free": 1,
            "num_resident": 1,
        },
    ),
    "room is made in another slot than is said": TierCase(
        ("pin-has-job",),
        Difference("5 in slot 0, as its job has it", "5 is in slot 1", (5,)),
        PROMOTING[:-1],
        PROMOTING[-1],
        shown={"slots": {5: 1}},
    ),
    "what a lookup called HIT makes room": TierCase(
        ("hit-loads",),
        Difference("[1, 2] stay, HIT in this step, until r1 has loaded them", "[1] are gone", (1,)),
        (*FULL, (lookup("r1", 1), HIT), (lookup("r1", 2), HIT), (lookup("r1", 5), HIT_PENDING, room(5, 0, 1))),
        (load("r1", 1, 2), Raised("KeyError")),
        right=((load("r1", 2), Loaded((1,))),),
    ),
    "a request gets a job after its end": TierCase(
        ("tier-drains",),
        Difference(
            "no further job of r1, of whose end tier 0 was told",
            "tier 0 gets job 0 of r1: store [1] from slots [0]",
            (1,),
        ),
        (*STORING, (finish("r1"), None, ToldFinished(0, "r1"))),
        (stored("r1", 1), None, cascade(0, {1: 0})),
        right=(stored("r1", 1),),
    ),
    "a result is never taken": TierCase(
        ("tier-drains",),
        Difference("job 0, which has ended, gives back [1]", "its result is not taken for 2 steps", (1,)),
        (*CASCADING, done(0, 1), END),
        END,
        right=((END, None, well(0, 1)),),
    ),
    "a request goes round in circles": TierCase(
        ("tier-progress",),
        Difference(
            "r2 is served with [1, 2, 3]: all of them exist and fit",
            "after 2 more steps everything is as before, and r2 still waits",
            (1, 2, 3),
        ),
        CIRCLE[:-1],
        CIRCLE[-1],
        right=(touch("r1", 9), CIRCLE[-1]),
        options={"profile": "arc", "capacity": 3},
    ),
    "a transfer outlives a reset": TierCase(
        ("slot-contents",),
        Difference("no transfer goes on after a reset", "job 0 reads 1 in slot 0", (1,)),
        CASCADING,
        RESET,
        right=((RESET, None, drained((0, (1,))), well(0, 1)),),
    ),
    "a promotion makes room at the wrong end": TierCase(
        ("evict-order",),
        Difference("evicts [1]", "evicts [2] for the promotion of 5", (2,)),
        FULL,
        (lookup("r1", 5), HIT_PENDING, room(5, 1, 2)),
        right=((lookup("r1", 5), HIT_PENDING, room(5, 0, 1)),),
    ),
    "a promotion makes room where there is some": TierCase(
        ("evict-order",),
        Difference("evicts none: there is a free slot", "evicts [1] for the promotion of 5", (1,)),
        FULL,
        (lookup("r1", 5), HIT_PENDING, room(5, 2, 1)),
        right=((lookup("r1", 5), HIT_PENDING, room(5, 2)),),
        options={"capacity": 3},
    ),
    "a block goes although no room is made": TierCase(
        ("legal-step",),
        Difference("ref_cnt of 2: 0", "0 became absent", (2,)),
        FULL,
        (lookup("r1", 1), HIT),
        shown={
            "ref_cnt": {1: 0},
            "slots": {1: 0},
            "evictable": (1,),
            "num_evictable": 1,
            "num_free": 1,
            "num_resident": 1,
        },
    ),
    "a store is not cascaded": TierCase(
        ("answer",),
        Difference("tier 0 gets a job to store [1]", "it gets none", (1,)),
        STORING,
        stored("r1", 1),
        right=((stored("r1", 1), None, cascade(0, {1: 0})),),
    ),
}


@pytest.mark.parametrize("case", TIER_CASES.values(), ids=TIER_CASES.keys())
def test_what_breaks_a_law_with_tiers(case: TierCase) -> None:
    broken = case.play(case.wrong)
    assert list(case.laws) == laws(broken)
    assert case.difference == broken[0].difference


@pytest.mark.parametrize("case", TIER_CASES.values(), ids=TIER_CASES.keys())
def test_the_same_steps_done_right(case: TierCase) -> None:
    assert [] == laws(case.play(*case.right or (case.wrong,), lying=False))


def in_flight(**changes: Any) -> Step:
    """A step as it should be: r1 ends its load of 1, another of 2 is in flight."""
    before = Snapshot({1: 1, 2: 1}, {1: 0, 2: 1}, (), num_free=0, full=True)
    after = Snapshot({1: 0, 2: 1}, {1: 0, 2: 1}, (1,), num_free=0, full=True)
    step = Step(
        call=loaded("r1", 1),
        misplaced=(),
        may_refuse=False,
        outcome=None,
        expected=None,
        before=before,
        after=after,
        seen=after,
        order_before=None,
        events_before=None,
        order_after=None,
        plan=None,
        at_rest_before=False,
        at_rest_after=False,
        order_is_exact=True,
        capacity=2,
    )
    return evolve(step, **changes)


def broken_by(step: Step) -> dict[str, Difference]:
    return {law.id: difference for law in LAWS if (difference := law.check(step)) is not None}


def test_a_step_as_it_should_be() -> None:
    assert {} == broken_by(in_flight())


# Some laws follow from others as long as the run has gone well, and break alone only when it has not.
@pytest.mark.parametrize(
    ("changes", "law", "difference"),
    [
        (
            {
                "before": Snapshot({1: 1, 2: -2}, None, None, full=True),
                "seen": Snapshot({1: 0, 2: -2}, None, None, full=True),
            },
            "ref-floor",
            Difference("no ref_cnt below -1", "ref_cnt {2: -2}", (2,)),
        ),
        ({"capacity": 1, "seen": Snapshot({1: 0, 2: 1}, None, None, full=True)}, "capacity", None),
        (
            {
                "capacity": 4,
                "before": Snapshot({1: 1}, None, None),
                "after": Snapshot({1: 0}, None, None, num_evictable=1, num_pending=0),
                "seen": Snapshot({1: 0}, None, None, num_resident=5),
            },
            "capacity",
            Difference("at most 4 resident blocks", "5 resident blocks"),
        ),
        (
            {"at_rest_after": True},
            "drains",
            Difference("no transfer is in flight: every block idle", "[2] in use for ever", (2,)),
        ),
        (
            {
                "call": offer("r1", 3),
                "at_rest_before": True,
                "plan": StorePlan(new=(3,), need=1, available=0, victims=None),
                "after": in_flight().before,
                "seen": in_flight().before,
            },
            "progress",
            Difference("no transfer is in flight: 1 new keys fit in 2 slots", "None"),
        ),
    ],
)
def test_a_law_that_breaks_alone_only_in_theory(
    changes: dict[str, Any], law: str, difference: Difference | None
) -> None:
    broken = broken_by(in_flight(**changes))
    assert [law] == list(broken)
    assert difference in (None, broken[law])


@pytest.mark.parametrize(
    ("seen", "observed"),
    [
        (Snapshot({1: 0, 2: 0}, None, {1}), "evictable: [1]"),
        (Snapshot({1: 0, 2: 0}, None, {1, 2}, num_free=0, num_resident=2), "1 slots neither taken nor free"),
    ],
)
def test_what_is_missing_when_nothing_is_in_flight(seen: Snapshot, observed: str) -> None:
    step = in_flight(capacity=3, at_rest_after=True, seen=seen)
    assert observed == LAW_BY_ID["drains"].check(step).observed  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("keys", "changes"),
    [
        ((3, 3), {"misplaced": (1,), "outcome": Raised("E")}),
        ((3,), {"may_refuse": True, "outcome": Raised("E")}),
        ((3, 1), {}),  # one of them is there already
        ((3, 4, 5), {"plan": StorePlan(new=(3, 4, 5), need=3, available=2, victims=None)}),
        ((3,), {"at_rest_before": False}),
        ((3,), {"plan": None}),
    ],
)
def test_when_progress_is_not_owed(keys: tuple[Key, ...], changes: dict[str, Any]) -> None:
    plan = StorePlan(new=(3,), need=1, available=0, victims=None)
    step = in_flight(call=offer("r1", *keys), at_rest_before=True, plan=plan)
    assert None is LAW_BY_ID["progress"].check(evolve(step, **changes))


def test_every_law_has_a_case() -> None:
    alone = {"ref-floor", "capacity", "drains", "progress"}
    cases = (*CASES.values(), *TIER_CASES.values())
    assert {law.id for law in LAWS} == alone | {law for case in cases for law in case.laws}


def test_laws_of_tiers_have_cases_with_tiers() -> None:
    broken = {law for case in TIER_CASES.values() for law in case.laws}
    assert {law.id for law in LAWS if law.needs_tiers} == broken - {"answer", "evict-order", "legal-step"}


def test_a_law_that_needs_the_inside_says_nothing_without_it() -> None:
    step = in_flight(seen=None, at_rest_after=True)
    assert {} == {law.id: law.check(step) for law in LAWS if law.needs_inside and law.check(step)}


def test_these_laws_can_be_judged_by_answers_alone() -> None:
    by_answers = {"pinned-stays", "offer-protected", "evict-order", "no-false-refusal", "answer", "progress"}
    by_answers |= {"events-replay", "events-once"}
    by_what_is_said = {"pin-has-job", "hit-loads", "tier-drains", "tier-progress", "slot-contents"}
    assert by_answers | by_what_is_said == {law.id for law in LAWS if not law.needs_inside}


def test_the_ids_are_stable() -> None:
    assert [
        "evictable-iff-idle",
        "counters-agree",
        "slots-conserved",
        "ref-floor",
        "capacity",
        "legal-step",
        "pinned-stays",
        "offer-protected",
        "evict-order",
        "no-false-refusal",
        "all-or-nothing",
        "answer",
        "owner-completes",
        "events-replay",
        "events-once",
        "drains",
        "progress",
        "pin-has-job",
        "hit-loads",
        "tier-drains",
        "tier-progress",
        "slot-contents",
    ] == list(LAW_BY_ID)


@pytest.mark.parametrize(
    ("said", "broken"),
    [
        ({}, []),
        ({"usage": None, "write_usage": None, "read_usage": None}, []),
        ({"usage": 0.5 + 1e-12}, []),
        ({"usage": 0.4}, ["counters-agree"]),
        ({"read_usage": 0.5}, ["counters-agree"]),
        ({"write_usage": float("nan")}, ["counters-agree"]),
    ],
    ids=str,
)
def test_gauges_follow_from_the_state_where_they_are_kept(said: dict[str, Any], broken: list[str]) -> None:
    case = Case(
        (),
        Difference("", ""),
        (*holding(1), offer("r1", 2), load("r1", 1), STATS),
        answer=lambda right: evolve(right, **said),
        capacity=4,
    )
    assert broken == laws(case.play().broken)


def test_a_stored_key_that_is_no_number_can_be_told() -> None:
    step = in_flight(seen=Snapshot({1: 0, "ff": 0, 2: 1}, None, (), full=True))
    assert Difference("evictable: (1, 'ff')", "evictable: []", (1, "ff")) == broken_by(step)["evictable-iff-idle"]


def test_a_completed_store_may_be_evicted_later() -> None:
    assert [] == laws(judged(Puppet, (*holding(1), stored("r1"), offer("r1", 2, 3, 4))).broken)
