"""What the manager answers and keeps when callers and collaborators behave."""

from __future__ import annotations

import ast
from array import array
from collections.abc import Collection
from itertools import islice
from pathlib import Path

import pytest

import evictable.impl
from evictable.impl import (
    CPULoadStoreSpec,
    CPUOffloadingManager,
    CPUOffloadingMetrics,
    LinkedOffloadingManager,
    LoadStoreSpec,
    LookupResult,
    LRUCachePolicy,
    OffloadingEvent,
    OffloadingManager,
    OffloadKey,
    PrepareStoreOutput,
    ReqContext,
    RequestOffloadingContext,
    get_offload_block_hash,
    get_offload_group_idx,
    make_offload_key,
)

A, B, C, D, E = (OffloadKey(bytes([n])) for n in range(5))
R1, R2 = ReqContext("r1"), ReqContext("r2")


def manager_with(*keys: OffloadKey, num_blocks: int = 4) -> CPUOffloadingManager:
    """A manager that has stored `keys` in this order, with its events drained."""
    manager = CPUOffloadingManager(num_blocks, enable_events=True)
    manager.prepare_store(keys, R1)
    manager.complete_store(keys, R1)
    list(manager.take_events())
    return manager


@pytest.mark.parametrize("kind", [CPUOffloadingManager, LinkedOffloadingManager])
def test_keys_may_come_from_what_can_be_read_once(kind: type[CPUOffloadingManager | LinkedOffloadingManager]) -> None:
    manager = kind(4, store_threshold=2)
    for _ in range(2):
        stored = manager.prepare_store(iter((A, B)), R1)  # type: ignore[arg-type]
    assert stored is not None
    manager.complete_store(iter((A, B)), R1)  # type: ignore[arg-type]
    loaded = manager.prepare_load(iter((A, A)), R1)  # type: ignore[arg-type]
    manager.complete_load(iter((A, A)), R1)  # type: ignore[arg-type]
    assert ([A, B], [0, 0]) == (stored.keys_to_store, list(loaded.block_ids))
    assert 2 == manager._num_evictable_cache_blocks


def order(manager: CPUOffloadingManager) -> list[OffloadKey]:
    assert isinstance(manager._policy, LRUCachePolicy)
    return list(manager._policy.evictable_blocks)


def counters(manager: CPUOffloadingManager) -> tuple[int, int]:
    return manager._num_evictable_cache_blocks, manager._num_write_pending_blocks


def offer(manager: CPUOffloadingManager, *keys: OffloadKey, request: ReqContext = R2) -> PrepareStoreOutput:
    output = manager.prepare_store(keys, request)
    assert output is not None
    return output


def block_ids(output: PrepareStoreOutput) -> list[int]:
    assert isinstance(output.store_spec, CPULoadStoreSpec)
    return output.store_spec.block_ids.tolist()


# Construction


