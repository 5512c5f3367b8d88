"""The life of one block: `evictable.model.lifecycle` against the table, written down once more as arithmetic.

A number in the text of an error message has to be tried value by value. So where a step may be refused, counts are
bounded.
"""

from __future__ import annotations

from evictable.model.lifecycle import (
    IllegalStep,
    abort_store,
    begin_store,
    commit_store,
    evict,
    is_evictable,
    is_ready,
    pin,
    reachable,
    reset,
    unpin,
)
from evictable.specs.contracts.caches import GONE, chosen, ref

STEPS = (begin_store, commit_store, abort_store, pin, unpin, evict, reset)


def row_of_the_table(step: int, count: int) -> bool:
    """
    pre: 0 <= step <= 6 and count >= -2 and (count <= 3 or step in (3, 4, 6))
    post: _
    """
    legal = chosen(step, count == GONE, count == -1, count == -1, count >= 0, count > 0, count == 0, True)
    right = chosen(step, -1, 0, GONE, count + 1, count - 1, GONE, GONE)
    try:
        after = chosen(step, *STEPS)(ref(count))
    except IllegalStep:
        return not legal
    return legal and after == ref(right)


def pins_and_unpins_cancel(count: int, pinned_first: bool) -> bool:
    """
    pre: count >= 0
    post: _
    """
    if pinned_first:
        return unpin(pin(count)) == count
    if count == 0:
        return pin(count) == 1
    return pin(unpin(count)) == count


def a_store_ends_idle_or_gone(count: int, success: bool) -> bool:
    """
    pre: -2 <= count <= 5
    post: _
    """
    try:
        pending = begin_store(ref(count))
    except IllegalStep:
        return count != GONE
    if success:
        return is_evictable(commit_store(pending))
    return abort_store(pending) is None


def two_steps_stay_in_the_life_cycle(count: int, first: int, second: int) -> bool:
    """
    pre: -2 <= count <= 3 and 0 <= first <= 6 and 0 <= second <= 6
    post: _
    """
    try:
        after = chosen(second, *STEPS)(chosen(first, *STEPS)(ref(count)))
    except IllegalStep:
        return True
    if after is None:
        return not is_ready(after) and not is_evictable(after)
    return after >= -1 and is_ready(after) == (after >= 0) and is_evictable(after) == (after == 0)


def some_unpins_lead_down_to_idle(count: int, most: int) -> bool:
    """
    pre: count >= -1 and 0 <= most <= 3
    post: _
    """
    steps = chosen(most, 0, 1, 2, 3)
    down = [count - n for n in range(1, steps + 1) if count - n >= 0]
    return reachable(count, (unpin,), steps) == [count, *down]
