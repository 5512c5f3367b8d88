"""Which new keys are worth a slot: those that were offered often enough."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Collection

from evictable.impl.base import OffloadKey


class AdmissionTracker:
    """Counts offers, and admits a key from its `store_threshold`-th on (vLLM 0.31).

    `counts` remembers at most `max_tracker_size` keys, the next to be forgotten first. An offer counts as one batch:
    a key that it repeats counts once, and none of its own keys is forgotten to make room for another of them, so
    that an offer larger than the table still makes progress.

    Raises ValueError for a `store_threshold` below 2, which would admit every key, and a `max_tracker_size` below 1,
    with which none would ever be.
    """

    def __init__(self, store_threshold: int, max_tracker_size: int) -> None:
        if store_threshold < 2:
            raise ValueError(f"store_threshold is {store_threshold}; a tracker is for 2 or more")
        if max_tracker_size < 1:
            raise ValueError(f"max_tracker_size is {max_tracker_size}; give the number of keys to remember, 1 or more")
        self.store_threshold = store_threshold
        self.max_tracker_size = max_tracker_size
        self.counts: OrderedDict[OffloadKey, int] = OrderedDict()

    def admits(self, key: OffloadKey) -> bool:
        """Whether the key is to be stored, if the offer that names it now is counted. Changes nothing."""
        # A key that is not remembered is not admitted either way: its count would be 1, and the threshold is higher.
        return self.counts.get(key, 0) + 1 >= self.store_threshold

    def record(self, offer: Collection[OffloadKey]) -> None:
        """Count an offer."""
        counts = self.counts
        known: list[OffloadKey] = []
        unknown: list[OffloadKey] = []
        for key in dict.fromkeys(offer):
            (known if key in counts else unknown).append(key)
        for key in known:
            counts[key] += 1
            counts.move_to_end(key)
        # The offer's own keys are now last, so the first entry is another's as long as one is left.
        others = len(counts) - len(known)
        for key in unknown:
            if len(counts) >= self.max_tracker_size:
                if not others:
                    break
                counts.popitem(last=False)
                others -= 1
            counts[key] = 1
