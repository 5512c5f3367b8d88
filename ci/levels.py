"""What is judged: a manager, or a cache policy by itself; and which options go with which."""

from __future__ import annotations

from evictable.specs.callers.disciplines import CARELESS, CONTRACT, DISCIPLINES, HOSTILE
from evictable.specs.errors import UsageError
from evictable.specs.search import ENGINES, ENGINES_WITH_TIERS, EXHAUSTIVE, RANDOM, SCHEDULER

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


def refuse_combinations(
    *,
    level: str,
    disciplines: tuple[str, ...],
    engine: str,
    tiers: int,
    store_threshold: int,
    max_tracker_size: int | None,
    expects: bool,
    baseline: str | None,
    host: str | None,
) -> None:
    """Raises `UsageError` for options of which one means nothing beside the other."""
    if level == POLICY:
        if host is not None:
            raise UsageError("--level policy judges a policy without its manager: leave out --host")
        if engine not in (*ENGINES_OF_POLICIES, "all"):
            raise UsageError(f"--level policy has the engines {', '.join(ENGINES_OF_POLICIES)}, not --engine {engine}")
        options = {
            "--discipline hostile": HOSTILE in disciplines,
            "--tiers": tiers > 0,
            "--store-threshold": store_threshold > 1,
            "--max-tracker-size": max_tracker_size is not None,
            "--expect": expects,
            "--baseline": baseline is not None,
        }
        given = [option for option, is_given in options.items() if is_given]
        if given:
            raise UsageError(f"--level policy judges a policy without its manager: leave out {', '.join(given)}")
    if engine == SCHEDULER and (not tiers or disciplines != (CONTRACT,)):
        raise UsageError("--engine scheduler needs --tiers 1 or more and --discipline contract: a scheduler is careful")
    if engine == EXHAUSTIVE and HOSTILE in disciplines and tiers:
        raise UsageError("--engine exhaustive makes no tier raise: leave out --discipline hostile, or --tiers")
    if tiers and store_threshold > 1:
        raise UsageError("--store-threshold and --tiers do not go together: a primary tier stores every key")
