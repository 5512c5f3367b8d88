"""What each law came to in a cell: what a list of tests or a summary has a line for."""

from __future__ import annotations

from collections.abc import Iterator

from attrs import frozen

from evictable.ci.cells import Cell, Violation
from evictable.ci.levels import POLICY
from evictable.specs.callers.disciplines import CARELESS

PASSED, FAILED, ERROR, SKIPPED = "passed", "failed", "error", "skipped"
SEARCH = "search"
"""The line beside those of the laws: it is no success where there is no verdict."""


@frozen
class Verdict:
    """A law of a cell, or its `SEARCH`: how it stands, and why."""

    law: str
    state: str
    why: str = ""
    violations: tuple[Violation, ...] = ()


def verdicts(cell: Cell) -> Iterator[Verdict]:
    """The search first, then every law that its discipline, tiers and level put to the test."""
    if cell.left_out:
        yield Verdict(SEARCH, SKIPPED, f"left out: {cell.problem}")
    elif cell.problem is not None or not cell.ended:
        yield Verdict(SEARCH, ERROR, cell.problem or "the search did not end")
    else:
        yield Verdict(SEARCH, PASSED)
    for law in _laws(cell):
        yield _of_law(cell, law)


def _laws(cell: Cell) -> list[str]:
    from evictable.model.laws import LAWS
    from evictable.model.policy import POLICY_LAWS

    if cell.level == POLICY:
        laws = list(POLICY_LAWS)
    else:
        careless, tiers = cell.discipline == CARELESS, cell.tiers > 0
        laws = [law.id for law in LAWS if law.can_be_tested(careless=careless, tiers=tiers)]
    return list(dict.fromkeys([*laws, *(violation.law for violation in cell.violations.values())]))


def _of_law(cell: Cell, law: str) -> Verdict:
    broken = tuple(sorted((one for one in cell.violations.values() if one.law == law), key=lambda one: one.calls))
    unexpected = tuple(one for one in broken if one.reason is None)
    if unexpected:
        return Verdict(law, FAILED, unexpected[0].detail, unexpected)
    if broken:
        return Verdict(law, SKIPPED, f"known failure: {broken[0].reason}", broken)
    if cell.left_out or cell.problem is not None or not cell.ended:
        return Verdict(law, SKIPPED, "no verdict")
    if law in cell.not_exercised:
        return Verdict(law, SKIPPED, f"not exercised in {cell.steps:,} calls")
    return Verdict(law, PASSED)
