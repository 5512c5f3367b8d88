"""What a benchmark measures with: loads that repeat, judged and compared results, figures worked out by hand."""

from __future__ import annotations

import random
from itertools import product
from types import SimpleNamespace
from typing import Any
from xml.etree import ElementTree

import pytest

from evictable.ci.bench_plots import evict_plot
from evictable.ci.bench_tables import shown
from evictable.model import calls
from evictable.model.calls import Call
from evictable.specs.bench.floor import Floor
from evictable.specs.bench.judged import NotAsExpected
from evictable.specs.bench.loads import Mix, hot_of, keys_of, plan_of
from evictable.specs.bench.makers import maker_of
from evictable.specs.bench.memory import RECORDS
from evictable.specs.bench.rows import Row, Spread, rows_of
from evictable.specs.bench.run import Failed, Taken, disagreements
from evictable.specs.bench.sections import SECTIONS, Case, named, pinned_of
from evictable.specs.bench.trials import Calls, Judging, Mixed, Pinning, digest_of
from evictable.specs.bench.worker import Server
from evictable.specs.coverage import PairCoverage, _apart
from evictable.specs.errors import UsageError

POLICIES = ("lru", "arc")


def taken(*numbers: dict[str, float], digest: str = "same") -> Taken:
    return Taken(list(numbers), [digest] * len(numbers), [{}] * len(numbers))


# The load


def test_one_seed_makes_one_plan() -> None:
    mix = Mix("lru", 64, 4)
    hot = hot_of(keys_of(1, 64), mix)
    assert plan_of(random.Random(2), mix, hot) == plan_of(random.Random(2), mix, hot)


