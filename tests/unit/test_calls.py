"""Calls and answers in words, as a report shows them."""

from __future__ import annotations

from typing import Any

import pytest
from attrs import evolve
from seeded import DRAIN, drain, failed, lookup, offer, touch

from evictable.model.calls import Drained, Event, Loaded, Raised, Stored, describe, group_of


@pytest.mark.parametrize(
    ("said", "words"),
    [
        (lookup("r1", 3), "lookup(3, request=r1)"),
        (offer("r1", 3, "ab"), "prepare_store([3, ab], request=r1)"),
        (failed("r1", 3), "complete_store([3], request=r1, success=False)"),
        (DRAIN, "take_events()"),
        (drain(2), "take_events(limit=2)"),
        (evolve(touch("r1", 3, 4), positions=(1, None)), "touch([3, 4], request=r1, positions=[1, None])"),
        (None, "None"),
        ("HIT", "HIT"),
        (Stored((1,), (0,), (2,)), "store [1] in slots [0], evicting [2]"),
        (Loaded((0, 1)), "load from slots [0, 1]"),
        (Drained(()), "events: none"),
        (Drained((Event(False, (1, 2)), Event(True, (3,)))), "events: stored [1, 2]; removed [3]"),
        (Raised("KeyError"), "raises KeyError"),
        (Raised("KeyError", "9"), "raises KeyError: 9"),
    ],
)
def test_in_words(said: Any, words: str) -> None:
    assert words == describe(said)


def test_what_was_raised_is_known_by_its_type() -> None:
    assert Raised("KeyError", "9") == Raised("KeyError", "8")


@pytest.mark.parametrize(("key", "group"), [(7, 0), ("00" * 8 + "00000002", 2), ("ab", 0xAB)])
def test_the_group_of_a_key(key: Any, group: int) -> None:
    assert group == group_of(key)
