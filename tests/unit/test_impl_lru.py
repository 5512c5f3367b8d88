"""The LRU policy by itself: membership, the order `lru-evictable`, and what a rollback needs."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from evictable.impl import BlockStatus, CachePolicy, LRUCachePolicy, OffloadKey
from evictable.impl.policies import CACHE_POLICIES, make_cache_policy

A, B, C, D, X = (OffloadKey(bytes([n])) for n in range(5))


def policy_with(*keys: OffloadKey, ref_cnt: int = 0) -> LRUCachePolicy:
    policy = LRUCachePolicy(cache_capacity=8)
    for block_id, key in enumerate(keys):
        block = BlockStatus(block_id)
        block.ref_cnt = ref_cnt
        policy.insert(key, block)
    return policy


def order(policy: LRUCachePolicy) -> list[OffloadKey]:
    return list(policy.evictable_blocks)


def evicted(policy: LRUCachePolicy, n: int, protected: set[OffloadKey]) -> list[OffloadKey] | None:
    victims = policy.evict(n, protected)
    return None if victims is None else [key for key, _ in victims]


def test_an_idle_block_is_evictable_from_its_insertion() -> None:
    assert [A, B] == order(policy_with(A, B))


@pytest.mark.parametrize("ref_cnt", [-1, 1])
def test_a_busy_block_is_resident_but_not_evictable(ref_cnt: int) -> None:
    policy = policy_with(A, ref_cnt=ref_cnt)
    assert ([A], []) == (list(policy.blocks), order(policy))


def test_marks_move_a_key_out_and_back_to_the_end() -> None:
    policy = policy_with(A, B)
    policy.mark_non_evictable(A)
    left = order(policy)
    policy.mark_evictable(A)
    assert ([B], [B, A]) == (left, order(policy))


def test_get_answers_the_very_block_or_none() -> None:
    policy = policy_with(A)
    assert (policy.blocks[A], None) == (policy.get(A), policy.get(X))


@pytest.mark.parametrize("ref_cnt", [-1, 0, 1])
def test_remove_cleans_both_containers(ref_cnt: int) -> None:
    policy = policy_with(A, ref_cnt=ref_cnt)
    policy.remove(A)
    assert ({}, []) == (policy.blocks, order(policy))


def test_touch_walks_backwards_so_that_the_first_key_is_evicted_last() -> None:
    policy = policy_with(A, B, C, D)
    policy.touch([A, B, C])
    assert [D, C, B, A] == order(policy)


def test_touch_passes_over_busy_and_absent_keys() -> None:
    policy = policy_with(A, B, C)
    policy.mark_non_evictable(A)
    policy.touch([X, A, B])
    assert [C, B] == order(policy)


def test_touch_takes_any_iterable() -> None:
    policy = policy_with(A, B)
    policy.touch(iter([A]))
    assert [B, A] == order(policy)


def test_evict_takes_the_first_unprotected_in_order_with_their_blocks() -> None:
    policy = policy_with(A, B, C, D)
    expected = [(A, policy.blocks[A]), (C, policy.blocks[C])]
    assert expected == policy.evict(2, {B})
    assert ([B, D], [B, D]) == (list(policy.blocks), order(policy))


def test_evict_of_more_than_there_is_changes_nothing() -> None:
    policy = policy_with(A, B)
    assert evicted(policy, 2, {A}) is None
    assert ([A, B], [A, B]) == (list(policy.blocks), order(policy))


@pytest.mark.parametrize("protected", [set(), {A}])
def test_evict_of_nothing_is_an_empty_answer(protected: set[OffloadKey]) -> None:
    assert [] == evicted(policy_with(A), 0, protected)


def test_clear_forgets_busy_blocks_too() -> None:
    policy = policy_with(A, ref_cnt=1)
    policy.insert(B, BlockStatus(1))
    policy.clear()
    assert ({}, []) == (policy.blocks, order(policy))


def test_restore_puts_unpinned_and_reinserted_keys_back_in_place() -> None:
    policy = policy_with(A, B, C, D)
    policy.touch([D, B])
    policy.touch([C])
    before = order(policy)
    token = policy.checkpoint()
    policy.mark_non_evictable(B)
    victims = policy.evict(1, {A}) or []
    policy.mark_evictable(B)
    for key, block in victims:
        policy.insert(key, block)
    policy.restore(token)
    assert before == order(policy)


def test_the_order_goes_on_as_usual_after_a_restore() -> None:
    policy = policy_with(A, B, C)
    token = policy.checkpoint()
    policy.mark_non_evictable(A)
    policy.mark_evictable(A)
    policy.restore(token)
    policy.touch([A])
    assert [B, C, A] == order(policy)


def test_only_the_latest_checkpoint_can_be_restored() -> None:
    policy = policy_with(A)
    token = policy.checkpoint()
    policy.checkpoint()
    with pytest.raises(ValueError, match="latest checkpoint"):
        policy.restore(token)


def test_without_checkpoints_nothing_is_noted_for_a_rollback() -> None:
    policy = policy_with(A)
    policy.mark_non_evictable(A)
    assert policy._departed is None


def test_the_marks_of_the_base_class_do_nothing() -> None:
    policy = policy_with(A)
    CachePolicy.mark_non_evictable(policy, A)
    CachePolicy.mark_evictable(policy, B)
    assert [A] == order(policy)


@pytest.mark.parametrize("choice", ["lru", LRUCachePolicy, lambda cache_capacity: LRUCachePolicy(cache_capacity)])
def test_a_policy_is_chosen_by_name_by_class_or_by_factory(choice: str | Callable[..., CachePolicy]) -> None:
    assert isinstance(make_cache_policy(choice, 4), LRUCachePolicy)


def test_an_unknown_policy_name_is_refused_with_those_supported() -> None:
    with pytest.raises(ValueError, match="unknown cache policy 'fifo'; give one of ") as refusal:
        make_cache_policy("fifo", 4)
    assert all(name in str(refusal.value) for name in CACHE_POLICIES)


def test_a_block_is_born_pending_and_without_a_dict() -> None:
    block = BlockStatus(3)
    assert (3, -1, False, False) == (block.block_id, block.ref_cnt, block.is_ready, hasattr(block, "__dict__"))


def test_a_block_shows_what_it_is() -> None:
    assert "BlockStatus(block_id=3, ref_cnt=-1, writer='r1')" == repr(BlockStatus(3, "r1"))
