"""A watch over the calls into a subject: one that never comes back is a finding, not a silence."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Collection

from attrs import define, field

from evictable.model.calls import Answer, Call, Key
from evictable.model.exchanges import Exchange
from evictable.model.snapshot import Snapshot
from evictable.specs.faults import Faults
from evictable.specs.subjects.base import Setup, Subject

LONGEST_CALL = 20.0
"""Seconds after which a call counts as hung."""


@define
class Watch:
    """Knows which call is under way, on what, and what was called before."""

    on_hang: Callable[[Setup, tuple[Call, ...]], None]
    """Gets the set-up and the calls so far, the hung one last; called from another thread."""
    longest_call: float = LONGEST_CALL
    _setup: Setup | None = None
    _calls: list[Call] = field(factory=list)
    _since: float | None = None

    def over(self, setup: Setup, subject: Subject) -> Subject:
        """``subject``, its calls watched."""
        return _Watched(self, setup, subject)

    def start(self) -> None:
        """Look from now on, until the process ends."""
        threading.Thread(target=self._look, daemon=True).start()

    def begin(self, setup: Setup, calls: list[Call]) -> None:
        self._setup, self._calls, self._since = setup, calls, time.monotonic()

    def end(self) -> None:
        self._since = None

    def _look(self) -> None:
        while True:
            time.sleep(self.longest_call / 10)
            since, setup = self._since, self._setup
            if since is not None and setup is not None and time.monotonic() - since > self.longest_call:
                self.on_hang(setup, tuple(self._calls))
                return


class _Watched:
    def __init__(self, watch: Watch, setup: Setup, subject: Subject) -> None:
        self._watch, self._setup, self._subject = watch, setup, subject
        self._calls: list[Call] = []

    def perform(self, call: Call) -> Answer:
        self._calls.append(call)
        self._watch.begin(self._setup, self._calls)
        try:
            return self._subject.perform(call)
        finally:
            self._watch.end()

    def snapshot(self, keys: Collection[Key] | None) -> Snapshot | None:
        return self._subject.snapshot(keys)

    def exchanges(self) -> tuple[Exchange, ...]:
        return self._subject.exchanges()

    @property
    def faults(self) -> Faults:
        return self._subject.faults
