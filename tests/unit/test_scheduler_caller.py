"""Scheduler steps: a plan plays as a scheduler would, and is shrunk to one that still does."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from typing import Any

import pytest
from attrs import evolve
from seeded import PROFILE, Puppet, kind_of, laws
from tiered import EvictsHits, KeepsPins, kind_of_tiers

from evictable.model import calls
from evictable.model.calls import Call, Key, Loaded, Stored
from evictable.specs.budget import Budget
from evictable.specs.callers.disciplines import CONTRACT
from evictable.specs.callers.scheduler import (
    COMPLETE,
    DRAIN,
    END,
    FILL,
    FINISH,
    JOB,
    PEER,
    RESET,
    SCHEDULE,
    STORE,
    WINDOWS,
    Deed,
    Plan,
    plans,
    play,
    shrink,
)
from evictable.specs.session import Session
from evictable.specs.subjects.base import Setup, SubjectKind
from evictable.specs.subjects.builtin import BUILT_IN
from evictable.specs.subjects.schedulers import Group

OTHER, NEXT = "000000000000000000000001", "000000000000000100000001"
"""Chunks 0 and 1 in the second group."""


def schedule(request: str, *chunks: int) -> Deed:
    return Deed(SCHEDULE, request, chunks)


def store(request: str, *chunks: int, group: int | None = None) -> Deed:
    return Deed(STORE, request, chunks, group=group)


def fill(*chunks: int, tier: int = 0, group: int | None = None) -> Deed:
    return Deed(FILL, chunks=chunks, number=tier, group=group)


def complete(request: str) -> Deed:
    return Deed(COMPLETE, request)


def finish(request: str) -> Deed:
    return Deed(FINISH, request)


STEP = Deed(END)
ENDED = Deed(JOB)


def session_of(
    *deeds: Deed,
    windows: tuple[int | None, ...] = (None,),
    kind: SubjectKind = BUILT_IN,
    profile: str = PROFILE,
    setup: Setup | None = None,
) -> Session:
    return play(kind, profile, Plan(setup or Setup(4, tiers=1), windows, deeds))


def played(*deeds: Deed, **options: Any) -> list[str]:
    """The calls that the deeds come to, in words."""
    session = session_of(*deeds, **options)
    assert () == session.broken
    return [str(record.call) for record in session.records]


# --- what a deed comes to -------------------------------------------------------------------------


def test_a_request_is_announced_looked_up_as_a_whole_and_stored() -> None:
    assert [
        "on_new_request(request=r1)",
        "lookup(0, request=r1)",  # and no further: it is a MISS
        "prepare_store([0, 1], request=r1)",
        "on_schedule_end()",
    ] == played(schedule("r1", 0, 1), store("r1", 0, 1), STEP)


def test_what_was_found_is_loaded_as_soon_as_all_of_it_is_there() -> None:
    assert [
        "fill_tier([0, 1], tier=0)",
        "on_new_request(request=r1)",
        *("lookup(0, request=r1)", "lookup(1, request=r1)", "on_schedule_end()"),
        *("lookup(0, request=r1)", "lookup(1, request=r1)", "on_schedule_end()"),
        "finish_job(job=0, [0, 1])",
        *("lookup(0, request=r1)", "lookup(1, request=r1)", "prepare_load([0, 1], request=r1)", "on_schedule_end()"),
        "complete_load([0, 1], request=r1)",
    ] == played(
        *(fill(0, 1), schedule("r1", 0, 1), STEP, schedule("r1", 0, 1), STEP),
        *(ENDED, schedule("r1", 0, 1), STEP, complete("r1")),
    )


def test_a_window_loads_the_end_of_the_prompt_and_full_attention_all_of_it() -> None:
    resident = (schedule("r1", 0, 1), store("r1", 0, 1), STEP, complete("r1"), ENDED)
    made = played(*resident, schedule("r2", 0, 1), windows=(None, 1))
    assert f"prepare_load([0, 1, {NEXT}], request=r2)" == made[-1]


def test_a_request_is_scheduled_once() -> None:
    assert 1 == sum("lookup" in made for made in played(schedule("r1", 0), STEP, schedule("r1", 0), STEP))


BUSY = {
    "it finishes in this step": (finish("r1"), schedule("r1", 0)),
    "it has finished": (finish("r1"), STEP, schedule("r1", 0)),
}


@pytest.mark.parametrize("deeds", BUSY.values(), ids=BUSY.keys())
def test_a_request_that_ends_is_looked_up_no_more(deeds: Sequence[Deed]) -> None:
    made = played(fill(0), schedule("r1", 0), STEP, *deeds)
    assert ["lookup(0, request=r1)"] == [one for one in made if "lookup" in one]


class LoadsAgain:
    """A scheduler that loads what it finds of the first group, and keeps the request waiting."""

    faithful = False

    def __call__(
        self, groups: Sequence[Group], lookup: Callable[[Key], str], touch: Callable[[tuple[Key, ...]], None]
    ) -> tuple[Key, ...]:
        for group in groups:
            touch(group.keys)
        touch(())
        return tuple(key for key in groups[0].keys if lookup(key) != "nonsense")


LOADING = evolve(BUILT_IN, scheduling=LoadsAgain)


def test_a_scheduler_may_touch_what_it_asks_for() -> None:
    made = played(schedule("r1", 0, 1), kind=LOADING, windows=(None, 1))
    assert ["touch([0, 1], request=r1)", f"touch([{OTHER}, {NEXT}], request=r1)"] == made[1:3]
    assert [] == [one for one in made[3:] if "touch" in one]


def test_a_load_that_the_contract_forbids_is_not_made() -> None:
    made = played(schedule("r1", 0), STEP, complete("r1"), kind=LOADING)
    assert ["on_new_request", "touch", "lookup", "on_schedule_end"] == [one.partition("(")[0] for one in made]


def test_nothing_is_stored_for_a_request_that_waits() -> None:
    assert [] == [one for one in played(fill(0), schedule("r1", 0), store("r1", 0)) if "store" in one]


def test_a_request_that_ends_in_this_step_may_store_in_it_and_not_later() -> None:
    made = played(schedule("r1", 0), STEP, finish("r1"), store("r1", 0), STEP, store("r1", 1))
    assert ["prepare_store([0], request=r1)"] == [one for one in made if "store" in one]


def test_the_end_of_a_request_is_told_when_the_step_ends() -> None:
    made = played(schedule("r1", 0), STEP, finish("r1"), finish("r1"), schedule("r2", 0), store("r2", 0), STEP)
    assert [
        *("on_new_request(request=r2)", "lookup(0, request=r2)", "prepare_store([0], request=r2)"),
        *("on_request_finished(request=r1)", "on_schedule_end()"),
    ] == made[-5:]


def test_completions_are_whole_and_come_in_their_order() -> None:
    stores = (schedule("r1", 0, 1), store("r1", 0, 1), STEP, store("r1", 2), STEP)
    made = played(*stores, *[complete("r1")] * 4)
    assert [
        "complete_store([0, 1], request=r1, success=True)",
        "complete_store([2], request=r1, success=True)",
    ] == [one for one in made if "complete" in one]


def test_what_was_stored_already_needs_no_completion() -> None:
    stored = (schedule("r1", 0), store("r1", 0), STEP, complete("r1"), STEP, store("r1", 0), STEP)
    assert 1 == sum("complete" in one for one in played(*stored, complete("r1")))


def test_completions_may_come_after_the_end() -> None:
    made = played(schedule("r1", 0), store("r1", 0), STEP, finish("r1"), STEP, complete("r1"))
    assert "complete_store([0], request=r1, success=True)" == made[-1]


@pytest.mark.parametrize(
    ("ended", "call"),
    [
        (Deed(JOB), "finish_job(job=0, [0, 1])"),
        (Deed(JOB, whole=False), "finish_job(job=0, [0])"),
        (Deed(JOB, number=1), "finish_job(job=1, [0, 1])"),
        (Deed(JOB, number=2), "on_schedule_end()"),
    ],
)
def test_a_job_ends_by_its_place_among_those_that_run(ended: Deed, call: str) -> None:
    running = (schedule("r1", 0, 1), store("r1", 0, 1), STEP, complete("r1"), STEP)
    assert call == played(*running, ended, setup=Setup(4, tiers=2))[-1]


def test_jobs_that_have_ended_do_not_count() -> None:
    running = (schedule("r1", 0, 1), store("r1", 0, 1), STEP, complete("r1"))
    assert "finish_job(job=1, [0, 1])" == played(*running, ENDED, ENDED, setup=Setup(4, tiers=2))[-1]


@pytest.mark.parametrize(
    ("deed", "call"),
    [
        (fill(0, tier=1), f"fill_tier([0, {OTHER}], tier=1)"),
        (fill(0, tier=1, group=1), f"fill_tier([{OTHER}], tier=1)"),
        (fill(0, tier=1, group=7), f"fill_tier([{OTHER}], tier=1)"),
        (Deed(PEER, "p1", (0,)), f"peer_lookup([0, {OTHER}], request=p1, tier=0)"),
    ],
)
def test_what_happens_in_the_tiers(deed: Deed, call: str) -> None:
    assert [call] == played(deed, windows=(None, 1), setup=Setup(4, tiers=2))


def test_one_group_may_be_stored_alone() -> None:
    made = played(schedule("r1", 0), store("r1", 0, group=1), windows=(None, 1))
    assert f"prepare_store([{OTHER}], request=r1)" == made[-1]


def test_a_reset_waits_until_no_transfer_of_a_request_is_under_way() -> None:
    begun = (schedule("r1", 0), store("r1", 0), STEP)
    assert "on_schedule_end()" == played(*begun, Deed(RESET))[-1]
    assert ["take_events()", "reset_cache()"] == played(*begun, complete("r1"), Deed(RESET))[-2:]


def test_events_are_drained_whole() -> None:
    assert ["take_events()"] == played(Deed(DRAIN))


def test_a_plan_may_be_brought_to_rest() -> None:
    plan = Plan(Setup(2, tiers=1), (None,), (schedule("r1", 0), store("r1", 0)))
    left, rested = play(BUILT_IN, PROFILE, plan), play(BUILT_IN, PROFILE, plan, to_rest=True)
    assert (False, True) == (left.promises.at_rest, rested.promises.at_rest)


def test_a_plan_ends_with_the_first_broken_law() -> None:
    deeds = (schedule("r1", 0), store("r1", 0), STEP, complete("r1"), Deed(JOB, whole=False), STEP, schedule("r2", 0))
    session = play(kind_of_tiers(KeepsPins), PROFILE, Plan(Setup(1, tiers=1), (None,), deeds), to_rest=True)
    assert ("pin-has-job", "on_schedule_end()") == (laws(session.broken)[0], str(session.records[-1].call))


# --- the order of a step --------------------------------------------------------------------------


@pytest.mark.parametrize(
    "before",
    [schedule("r2", 0), store("r1", 0), STEP],
    ids=["schedule", "store", "end"],
)
@pytest.mark.parametrize("deed", [ENDED, fill(1), Deed(PEER, "p1", (1,)), complete("r1"), finish("r1"), Deed(DRAIN)])
def test_what_a_step_begins_with_ends_the_step_before(before: Deed, deed: Deed) -> None:
    begun = (schedule("r1", 0), store("r1", 1), STEP, complete("r1"), store("r1", 2), STEP)
    made = played(*begun, before, deed, STEP)
    assert 2 == sum("on_schedule_end" in one for one in made[len(played(*begun)) :])


@pytest.mark.parametrize(
    ("deeds", "steps"),
    [
        ((complete("r1"), ENDED, fill(0), schedule("r1", 0), store("r1", 0), STEP), 1),
        ((schedule("r1", 0), schedule("r2", 0), store("r1", 0), store("r2", 1)), 0),
        ((schedule("r1", 0), store("r1", 0), schedule("r2", 0)), 1),
        ((STEP, STEP), 2),
    ],
)
def test_a_step_ends_where_its_order_would_be_turned(deeds: Sequence[Deed], steps: int) -> None:
    assert steps == sum("on_schedule_end" in one for one in played(*deeds))


@pytest.mark.parametrize(
    ("profile", "positions"),
    [("lru-ranked-request", [(1,), (3,), (3,), (3,)]), ("lru-evictable", [None, None, None, None])],
)
def test_positions_are_told_where_the_order_heeds_them(
    profile: str, positions: Sequence[tuple[int, ...] | None]
) -> None:
    deeds = (schedule("r1", 8), store("r1", 10), complete("r1"), schedule("r2", 10))
    session = session_of(*deeds, kind=kind_of(Puppet, profile), profile=profile, setup=Setup(4))
    told = [record.call for record in session.records if record.call.name in calls.CALLS_WITH_KEYS]
    assert [calls.LOOKUP, calls.PREPARE_STORE, calls.COMPLETE_STORE, calls.LOOKUP, calls.PREPARE_LOAD] == [
        call.name for call in told
    ]
    assert positions == [call.positions for call in told if call.name != calls.COMPLETE_STORE]


def test_a_chunk_has_one_position_in_all_groups() -> None:
    profile = "lru-ranked-request"
    deeds = (schedule("r1", 1), store("r1", 1))
    options: dict[str, Any] = {"kind": kind_of(Puppet, profile), "profile": profile, "setup": Setup(4)}
    assert (2, 2) == session_of(*deeds, windows=(None, 1), **options).records[-1].call.positions


# --- plans at random ------------------------------------------------------------------------------


def some_plans(count: int, seed: int = 1, vary_capacity: bool = True, request_level: bool = True) -> Iterator[Plan]:
    budget = Budget(max_calls=1)  # of which nobody spends anything
    setup = Setup(3, tiers=2)
    return islice(plans(setup, seed, budget, vary_capacity=vary_capacity, request_level=request_level), count)


def test_one_seed_makes_one_run_of_plans() -> None:
    first, again, other = (list(some_plans(20, seed)) for seed in (1, 1, 2))
    assert first == again
    assert first != other


def test_plans_last_as_long_as_the_budget() -> None:
    budget = Budget(max_calls=10)
    made = 0
    for _ in plans(Setup(3, tiers=1), 1, budget, vary_capacity=True, request_level=False):
        made += 1
        budget.calls += 3
    assert 4 == made


def test_what_varies() -> None:
    made = list(some_plans(300))
    assert {1, 2, 3, 4, 5, 6} <= {plan.setup.capacity for plan in made}
    assert {(), (0, 1)} == {plan.setup.request_level for plan in made}
    assert set(WINDOWS) <= {plan.windows for plan in made}
    assert {COMPLETE, JOB, FILL, PEER, FINISH, DRAIN, RESET, SCHEDULE, STORE, END} == {
        deed.name for plan in made for deed in plan.deeds
    }


def test_a_request_may_be_left_alone_with_tiers_that_have_all_it_asks_for() -> None:
    alone = [plan for plan in some_plans(100) if "alone" in prompts_of(plan)]
    assert 10 < len(alone) < 40
    for plan in alone:
        (prompt,) = prompts_of(plan)["alone"]
        assert len(prompt) * len(plan.windows) <= plan.setup.capacity
        assert Deed(FILL, chunks=prompt) in plan.deeds


def test_what_does_not_vary() -> None:
    assert {Setup(3, tiers=2)} == {plan.setup for plan in some_plans(30, vary_capacity=False, request_level=False)}


def prompts_of(plan: Plan) -> dict[str, set[tuple[int, ...]]]:
    prompts: dict[str, set[tuple[int, ...]]] = {}
    for deed in plan.deeds:
        if deed.name == SCHEDULE:
            prompts.setdefault(deed.request, set()).add(deed.chunks)
    return prompts


def test_a_request_has_one_prompt_and_a_chunk_one_place() -> None:
    for plan in some_plans(100):
        prompts = prompts_of(plan)
        assert {1} >= {len(of_one) for of_one in prompts.values()}
        heads = {(chunk, prompt[:place]) for (prompt,) in prompts.values() for place, chunk in enumerate(prompt)}
        assert len(heads) == len({chunk for chunk, _ in heads})


def unlike_a_scheduler(session: Session) -> list[str]:
    """What no scheduler would do."""
    wrong: list[str] = []
    over: set[str | None] = set()
    owed: list[Call] = []
    phase = 0
    phases = {calls.LOOKUP: 1, calls.PREPARE_LOAD: 1, calls.PREPARE_STORE: 2, calls.ON_REQUEST_FINISHED: 3}
    first = {calls.FINISH_JOB, calls.FILL_TIER, calls.PEER_LOOKUP, *calls.COMPLETIONS}
    for record in session.records:
        call = record.call
        now = 0 if call.name == calls.ON_SCHEDULE_END or call.name in first else phases.get(call.name, phase)
        if now < phase and call.name != calls.ON_SCHEDULE_END:
            wrong.append(f"{call} so late in a step")
        phase = now
        if call.name in (calls.LOOKUP, calls.PREPARE_STORE) and call.request in over:
            wrong.append(f"{call} after the end")
        if call.name == calls.LOOKUP and any(one.request == call.request for one in owed):
            wrong.append(f"{call} while transfers run")
        if isinstance(record.outcome, Stored) and record.outcome.keys_to_store:
            owed.append(Call(calls.COMPLETE_STORE, record.outcome.keys_to_store, call.request))
        elif isinstance(record.outcome, Loaded):
            owed.append(Call(calls.COMPLETE_LOAD, call.keys, call.request))
        elif call.name in calls.COMPLETIONS:
            if call in owed:
                owed.remove(call)
            else:
                wrong.append(f"{call} is not whole")
        elif call.name == calls.ON_REQUEST_FINISHED:
            over.add(call.request)
        elif call.name == calls.RESET_CACHE and owed:
            wrong.append(f"{call} while transfers run")
    return wrong


def test_a_plan_plays_as_a_scheduler_would() -> None:
    made = 0
    for plan in some_plans(150):
        session = play(BUILT_IN, PROFILE, plan)
        assert ((), []) == (session.broken, unlike_a_scheduler(session))
        made += sum(record.call.name == calls.PREPARE_LOAD for record in session.records)
    assert made > 50


# --- shrinking ------------------------------------------------------------------------------------

EVICTING = kind_of_tiers(primary=EvictsHits)
KEEPING = kind_of_tiers(KeepsPins)


def broken_plans(kind: SubjectKind, law: str, count: int) -> list[Plan]:
    among = some_plans(2000, vary_capacity=False)
    return list(islice((plan for plan in among if law in laws(play(kind, PROFILE, plan).broken)), count))


@pytest.mark.parametrize(("kind", "law"), [(EVICTING, "hit-loads"), (KEEPING, "pin-has-job")], ids=["HIT", "pin"])
def test_a_plan_is_shrunk_to_one_that_breaks_the_same_law(kind: SubjectKind, law: str) -> None:
    for plan in broken_plans(kind, law, 2):
        before = play(kind, PROFILE, plan)
        smallest = shrink(kind, PROFILE, plan, law)
        assert smallest is not None
        assert law in laws(smallest.broken)
        assert len(smallest.records) <= max(10, len(before.records) // 4)
        assert [] == unlike_a_scheduler(smallest)
        assert (CONTRACT, ()) == (smallest.discipline, smallest.setup.request_level)


def test_the_smallest_plan_is_found() -> None:
    deeds = (
        *(fill(9), schedule("r1", 0, 1), schedule("r2", 8, 9), store("r1", 0, 1), STEP),
        *(complete("r1"), store("r2", 8), STEP, ENDED, schedule("r3", 0), STEP, complete("r2"), finish("r2"), STEP),
        *(Deed(JOB, whole=False), Deed(DRAIN), schedule("r3", 0), STEP),
    )
    plan = Plan(Setup(6, tiers=1, request_level=(0,)), (None, 1), deeds)
    smallest = shrink(KEEPING, PROFILE, plan, "pin-has-job")
    assert smallest is not None
    assert [
        "on_new_request(request=r1)",
        "lookup(0, request=r1)",
        "prepare_store([0], request=r1)",
        "on_schedule_end()",
        "complete_store([0], request=r1, success=True)",
        "finish_job(job=0, [])",
        "on_schedule_end()",
    ] == [str(record.call) for record in smallest.records]


@pytest.mark.parametrize("law", ["pin-has-job", "tier-progress"])
def test_a_plan_that_does_not_break_the_law_is_not_shrunk(law: str) -> None:
    plan = Plan(Setup(2, tiers=1), (None,), (schedule("r1", 0), store("r1", 0), STEP))
    assert None is shrink(KEEPING, PROFILE, plan, law)


def test_a_plan_that_no_scheduler_has_is_not_shrunk() -> None:
    breaks = (store("r1", 0), STEP, complete("r1"), Deed(JOB, whole=False), STEP)
    for deeds in (
        (schedule("r1", 0), *breaks, schedule("r1", 1)),
        (schedule("r1", 0), *breaks, schedule("r2", 1, 0)),
    ):
        assert None is shrink(KEEPING, PROFILE, Plan(Setup(1, tiers=1), (None,), deeds), "pin-has-job")


def test_shrinking_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    tries = 0

    def counted(setup: Setup) -> Any:
        nonlocal tries
        tries += 1
        return KEEPING.make(setup)

    monkeypatch.setattr("evictable.specs.callers.scheduler.MOST_PLAYED", 7)
    (plan,) = broken_plans(KEEPING, "pin-has-job", 1)
    assert None is not shrink(evolve(KEEPING, make=counted), PROFILE, plan, "pin-has-job")
    assert 7 == tries
