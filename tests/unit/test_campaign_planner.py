"""Which unit comes next does not depend on when the results before it arrive."""

from __future__ import annotations

import json
from collections import Counter
from random import Random
from typing import Any

from evictable.specs.campaign.features import Bits
from evictable.specs.campaign.places import CORPUS, SHRINK, Place, places_of
from evictable.specs.campaign.planner import PARENTS, TRIES, Planner, Tally
from evictable.specs.campaign.units import Unit

PLACES = places_of(("impl",), ("lru", "arc"), ("contract", "careless"), (0,), (1,), ("manager",))
WINDOW = 6
HEAD = '{"evictable_trace": 1, "capacity": 2}'
TRACE = [HEAD, '{"call": "lookup", "request": "r1", "keys": [0]}']


def planner(places: tuple[Place, ...] = PLACES, seed: int = 1) -> Planner:
    return Planner(places, seed, WINDOW)


def result_of(unit: Unit) -> dict[str, Any]:
    """Made up, of the unit alone: some reach much, some find something."""
    draw = Random(unit.number)
    bits = Bits()
    bits.add(draw.sample(range(1000), draw.randint(0, 50)))
    result: dict[str, Any] = {"unit": unit.number, "problem": None, "features": bits.text(), "corpus": [TRACE] * 2}
    if unit.engine != SHRINK and draw.random() < 0.3:
        result["findings"] = [found(draw.randint(1, 9))]
    return result


def found(calls: int, *, shrunk: bool = False) -> dict[str, Any]:
    broken = {"expected": "", "observed": "", "sentence": ""}
    return {
        "shape": "answer (lookup)",
        "law": "answer",
        "fault": None,
        "broken": broken,
        "size": [calls],
        "shrunk": shrunk,
        "trace": [HEAD, *TRACE[1:] * calls],
    }


def in_order(number: int) -> tuple[Planner, list[Unit]]:
    plans, units = planner(), []
    for one in range(number):
        unit = plans.plan(one)
        assert unit is not None
        units.append(unit)
        plans.take(plans.entry(unit), result_of(unit))
    return plans, units


def test_results_may_arrive_in_any_order() -> None:
    draw, plans = Random(5), planner()
    under_way: list[Unit] = []
    units: list[Unit] = []
    while len(units) < 60:
        if plans.may_plan(len(units)) and draw.random() < 0.6:
            unit = plans.plan(len(units))
            assert unit is not None
            units.append(unit)
            under_way.append(unit)
        elif under_way:
            unit = under_way.pop(draw.randrange(len(under_way)))
            plans.take(plans.entry(unit), result_of(unit))
    assert in_order(60)[1] == units


def test_a_campaign_that_is_taken_up_again_goes_on_as_if_nothing_had_happened() -> None:
    before, units = in_order(40)
    again = planner()
    for unit in units:
        again.take(again.entry(unit), result_of(unit))
    for unit in units:
        again.note(again.entry(unit))
    assert before.plan(40) == again.plan(40)


def test_a_unit_waits_for_what_lies_a_window_behind() -> None:
    plans = planner()
    assert [True] * WINDOW + [False] == [plans.may_plan(number) for number in range(WINDOW + 1)]


def test_another_seed_is_another_campaign() -> None:
    assert planner(seed=1).plan(0) != planner(seed=2).plan(0)


def test_every_place_and_engine_has_a_turn() -> None:
    _, units = in_order(60)
    turns = {(unit.place, unit.engine) for unit in units if unit.engine != SHRINK}
    assert {(place, engine) for place in PLACES for engine in place.engines} == turns


def test_some_units_leave_out_a_part_of_the_calls_and_some_fix_the_capacity() -> None:
    _, units = in_order(120)
    assert {True, False} == {bool(unit.without) for unit in units}
    assert {True, False} == {unit.capacity is None for unit in units}


