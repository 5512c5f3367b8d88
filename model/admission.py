"""The admission tracker: with a store threshold of 2 or more a key is stored only when it was asked for that often.

An LRU-ordered table of counts. The published releases differ in what counts and in what may be pushed out.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Collection, Mapping, Sequence
from typing import ClassVar

from attrs import define, field

from evictable.model.calls import Key


@define
class Admission:
    """vLLM from 0.31 on, and `impl`: an offer counts as a batch that keeps its own tracked keys.

    ``threshold`` 1 admits every key and counts nothing. ``size`` is the number of keys tracked, at most.
    """

    name: ClassVar[str] = "new-keys"
    threshold: int = 1
    size: int = 64_000
    counts: OrderedDict[Key, int] = field(factory=OrderedDict)

    def looked_up(self, key: Key) -> None:
        """A lookup of ``key``."""

    def offered(self, keys: Sequence[Key]) -> None:
        """An offer of ``keys``, whatever comes of it."""
        if self.threshold < 2:
            return
        counts = self.counts
        own = [key for key in keys if key in counts]
        for key in own:
            counts.move_to_end(key)
            counts[key] += 1
        others = len(counts) - len(set(own))
        for key in keys:
            if key in counts:
                continue
            if len(counts) >= self.size:
                if others == 0:
                    continue
                counts.popitem(last=False)
                others -= 1
            counts[key] = 1

    def admits(self, key: Key) -> bool:
        return self.threshold < 2 or self.counts.get(key, 0) >= self.threshold

    def follow(self, counts: Mapping[Key, int]) -> None:
        """Take over the counts of an implementation, where the text leaves open whether it has counted."""
        self.counts = OrderedDict(counts)

    def skipped(self, offer: Sequence[Key], resident: Collection[Key]) -> int:
        """How many keys of an offer the metric calls skipped."""
        return sum(1 for key in offer if key not in resident and not self.admits(key))

    def _count(self, key: Key) -> None:
        if key in self.counts:
            self.counts.move_to_end(key)
            self.counts[key] += 1
            return
        if len(self.counts) >= self.size:
            self.counts.popitem(last=False)
        self.counts[key] = 1


@define
class FiltersWholeOffers(Admission):
    """vLLM 0.30: likewise, but what is resident is filtered too, and so is counted as skipped."""

    name = "whole-offers"

    def skipped(self, offer: Sequence[Key], resident: Collection[Key]) -> int:
        return sum(1 for key in offer if not self.admits(key))


@define
class CountsLookups(FiltersWholeOffers):
    """vLLM to 0.28: each lookup counts."""

    name = "lookups"

    def looked_up(self, key: Key) -> None:
        if self.threshold >= 2:
            self._count(key)

    def offered(self, keys: Sequence[Key]) -> None:
        pass


@define
class CountsOneByOne(FiltersWholeOffers):
    """vLLM 0.29: each offered key counts, and may push out keys of its own offer."""

    name = "one-by-one"

    def offered(self, keys: Sequence[Key]) -> None:
        if self.threshold >= 2:
            for key in keys:
                self._count(key)


ADMISSIONS: dict[str, type[Admission]] = {
    rule.name: rule for rule in (Admission, FiltersWholeOffers, CountsOneByOne, CountsLookups)
}
