"""Calls of our policies that do not match: a typed error with nothing changed, or the tolerance that is documented."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import pytest

from evictable.impl import ARCCachePolicy, BlockStatus, CachePolicy, LRUCachePolicy, OffloadKey
from evictable.impl.errors import MismatchedMark, PolicyMisuse

IDLE, PINNED, PENDING, ABSENT = (OffloadKey(bytes([n])) for n in range(4))
BOTH = pytest.mark.parametrize("policy", ["lru", "arc"], indirect=True)


@pytest.fixture
def policy(request: pytest.FixtureRequest) -> CachePolicy:
    made = {"lru": LRUCachePolicy, "arc": ARCCachePolicy}[getattr(request, "param", "lru")](cache_capacity=4)
    for key, ref_cnt in ((IDLE, 0), (PINNED, 1), (PENDING, -1)):
        made.insert(key, block(ref_cnt))
    return made


def block(ref_cnt: int) -> BlockStatus:
    made = BlockStatus(7)
    made.ref_cnt = ref_cnt
    return made


def found(policy: CachePolicy, key: OffloadKey) -> BlockStatus:
    held = policy.get(key)
    assert held is not None
    return held


def inside(policy: CachePolicy) -> dict[str, Any]:
    held = {name: value for name, value in vars(policy).items() if name != "_parts"}
    return copy.deepcopy(held, _same_blocks(policy))


def _same_blocks(policy: CachePolicy) -> dict[int, Any]:
    """Blocks compare by identity: a copy of the rest keeps them."""
    blocks = [policy.get(key) for key in (IDLE, PINNED, PENDING)]
    return {id(one): one for one in blocks if one is not None}


def refused(policy: CachePolicy, error: type[PolicyMisuse], call: Callable[[], object]) -> str:
    """The message of the error, with the method and the key taken off. Nothing may have changed."""
    before = inside(policy)
    with pytest.raises(PolicyMisuse) as raised:
        call()
    assert (error, before) == (raised.type, inside(policy))
    assert str(raised.value).startswith(f"{raised.value.method}: key {raised.value.key!r} ")
    assert raised.value.remedy
    return raised.value.problem


@BOTH
@pytest.mark.parametrize("key", [IDLE, PINNED, PENDING])
@pytest.mark.parametrize("ref_cnt", [-1, 0])
def test_insert_of_a_resident_key_is_refused(policy: CachePolicy, key: OffloadKey, ref_cnt: int) -> None:
    problem = refused(policy, PolicyMisuse, lambda: policy.insert(key, block(ref_cnt)))
    assert "is resident already" == problem


@BOTH
def test_insert_of_the_very_block_that_is_resident_is_refused(policy: CachePolicy) -> None:
    problem = refused(policy, PolicyMisuse, lambda: policy.insert(PENDING, found(policy, PENDING)))
    assert "is resident already" == problem


@BOTH
def test_remove_of_an_absent_key_is_refused(policy: CachePolicy) -> None:
    assert "is not resident" == refused(policy, PolicyMisuse, lambda: policy.remove(ABSENT))


@pytest.mark.parametrize(
    ("key", "problem"),
    [
        (ABSENT, "is not resident"),
        (PINNED, "is in use"),
        (PENDING, "is in use"),
        (IDLE, "is listed as evictable already"),
    ],
)
def test_a_mark_that_does_not_match_is_refused(policy: CachePolicy, key: OffloadKey, problem: str) -> None:
    assert problem == refused(policy, MismatchedMark, lambda: policy.mark_evictable(key))


@pytest.mark.parametrize("key", [ABSENT, PINNED, PENDING])
def test_an_unmark_that_does_not_match_is_refused(policy: CachePolicy, key: OffloadKey) -> None:
    problem = refused(policy, MismatchedMark, lambda: policy.mark_non_evictable(key))
    assert "is not listed as evictable" == problem


def test_an_unmark_may_come_after_the_pin(policy: CachePolicy) -> None:
    found(policy, IDLE).ref_cnt = 1
    policy.mark_non_evictable(IDLE)
    assert policy.evict(1, set()) is None


def test_an_eviction_that_comes_to_a_block_pinned_without_a_mark_is_refused(policy: CachePolicy) -> None:
    found(policy, IDLE).ref_cnt = 2
    assert "is listed with ref_cnt 2" == refused(policy, PolicyMisuse, lambda: policy.evict(1, set()))


def test_an_eviction_that_does_not_come_so_far_is_carried_out(policy: CachePolicy) -> None:
    policy.insert(ABSENT, block(0))
    found(policy, ABSENT).ref_cnt = 1
    assert [IDLE] == [key for key, _ in policy.evict(1, set()) or ()]


def test_too_many_asked_for_is_no_matter_of_marks(policy: CachePolicy) -> None:
    found(policy, IDLE).ref_cnt = 2
    assert policy.evict(2, set()) is None


def test_a_block_that_became_idle_without_a_mark_is_passed_over(policy: CachePolicy) -> None:
    found(policy, PINNED).ref_cnt = 0
    assert [IDLE] == [key for key, _ in policy.evict(1, set()) or ()]
    assert policy.evict(1, set()) is None


def test_lru_forgets_the_mark_of_a_block_that_is_removed(policy: CachePolicy) -> None:
    policy.remove(IDLE)
    assert policy.evict(1, set()) is None


@BOTH
def test_a_pinned_block_can_be_inserted_and_removed(policy: CachePolicy) -> None:
    policy.insert(ABSENT, block(3))
    assert [IDLE] == [key for key, _ in policy.evict(1, set()) or ()]
    policy.remove(ABSENT)
    policy.remove(PINNED)
    assert (None, None) == (policy.get(ABSENT), policy.get(PINNED))


@pytest.mark.parametrize("policy", ["arc"], indirect=True)
@pytest.mark.parametrize("method", ["mark_evictable", "mark_non_evictable"])
@pytest.mark.parametrize("key", [IDLE, PINNED, PENDING, ABSENT])
def test_arc_ignores_every_mark(policy: CachePolicy, method: str, key: OffloadKey) -> None:
    before = inside(policy)
    getattr(policy, method)(key)
    assert before == inside(policy)


@pytest.mark.parametrize("policy", ["arc"], indirect=True)
def test_arc_sees_a_ref_cnt_that_nobody_told_it_of(policy: CachePolicy) -> None:
    found(policy, IDLE).ref_cnt = 1
    found(policy, PINNED).ref_cnt = 0
    assert [PINNED] == [key for key, _ in policy.evict(1, set()) or ()]


def test_a_key_that_left_twice_is_restored_to_its_first_place(policy: CachePolicy) -> None:
    policy.insert(ABSENT, block(0))
    assert isinstance(policy, LRUCachePolicy)
    token = policy.checkpoint()
    for _ in range(2):
        policy.mark_non_evictable(IDLE)
        policy.mark_evictable(IDLE)
    policy.restore(token)
    assert [IDLE, ABSENT] == list(policy.evictable_blocks)
