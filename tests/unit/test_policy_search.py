"""The search at policy level, on policies whose inside it does not know: the call that went wrong is the one named."""

from __future__ import annotations

import sys
from functools import cache
from pathlib import Path

import pytest

from evictable.model.policy import MISMATCHES
from evictable.specs.callers.disciplines import CARELESS, CONTRACT
from evictable.specs.errors import UsageError
from evictable.specs.policy_level.search import ENGINES, PolicySearch
from evictable.specs.policy_level.session import consequence
from evictable.specs.search import CONFORMS, EXHAUSTIVE, INCONCLUSIVE, RANDOM, VIOLATES
from evictable.specs.subjects.policies import PolicySubject, load_policy

sys.path.insert(0, str(Path(__file__).parent))


@cache
def search(name: str, discipline: str, max_calls: int = 2_000, engines: tuple[str, ...] = ENGINES) -> PolicySearch:
    kind = load_policy(f"policies_apart:{name}", "lru")
    made = PolicySearch(kind, kind.profile, discipline)
    made.run(engines, max_calls, None)
    return made


@pytest.mark.parametrize("discipline", [CONTRACT, CARELESS])
def test_a_policy_that_looks_for_itself_conforms(discipline: str) -> None:
    made = search("Oldest", discipline)
    assert (CONFORMS, {}, ()) == (made.verdict, made.findings, made.untouched)


@pytest.mark.parametrize(
    ("name", "law", "calls"),
    [
        ("Greedy", "answer", 1),
        ("HalfWay", "all-or-nothing", 2),
        ("Unguarded", "offer-protected", 2),
        ("Timid", "no-false-refusal", 2),
        ("Counting", "legal-step", 2),
        ("Forgetful", "answer", 3),
        ("Strict", "answer", 1),
    ],
)
@pytest.mark.parametrize("engine", ENGINES)
def test_what_matching_calls_bring_to_light(name: str, law: str, calls: int, engine: str) -> None:
    made = search(name, CONTRACT, 2_000, (engine,))
    assert VIOLATES == made.verdict
    assert calls == len(made.findings[law].session.calls)


@pytest.mark.parametrize(("name", "laws"), [("Ranked", set()), ("FinishedForwards", {"evict-order"})])
def test_requests_that_finish_move_what_they_used(name: str, laws: set[str]) -> None:
    made = PolicySearch(load_policy(f"policies_apart:{name}", "lru"), "lru-ranked", CONTRACT)
    made.run((RANDOM,), 3_000, None)
    assert (laws, True) == (set(made.findings), {"on_store_miss", "on_request_finished"} <= made.exercised)


def test_a_wrong_mark_is_named_and_not_the_eviction_that_suffers() -> None:
    made = search("Trusting", CARELESS)
    assert CONFORMS == search("Trusting", CONTRACT).verdict
    session = made.findings["mismatch/mark-in-use"].session
    assert ["insert(0, ref_cnt=-1)", "mark_evictable(0)"] == [str(call) for call in session.calls]
    assert "evict(1) then gives up 0, in use with ref_cnt -1" == consequence(session)
    assert "mark_evictable(0)" == str(made.findings["mismatch/mark-absent"].session.calls[-1])


def test_what_becomes_of_calls_that_do_not_match_is_told() -> None:
    treatments = search("Trusting", CARELESS).treatments
    assert {"raises ValueError"} == set(treatments["insert-resident"])
    assert {"raises KeyError"} == set(treatments["unmark-unmarked"])
    assert {"breaks mismatch"} == set(treatments["mark-absent"])


def test_too_short_a_search_is_inconclusive_and_says_what_is_missing() -> None:
    made = search("Oldest", CARELESS, 20)
    assert INCONCLUSIVE == made.verdict
    assert {"mark-absent", "victims"} & set(made.untouched)
    assert "not all calls in" in made.bound


def test_the_same_seed_makes_the_same_calls() -> None:
    first, second = (search.__wrapped__("Trusting", CARELESS, 800, (RANDOM,)) for _ in range(2))
    shown = [{name: found.session.calls for name, found in made.findings.items()} for made in (first, second)]
    assert shown[0] == shown[1]


def test_a_small_world_ends() -> None:
    kind = load_policy("impl", "lru")
    made = PolicySearch(kind, kind.profile, CONTRACT, capacity=1)
    made.run((EXHAUSTIVE,), None, None)
    assert ("every call in all 9 states of the model with 1 slots and 2 keys", 93) == (made.bound, made.steps)


@pytest.mark.parametrize("policy", ["lru", "arc"])
def test_ours_do_with_every_mismatch_what_is_documented(policy: str) -> None:
    kind = load_policy("impl", policy)
    made = PolicySearch(kind, kind.profile, CARELESS)
    made.run((RANDOM,), 6_000, None)
    assert ({}, set(MISMATCHES)) == (made.findings, set(made.treatments))
    assert [1] * len(MISMATCHES) == [len(set(counts) - {CARRIED_OUT}) for counts in made.treatments.values()]


CARRIED_OUT = "it is carried out: no victim is in use"


def make_policy(name: str) -> PolicySubject:
    return load_policy(name, "lru").make(1)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        (
            "policies_apart:Incomplete",
            "has no method insert, remove, touch, evict, clear; at policy level a subject is",
        ),
        ("policies_apart:Nobody", "policies_apart has no Nobody; "),
        ("builtins:int", "raised TypeError: "),
    ],
)
def test_what_is_no_policy_is_told(name: str, message: str) -> None:
    with pytest.raises(UsageError) as raised:
        make_policy(name)
    assert message in str(raised.value)
