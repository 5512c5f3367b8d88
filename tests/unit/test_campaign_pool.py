"""Units at an executor: whatever becomes of one, something comes back."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from typing import Any

import pytest

from evictable.ci.units import RETRIES, Pool, Result, local_pool, perform
from evictable.specs.campaign.places import Place
from evictable.specs.campaign.units import Unit

UNIT = Unit(7, Place("impl", "lru", "contract"), "random", max_calls=200)
FOUND = {
    "shape": "answer (lookup)",
    "law": "answer",
    "fault": None,
    "call": "lookup",
    "broken": {},
    "size": [1],
    "shrunk": False,
    "repeats": True,
    "trace": ['{"evictable_trace": 1, "capacity": 2}', '{"call": "lookup", "request": "r1", "keys": [0]}'],
}


@pytest.fixture
def pool_that() -> Iterator[Callable[[Any], Pool]]:
    with ThreadPoolExecutor(1) as executor:
        yield lambda work: Pool(executor, 1, work)


def come_back(pool: Pool) -> tuple[Unit, Result]:
    pool.submit(UNIT)
    results: list[tuple[Unit, Result]] = []
    while not results:
        results = pool.collect(10)
    (one,) = results
    return one


def test_a_result_comes_back_as_it_is(pool_that: Callable[[Any], Pool]) -> None:
    result = {"unit": 7, "problem": None, "findings": [FOUND]}
    assert (UNIT, result) == come_back(pool_that(lambda unit: result))


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (None, "unit 7 (random, seed 0) answered what is no result of it"),
        ({"unit": 8, "problem": None}, "unit 7 (random, seed 0) answered what is no result of it"),
        ({"unit": 7}, "unit 7 (random, seed 0) answered what is no result of it"),
        (
            {"unit": 7, "problem": None, "findings": [{"law": "answer"}]},
            "unit 7 (random, seed 0) answered a finding without what belongs to one",
        ),
        (
            {"unit": 7, "problem": None, "findings": [FOUND | {"trace": []}]},
            "unit 7 (random, seed 0) answered a finding that cannot be read (list index out of range)",
        ),
    ],
)
def test_what_is_no_result_is_a_problem(answer: Any, said: str, pool_that: Callable[[Any], Pool]) -> None:
    _, result = come_back(pool_that(lambda unit: answer))
    assert {"kind": "nonsense", "message": said} == result["problem"]
    assert [] == result.get("findings", [])


def test_what_else_it_found_is_kept(pool_that: Callable[[Any], Pool]) -> None:
    _, result = come_back(pool_that(lambda unit: {"unit": 7, "problem": None, "findings": [{}, FOUND]}))
    assert ([FOUND], "nonsense") == (result["findings"], result["problem"]["kind"])


def test_a_unit_that_is_lost_is_done_again(pool_that: Callable[[Any], Pool]) -> None:
    tries: list[int] = []

    def work(unit: Mapping[str, Any]) -> dict[str, Any]:
        tries.append(unit["number"])
        if len(tries) <= RETRIES:
            raise ConnectionError("the worker has gone")
        return {"unit": 7, "problem": None}

    assert (UNIT, {"unit": 7, "problem": None}) == come_back(pool_that(work))
    assert [7] * (RETRIES + 1) == tries


def test_one_that_is_lost_each_time_is_a_problem(pool_that: Callable[[Any], Pool]) -> None:
    def work(unit: Mapping[str, Any]) -> dict[str, Any]:
        raise ConnectionError("the worker\nhas gone")

    _, result = come_back(pool_that(work))
    message = "unit 7 (random, seed 0) was lost 3 times, the last time by ConnectionError the worker has gone"
    assert {"kind": "lost", "message": message} == result["problem"]


def test_a_worker_of_another_version_does_nothing() -> None:
    result = perform(UNIT.record() | {"evictable": "0.0.1"})
    assert "version" == result["problem"]["kind"]
    assert result["problem"]["message"].endswith("and the campaign is of 0.0.1: it ends here")


def test_a_subject_that_there_is_not() -> None:
    result = perform(UNIT.record() | {"place": Place("nobody", "lru", "contract").record()})
    assert "error" == result["problem"]["kind"]


def test_a_unit_is_done_in_a_process_of_its_own() -> None:
    pool = local_pool(1)
    with closing(pool):
        _, result = come_back(pool)
    assert (None, [], True) == (result["problem"], result["findings"], result["calls"] >= 200)
    assert 0 < len(result["corpus"])