def test_the_constructor_takes_the_published_arguments_by_position() -> None:
    manager = CPUOffloadingManager(2, "lru", True, 1, 10)
    assert (2, "CPU", 1, 10) == (
        manager._num_blocks,
        manager.medium,
        manager.store_threshold,
        manager.max_tracker_size,
    )


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"num_blocks": -1}, "give the number of slots"),
        ({"num_blocks": 1, "max_tracker_size": 0}, "give the number of keys to remember"),
        ({"num_blocks": 1, "cache_policy": "fifo"}, "unknown cache policy"),
    ],
)
def test_what_it_cannot_do_is_refused_at_construction(arguments: dict[str, object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        CPUOffloadingManager(**arguments)  # type: ignore[arg-type]


def test_a_policy_class_can_be_given_instead_of_a_name() -> None:
    class Mine(LRUCachePolicy):
        pass

    assert isinstance(CPUOffloadingManager(1, Mine)._policy, Mine)


# Lookup and the life of a request


def test_lookup_follows_a_block_through_its_store() -> None:
    manager = CPUOffloadingManager(1)
    answers = [manager.lookup(A, R2)]
    manager.prepare_store([A], R1)
    answers.append(manager.lookup(A, R2))
    manager.complete_store([A], R1)
    answers.append(manager.lookup(A, R2))
    assert [LookupResult.MISS, LookupResult.HIT_PENDING, LookupResult.HIT] == answers


def test_a_new_request_offloads_block_by_block() -> None:
    assert RequestOffloadingContext() == CPUOffloadingManager(1).on_new_request(R1)


def test_completions_may_follow_the_end_of_their_request() -> None:
    manager = manager_with(A)
    manager.prepare_load([A], R2)
    offer(manager, B)
    manager.on_request_finished(R2)
    manager.complete_load([A], R2)
    manager.complete_store([B], R2)
    assert [A, B] == order(manager)


def test_calls_for_a_finished_request_act_as_ever() -> None:
    manager = manager_with(A)
    manager.on_request_finished(R2)
    manager.prepare_load([A], R2)
    output = offer(manager, B)
    assert (LookupResult.HIT_PENDING, [B]) == (manager.lookup(B, R2), output.keys_to_store)


def test_positions_that_a_request_gives_to_its_keys_decide_nothing() -> None:
    manager = manager_with(A, B, num_blocks=2)
    request = ReqContext("positioned")
    for key, position in ((A, 32), (B, 16)):
        request.set_offload_key_position(key, position)
    manager.touch([A, B], request)
    manager.on_request_finished(request)
    assert [B] == offer(manager, C, request=request).evicted_keys


def test_it_never_asks_for_further_steps() -> None:
    manager = CPUOffloadingManager(1)
    manager.on_schedule_end()
    manager.shutdown()
    assert manager.has_pending_work() is False


class Bare(OffloadingManager):
    """No more than what a manager must have."""

    def on_new_request(self, req_context: ReqContext) -> RequestOffloadingContext:
        return RequestOffloadingContext()

    def lookup(self, key: OffloadKey, req_context: ReqContext) -> LookupResult:
        return LookupResult.MISS

    def prepare_load(self, keys: Collection[OffloadKey], req_context: ReqContext) -> LoadStoreSpec:
        return CPULoadStoreSpec([])

    def prepare_store(self, keys: Collection[OffloadKey], req_context: ReqContext) -> PrepareStoreOutput | None:
        return None


def test_all_other_calls_have_a_default_that_does_nothing() -> None:
    manager = Bare()
    manager.on_request_finished(R1)
    manager.touch([], R1)
    manager.complete_load([], R1)
    manager.complete_store([], R1)
    manager.reset_cache()
    assert ((), None) == (manager.take_events(), manager.get_stats())


# Stores


def test_a_store_takes_fresh_slots_and_pends_until_it_completes() -> None:
    manager = CPUOffloadingManager(4)
    output = offer(manager, A, B)
    assert ([A, B], [0, 1], []) == (output.keys_to_store, block_ids(output), output.evicted_keys)
    assert ((0, 2), []) == (counters(manager), order(manager))


def test_completed_stores_become_evictable_in_the_order_of_the_completion() -> None:
    manager = CPUOffloadingManager(4)
    offer(manager, A, B, C)
    manager.complete_store([C, A], R2)
    manager.complete_store([B], R2)
    assert ([C, A, B], (3, 0)) == (order(manager), counters(manager))


def test_a_key_repeated_in_an_offer_counts_once() -> None:
    assert [A, B] == offer(CPUOffloadingManager(2), A, B, A).keys_to_store


def test_ready_pinned_and_pending_keys_are_not_stored_again() -> None:
    manager = manager_with(A, B)
    manager.prepare_load([B], R1)
    offer(manager, C, request=R1)
    assert [D] == offer(manager, A, B, C, D).keys_to_store


def test_an_offer_of_resident_keys_is_answered_with_nothing_to_do() -> None:
    output = offer(manager_with(A), A)
    assert ([], [], []) == (output.keys_to_store, block_ids(output), output.evicted_keys)


def test_eviction_takes_the_oldest_outside_the_offer_and_reuses_its_slot() -> None:
    manager = manager_with(A, B, C, num_blocks=3)
    output = offer(manager, A, D)
    assert ([D], [1], [B]) == (output.keys_to_store, block_ids(output), output.evicted_keys)
    assert ([A, C], (2, 1)) == (order(manager), counters(manager))


def test_no_more_is_evicted_than_needed() -> None:
    manager = manager_with(A, B, num_blocks=3)
    assert [A] == offer(manager, C, D).evicted_keys


def test_every_evictable_key_outside_the_offer_can_go() -> None:
    manager = manager_with(A, B, C, num_blocks=3)
    manager.prepare_load([C], R1)
    assert [A, B] == offer(manager, D, E).evicted_keys


@pytest.mark.parametrize("keys", [(D, E), (A, D, E), (D, E, A, E)])
def test_a_store_that_does_not_fit_whole_is_refused(keys: tuple[OffloadKey, ...]) -> None:
    manager = manager_with(A, B, C, num_blocks=3)
    manager.prepare_load([B, C], R1)
    assert manager.prepare_store(keys, R2) is None
    assert ([A], (1, 0)) == (order(manager), counters(manager))


def test_a_refusal_by_the_counter_never_walks_the_list() -> None:
    class Unwalkable(LRUCachePolicy):
        def evict(self, n: int, protected: set[OffloadKey]) -> None:
            raise RuntimeError("evict was called")

    manager = CPUOffloadingManager(1, Unwalkable)
    manager.prepare_store([A], R1)
    manager.complete_store([A], R1)
    assert manager.prepare_store([A, B], R2) is None


def test_a_refusal_by_the_policy_is_passed_on() -> None:
    class Reluctant(LRUCachePolicy):
        def evict(self, n: int, protected: set[OffloadKey]) -> None:
            return None

    manager = CPUOffloadingManager(1, Reluctant)
    manager.prepare_store([A], R1)
    manager.complete_store([A], R1)
    assert manager.prepare_store([B], R2) is None
    assert LookupResult.HIT == manager.lookup(A, R2)


def test_a_failed_store_gives_its_slot_back() -> None:
    manager = CPUOffloadingManager(1)
    offer(manager, A)
    manager.complete_store([A], R2, success=False)
    assert (LookupResult.MISS, [0], (0, 0)) == (manager.lookup(A, R2), manager._free_list, counters(manager))
    assert [0] == block_ids(offer(manager, B))


def test_fresh_slots_are_handed_out_before_used_ones() -> None:
    manager = CPUOffloadingManager(3)
    offer(manager, A)
    manager.complete_store([A], R2, success=False)
    assert [1, 2, 0] == block_ids(offer(manager, A, B, C))


def test_without_slots_everything_new_is_refused() -> None:
    manager = CPUOffloadingManager(0)
    assert manager.prepare_store([A], R1) is None
    assert 0.0 == manager.get_stats().data["data"][CPUOffloadingMetrics.CPU_CACHE_USAGE_PERC][()]


# Loads


def test_a_load_answers_one_block_id_for_each_occurrence() -> None:
    spec = manager_with(A, B, C).prepare_load([C, A, C], R2)
    assert CPULoadStoreSpec([2, 0, 2]) == spec


def test_a_pinned_key_leaves_the_list_once_and_comes_back_at_the_end_with_its_last_pin() -> None:
    manager = manager_with(A, B)
    manager.prepare_load([A, A], R1)
    manager.prepare_load([A], R2)
    seen = [(order(manager), counters(manager))]
    manager.complete_load([A, A], R1)
    seen.append((order(manager), counters(manager)))
    manager.complete_load([A], R2)
    seen.append((order(manager), counters(manager)))
    assert [([B], (1, 0)), ([B], (1, 0)), ([B, A], (2, 0))] == seen


def test_loads_become_evictable_in_the_order_in_which_their_last_pins_go() -> None:
    manager = manager_with(A, B)
    manager.prepare_load([A, B, A], R2)
    manager.complete_load([A, B, A], R2)
    assert [B, A] == order(manager)


def test_after_touch_load_and_completion_the_head_of_the_prefix_goes_first() -> None:
    manager = manager_with(A, B, C, num_blocks=3)
    manager.touch([A, B, C], R2)
    manager.prepare_load([A, B, C], R2)
    manager.complete_load([A, B, C], R2)
    assert [A] == offer(manager, D).evicted_keys


def test_a_touch_spares_an_idle_key() -> None:
    manager = manager_with(A, B, num_blocks=2)
    manager.touch([A], R2)
    assert [B] == offer(manager, C).evicted_keys


def test_loads_in_flight_are_forgotten_as_they_complete() -> None:
    manager = manager_with(A, B)
    manager.prepare_load([A, A, B], R2)
    manager.complete_load([A, B], R2)
    kept = {request: dict(loads) for request, loads in manager._loads.items()}
    manager.complete_load([A], R2)
    assert ({"r2": {A: 1}}, {}) == (kept, manager._loads)


# Events


def test_events_tell_what_was_stored_and_removed() -> None:
    manager = manager_with(A, B, num_blocks=2)
    offer(manager, C)
    manager.complete_store([C], R2)
    expected = [OffloadingEvent([A], "CPU", removed=True), OffloadingEvent([C], "CPU", removed=False)]
    assert expected == list(manager.take_events())


def test_a_failed_store_is_no_event() -> None:
    manager = manager_with()
    offer(manager, A)
    manager.complete_store([A], R2, success=False)
    assert [] == list(manager.take_events())


def test_a_drain_dropped_half_way_loses_and_repeats_nothing() -> None:
    manager = manager_with()
    for key in (A, B, C):
        offer(manager, key)
        manager.complete_store([key], R2)
    first = [event.keys for event in islice(manager.take_events(), 2)]
    assert ([[A], [B]], [[C]]) == (first, [event.keys for event in manager.take_events()])


def test_an_event_recorded_during_a_drain_is_delivered_by_it() -> None:
    manager = manager_with()
    offer(manager, A, B)
    manager.complete_store([A], R2)
    drain = iter(manager.take_events())
    first = next(drain)
    manager.complete_store([B], R2)
    assert [[A], [B]] == [first.keys, *(event.keys for event in drain)]


def test_an_event_does_not_change_with_the_answer_it_reports() -> None:
    manager = manager_with(A, num_blocks=1)
    offer(manager, B).evicted_keys.clear()
    assert [[A]] == [event.keys for event in manager.take_events()]


def test_without_events_nothing_is_recorded() -> None:
    manager = CPUOffloadingManager(1)
    offer(manager, A)
    manager.complete_store([A], R2)
    assert (None, []) == (manager.events, list(manager.take_events()))


# The whole cache


def test_a_reset_forgets_blocks_slots_counters_transfers_and_events() -> None:
    manager = manager_with(A, B)
    offer(manager, C)
    manager.complete_store([C], R2)
    manager.prepare_load([A], R2)
    offer(manager, D)
    manager.complete_store([D], R2, success=False)
    offer(manager, E)
    manager.reset_cache()
    assert (LookupResult.MISS, [], (0, 0), {}, []) == (
        manager.lookup(A, R2),
        order(manager),
        counters(manager),
        manager._loads,
        list(manager.take_events()),
    )
    assert [0, 1, 2, 3] == block_ids(offer(manager, A, B, C, D))


def test_empty_batches_are_answered_and_change_nothing() -> None:
    manager = manager_with(A)
    output = offer(manager)
    loaded = manager.prepare_load([], R2)
    manager.touch([], R2)
    manager.complete_load([], R2)
    manager.complete_store([], R2)
    manager.complete_store([], R2, success=False)
    assert (PrepareStoreOutput([], CPULoadStoreSpec([]), []), CPULoadStoreSpec([])) == (output, loaded)
    assert ([A], (1, 0), {}, []) == (order(manager), counters(manager), manager._loads, list(manager.take_events()))


# The vocabulary


def test_a_key_holds_its_hash_and_its_group() -> None:
    key = make_offload_key(b"hash", 258)
    assert (b"hash\x00\x00\x01\x02", b"hash", 258) == (key, get_offload_block_hash(key), get_offload_group_idx(key))


def test_a_request_knows_the_positions_of_its_keys() -> None:
    request = ReqContext("r1")
    request.set_offload_key_position(A, 16)
    assert (16, None) == (request.get_offload_key_position(A), request.get_offload_key_position(B))


def test_a_request_keeps_one_value_of_each_type() -> None:
    request = ReqContext("r1")
    for value in (1, 2, "text"):
        request.set_state(value)
    assert (2, "text", None) == (request.get_state(int), request.get_state(str), request.get_state(float))


def test_block_ids_are_64_bit_integers_behind_the_buffer_protocol() -> None:
    ids = CPULoadStoreSpec([1, 2]).block_ids
    view = memoryview(ids)
    view[0] = 7
    assert ("q", 8, array("q", [7, 2])) == (view.format, view.itemsize, ids)


def test_no_guard_vanishes_under_python_o() -> None:
    sources = Path(evictable.impl.__path__[0]).rglob("*.py")
    asserts = [
        f"{source.name}:{node.lineno}"
        for source in sources
        for node in ast.walk(ast.parse(source.read_text(encoding="utf-8")))
        if isinstance(node, ast.Assert)
    ]
    assert [] == asserts


def test_half_of_what_restores_an_order_is_none_of_it() -> None:
    class Halfway(LRUCachePolicy):
        restore = property()  # type: ignore[assignment]

        def mark_evictable(self, key: OffloadKey) -> None:
            raise RuntimeError("not today")

    manager = CPUOffloadingManager(2, cache_policy=Halfway)
    manager.prepare_store([OffloadKey(b"a")], ReqContext("r1"))
    with pytest.raises(RuntimeError, match="not today"):
        manager.complete_store([OffloadKey(b"a")], ReqContext("r1"))
