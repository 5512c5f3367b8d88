"""What the work costs at least: the same keys in a bare ordered dictionary, and nothing else of a manager."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Collection
from typing import Any

from attrs import define, field, frozen

NAME = "floor"


@frozen
class Answer:
    keys_to_store: Collection[bytes]
    evicted_keys: Collection[bytes]


@define
class Floor:
    """Evicts what was used least recently, used or not: no reference counts, no records, no checks, no slots.

    The one and only reason for its methods is that the same load runs on it.
    """

    capacity: int
    _blocks: OrderedDict[bytes, None] = field(factory=OrderedDict)

    def on_new_request(self, request: Any) -> None:
        pass

    def lookup(self, key: bytes, request: Any) -> bool:
        return key in self._blocks

    def touch(self, keys: Collection[bytes], request: Any) -> None:
        to_end = self._blocks.move_to_end
        for key in keys:
            to_end(key)

    def prepare_load(self, keys: Collection[bytes], request: Any) -> None:
        blocks = self._blocks
        for key in keys:
            blocks[key]

    def complete_load(self, keys: Collection[bytes], request: Any) -> None:
        blocks = self._blocks
        for key in keys:
            blocks[key]

    def prepare_store(self, keys: Collection[bytes], request: Any) -> Answer:
        blocks = self._blocks
        need = len(blocks) + len(keys) - self.capacity
        victims = [blocks.popitem(last=False)[0] for _ in range(need)]
        for key in keys:
            blocks[key] = None
        return Answer(keys, victims)

    def complete_store(self, keys: Collection[bytes], request: Any) -> None:
        blocks = self._blocks
        for key in keys:
            blocks[key]
