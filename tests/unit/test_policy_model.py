"""The model of a policy: what matches, what is refused, and what is tolerated, under orders that heed marks or not."""

from __future__ import annotations

import pytest

from evictable.model.orders import ORDERS
from evictable.model.policy import MISMATCHES, PolicyModel, Refused
from evictable.model.policy_calls import (
    CHECKPOINT,
    EVICT,
    INSERT,
    MARK,
    REMOVE,
    RESTORE,
    SET_REF_CNT,
    TOUCH,
    UNMARK,
    Evicted,
    PolicyCall,
)

IDLE, PINNED, PENDING, ABSENT = 0, 1, 2, 3
HEEDING, IGNORING = "lru-evictable", "arc"
FILLED = (
    PolicyCall(INSERT, (IDLE,), ref_cnt=0),
    PolicyCall(INSERT, (PINNED,), ref_cnt=1),
    PolicyCall(INSERT, (PENDING,), ref_cnt=-1),
)

MATCHING = [
    PolicyCall(INSERT, (ABSENT,), ref_cnt=-1),
    PolicyCall(INSERT, (ABSENT,), ref_cnt=0),
    PolicyCall(REMOVE, (PENDING,)),
    PolicyCall(TOUCH, (ABSENT, IDLE, PINNED)),
    PolicyCall(EVICT, n=1),
    PolicyCall(EVICT, (IDLE,), n=1),
    PolicyCall(UNMARK, (IDLE,)),
    PolicyCall(SET_REF_CNT, (PINNED,), ref_cnt=0),
    PolicyCall(SET_REF_CNT, (PINNED,), ref_cnt=2),
]
OF_A_CALL = {
    "insert-resident": PolicyCall(INSERT, (IDLE,), ref_cnt=-1),
    "insert-pinned": PolicyCall(INSERT, (ABSENT,), ref_cnt=1),
    "remove-absent": PolicyCall(REMOVE, (ABSENT,)),
    "remove-marked": PolicyCall(REMOVE, (IDLE,)),
    "remove-pinned": PolicyCall(REMOVE, (PINNED,)),
    "mark-absent": PolicyCall(MARK, (ABSENT,)),
    "mark-in-use": PolicyCall(MARK, (PENDING,)),
    "mark-marked": PolicyCall(MARK, (IDLE,)),
    "unmark-absent": PolicyCall(UNMARK, (ABSENT,)),
    "unmark-unmarked": PolicyCall(UNMARK, (PINNED,)),
    "set-unmarked": PolicyCall(SET_REF_CNT, (IDLE,), ref_cnt=1),
    "restore-without": PolicyCall(RESTORE),
}
AFTER_A_CHANGE = {
    "evict-in-use": (PolicyCall(SET_REF_CNT, (IDLE,), ref_cnt=1), PolicyCall(EVICT, n=1)),
    "evict-unmarked": (PolicyCall(SET_REF_CNT, (PINNED,), ref_cnt=0), PolicyCall(EVICT, n=1)),
    "touch-unmarked": (PolicyCall(SET_REF_CNT, (PINNED,), ref_cnt=0), PolicyCall(TOUCH, (PINNED,))),
}


def model_after(profile: str, *calls: PolicyCall) -> PolicyModel:
    model = PolicyModel(ORDERS[profile].of_capacity(4))
    for call in (*FILLED, *calls):
        model.perform(call)
    return model


@pytest.mark.parametrize("profile", [HEEDING, IGNORING])
@pytest.mark.parametrize("call", MATCHING, ids=str)
def test_what_matches(profile: str, call: PolicyCall) -> None:
    model = model_after(profile)
    assert (None, True) == (model.mismatch(call), model.careful(call))


@pytest.mark.parametrize("profile", [HEEDING, IGNORING])
@pytest.mark.parametrize("name", MISMATCHES)
def test_every_mismatch_is_recognised_and_treated_as_the_table_says(profile: str, name: str) -> None:
    *before, call = AFTER_A_CHANGE.get(name) or (OF_A_CALL[name],)
    model = model_after(profile, *before)
    row = MISMATCHES[name]
    assert (row, False) == (model.mismatch(call), model.careful(call))
    refused = (row.heeding if profile == HEEDING else row.ignoring) is None
    state = model.state()
    assert refused == model.refuses(call)
    if refused:
        with pytest.raises(Refused):
            model.perform(call)
        assert state == model.state()
    else:
        model.perform(call)


def test_until_an_owed_mark_is_made_nothing_else_is_careful() -> None:
    model = model_after(HEEDING, PolicyCall(SET_REF_CNT, (PINNED,), ref_cnt=0))
    assert {PINNED} == model.owed
    assert not model.careful(PolicyCall(EVICT, (PINNED,), n=1))
    assert model.careful(PolicyCall(MARK, (PINNED,)))


@pytest.mark.parametrize(("profile", "victim"), [(HEEDING, None), (IGNORING, Evicted(((PINNED, 2),)))])
def test_who_heeds_marks_does_not_see_a_block_that_became_idle_without_one(
    profile: str, victim: Evicted | None
) -> None:
    model = model_after(profile, PolicyCall(SET_REF_CNT, (PINNED,), ref_cnt=0))
    assert victim == model.perform(PolicyCall(EVICT, (IDLE,), n=1))


def test_only_the_order_is_restored_and_only_where_all_else_is_as_it_was() -> None:
    model = model_after(HEEDING, PolicyCall(CHECKPOINT), PolicyCall(EVICT, n=1))
    assert not model.possible(PolicyCall(RESTORE))
    model.perform(PolicyCall(INSERT, (IDLE,), ref_cnt=0, again=True))
    assert model.possible(PolicyCall(RESTORE))
    model.perform(PolicyCall(TOUCH, (IDLE,)))
    assert not model.possible(PolicyCall(RESTORE))


def test_without_an_order_any_idle_unprotected_blocks_may_go() -> None:
    model = model_after("any", PolicyCall(INSERT, (ABSENT,), ref_cnt=0))
    answer = Evicted(((ABSENT, 4),))
    assert answer == model.perform(PolicyCall(EVICT, n=1), answer)
    assert Evicted(((IDLE, 1),)) == model.perform(PolicyCall(EVICT, n=1), Evicted(((PINNED, 2),)))
