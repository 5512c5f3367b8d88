"""What a scheduler step makes of its lookups, by our own account of it."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from evictable.model.calls import HIT, HIT_PENDING, MISS, RETRY, Key
from evictable.specs.subjects.builtin import BUILT_IN
from evictable.specs.subjects.schedulers import Group, Reference, scheduling_of

ANSWERS = {"H": HIT, "M": MISS, "P": HIT_PENDING, "R": RETRY}


def step(groups: str) -> tuple[str | None, str]:
    """The keys that are loaded, and those that are asked for, in order.

    A group is written as the answers to its keys, `H`, `M`, `P` or `R`, with its window behind a slash. Its keys are
    a letter and a number: those of the first group `a0`, `a1`, ...
    """
    table: dict[Key, str] = {}
    made = []
    for letter, group in zip("abc", groups.split(), strict=False):
        answers, _, window = group.partition("/")
        keys = tuple(f"{letter}{number}" for number in range(len(answers)))
        table.update(zip(keys, map(ANSWERS.__getitem__, answers), strict=True))
        made.append(Group(keys, int(window) if window else None))
    asked: list[Key] = []

    def lookup(key: Key) -> str:
        asked.append(key)
        return table[key]

    loaded = Reference()(made, lookup, lambda keys: pytest.fail("touched"))
    return None if loaded is None else " ".join(map(str, loaded)), " ".join(map(str, asked))


@pytest.mark.parametrize(
    ("groups", "loaded", "asked"),
    [
        pytest.param("HHH", "a0 a1 a2", "a0 a1 a2", id="all are there"),
        pytest.param("HHMH", "a0 a1", "a0 a1 a2", id="a prefix ends at the first miss"),
        pytest.param("MHH", "", "a0", id="nothing without the first"),
        pytest.param("HPHMH", None, "a0 a1 a2 a3", id="what is pending in a prefix is waited for"),
        pytest.param("RHM", None, "a0 a1 a2", id="so is what may be there"),
        pytest.param("HMP", "a0", "a0 a1", id="not what is pending behind the miss"),
        pytest.param("HHHH/2", "a2 a3", "a3 a2", id="a window is enough"),
        pytest.param("HHMH/2", "a0 a1", "a3 a2 a1 a0", id="a window to the left of a gap"),
        pytest.param("HMHH/3", "a0", "a3 a2 a1 a0", id="the left edge cuts a window off"),
        pytest.param("MHMH/2", "", "a3 a2 a1 a0", id="no window"),
        pytest.param("HHHP/2", None, "a3 a2", id="what is pending in the window is waited for"),
        pytest.param("HHMP/2", "a0 a1", "a3 a2 a1 a0", id="a gap forgets what is pending behind it"),
        pytest.param("HHRH/2", None, "a3 a2 a1 a0", id="what may be there is no gap"),
        pytest.param("HHMR/2", None, "a3 a2 a1 a0", id="and is not forgotten"),
        pytest.param("HHH HHM", "a0 a1 b0 b1", "a0 a1 a2 b0 b1 b2", id="the shorter prefix"),
        pytest.param("HHH/1 HHM", "a1 b0 b1", "b0 b1 b2 a1", id="full attention is asked first, not loaded first"),
        pytest.param("HHHH HMHM/1", "a0 a1 a2 b2", "a0 a1 a2 a3 b3 b2", id="a window shortens the prefix"),
        pytest.param(
            "HHM/1 HHH/2",
            "a1 b0 b1",
            "b2 b1 a2 a1 b1 b0 a1",
            id="the widest window first, and again for an earlier end",
        ),
        pytest.param("HPH HMM/1", "a0 b0", "a0 a1 a2 b2 b1 b0 a0 b0", id="pending behind the end that is agreed on"),
        pytest.param("PHH HMM/1", None, "a0 a1 a2 b2 b1 b0 a0 b0", id="pending before it"),
        pytest.param("PHH MMM/1", "", "a0 a1 a2 b2 b1 b0", id="nothing to wait for if another group has nothing"),
        pytest.param("", "", "", id="no groups"),
    ],
)
def test_step(groups: str, loaded: str | None, asked: str) -> None:
    assert (loaded, asked) == step(groups)


def test_a_prompt_without_a_full_chunk_has_nothing_to_load() -> None:
    assert () == Reference()([Group(()), Group((), 2)], lambda key: pytest.fail("asked"), lambda keys: None)


def test_the_built_in_manager_is_scheduled_by_the_reference() -> None:
    assert not BUILT_IN.scheduling().faithful


def test_a_tree_whose_scheduler_cannot_be_driven_is_scheduled_by_the_reference() -> None:
    modules: Any = SimpleNamespace(base=SimpleNamespace(make_offload_key=None), scheduler=SimpleNamespace())
    assert not scheduling_of(modules).faithful
