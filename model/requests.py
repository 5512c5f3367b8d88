"""What a request has done to the cache so far: vLLM keeps it from 0.31 on, and its orders read it.

Rules taken from vLLM 0.31 to 0.33, `CPUOffloadingManager._record_request_cache_access` and its callers.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from attrs import define, field

from evictable.model.calls import Key, group_of


@define
class Record:
    """The keys that one request has loaded, stored, been refused, or offered while they were ready."""

    groups: dict[int, list[Key]] = field(factory=dict)
    """First seen first, by group index."""
    seen: set[Key] = field(factory=set)
    inserted: set[Key] = field(factory=set)
    reused: set[Key] = field(factory=set)
    missed: set[Key] = field(factory=set)
    """New keys of its offers, whether stored or refused."""
    finished: bool = False


@define
class Requests:
    """The records of all requests, and the token positions that they gave to their keys."""

    records: dict[str | None, Record] = field(factory=dict)
    positions: dict[str | None, dict[Key, int]] = field(factory=dict)

    def announced(self, request: str | None) -> None:
        self.records[request] = Record()
        self.positions.pop(request, None)

    def cleared(self) -> None:
        """A reset begins every record anew. Positions belong to the request, not to the cache."""
        self.records.clear()

    def place(self, request: str | None, keys: Sequence[Key], positions: Sequence[int | None] | None) -> None:
        if positions is not None:
            known = self.positions.setdefault(request, {})
            known.update((key, place) for key, place in zip(keys, positions, strict=True) if place is not None)

    def position(self, request: str | None, key: Key) -> int | None:
        return self.positions.get(request, {}).get(key)

    def missed(self, request: str | None, new: Iterable[Key]) -> list[Key]:
        """New keys of an offer that this request had not offered in vain or stored before."""
        record = self._of(request)
        first = [key for key in dict.fromkeys(new) if key not in record.missed]
        record.missed.update(first)
        return first

    def see(self, request: str | None, keys: Iterable[Key], reused: Iterable[Key]) -> list[Key]:
        """The request uses ``keys``, of which it reuses some. Returns those that it had not used before."""
        record = self._of(request)
        first = []
        for key in keys:
            if key not in record.seen:
                record.seen.add(key)
                record.groups.setdefault(group_of(key), []).append(key)
                first.append(key)
        record.reused.update(key for key in reused if key not in record.inserted)
        return first

    def inserted(self, request: str | None, key: Key) -> None:
        self._of(request).inserted.add(key)

    def finished(self, request: str | None) -> Record | None:
        """The record of a request that finishes for the first time; ``None`` if there is nothing to do."""
        record = self.records.get(request)
        if record is None or record.finished:
            return None
        record.finished = True
        return record

    def in_prefix_order(self, request: str | None, record: Record) -> list[Key]:
        """Its keys head first: by position where all of a group, or all, have one, else first seen, by group."""
        positions = self.positions.get(request, {})

        def sort(keys: list[Key]) -> list[Key]:
            return sorted(keys, key=positions.__getitem__) if all(key in positions for key in keys) else keys

        return sort([key for group in sorted(record.groups) for key in sort(record.groups[group])])

    def _of(self, request: str | None) -> Record:
        return self.records.setdefault(request, Record())
