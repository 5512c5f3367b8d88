"""What a consumer of the event stream must be able to rely on."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable

from attrs import define, field, frozen

from evictable.model.calls import Event, Key


@frozen
class EventFault:
    """What is wrong with a drain: which law (``events-once`` or ``events-replay``), and how."""

    law: str
    expected: str
    observed: str
    keys: tuple[Key, ...]


@define
class EventLedger:
    """Every stored and removed key since the last drain, and the consumer that rebuilds the cache from them.

    How facts are gathered into events, and in which order facts about different keys come, is free.
    """

    _waiting: dict[Key, deque[bool]] = field(factory=dict)
    """For each key what is still to be told of it, oldest first; ``True`` is a removal."""
    _stale: dict[Key, deque[bool]] = field(factory=dict)
    """The same from before a reset: may be told late, or be discarded."""
    _ready: set[Key] = field(factory=set)
    _consumer: set[Key] = field(factory=set)
    _apart: set[Key] = field(factory=set)
    """Keys on which consumer and cache differ: kept, so that a drain costs what it delivers."""

    def stored(self, keys: Iterable[Key]) -> None:
        for key in keys:
            self._ready.add(key)
            self._waiting.setdefault(key, deque()).append(False)
            self._compare(key)

    def removed(self, keys: Iterable[Key]) -> None:
        for key in keys:
            self._ready.discard(key)
            self._waiting.setdefault(key, deque()).append(True)
            self._compare(key)

    def reset(self) -> None:
        """The consumer starts a fresh set; what was not drained may be lost."""
        for key, facts in self._waiting.items():
            self._stale.setdefault(key, deque()).extend(facts)
        self._waiting.clear()
        self._ready.clear()
        self._consumer.clear()
        self._apart.clear()

    @property
    def undrained(self) -> bool:
        return bool(self._waiting)

    def delivered(self, events: Iterable[Event], *, whole: bool) -> list[EventFault]:
        """A drain delivered ``events``; ``whole`` if it came to its end. Returns what is wrong with it."""
        faults = []
        for event in events:
            for key in event.keys:
                if not event.metadata_only and not self._tell(key, event.removed):
                    told = "removed" if event.removed else "stored"
                    faults.append(
                        EventFault(
                            "events-once", f"no further event about {key}", f"'{told} {key}' is delivered", (key,)
                        )
                    )
                if event.removed:
                    self._consumer.discard(key)
                else:
                    self._consumer.add(key)
                self._compare(key)
        if whole:
            if self._waiting:
                lost = tuple(self._waiting)
                faults.append(
                    EventFault("events-once", f"an event about each of {list(lost)}", "the drain ends without it", lost)
                )
            if self._apart:
                apart = tuple(self._apart)
                faults.append(
                    EventFault(
                        "events-replay",
                        f"of {list(apart)} ready: {[key for key in apart if key in self._ready]}",
                        f"the consumer believes in: {[key for key in apart if key in self._consumer]}",
                        apart,
                    )
                )
        return faults

    def _tell(self, key: Key, removed: bool) -> bool:
        for queue in (self._waiting, self._stale):
            facts = queue.get(key)
            if facts and facts[0] == removed:
                facts.popleft()
                if not facts:
                    del queue[key]
                return True
        return False

    def _compare(self, key: Key) -> None:
        if (key in self._ready) == (key in self._consumer):
            self._apart.discard(key)
        else:
            self._apart.add(key)
