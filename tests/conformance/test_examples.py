"""Examples, as a stranger tries them: the manager in Python conforms, and a leak in it is found."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from commandline import Run

MANAGER = Path(__file__).resolve().parents[2] / "examples" / "manager.py"
CHECK = ("check", "manager:make_manager", "--profile", "lru-evictable", "--max-calls", 2500)


@pytest.mark.parametrize("discipline", ["contract", "careless"])
def test_it_conforms(discipline: str, evictable: Run, folder: Path) -> None:
    shutil.copy(MANAGER, folder)
    done = evictable(*CHECK, "--discipline", discipline)
    assert (0, "1 conform") == (done.returncode, done.stdout.splitlines()[-1])


def test_a_leak_in_it_is_found(evictable: Run, folder: Path) -> None:
    gives_back = "self.free.append(self.blocks.pop(key).slot)\n\n"
    source = MANAGER.read_text()
    assert 1 == source.count(gives_back)
    (folder / "manager.py").write_text(source.replace(gives_back, "del self.blocks[key]\n\n"))
    done = evictable(*CHECK)
    assert 1 == done.returncode
    assert "no-false-refusal broken by manager:make_manager lru contract" in done.stdout


def test_what_its_answers_cannot_show_is_no_matter_of_time(evictable: Run, folder: Path) -> None:
    shutil.copy(MANAGER, folder)
    done = evictable(*CHECK, "--discipline", "hostile", "--engine", "random")
    assert (3, "1 inconclusive") == (done.returncode, done.stdout.splitlines()[-1])
    assert "its answers alone do not show what a call that raised had changed" in done.stdout
    assert "search longer" not in done.stdout
