"""Calls and answers in words, as a report shows them."""

from __future__ import annotations

from typing import Any

import pytest
from attrs import evolve
from seeded import DRAIN, RESET, drain, failed, lookup, offer, stored, touch
from tiered import END, badly, cascade, delay, done, drained, fill, no_room, peer, promotion, room, well

from evictable.model.calls import Drained, Event, Loaded, Raised, Stored, describe, group_of
from evictable.model.exchanges import Asked, PeerAsked, PeerClaims, PeerFinished, ToldFinished


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
        (END, "on_schedule_end()"),
        (fill(1, 3, 4), "fill_tier([3, 4], tier=1)"),
        (delay(0, 3), "delay_tier([3], tier=0)"),
        (done(2, 3), "finish_job(job=2, [3])"),
        (peer(1, "p", 3), "peer_lookup([3], request=p, tier=1)"),
        (evolve(RESET, success=False), "reset_cache(success=False)"),
        (
            evolve(stored("r1", 3), raises_in="submit_store"),
            "complete_store([3], request=r1, success=True, submit_store raises)",
        ),
        (evolve(END, raises_in="submit_load", at=2), "on_schedule_end(submit_load raises at use 2)"),
        (Asked(1, 3, "HIT"), "tier 1 is asked for 3: HIT"),
        (room(3, 0, 4), "reserves slots [0] for [3], evicting [4]"),
        (no_room(3), "no room for [3]"),
        (cascade(2, {3: 0}), "tier 0 gets job 2 of r1: store [3] from slots [0]"),
        (promotion(2, {3: 0}, raised=True), "tier 0 gets job 2 of r1: load [3] into slots [0], and raises"),
        (well(2, 3), "tier 0 reports job 2: done"),
        (badly(2, 3), "tier 0 reports job 2: failed, but for [3]"),
        (badly(2), "tier 0 reports job 2: failed"),
        (ToldFinished(1, "r1"), "tier 1 is told that r1 has finished"),
        (drained((2, (3,)), (4, ())), "tier 0 is drained: jobs [2, 4] end"),
        (PeerAsked(1, "p", 3, "MISS"), "a peer behind tier 1 asks for 3: MISS"),
        (PeerClaims(1, "p", (3,)), "a peer behind tier 1 claims [3]"),
        (PeerFinished(1, "p"), "p of a peer behind tier 1 has finished"),
    ],
)
def test_in_words(said: Any, words: str) -> None:
    assert words == describe(said)


def test_what_was_raised_is_known_by_its_type() -> None:
    assert Raised("KeyError", "9") == Raised("KeyError", "8")


@pytest.mark.parametrize(("key", "group"), [(7, 0), ("00" * 8 + "00000002", 2), ("ab", 0xAB)])
def test_the_group_of_a_key(key: Any, group: int) -> None:
    assert group == group_of(key)
