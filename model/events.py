"""What a consumer of the event stream must be able to rely on."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable

from attrs import define, field

from evictable.model.breach import Breach
from evictable.model.calls import Event, Key


@define
class EventLedger:
    """Every stored and removed key since the last drain, and the consumer that rebuilds the cache from them.

    How facts are gathered into events, and in which order facts about different keys come, is free.
    """

    _waiting: dict[Key, list[deque[bool]]] = field(factory=dict)
    """For each key what is still to be told of it, oldest first; ``True`` is a removal.

    A reset may discard what was not drained, or leave it to be told late: from then on there are two readings
    of what is still to be told, until the next whole drain.
    """
    _ready: set[Key] = field(factory=set)
    _consumer: set[Key] = field(factory=set)
    _apart: set[Key] = field(factory=set)
    """Keys on which consumer and cache differ: kept, so that a drain costs what it delivers."""

    def stored(self, keys: Iterable[Key]) -> None:
        for key in keys:
            self._ready.add(key)
            self._await(key, False)

    def removed(self, keys: Iterable[Key]) -> None:
        for key in keys:
            self._ready.discard(key)
            self._await(key, True)

    def reset(self) -> None:
        """The consumer starts a fresh set; what was not drained may be lost."""
        for readings in self._waiting.values():
            if all(readings):
                readings.append(deque())
        self._ready.clear()
        self._consumer.clear()
        self._apart.clear()

    @property
    def undrained(self) -> bool:
        return bool(self._untold())

    def to_tell(self) -> tuple[Event, ...]:
        """One way to tell all that is still to be told; of what a reset may discard, nothing."""
        waiting: dict[Key, list[bool]] = {}
        for key, readings in self._waiting.items():
            shortest = min(readings, key=len)
            waiting[key] = list(shortest)
        told = []
        for turn in range(max(map(len, waiting.values()), default=0)):
            for removed in (True, False):
                keys = tuple(key for key, facts in waiting.items() if facts[turn : turn + 1] == [removed])
                if keys:
                    told.append(Event(removed, keys))
        return tuple(told)

    def delivered(self, events: Iterable[Event], *, whole: bool) -> list[Breach]:
        """A drain delivered ``events``; ``whole`` if it came to its end. Returns what is wrong with it."""
        faults = []
        for event in events:
            for key in event.keys:
                if event.metadata_only and event.removed and key not in self._consumer:
                    continue  # the clean-up of a store that failed: nothing was announced
                if not self._tell(key, event.removed):
                    told = "removed" if event.removed else "stored"
                    faults.append(
                        Breach("events-once", f"no further event about {key}", f"'{told} {key}' is delivered", (key,))
                    )
                if event.removed:
                    self._consumer.discard(key)
                else:
                    self._consumer.add(key)
                self._compare(key)
        if whole:
            if lost := self._untold():
                faults.append(
                    Breach("events-once", f"an event about each of {list(lost)}", "the drain ends without it", lost)
                )
            self._waiting.clear()
            if self._apart:
                apart = tuple(self._apart)
                faults.append(
                    Breach(
                        "events-replay",
                        f"of {list(apart)} ready: {[key for key in apart if key in self._ready]}",
                        f"the consumer believes in: {[key for key in apart if key in self._consumer]}",
                        apart,
                    )
                )
        return faults

    def _await(self, key: Key, removed: bool) -> None:
        for facts in self._waiting.setdefault(key, [deque()]):
            facts.append(removed)
        self._compare(key)

    def _tell(self, key: Key, removed: bool) -> bool:
        """Whether that is what comes next, in some reading; the others are out."""
        fitting = [facts for facts in self._waiting.get(key, ()) if facts and facts[0] == removed]
        for facts in fitting:
            facts.popleft()
        if any(fitting):
            self._waiting[key] = fitting
        elif fitting:
            del self._waiting[key]
        return bool(fitting)

    def _untold(self) -> tuple[Key, ...]:
        """The keys of which something is still to be told, in every reading."""
        return tuple(key for key, readings in self._waiting.items() if all(readings))

    def _compare(self, key: Key) -> None:
        if (key in self._ready) == (key in self._consumer):
            self._apart.discard(key)
        else:
            self._apart.add(key)
