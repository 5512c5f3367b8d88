"""What a run has reached: a set of a fixed size, the same for states that differ in names only."""

from __future__ import annotations

import pytest
from seeded import PROFILE

from evictable.impl import CPUOffloadingManager
from evictable.model import calls
from evictable.model.calls import Call
from evictable.specs.campaign.features import SIZE, Bits, Branches, feature_of, state_feature
from evictable.specs.session import Session, play
from evictable.specs.subjects.base import Setup
from evictable.specs.subjects.builtin import BUILT_IN


def stored(key: int, request: str) -> Session:
    return play(BUILT_IN, Setup(2), PROFILE, [Call(calls.PREPARE_STORE, (key,), request)])


def feature(session: Session) -> int:
    last = session.records[-1]
    return state_feature("", last.call, last.outcome, session.judge.model, session.promises)


def test_a_set_as_text_is_the_same_set() -> None:
    bits = Bits()
    bits.add([0, 7, SIZE - 1])
    assert bits == Bits.of(bits.text())
    assert 3 == len(bits)
    assert [True, False] == [7 in bits, 8 in bits]


def test_what_is_merged_counts_once() -> None:
    one, other = Bits(), Bits()
    one.add([1, 2])
    other.add([2, 3])
    assert 1 == one.merge(other)
    assert 3 == len(one)


@pytest.mark.parametrize("text", ["", "AAAA", "not base64!"])
def test_other_text_is_no_set(text: str) -> None:
    with pytest.raises(ValueError, match=r".*"):
        Bits.of(text)


def test_a_feature_is_the_same_in_every_process() -> None:
    assert 18379 == feature_of(("a", 1))


def test_names_do_not_matter() -> None:
    assert feature(stored(0, "r1")) == feature(stored(5, "r9"))


def test_what_becomes_of_a_block_matters() -> None:
    more = stored(0, "r1")
    more.step(Call(calls.COMPLETE_STORE, (0,), "r1"))
    assert feature(stored(0, "r1")) != feature(more)


def test_branches_are_those_of_the_subject() -> None:
    branches = Branches()
    subject = branches.over(BUILT_IN.make(Setup(2)))
    subject.perform(Call(calls.PREPARE_STORE, (0,), "r1"))
    short = set(branches.seen)
    subject.perform(Call(calls.COMPLETE_STORE, (0,), "r1", success=False))
    assert set() != short
    assert set() != branches.seen - short
    followed = {code.co_filename for code, of in branches._known.items() if of is not None}
    assert {True} == {"impl" in file for file in followed}
    assert CPUOffloadingManager.prepare_store.__code__ in branches._known


def test_of_most_subjects_nothing_is_traced() -> None:
    branches = Branches()
    subjects = [BUILT_IN.make(Setup(1)) for _ in range(8)]
    assert [False, *[True] * 7] == [branches.over(one) is one for one in subjects]
