"""The manager of tiers: what is promoted, cascaded, pinned and told, and that nothing of it outlives its job."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import nullcontext
from typing import Any

import pytest

import evictable.impl.tiering.manager as tiering_manager
from evictable.impl import (
    CPULoadStoreSpec,
    CPUOffloadingMetrics,
    KeyNotResident,
    LoadStoreSpec,
    LookupResult,
    LRUCachePolicy,
    NotReady,
    OffloadingCounterMetadata,
    OffloadingEvent,
    OffloadKey,
    OffloadPolicy,
    ReqContext,
    RequestOffloadingContext,
    StaleCompletion,
    build_metric_definitions,
)
from evictable.impl.tiering import (
    TIERING_METRIC_DEFINITIONS,
    CPUPrimaryTierOffloadingManager,
    JobMetadata,
    JobResult,
    ParentManager,
    ScriptedTier,
    TieringOffloadingManager,
    TieringOffloadingMetrics,
)

A, B, C, D, E = (OffloadKey(bytes([n])) for n in range(5))
R1, R2, PEER = ReqContext("r1"), ReqContext("r2"), ReqContext("peer")
MISS, HIT, HIT_PENDING, RETRY = LookupResult.MISS, LookupResult.HIT, LookupResult.HIT_PENDING, LookupResult.RETRY


def over(*tiers: ScriptedTier, num_blocks: int = 4, **options: Any) -> TieringOffloadingManager:
    """A manager over these tiers, which knows the requests R1 and R2."""
    manager = TieringOffloadingManager(CPUPrimaryTierOffloadingManager(num_blocks, **options), tiers)
    manager.on_new_request(R1)
    manager.on_new_request(R2)
    return manager


def holding(*keys: OffloadKey, **options: Any) -> ScriptedTier:
    tier = ScriptedTier(**options)
    tier.hold(keys)
    return tier


def begin(manager: TieringOffloadingManager, *keys: OffloadKey, request: ReqContext = R1) -> None:
    """Begin to store keys that are all new."""
    output = manager.prepare_store(keys, request)
    assert output is not None
    assert list(keys) == output.keys_to_store


def store(manager: TieringOffloadingManager, *keys: OffloadKey, request: ReqContext = R1) -> None:
    begin(manager, *keys, request=request)
    manager.complete_store(keys, request)


def settle(manager: TieringOffloadingManager) -> None:
    """Let all jobs end well, and the step too."""
    for tier in manager.secondary_tiers:
        tier.drain_jobs()
    manager.on_schedule_end()


def stored_and_settled(manager: TieringOffloadingManager, *keys: OffloadKey) -> TieringOffloadingManager:
    """The manager when it has stored the keys, in this order of eviction, and forgotten them in the tiers."""
    store(manager, *keys)
    settle(manager)
    for tier in manager.secondary_tiers:
        assert isinstance(tier, ScriptedTier)
        tier.keys.difference_update(keys)
    return manager


def the_job(tier: ScriptedTier) -> JobMetadata:
    (job,) = tier.jobs.values()
    return job


def keys_of_jobs(tier: ScriptedTier) -> list[tuple[str, tuple[OffloadKey, ...]]]:
    """For which request, and of which keys, each job is that is in flight."""
    return [(job.req_context.req_id, tuple(job.keys)) for job in tier.jobs.values()]


def ref_cnts(manager: TieringOffloadingManager, *keys: OffloadKey) -> list[int | None]:
    blocks = map(manager.primary_tier._policy.get, keys)
    return [None if block is None else block.ref_cnt for block in blocks]


def block_ids(spec: LoadStoreSpec) -> tuple[int, ...]:
    assert isinstance(spec, CPULoadStoreSpec)
    return tuple(spec.block_ids)


def counted(manager: TieringOffloadingManager) -> dict[str, Any]:
    samples = manager.get_stats().data["data"]
    return {name: samples[name] for name in TIERING_METRIC_DEFINITIONS if name in samples}


class Boom(Exception):
    """What a tier raises here."""


@pytest.fixture(autouse=True)
def _nothing_else_is_tolerated(caplog: pytest.LogCaptureFixture) -> Iterator[None]:
    yield
    errors = [record.exc_info[1] for record in caplog.get_records("call") if record.exc_info]
    assert [] == [error for error in errors if not isinstance(error, Boom)]


class RaisingTier(ScriptedTier):
    """Raises `Boom` in the methods that are named in `raises_in`."""

    raises_in: tuple[str, ...] = ()

    def __getattribute__(self, name: str) -> Any:
        found = super().__getattribute__(name)
        if name != "raises_in" and name in self.raises_in:

            def boom(*arguments: object) -> None:
                raise Boom(name)

            return boom
        return found


# Cascades


def test_what_is_stored_goes_to_every_tier_and_is_pinned_for_each_until_it_reports() -> None:
    near, far = ScriptedTier(), ScriptedTier()
    manager = over(near, far)
    store(manager, A, B)
    pinned = [ref_cnts(manager, A, B)]
    for tier in (far, near):
        tier.finish(the_job(tier).job_id)
        manager.on_schedule_end()
        pinned.append(ref_cnts(manager, A, B))
    assert [[2, 2], [1, 1], [0, 0]] == pinned
    assert {A, B} == near.keys == far.keys


def test_a_job_names_the_slots_of_its_keys_in_their_order() -> None:
    tier = ScriptedTier()
    manager = over(tier)
    begin(manager, A, B, C)
    manager.complete_store([C, A], R1)
    job = the_job(tier)
    assert ((C, A), (2, 0), False, R1) == (job.keys, tuple(job.block_ids), job.is_promotion, job.req_context)


def test_a_cascade_that_fails_gives_its_pins_back_and_is_counted() -> None:
    tier = ScriptedTier(tier_type="disk")
    manager = over(ScriptedTier(), tier)
    store(manager, A)
    tier.fail(the_job(tier).job_id)
    manager.on_schedule_end()
    assert ([1], set()) == (ref_cnts(manager, A), tier.keys)
    assert {TieringOffloadingMetrics.CASCADE_JOB_FAILURES: {("2:disk",): 1}} == counted(manager)


@pytest.mark.parametrize(("keys", "success"), [([], True), ([A], False)], ids=["no keys", "failed"])
def test_nothing_stored_gives_no_job(keys: list[OffloadKey], success: bool) -> None:
    tier = ScriptedTier()
    manager = over(tier)
    begin(manager, A)
    manager.complete_store(keys, R1, success)
    assert {} == tier.jobs


def test_keys_that_can_be_read_once_only_are_cascaded_too() -> None:
    tier = ScriptedTier(request_level=True)
    manager = over(tier)
    manager.prepare_store(iter([A, B]), R1)  # type: ignore[arg-type]
    manager.complete_store(iter([A, B]), R1)  # type: ignore[arg-type]
    assert [("r1", (A, B))] == keys_of_jobs(tier)


def test_keys_that_can_be_read_once_only_are_cascaded_when_they_are_there_already() -> None:
    tier = ScriptedTier(request_level=True)
    manager = stored_and_settled(over(tier), A)
    manager.prepare_store(iter([A, B]), R2)  # type: ignore[arg-type]
    assert [("r2", (A,))] == keys_of_jobs(tier)


def test_a_tier_that_refuses_a_store_keeps_no_pin_and_the_others_get_theirs() -> None:
    refusing, willing = ScriptedTier(), ScriptedTier()
    manager = over(refusing, willing)
    refusing.fail_next_submit(Boom())
    store(manager, A)
    assert ([1], {}, [("r1", (A,))]) == (ref_cnts(manager, A), refusing.jobs, keys_of_jobs(willing))
    assert {TieringOffloadingMetrics.CASCADE_JOB_FAILURES: {("1:scripted",): 1}} == counted(manager)


def test_the_error_of_a_tier_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    tier = ScriptedTier(tier_type="disk")
    manager = over(tier)
    tier.fail_next_submit(Boom())
    store(manager, A)
    assert ["tier 0 (disk) has failed"] == [record.getMessage() for record in caplog.records]


def test_stores_and_promotions_are_submitted_by_methods_of_their_own() -> None:
    submitted: list[tuple[str, tuple[OffloadKey, ...]]] = []

    class Listening(ScriptedTier):
        def submit_store(self, job: JobMetadata) -> None:
            submitted.append(("store", tuple(job.keys)))

        def submit_load(self, job: JobMetadata) -> None:
            submitted.append(("load", tuple(job.keys)))

    tier = Listening()
    tier.hold([A])
    manager = over(tier)
    store(manager, B)
    manager.lookup(A, R1)
    manager.on_schedule_end()
    assert [("store", (B,)), ("load", (A,))] == submitted


def test_a_refused_job_is_given_up_also_when_the_run_is_interrupted() -> None:
    tier = ScriptedTier()
    manager = over(tier)
    tier.fail_next_submit(KeyboardInterrupt())
    begin(manager, A)
    with pytest.raises(KeyboardInterrupt):
        manager.complete_store([A], R1)
    assert ([0], False) == (ref_cnts(manager, A), manager.has_pending_work())


# Who holds what


@pytest.mark.parametrize("request_id", ["r1", "a job of r1"])
def test_no_caller_can_take_the_pin_of_a_job(request_id: str) -> None:
    tier = ScriptedTier()
    manager = over(tier)
    store(manager, A)
    with pytest.raises(StaleCompletion):
        manager.complete_load([A], ReqContext(request_id))
    assert [1] == ref_cnts(manager, A)


@pytest.mark.parametrize("request_id", ["r1", "a job of r1"])
@pytest.mark.parametrize("submitted", [False, True])
@pytest.mark.parametrize("success", [False, True])
def test_no_caller_can_end_a_promotion(request_id: str, submitted: bool, success: bool) -> None:
    manager = over(holding(A))
    manager.lookup(A, R1)
    if submitted:
        manager.on_schedule_end()
    with pytest.raises(StaleCompletion):
        manager.complete_store([A], ReqContext(request_id), success)
    assert [-1] == ref_cnts(manager, A)


def test_a_request_that_loads_what_a_job_reads_completes_its_own_load_only() -> None:
    manager = over(ScriptedTier())
    store(manager, A)
    manager.prepare_load([A], R1)
    manager.complete_load([A], R1)
    assert [1] == ref_cnts(manager, A)


# Promotions


def test_lookups_stage_promotions_and_the_end_of_the_step_submits_one_for_each_tier_and_request() -> None:
    near, far = holding(A, B, C), holding(D)
    manager = over(near, far)
    answers = [manager.lookup(key, request) for key, request in ((A, R1), (B, R2), (C, R1), (D, R1))]
    before = (keys_of_jobs(near), keys_of_jobs(far))
    manager.on_schedule_end()
    assert ([HIT_PENDING] * 4, ([], [])) == (answers, before)
    assert ([("r1", (A, C)), ("r2", (B,))], [("r1", (D,))]) == (keys_of_jobs(near), keys_of_jobs(far))


def test_a_promotion_writes_the_slots_that_were_reserved_and_then_the_keys_can_be_loaded() -> None:
    tier = holding(A, B)
    manager = over(tier)
    for key in (B, A):
        manager.lookup(key, R1)
    manager.on_schedule_end()
    job = the_job(tier)
    tier.finish(job.job_id)
    assert [HIT, HIT] == [manager.lookup(key, R1) for key in job.keys]
    assert (True, tuple(job.block_ids)) == (job.is_promotion, block_ids(manager.prepare_load(job.keys, R1)))


def test_a_key_that_is_on_its_way_is_not_promoted_again() -> None:
    tier = holding(A)
    manager = over(tier)
    answers = [manager.lookup(A, R1), manager.lookup(A, R2)]
    manager.on_schedule_end()
    answers.append(manager.lookup(A, R1))
    manager.on_schedule_end()
    assert ([HIT_PENDING] * 3, [("r1", (A,))]) == (answers, keys_of_jobs(tier))


@pytest.mark.parametrize(
    ("near", "far", "delayed", "answer", "promoting"),
    [
        ((), (), "", MISS, ""),
        ((A,), (A,), "", HIT_PENDING, "near"),
        ((), (A,), "", HIT_PENDING, "far"),
        ((), (), "near", RETRY, ""),
        ((A,), (), "near", RETRY, ""),
        ((A,), (A,), "near", HIT_PENDING, "far"),
    ],
)
def test_the_first_tier_that_has_a_key_promotes_it(
    near: tuple[OffloadKey, ...], far: tuple[OffloadKey, ...], delayed: str, answer: LookupResult, promoting: str
) -> None:
    tiers = {"near": holding(*near), "far": holding(*far)}
    manager = over(*tiers.values())
    if delayed:
        tiers[delayed].delay([A])
    assert answer is manager.lookup(A, R1)
    manager.on_schedule_end()
    assert [promoting] * bool(promoting) == [name for name, tier in tiers.items() if tier.jobs]


def test_a_delayed_key_is_known_in_the_next_step() -> None:
    tier = holding(A)
    manager = over(tier)
    tier.delay([A])
    manager.lookup(A, R1)
    manager.on_schedule_end()
    assert HIT_PENDING is manager.lookup(A, R1)


def test_a_promotion_evicts_in_order_but_nothing_that_was_called_a_hit_in_this_step() -> None:
    manager = stored_and_settled(over(holding(D, E), num_blocks=3), A, B, C)
    answers = [manager.lookup(key, R1) for key in (A, C, D)]
    assert ([HIT, HIT, HIT_PENDING], [0, None, 0, -1]) == (answers, ref_cnts(manager, A, B, C, D))


def test_a_hit_is_held_until_the_step_ends() -> None:
    manager = stored_and_settled(over(holding(C), num_blocks=2), A, B)
    manager.lookup(A, R1)
    manager.on_schedule_end()
    manager.lookup(C, R1)
    assert [None, 0, -1] == ref_cnts(manager, A, B, C)


@pytest.mark.parametrize("policy", ["lru", "arc"])
def test_without_room_beside_what_is_held_a_lookup_is_a_miss_that_changes_nothing(policy: str) -> None:
    manager = stored_and_settled(over(holding(C), num_blocks=2, cache_policy=policy), A, B)
    answers = [manager.lookup(key, R1) for key in (A, B, C)]
    manager.on_schedule_end()
    answers.append(manager.lookup(C, R1))
    assert [HIT, HIT, MISS, HIT_PENDING] == answers
    assert [None, 0, -1] == ref_cnts(manager, A, B, C)


def test_without_room_a_lookup_is_a_miss_and_counted() -> None:
    manager = stored_and_settled(over(holding(B), num_blocks=1), A)
    manager.prepare_load([A], R1)
    assert MISS is manager.lookup(B, R1)
    assert {TieringOffloadingMetrics.PROMOTION_ALLOCATION_FAILURES: {(): 1}} == counted(manager)


def test_held_keys_that_are_pinned_do_not_count_as_room_twice() -> None:
    manager = stored_and_settled(over(holding(C), num_blocks=2), A, B)
    manager.lookup(A, R1)
    manager.prepare_load([A], R1)
    assert HIT_PENDING is manager.lookup(C, R1)


def test_holding_never_refuses_a_store() -> None:
    manager = stored_and_settled(over(ScriptedTier(), num_blocks=2), A, B)
    for key in (A, B):
        manager.lookup(key, R1)
    begin(manager, C, D)
    assert [None, None, -1, -1] == ref_cnts(manager, A, B, C, D)


def test_what_an_offer_took_is_not_held_when_it_comes_back() -> None:
    tier = holding(C)
    manager = stored_and_settled(over(tier, num_blocks=1), A)
    manager.lookup(A, R1)
    begin(manager, B)
    assert set() == manager.primary_tier.held


def test_only_what_was_called_a_hit_is_held() -> None:
    manager = stored_and_settled(over(holding(B)), A)
    for key in (A, B, B, C):
        manager.lookup(key, R1)
    assert {A} == manager.primary_tier.held


def test_a_promotion_does_not_count_as_a_refused_offer() -> None:
    manager = stored_and_settled(over(holding(B), num_blocks=1), A)
    manager.prepare_load([A], R1)
    manager.get_stats()
    manager.lookup(B, R1)
    samples = manager.get_stats().data["data"]
    assert {(): 0} == samples[CPUOffloadingMetrics.ALLOCATION_FAILURE]
    assert {(): [1]} == samples[CPUOffloadingMetrics.CPU_ALLOCATION_SIZE]


@pytest.mark.parametrize(
    ("keys", "written", "sizes"), [([A], [], [1]), ([C, A, B, C], [C, B], [1, 2])], ids=["there", "new, and twice"]
)
def test_a_write_reserves_for_what_is_not_there(
    keys: list[OffloadKey], written: list[OffloadKey], sizes: list[int]
) -> None:
    manager = stored_and_settled(over(), A)
    output = manager.primary_tier.prepare_write(keys, R1)
    assert output is not None
    assert (written, sizes) == (output.keys_to_store, manager.primary_tier.allocation_sizes_in_current_batch)


@pytest.mark.parametrize(("hits", "asked"), [([A, B], 0), ([A], 1)])
def test_a_policy_is_not_asked_for_room_that_is_not_there(hits: list[OffloadKey], asked: int) -> None:
    evictions: list[int] = []

    class Listening(LRUCachePolicy):
        def evict(self, n: int, protected: set[OffloadKey]) -> Any:
            evictions.append(n)
            return super().evict(n, protected)

    manager = stored_and_settled(over(holding(D), num_blocks=3, cache_policy=Listening), A, B, C)
    manager.prepare_load([C], R2)
    for key in (*hits, C, D):
        manager.lookup(key, R1)
    assert [1] * asked == evictions


@pytest.mark.parametrize(
    ("arrived", "expected"),
    [(None, [0, 0]), ((B,), [None, 0]), ((), [None, None]), ((B, C), [None, 0])],
    ids=["whole", "in part", "nothing", "and a key that is not the job's"],
)
def test_what_a_promotion_brought_is_ready_and_the_rest_is_given_up(
    arrived: tuple[OffloadKey, ...] | None, expected: list[int | None]
) -> None:
    tier = holding(A, B)
    manager = over(tier)
    for key in (A, B):
        manager.lookup(key, R1)
    manager.on_schedule_end()
    tier.finish(the_job(tier).job_id, arrived)
    manager.on_schedule_end()
    assert (expected, [None], False) == (ref_cnts(manager, A, B), ref_cnts(manager, C), manager.has_pending_work())
    failures = {} if arrived is None else {TieringOffloadingMetrics.PROMOTION_JOB_FAILURES: {("1:scripted",): 1}}
    assert failures == counted(manager)


def test_a_tier_that_refuses_a_promotion_keeps_no_slot_and_the_others_get_theirs() -> None:
    refusing, willing = holding(A), holding(B)
    manager = over(refusing, willing)
    refusing.fail_next_submit(Boom())
    for key in (A, B):
        manager.lookup(key, R1)
    manager.on_schedule_end()
    assert ([None, -1], [("r1", (B,))]) == (ref_cnts(manager, A, B), keys_of_jobs(willing))
    assert HIT_PENDING is manager.lookup(A, R1)


def test_a_promotion_is_a_method_call_of_the_primary_tier_that_can_be_watched() -> None:
    manager = over(holding(A))
    prepare_write, seen = manager.primary_tier.prepare_write, []

    def watch(keys: list[OffloadKey], req_context: ReqContext) -> Any:
        seen.append(list(keys))
        return prepare_write(keys, req_context)

    manager.primary_tier.prepare_write = watch  # type: ignore[assignment,method-assign]
    manager.lookup(A, R1)
    assert [[A]] == seen


# Results


def test_lookups_poll_once_a_step_and_offers_always() -> None:
    tier = holding(A)
    manager = over(tier)
    manager.lookup(A, R1)
    manager.on_schedule_end()
    answers = [manager.lookup(A, R1)]
    tier.finish(the_job(tier).job_id)
    answers.append(manager.lookup(A, R1))
    manager.prepare_store([], R1)
    answers.append(manager.lookup(A, R1))
    assert [HIT_PENDING, HIT_PENDING, HIT] == answers


def test_the_next_step_polls_anew() -> None:
    tier = holding(A)
    manager = over(tier)
    manager.lookup(A, R1)
    manager.on_schedule_end()
    tier.finish(the_job(tier).job_id)
    assert HIT is manager.lookup(A, R1)


@pytest.mark.parametrize("by", ["the tier, again", "a nearer tier", "a farther tier", "a tier that never had it"])
def test_a_result_that_no_job_waits_for_is_ignored_and_counted(by: str) -> None:
    tier, other = ScriptedTier(), ScriptedTier()
    manager = over(tier, other)
    store(manager, A)
    job_id = the_job(tier).job_id
    expected = [2]
    if by == "a nearer tier":
        tier, other = other, tier
        job_id += 1
    if by == "the tier, again":
        tier.finish(job_id)
        tier.results *= 2
        expected = [1]
    elif by in ("a nearer tier", "a farther tier"):
        other.results.append(JobResult(job_id, True))
    else:
        tier.results.append(JobResult(job_id + 100, True))
    manager.on_schedule_end()
    assert (expected, 1) == (ref_cnts(manager, A), manager.num_stray_results)


def test_a_tier_that_cannot_be_polled_lets_results_of_others_be_taken_and_the_call_do_nothing() -> None:
    fine, broken = holding(A), RaisingTier()
    manager = over(fine, broken)
    manager.lookup(A, R1)
    manager.on_schedule_end()
    fine.finish(the_job(fine).job_id)
    broken.raises_in = ("get_finished_jobs",)
    with pytest.raises(Boom):
        manager.prepare_store([B], R1)
    assert [0, None] == ref_cnts(manager, A, B)
    broken.raises_in = ()
    store(manager, B)


class FragilePolicy(LRUCachePolicy):
    """Raises once in the method that `fragile` names."""

    fragile = ""

    def mark_evictable(self, key: OffloadKey) -> None:
        self._break("mark_evictable")
        super().mark_evictable(key)

    def remove(self, key: OffloadKey) -> None:
        self._break("remove")
        super().remove(key)

    def _break(self, method: str) -> None:
        if self.fragile == method:
            self.fragile = ""
            raise Boom


@pytest.mark.parametrize(
    ("fragile", "keys", "arrived", "expected"),
    [
        ("mark_evictable", (C,), None, [None, None, 0]),
        ("mark_evictable", (A, B), None, [0, 0, None]),
        ("mark_evictable", (A, B), [A], [0, None, None]),
        ("remove", (A, B), [A], [0, None, None]),
    ],
    ids=["a cascade", "a promotion", "what arrived", "what did not arrive"],
)
def test_a_result_that_could_not_be_applied_is_applied_by_the_next_poll(
    fragile: str, keys: tuple[OffloadKey, ...], arrived: list[OffloadKey] | None, expected: list[int | None]
) -> None:
    tier = holding(A, B)
    manager = over(tier, cache_policy=FragilePolicy)
    if keys == (C,):
        store(manager, C)
    else:
        for key in keys:
            manager.lookup(key, R1)
    manager.on_schedule_end()
    tier.finish(the_job(tier).job_id, arrived)
    policy = manager.primary_tier._policy
    assert isinstance(policy, FragilePolicy)
    policy.fragile = fragile
    with pytest.raises(Boom):
        manager.lookup(D, R1)
    manager.lookup(D, R1)
    assert (expected, False) == (ref_cnts(manager, A, B, C), manager.has_pending_work())


def test_a_failed_promotion_need_not_say_that_nothing_arrived() -> None:
    tier = holding(A)
    manager = over(tier)
    manager.lookup(A, R1)
    manager.on_schedule_end()
    tier.results.append(JobResult(the_job(tier).job_id, False))
    manager.on_schedule_end()
    assert [None] == ref_cnts(manager, A)


def test_what_arrived_in_part_becomes_idle_in_the_order_of_the_job() -> None:
    tier = holding(A, B, C)
    manager = over(tier, num_blocks=3)
    for key in (A, B, C):
        manager.lookup(key, R1)
    manager.on_schedule_end()
    tier.finish(the_job(tier).job_id, [C, A])
    begin(manager, D, E)
    assert [None, None, 0] == ref_cnts(manager, A, B, C)


# Tiers that raise when they are asked, or told


def test_a_tier_that_cannot_be_asked_for_a_key_leaves_nothing_staged() -> None:
    manager = over(tier := RaisingTier())
    tier.raises_in = ("lookup",)
    with pytest.raises(Boom):
        manager.lookup(A, R1)
    assert ([None], False) == (ref_cnts(manager, A), manager.has_pending_work())


def test_a_request_that_a_tier_did_not_take_can_be_announced_again() -> None:
    tier = RaisingTier(request_level=True)
    manager = TieringOffloadingManager(CPUPrimaryTierOffloadingManager(1), [tier])
    tier.raises_in = ("on_new_request",)
    with pytest.raises(Boom):
        manager.on_new_request(R1)
    tier.raises_in = ()
    assert OffloadPolicy.REQUEST_LEVEL is manager.on_new_request(R1).policy


@pytest.mark.parametrize("method", ["on_request_finished", "touch", "on_schedule_end", "serve_external_requests"])
def test_what_a_tier_is_told_reaches_the_others_and_the_manager_goes_on(method: str) -> None:
    heard: list[str] = []

    class Listening(ScriptedTier):
        def on_request_finished(self, req_context: ReqContext) -> None:
            heard.append("on_request_finished")

        def touch(self, keys: Any, req_context: ReqContext) -> None:
            heard.append("touch")

        def on_schedule_end(self) -> None:
            heard.append("on_schedule_end")

        def serve_external_requests(self, parent: ParentManager) -> None:
            heard.append("serve_external_requests")

    broken = RaisingTier()
    manager = over(broken, Listening())
    broken.raises_in = (method,)
    manager.touch([A], R1)
    manager.on_schedule_end()
    manager.on_request_finished(R1)
    assert ["touch", "serve_external_requests", "on_schedule_end", "on_request_finished"] == heard


# The life of a request


def wait_for_store(manager: TieringOffloadingManager) -> Callable[[], None]:
    begin(manager, B)
    return lambda: manager.complete_store([B], R1)


def wait_for_failing_store(manager: TieringOffloadingManager) -> Callable[[], None]:
    begin(manager, B)
    return lambda: manager.complete_store([B], R1, False)


def wait_for_staged(manager: TieringOffloadingManager) -> Callable[[], None]:
    manager.lookup(A, R1)
    return manager.on_schedule_end


def wait_for_parked(manager: TieringOffloadingManager) -> Callable[[], None]:
    begin(manager, C, request=R2)
    manager.prepare_store([C], R1)
    return lambda: manager.complete_store([C], R2)


def wait_for_parked_and_failing(manager: TieringOffloadingManager) -> Callable[[], None]:
    begin(manager, C, request=R2)
    manager.prepare_store([C], R1)
    return lambda: manager.complete_store([C], R2, False)


def wait_for_reset(manager: TieringOffloadingManager) -> Callable[[], None]:
    wait_for_store(manager)
    wait_for_staged(manager)
    wait_for_parked(manager)
    return manager.reset_cache


def wait_for_nothing(manager: TieringOffloadingManager) -> Callable[[], None]:
    return lambda: None


every_wait = pytest.mark.parametrize(
    "wait",
    [
        wait_for_store,
        wait_for_failing_store,
        wait_for_staged,
        wait_for_parked,
        wait_for_parked_and_failing,
        wait_for_reset,
    ],
)


@every_wait
def test_tiers_are_told_of_a_requests_end_when_nothing_of_it_can_become_a_job_any_more(
    wait: Callable[[TieringOffloadingManager], Callable[[], None]],
) -> None:
    tier, other = holding(A, request_level=True), ScriptedTier()
    manager = over(tier, other)
    end_the_wait = wait(manager)
    manager.on_request_finished(R1)
    told = [list(tier.finished_requests)]
    end_the_wait()
    told += [tier.finished_requests, other.finished_requests]
    assert [[], ["r1"], ["r1"]] == told


@every_wait
def test_a_request_is_not_told_finished_before_it_is(
    wait: Callable[[TieringOffloadingManager], Callable[[], None]],
) -> None:
    tier = holding(A, request_level=True)
    wait(over(tier))()
    assert [] == tier.finished_requests


def test_all_requests_whose_last_promotions_are_submitted_are_finished_then_once_each() -> None:
    near, far = holding(A, C), holding(B)
    manager = over(near, far)
    for key, request in ((A, R1), (B, R1), (C, R2)):
        manager.lookup(key, request)
    for request in (R1, R2):
        manager.on_request_finished(request)
    manager.on_schedule_end()
    assert ["r1", "r2"] == near.finished_requests == far.finished_requests


def test_jobs_that_are_under_way_do_not_keep_a_request() -> None:
    tier = holding(B)
    manager = over(tier)
    store(manager, A)
    manager.lookup(B, R1)
    manager.on_schedule_end()
    manager.on_request_finished(R1)
    assert ["r1"] == tier.finished_requests


def finished_with(tier: ScriptedTier) -> TieringOffloadingManager:
    """A manager whose tiers know that R1 has finished."""
    manager = over(tier)
    manager.on_request_finished(R1)
    return manager


def test_a_request_is_finished_once() -> None:
    tier = ScriptedTier()
    manager = finished_with(tier)
    manager.on_request_finished(R1)
    assert ["r1"] == tier.finished_requests


def test_after_its_end_a_request_finds_what_is_in_the_primary_tier_only() -> None:
    tier = holding(A)
    manager = finished_with(tier)
    store(manager, B, request=R2)
    assert [MISS, HIT] == [manager.lookup(key, R1) for key in (A, B)]
    manager.on_schedule_end()
    assert [("r2", (B,))] == keys_of_jobs(tier)


def test_after_its_end_the_tiers_hear_of_no_touch() -> None:
    touched: list[object] = []

    class Listening(ScriptedTier):
        def touch(self, keys: Any, req_context: ReqContext) -> None:
            touched.append(keys)

    finished_with(Listening()).touch([A], R1)
    assert [] == touched


def test_after_its_end_a_request_stores_into_the_primary_tier_only() -> None:
    tier = ScriptedTier(request_level=True)
    manager = finished_with(tier)
    store(manager, A)
    manager.prepare_store([A], R1)
    assert ([0], {}) == (ref_cnts(manager, A), tier.jobs)


def test_what_a_finished_request_stores_is_cascaded_for_those_who_wait_for_it() -> None:
    tier = ScriptedTier(request_level=True)
    manager = finished_with(tier)
    begin(manager, A)
    manager.prepare_store([A], R2)
    manager.complete_store([A], R1)
    assert [("r2", (A,))] == keys_of_jobs(tier)


def test_a_request_that_is_announced_anew_begins_anew() -> None:
    tier = holding(A)
    manager = finished_with(tier)
    manager.on_new_request(R1)
    answer = manager.lookup(A, R1)
    manager.on_schedule_end()
    manager.on_request_finished(R1)
    assert (HIT_PENDING, ["r1", "r1"]) == (answer, tier.finished_requests)


def test_a_request_that_is_announced_again_goes_on() -> None:
    tier = ScriptedTier()
    manager = over(tier)
    begin(manager, A)
    manager.on_request_finished(R1)
    manager.on_new_request(R1)
    manager.complete_store([A], R1)
    assert ([], [("r1", (A,))]) == (tier.finished_requests, keys_of_jobs(tier))


def test_jobs_are_those_of_the_request_as_it_was_announced_last() -> None:
    tier = holding(A)
    manager = over(tier)
    anew = ReqContext("r1", {"hint": 1})
    manager.on_new_request(anew)
    manager.lookup(A, R1)
    manager.on_schedule_end()
    assert anew is the_job(tier).req_context


def test_the_primary_tier_hears_of_requests_too() -> None:
    heard: list[str] = []

    class Listening(CPUPrimaryTierOffloadingManager):
        def on_new_request(self, req_context: ReqContext) -> RequestOffloadingContext:
            heard.append("begins")
            return super().on_new_request(req_context)

        def on_request_finished(self, req_context: ReqContext) -> None:
            heard.append("ends")

    manager = TieringOffloadingManager(Listening(1))
    manager.on_new_request(R1)
    manager.on_request_finished(R1)
    assert ["begins", "ends"] == heard


def test_a_store_from_before_a_new_life_ends_in_it() -> None:
    tier = ScriptedTier()
    manager = finished_with(tier)
    begin(manager, A)
    manager.on_new_request(R1)
    manager.complete_store([A], R1)
    manager.on_request_finished(R1)
    assert ["r1", "r1"] == tier.finished_requests


def test_a_request_that_was_never_announced_is_served_and_its_end_told() -> None:
    tier = holding(A)
    manager = TieringOffloadingManager(CPUPrimaryTierOffloadingManager(2), [tier])
    manager.touch([A], R1)
    store(manager, B)
    answers = [manager.lookup(key, R1) for key in (A, B)]
    manager.on_schedule_end()
    manager.on_request_finished(R1)
    assert [HIT_PENDING, HIT] == answers
    assert ([("r1", (B,)), ("r1", (A,))], ["r1"]) == (keys_of_jobs(tier), tier.finished_requests)


def test_only_so_many_finished_requests_are_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tiering_manager, "_MAX_TOLD", 1)
    tier = holding(A)
    manager = finished_with(tier)
    manager.on_request_finished(R2)
    assert [HIT_PENDING, MISS] == [manager.lookup(A, R1), manager.lookup(B, R2)]
    assert [{"r2"}, {"r1"}] == [set(manager._told), set(manager._requests)]


# Tiers that want whole requests


@pytest.mark.parametrize("wanted", [(False, False), (False, True), (True, True)])
def test_a_request_is_offloaded_whole_if_any_tier_wants_that(wanted: tuple[bool, bool]) -> None:
    manager = over(*(ScriptedTier(request_level=want) for want in wanted))
    policy = OffloadPolicy.REQUEST_LEVEL if any(wanted) else OffloadPolicy.BLOCK_LEVEL
    assert policy is manager.on_new_request(ReqContext("another")).policy


def test_an_offer_brings_what_is_there_already_to_the_tiers_that_want_it() -> None:
    wanting, other = ScriptedTier(request_level=True), ScriptedTier()
    manager = stored_and_settled(over(wanting, other), A, B)
    manager.prepare_store([B, C, A, B], R2)
    assert ([("r2", (B, A))], {}) == (keys_of_jobs(wanting), other.jobs)


def test_an_offer_that_is_refused_brings_nothing() -> None:
    tier = ScriptedTier(request_level=True)
    manager = stored_and_settled(over(tier, num_blocks=1), A)
    assert None is manager.prepare_store([A, B], R2)
    assert ({}, [0]) == (tier.jobs, ref_cnts(manager, A))


def test_a_tier_that_refuses_what_is_there_does_not_spoil_the_offer() -> None:
    tier = ScriptedTier(request_level=True)
    manager = stored_and_settled(over(tier), A)
    tier.fail_next_submit(Boom())
    output = manager.prepare_store([A, B], R2)
    assert output is not None
    assert ([B], [0, -1]) == (output.keys_to_store, ref_cnts(manager, A, B))


def test_what_others_are_storing_follows_when_it_is_stored() -> None:
    wanting, other = ScriptedTier(request_level=True), ScriptedTier()
    manager = over(wanting, other)
    begin(manager, A, B)
    manager.prepare_store([A, B], R2)
    manager.complete_store([A], R1)
    assert ([("r1", (A,)), ("r2", (A,))], [("r1", (A,))]) == (keys_of_jobs(wanting), keys_of_jobs(other))


def test_all_who_wait_for_a_key_get_it() -> None:
    tier = ScriptedTier(request_level=True)
    manager = over(tier)
    manager.on_new_request(PEER)
    begin(manager, A)
    for request in (R2, PEER):
        manager.prepare_store([A], request)
    manager.complete_store([A], R1)
    assert [("r1", (A,)), ("r2", (A,)), ("peer", (A,))] == keys_of_jobs(tier)


@pytest.mark.parametrize("request_level", [False, True])
def test_nobody_is_parked_on_what_every_tier_will_get_anyway(request_level: bool) -> None:
    manager = over(ScriptedTier(request_level=request_level))
    begin(manager, A)
    if not request_level:
        manager.prepare_store([A], R2)
    assert False is manager.has_pending_work()


def test_what_was_parked_twice_follows_once() -> None:
    tier = ScriptedTier(request_level=True)
    manager = over(tier)
    begin(manager, A)
    for _ in range(2):
        manager.prepare_store([A], R2)
    manager.complete_store([A], R1)
    assert [("r1", (A,)), ("r2", (A,))] == keys_of_jobs(tier)


def test_what_a_request_stores_itself_is_not_brought_twice() -> None:
    tier = ScriptedTier(request_level=True)
    manager = over(tier)
    begin(manager, A)
    manager.prepare_store([A], R1)
    manager.complete_store([A], R1)
    assert ([("r1", (A,))], False) == (keys_of_jobs(tier), bool(manager._parked))


def parked_on_a_promotion(*arrived: OffloadKey) -> tuple[TieringOffloadingManager, ScriptedTier]:
    """R2 wants A and B, which R1 has had promoted; the promotion has ended, and nobody has polled."""
    tier = holding(A, B, request_level=True)
    manager = over(tier, num_blocks=2)
    for key in (A, B):
        manager.lookup(key, R1)
    manager.prepare_store([A, B], R2)
    manager.on_schedule_end()
    tier.finish(the_job(tier).job_id, arrived)
    return manager, tier


def test_what_is_being_promoted_follows_at_the_end_of_the_step_in_which_it_arrived() -> None:
    manager, tier = parked_on_a_promotion(A)
    manager.lookup(A, R1)
    before = keys_of_jobs(tier)
    manager.on_schedule_end()
    assert ([], [("r2", (A,))], False) == (before, keys_of_jobs(tier), bool(manager._parked))


def test_what_has_arrived_for_a_tier_and_was_evicted_since_does_not_follow() -> None:
    manager, tier = parked_on_a_promotion(A, B)
    begin(manager, C, D)
    manager.on_request_finished(R2)
    manager.on_schedule_end()
    assert ({}, ["r2"]) == (tier.jobs, tier.finished_requests)


def test_a_request_waits_for_what_others_promote() -> None:
    manager, tier = parked_on_a_promotion(A, B)
    manager.on_request_finished(R2)
    told = list(tier.finished_requests)
    manager.on_schedule_end()
    assert ([], ["r2"], [("r2", (A, B))]) == (told, tier.finished_requests, keys_of_jobs(tier))


# Peers


def test_a_peer_reads_what_it_was_told_is_there_by_a_job_of_its_tier() -> None:
    tier = ScriptedTier()
    manager = stored_and_settled(over(tier), A)
    answers: list[LookupResult] = []

    def peer(parent: ParentManager) -> None:
        assert RequestOffloadingContext() == parent.on_new_request(PEER)
        answers.append(parent.lookup(A, PEER))
        tier.submit_store(parent.create_store_job([A], PEER))
        parent.on_request_finished(PEER)

    tier.peers.append(peer)
    manager.on_schedule_end()
    pinned = ref_cnts(manager, A)
    tier.finish(the_job(tier).job_id)
    manager.on_schedule_end()
    assert ([HIT], [1], [0]) == (answers, pinned, ref_cnts(manager, A))


def test_the_tier_that_asks_for_a_peer_is_left_out() -> None:
    asking, other = holding(A, B), holding(B)
    manager = over(asking, other)
    answers: list[LookupResult] = []

    def peer(parent: ParentManager) -> None:
        parent.on_new_request(PEER)
        answers.extend(parent.lookup(key, PEER) for key in (A, B))
        parent.on_request_finished(PEER)

    asking.peers.append(peer)
    manager.on_schedule_end()
    assert ([MISS, HIT_PENDING], {}, [("peer", (B,))]) == (answers, asking.jobs, keys_of_jobs(other))
    assert ([], ["peer"]) == (asking.finished_requests, other.finished_requests)


def test_what_one_peer_was_told_is_there_makes_no_room_for_another() -> None:
    asking, other = ScriptedTier(), holding(C)
    manager = stored_and_settled(over(asking, other, num_blocks=2), A, B)

    def first(parent: ParentManager) -> None:
        parent.lookup(A, PEER)

    def second(parent: ParentManager) -> None:
        parent.lookup(C, R2)

    asking.peers += [first, second]
    manager.on_schedule_end()
    assert [0, None, -1] == ref_cnts(manager, A, B, C)


@pytest.mark.parametrize(("key", "error"), [(B, KeyNotResident), (C, NotReady)])
def test_a_peer_that_claims_what_is_not_there_is_refused_and_pins_nothing(
    key: OffloadKey, error: type[Exception]
) -> None:
    manager = stored_and_settled(over(ScriptedTier()), A)
    begin(manager, C)
    with pytest.raises(error):
        manager.create_store_job([A, key], PEER, 0)
    assert ([0], False) == (ref_cnts(manager, A), manager.has_pending_work())


# The whole cache


def test_a_reset_forgets_the_primary_tier_and_what_was_to_come_there() -> None:
    tier = holding(B, C)
    manager = over(tier)
    store(manager, A)
    manager.lookup(B, R1)
    manager.on_schedule_end()
    manager.lookup(C, R1)
    manager.lookup(A, R1)
    manager.reset_cache()
    assert (False, set()) == (manager.has_pending_work(), manager.primary_tier.held)
    manager.on_schedule_end()
    assert ([None] * 3, {}, {A, B, C}) == (ref_cnts(manager, A, B, C), tier.jobs, tier.keys)


def test_a_reset_waits_for_every_tier() -> None:
    tiers = (ScriptedTier(), ScriptedTier())
    manager = over(*tiers)
    store(manager, A)
    manager.reset_cache()
    assert [{}, {}] == [tier.jobs for tier in tiers]


def test_a_reset_lets_all_wait_for_nothing() -> None:
    tier = ScriptedTier(request_level=True)
    manager = over(tier, ScriptedTier())
    begin(manager, A)
    manager.prepare_store([A], R2)
    for request in (R1, R2):
        manager.on_request_finished(request)
    manager.reset_cache()
    assert (["r1", "r2"], False) == (tier.finished_requests, manager.has_pending_work())


def test_a_job_that_is_reported_after_a_reset_is_a_stray() -> None:
    tier = ScriptedTier()
    manager = over(ScriptedTier(), tier)
    store(manager, A)
    tier.drain_jobs = lambda: None  # type: ignore[method-assign]
    manager.reset_cache()
    store(manager, A)
    tier.finish(min(tier.jobs))
    manager.on_schedule_end()
    assert ([2], 1) == (ref_cnts(manager, A), manager.num_stray_results)


def test_requests_go_on_after_a_reset() -> None:
    tier = holding(A, request_level=True)
    manager = over(tier)
    begin(manager, B)
    manager.reset_cache()
    with pytest.raises(KeyNotResident):
        manager.complete_store([B], R1)
    store(manager, B)
    manager.lookup(A, R1)
    manager.on_schedule_end()
    assert ([("r1", (B,)), ("r1", (A,))], []) == (keys_of_jobs(tier), tier.finished_requests)


def test_a_reset_that_a_tier_prevents_has_reset_nothing() -> None:
    tier = RaisingTier()
    manager = stored_and_settled(over(tier), A)
    tier.raises_in = ("drain_jobs",)
    with pytest.raises(Boom):
        manager.reset_cache()
    assert [0] == ref_cnts(manager, A)


def test_jobs_that_a_reset_ends_badly_are_counted() -> None:
    tier = ScriptedTier()
    manager = over(tier)
    store(manager, A)
    tier.fail(the_job(tier).job_id)
    manager.reset_cache()
    assert {TieringOffloadingMetrics.CASCADE_JOB_FAILURES: {("1:scripted",): 1}} == counted(manager)


@pytest.mark.parametrize("fate", ["finish", "fail", "in part", "refuse"])
def test_when_all_jobs_have_ended_all_room_can_be_had(fate: str) -> None:
    tiers = (holding(C, D, request_level=True), holding(E))
    manager = over(*tiers, num_blocks=5)
    if fate == "refuse":
        for tier in tiers:
            for _ in range(5):
                tier.fail_next_submit(Boom())
    store(manager, A, B)
    for key in (C, D, E, A):
        manager.lookup(key, R1)
    manager.prepare_store([A, C], R2)
    manager.on_schedule_end()
    while any(tier.jobs for tier in tiers):
        for tier in tiers:
            for job in list(tier.jobs.values()):
                tier.finish(job.job_id, {"fail": (), "in part": job.keys[:1]}.get(fate))
        manager.on_schedule_end()
    assert False is manager.has_pending_work()
    begin(manager, *(OffloadKey(bytes([n])) for n in range(10, 15)))


# The rest


def test_without_tiers_it_is_its_primary_tier() -> None:
    manager = TieringOffloadingManager(CPUPrimaryTierOffloadingManager(1))
    store(manager, A)
    manager.on_schedule_end()
    assert ([], [MISS, HIT]) == (manager.secondary_tiers, [manager.lookup(key, R1) for key in (B, A)])


@pytest.mark.parametrize("busy", ["nothing", "job", "staged", "parked", "tier"])
def test_the_engine_must_keep_stepping_while_something_is_under_way(busy: str) -> None:
    tier = holding(A, request_level=True)
    manager = over(tier)
    if busy == "job":
        store(manager, B)
    elif busy == "staged":
        manager.lookup(A, R1)
    elif busy == "parked":
        begin(manager, B)
        manager.prepare_store([B], R2)
    elif busy == "tier":
        tier.has_pending_work = lambda: True  # type: ignore[method-assign]
    assert (busy != "nothing") is manager.has_pending_work()


def test_a_touch_reaches_all_tiers() -> None:
    touched: list[tuple[OffloadKey, ...]] = []

    class Listening(ScriptedTier):
        def touch(self, keys: Any, req_context: ReqContext) -> None:
            touched.append(tuple(keys))

    manager = stored_and_settled(over(Listening(), Listening(), num_blocks=2), A, B)
    manager.touch(iter([A]), R1)  # type: ignore[arg-type]
    begin(manager, C)
    assert ([(A,), (A,)], [0, None]) == (touched, ref_cnts(manager, A, B))


def test_events_are_those_of_the_primary_tier_and_then_of_the_others() -> None:
    class Telling(ScriptedTier):
        def take_events(self) -> Iterator[OffloadingEvent]:
            yield OffloadingEvent([B], self.tier_type, False)

    manager = over(Telling("near"), Telling("far"), enable_events=True)
    store(manager, A)
    assert ["CPU", "near", "far"] == [event.medium for event in manager.take_events()]


def test_a_promotion_is_announced_like_a_store() -> None:
    tier = holding(B)
    manager = stored_and_settled(over(tier, num_blocks=1, enable_events=True), A)
    list(manager.take_events())
    manager.lookup(B, R1)
    manager.on_schedule_end()
    settle(manager)
    assert [([A], True), ([B], False)] == [(event.keys, event.removed) for event in manager.take_events()]


@pytest.mark.parametrize(("raises_in", "expected"), [((), ["far", "primary"]), (("shutdown",), ["far"])])
def test_all_tiers_are_shut_down_and_the_primary_one_when_none_may_use_its_memory_any_more(
    raises_in: tuple[str, ...], expected: list[str]
) -> None:
    shut: list[str] = []

    class Primary(CPUPrimaryTierOffloadingManager):
        def shutdown(self) -> None:
            shut.append("primary")

    class Far(ScriptedTier):
        def shutdown(self) -> None:
            shut.append("far")

    near = RaisingTier()
    near.raises_in = raises_in
    with pytest.raises(Boom) if raises_in else nullcontext():
        TieringOffloadingManager(Primary(1), [near, Far()]).shutdown()
    assert expected == shut


def test_secondary_tiers_find_the_memory_of_the_slots_at_the_primary_one() -> None:
    memory = memoryview(bytearray(8)).cast("B", (4, 2))
    assert memory is CPUPrimaryTierOffloadingManager(4, kv_memoryview=memory).get_kv_memoryview()


def test_every_sample_is_declared() -> None:
    refusing = holding(B)
    manager = over(refusing, num_blocks=1)
    for _ in range(2):
        refusing.fail_next_submit(Boom())
    store(manager, A)
    manager.lookup(B, R1)
    manager.on_schedule_end()
    store(manager, A)
    manager.lookup(B, R1)
    sampled = manager.get_stats().data["types"]
    declared = build_metric_definitions() | TIERING_METRIC_DEFINITIONS
    assert set() == set(sampled) - set(declared)
    assert set() == set(TIERING_METRIC_DEFINITIONS) - set(sampled)
    assert all(isinstance(metric, OffloadingCounterMetadata) for metric in TIERING_METRIC_DEFINITIONS.values())


def test_what_was_counted_is_told_once() -> None:
    tier = ScriptedTier()
    manager = over(tier)
    tier.fail_next_submit(Boom())
    store(manager, A)
    assert [True, False] == [bool(counted(manager)) for _ in range(2)]


# The scripted tier


@pytest.mark.parametrize("end", ["finish", "fail"])
def test_a_scripted_job_that_is_not_in_flight_cannot_be_ended(end: str) -> None:
    with pytest.raises(KeyError):
        getattr(ScriptedTier(), end)(0)


def test_a_scripted_store_keeps_all_of_its_keys_or_none() -> None:
    tier = ScriptedTier()
    manager = over(tier)
    store(manager, A, B)
    job_id = the_job(tier).job_id
    tier.finish(job_id, [A])
    assert (set(), [JobResult(job_id, False, [A])]) == (tier.keys, tier.get_finished_jobs())
