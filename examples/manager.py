"""An offload manager in one file, without dependencies: LRU over the evictable blocks (profile `lru-evictable`).

    evictable check examples.manager:make_manager --profile lru-evictable

It has the methods of vLLM's `OffloadingManager`. A whole batch is checked before anything changes, only who prepared a
transfer may complete it, and the event queue, which may raise, comes before what cannot.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Any

PENDING = -1
"""The `ref_cnt` of a block that is still being written; from 0 on it is the number of its readers."""


@dataclass
class Block:
    slot: int
    writer: str | None
    ref_cnt: int = PENDING


@dataclass(frozen=True)
class Slots:
    block_ids: list[int]


@dataclass(frozen=True)
class StoreOutput:
    keys_to_store: list[bytes]
    store_spec: Slots
    evicted_keys: list[bytes]


@dataclass(frozen=True)
class Event:
    removed: bool
    keys: list[bytes]


@dataclass
class Manager:
    num_blocks: int
    enable_events: bool = False
    blocks: dict[bytes, Block] = field(default_factory=dict)
    evictable: dict[bytes, None] = field(default_factory=dict)
    """Keys with `ref_cnt` 0, the next victim first."""
    loads: Counter[tuple[str, bytes]] = field(default_factory=Counter)
    """Loads in flight, by request and key."""
    free: list[int] = field(default_factory=list)
    events: list[Event] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.free = list(range(self.num_blocks))

    def on_new_request(self, request: Any) -> None:
        pass

    def on_request_finished(self, request: Any) -> None:
        pass

    def lookup(self, key: bytes, request: Any) -> bool | None:
        """None: it is still being written."""
        block = self.blocks.get(key)
        return False if block is None else None if block.ref_cnt == PENDING else True

    def prepare_store(self, keys: Iterable[bytes], request: Any) -> StoreOutput | None:
        """None if there is no room."""
        offer = list(keys)
        if len(set(offer)) < len(offer):
            raise ValueError("a key twice in one offer")
        new = [key for key in offer if key not in self.blocks]
        needed = max(0, len(new) - len(self.free))
        victims = list(islice((key for key in self.evictable if key not in offer), needed))
        if len(victims) < needed:
            return None
        self._tell(True, victims)
        for key in victims:
            del self.evictable[key]
            self.free.append(self.blocks.pop(key).slot)
        for key in new:
            self.blocks[key] = Block(self.free.pop(0), request.req_id)
        return StoreOutput(new, Slots([self.blocks[key].slot for key in new]), victims)

    def complete_store(self, keys: Iterable[bytes], request: Any, success: bool = True) -> None:
        stored = self._each_once(keys)
        for key in stored:
            block = self.blocks.get(key)
            if block is None or block.ref_cnt != PENDING or block.writer != request.req_id:
                raise ValueError(f"{key!r} is not being stored by {request.req_id}")
        if success:
            self._tell(False, stored)
        for key in stored:
            if success:
                self.blocks[key].ref_cnt = 0
                self.evictable[key] = None
            else:
                self.free.append(self.blocks.pop(key).slot)

    def prepare_load(self, keys: Iterable[bytes], request: Any) -> Slots:
        wanted = list(keys)
        for key in wanted:
            if self.lookup(key, request) is not True:
                raise ValueError(f"{key!r} is not there to be loaded")
        for key in wanted:
            self.blocks[key].ref_cnt += 1
            self.evictable.pop(key, None)
            self.loads[request.req_id, key] += 1
        return Slots([self.blocks[key].slot for key in wanted])

    def complete_load(self, keys: Iterable[bytes], request: Any) -> None:
        loaded = list(keys)
        for key, times in Counter(loaded).items():
            if self.loads[request.req_id, key] < times:
                raise ValueError(f"{key!r} is not being loaded by {request.req_id}")
        for key in loaded:
            self.loads[request.req_id, key] -= 1
            block = self.blocks[key]
            block.ref_cnt -= 1
            if block.ref_cnt == 0:
                self.evictable[key] = None

    def touch(self, keys: Sequence[bytes], request: Any) -> None:
        """The first is the last to go."""
        for key in reversed(list(keys)):
            if key in self.evictable:
                del self.evictable[key]
                self.evictable[key] = None

    def take_events(self) -> Iterable[Event]:
        """What a consumer does not take is there the next time."""
        while self.events:
            yield self.events.pop(0)

    def reset_cache(self) -> None:
        """Late completions of what was in flight are then refused."""
        self.__init__(self.num_blocks, self.enable_events)  # type: ignore[misc]

    def _each_once(self, keys: Iterable[bytes]) -> list[bytes]:
        given = list(keys)
        if len(set(given)) < len(given):
            raise ValueError("a key twice in one completion")
        return given

    def _tell(self, removed: bool, keys: list[bytes]) -> None:
        if self.enable_events and keys:
            self.events.append(Event(removed, keys))


def make_manager(num_blocks: int, enable_events: bool) -> Manager:
    return Manager(num_blocks, enable_events)
