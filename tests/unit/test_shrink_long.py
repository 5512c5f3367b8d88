"""Long traces: thousands of calls made a few, and nothing left that could be left out."""

from __future__ import annotations

import random

import pytest

from evictable.model.calls import Call, Outcome
from evictable.model.trace import Entry, Head, Trace
from evictable.specs import subjects
from evictable.specs.callers.disciplines import CONTRACT
from evictable.specs.callers.workload import Workload
from evictable.specs.session import outcome_of
from evictable.specs.shrink_long import LongShrinker
from evictable.specs.subjects.base import Setup

SETUP = Setup(200)


def long_trace(name: str, requests: int = 150, setup: Setup = SETUP) -> Trace:
    """What a workload calls on a subject, unjudged."""
    subject = subjects.load(name).make(setup)
    entries: list[Entry] = []

    def perform(call: Call) -> Outcome:
        outcome = outcome_of(subject, call)
        entries.append(Entry(call, outcome))
        return outcome

    rng = random.Random(1)
    starts = [rng.randrange(40) for _ in range(requests)]
    *_, _ = Workload(perform, setup.capacity).run(tuple(range(10 * at, 10 * at + 10)) for at in starts)
    return Trace(Head(setup.capacity, name), tuple(entries))


@pytest.mark.parametrize("name", ["counter-forgets-unpins", "no-unmark-when-pinned"])
def test_a_workload_is_shrunk(name: str) -> None:
    kind = subjects.load(f"mutant:{name}")
    shrinker = LongShrinker(kind, kind.profile("lru"), long_trace(kind.name), SETUP)
    found = shrinker.shrink()
    assert found is not None
    assert 8 >= len(found.calls)
    assert shrinker.minimal
    for place in range(len(found.calls)):
        shorter = found.calls[:place] + found.calls[place + 1 :]
        assert shrinker._attempt(found.law, found.setup, shorter) is None


@pytest.mark.parametrize("name", ["slot-leaks-at-eviction", "counter-forgets-evictions"])
def test_what_takes_a_full_cache_ends_in_a_small_one(name: str) -> None:
    kind, setup = subjects.load(f"mutant:{name}"), Setup(30)
    shrinker = LongShrinker(kind, kind.profile("lru"), long_trace(kind.name, setup=setup), setup)
    found = shrinker.shrink()
    assert found is not None
    assert (4, True) == (len(found.calls), found.setup.capacity <= 2)
    assert any(broken.law.id == found.law for broken in found.broken)


def test_a_trace_that_breaks_nothing() -> None:
    kind = subjects.load("impl")
    assert LongShrinker(kind, kind.profile("lru"), long_trace("impl", 20), SETUP).shrink() is None


def test_a_caller_who_keeps_the_contract_is_enough() -> None:
    kind = subjects.load("mutant:counter-forgets-unpins")
    shrinker = LongShrinker(kind, kind.profile("lru"), long_trace(kind.name), SETUP)
    assert shrinker.shrink() is not None
    assert CONTRACT == shrinker.discipline
