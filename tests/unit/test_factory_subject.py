"""Anybody's manager by name: found in the working directory, built, and refused in one line."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from seeded import announce, lookup

from evictable.specs import subjects
from evictable.specs.errors import UsageError
from evictable.specs.subjects.base import Setup
from evictable.specs.subjects.factory import from_factory

SOURCE = """
from evictable.impl import CPUOffloadingManager

class Houses:
    Manager = CPUOffloadingManager

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
    ],
)
def test_what_cannot_be_built(attribute: str, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        from_factory(f"my_managers:{attribute}").make(Setup(2))


@pytest.mark.parametrize("name", ["", "imp", "my_managers", "my managers:make", ":make", "a:b:c"])
def test_what_is_no_subject_at_all(name: str) -> None:
    for use in (subjects.load, lambda name: subjects.prepare(name, print)):
        with pytest.raises(UsageError, match="unknown subject"):
            use(name)
