"""The ARC policy by itself: its four lists, its target, and what a rollback needs."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evictable.impl import ARCCachePolicy, BlockStatus, OffloadKey
from evictable.impl.errors import PolicyMisuse

A, B, C, D, E, X = (OffloadKey(bytes([n])) for n in range(6))
KEYS = (A, B, C, D, E)

Lists = tuple[list[OffloadKey], list[OffloadKey], list[OffloadKey], list[OffloadKey]]


def policy_with(*keys: OffloadKey, capacity: int = 4, ref_cnt: int = 0) -> ARCCachePolicy:
    policy = ARCCachePolicy(cache_capacity=capacity)
    for key in keys:
        insert(policy, key, ref_cnt)
    return policy


def insert(policy: ARCCachePolicy, key: OffloadKey, ref_cnt: int = 0) -> None:
    block = BlockStatus(0)
    block.ref_cnt = ref_cnt
    policy.insert(key, block)


def evicted(policy: ARCCachePolicy, n: int, *protected: OffloadKey) -> list[OffloadKey] | None:
    victims = policy.evict(n, set(protected))
    return None if victims is None else [key for key, _ in victims]


def lists(policy: ARCCachePolicy) -> Lists:
    return list(policy.t1), list(policy.t2), list(policy.b1), list(policy.b2)


def state(policy: ARCCachePolicy) -> tuple[object, ...]:
    return *lists(policy), policy.target_t1_size, dict(policy.t1), dict(policy.t2)


def pin(policy: ARCCachePolicy, *keys: OffloadKey) -> None:
    for key in keys:
        block = policy.get(key)
        assert block is not None
        block.ref_cnt = 1


# Membership


def test_new_blocks_enter_the_end_of_t1() -> None:
    assert ([A, B], [], [], []) == lists(policy_with(A, B))


def test_get_finds_a_block_in_either_list_but_no_ghost() -> None:
    policy = policy_with(A, B, C)
    policy.touch([B])
    block = policy.t2[B]
    policy.evict(1, set())
    assert (None, block, policy.t1[C]) == (policy.get(A), policy.get(B), policy.get(C))


def test_remove_leaves_no_ghost() -> None:
    policy = policy_with(A, B)
    policy.touch([B])
    policy.remove(A)
    policy.remove(B)
    assert ([], [], [], []) == lists(policy)


def test_remove_of_a_ghost_is_an_error() -> None:
    policy = policy_with(A)
    policy.evict(1, set())
    with pytest.raises(PolicyMisuse, match=r"remove: key .* is not resident"):
        policy.remove(A)


@pytest.mark.parametrize("promoted", [[], [A]], ids=["b1", "b2"])
def test_insert_removes_the_ghost(promoted: list[OffloadKey]) -> None:
    policy = policy_with(A)
    policy.touch(promoted)
    policy.evict(1, set())
    insert(policy, A)
    assert ([A], [], [], []) == lists(policy)


def test_clear_forgets_blocks_ghosts_and_target() -> None:
    policy = policy_with(A, B, C)
    policy.touch([C])
    policy.evict(1, set())
    policy.touch([A])
    policy.clear()
    assert ([], [], [], [], 0.0) == (*lists(policy), policy.target_t1_size)


# Touch


def test_a_second_use_promotes_and_the_first_key_touched_ends_last() -> None:
    policy = policy_with(A, B, C)
    policy.touch([A, B])
    assert ([C], [B, A], [], []) == lists(policy)


def test_a_further_use_moves_to_the_end_of_t2() -> None:
    policy = policy_with(A, B)
    policy.touch([A, B])
    policy.touch([B])
    assert ([], [A, B], [], []) == lists(policy)


def test_a_pending_block_stays_in_t1_and_moves_to_its_end() -> None:
    policy = policy_with(A, B, ref_cnt=-1)
    policy.touch([A])
    assert ([B, A], [], [], []) == lists(policy)


def test_a_pinned_block_is_promoted_like_an_idle_one() -> None:
    policy = policy_with(A, ref_cnt=1)
    policy.touch([A])
    assert ([], [A], [], []) == lists(policy)


def test_touch_passes_over_unknown_keys_and_takes_any_iterable() -> None:
    policy = policy_with(A)
    policy.touch(iter([X, A]))
    assert ([], [A], [], []) == lists(policy)


def test_a_ghost_of_t1_raises_the_target_by_at_least_one() -> None:
    policy = policy_with(A, B)
    policy.evict(2, set())
    policy.touch([A])
    assert (1.0, [B, A]) == (policy.target_t1_size, list(policy.b1))


def test_a_ghost_of_t2_lowers_the_target_by_the_proportion_of_the_ghosts() -> None:
    policy = policy_with(A, B, C, D)
    policy.touch([D])
    policy.evict(3, {D})
    policy.evict(1, set())
    policy.target_t1_size = 3.5
    policy.touch([D])
    assert ([A, B, C], [D], 0.5) == (list(policy.b1), list(policy.b2), policy.target_t1_size)


def test_a_ghost_of_t1_raises_the_target_by_the_proportion_of_the_ghosts() -> None:
    policy = policy_with(A, B, C, D)
    policy.touch([B, C, D])
    policy.evict(4, set())
    policy.touch([A])
    assert 3.0 == policy.target_t1_size


@pytest.mark.parametrize(("start", "ghosts", "bound"), [(3.5, "b1", 4.0), (0.5, "b2", 0.0)])
def test_the_target_stays_between_nothing_and_the_capacity(start: float, ghosts: str, bound: float) -> None:
    policy = policy_with(A, B)
    policy.touch([B])
    policy.evict(2, set())
    policy.target_t1_size = start
    policy.touch(list(getattr(policy, ghosts)))
    assert bound == policy.target_t1_size


# Evict


def test_t1_gives_while_it_is_at_least_the_target_then_t2() -> None:
    policy = policy_with(A, B, C, D)
    policy.touch([C, D])
    policy.target_t1_size = 1.9  # counts as 1
    assert [A, B, D] == evicted(policy, 3)
    assert ([], [C], [A, B], [D]) == lists(policy)


def test_below_the_target_t2_gives() -> None:
    policy = policy_with(A, B)
    policy.touch([B])
    policy.target_t1_size = 2.0
    assert [B] == evicted(policy, 1)


def test_below_the_target_t1_gives_when_t2_has_nothing_idle() -> None:
    policy = policy_with(A, B)
    policy.touch([B])
    pin(policy, B)
    policy.target_t1_size = 2.0
    assert [A] == evicted(policy, 1)


def test_above_the_target_t2_gives_when_t1_has_nothing_idle() -> None:
    policy = policy_with(A, B)
    policy.touch([B])
    pin(policy, A)
    assert [B] == evicted(policy, 1)


@pytest.mark.parametrize("ref_cnt", [-1, 1])
def test_blocks_in_use_and_protected_ones_are_passed_over_and_keep_their_place(ref_cnt: int) -> None:
    policy = policy_with(A, ref_cnt=ref_cnt)
    for key in (B, C, D):
        insert(policy, key)
    assert [C] == evicted(policy, 1, B)
    assert ([A, B, D], [], [C], []) == lists(policy)


def test_the_offer_of_four_that_vllm_refused_to_0_29_is_served() -> None:
    policy = policy_with(A, capacity=3)
    policy.evict(1, set())
    for key in (B, C, D):
        insert(policy, key)
    policy.touch([A])
    policy.touch([A])
    assert [B, C, D] == evicted(policy, 3, A)


def test_evict_of_more_than_there_is_changes_nothing() -> None:
    policy = policy_with(A, B, C)
    policy.touch([C])
    before = state(policy)
    assert evicted(policy, 3, A) is None
    assert before == state(policy)


def test_evict_of_nothing_is_an_empty_answer() -> None:
    assert [] == evicted(policy_with(A), 0)


def test_evict_answers_the_very_blocks() -> None:
    policy = policy_with(A)
    block = policy.t1[A]
    assert [(A, block)] == policy.evict(1, set())


def test_each_list_of_ghosts_is_trimmed_to_the_capacity_from_the_front() -> None:
    policy = policy_with(capacity=2)
    for key in (A, B, C):
        insert(policy, key)
        policy.evict(1, set())
    for key in (D, E, X):
        insert(policy, key)
        policy.touch([key])
        policy.evict(1, set())
    assert ([B, C], [E, X]) == (list(policy.b1), list(policy.b2))


# Rollback

OPERATION = st.tuples(st.sampled_from(["put or drop", "touch", "evict", "pin or unpin"]), st.sampled_from(KEYS))


def act(policy: ARCCachePolicy, operation: str, key: OffloadKey) -> None:
    """Something that a policy may be asked for. A pin moves nothing, so there is nothing to undo."""
    block = policy.get(key)
    if operation == "touch":
        policy.touch([key])
    elif operation == "evict":
        policy.evict(1, {key})
    elif block is None:
        insert(policy, key)
    elif operation == "pin or unpin":
        block.ref_cnt = 1 - block.ref_cnt
    else:
        policy.remove(key)


@given(before=st.lists(OPERATION, max_size=12), after=st.lists(OPERATION, max_size=8), more=st.lists(OPERATION))
def test_restore_brings_back_all_lists_and_the_target_whatever_happened(
    before: list[tuple[str, OffloadKey]], after: list[tuple[str, OffloadKey]], more: list[tuple[str, OffloadKey]]
) -> None:
    policy = ARCCachePolicy(cache_capacity=3)
    for operation in before:
        act(policy, *operation)
    expected = state(policy)
    token = policy.checkpoint()
    for steps in (after, more):
        for operation in steps:
            act(policy, *operation)
        policy.restore(token)
        assert expected == state(policy)


def test_only_the_latest_checkpoint_can_be_restored() -> None:
    policy = policy_with(A)
    token = policy.checkpoint()
    policy.checkpoint()
    with pytest.raises(ValueError, match="latest checkpoint"):
        policy.restore(token)


def test_a_checkpoint_ends_with_a_reset() -> None:
    policy = policy_with(A)
    token = policy.checkpoint()
    policy.clear()
    with pytest.raises(ValueError, match="latest checkpoint"):
        policy.restore(token)
