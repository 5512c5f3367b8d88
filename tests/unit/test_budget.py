"""A budget runs out at the first of its bounds."""

from __future__ import annotations

import pytest

from evictable.specs.budget import Budget


@pytest.mark.parametrize(
    ("budget", "spent"),
    [
        (Budget(), False),
        (Budget(max_calls=2, calls=1), False),
        (Budget(max_calls=2, calls=2), True),
        (Budget(max_seconds=1e9), False),
        (Budget(max_seconds=0.0), True),
        (Budget(max_calls=2, max_seconds=0.0), True),
        (Budget(max_calls=0, max_seconds=1e9), True),
    ],
)
def test_when_a_budget_is_spent(budget: Budget, spent: bool) -> None:
    assert spent == budget.spent
