"""The policies of the built-in manager: who is evicted, and how ARC's target moves."""

from __future__ import annotations

from typing import Any

from evictable.impl.blocks import BlockStatus
from evictable.impl.policies.arc import ARCCachePolicy
from evictable.impl.policies.lru import LRUCachePolicy
from evictable.model.orders.arc import Arc
from evictable.specs.contracts.caches import chosen

KEYS: tuple[Any, ...] = (0, 1, 2)
KEYS_AND_ONE_MORE: tuple[Any, ...] = (0, 1, 2, 3)


def block_of(key: int, count: int) -> BlockStatus:
    block = BlockStatus(key)
    block.ref_cnt = count
    return block


def lru_evicts_the_first_idle(a: int, b: int, c: int, n: int, protected: int) -> bool:
    """
    pre: a >= -1 and b >= -1 and c >= -1 and 0 <= n <= 2 and 0 <= protected <= 3
    post: _
    """
    counts = (a, b, c)
    wanted, kept = chosen(n, 0, 1, 2), chosen(protected, 0, 1, 2, 3)
    policy = LRUCachePolicy(3)
    for key in KEYS:
        policy.insert(key, block_of(key, counts[key]))
    idle = [key for key in KEYS if counts[key] == 0]
    candidates = [key for key in idle if key != kept]
    evicted = policy.evict(wanted, {KEYS_AND_ONE_MORE[kept]})
    left = list(policy.evictable_blocks)
    if wanted > len(candidates):
        return evicted is None and left == idle and list(policy.blocks) == list(KEYS)
    if evicted is None:
        return False
    gone = [key for key, _ in evicted]
    stay = [key for key in KEYS if key not in gone]
    return gone == candidates[:wanted] and left == [k for k in idle if k in stay] and list(policy.blocks) == stay


def lru_touch_keeps_the_head_longest(a: int, b: int, i: int, j: int) -> bool:
    """
    pre: a >= -1 and b >= -1 and 0 <= i <= 2 and 0 <= j <= 2
    post: _
    """
    counts = (a, b, 0)
    touched = [chosen(i, 0, 1, 2), chosen(j, 0, 1, 2)]
    policy = LRUCachePolicy(3)
    for key in KEYS:
        policy.insert(key, block_of(key, counts[key]))
    policy.touch(KEYS[key] for key in touched)
    idle = [key for key in KEYS if counts[key] == 0]
    moved = [key for key in dict.fromkeys(touched) if key in idle][::-1]
    return list(policy.evictable_blocks) == [key for key in idle if key not in moved] + moved


def arc_evicts_as_the_model(a: int, b: int, c: int, seen_again: int, target: int, n: int) -> bool:
    """
    pre: a >= -1 and b >= -1 and c >= -1 and 0 <= seen_again <= 3 and 0 <= target <= 3 and 1 <= n <= 2
    post: _
    """
    counts = (a, b, c)
    in_t2, wanted = chosen(seen_again, 0, 1, 2, 3), chosen(n - 1, 1, 2)
    policy: Any = ARCCachePolicy(3)
    order = Arc(3)
    for key in KEYS:
        order.inserted(key)
        if counts[key] >= 0:
            order.idle(key)
        policy.insert(key, block_of(key, counts[key]))
        if key < in_t2 and counts[key] >= 0:
            order.touched((key,))
            policy.touch((key,))
        if counts[key] > 0:
            order.busy(key)
    order.target = policy.target_t1_size = chosen(target, 0.0, 1.0, 2.0, 3.0)
    right = order.victims(wanted, ())
    evicted = policy.evict(wanted, set())
    if evicted is None or right is None:
        return evicted is right
    order.evicted(right)
    ghosts = (list(order.b1), list(order.b2))
    return [key for key, _ in evicted] == right and (list(policy.b1), list(policy.b2)) == ghosts


def arc_target_moves_within_the_capacity(quarters: int, size: int, other_ghosts: int, first: bool) -> bool:
    """
    pre: 1 <= size <= 4 and 0 <= quarters <= 4 * size and 0 <= other_ghosts <= 2
    post: _
    """
    capacity = chosen(size - 1, 1, 2, 3, 4)
    policy = ARCCachePolicy(capacity)
    before = policy.target_t1_size = chosen(quarters, *range(17)) / 4
    others = chosen(other_ghosts, 0, 1, 2)
    own, other = (policy.b1, policy.b2) if first else (policy.b2, policy.b1)
    for part, ghosts in ((own, KEYS[:1]), (other, KEYS[1 : 1 + others])):
        for key in ghosts:
            policy._append(part, key, None)
    policy.touch(KEYS[:1])
    step = max(1, others)
    right = min(before + step, capacity) if first else max(before - step, 0)
    return policy.target_t1_size == right and 0 <= policy.target_t1_size <= capacity
