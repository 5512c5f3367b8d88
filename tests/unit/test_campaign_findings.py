"""Findings: each once, by its shortest run, in whatever order results arrive."""

from __future__ import annotations

import itertools
from typing import Any

from evictable.specs.campaign.findings import Finding, Findings
from evictable.specs.campaign.places import SHRINK, Place

PLACE = Place("impl", "lru", "contract")
SHAPE = "answer (lookup)"
Told = tuple[dict[str, Any], dict[str, Any]]


def told(unit: int, calls: int, *, engine: str = "random", shape: str = SHAPE, times: int = 1) -> Told:
    found = {
        "shape": shape,
        "law": "answer",
        "fault": None,
        "call": "lookup",
        "broken": {"expected": "MISS", "observed": f"of {unit}", "sentence": ""},
        "size": [calls],
        "shrunk": engine == SHRINK,
        "repeats": True,
        "trace": ["{}"] * (calls + 1),
    }
    return {"unit": unit, "engine": engine, "seed": unit + 100}, {"findings": [found], "times": {shape: times}}


def taken(*results: Told) -> Findings:
    findings = Findings()
    for unit, result in results:
        findings.take(PLACE, unit, result)
    return findings


def only(findings: Findings) -> Finding:
    (found,) = findings.in_order
    return found


def test_the_shortest_is_kept_and_the_first_unit_named() -> None:
    found = only(taken(told(3, 9), told(4, 5), told(5, 7)))
    assert (5, 3, 103, 3, "of 4") == (found.calls, found.unit, found.seed, found.times, found.broken["observed"])


def test_the_order_of_arrival_does_not_matter() -> None:
    results = [told(3, 9), told(4, 5), told(5, 5), told(9, 4, engine=SHRINK)]
    records = [only(taken(*order)).record() for order in itertools.permutations(results)]
    assert [records[0]] * len(records) == records


def test_what_is_shrunk_is_shown_rather_than_a_shorter_one_that_is_not() -> None:
    found = only(taken(told(1, 6), told(7, 4, engine=SHRINK), told(8, 3)))
    assert (4, True, 2) == (found.calls, found.shrunk, found.times)


def test_another_call_that_breaks_the_law_is_another_finding() -> None:
    assert 2 == len(taken(told(1, 6), told(2, 6, shape="answer (touch)")).in_order)


def test_only_what_is_new_or_better_is_news() -> None:
    findings = taken(told(1, 6))
    assert [] == findings.take(PLACE, *told(2, 8))
    assert [only(findings)] == findings.take(PLACE, *told(3, 5))


def test_what_does_not_repeat_stays_and_says_so() -> None:
    findings = taken(told(1, 6))
    findings.doubt((PLACE, SHAPE), "breaks nothing when made again")
    findings.settle()
    assert "breaks nothing when made again" == only(findings).unrepeatable


def test_what_repeats_after_all_is_not_doubted() -> None:
    findings = taken(told(1, 6))
    findings.doubt((PLACE, SHAPE), "breaks nothing when made again")
    findings.take(PLACE, *told(4, 4, engine=SHRINK))
    findings.settle()
    assert only(findings).unrepeatable is None
