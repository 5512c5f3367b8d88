"""Fixtures that more than one test file uses."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import coverage
import pytest

from evictable.specs.errors import UsageError
from evictable.specs.subjects import releases


@pytest.fixture(scope="session")
def release() -> Callable[[str], Path]:
    """The unpacked tree of a published release, fetched into the user's cache the first time.

    Where it cannot be had the test is skipped, or fails if `EVICTABLE_REQUIRE_RELEASES=1` says that it must not be.
    """
    unreachable: list[str] = []

    def get(version: str) -> Path:
        # Without a network every attempt takes pip several seconds: one is enough, also for the other releases.
        if not unreachable or (releases.cache_dir() / "releases" / version).is_dir():
            try:
                return releases.fetch(version, print)
            except UsageError as error:
                unreachable.append(str(error))
        if os.environ.get("EVICTABLE_REQUIRE_RELEASES") == "1":
            pytest.fail(unreachable[-1])
        pytest.skip(unreachable[-1])

    return get


@pytest.fixture
def without_coverage(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Nothing of a test is measured, nor of its processes: whole searches would be half as slow again."""
    monkeypatch.delenv("COVERAGE_PROCESS_START", raising=False)
    measuring = coverage.Coverage.current()
    if measuring is None:
        yield
        return
    measuring.stop()
    yield
    measuring.start()
