"""What is shared by the tests that ask whether defects are still found."""

from __future__ import annotations

import pytest


@pytest.fixture(autouse=True)
def unmeasured(without_coverage: None) -> None:
    """Coverage is measured of the tests of units."""