def test_no_place_is_forgotten_where_nothing_is_new() -> None:
    """Half of the units go round, however much there is to find in one of the places."""
    plans = planner()
    turns: Counter[Place] = Counter()
    for number in range(200):
        unit = plans.plan(number)
        assert unit is not None
        bits = Bits()
        bits.add(Random(number).sample(range(50_000), 500) if unit.place == PLACES[0] else [])
        turns[unit.place] += 1
        plans.take(plans.entry(unit), {"unit": number, "problem": None, "features": bits.text(), "corpus": [TRACE]})
    assert PLACES[0] == turns.most_common(1)[0][0]
    assert 20 < min(turns[place] for place in PLACES)


def test_what_was_found_elsewhere_is_tried_here_first() -> None:
    plans, shown = planner(), [HEAD, *TRACE[1:] * 5]
    for number in range(60):
        unit = plans.plan(number)
        assert unit is not None
        result: dict[str, Any] = {"unit": number, "problem": None, "corpus": [TRACE]}
        if number == 0:
            result["findings"] = [found(5, shrunk=True), found(5, shrunk=True) | {"shape": "x", "fault": "policy.get"}]
        plans.take(plans.entry(unit), result)
        if number > WINDOW and unit.engine == CORPUS and unit.place != PLACES[0]:
            assert tuple(shown) == unit.parents[0]  # what a fault broke can be met by hostile callers only
            assert PARENTS + 1 == len(unit.parents)


def test_units_of_the_corpus_bring_their_parents_and_what_is_known() -> None:
    unit = next(unit for unit in in_order(60)[1] if unit.engine == CORPUS)
    assert tuple(TRACE) in unit.parents
    assert unit.known is not None
    assert 0 < len(Bits.of(unit.known))


def test_a_unit_crosses_as_json() -> None:
    for unit in in_order(60)[1]:
        assert unit == Unit.of(json.loads(json.dumps(unit.record())))


def test_what_is_found_is_shrunk_a_few_times_and_then_only_if_it_is_shorter() -> None:
    plans = planner()
    tried = []
    for number in range(40):
        unit = plans.plan(number)
        assert unit is not None
        made: dict[str, Any] = {"unit": number, "problem": None}
        if unit.engine == SHRINK:
            tried.append(number)
            made["findings"] = [found(5, shrunk=True)]
        elif unit.place == PLACES[0]:
            made["findings"] = [found(6)]
        plans.take(plans.entry(unit), made)
    assert TRIES == len(tried)
    settled = [unit.settled for number in range(40, 60) if (unit := plans.plan(number)) and unit.place == PLACES[0]]
    assert {"answer (lookup)": 5} in settled


def test_what_is_shrunk_to_a_few_calls_is_not_tried_again() -> None:
    plans = planner(PLACES[:1])
    engines = []
    for number in range(2 * WINDOW + 2):
        unit = plans.plan(number)
        assert unit is not None
        engines.append(unit.engine)
        made = found(2, shrunk=True) if unit.engine == SHRINK else found(9)
        plans.take(plans.entry(unit), {"unit": number, "problem": None, "findings": [made]})
    assert SHRINK in engines
    plans.fold_all()
    assert SHRINK != getattr(plans.plan(2 * WINDOW + 3), "engine", None)


def test_what_is_left_at_the_end_is_shrunk_then() -> None:
    plans = planner()
    unit = plans.plan(0)
    assert unit is not None
    plans.take(plans.entry(unit), {"unit": 0, "problem": None, "findings": [found(5)]})
    plans.fold_all()
    last = plans.plan_shrinking(1)
    assert last is not None
    assert (SHRINK, "answer", tuple(found(5)["trace"])) == (last.engine, last.law, last.parents[0])
    assert plans.plan_shrinking(2) is None


def test_a_place_that_cannot_be_searched_is_left() -> None:
    plans = planner(PLACES[:1])
    unit = plans.plan(0)
    assert unit is not None
    plans.take(plans.entry(unit), {"unit": 0, "problem": {"kind": "error", "message": "no such manager"}})
    plans.fold_all()
    assert plans.plan(1) is None


def test_nothing_tried_is_no_verdict() -> None:
    assert "answer" in Tally().untouched(PLACES[0])
    assert ("anything",) == Tally().untouched(Place("impl", "lru", "careless", level="policy"))
