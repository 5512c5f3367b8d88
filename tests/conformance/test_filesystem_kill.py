"""The file system tier survives `kill -9` between any two operations on files, and amid a write."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import killed_tier
import pytest
from killed_tier import KEYS, damaged_in, verify

from evictable.impl.tiering.file_operations import FileOperations


def run(*arguments: object) -> None:
    """In a process that can fork: this one may have threads."""
    subprocess.run([sys.executable, killed_tier.__file__, *map(str, arguments)], check=True, timeout=600)


@pytest.mark.parametrize(("kind", "removals"), [("empty", 0), ("used", 3)])
def test_wherever_it_is_killed_blocks_are_right_or_missing(kind: str, removals: int, tmp_path: Path) -> None:
    run("everywhere", tmp_path, kind)
    places = [path for path in (tmp_path / "killed").iterdir() if path.is_dir()]
    assert len(places) > 100
    damaged = damaged_in(tmp_path / "origin")
    for place in places:
        assert damaged_in(place) <= damaged
        stored = place.with_suffix(".stored").read_text().split()
        verify(place, promised=[key for key in KEYS if key.hex() in stored])

    # The work did all that can be done to files: so it was killed at all of that.
    done = (tmp_path / "killed" / "end.operations").read_text().split()
    assert {name for name in vars(FileOperations) if not name.startswith("_")} == {*done, "remove"}
    assert removals == done.count("remove")


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(4))
def test_two_processes_killed_at_random_over_damaged_files(seed: int, tmp_path: Path) -> None:
    run("at-random", tmp_path, seed, 500)