def test_new_keys_of_a_round_leave_the_hot_ones_in_the_cache() -> None:
    for capacity, batch in product((64, 1000, 100_000), (2, 32)):
        mix = Mix("lru", capacity, batch)
        assert mix.requests * mix.half <= max(capacity // 2, 8 * mix.half)


@pytest.mark.parametrize("policy", POLICIES)
def test_the_built_in_manager_answers_the_load_as_expected(policy: str) -> None:
    assert Judging(maker_of("impl"), policy, 64, (2, 4)).round(0).numbers["calls"] > 300


@pytest.mark.parametrize("name", ["touch-forwards", "no-mark-when-stored"])
def test_a_wrong_answer_under_the_load_is_noticed(name: str) -> None:
    with pytest.raises(NotAsExpected):
        Judging(maker_of(f"mutant:{name}"), "lru", 64, (2, 4)).round(0)


def test_the_timed_load_tells_a_wrong_order_by_its_digest() -> None:
    names = ("impl", "mutant:stored-backwards")
    right, wrong = (Mixed(maker_of(name), "lru", 64, 8) for name in names)
    assert right.round(1).digest != wrong.round(1).digest


def test_the_digest_tells_answers_apart() -> None:
    def digest(stored: list[bytes], evicted: list[bytes]) -> str:
        return digest_of([SimpleNamespace(keys_to_store=stored, evicted_keys=evicted)])

    answers = [digest([b"a"], []), digest([], [b"a"]), digest([b"a"], [b"b"]), digest_of([None]), digest_of([])]
    assert 5 == len(set(answers))


def test_the_floor_gives_up_what_was_used_least_recently() -> None:
    floor = Floor(2)
    floor.prepare_store([b"a", b"b"], None)
    floor.touch([b"a"], None)
    assert [b"b"] == floor.prepare_store([b"c"], None).evicted_keys


@pytest.mark.parametrize("policy", POLICIES)
def test_what_is_pinned_at_the_cold_end_stays_and_the_next_go(policy: str) -> None:
    maker = maker_of("impl")
    evicted: list[bytes] = []

    def make(capacity: int, policy: str) -> tuple[Any, Any]:
        manager, context = maker.make(capacity, policy)
        store = manager.prepare_store

        def noted(keys: Any, request: Any) -> Any:
            answer = store(keys, request)
            evicted.extend(answer.evicted_keys)
            return answer

        manager.prepare_store = noted
        return manager, context

    trial = Pinning(SimpleNamespace(make=make), policy, 32, [0, 8], batch=2, times=1)  # type: ignore[arg-type]
    numbers = trial.round(3).numbers
    keys = keys_of(4, 32)
    # Four go without pins; of the rest the eight coldest are pinned, and the four behind them go.
    assert keys[:4] + keys[12:16] == evicted
    assert {"first 0", "steady 0", "first 8", "steady 8", "slowest"} == set(numbers)


def test_calls_are_timed_on_idle_blocks_only() -> None:
    numbers = Calls(maker_of("impl"), "lru", 200, 0.5, {"1": 2, "4": 2}).round(0).numbers
    every = ("lookup", "touch", "prepare_load", "complete_load", "prepare_store", "complete_store")
    assert {f"{name} {batch}" for name in every for batch in (1, 4)} == set(numbers)


@pytest.mark.parametrize("name", RECORDS)
def test_a_record_is_pinned_and_unpinned(name: str) -> None:
    keys = keys_of(0, 3)
    records = RECORDS[name](keys)
    records.pin_and_unpin(keys)
    held = records.held
    counts = held[1] if isinstance(held, tuple) else [block.ref_cnt for block in held.values()]
    assert [0, 0, 0] == list(counts)


# What is made of the figures


def test_subjects_of_one_profile_have_to_agree() -> None:
    came = {"a": taken({}), "b": taken({}, digest="other"), "c": taken({}, digest="third")}
    profiles = {"a": {"lru": "one"}, "b": {"lru": "one"}, "c": {"lru": "two"}}
    assert ["b answers other than a from round 0 on, though both are one"] == disagreements(came, profiles, "lru")


def test_ratios_are_taken_round_by_round() -> None:
    case = Case("mixed", {"policy": "lru", "capacity": 9, "batch": 2}, rounds=3)
    came: dict[str, Taken | Failed] = {
        "reference": taken({"request": 1.0}, {"request": 2.0}, {"request": 4.0}),
        "other": taken({"request": 2.0}, {"request": 2.0}, {"request": 2.0}),
    }
    _, other = rows_of("mixed", case, came, "reference")
    assert (Spread(2.0, 2.0, 2.0), Spread(1.0, 0.75, 1.5)) == (other.value, other.ratio)


def test_a_subject_that_failed_has_no_row() -> None:
    case = Case("mixed", {"policy": "lru", "capacity": 9, "batch": 2}, rounds=1)
    came: dict[str, Taken | Failed] = {"one": taken({"request": 1.0}), "two": Failed("two: it died")}
    assert ["one"] == [row.subject for row in rows_of("mixed", case, came, "one")]


def test_a_plot_has_a_line_for_each_subject_and_a_panel_for_each_policy() -> None:
    at = {"section": "evict", "blocks": 10, "what": "steady", "keys": 16, "unit": "s", "rounds": 1}
    rows = [
        Row(policy=policy, subject=name, pinned=pinned, value=Spread.of([1e-5]), ratio=None, to_floor=None, **at)
        for policy, name, pinned in product(POLICIES, ("impl", "vllm==0.24.0"), (0, 1, 5, 9))
    ]
    image = ElementTree.fromstring("\n".join(evict_plot(rows)))
    paths = image.findall(".//{http://www.w3.org/2000/svg}path")
    points = image.findall(".//{http://www.w3.org/2000/svg}circle")
    assert (4, 12) == (len(paths), len(points))  # none pinned has no place on a logarithmic axis


@pytest.mark.parametrize(("value", "words"), [(9.4e-7, "940 ns"), (2.5e-5, "25 us"), (0.3, "300 ms"), (4.75, "4.75 s")])
def test_times_in_words(value: float, words: str) -> None:
    assert words == shown(value, "s")


# What is asked for


def test_an_unknown_section_names_the_known_ones() -> None:
    with pytest.raises(UsageError, match="known: mixed, calls"):
        named(["mixed", "speed"])


def test_without_names_all_sections_are_meant() -> None:
    assert list(SECTIONS) == [section.name for section in named([])]


@pytest.mark.parametrize("capacity", [1_000, 10_000, 1_000_000])
def test_numbers_of_pinned_blocks_rise_to_99_per_cent(capacity: int) -> None:
    numbers = pinned_of(capacity)
    assert (sorted(set(numbers)), capacity * 99 // 100) == (numbers, numbers[-1])


def test_the_worker_tells_what_a_subject_did_and_goes_on() -> None:
    server = Server()
    server.answer({"load": "mutant:touch-forwards"})
    server.answer({"begin": "judging", "policy": "lru", "capacity": 64, "batches": [8]})
    assert "evict-order" in server.answer({"round": 0})["failed"]
    assert {} == server.answer({"end": True})


def test_the_worker_calls_bad_input_an_error() -> None:
    assert "unknown subject" in Server().answer({"load": "nobody"})["error"]


def test_pairs_of_calls_are_counted_as_they_are_defined() -> None:
    """The count does not ask `_apart` of every request: it must come to the same."""
    draw = random.Random(0)
    names = (calls.LOOKUP, calls.TOUCH, calls.TAKE_EVENTS)
    for _ in range(200):
        run = [Call(draw.choice(names), (), draw.choice(("r1", "r2", None))) for _ in range(8)]
        coverage = PairCoverage()
        coverage.observe_run(run)
        met = [
            (first, call.name)
            for at, call in enumerate(run)
            for first in {one.name for one in run[:at]}
            if any(_apart(one.request, call.request) for one in run[:at] if one.name == first)
        ]
        assert sorted(met) == sorted(coverage.eventually.elements())
