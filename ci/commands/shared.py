"""What several commands have in common."""

from __future__ import annotations

from pathlib import Path

import click

EXIT_CODES = """
Exit codes: 0 conforms; 1 a law is broken; 2 wrong usage, or the subject cannot be loaded; 3 inconclusive, or a
stale list of expected failures; 130 interrupted.
"""

PROFILE = click.option(
    "--profile", default="auto", show_default=True, help="Rules of eviction to judge by: auto, or a profile's name."
)
POLICY = click.option("--policy", type=click.Choice(["lru", "arc"]), default="lru", show_default=True)
EVERY_POLICY = click.option("--policy", type=click.Choice(["lru", "arc", "all"]), default="all", show_default=True)
EVERY_DISCIPLINE = click.option(
    "--discipline", type=click.Choice(["contract", "careless", "hostile", "all"]), default="all", show_default=True
)
SEED = click.option("--seed", type=click.IntRange(min=0), default=0, show_default=True)
SUBJECT_HELP = "impl, vllm, vllm==0.33.0, vllm:PATH, package.module:factory or stdio:COMMAND"
JSON = click.option(
    "--json", "json_path", type=click.Path(path_type=Path), metavar="FILE", help="Write the results there."
)

EXPECT = click.option(
    "--expect",
    "expect_path",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Known failures (TOML): each is replayed first, and fails the check only when it is stale.",
)
BASELINE = click.option(
    "--baseline",
    metavar="SUBJECT",
    help="What this one breaks by the same calls is expected: only defects that it does not have fail the check.",
)


def known_profile(profile: str) -> None:
    """Raises `UsageError` if there is no such profile."""
    from evictable.specs.jobs import profile_of

    profile_of(profile, own="any")
