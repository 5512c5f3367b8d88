"""The vocabulary that an offloading manager shares with its scheduler and its workers.

Names and shapes are those of vLLM 0.24, `LookupResult` that of 0.25. `OffloadingEvent` also has the fields that it
gained to 0.33, with defaults, and `ReqContext` the methods, so that code written against those releases finds what it
expects.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from array import array
from collections.abc import Collection, Iterable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from enum import Enum, auto
from typing import Any, NewType, TypeVar

from evictable.impl.metrics import OffloadingConnectorStats
from evictable.impl.tickets import Ticket

# A block's content hash followed by its group index: plain bytes rather than a tuple, because the garbage
# collector does not track bytes and a cache holds many keys.
OffloadKey = NewType("OffloadKey", bytes)

_GROUP_BYTES = 4

_State = TypeVar("_State")


def make_offload_key(block_hash: bytes, group_idx: int) -> OffloadKey:
    """The key of a block: `block_hash`, then `group_idx` in 4 bytes, big-endian.

    Raises OverflowError when `group_idx` is negative or needs more than 4 bytes.
    """
    return OffloadKey(block_hash + group_idx.to_bytes(_GROUP_BYTES, "big"))


def get_offload_block_hash(key: OffloadKey) -> bytes:
    """The content hash inside a key."""
    return key[:-_GROUP_BYTES]


def get_offload_group_idx(key: OffloadKey) -> int:
    """The KV cache group index inside a key."""
    return int.from_bytes(key[-_GROUP_BYTES:], "big")


@dataclass
class ReqContext:
    """Who calls: `req_id` is what ties a completion to the call that prepared it."""

    req_id: str
    kv_transfer_params: dict[str, Any] | None = None
    _state: dict[type, Any] = field(default_factory=dict, repr=False, init=False)
    _offload_key_positions: dict[OffloadKey, int] = field(default_factory=dict, repr=False, init=False)

    def set_state(self, val: Any) -> None:
        """Keep a value for the request's life; there is one for each type."""
        self._state[type(val)] = val

    def get_state(self, cls: type[_State]) -> _State | None:
        """The value of that very type, if there is one."""
        return self._state.get(cls)

    def set_offload_key_position(self, key: OffloadKey, end_token: int) -> None:
        """Say where in the request's tokens the key's block ends. No order of this package depends on it."""
        self._offload_key_positions[key] = end_token

    def get_offload_key_position(self, key: OffloadKey) -> int | None:
        return self._offload_key_positions.get(key)


class LookupResult(Enum):
    """What `lookup` knows of a key."""

    MISS = auto()
    HIT = auto()
    HIT_PENDING = auto()  # its store is in flight
    RETRY = auto()  # a slower tier has not answered yet


class OffloadPolicy(Enum):
    """Which blocks of a request are offered for storing."""

    BLOCK_LEVEL = "block_level"  # only those that nobody offloaded before
    REQUEST_LEVEL = "request_level"  # all of them, for tiers that keep whole requests


@dataclass
class RequestOffloadingContext:
    """A manager's answer to a new request."""

    policy: OffloadPolicy = OffloadPolicy.BLOCK_LEVEL


class LoadStoreSpec(ABC):
    """Where a worker finds the blocks of one transfer."""

    @staticmethod
    @abstractmethod
    def medium() -> str:
        """The kind of memory that the transfer reads or writes."""


@dataclass(init=False)
class CPULoadStoreSpec(LoadStoreSpec):
    """CPU slots of one transfer, one for each key and in the order of the keys.

    `block_ids` holds 64-bit integers behind the buffer protocol: `numpy.asarray(spec.block_ids)` copies
    nothing and has the dtype int64 that vLLM's own specification has. `ticket` is for the completion of the transfer,
    if its manager gives any.
    """

    block_ids: array[int]
    ticket: Ticket | None = field(default=None, compare=False)

    def __init__(self, block_ids: Iterable[int], ticket: Ticket | None = None) -> None:
        self.block_ids = array("q", block_ids)
        self.ticket = ticket

    @staticmethod
    def medium() -> str:
        return "CPU"


