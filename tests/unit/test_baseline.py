"""A baseline: what is broken there, too, is told apart from what is broken in the subject alone."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from contextlib import closing
from typing import Any

import pytest
from seeded import PROFILE, Leaks, failed, holding, kind_of_manager, laws, load, loaded, offer

from evictable.model.calls import COMPLETE_LOAD, COMPLETE_STORE, TOUCH, Call
from evictable.specs.baseline import Baseline
from evictable.specs.callers.disciplines import CONTRACT
from evictable.specs.errors import UsageError
from evictable.specs.search import CONFORMS, RANDOM, VIOLATES, Search, Task
from evictable.specs.session import play
from evictable.specs.subjects.base import Setup, SubjectKind
from evictable.specs.subjects.builtin import BUILT_IN

LEAK = (*holding(), offer("r1", 0), failed("r1", 0))
MUTANT = "mutant:slot-leaks-when-store-fails"


class LeaksAndShares(Leaks):
    """Also takes a slot for free after a load."""

    def complete_load(self, keys: Any, req_context: Any) -> None:
        super().complete_load(keys, req_context)
        self._free_list.append(0)


def search(kind: SubjectKind, baseline: SubjectKind) -> Search:
    def also_breaks(setup: Setup, calls: Sequence[Call]) -> Collection[str]:
        return laws(play(baseline, setup, PROFILE, calls).broken)

    def parts(setup: Setup, calls: Sequence[Call]) -> bool:
        return bool(play(baseline, setup, PROFILE, calls[:-1]).broken)

    found = Search(Task(kind, Setup(3), PROFILE, CONTRACT, seed=1, also_breaks=also_breaks, parts=parts))
    found.run((RANDOM,), 1500, None)
    return found


def test_the_subjects_own_defect_is_found_beside_the_one_of_both() -> None:
    found = search(kind_of_manager(LeaksAndShares), kind_of_manager(Leaks)).findings
    own, shared = found["slots-conserved"], found["slots-conserved (shared)"]
    assert (False, COMPLETE_LOAD) == (own.shared, own.counterexample.calls[-1].name)
    assert (True, COMPLETE_STORE) == (shared.shared, shared.counterexample.calls[-1].name)


def test_a_subject_that_is_its_own_baseline_has_nothing_of_its_own() -> None:
    found = search(kind_of_manager(LeaksAndShares), kind_of_manager(LeaksAndShares))
    assert VIOLATES == found.verdict
    assert {True} == {finding.shared for finding in found.findings.values()}


def test_what_the_baseline_breaks_before_does_not_make_a_defect_of_both_the_subjects_own() -> None:
    found = search(kind_of_manager(Leaks), kind_of_manager(LeaksAndShares))
    assert {True} == {finding.shared for finding in found.findings.values()}
    assert "drains (shared)" in found.findings


def test_a_right_baseline_changes_nothing() -> None:
    assert CONFORMS == search(BUILT_IN, BUILT_IN).verdict
    found = search(kind_of_manager(Leaks), BUILT_IN).findings
    assert {"drains", "slots-conserved"} <= set(found)
    assert {False} == {finding.shared for finding in found.values()}


@pytest.fixture(scope="module")
def leaking() -> Iterator[Baseline]:
    with closing(Baseline.start(MUTANT)) as baseline:
        yield baseline


def test_a_child_tells_what_the_calls_break(leaking: Baseline) -> None:
    assert {"drains", "slots-conserved"} == leaking.breaks(BUILT_IN, CONTRACT, Setup(2), LEAK)
    right = (*holding(0), load("r1", 0), loaded("r1", 0))
    assert set() == leaking.breaks(BUILT_IN, CONTRACT, Setup(2), right)


def test_a_setup_that_it_cannot_have_breaks_nothing() -> None:
    with closing(Baseline.start("impl:linked")) as baseline:
        assert set() == baseline.breaks(BUILT_IN, CONTRACT, Setup(2, tiers=1), LEAK)


def test_a_child_tells_whether_it_is_elsewhere_before_the_last_call(leaking: Baseline) -> None:
    assert not leaking.parts(BUILT_IN, CONTRACT, Setup(2), LEAK)
    assert leaking.parts(BUILT_IN, CONTRACT, Setup(2), (*LEAK, offer("r1", 1)))
    with closing(Baseline.start("mutant:touch-forwards")) as backwards:
        touched = (*holding(0, 1), Call(TOUCH, (1, 0), "r1"), offer("r1", 2))
        assert backwards.parts(BUILT_IN, CONTRACT, Setup(2), touched)
        assert not backwards.parts(BUILT_IN, CONTRACT, Setup(2), touched[:-1])


def test_a_setup_that_it_cannot_have_is_refused_at_once() -> None:
    with closing(Baseline.start("impl")) as baseline:
        baseline.refuse_setup(BUILT_IN, CONTRACT, Setup(2, tiers=1))
    with closing(Baseline.start("impl:linked")) as baseline, pytest.raises(UsageError, match="no primary tier"):
        baseline.refuse_setup(BUILT_IN, CONTRACT, Setup(2, tiers=1))


@pytest.mark.parametrize("name", ["nowhere:Nothing", "vllm==0.1.0", "mutant:none"])
def test_one_that_cannot_be_loaded(name: str) -> None:
    with pytest.raises(UsageError, match=f"^baseline .*{name.partition(':')[2][:4]}"):
        Baseline.start(name)


def test_one_whose_process_ends_is_told_of(leaking: Baseline) -> None:
    gone = Baseline.start("impl")
    gone.close()
    with pytest.raises(UsageError, match=r"^baseline impl: .*leave out --baseline, or name another$"):
        gone.breaks(BUILT_IN, CONTRACT, Setup(2), LEAK)
