"""The manager on flat lists: it does what the one with a policy does, by shorter ways."""

from __future__ import annotations

from typing import Any

import pytest
from twins import differences

from evictable.impl import (
    CPUOffloadingManager,
    LinkedOffloadingManager,
    LRUCachePolicy,
    NotPinned,
    ReqContext,
    StaleCompletion,
    make_manager,
)
from evictable.specs import subjects
from evictable.specs.callers.disciplines import CARELESS, CONTRACT
from evictable.specs.errors import UsageError
from evictable.specs.proofs import subjects as texts
from evictable.specs.proofs.state import NoProof
from evictable.specs.prove import EXHAUSTIVE, engines_of, load_engine
from evictable.specs.subjects.base import Setup
from evictable.specs.subjects.builtin import BUILT_IN
from evictable.specs.subjects.linked import LINKED
from evictable.specs.subjects.policies import load_policy

A, B, C, D = (bytes([number]) * 8 for number in range(4))
ONE, OTHER = ReqContext("one"), ReqContext("other")


def stored(*keys: bytes, policy: str = "lru", capacity: int = 4) -> LinkedOffloadingManager:
    manager = LinkedOffloadingManager(capacity, policy, enable_events=True)
    manager.prepare_store(keys, ONE)
    manager.complete_store(keys, ONE)
    return manager


SETUPS = [Setup(3, policy, store_threshold=threshold) for policy in ("lru", "arc") for threshold in (1, 2)]
each_setup = pytest.mark.parametrize("setup", SETUPS, ids=lambda setup: f"{setup.policy}-{setup.store_threshold}")
each_caller = pytest.mark.parametrize("discipline", [CONTRACT, CARELESS])


@each_setup
@each_caller
def test_it_differs_in_nothing_from_the_manager_with_a_policy(setup: Setup, discipline: str) -> None:
    assert [] == differences(BUILT_IN, LINKED, setup, discipline, 2_000, 1)


@pytest.mark.slow
@each_setup
@each_caller
def test_nor_in_a_million_calls_all_in_all(setup: Setup, discipline: str) -> None:
    assert [] == differences(BUILT_IN, LINKED, setup, discipline, 125_000, 2)


@pytest.mark.parametrize(
    "name", ["linked-stored-and-chained-backwards", "linked-pins-kept", "linked-only-the-latest-preparation"]
)
def test_a_defect_is_a_difference(name: str) -> None:
    assert [] != differences(BUILT_IN, subjects.load(f"mutant:{name}"), Setup(3), CARELESS, 20_000, 1)


def test_the_loads_of_a_request_end_in_any_order_and_by_parts() -> None:
    manager = stored(A, B, C)
    for keys in ([A, B], [B, C], [A, B]):
        manager.prepare_load(keys, ONE)
    for keys in ([B, C], [B], [A, A], [B]):
        manager.complete_load(keys, ONE)
    assert 3 == manager._num_evictable_cache_blocks
    with pytest.raises(StaleCompletion):
        manager.complete_load([A], ONE)


def test_more_preparations_than_are_compared_are_counted() -> None:
    manager = stored(A, B)
    for _ in range(100):
        manager.prepare_load([A, B], ONE)
    for _ in range(50):
        manager.complete_load([B, A, A, B], ONE)
    with pytest.raises(StaleCompletion):
        manager.complete_load([A], ONE)
    manager.prepare_load([A], ONE)
    with pytest.raises(NotPinned):
        manager.complete_load([A, A], ONE)


def test_the_same_keys_of_two_requests_are_kept_apart() -> None:
    manager = stored(A)
    manager.prepare_load([A], ONE)
    with pytest.raises(StaleCompletion):
        manager.complete_load([A], OTHER)


def test_a_ticket_is_good_once_also_among_preparations_that_look_alike() -> None:
    manager = stored(A)
    first, second = (manager.prepare_load([A], ONE).ticket for _ in range(2))
    manager.complete_load([A], ONE, ticket=second)
    with pytest.raises(StaleCompletion):
        manager.complete_load([A], ONE, ticket=second)
    manager.complete_load([A], ONE, ticket=first)
    assert 1 == manager._num_evictable_cache_blocks


def test_what_the_caller_does_with_its_list_afterwards_is_no_matter() -> None:
    manager = LinkedOffloadingManager(4)
    keys = [A, B]
    output = manager.prepare_store(keys, ONE)
    assert output is not None
    keys.clear()
    output.keys_to_store.clear()
    manager.complete_store([A, B], ONE)
    assert 2 == manager._num_evictable_cache_blocks


def test_an_arc_eviction_passes_over_a_block_in_use_once() -> None:
    manager = stored(A, B, C, D, policy="arc")
    manager.prepare_load([A, B], ONE)
    assert manager.prepare_store([b"new"], ONE) is not None
    slots = manager._slots
    # C has gone; A and B, which are in use, are no longer among the links.
    linked, slot = [], slots.next[slots.capacity]
    while slot != slots.capacity:
        linked.append(slots.owner[slot])
        slot = slots.next[slot]
    assert [D, b"new"] == linked


def test_and_takes_it_first_when_it_is_idle_again() -> None:
    manager = stored(A, B, C, D, policy="arc")
    manager.prepare_load([A, B], ONE)
    manager.prepare_store([b"new"], ONE)
    manager.complete_load([A, B], ONE)
    output = manager.prepare_store([b"newer", b"newest"], ONE)
    assert output is not None
    assert [A, B] == output.evicted_keys


@pytest.mark.parametrize("policy", ["lru", "arc"])
def test_a_name_is_served_by_flat_lists_and_a_class_by_the_manager_that_takes_one(policy: str) -> None:
    assert LinkedOffloadingManager is type(make_manager(4, policy, enable_events=True))
    assert CPUOffloadingManager is type(make_manager(4, LRUCachePolicy))


@pytest.mark.parametrize("policy", ["fifo", LRUCachePolicy])
def test_another_policy_is_told_where_to_go(policy: Any) -> None:
    with pytest.raises(ValueError, match=r"unknown cache policy .*; give one of .*, or a policy class to CPUOffload"):
        LinkedOffloadingManager(4, policy)


def test_without_slots_every_store_is_refused() -> None:
    assert all(LinkedOffloadingManager(0, policy).prepare_store([A], ONE) is None for policy in ("lru", "arc"))


@pytest.mark.parametrize("name", ["impl:linked", "mutant:linked-pins-kept"])
def test_what_cannot_be_proved_of_flat_lists_is_not_claimed(name: str) -> None:
    assert (EXHAUSTIVE,) == engines_of(name)
    with pytest.raises(NoProof):
        texts.load(name)
    small = [theorem.name for theorem in load_engine(EXHAUSTIVE).theorems(name, full=True)]
    assert [] != small
    assert [] == [theorem for theorem in small if "tier" in theorem]


def test_it_has_no_policy_to_be_called_by_itself() -> None:
    with pytest.raises(UsageError, match="it has no cache policy; leave out --level policy"):
        load_policy("impl:linked", "lru")


def test_nor_tiers_below_it() -> None:
    with pytest.raises(UsageError, match="it is no primary tier; leave out --tiers"):
        LINKED.make(Setup(3, tiers=1))
