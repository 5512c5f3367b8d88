"""The unit tests of `evictable.impl`, run on a mutant of it: they know what no caller can see, such as error types.

Loaded as a plugin of pytest, this module puts the mutant's text in the place of the real one.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tempfile
from importlib.abc import InspectLoader, MetaPathFinder
from importlib.machinery import ModuleSpec
from pathlib import Path
from typing import Any

from evictable.specs.errors import UsageError

TESTS = Path(__file__).resolve().parents[2] / "tests" / "unit"
NAMES = (
    "tickets",
    *(f"impl_{of}" for of in ("lru", "arc", "manager", "errors", "metrics", "admission", "misuse", "details")),
)
_TEXT = "EVICTABLE_MUTANT"
"""The environment variable that names a file with the module's name and its text."""
SECONDS = 120.0


def failing_test(mutant: Any) -> str | None:
    """The first unit test that fails on the mutant, or ``None``. Where there are no tests, none fails.

    Raises `TimeoutError` if they do not end: that says nothing of the mutant.
    """
    from evictable.specs.mutants.build import edited_source

    return _first_failure({f"evictable.impl.{mutant.module}": edited_source(mutant)})


def must_pass() -> None:
    """Raises `UsageError` if the tests fail as it is: then a failure would say nothing."""
    failed = _first_failure({})
    if failed is not None:
        raise UsageError(f"{failed} fails without any mutant; mend that first")


def _first_failure(texts: dict[str, str]) -> str | None:
    files = [TESTS / f"test_{name}.py" for name in NAMES]
    if not all(file.exists() for file in files):
        return None
    with tempfile.TemporaryDirectory() as folder:
        text = Path(folder, "mutant.json")
        text.write_text(json.dumps(texts), encoding="utf-8")
        command = [
            sys.executable,
            "-m",
            "pytest",
            "-x",
            "-q",
            "-p",
            __name__,
            "-p",
            "no:cacheprovider",
            *map(str, files),
        ]
        try:
            done = subprocess.run(
                command,
                cwd=TESTS.parents[1],
                env={
                    **os.environ,
                    _TEXT: str(text),
                    "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",
                },  # they take half of the time
                capture_output=True,
                text=True,
                check=False,
                timeout=SECONDS,
            )
        except subprocess.TimeoutExpired as error:
            raise TimeoutError("the unit tests do not end") from error
    if done.returncode == 0:
        return None
    failed = re.search(r"^(?:FAILED|ERROR) (\S+::\S+)", done.stdout, re.MULTILINE)
    if failed is None:
        raise RuntimeError(f"pytest ended with {done.returncode}: {done.stdout[-200:]}{done.stderr[-200:]}")
    return failed[1]


class _InPlace(MetaPathFinder, InspectLoader):
    def __init__(self, texts: dict[str, str]) -> None:
        self._texts = texts

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> ModuleSpec | None:
        return ModuleSpec(name, self) if name in self._texts else None

    def get_source(self, fullname: str) -> str:
        return self._texts[fullname]


if _TEXT in os.environ:
    sys.meta_path.insert(0, _InPlace(json.loads(Path(os.environ[_TEXT]).read_text(encoding="utf-8"))))
