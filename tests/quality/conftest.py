"""What is shared by the tests that ask whether defects are still found."""

from __future__ import annotations

import pytest


@pytest.fixture(autouse=True)
def unmeasured(monkeypatch: pytest.MonkeyPatch) -> None:
    """Coverage is measured of the tests of units: it would make the processes of these twice as slow."""
    monkeypatch.delenv("COVERAGE_PROCESS_START", raising=False)
