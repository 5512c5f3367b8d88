"""Every pair of calls of two requests is exercised in both orders, and what is not is named."""

from __future__ import annotations

import pytest
from rich.console import Console
from seeded import DRAIN, PROFILE, RESET, announce, load, lookup, offer, stored, touch

from evictable.model import calls
from evictable.specs.budget import Budget
from evictable.specs.callers.disciplines import CONTRACT
from evictable.specs.callers.walk import walk
from evictable.specs.coverage import PLAIN, PairCoverage, vocabulary
from evictable.specs.subjects.base import Setup
from evictable.specs.subjects.builtin import BUILT_IN


def of(*run: calls.Call) -> PairCoverage:
    coverage = PairCoverage()
    coverage.observe_run(run)
    return coverage


def test_calls_of_one_request_are_no_pair() -> None:
    made = of(offer("r1", 1), stored("r1", 1))
    assert ({}, {}) == (dict(made.directly), dict(made.eventually))


def test_what_follows_at_once_and_what_follows_later() -> None:
    made = of(offer("r1", 1), lookup("r2", 1), stored("r1", 1), touch("r2", 1))
    offered, looked, done, touched = calls.PREPARE_STORE, calls.LOOKUP, calls.COMPLETE_STORE, calls.TOUCH
    assert {(offered, looked), (looked, done), (done, touched)} == set(made.directly)
    assert {(offered, looked), (looked, done), (done, touched), (offered, touched)} == set(made.eventually)


def test_the_same_call_of_another_request_counts_however_many_came_before() -> None:
    made = of(*(load("r1", 1),) * 3, load("r2", 1), load("r1", 1))
    pair = (calls.PREPARE_LOAD, calls.PREPARE_LOAD)
    assert (2, 2) == (made.directly[pair], made.eventually[pair])


def test_what_is_nobodys_pairs_with_everything() -> None:
    made = of(DRAIN, RESET, DRAIN)
    drain, reset = calls.TAKE_EVENTS, calls.RESET_CACHE
    assert {(drain, reset): 1, (reset, drain): 1, (drain, drain): 1} == dict(made.eventually)


def test_runs_do_not_meet() -> None:
    made = PairCoverage()
    made.observe_run([announce("r1")])
    made.observe_run([announce("r2")])
    assert {} == dict(made.eventually)


def test_what_is_missing_is_named() -> None:
    made = PairCoverage(names=(calls.TOUCH, calls.LOOKUP))
    made.observe_run([touch("r1", 1), lookup("r2", 1), touch("r1", 1), touch("r2", 1)])
    assert ((calls.LOOKUP, calls.LOOKUP),) == made.missing()
    assert "of 4 ordered pairs of calls of two requests 3 occurred, 3 one right after" in made.summary


@pytest.mark.parametrize(("tiers", "max_calls"), [(0, 4000), (1, 12000)])
def test_a_walk_covers_every_pair(tiers: int, max_calls: int) -> None:
    coverage = PairCoverage(vocabulary(tiers))
    budget = Budget(max_calls=max_calls)
    for session in walk(BUILT_IN, Setup(3, tiers=tiers), PROFILE, CONTRACT, budget, 1, vary_capacity=True):
        coverage.observe_run(record.call for record in session.records)
    assert () == coverage.missing()


def test_a_walk_of_a_few_calls_does_not() -> None:
    coverage = PairCoverage()
    for session in walk(BUILT_IN, Setup(3), PROFILE, CONTRACT, Budget(max_calls=60), 1, vary_capacity=True):
        coverage.observe_run(record.call for record in session.records)
    assert (calls.RESET_CACHE, calls.RESET_CACHE) in coverage.missing()


def test_the_table_has_a_row_for_each_call() -> None:
    console = Console(width=200, record=True)
    console.print(of(offer("r1", 1), lookup("r2", 1), touch("r1", 1)).table())
    text = console.export_text()
    assert [] == [name for name in PLAIN if name not in text]
