"""A call that never comes back is told, with the calls before it."""

from __future__ import annotations

import threading
from collections.abc import Collection

from seeded import announce, finish, offer

from evictable.model.calls import Answer, Call, Key
from evictable.model.exchanges import Exchange, ToldFinished
from evictable.model.snapshot import Snapshot
from evictable.specs.subjects.base import Setup
from evictable.specs.subjects.builtin import BUILT_IN
from evictable.specs.watch import Watch


class Blocks:
    """Does not come back from an offer until it is let go."""

    def __init__(self) -> None:
        self.let_go = threading.Event()

    def perform(self, call: Call) -> Answer:
        if call.keys:
            assert self.let_go.wait(30)
        return None

    def snapshot(self, keys: Collection[Key] | None) -> Snapshot | None:
        return None

    def exchanges(self) -> tuple[Exchange, ...]:
        return ()


def test_a_hung_call_is_told_with_those_before_it() -> None:
    told: list[tuple[Setup, tuple[Call, ...]]] = []
    blocks = Blocks()

    def on_hang(setup: Setup, calls: tuple[Call, ...]) -> None:
        told.append((setup, calls))
        blocks.let_go.set()

    watch = Watch(on_hang, longest_call=0.05)
    watch.start()
    watched = watch.over(Setup(3), blocks)
    for call in (announce("r"), offer("r", 1)):
        watched.perform(call)
    assert [(Setup(3), (announce("r"), offer("r", 1)))] == told


def test_what_is_watched_shows_what_it_would_show() -> None:
    setup = Setup(3, tiers=1)
    watched = Watch(lambda setup, calls: None).over(setup, BUILT_IN.make(setup))
    for call in (announce("r1"), offer("r1", 1), finish("r2")):
        watched.perform(call)
    seen = watched.snapshot(None)
    assert seen is not None
    assert ({1: -1}, (ToldFinished(0, "r2"),)) == (seen.ref_cnt, watched.exchanges())
