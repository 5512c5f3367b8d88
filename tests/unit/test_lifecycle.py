"""The table of the life of a block: every row, and nothing else."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from evictable.model.lifecycle import (
    IllegalStep,
    RefCnt,
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

Step = Callable[[RefCnt], RefCnt]
VALUES: tuple[RefCnt, ...] = (None, -1, 0, 1, 2, 7)
ROWS: dict[Step, dict[RefCnt, RefCnt]] = {
    begin_store: {None: -1},
    commit_store: {-1: 0},
    abort_store: {-1: None},
    pin: {0: 1, 1: 2, 2: 3, 7: 8},
    unpin: {1: 0, 2: 1, 7: 6},
    evict: {0: None},
    reset: dict.fromkeys(VALUES, None),
}
LEGAL = [(step, before, after) for step, rows in ROWS.items() for before, after in rows.items()]
ILLEGAL = [(step, before) for step, rows in ROWS.items() for before in (*VALUES, -2) if before not in rows]


def named(value: object) -> str | None:
    return getattr(value, "__name__", str(value))


@pytest.mark.parametrize(("step", "before", "after"), LEGAL, ids=named)
def test_a_row_of_the_table(step: Step, before: RefCnt, after: RefCnt) -> None:
    assert after == step(before)


@pytest.mark.parametrize(("step", "before"), [pair for pair in ILLEGAL if pair[0] is not reset], ids=named)
def test_no_other_step_is_legal(step: Step, before: RefCnt) -> None:
    with pytest.raises(IllegalStep, match=r"begin|commit|abort|pin|evict"):
        step(before)


@pytest.mark.parametrize(
    ("ref_cnt", "ready", "evictable"),
    [(None, False, False), (-1, False, False), (0, True, True), (1, True, False), (2, True, False)],
)
def test_what_a_ref_cnt_means(ref_cnt: RefCnt, ready: bool, evictable: bool) -> None:
    assert (ready, evictable) == (is_ready(ref_cnt), is_evictable(ref_cnt))


@pytest.mark.parametrize(
    ("start", "steps", "most", "expected"),
    [
        (1, (unpin,), 0, [1]),
        (2, (unpin,), 1, [2, 1]),
        (2, (unpin,), 5, [2, 1, 0]),
        (-1, (commit_store, abort_store), 2, [-1, 0, None]),
        (0, (pin, unpin), 2, [0, 1, 2]),
        (None, (pin, evict), 3, [None]),
        (0, (commit_store, pin), 1, [0, 1]),
    ],
)
def test_what_some_steps_can_lead_to(start: RefCnt, steps: tuple[Step, ...], most: int, expected: list[RefCnt]) -> None:
    assert expected == reachable(start, steps, most)
