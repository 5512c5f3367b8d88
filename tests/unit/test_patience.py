"""Whether a request that asks again and again is ever served: a circle is found, and nothing that is none."""

from __future__ import annotations

from collections.abc import Callable, Hashable

import pytest
from seeded import DRAIN, STATS, announce, finish, offer, touch

from evictable.model.calls import HIT, HIT_PENDING, MISS, RETRY, Call, Key
from evictable.model.patience import Patience

REACH = frozenset(range(9))
Circle = tuple[str | None, tuple[Key, ...], int] | None


def step(
    patience: Patience,
    *answers: str,
    request: str = "r1",
    first: int = 0,
    state: Hashable = "as ever",
    capacity: int = 4,
    reach: frozenset[Key] = REACH,
) -> Circle:
    """One step, in which a request asks for as many keys as there are answers."""
    for key, answer in enumerate(answers, first):
        patience.looked_up(request, key, answer)
    return patience.step_ends(reach, capacity, state)


@pytest.mark.parametrize("answer", [MISS, HIT_PENDING, RETRY])
def test_two_steps_that_end_alike_are_a_circle(answer: str) -> None:
    patience = Patience()
    assert [None, ("r1", (0, 1), 1)] == [step(patience, HIT, answer) for _ in range(2)]


def test_a_circle_may_take_several_steps() -> None:
    patience = Patience()
    states = ["a", "b", "c", "b"]
    assert [None, None, None, ("r1", (0,), 2)] == [step(patience, MISS, state=state) for state in states]


def test_as_long_as_something_changes_nobody_waits_for_ever() -> None:
    patience = Patience()
    assert [None] * 50 == [step(patience, MISS, state=number) for number in range(50)]


def test_answers_that_change_are_a_change() -> None:
    patience = Patience()
    assert [None] * 3 == [step(patience, answer) for answer in (MISS, RETRY, HIT_PENDING)]


def test_a_request_that_finds_everything_waits_for_nothing() -> None:
    patience = Patience()
    assert [None] * 3 == [step(patience, HIT, HIT) for _ in range(3)]


@pytest.mark.parametrize(
    "changes",
    [{"capacity": 1}, {"reach": frozenset({0})}],
    ids=["more keys than slots", "a key that is nowhere"],
)
def test_what_cannot_be_served_may_wait_for_ever(changes: dict[str, object]) -> None:
    patience = Patience()
    assert [None] * 3 == [step(patience, MISS, MISS, **changes) for _ in range(3)]  # type: ignore[arg-type]


def test_a_key_that_is_asked_for_twice_takes_one_slot() -> None:
    patience = Patience()
    for _ in range(2):
        patience.looked_up("r1", 0, MISS)
        circle = step(patience, MISS, capacity=1)
    assert ("r1", (0,), 1) == circle


def test_who_asks_nothing_is_not_waiting() -> None:
    patience = Patience()
    assert [None] * 3 == [step(patience) for _ in range(3)]


DISTURBANCES: dict[str, Callable[[Patience], object]] = {
    "something happens": lambda patience: patience.disturbed(),
    "it loads something": lambda patience: patience.served("r1"),
    "another asks, too": lambda patience: patience.looked_up("r2", 0, HIT),
    "an offer": lambda patience: patience.disturbed_by(offer("r2", 1)),
    "a touch": lambda patience: patience.disturbed_by(touch("r1", 1)),
    "a new request": lambda patience: patience.disturbed_by(announce("r2")),
    "the end of a request": lambda patience: patience.disturbed_by(finish("r2")),
}


@pytest.mark.parametrize("disturb", DISTURBANCES.values(), ids=DISTURBANCES.keys())
def test_whatever_happens_in_between_breaks_a_circle(disturb: Callable[[Patience], object]) -> None:
    patience = Patience()
    step(patience, MISS)
    disturb(patience)
    assert [None, None] == [step(patience, MISS) for _ in range(2)]


def test_after_a_disturbance_a_circle_begins_anew() -> None:
    patience = Patience()
    step(patience, MISS)
    patience.disturbed()
    assert [None, None, ("r1", (0,), 1)] == [step(patience, MISS) for _ in range(3)]


@pytest.mark.parametrize("call", [DRAIN, STATS], ids=str)
def test_what_makes_no_difference_to_anybody_breaks_no_circle(call: Call) -> None:
    patience = Patience()
    step(patience, MISS)
    patience.disturbed_by(call)
    assert ("r1", (0,), 1) == step(patience, MISS)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ({"request": "r1"}, {"request": "r2"}),
        ({"first": 0}, {"first": 1}),
        ({"capacity": 4}, {"capacity": 0}),
    ],
    ids=["request", "keys", "room"],
)
def test_steps_of_another_kind_in_between_break_a_circle(one: dict[str, object], other: dict[str, object]) -> None:
    patience = Patience()
    assert [None] * 3 == [step(patience, MISS, **changes) for changes in (one, other, one)]  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("steps", "exercised"),
    [
        ((), set()),
        (((MISS,), (MISS,)), set()),
        (((HIT, HIT),), {"tier-progress"}),
        (((HIT,), (MISS,)), set()),
    ],
)
def test_patience_is_put_to_the_test_when_all_is_found(steps: tuple[tuple[str, ...], ...], exercised: set[str]) -> None:
    patience = Patience()
    for state, answers in enumerate(steps):
        step(patience, *answers, state=state)
    assert exercised == patience.exercised


@pytest.mark.parametrize(("request_", "waited"), [("r1", True), ("r2", False)])
def test_whether_who_is_served_has_waited(request_: str, waited: bool) -> None:
    patience = Patience()
    step(patience, MISS)
    assert waited == patience.served(request_)


def test_who_is_served_at_once_has_not_waited() -> None:
    assert not Patience().served("r1")
