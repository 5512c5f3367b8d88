"""Anybody's manager by name: found in the working directory, built, and refused in one line."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from seeded import DRAIN, announce, lookup

from evictable.model.calls import Drained
from evictable.specs import subjects
from evictable.specs.errors import UsageError
from evictable.specs.subjects.base import Setup
from evictable.specs.subjects.factory import REQUIRED, from_factory

SOURCE = """
from evictable.impl import CPUOffloadingManager

class Houses:
    Manager = CPUOffloadingManager

class Good(CPUOffloadingManager):
    pass

class Lacking(CPUOffloadingManager):
    touch = reset_cache = None

def takes_anything(num_blocks, **more):
    return CPUOffloadingManager(num_blocks)

def make(num_blocks):
    return CPUOffloadingManager(num_blocks)

def fails(num_blocks):
    raise RuntimeError("out of\\n blocks")

def hands_over_nothing(num_blocks):
    return None

def wants_nothing():
    return None

constant = 3
"""


@pytest.fixture(autouse=True)
def my_managers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    (tmp_path / "my_managers.py").write_text(SOURCE)
    (tmp_path / "my_mistake.py").write_text("import nothing_of\nthe_kind")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    yield
    sys.modules.pop("my_managers", None)
    sys.modules.pop("my_mistake", None)


@pytest.mark.parametrize("name", ["my_managers:make", "my_managers:Houses.Manager", "my_managers:CPUOffloadingManager"])
def test_a_manager_from_the_working_directory(name: str) -> None:
    kind = subjects.load(subjects.prepare(name, print))
    subject = kind.make(Setup(2))
    subject.perform(announce("r"))
    assert kind.name == from_factory(name).name
    assert (name, "MISS") == (kind.name, subject.perform(lookup("r", 1)))


@pytest.mark.parametrize(("attribute", "events"), [("make", False), ("Good", True), ("takes_anything", True)])
def test_it_has_events_if_they_can_be_enabled(attribute: str, events: bool) -> None:
    assert events == from_factory(f"my_managers:{attribute}").events


def test_without_events_there_are_none_to_take(monkeypatch: pytest.MonkeyPatch) -> None:
    subject = from_factory("my_managers:make").make(Setup(2, events=False))
    asked: list[object] = []
    monkeypatch.setattr("evictable.impl.CPUOffloadingManager.take_events", asked.append)
    assert (Drained(()), []) == (subject.perform(DRAIN), asked)


def test_nothing_is_known_of_its_order() -> None:
    assert "any" == from_factory("my_managers:make").profile("lru")


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("no_such_module:make", "importing no_such_module raised ModuleNotFoundError"),
        ("my_mistake:make", "importing my_mistake raised ModuleNotFoundError: No module named 'nothing_of'"),
        ("my_managers:absent", "my_managers has no absent; name a manager factory that it defines"),
        ("my_managers:Houses.absent", "my_managers has no Houses.absent"),
        ("my_managers:constant", "constant cannot be called"),
    ],
)
def test_what_cannot_be_found(name: str, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        from_factory(name)


@pytest.mark.parametrize(
    ("attribute", "message"),
    [
        ("fails", r"fails\(num_blocks=2\) raised RuntimeError: out of blocks"),
        ("hands_over_nothing", r"what it returns \(NoneType\) has no method lookup"),
        ("wants_nothing", "a manager factory takes num_blocks"),
        (
            "Lacking",
            r"what it returns \(Lacking\) has no method touch, reset_cache; a subject has the methods of vLLM's "
            "OffloadingManager",
        ),
    ],
)
def test_what_cannot_be_built(attribute: str, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        from_factory(f"my_managers:{attribute}").make(Setup(2))


@pytest.mark.parametrize("method", REQUIRED)
def test_each_method_that_is_called_must_be_there(method: str, monkeypatch: pytest.MonkeyPatch) -> None:
    kind = from_factory("my_managers:Good")
    monkeypatch.setattr(f"my_managers.Good.{method}", None, raising=False)
    with pytest.raises(UsageError, match=rf"what it returns \(Good\) has no method {method}; "):
        kind.make(Setup(2))


@pytest.mark.parametrize("hook", ["on_new_request", "on_request_finished", "get_stats"])
def test_a_hook_may_be_missing(hook: str, monkeypatch: pytest.MonkeyPatch) -> None:
    kind = from_factory("my_managers:Good")
    monkeypatch.setattr(f"my_managers.Good.{hook}", None, raising=False)
    assert "MISS" == kind.make(Setup(2)).perform(lookup("r", 1))


@pytest.mark.parametrize("name", ["", "imp", "my_managers", "my managers:make", ":make", "a:b:c"])
def test_what_is_no_subject_at_all(name: str) -> None:
    for use in (subjects.load, lambda name: subjects.prepare(name, print)):
        with pytest.raises(UsageError, match="unknown subject"):
            use(name)
