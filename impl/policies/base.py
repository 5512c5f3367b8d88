"""The contract between the manager and what decides the eviction order."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable
from typing import Protocol

from evictable.impl.base import OffloadKey
from evictable.impl.blocks import BlockStatus


class CachePolicy(ABC):
    """Holds the resident blocks and the order in which idle ones are given up (vLLM 0.24).

    The manager owns `ref_cnt`, the slots and the counters. A method that raises must not have acted.
    """

    @abstractmethod
    def __init__(self, cache_capacity: int) -> None:
        """`cache_capacity`: the number of blocks that the manager has slots for."""

    @abstractmethod
    def get(self, key: OffloadKey) -> BlockStatus | None:
        """The key's block, or None when it is not resident."""

    @abstractmethod
    def insert(self, key: OffloadKey, block: BlockStatus) -> None:
        """Take in a block; one with `ref_cnt == 0` is evictable at once, without a mark."""

    @abstractmethod
    def remove(self, key: OffloadKey) -> None:
        """Drop a resident block, whatever its `ref_cnt`."""

    @abstractmethod
    def touch(self, keys: Iterable[OffloadKey]) -> None:
        """Note a use of the keys; those that are not resident are passed over."""

    @abstractmethod
    def evict(self, n: int, protected: set[OffloadKey]) -> list[tuple[OffloadKey, BlockStatus]] | None:
        """Drop the first `n` idle blocks that are not in `protected`, in order; None, and no change, if there
        are fewer."""

    @abstractmethod
    def clear(self) -> None:
        """Drop everything, pinned and pending blocks too."""

    # Deliberately not abstract: a policy that finds idle blocks by itself needs no marks (PR #46216).
    def mark_evictable(self, key: OffloadKey) -> None:
        """The block's `ref_cnt` has just become 0."""

    def mark_non_evictable(self, key: OffloadKey) -> None:
        """The block's `ref_cnt` is about to leave 0."""


class RestorableOrder(Protocol):
    """What a policy may offer beyond `CachePolicy`, so that a call that fails half-way also keeps the order.

    When a later step of a call raises, the manager takes its steps back one by one (a mark by the opposite
    mark, an eviction by an insert, an insert by a remove) and then restores the order. Policies without these
    two methods keep the keys, but the call's own ones may have moved.
    """

    def checkpoint(self) -> object:
        """Begin a call. The answer is good until the next checkpoint. Costs O(1)."""

    def restore(self, token: object) -> None:
        """Put the evictable keys back into the order that they had at the checkpoint, and all that goes with it."""
