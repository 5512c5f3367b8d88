"""The admission trackers of the model, each against a plain list of counts, least recently used first."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evictable.model.admission import ADMISSIONS, Admission
from evictable.model.calls import Call, Key, Stored
from evictable.model.profiles import reference

SIZES = st.integers(1, 4)
BATCHES = st.lists(st.lists(st.integers(0, 6), min_size=1, max_size=4, unique=True), max_size=12)
Counts = list[tuple[Key, int]]


def counted(counts: Counts, key: Key, size: int) -> Counts:
    """A use of one key: it goes to the end, and if it is new and the table is full the first one goes."""
    known = dict(counts)
    others = [entry for entry in counts if entry[0] != key]
    if key not in known and len(others) == size:
        others = others[1:]
    return [*others, (key, known.get(key, 0) + 1)]


def batch(counts: Counts, keys: Sequence[Key], size: int) -> Counts:
    """An offer keeps its own tracked keys: only others make room."""
    known = dict(counts)
    for key in keys:
        if key in known:
            counts = counted(counts, key, size)
    for key in keys:
        others = [entry for entry in counts if entry[0] not in keys or entry[0] not in known]
        strangers = [entry for entry in others if entry[0] not in keys]
        if key not in known and (len(counts) < size or strangers):
            if len(counts) == size:
                counts = [entry for entry in counts if entry != strangers[0]]
            counts = [*counts, (key, 1)]
    return counts


@given(BATCHES, SIZES)
def test_from_0_30_an_offer_counts_as_a_batch(batches: list[list[Key]], size: int) -> None:
    tracker, plain = Admission(2, size), Counts()
    for keys in batches:
        tracker.offered(keys)
        plain = batch(plain, keys, size)
        assert dict(plain) == dict(tracker.counts)
        assert [dict(plain).get(key, 0) >= 2 for key in range(7)] == [tracker.admits(key) for key in range(7)]


@given(BATCHES, SIZES)
def test_in_0_29_each_offered_key_counts(batches: list[list[Key]], size: int) -> None:
    tracker, plain = ADMISSIONS["one-by-one"](2, size), Counts()
    for keys in batches:
        tracker.offered(keys)
        for key in keys:
            tracker.looked_up(key)  # which does not count
            plain = counted(plain, key, size)
    assert plain == list(tracker.counts.items())


@given(BATCHES, SIZES)
def test_to_0_28_each_lookup_counts(batches: list[list[Key]], size: int) -> None:
    tracker, plain = ADMISSIONS["lookups"](2, size), Counts()
    for keys in batches:
        tracker.offered(keys)  # which does not count
        for key in keys:
            tracker.looked_up(key)
            plain = counted(plain, key, size)
    assert plain == list(tracker.counts.items())


@pytest.mark.parametrize("rule", ADMISSIONS)
def test_without_a_threshold_nothing_is_counted(rule: str) -> None:
    tracker = ADMISSIONS[rule]()
    tracker.offered((1,))
    tracker.looked_up(1)
    assert (True, {}) == (tracker.admits(1), dict(tracker.counts))


def test_the_counts_of_a_subject_may_be_taken_over() -> None:
    tracker = Admission(2)
    tracker.follow({1: 2})
    assert (True, False) == (tracker.admits(1), tracker.admits(2))


@pytest.mark.parametrize("rule", ["new-keys", "whole-offers", "one-by-one", "lookups"])
def test_only_admitted_keys_are_stored(rule: str) -> None:
    manager = reference("lru-evictable", 3, admission=rule, store_threshold=2)
    answers = [manager.perform(Call("prepare_store", keys, "r")) for keys in ((1,), (1, 2), (2,))]
    stored: list[tuple[Key, ...]] = [(), (), ()] if rule == "lookups" else [(), (1,), (2,)]
    assert stored == [answer.keys_to_store for answer in answers if isinstance(answer, Stored)]


@pytest.mark.parametrize(("rule", "skipped"), [("new-keys", 1), ("whole-offers", 2)])
def test_how_many_keys_were_skipped(rule: str, skipped: int) -> None:
    tracker = ADMISSIONS[rule](2)
    assert skipped == tracker.skipped((1, 2), {1: 0})
