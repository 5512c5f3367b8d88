"""Does what no hand made come to light, and is what is said to be equivalent there?"""

from __future__ import annotations

import pytest

from evictable.specs.mutants.equivalent import EQUIVALENT, arguments_by_place
from evictable.specs.mutants.fate import ALIVE, RANDOM, REFUTED, Fate
from evictable.specs.mutants.generated import MODULES, Generated, generated
from evictable.specs.mutants.hunt_generated import STILLBORN, TESTS, hunt_generated
from evictable.specs.mutants.mutant import Mutant
from evictable.specs.mutants.tested import failing_test


@pytest.fixture(scope="module")
def every() -> dict[str, Generated]:
    return {one.place: one for one in generated()}


def test_there_are_some_of_each_module_and_their_names_are_unique(every: dict[str, Generated]) -> None:
    assert {*MODULES} - {"policies.base"} <= {one.mutant.module for one in every.values()}
    assert len(every) == len({one.mutant.name for one in every.values()})


def test_what_is_said_to_be_equivalent_is_there_and_said_once(every: dict[str, Generated]) -> None:
    places = [place for _, places in EQUIVALENT for place in places]
    assert [] == [place for place in places if place not in every]
    assert len(places) == len(arguments_by_place())


LOOKUP = "manager:CPUOffloadingManager.lookup: comparison: block.ref_cnt >= 0 -> block.ref_cnt > 0"
DRAIN = "pool:SlotPool.take_events: branch: if not self.events: -> if False:"
UNBORN = "policies.factory:make_cache_policy: branch: if cache_policy not in CACHE_POLICIES: -> if True:"


@pytest.mark.parametrize(
    ("place", "engine", "by"),
    [
        (LOOKUP, RANDOM, "answer"),
        (DRAIN, RANDOM, "all-or-nothing"),
        (UNBORN, STILLBORN, "UsageError"),
    ],
)
def test_what_refutes_it(place: str, engine: str, by: str, every: dict[str, Generated]) -> None:
    fate = hunt_generated(every[place].mutant)
    assert (REFUTED, engine, by) == (fate.verdict, fate.engine, fate.by)


@pytest.fixture
def hurried(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, depths in {"SHALLOW": (300,), "DEEP": (300,), "FEW": (50,), "MANY": (50,)}.items():
        monkeypatch.setattr(f"evictable.specs.mutants.hunt_generated.{name}", depths)


REPR = "blocks:BlockStatus.__repr__: delete: return f'BlockStatus("


@pytest.mark.usefixtures("hurried")
def test_what_only_a_unit_test_sees(every: dict[str, Generated]) -> None:
    (place,) = [place for place in every if place.startswith(REPR)]
    fate = hunt_generated(every[place].mutant)
    assert (REFUTED, TESTS) == (fate.verdict, fate.engine)
    assert fate.by.startswith("tests/unit/test_impl_lru.py::test_")


@pytest.mark.usefixtures("hurried")
def test_what_nobody_sees_is_alive(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("evictable.specs.mutants.hunt_generated.failing_test", lambda mutant: None)
    same = Mutant("same", "the same in other words", "blocks", "self.ref_cnt = -1", "self.ref_cnt = - 1", ("answer",))
    fate: Fate = hunt_generated(same)
    assert (ALIVE, None) == (fate.verdict, fate.calls)
    assert fate.note.startswith("no law was broken in ")


def test_without_a_mutant_no_unit_test_fails() -> None:
    same = Mutant("same", "the same in other words", "blocks", "self.ref_cnt = -1", "self.ref_cnt = - 1", ("answer",))
    assert failing_test(same) is None
