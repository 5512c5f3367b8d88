"""The command line as users meet it: the installed script, in a working directory of the test's own."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from commandline import SCRIPT, Run

from evictable.ci.cli import main


@pytest.fixture(autouse=True)
def unmeasured(without_coverage: None) -> None:
    """Coverage is measured of the tests of units."""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """The working directory of the command, in which it can import `factories` and `strangers`."""
    for name in ("factories.py", "strangers.py"):
        shutil.copy(Path(__file__).parent / name, tmp_path)
    return tmp_path


@pytest.fixture
def evictable(folder: Path) -> Run:
    """Run the command with these arguments; ``env`` is added to the environment."""

    def run(
        *arguments: object, env: Mapping[str, str] = {}, timeout: float = 120, **more: Any
    ) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [SCRIPT, *map(str, arguments)],
            **{"capture_output": True, **more},
            stdin=subprocess.DEVNULL,
            text=True,
            encoding="utf-8",
            cwd=folder,
            env={**os.environ, **env},
            timeout=timeout,
            check=False,
        )

    return run


@pytest.fixture
def at_once(folder: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> Run:
    """The same in this process, which takes a tenth of the time: for input that no subject ever sees."""

    def run(*arguments: object) -> subprocess.CompletedProcess[str]:
        monkeypatch.chdir(folder)
        terminated = signal.getsignal(signal.SIGTERM)
        with pytest.raises(SystemExit) as ended:
            main([str(argument) for argument in arguments])
        signal.signal(signal.SIGTERM, terminated)
        out, err = capfd.readouterr()
        return subprocess.CompletedProcess(arguments, ended.value.code, out, err)

    return run
