"""The model of tiers: which turns of manager and tiers are right, which are not, and what of both is left after them.

Told step by step what was called and said, see `tiered`. Each law with its words is in `test_laws`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pytest
from attrs import evolve
from seeded import DRAIN, RESET, announce, failed, finish, load, loaded, lookup, offer, stored, touch
from tiered import (
    BEGUN,
    CIRCLE,
    END,
    Told,
    badly,
    broken_by,
    cascade,
    delay,
    done,
    drained,
    fill,
    follow,
    no_room,
    peer,
    promotion,
    room,
    settled,
    told,
    well,
)

from evictable.model import calls
from evictable.model.calls import HIT, HIT_PENDING, MISS, RETRY, Call, Drained, Event, Key, Loaded, Raised, Stored
from evictable.model.exchanges import Asked, Exchange, PeerAsked, PeerClaims, PeerFinished, Reserved, ToldFinished
from evictable.model.profiles import PROFILES
from evictable.model.tiers import TieredManager

STORING = (*BEGUN, (offer("r1", 1, 2), Stored((1, 2), (0, 1), ())))
CASCADING = (*STORING, (stored("r1", 1, 2), None, cascade(0, {1: 0, 2: 1})))
STAGED = (*BEGUN, fill(0, 5, 6), (lookup("r1", 5), HIT_PENDING, room(5, 0)), (lookup("r1", 6), HIT_PENDING, room(6, 1)))
PROMOTING = (*STAGED, (END, None, promotion(0, {5: 0, 6: 1})))


def told_of_end(request: str, tier: int = 0) -> ToldFinished:
    return ToldFinished(tier, request)


# --- the cascade ----------------------------------------------------------------------------------


def test_a_cascade_pins_what_it_reads_until_its_result_is_taken() -> None:
    steps = (*CASCADING, done(0, 1, 2), (END, None, well(0, 1, 2)))
    assert [{1: 1, 2: 1}, {1: 1, 2: 1}, {1: 0, 2: 0}] == [follow(*steps[:count]).ref_cnt for count in (4, 5, 6)]


def test_every_tier_has_a_pin_of_its_own() -> None:
    both = (stored("r1", 1, 2), None, cascade(0, {1: 0, 2: 1}), cascade(1, {2: 1, 1: 0}, tier=1))
    steps = (*STORING, both, done(1, 1, 2), (END, None, well(1, 1, 2, tier=1)))
    assert [{1: 2, 2: 2}, {1: 1, 2: 1}] == [follow(*steps[:count], tiers=2).ref_cnt for count in (4, 6)]


@pytest.mark.parametrize(("moved", "kept"), [((1, 2), {1, 2}), ((2,), set()), ((), set())])
def test_a_tier_keeps_what_was_stored_whole(moved: tuple[Key, ...], kept: set[Key]) -> None:
    report = well(0, 1, 2) if kept else badly(0, *moved)
    model = follow(*CASCADING, done(0, *moved), (END, None, report))
    assert ([kept], {1: 0, 2: 0}) == (model.contents, model.ref_cnt)


def test_a_store_that_fails_is_not_cascaded() -> None:
    assert {} == follow(*STORING, failed("r1", 1, 2)).ref_cnt


def test_a_completion_of_nothing_is_not_cascaded() -> None:
    assert {} == follow(*STORING, stored("r1")).jobs


@pytest.mark.parametrize(
    ("said", "observed"),
    [
        ((), "it gets none"),
        ((promotion(0, {1: 0, 2: 1}),), "it gets none"),
        ((cascade(0, {1: 0, 2: 1}),), "it gets none"),
        ((cascade(0, {1: 0}), cascade(1, {2: 1}, tier=1)), "tier 0 gets job 0 of r1: store [1] from slots [0]"),
    ],
    ids=["no job", "a promotion", "of one tier alone", "of other keys"],
)
def test_what_is_stored_goes_to_every_tier(said: tuple[Exchange, ...], observed: str) -> None:
    assert observed == broken_by(*STORING, (stored("r1", 1, 2), None, *said), tiers=2)["answer"]


@pytest.mark.parametrize("tier", [0, 1])
def test_a_tier_that_raises_has_failed_its_job_at_once(tier: int) -> None:
    jobs = [cascade(number, {1: 0, 2: 1}, tier=number, raised=number == tier) for number in (0, 1)]
    model = follow(*STORING, (stored("r1", 1, 2), None, *jobs), tiers=2)
    assert ({1: 1, 2: 1}, {1 - tier}) == (model.ref_cnt, set(model.jobs))


def test_a_tier_that_raises_must_not_leave_a_pin() -> None:
    call = (stored("r1", 1, 2), None, cascade(0, {1: 0, 2: 1}, raised=True))
    shown = {"ref_cnt": {1: 1, 2: 0}, "evictable": (2,), "num_evictable": 1}
    broken = broken_by(*STORING, call, shown=shown)
    assert {"drains": "[1] in use for ever", "pin-has-job": "1", "tier-drains": "(1,) in use"} == broken


JOBS = {
    "a slot of another key": (cascade(9, {1: 1}), "1 from slot 1"),
    "what is absent": (cascade(9, {7: 2}), "7 from slot 2"),
    "what is being stored": (cascade(9, {3: 2}), "3 from slot 2"),
}


@pytest.mark.parametrize(("job", "observed"), JOBS.values(), ids=JOBS.keys())
def test_a_job_reads_ready_blocks_in_their_slots(job: Exchange, observed: str) -> None:
    steps = (*settled(1, 2), (offer("r1", 3), Stored((3,), (2,), ())), (END, None, job))
    assert {"pin-has-job": observed} == broken_by(*steps)


def test_a_job_has_a_slot_for_each_key() -> None:
    job = evolve(cascade(9, {1: 0, 2: 1}), block_ids=(0,))
    assert (
        "tier 0 gets job 9 of r1: store [1, 2] from slots [0]" == broken_by(*settled(1, 2), (END, None, job))["answer"]
    )


def test_what_a_cascade_reads_is_not_evicted() -> None:
    offered = (offer("r2", 7, 8), None)
    assert {} == broken_by(*CASCADING, offered, capacity=3)
    assert "no-false-refusal" in broken_by(*CASCADING, done(0), (END, None, badly(0)), offered, capacity=3)


def test_a_job_that_a_caller_completes_goes_on() -> None:
    model = follow(*CASCADING, (loaded("r1", 1), Raised("KeyError")))
    assert {1: 1, 2: 1} == model.ref_cnt


# --- promotions -----------------------------------------------------------------------------------


def test_a_promotion_is_staged_submitted_and_there() -> None:
    steps = (*STAGED, (END, None, promotion(0, {5: 0, 6: 1})), done(0, 5, 6), (lookup("r1", 5), HIT, well(0, 5, 6)))
    models = [follow(*steps[:count]) for count in (5, 6, 7, 8)]
    assert [{5: -1, 6: -1}] * 3 + [{5: 0, 6: 0}] == [model.ref_cnt for model in models]
    assert [{5, 6}, set(), set(), set()] == [set(model.staged) for model in models]
    assert [set(), {0}, {0}, set()] == [set(model.jobs) for model in models]
    assert [{}, {}, {0: 5, 1: 6}, {0: 5, 1: 6}] == [model.slot_contents.contents for model in models]


@pytest.mark.parametrize(
    ("arrived", "report", "left"),
    [
        ((5, 6), well(0, 5, 6), {5: 0, 6: 0}),
        ((6,), badly(0, 6), {6: 0}),
        ((6,), badly(0), {}),
        ((), badly(0), {}),
    ],
    ids=["whole", "in part", "in part, unsaid", "failed"],
)
def test_of_a_promotion_what_arrived_stays(arrived: tuple[Key, ...], report: Exchange, left: dict[Key, int]) -> None:
    model = follow(*PROMOTING, done(0, *arrived), (END, None, report))
    assert (left, {}, [{5, 6}]) == (model.ref_cnt, model.jobs, model.contents)


def test_what_is_said_to_have_arrived_and_has_not_must_not_be_loaded() -> None:
    steps = (*PROMOTING, done(0, 5), (lookup("r1", 6), HIT, well(0, 5, 6)), (load("r1", 6), Loaded((1,))))
    assert {"slot-contents": "slot 1 holds nothing that was written"} == broken_by(*steps)


def test_a_promotion_that_its_tier_refuses_is_given_up() -> None:
    model = follow(*STAGED, (END, None, promotion(0, {5: 0, 6: 1}, raised=True)))
    assert ({}, {}, {}) == (model.ref_cnt, model.jobs, model.staged)


PROMOTIONS = {
    "nobody made room for it": (promotion(0, {7: 2}), "7 into slot 2"),
    "room was made elsewhere": (promotion(0, {5: 1}), "5 into slot 1"),
    "room was made for another tier": (promotion(0, {5: 0}, tier=1), "5 into slot 0"),
}


@pytest.mark.parametrize(("job", "observed"), PROMOTIONS.values(), ids=PROMOTIONS.keys())
def test_a_promotion_writes_where_room_was_made_for_it(job: Exchange, observed: str) -> None:
    assert observed == broken_by(*STAGED, (END, None, job), tiers=2)["pin-has-job"]


def test_promotions_may_be_gathered_into_any_number_of_jobs() -> None:
    model = follow(*STAGED, (END, None, promotion(0, {6: 1}), promotion(1, {5: 0})))
    assert {0: (6,), 1: (5,)} == {number: job.keys for number, job in model.jobs.items()}


def test_a_promotion_takes_the_slot_that_it_says() -> None:
    fine = (lookup("r1", 5), HIT_PENDING, room(5, 2))
    assert {5: 2} == follow(*BEGUN, fill(0, 5), fine).slots
    taken = (lookup("r1", 6), HIT_PENDING, room(6, 2))
    assert {"answer": "slots [2]"} == broken_by(*BEGUN, fill(0, 5, 6), fine, taken, blind=True)


def test_a_promotion_of_which_nothing_is_said_is_judged_by_what_is_shown() -> None:
    silent = (lookup("r1", 5), HIT_PENDING)
    assert {} == broken_by(*BEGUN, fill(0, 5), silent)
    shown = {"ref_cnt": {}, "slots": {}, "num_resident": 0, "num_free": 3, "num_pending": 0}
    assert {"pin-has-job": "absent"} == broken_by(*BEGUN, fill(0, 5), silent, shown=shown)


def test_a_tier_that_is_not_asked_first_may_have_it() -> None:
    steps = (*BEGUN, fill(1, 5), (lookup("r1", 5), HIT_PENDING, Asked(0, 5, MISS), Asked(1, 5, HIT), room(5, 0)))
    model = follow(*steps, (END, None, promotion(0, {5: 0}, tier=1)), tiers=2)
    assert 1 == model.jobs[0].tier


FULL = (*settled(1, 2), fill(0, 5, 6))
PINNED = (*FULL, (lookup("r1", 1), HIT), (lookup("r1", 2), HIT), (load("r1", 1, 2), Loaded((0, 1))))


@pytest.mark.parametrize(
    ("steps", "answer", "said", "right"),
    [
        (PINNED, MISS, (no_room(5),), None),
        (PINNED, MISS, (), None),
        (PINNED, HIT_PENDING, (no_room(5),), "answer"),
        (PINNED, RETRY, (no_room(5),), "answer"),
        (PINNED, HIT_PENDING, (), "answer"),
        (FULL, MISS, (no_room(5),), "answer"),
        (FULL, MISS, (), "answer"),
        (FULL, HIT, (), "answer"),
    ],
)
def test_a_promotion_is_begun_if_there_is_room(
    steps: tuple[Told, ...], answer: str, said: tuple[Exchange, ...], right: str | None
) -> None:
    broken = broken_by(*steps, (lookup("r2", 5), answer, *said), capacity=2, blind=True)
    assert ([] if right is None else [right]) == list(broken)


def test_while_a_tier_has_no_answer_the_request_asks_again() -> None:
    steps = (*BEGUN, delay(0, 5), (lookup("r1", 5), RETRY, Asked(0, 5, RETRY)), END, (lookup("r1", 5), MISS))
    assert {} == follow(*steps).ref_cnt
    assert {"answer": MISS} == broken_by(*steps[:3], (lookup("r1", 5), MISS))


def test_a_tier_that_has_it_is_not_held_up_by_one_that_has_no_answer() -> None:
    steps = (*BEGUN, delay(0, 5), fill(1, 5))
    assert {5: -1} == follow(*steps, (lookup("r1", 5), HIT_PENDING, room(5, 0)), tiers=2).ref_cnt
    assert {"answer": RETRY} == broken_by(*steps, (lookup("r1", 5), RETRY, no_room(5)), tiers=2)


def test_a_promotion_that_has_begun_may_be_called_retry() -> None:
    assert {5: -1} == follow(*BEGUN, fill(0, 5), (lookup("r1", 5), RETRY, room(5, 0))).ref_cnt


# --- who makes room -------------------------------------------------------------------------------

THREE = (*settled(1, 2, 3), fill(0, 5))


@pytest.mark.parametrize(
    ("hits", "fitting"),
    [
        ((), {1}),
        ((2,), {1}),
        ((1,), {1, 2}),
        ((1, 3), {1, 2}),
        ((1, 2), {1, 2, 3}),
        ((1, 2, 3), {1, 2, 3}),
    ],
)
def test_the_first_goes_but_what_this_step_called_hit_may_be_spared(hits: tuple[Key, ...], fitting: set[Key]) -> None:
    asked = [(lookup("r1", key), HIT) for key in hits]
    right = {
        victim: broken_by(*THREE, *asked, (lookup("r1", 5), HIT_PENDING, room(5, victim - 1, victim)), blind=True)
        for victim in (1, 2, 3)
    }
    assert fitting == {victim for victim, broken in right.items() if not broken}
    assert [{"evict-order"}] * (3 - len(fitting)) == [set(broken) for broken in right.values() if broken]


@pytest.mark.parametrize(("hits", "refused"), [((1, 2), False), ((1, 2, 3), True)])
def test_there_may_be_no_room_if_all_was_called_hit(hits: tuple[Key, ...], refused: bool) -> None:
    asked = [(lookup("r1", key), HIT) for key in hits]
    assert refused == (not broken_by(*THREE, *asked, (lookup("r1", 5), MISS, no_room(5))))


@pytest.mark.parametrize(
    "between", [(END,), ((load("r1", 1), Loaded((0,))), loaded("r1", 1), END)], ids=["step", "load"]
)
def test_what_an_earlier_step_called_hit_is_spared_no_more(between: tuple[Told, ...]) -> None:
    steps = (*THREE, (lookup("r1", 1), HIT), *between)
    order = follow(*steps).order.state()
    said = room(5, order[1] - 1, order[1])
    assert ["evict-order"] == list(broken_by(*steps, (lookup("r1", 5), HIT_PENDING, said), blind=True))


def test_an_offer_spares_nothing() -> None:
    steps = (*THREE, (lookup("r1", 1), HIT))
    assert {} == broken_by(*steps, (offer("r2", 7), Stored((7,), (0,), (1,))))
    assert ["evict-order"] == list(broken_by(*steps, (offer("r2", 7), Stored((7,), (1,), (2,))), blind=True))


def test_an_order_that_is_not_known_may_evict_any_idle_block() -> None:
    for victim in (1, 2, 3):
        made = (lookup("r1", 5), HIT_PENDING, room(5, victim - 1, victim))
        assert {} == broken_by(*THREE, made, profile="any")


@pytest.mark.parametrize(
    "victims", [(), (2,), (3, 1), (9,)], ids=["nobody", "somebody in use", "too many", "what is not there"]
)
def test_whoever_else_makes_room_is_wrong(victims: tuple[Key, ...]) -> None:
    used = (
        *THREE,
        (lookup("r2", 2), HIT),
        (load("r2", 2), Loaded((1,))),
        (lookup("r1", 1), HIT),
        (lookup("r1", 3), HIT),
    )
    broken = told(*used, (lookup("r1", 5), HIT_PENDING, room(5, 0, *victims)), blind=True)[1]
    assert [("evict-order", "evicts [1] or evicts [3]")] == [(one.law.id, one.difference.expected) for one in broken]


def test_an_order_that_gives_up_makes_no_refusal_right() -> None:
    """Up to 0.29, ARC overlooks what is in T1 when that is below its target and nothing in T2 is idle."""
    steps = (
        *(*settled(1, 2), touch("r1", 2), (offer("r1", 3), Stored((3,), (0,), (1,)))),
        *((stored("r1", 3), None, cascade(1, {3: 0})), done(1, 3), (END, None, well(1, 3))),
        *(touch("r1", 1), touch("r1", 1), (lookup("r1", 2), HIT), (load("r1", 2), Loaded((1,)))),
    )
    options: dict[str, Any] = {"capacity": 2, "profile": "arc-no-fallback", "blind": True}
    assert {"answer": MISS} == broken_by(*steps, (lookup("r2", 1), MISS, no_room(1)), **options)
    assert {"answer": HIT_PENDING} == broken_by(*steps, (lookup("r2", 1), HIT_PENDING, room(1, 0, 3)), **options)


@pytest.mark.parametrize("profile", PROFILES)
def test_promotions_are_part_of_every_order(profile: str) -> None:
    there = Call(calls.LOOKUP, (5,), "r1", positions=(3,))
    steps = (*BEGUN, fill(0, 5), (there, HIT_PENDING, room(5, 0)), (END, None, promotion(0, {5: 0})), done(0, 5))
    model = follow(*steps, (END, None, well(0, 5)), announce("r3"), finish("r3"), profile=profile)
    assert [5] == list(model.order.idle_keys())


# --- what was called HIT can be loaded ------------------------------------------------------------

EVICTED = (*FULL, (lookup("r1", 1), HIT), (lookup("r2", 5), HIT_PENDING, room(5, 0, 1)))


def test_what_was_called_hit_and_has_gone_cannot_be_loaded() -> None:
    assert ["hit-loads"] == list(broken_by(*EVICTED, (load("r1", 1), Raised("KeyError")), capacity=2))


@pytest.mark.parametrize(
    "between",
    [
        ((offer("r1", 7), Stored((7,), (1,), (2,))),),
        ((offer("r1", 7), Stored((7,), (1,), (2,))), failed("r1", 7)),
        ((END, None, promotion(1, {5: 0}, "r2")),),
        ((RESET),),
    ],
    ids=["an offer", "a failed store", "the step's end", "a reset"],
)
def test_a_hit_holds_until_something_else_may_take_it_away(between: tuple[Told, ...]) -> None:
    assert {} == broken_by(*EVICTED, *between, (load("r1", 1), Raised("KeyError")), capacity=2)


def test_a_promotion_that_fails_was_no_hit() -> None:
    steps = (*PROMOTING, done(0), (lookup("r1", 5), HIT_PENDING, badly(0), room(5, 0)))
    assert {} == broken_by(*steps, (load("r1", 5), Raised("NotReady")))


def test_loading_puts_it_to_the_test() -> None:
    judge, broken = told(*FULL, (lookup("r1", 1), HIT), (load("r1", 1), Loaded((0,))))
    assert ((), True) == (broken, "hit-loads" in judge.exercised)


# --- requests that have finished ------------------------------------------------------------------

FINISHED = (finish("r1"), None, told_of_end("r1"))


def test_who_was_told_of_the_end_gets_nothing_further() -> None:
    assert {1: 0, 2: 0} == follow(*STORING, FINISHED, stored("r1", 1, 2)).ref_cnt


def test_who_was_not_told_does() -> None:
    model = follow(*STORING, FINISHED, (stored("r1", 1, 2), None, cascade(0, {1: 0, 2: 1}, tier=1)), tiers=2)
    assert {1: 1, 2: 1} == model.ref_cnt


def test_the_end_may_be_told_when_the_last_job_is_submitted() -> None:
    steps = (*STORING, finish("r1"), (stored("r1", 1, 2), None, cascade(0, {1: 0, 2: 1}), told_of_end("r1")))
    assert {(0, "r1")} == follow(*steps).told


def test_a_promotion_after_the_end_was_told_is_a_job_too_many() -> None:
    steps = (*STAGED, FINISHED, (END, None, promotion(0, {5: 0, 6: 1})))
    assert ["tier-drains"] == list(broken_by(*steps))


def test_what_only_tiers_have_need_not_be_found_after_the_end() -> None:
    steps = (*BEGUN, fill(0, 5), FINISHED)
    assert {} == broken_by(*steps, (lookup("r1", 5), MISS))
    assert {} == broken_by(*steps, (lookup("r1", 5), HIT_PENDING, room(5, 0)))
    assert {"answer": MISS} == broken_by(*steps, (lookup("r2", 5), MISS))


def test_a_request_that_is_announced_anew_gets_jobs_again() -> None:
    steps = (*BEGUN, FINISHED, announce("r1"), *STORING[2:])
    assert {0} == set(follow(*steps, (stored("r1", 1, 2), None, cascade(0, {1: 0, 2: 1}))).jobs)
    assert {"answer": "it gets none"} == broken_by(*steps, stored("r1", 1, 2))


# --- results --------------------------------------------------------------------------------------


def test_results_that_a_call_takes_first_come_before_it() -> None:
    offered = (offer("r2", 7, 8), Stored((7, 8), (0, 1), (1, 2)), well(0, 1, 2))
    assert {7: -1, 8: -1} == follow(*CASCADING, done(0, 1, 2), offered, capacity=2).ref_cnt


def test_a_call_that_is_refused_may_have_taken_results() -> None:
    refused = (offer("r2", 7, 8, 9), None, well(0, 1, 2))
    assert {1: 0, 2: 0} == follow(*CASCADING, done(0, 1, 2), refused, capacity=2).ref_cnt


def test_a_call_that_raises_may_have_taken_results() -> None:
    raised = (load("r2", 7), Raised("KeyError"), well(0, 1, 2))
    assert {1: 0, 2: 0} == follow(*CASCADING, done(0, 1, 2), raised).ref_cnt


def test_results_may_be_taken_later_in_a_call_too() -> None:
    both = (END, None, promotion(1, {5: 2}, "r2"), well(0, 1, 2))
    steps = (*CASCADING, fill(0, 5), (lookup("r2", 5), HIT_PENDING, room(5, 2)), done(0, 1, 2), both)
    assert {1: 0, 2: 0, 5: -1} == follow(*steps).ref_cnt


@pytest.mark.parametrize("report", [well(7, 1), well(0, 1, 2)], ids=["unknown", "again"])
def test_a_result_that_no_job_waits_for_changes_nothing(report: Exchange) -> None:
    settled_ = settled(1, 2)
    assert follow(*settled_).ref_cnt == follow(*settled_, (END, None, report)).ref_cnt


@pytest.mark.parametrize(
    "call", [done(7, 1), done(0, 1, 2), done(0)], ids=["unknown", "reported", "reported otherwise"]
)
def test_the_end_of_what_is_not_under_way_changes_nothing(call: Call) -> None:
    model = follow(*settled(1, 2), call)
    assert ({}, {}, [{1, 2}]) == (model.jobs, model.results, model.contents)


def test_what_happens_in_a_tier_that_does_not_exist_changes_nothing() -> None:
    model = follow(*BEGUN, fill(7, 1), delay(-1, 1))
    assert ([set()], [set()]) == (model.contents, model.delayed)


def test_a_job_ends_once() -> None:
    assert [set()] == follow(*CASCADING, done(0), done(0, 1, 2)).contents


def test_a_result_may_wait_until_the_next_step_and_no_longer() -> None:
    steps = (*CASCADING, done(0, 1, 2), END)
    assert {1: 0, 2: 0} == follow(*steps, (END, None, well(0, 1, 2))).ref_cnt
    assert {"tier-drains": "its result is not taken for 2 steps"} == broken_by(*steps, END)
    assert {} == broken_by(*CASCADING, END, END, done(0, 1, 2), END)


@pytest.mark.parametrize("capacity", [3, 40])
def test_what_jobs_do_is_judged_in_large_caches_too(capacity: int) -> None:
    steps = (*CASCADING, done(0, 1, 2))
    shown: Mapping[str, Any] = {"ref_cnt": {1: 1, 2: 0}}
    assert {} == broken_by(*steps, (DRAIN, Drained((Event(False, (1, 2)),))), capacity=capacity)
    assert {"pin-has-job"} <= broken_by(*steps, (END, None, well(0, 1, 2)), capacity=capacity, shown=shown).keys()


# --- tiers that want whole requests ---------------------------------------------------------------

WANTED = {"tiers": 2, "request_level": (1,)}
THERE = settled(1, 2, tiers=2)


@pytest.mark.parametrize(
    ("said", "broken"),
    [
        ((cascade(9, {1: 0, 2: 1}, "r2", tier=1),), {}),
        ((), {"answer": "it gets none"}),
        (
            (cascade(9, {1: 0}, "r2", tier=1),),
            {"answer": "tier 1 gets job 9 of r2: store [1] from slots [0]"},
        ),
        ((cascade(9, {1: 0, 2: 1}, "r2", tier=0),), {"answer": "it gets none"}),
    ],
    ids=["whole", "nothing", "in part", "to another tier"],
)
def test_what_is_there_already_goes_to_a_tier_that_wants_it(said: tuple[Exchange, ...], broken: dict[str, str]) -> None:
    step = (offer("r2", 2, 1), Stored((), (), ()), *said)
    assert broken == broken_by(*THERE, step, **WANTED)


@pytest.mark.parametrize(
    "step",
    [(offer("r2", 1, 7, 8, 9), None), (offer("r2", 7), Stored((7,), (2,), ())), (offer("r9", 1), Stored((), (), ()))],
    ids=["refused", "new", "by nobody"],
)
def test_an_offer_that_brings_nothing_to_the_tiers(step: Told) -> None:
    assert {} == broken_by(*THERE, step, **WANTED)


def test_what_is_pending_follows_when_it_is_there() -> None:
    parked = (*STORING, (offer("r2", 1, 2), Stored((), (), ())))
    jobs = [cascade(0, {1: 0, 2: 1}), cascade(1, {1: 0, 2: 1}, tier=1), cascade(2, {1: 0, 2: 1}, "r2", tier=1)]
    assert {1: 3, 2: 3} == follow(*parked, (stored("r1", 1, 2), None, *jobs), **WANTED).ref_cnt


# --- peers ----------------------------------------------------------------------------------------


def asks(tier: int, key: Key, answer: str, request: str = "p") -> PeerAsked:
    return PeerAsked(tier, request, key, answer)


def claims(tier: int, *keys: Key, request: str = "p") -> PeerClaims:
    return PeerClaims(tier, request, keys)


def goes(tier: int, request: str = "p") -> PeerFinished:
    return PeerFinished(tier, request)


def test_a_peer_reads_what_it_was_told_is_there() -> None:
    said = (asks(0, 1, HIT), asks(0, 9, MISS), claims(0, 1), cascade(1, {1: 0}, "p"), goes(0))
    judge, broken = told(*settled(1, 2), peer(0, "p", 1, 9), (END, None, *said))
    assert ((), {1: 1, 2: 0}, True) == (broken, judge.model.ref_cnt, "hit-loads" in judge.exercised)


@pytest.mark.parametrize(("tier", "said"), [(0, (room(5, 0), asks(0, 5, HIT_PENDING))), (1, (asks(1, 5, MISS),))])
def test_what_a_tier_has_is_promoted_for_peers_of_others(tier: int, said: tuple[Exchange, ...]) -> None:
    job = (promotion(0, {5: 0}, "p", tier=1),) if tier == 0 else ()
    assert {} == broken_by(*BEGUN, fill(1, 5), (END, None, *said, goes(tier), *job), tiers=2)


@pytest.mark.parametrize(
    ("said", "broken"),
    [
        ((asks(0, 1, MISS),), {"answer": "a peer behind tier 0 asks for 1: MISS"}),
        ((asks(0, 5, HIT_PENDING),), {"answer": "a peer behind tier 0 asks for 5: HIT_PENDING"}),
        ((asks(1, 5, MISS),), {"answer": "a peer behind tier 1 asks for 5: MISS"}),
        ((asks(0, 6, MISS),), {"answer": "a peer behind tier 0 asks for 6: MISS"}),
    ],
    ids=["what is there", "what another tier has", "what its own tier has not", "what another tier may have"],
)
def test_a_peer_is_told_the_truth(said: tuple[Exchange, ...], broken: dict[str, str]) -> None:
    steps = (*settled(1, tiers=2), fill(0, 5), delay(1, 6))
    assert broken == broken_by(*steps, (END, None, *said), tiers=2)


def test_what_a_peer_claims_must_not_have_made_room() -> None:
    steps = (*settled(1, 2, tiers=2), fill(1, 5))
    said = [asks(0, 1, HIT), room(5, 0, 1), asks(0, 5, HIT_PENDING), claims(0, 1)]
    job = promotion(2, {5: 0}, "p", tier=1)
    assert {"hit-loads": "[1] are gone"} == broken_by(*steps, (END, None, *said, job), tiers=2, capacity=2)


def test_what_a_peer_claims_must_be_there_also_if_the_call_raises() -> None:
    steps = (*settled(1, 2, tiers=2), fill(1, 5))
    said = [asks(0, 1, HIT), room(5, 0, 1), asks(0, 5, HIT_PENDING), claims(0, 1)]
    broken = broken_by(*steps, (END, Raised("AssertionError"), *said), tiers=2, capacity=2)
    assert "[1] are gone" == broken["hit-loads"]
    assert "raises AssertionError" == broken.get("answer", "raises AssertionError")


def test_several_peers_one_after_the_other() -> None:
    one = (asks(0, 1, HIT), claims(0, 1), cascade(2, {1: 0}, "p"), goes(0))
    other = (asks(1, 2, HIT, "q"), claims(1, 2, request="q"), cascade(3, {2: 1}, "q", tier=1), goes(1, "q"))
    model = follow(*settled(1, 2, tiers=2), (END, None, *one, *other), tiers=2)
    assert ({1: 1, 2: 1}, {"p", "q"}, {2, 3}) == (model.ref_cnt, model.peers, set(model.jobs))


# --- resets ---------------------------------------------------------------------------------------


def test_a_reset_waits_for_the_tiers_which_keep_what_they_have() -> None:
    reset = (RESET, None, drained((0, (1, 2))), well(0, 1, 2))
    model = follow(*CASCADING, reset)
    assert ({}, {}, [{1, 2}]) == (model.ref_cnt, model.jobs, model.contents)


def test_jobs_may_fail_in_a_reset() -> None:
    model = follow(*CASCADING, (evolve(RESET, success=False), None, drained((0, ())), badly(0)))
    assert ({}, [set()]) == (model.jobs, model.contents)


def test_a_reset_forgets_what_was_staged_and_what_was_called_hit() -> None:
    steps = (*settled(1), fill(0, 5), (lookup("r1", 1), HIT), (lookup("r1", 5), HIT_PENDING, room(5, 1)), RESET)
    model = follow(*steps, END)
    assert ({}, set(), set(), {}) == (model.staged, model.hits, model.held, model.ref_cnt)


@pytest.mark.parametrize(
    ("running", "observed"),
    [(CASCADING, "job 0 reads 1 in slot 0"), (PROMOTING, "job 0 writes 5 in slot 0")],
    ids=["cascade", "promotion"],
)
def test_no_job_goes_on_after_a_reset(running: tuple[Told, ...], observed: str) -> None:
    assert {"slot-contents": observed} == broken_by(*running, RESET)


def test_a_job_that_has_ended_and_was_not_heard_of_does_not_outlive_a_reset() -> None:
    model = follow(*CASCADING, done(0, 1, 2), RESET)
    assert ({}, {}) == (model.jobs, model.results)


# --- what the slots hold --------------------------------------------------------------------------


def test_a_slot_is_not_used_again_before_its_transfer_has_ended() -> None:
    given_up = (*PROMOTING, (END, None, badly(0)))  # the job is said to have failed, and is still at work
    assert {} == broken_by(*given_up)
    broken = broken_by(*given_up, (offer("r1", 7), Stored((7,), (0,), ())))
    assert {"slot-contents": "job 0 writes 5 there too"} == broken


def test_a_cascade_that_goes_on_keeps_its_slot() -> None:
    given_up = (*CASCADING, (END, None, well(0, 1, 2)))
    broken = broken_by(*given_up, (offer("r1", 7), Stored((7,), (0,), (1,))), capacity=2)
    assert {"slot-contents": "job 0 reads 1 there too"} == broken


def test_what_a_reset_flushed_may_be_written_again() -> None:
    steps = (*STORING, RESET, (offer("r2", 7), Stored((7,), (0,), ())))
    assert {7: 0} == follow(*steps).slots


# --- requests that wait ---------------------------------------------------------------------------


def test_a_circle_in_the_reference_is_found() -> None:
    assert ["tier-progress"] == list(broken_by(*CIRCLE, profile="arc"))


BREAKS = {
    "an offer": ((offer("r2", 1), Stored((), (), ())),),
    "a touch": (touch("r1", 9),),
    "more in a tier": (fill(0, 8),),
    "a tier that took its time": (delay(0, 8),),
    "somebody else's lookup": ((lookup("r1", 9), HIT),),
    "a load": ((lookup("r1", 9), HIT), (load("r1", 9), Loaded((2,)))),
    "a load and its end": ((lookup("r1", 9), HIT), (load("r1", 9), Loaded((2,))), loaded("r1", 9)),
    "a new request": (announce("r3"),),
    "an end": (finish("r1"),),
}


@pytest.mark.parametrize("between", BREAKS.values(), ids=BREAKS.keys())
def test_what_happens_in_between_breaks_a_circle(between: Sequence[Told]) -> None:
    assert {} == broken_by(*CIRCLE[:-1], *between, CIRCLE[-1], profile="arc")


def test_a_store_that_is_under_way_breaks_a_circle() -> None:
    waiting = (lookup("r2", 5), HIT_PENDING)
    steps = (*BEGUN, (offer("r1", 5), Stored((5,), (0,), ())))
    assert {} == broken_by(*steps, waiting, END, waiting, END, waiting, END)


def test_a_slow_tier_is_no_circle() -> None:
    steps: list[Told] = [
        *BEGUN,
        fill(0, 5),
        (lookup("r1", 5), HIT_PENDING, room(5, 0)),
        (END, None, promotion(0, {5: 0})),
    ]
    assert {} == broken_by(*steps, *((lookup("r1", 5), HIT_PENDING), END) * 3)
    slow = (delay(0, 6), (lookup("r1", 6), RETRY), END)
    assert {} == broken_by(*BEGUN, *slow * 3)


def test_a_tier_that_refuses_is_no_circle() -> None:
    steps: list[Told] = [*BEGUN, fill(0, 5)]
    for job in range(3):
        steps.append((lookup("r1", 5), HIT_PENDING, room(5, 0)))
        steps.append((END, None, promotion(job, {5: 0}, raised=True)))
    assert {} == broken_by(*steps)


def test_a_request_that_has_finished_waits_for_nothing() -> None:
    asked = ((lookup("r1", 5), MISS), END)
    assert {} == broken_by(*BEGUN, fill(0, 5), FINISHED, END, *asked * 3)


@pytest.mark.parametrize(
    ("last", "exercised"),
    [((), False), (((load("r1", 5), Loaded((0,))),), True), (((load("r2", 5), Loaded((0,))),), False)],
    ids=["not yet", "it", "somebody else"],
)
def test_who_has_waited_and_is_served_has_been_judged(last: tuple[Told, ...], exercised: bool) -> None:
    begun = (*STAGED[:3], END, *PROMOTING[3:], done(0, 5, 6), (lookup("r1", 5), HIT, well(0, 5, 6)))
    judge, broken = told(*begun, *last)
    assert ((), exercised) == (broken, "tier-progress" in judge.exercised)


# --- what is kept of the plain manager ------------------------------------------------------------


def test_a_promotion_is_announced_when_it_has_arrived() -> None:
    drain = (DRAIN, Drained((Event(False, (5, 6)),)))
    assert {} == broken_by(*PROMOTING, done(0, 5, 6), (END, None, well(0, 5, 6)), drain)
    assert "events-once" in broken_by(*PROMOTING, drain)


def test_what_makes_room_for_a_promotion_is_announced() -> None:
    told_ = (DRAIN, Drained((Event(False, (1, 2)), Event(True, (1,)))))
    steps = (*settled(1, 2), fill(0, 5), (lookup("r1", 5), HIT_PENDING, room(5, 0, 1)))
    assert {} == broken_by(*steps, told_, capacity=2)
    assert "events-once" in broken_by(*steps, (DRAIN, Drained((Event(False, (1, 2)),))), capacity=2)


def test_without_jobs_it_is_a_manager_like_any_other() -> None:
    model = follow((DRAIN, Drained(())), *BEGUN, touch("r1", 1))
    assert (1, True) == (model.num_tiers, isinstance(model, TieredManager))


@pytest.mark.parametrize("said", [Reserved((5,), (0,), ()), Reserved((5,), None)], ids=["room", "no room"])
def test_what_is_said_of_room_when_nobody_asks_is_nothing(said: Reserved) -> None:
    assert {} == broken_by(*BEGUN, (END, None, said))
