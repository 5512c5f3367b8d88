"""Policies and hosts of different eras: who is handed a request, who is marked, who has hooks."""

from __future__ import annotations

from typing import Any

import pytest

from evictable.impl import BlockStatus
from evictable.specs.subjects.guests import called, guest_class
from evictable.specs.subjects.hosts import is_policy


class Told:
    """A policy that writes down what it is told."""

    def __init__(self, cache_capacity: int = 1) -> None:
        self.said: list[Any] = []
        self.held: dict[bytes, Any] = {}

    def get(self, key):
        return self.held.get(key)

    def insert(self, key, block):
        self.held[key] = block
        self.said.append(("insert", key, block.ref_cnt))

    def remove(self, key):
        del self.held[key]

    def touch(self, keys, req_context):
        self.said.append(("touch", list(keys), req_context))

    def evict(self, n, protected):
        self.said.append(("evict", n))

    def clear(self):
        self.held.clear()

    def mark_evictable(self, key):
        self.said.append(("mark", key))

    def mark_non_evictable(self, key):
        self.said.append(("unmark", key))

    surprise = 3


class Before024:
    """The host's base class of an era without marks."""


class From033(Before024):
    def mark_evictable(self, key):
        pass

    def on_store_miss(self, keys, req_context):
        self.touch(keys, req_context)

    def on_request_access(self, keys, req_context):
        pass

    def on_request_finished(self, groups, inserted, reused, req_context):
        for keys in groups:
            self.touch(keys, req_context)


def made(base: type, policy: type = Told) -> Any:
    return guest_class(base, policy)(cache_capacity=2)


@pytest.mark.parametrize(
    ("method", "got"),
    [
        (lambda a, b: (a, b), (1, 2)),
        (lambda a, b, request: (a, b, request), (1, 2, "r")),
        (lambda a, b, request=None: (a, b, request), (1, 2, "r")),
        (lambda a, *rest: (a, *rest), (1, 2, "r")),
        (lambda a, b, *, req_context: (a, b, req_context), (1, 2, "r")),
        (lambda a, b, **named: (a, b, named), (1, 2, {"req_context": "r"})),
        (max, 2),
    ],
)
def test_a_request_is_handed_to_who_takes_one(method: Any, got: object) -> None:
    assert got == called(method, (1, 2), "r")


def test_a_host_that_has_no_request_at_hand_is_helped() -> None:
    guest = made(From033)
    guest.request = "r"
    guest.touch([b"1"])
    guest.touch([b"1"], "another")
    assert [("touch", [b"1"], "r"), ("touch", [b"1"], "another")] == guest.guest.said


def test_an_idle_block_that_comes_back_is_a_store_and_its_commit() -> None:
    guest, block = made(From033), BlockStatus(0)
    block.ref_cnt = 0
    guest.insert(b"1", block)
    assert ([("insert", b"1", -1), ("mark", b"1")], 0) == (guest.guest.said, block.ref_cnt)


def test_its_ref_cnt_is_as_it_was_when_the_policy_refuses() -> None:
    class Refusing(Told):
        def insert(self, key, block):
            raise ValueError

    block = BlockStatus(0)
    block.ref_cnt = 0
    with pytest.raises(ValueError):  # noqa: PT011
        made(From033, Refusing).insert(b"1", block)
    assert 0 == block.ref_cnt


def test_a_host_without_marks_is_watched() -> None:
    guest, block = made(Before024), BlockStatus(0)
    guest.insert(b"1", block)
    block.ref_cnt = 0
    guest.evict(1, set())
    block.ref_cnt = 1
    guest.evict(1, set())
    guest.evict(1, set())
    expected = [("insert", b"1", -1), ("mark", b"1"), ("evict", 1), ("unmark", b"1"), ("evict", 1), ("evict", 1)]
    assert expected == guest.guest.said


def test_hooks_that_a_policy_lacks_do_what_the_host_does() -> None:
    guest = made(From033)
    guest.on_store_miss([b"1"], "r")
    guest.on_request_access([b"2"], "r")
    guest.on_request_finished([[b"3"]], set(), set(), "r")
    assert [("touch", [b"1"], "r"), ("touch", [b"3"], "r")] == guest.guest.said


def test_hooks_that_it_has_are_called() -> None:
    class Hooked(Told):
        def on_store_miss(self, keys):
            self.said.append(("miss", keys))

        def on_request_finished(self, groups, inserted, reused, req_context):
            self.said.append((groups, inserted, reused, req_context))

    guest = made(From033, Hooked)
    guest.on_store_miss([b"1"], "r")
    guest.on_request_finished([[b"1"]], {1}, {2}, "r")
    assert [("miss", [b"1"]), ([[b"1"]], {1}, {2}, "r")] == guest.guest.said


def test_a_host_has_no_hook_that_its_era_has_not() -> None:
    assert not hasattr(made(Before024), "on_store_miss")


def test_the_rest_is_the_policy_itself() -> None:
    guest = made(From033)
    assert (3, False) == (guest.surprise, hasattr(guest, "checkpoint"))


@pytest.mark.parametrize(("what", "expected"), [(Told, True), (Told(), False), (dict, False), (called, False)])
def test_a_policy_is_told_by_what_it_has(what: object, expected: bool) -> None:
    assert expected == is_policy(what)


def test_a_manager_that_can_evict_is_none() -> None:
    class Manager(Told):
        def prepare_store(self, keys, req_context):
            pass

    assert not is_policy(Manager)
