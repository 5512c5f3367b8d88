"""Under ``python -O`` no assertion guards anything: does the built-in manager need any?"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

FEW = ("--engine", "random", "--max-calls", "4000")


def optimized(*arguments: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    command = (sys.executable, "-O", "-m", "evictable.ci.cli", *arguments)
    return subprocess.run(command, cwd=cwd, capture_output=True, text=True, check=False, timeout=120)


@pytest.mark.parametrize("discipline", ["careless", "hostile"])
def test_the_built_in_manager_conforms(discipline: str, tmp_path: Path) -> None:
    done = optimized("check", "impl", "--discipline", discipline, *FEW, cwd=tmp_path)
    assert (0, "1 conform") == (done.returncode, done.stdout.splitlines()[-1])


def test_the_subject_runs_so_too(tmp_path: Path) -> None:
    """A manager whose only guard is an assertion conforms with it, and is found without."""
    (tmp_path / "guarded.py").write_text(
        "from evictable.impl import CPUOffloadingManager\n"
        "class Guarded(CPUOffloadingManager):\n"
        "    def complete_store(self, keys, req_context, success=True, ticket=None):\n"
        "        assert all(self._policy.get(key) is not None for key in keys)\n"
        "        assert all(self._policy.get(key).writer == req_context.req_id for key in keys)\n"
        "        for key in keys:\n"
        "            block = self._policy.get(key)\n"
        "            if block is not None:\n"
        "                block.writer = req_context.req_id\n"
        "        super().complete_store(keys, req_context, success)\n"
    )
    arguments = ("check", "guarded:Guarded", "--discipline", "careless", *FEW)
    with_them = subprocess.run(
        (sys.executable, "-m", "evictable.ci.cli", *arguments),
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert 0 == with_them.returncode, with_them.stdout
    without = optimized(*arguments, cwd=tmp_path)
    assert 1 == without.returncode
    assert "owner-completes" in without.stdout
