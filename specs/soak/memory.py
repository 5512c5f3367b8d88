"""How much memory a process uses, and whether that stays the same."""

from __future__ import annotations

import gc
import os
import sys
from array import array
from pathlib import Path
from statistics import median

from attrs import define, field, frozen

MORE_BLOCKS, SHARE_OF_BLOCKS = 500, 0.005
"""Memory is constant if it has not grown by more than so many blocks and such a share of them;"""
MORE_BYTES, SHARE_OF_BYTES = 4 << 20, 0.05
"""likewise the resident size. It follows the blocks in steps of whole arenas, and so may lag behind."""
WARM_UP = 1 / 3
"""The first part of the samples is not compared: caches fill, and tables grow to their size."""
_FIELDS = 3
_AROUND = 3
"""Samples that make one point: their median."""


@frozen
class Sample:
    """Taken with the manager at rest and empty, after a collection."""

    calls: int
    blocks: int
    """Blocks that the interpreter has allocated for objects."""
    resident: int
    """Bytes."""


def sample(calls: int) -> Sample:
    gc.collect()
    return Sample(calls, sys.getallocatedblocks(), resident())


def resident() -> int:
    """Bytes of this process that are in memory."""
    statistics = Path("/proc/self/statm")
    if statistics.exists():
        return int(statistics.read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    import resource  # not on every system; then the largest size so far is what can be had

    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)


@frozen
class Growth:
    """From after the warm-up to the end."""

    first: Sample
    last: Sample

    @property
    def constant(self) -> bool:
        return self._within(self.first.blocks, self.last.blocks, MORE_BLOCKS, SHARE_OF_BLOCKS) and self._within(
            self.first.resident, self.last.resident, MORE_BYTES, SHARE_OF_BYTES
        )

    @staticmethod
    def _within(first: int, last: int, more: int, share: float) -> bool:
        return last - first <= more + share * first

    def __str__(self) -> str:
        first, last = self.first, self.last
        return (
            f"{first.blocks:,} blocks and {first.resident / 2**20:.1f} MiB resident after {first.calls:,} calls, "
            f"{last.blocks:,} and {last.resident / 2**20:.1f} after {last.calls:,} "
            f"(tolerated: {MORE_BLOCKS} blocks and {SHARE_OF_BLOCKS:.1%}, {MORE_BYTES >> 20} MiB and "
            f"{SHARE_OF_BYTES:.0%})"
        )


@define
class Samples:
    """All samples of a run, in one block: objects for each would themselves be growth."""

    _numbers: array[int] = field(factory=lambda: array("q"))

    def __len__(self) -> int:
        return len(self._numbers) // _FIELDS

    def __getitem__(self, place: int) -> Sample:
        return Sample(*self._numbers[place * _FIELDS : (place + 1) * _FIELDS])

    @property
    def latest(self) -> tuple[int, int]:
        """Blocks and resident bytes, as last measured."""
        return (self[len(self) - 1].blocks, self[len(self) - 1].resident) if len(self) else (0, 0)

    def take(self, calls: int) -> None:
        """Measure now, so many calls after the beginning."""
        one = sample(calls)
        self._numbers.extend((one.calls, one.blocks, one.resident))

    @property
    def growth(self) -> Growth | None:
        """``None`` for too few samples."""
        first, end = int(len(self) * WARM_UP), len(self)
        if end - first < 2 * _AROUND:
            return None
        return Growth(self._middle(first), self._middle(end - _AROUND))

    def _middle(self, first: int) -> Sample:
        around = [self[place] for place in range(first, first + _AROUND)]
        return Sample(
            around[-1].calls, int(median(one.blocks for one in around)), int(median(one.resident for one in around))
        )
