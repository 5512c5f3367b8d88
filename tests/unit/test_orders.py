"""Each eviction order against a plain list, and the example that tells the profiles apart."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from seeded import announce, finish, load, loaded, offer, stored, touch

from evictable.model import calls
from evictable.model.calls import Call, Key, Stored
from evictable.model.manager import Manager
from evictable.model.orders.ranked import RankedKeys
from evictable.model.profiles import PROFILES, reference

KEYS = st.integers(0, 5)
ACTIONS = ("offer", "store", "fail", "load", "unload", "touch", "reset")
SCRIPT = st.lists(st.tuples(st.sampled_from(ACTIONS), st.lists(KEYS, min_size=1, max_size=3, unique=True)), max_size=40)


class ScanList:
    """One list of all resident keys: insert and touch append, an eviction scans for idle ones."""

    def __init__(self) -> None:
        self.keys: list[Key] = []

    def order(self, manager: Manager) -> list[Key]:
        return [key for key in self.keys if manager.ref_cnt[key] == 0]

    def follow(self, call: Call, before: dict[Key, int], manager: Manager) -> None:
        self.keys = [key for key in self.keys if key in manager.ref_cnt]
        self.keys += [key for key in call.keys if key in manager.ref_cnt and key not in self.keys]
        if call.name == calls.TOUCH:
            used = [key for key in reversed(call.keys) if key in self.keys]
            self.keys = [key for key in self.keys if key not in used] + used


class EvictableList:
    """A list of the idle keys: whoever becomes idle joins at the end, a touch moves those in it to the end."""

    def __init__(self) -> None:
        self.keys: list[Key] = []

    def order(self, manager: Manager) -> list[Key]:
        return self.keys

    def follow(self, call: Call, before: dict[Key, int], manager: Manager) -> None:
        self.keys = [key for key in self.keys if manager.ref_cnt.get(key) == 0]
        self.keys += [key for key in call.keys if manager.ref_cnt.get(key) == 0 and key not in self.keys]
        if call.name == calls.TOUCH:
            used = [key for key in reversed(call.keys) if key in self.keys]
            self.keys = [key for key in self.keys if key not in used] + used


def legal(manager: Manager, action: str, keys: Sequence[Key]) -> Call:
    """The action on those of the keys that allow it."""
    good: dict[str, Callable[[Key], bool]] = {
        "store": lambda key: key in manager.stores,
        "fail": lambda key: key in manager.stores,
        "load": lambda key: manager.ref_cnt.get(key, -1) >= 0,
        "unload": lambda key: ("r", key) in manager.loads,
    }
    chosen = tuple(key for key in keys if good.get(action, lambda key: True)(key))
    names = {
        "offer": calls.PREPARE_STORE,
        "store": calls.COMPLETE_STORE,
        "fail": calls.COMPLETE_STORE,
        "load": calls.PREPARE_LOAD,
        "unload": calls.COMPLETE_LOAD,
        "touch": calls.TOUCH,
        "reset": calls.RESET_CACHE,
    }
    if action == "reset":
        return Call(names[action])
    return Call(names[action], chosen, "r", success=action != "fail")


@pytest.mark.parametrize(("profile", "oracle"), [("lru-scan", ScanList), ("lru-evictable", EvictableList)])
@given(script=SCRIPT, capacity=st.integers(1, 4))
def test_an_order_is_what_a_plain_list_says(
    profile: str, oracle: Callable[[], ScanList | EvictableList], script: list[tuple[str, list[Key]]], capacity: int
) -> None:
    manager, plain = reference(profile, capacity), oracle()
    for action, keys in script:
        call = legal(manager, action, keys)
        before, expected = dict(manager.ref_cnt), plain.order(manager)
        answer = manager.perform(call)
        if isinstance(answer, Stored):
            unprotected = [key for key in expected if key not in call.keys]
            assert tuple(unprotected[: len(answer.evicted_keys)]) == answer.evicted_keys
        plain.follow(call, before, manager)
        assert plain.order(manager) == list(manager.order.idle_keys())


@pytest.mark.parametrize(
    ("profile", "victim"), [("lru-scan", 3), ("lru-evictable", 1), ("lru-ranked", 3), ("lru-ranked-request", 3)]
)
def test_who_goes_first_after_a_prefix_was_touched_and_loaded(profile: str, victim: Key) -> None:
    manager = reference(profile, 3)
    keys = (1, 2, 3)
    begun = (announce("r"), offer("r", *keys), stored("r", *keys))
    for call in (*begun, touch("r", *keys), load("r", *keys), loaded("r", *keys), finish("r")):
        manager.perform(call)
    assert (victim,) == manager.prepare_store((4,), "r").evicted_keys  # type: ignore[union-attr]


def test_a_pinned_key_is_touched_under_lru_scan_alone() -> None:
    order = {}
    for profile in ("lru-scan", "lru-evictable"):
        manager = reference(profile, 3)
        for call in (offer("r", 1, 2), stored("r", 1, 2), load("r", 1), touch("r", 1), touch("r", 2), loaded("r", 1)):
            manager.perform(call)
        order[profile] = list(manager.order.idle_keys())
    assert {"lru-scan": [1, 2], "lru-evictable": [2, 1]} == order


@pytest.mark.parametrize("profile", PROFILES)
def test_victims_are_as_many_as_asked_or_none(profile: str) -> None:
    order = reference(profile, 3).order
    for key in (1, 2):
        order.inserted(key)
        order.idle(key)
    assert [1, 2] == order.victims(2, ())
    assert [2] == order.victims(1, {1})
    assert None is order.victims(2, {1})
    assert [1, 2] == order.victims(2, ()), "a selection changes nothing"


# --- keys by rank ---------------------------------------------------------------------------------


@settings(max_examples=50)
@given(st.lists(st.tuples(st.sampled_from(("rank", "toggle", "remove")), KEYS, st.integers(0, 9)), max_size=60))
def test_ranked_keys_are_a_sorted_list(script: list[tuple[str, int, int]]) -> None:
    ranked, ranks, idle = RankedKeys(), dict[Key, tuple[int, int]](), set[Key]()
    for number, (action, key, rank) in enumerate(script):
        if action == "rank" or key not in ranks:
            ranks[key] = (rank, number)  # no two keys share one
            ranked.rank(key, ranks[key])
        elif action == "toggle":
            (ranked.busy if key in idle else ranked.idle)(key)
            idle ^= {key}
        else:
            ranked.removed(key)
            idle.discard(key)
            del ranks[key]
        expected = sorted(idle, key=ranks.__getitem__)
        assert expected == list(ranked.idle_keys())
        assert sorted(ranks, key=ranks.__getitem__) == list(ranked.in_order())
        assert len(expected) == ranked.num_idle()
        assert [other for other in expected if other != key][:2] == ranked.first(2, {key})
        assert (expected[:3] if len(expected) >= 3 else None) == ranked.victims(3, ())


def test_the_heap_stays_as_small_as_the_idle_keys() -> None:
    ranked = RankedKeys()
    for key in (1, 2):
        ranked.rank(key, key)
        ranked.idle(key)
    for rank in range(3, 500):
        ranked.rank(1, rank)
    assert len(ranked._heap) <= 64 + 4 * 2
    assert [2, 1] == ranked.victims(2, ())


def test_equal_ranks_go_by_the_bytes_of_the_key() -> None:
    ranked = RankedKeys()
    for key in ("ff", 5, "00"):
        ranked.rank(key, 1)
        ranked.idle(key)
    assert ["00", 5, "ff"] == ranked.victims(3, ())


def test_cleared_keys_are_gone() -> None:
    ranked = RankedKeys()
    ranked.rank(1, 1)
    ranked.idle(1)
    ranked.cleared()
    assert (0, [], False) == (ranked.num_idle(), list(ranked.idle_keys()), ranked.is_idle(1))
