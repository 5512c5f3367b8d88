"""The contract between the manager and what decides the eviction order."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable
from typing import Protocol

from evictable.impl.base import OffloadKey
from evictable.impl.blocks import BlockStatus
from evictable.impl.errors import PolicyMisuse


class CachePolicy(ABC):
    """Holds the resident blocks and the order in which idle ones are given up (vLLM 0.24).

    The manager owns `ref_cnt`, the slots and the counters. A method that raises must not have acted.

    Marks match when each change of a resident block's `ref_cnt` to 0 is followed by one `mark_evictable`, each change
    from 0 is preceded by one `mark_non_evictable`, and nothing else is marked. What the built-in policies do with
    calls that do not match is said with each method: they raise `PolicyMisuse`, or for a mark its subclass
    `MismatchedMark`, with nothing changed, or they tolerate it as described. `model/policy.py` says the same as data.
    """

    @abstractmethod
    def __init__(self, cache_capacity: int) -> None:
        """`cache_capacity`: the number of blocks that the manager has slots for."""

    @abstractmethod
    def get(self, key: OffloadKey) -> BlockStatus | None:
        """The key's block, or None when it is not resident."""

    @abstractmethod
    def insert(self, key: OffloadKey, block: BlockStatus) -> None:
        """Take in a block; one with `ref_cnt == 0` is evictable at once, without a mark.

        One that is pinned is taken in as it is. Raises `PolicyMisuse` for a resident key, also with the same block.
        """

    @abstractmethod
    def remove(self, key: OffloadKey) -> None:
        """Drop a resident block, whatever its `ref_cnt`; its mark goes with it.

        Raises `PolicyMisuse` for an absent key.
        """

    @abstractmethod
    def touch(self, keys: Iterable[OffloadKey]) -> None:
        """Note a use of the keys; those that are not resident are passed over."""

    @abstractmethod
    def evict(self, n: int, protected: set[OffloadKey]) -> list[tuple[OffloadKey, BlockStatus]] | None:
        """Drop the first `n` idle blocks that are not in `protected`, in order; None, and no change, if there
        are fewer.

        A policy that heeds the marks looks at marked blocks only, and raises `PolicyMisuse` where one of the first `n`
        is in use: its `ref_cnt` was changed without a mark. Blocks that became idle without a mark are passed over.
        """

    @abstractmethod
    def clear(self) -> None:
        """Drop everything, pinned and pending blocks too."""

    # Deliberately not abstract: a policy that finds idle blocks by itself needs no marks (PR #46216). Of the built-in
    # ones ARC does: it ignores every mark, matching or not, also of an absent key.
    def mark_evictable(self, key: OffloadKey) -> None:
        """The block's `ref_cnt` has just become 0.

        A policy that heeds marks raises `MismatchedMark` for a key that is absent, pinned, pending, or marked so
        already: it would give up a block in use, or one that is not there, at some later eviction.
        """

    def mark_non_evictable(self, key: OffloadKey) -> None:
        """The block's `ref_cnt` is about to leave 0.

        A policy that heeds marks raises `MismatchedMark` for a key that is absent or not marked as evictable. It does
        not look at `ref_cnt`, which may have left 0 by now: that keeps the block safe either way.
        """


def already_resident(key: OffloadKey) -> PolicyMisuse:
    return PolicyMisuse("insert", key, "is resident already", "remove it first: its old block would be lost")


def not_resident(method: str, key: OffloadKey) -> PolicyMisuse:
    return PolicyMisuse(method, key, "is not resident", "name a key that get finds")


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
