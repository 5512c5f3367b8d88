"""The store threshold: what the tables of the model and of the built-in manager count and admit."""

from __future__ import annotations

from collections import OrderedDict
from typing import Any

from evictable.impl.admission import AdmissionTracker
from evictable.model.admission import Admission
from evictable.specs.contracts.caches import chosen


def table(a: int, b: int) -> OrderedDict[Any, int]:
    """How often keys 0 and 1 were offered; a key that never was is not in it."""
    counts: OrderedDict[Any, int] = OrderedDict()
    for key, count in enumerate((a, b)):
        if count > 0:
            counts[key] = count
    return counts


def admitted_at_the_threshold(threshold: int, count: int, offered: bool) -> bool:
    """
    pre: threshold >= 1 and count >= 0
    post: _
    """
    admission = Admission(threshold, 2, table(count, 0))
    if offered:
        admission.offered((0,))
    times = count + 1 if offered else count
    return admission.admits(0) == (times >= threshold or threshold == 1)


def both_admit_alike(threshold: int, count: int, other: int, size: int) -> bool:
    """
    pre: threshold >= 2 and count >= 0 and other >= 0 and 1 <= size <= 2
    post: _
    """
    most = chosen(size - 1, 1, 2)
    if count > 0 and other > 0 and most == 1:
        return True  # that table holds one key
    model = Admission(threshold, most, table(count, other))
    impl: Any = AdmissionTracker(threshold, most)
    impl.counts = table(count, other)
    before = impl.admits(0)
    model.offered((0,))
    return bool(before == model.admits(0) == (count + 1 >= threshold))


def both_count_an_offer_alike(a: int, b: int, i: int, j: int, size: int) -> bool:
    """
    pre: a >= 0 and b >= 0 and 0 <= i <= 2 and 0 <= j <= 3 and 1 <= size <= 3
    post: _
    """
    most = chosen(size - 1, 1, 2, 3)
    if a > 0 and b > 0 and most == 1:
        return True  # that table holds one key
    offer: Any = tuple(dict.fromkeys((chosen(i, 0, 1, 2), chosen(j, 0, 1, 2, 3))))
    model = Admission(2, most, table(a, b))
    impl: Any = AdmissionTracker(2, most)
    impl.counts = table(a, b)
    model.offered(offer)
    impl.record(offer)
    kept = all(key in impl.counts for key in offer if key in (0, 1) and (a, b)[key] > 0)
    return list(model.counts.items()) == list(impl.counts.items()) and len(impl.counts) <= most and kept
