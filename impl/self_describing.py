"""Events that say what a block holds (vLLM #43468): for consumers that know nothing of offload keys.

A manager's events name keys. A router that wants to know which prefixes are cached where needs hashes, parents and
tokens, which only whoever stores a block knows, and only at that time.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from evictable.impl.base import (
    CPULoadStoreSpec,
    OffloadingEvent,
    OffloadKey,
    get_offload_block_hash,
    get_offload_group_idx,
)


@dataclass(frozen=True, slots=True)
class BlockPayload:
    """What one offloaded key holds: a chunk of one block or of several, in the order of their tokens.

    `token_ids` are those of all blocks, `block_size` the tokens of one block, `parent_block_hash` that of the block
    before the first (None at the start of a prompt). Raises ValueError without a block.
    """

    block_hashes: tuple[bytes, ...]
    parent_block_hash: bytes | None
    token_ids: tuple[int, ...]
    block_size: int
    group_idx: int
    kv_cache_spec_kind: str | None = None
    kv_cache_spec_sliding_window: int | None = None
    lora_id: int | None = None
    lora_name: str | None = None
    extra_keys: tuple[tuple[Any, ...] | None, ...] | None = None

    def __post_init__(self) -> None:
        if not self.block_hashes:
            raise ValueError("a payload has no block hash; give one for each block of the chunk")


@dataclass(frozen=True, slots=True)
class BlockStored:
    """The blocks of one key can be read in `medium` from now on. Without a payload, `block_size` is 0."""

    block_hashes: tuple[bytes, ...]
    parent_block_hash: bytes | None
    token_ids: tuple[int, ...]
    block_size: int
    lora_id: int | None
    medium: str | None
    lora_name: str | None
    extra_keys: tuple[tuple[Any, ...] | None, ...] | None = None
    group_idx: int | None = None
    kv_cache_spec_kind: str | None = None
    kv_cache_spec_sliding_window: int | None = None
    locality: str | None = None
    ownership: str | None = None


@dataclass(frozen=True, slots=True)
class BlockRemoved:
    """The blocks of one key, the same that its `BlockStored` named, have left `medium`.

    Keys may share blocks: one that is stored with two keys is gone when both are.
    """

    block_hashes: tuple[bytes, ...]
    medium: str | None
    group_idx: int | None = None
    locality: str | None = None
    ownership: str | None = None


class SelfDescribingEvents:
    """Keeps the payload of every key from its store to its removal, and puts it into the manager's events.

    Call `record_store` for each key that `prepare_store` answers to store, `record_failure` with every failed
    `complete_store`, `reset` with every `reset_cache`, and drain through `take_events`. A key has one payload for
    each time that it was stored, in that order; events tell of the same stores in the same order, however late they
    are drained. So a key that is evicted and stored again before a drain is announced, removed and announced with
    the payload of each time.

    Memory is bounded by the resident keys and the events not yet drained. With `enabled` false nothing is recorded,
    and events name the hash inside the key only.
    """

    def __init__(self, enabled: bool = True, medium: str = CPULoadStoreSpec.medium()) -> None:
        """`medium` is that of the manager whose stores are recorded; others' events have no payload."""
        self.enabled = enabled
        self._medium = medium
        # Oldest first. The first is that of the next event about the key; one that was not drained may wait behind.
        self._payloads: dict[OffloadKey, deque[BlockPayload | None]] = {}
        self._undelivered: deque[BlockStored | BlockRemoved] = deque()

    def record_store(self, key: OffloadKey, payload: BlockPayload | None) -> None:
        """A store of the key has begun. A payload of None: it cannot be described, so its hash has to do."""
        if self.enabled:
            self._payloads.setdefault(key, deque()).append(payload)

    def record_failure(self, keys: Iterable[OffloadKey]) -> None:
        """The latest stores of the keys have failed: no event tells of them."""
        for key in keys:
            self._drop(key, latest=True)

    def reset(self) -> None:
        """Everything was forgotten, events that were not drained too."""
        self._payloads.clear()
        self._undelivered.clear()

    def take_events(self, events: Iterable[OffloadingEvent]) -> Iterator[BlockStored | BlockRemoved]:
        """Deliver a manager's events, oldest first, one for each key, each exactly once.

        What a consumer that stops early has not seen stays for the next call, whatever `events` that is given.
        """
        undelivered = self._undelivered
        while undelivered:
            yield undelivered.popleft()
        for event in events:
            if not event.metadata_only:
                undelivered.extend([self._describe(key, event) for key in event.keys])
            while undelivered:
                yield undelivered.popleft()

    def _describe(self, key: OffloadKey, event: OffloadingEvent) -> BlockStored | BlockRemoved:
        payloads = self._payloads.get(key) if event.medium == self._medium else None
        payload = payloads[0] if payloads else None
        if payload is None:
            payload = BlockPayload((get_offload_block_hash(key),), None, (), 0, get_offload_group_idx(key))
        if event.removed:
            if payloads:
                self._drop(key)
            return BlockRemoved(
                block_hashes=payload.block_hashes,
                medium=event.medium,
                group_idx=payload.group_idx,
                locality=event.locality,
                ownership=event.ownership,
            )
        return BlockStored(
            block_hashes=payload.block_hashes,
            parent_block_hash=payload.parent_block_hash,
            token_ids=payload.token_ids,
            block_size=payload.block_size,
            lora_id=payload.lora_id,
            medium=event.medium,
            lora_name=payload.lora_name,
            extra_keys=payload.extra_keys,
            group_idx=payload.group_idx,
            kv_cache_spec_kind=payload.kv_cache_spec_kind,
            kv_cache_spec_sliding_window=payload.kv_cache_spec_sliding_window,
            locality=event.locality,
            ownership=event.ownership,
        )

    def _drop(self, key: OffloadKey, latest: bool = False) -> None:
        payloads = self._payloads.get(key)
        if payloads:
            if latest:
                payloads.pop()
            else:
                payloads.popleft()
            if not payloads:
                del self._payloads[key]
