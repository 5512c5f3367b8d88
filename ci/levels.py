"""What is judged: a manager, or a cache policy by itself; and which options go with which."""

from __future__ import annotations

from evictable.specs.callers.disciplines import CARELESS, CONTRACT, DISCIPLINES
from evictable.specs.errors import UsageError
from evictable.specs.search import ENGINES, ENGINES_WITH_TIERS, EXHAUSTIVE, RANDOM

MANAGER, POLICY = "manager", "policy"
ENGINES_OF_POLICIES = (EXHAUSTIVE, RANDOM)
DISCIPLINES_OF_POLICIES = (CONTRACT, CARELESS)


def engines_at(level: str, tiers: int) -> tuple[str, ...]:
    """All that apply."""
    if level == POLICY:
        return ENGINES_OF_POLICIES
    return ENGINES_WITH_TIERS if tiers else ENGINES


def disciplines_at(level: str) -> tuple[str, ...]:
    return DISCIPLINES_OF_POLICIES if level == POLICY else DISCIPLINES


def refuse_at_policy_level(
    *, hostile: bool, engine: str, tiers: bool, store_threshold: bool, max_tracker_size: bool, expect: bool
) -> None:
    """Raises `UsageError` for an option that means nothing to a policy by itself."""
    if engine not in (*ENGINES_OF_POLICIES, "all"):
        raise UsageError(f"--level policy has the engines {', '.join(ENGINES_OF_POLICIES)}, not --engine {engine}")
    options = {
        "--discipline hostile": hostile,
        "--tiers": tiers,
        "--store-threshold": store_threshold,
        "--max-tracker-size": max_tracker_size,
        "--expect": expect,
    }
    given = [option for option, is_given in options.items() if is_given]
    if given:
        raise UsageError(f"--level policy judges a policy without its manager: leave out {', '.join(given)}")
