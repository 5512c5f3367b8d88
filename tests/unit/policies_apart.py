"""Cache policies of nobody in particular, for the judge of policies: each but the first with a defect."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any


class Oldest:
    """First in, first out; looks at every ref_cnt, and shows nothing of its inside."""

    def __init__(self, cache_capacity: int) -> None:
        self.held: dict[bytes, Any] = {}

    def get(self, key: bytes) -> Any:
        return self.held.get(key)

    def insert(self, key: bytes, block: Any) -> None:
        if key in self.held:
            raise ValueError("resident")
        self.held[key] = block

    def remove(self, key: bytes) -> None:
        del self.held[key]

    def touch(self, keys: Iterable[bytes]) -> None:
        pass

    def clear(self) -> None:
        self.held.clear()

    def idle(self, protected: set[bytes]) -> list[bytes]:
        return [key for key, block in self.held.items() if block.ref_cnt == 0 and key not in protected]

    def evict(self, n: int, protected: set[bytes]) -> list[tuple[bytes, Any]] | None:
        victims = self.idle(protected)[:n]
        return None if len(victims) < n else [(key, self.held.pop(key)) for key in victims]


class Trusting(Oldest):
    """Believes every mark, and keeps what it was told out of sight."""

    def __init__(self, cache_capacity: int) -> None:
        super().__init__(cache_capacity)
        self.told: dict[bytes, None] = {}

    def insert(self, key: bytes, block: Any) -> None:
        super().insert(key, block)
        if block.ref_cnt == 0:
            self.told[key] = None

    def remove(self, key: bytes) -> None:
        super().remove(key)
        self.told.pop(key, None)

    def clear(self) -> None:
        super().clear()
        self.told.clear()

    def idle(self, protected: set[bytes]) -> list[bytes]:
        return [key for key in self.told if key not in protected]

    def evict(self, n: int, protected: set[bytes]) -> list[tuple[bytes, Any]] | None:
        victims = super().evict(n, protected)
        for key, _ in victims or ():
            del self.told[key]
        return victims

    def mark_evictable(self, key: bytes) -> None:
        self.told[key] = None

    def mark_non_evictable(self, key: bytes) -> None:
        del self.told[key]


class Greedy(Oldest):
    """Gives up what it has when it has too little."""

    def evict(self, n: int, protected: set[bytes]) -> list[tuple[bytes, Any]] | None:
        return [(key, self.held.pop(key)) for key in self.idle(protected)[:n]]


class HalfWay(Oldest):
    """Drops as it goes along, and finds too late that there are too few."""

    def evict(self, n: int, protected: set[bytes]) -> list[tuple[bytes, Any]] | None:
        victims = [(key, self.held.pop(key)) for key in self.idle(protected)[:n]]
        return victims if len(victims) == n else None


class Unguarded(Oldest):
    def idle(self, protected: set[bytes]) -> list[bytes]:
        return super().idle(set())


class Timid(Oldest):
    """Never gives up its last idle block."""

    def idle(self, protected: set[bytes]) -> list[bytes]:
        return super().idle(protected)[1:]


class Counting(Oldest):
    """Counts a touch as a use of the block."""

    def touch(self, keys: Iterable[bytes]) -> None:
        for key in keys:
            if key in self.held:
                self.held[key].ref_cnt += 1


class Forgetful(Oldest):
    """A touch of one key loses another."""

    def touch(self, keys: Iterable[bytes]) -> None:
        for key in keys:
            if key in self.held:
                self.held = {key: self.held[key]}


class Strict(Oldest):
    """Refuses a block that is idle when it is inserted."""

    def insert(self, key: bytes, block: Any) -> None:
        if block.ref_cnt == 0:
            raise ValueError("idle")
        super().insert(key, block)


class Incomplete:
    def __init__(self, cache_capacity: int) -> None: ...

    def get(self, key: bytes) -> Any: ...


class Ranked(Oldest):
    """The order `lru-ranked`: a use moves a block to the end, pinned or not."""

    def touch(self, keys: Iterable[bytes]) -> None:
        for key in reversed(list(keys)):
            if key in self.held:
                self.held[key] = self.held.pop(key)

    def on_store_miss(self, keys: Iterable[bytes], request: Any) -> None:
        self.touch(keys)

    def on_request_finished(
        self, groups: Iterable[Iterable[bytes]], inserted: set[bytes], reused: set[bytes], request: Any
    ) -> None:
        for keys in groups:
            self.touch(keys)


class FinishedForwards(Ranked):
    """Lets the head of a finished prefix go before its tail."""

    def on_request_finished(
        self, groups: Iterable[Iterable[bytes]], inserted: set[bytes], reused: set[bytes], request: Any
    ) -> None:
        for keys in groups:
            self.touch(reversed(list(keys)))
