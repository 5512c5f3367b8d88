"""The kernel of the specification: the life of one block, as functions on its ``ref_cnt``.

``ABSENT`` (no such block), ``PENDING`` (a store is in flight), ``IDLE`` (ready, nobody uses it: evictable),
``n > 0`` (ready, n loads in flight). Each function is one row of the table; any other change is a violation,
whoever makes it.
"""

from __future__ import annotations

from collections.abc import Callable

ABSENT = None
PENDING = -1
IDLE = 0

RefCnt = int | None


class IllegalStep(ValueError):
    """The life cycle has no such row."""


def begin_store(ref_cnt: RefCnt) -> RefCnt:
    if ref_cnt is ABSENT:
        return PENDING
    raise IllegalStep(f"begin store of a resident block, ref_cnt {ref_cnt}")


def commit_store(ref_cnt: RefCnt) -> RefCnt:
    if ref_cnt == PENDING:
        return IDLE
    raise IllegalStep(f"commit store of a block that is not being stored, ref_cnt {ref_cnt}")


def abort_store(ref_cnt: RefCnt) -> RefCnt:
    if ref_cnt == PENDING:
        return ABSENT
    raise IllegalStep(f"abort store of a block that is not being stored, ref_cnt {ref_cnt}")


def pin(ref_cnt: RefCnt) -> RefCnt:
    if ref_cnt is not ABSENT and ref_cnt >= IDLE:
        return ref_cnt + 1
    raise IllegalStep(f"pin of a block that is not ready, ref_cnt {ref_cnt}")


def unpin(ref_cnt: RefCnt) -> RefCnt:
    if ref_cnt is not ABSENT and ref_cnt > IDLE:
        return ref_cnt - 1
    raise IllegalStep(f"unpin of a block that is not pinned, ref_cnt {ref_cnt}")


def evict(ref_cnt: RefCnt) -> RefCnt:
    if ref_cnt == IDLE:
        return ABSENT
    raise IllegalStep(f"evict of a block that is not idle, ref_cnt {ref_cnt}")


def reset(ref_cnt: RefCnt) -> RefCnt:
    return ABSENT


def is_ready(ref_cnt: RefCnt) -> bool:
    return ref_cnt is not ABSENT and ref_cnt >= IDLE


def is_evictable(ref_cnt: RefCnt) -> bool:
    return ref_cnt == IDLE


ROWS = (
    "begin store",
    "commit store",
    "abort store",
    "pin an idle block",
    "pin a pinned block",
    "unpin",
    "unpin for the last time",
    "evict",
    "reset",
)
"""The table of README.md in this folder, row by row."""


def row_between(before: RefCnt, after: RefCnt) -> str:
    """The row that leads from one value to another; of several pins or unpins at once, the one that changes most.

    A reset is not told from what else makes a block absent. Raises `IllegalStep` if there is no such row.
    """
    if before is ABSENT and after == PENDING:
        return "begin store"
    if before == PENDING and after in (IDLE, ABSENT):
        return "commit store" if after == IDLE else "abort store"
    if before == IDLE and after is ABSENT:
        return "evict"
    if before is not ABSENT and after is not ABSENT and IDLE <= min(before, after) and before != after:
        if after > before:
            return "pin an idle block" if before == IDLE else "pin a pinned block"
        return "unpin for the last time" if after == IDLE else "unpin"
    raise IllegalStep(f"from ref_cnt {before} to {after}")


def rows_between(before: RefCnt, after: RefCnt) -> tuple[str, ...]:
    """The rows that lead from one value to another, several where a call takes several: with tiers a store may be
    committed and at once pinned for them.
    """
    if before is ABSENT and after is not ABSENT and after >= IDLE:
        return (row_between(ABSENT, PENDING), *rows_between(PENDING, after))
    if before == PENDING and after is not ABSENT and after > IDLE:
        return (row_between(PENDING, IDLE), row_between(IDLE, after))
    if before is not ABSENT and before > IDLE and (after is ABSENT or after < IDLE):
        return (row_between(before, IDLE), *rows_between(IDLE, after))
    if before == IDLE and after == PENDING:
        return (row_between(IDLE, ABSENT), row_between(ABSENT, PENDING))
    return (row_between(before, after),)


Step = Callable[[RefCnt], RefCnt]


def reachable(ref_cnt: RefCnt, steps: tuple[Step, ...], most: int) -> list[RefCnt]:
    """Every value that at most ``most`` applications of ``steps`` can lead to, the start included."""
    values = [ref_cnt]
    frontier = [ref_cnt]
    for _ in range(most):
        grown = []
        for value in frontier:
            for step in steps:
                try:
                    after = step(value)
                except IllegalStep:
                    continue
                if after not in values:
                    values.append(after)
                    grown.append(after)
        frontier = grown
    return values
