"""The list of public names is right, and their types hold in somebody else's project."""

from __future__ import annotations

import importlib
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
ROWS = re.findall(r"^\| `(evictable\.[\w.]+)` \| (.*?) \| ", (ROOT / "docs" / "api.md").read_text(), re.M)
EXAMPLE = (ROOT / "examples" / "api.py").read_text()
WRONG = {
    'Call("prepare_store", keys=(0,), request="r1")': 'Call("prepare_store", keys=0, request="r1")',
    "manager.lookup(key, request)": "manager.lookup(key)",
    "found.path.read_text()": "found.trace.read_text()",
}


@pytest.mark.parametrize(("module", "names"), ROWS, ids=[module for module, _ in ROWS])
def test_what_is_listed_is_there(module: str, names: str) -> None:
    listed = [name for name in re.findall(r"`(\w+)`", names) if name != "__all__"]
    assert listed
    assert [] == [name for name in listed if not hasattr(importlib.import_module(module), name)]


def test_the_example_runs() -> None:
    done = subprocess.run(
        [sys.executable, "api.py"], cwd=ROOT / "examples", capture_output=True, text=True, check=False
    )
    assert (0, "") == (done.returncode, done.stderr)
    lines = done.stdout.splitlines()
    assert ["lookup: HIT", "counters-agree in prepare_load, 5 calls in the trace"] == [lines[0], lines[-1]]


def test_the_example_uses_listed_modules_only() -> None:
    used = set(re.findall(r"^from (evictable[\w.]+) import", EXAMPLE, re.M))
    assert set() == used - {module for module, _ in ROWS}


def checked(folder: Path, text: str, *checker: str) -> tuple[int, int]:
    """Exit code, and how many errors are told, of a project of one file."""
    (folder / "theirs.py").write_text(text)
    done = subprocess.run([*checker, "theirs.py"], cwd=folder, capture_output=True, text=True, check=False)
    return done.returncode, len(re.findall(r"\berror:|- error:", done.stdout))


def mistaken() -> str:
    text = EXAMPLE
    for right, wrong in WRONG.items():
        assert right in text
        text = text.replace(right, wrong)
    return text


MYPY = (sys.executable, "-m", "mypy", "--strict", "--no-error-summary")
PYRIGHT = (sys.executable, "-m", "pyright", "--pythonpath", sys.executable)


def test_mypy(tmp_path: Path) -> None:
    assert (0, 0) == checked(tmp_path, EXAMPLE, *MYPY)
    assert (1, 3) == checked(tmp_path, mistaken(), *MYPY)


@pytest.mark.slow
def test_pyright(tmp_path: Path) -> None:
    """It fetches itself from the registry of node when it is run first."""
    assert (0, 0) == checked(tmp_path, EXAMPLE, *PYRIGHT)
    assert (1, 3) == checked(tmp_path, mistaken(), *PYRIGHT)