@dataclass
class PrepareStoreOutput:
    """What to store and where, and what had to go for it.

    `store_spec` has one block for each of `keys_to_store`, in the same order; `evicted_keys` are in the order
    of their eviction.
    """

    keys_to_store: list[OffloadKey]
    store_spec: LoadStoreSpec
    evicted_keys: list[OffloadKey]


@dataclass
class OffloadingEvent:
    """Keys that became readable in `medium`, or that left it (`removed`)."""

    keys: list[OffloadKey]
    medium: str
    removed: bool
    locality: str | None = None
    ownership: str | None = None  # the tier below the manager that tells it
    removal_expected: bool = False  # whether such a tier tells of removals too
    # Keys that were never announced; this package announces no failed store and so needs no such event itself.
    metadata_only: bool = False


class OffloadingManager(ABC):
    """The scheduler's view of an offload cache: what is stored where, and what may be given up.

    Methods that take `keys` take a collection of any length, also an empty one.
    """

    @property
    def lock(self) -> AbstractContextManager[object]:
        """What a thread holds while it calls, if other threads may call too (vLLM 0.33).

        It stands for everything: the manager, the tiers below it and what those keep for peers. No method takes it, so
        that the caller says what belongs together: a HIT and the load that relies on it, a step from its first call to
        `on_schedule_end`, and a drain of `take_events` from its first event to its last, since the events may leave
        the queue one by one. Whoever holds it must not take it again. Here it is none: for one thread only.
        """
        return nullcontext()

    @abstractmethod
    def on_new_request(self, req_context: ReqContext) -> RequestOffloadingContext:
        """Announce a request, before any other call for it."""

    def on_request_finished(self, req_context: ReqContext) -> None:
        """Say that the request prepares nothing further; completions of what is in flight may follow."""
        return

    @abstractmethod
    def lookup(self, key: OffloadKey, req_context: ReqContext) -> LookupResult:
        """Whether the key can be loaded now. A HIT is no pin: another call may evict the key."""

    @abstractmethod
    def prepare_load(self, keys: Collection[OffloadKey], req_context: ReqContext) -> LoadStoreSpec:
        """Pin the keys' blocks until `complete_load`, and say where they are."""

    def touch(self, keys: Collection[OffloadKey], req_context: ReqContext) -> None:
        """Note that the keys were used, the first of them as the most recent."""
        return

    def complete_load(
        self, keys: Collection[OffloadKey], req_context: ReqContext, ticket: Ticket | None = None
    ) -> None:
        """Give back pins that `prepare_load` took for this request: with `ticket`, those of that very call."""
        return

    @abstractmethod
    def prepare_store(self, keys: Collection[OffloadKey], req_context: ReqContext) -> PrepareStoreOutput | None:
        """Reserve blocks for those of the keys that are not in the cache; None when there is no room for all."""

    def complete_store(
        self,
        keys: Collection[OffloadKey],
        req_context: ReqContext,
        success: bool = True,
        ticket: Ticket | None = None,
    ) -> None:
        """End stores that `prepare_store` began for this request: readable from now on, or given up.

        With `ticket`, those that began in that very call.
        """
        return

    def take_events(self) -> Iterable[OffloadingEvent]:
        """Deliver what was stored and removed since the last drain."""
        return ()

    def on_schedule_end(self) -> None:
        """Called at the end of each scheduler step."""
        return

    def has_pending_work(self) -> bool:
        """Whether the engine must keep stepping although no request is scheduled."""
        return False

    def reset_cache(self) -> None:
        """Forget everything."""
        return

    def get_stats(self) -> OffloadingConnectorStats | None:
        """Current levels, and what was counted since the last call; None where nothing is measured."""
        return None

    def shutdown(self) -> None:
        """Release what the manager holds outside the process' memory."""
        return
