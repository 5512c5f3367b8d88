"""Commands for other implementations and machines: an oracle, golden traces, releases."""

from __future__ import annotations

from pathlib import Path

import click

from evictable.ci.commands.shared import EXIT_CODES, PROFILE, known_profile


@click.command()
@click.option("--capacity", type=click.IntRange(min=1), metavar="SLOTS", help="If the first line is no head line.")
@click.option("--policy", type=click.Choice(["lru", "arc"]), default="lru", show_default=True, help="Likewise.")
@PROFILE
def oracle(capacity: int | None, policy: str, profile: str) -> int:
    """Answer every call on standard input with what is right, line by line (JSON, the trace format).

    A head line begins anew and is answered by a hello; without --profile its profile holds. A call is answered by what
    it should come to ("returns"; "raises" where it should be refused), with what is free beside it, and that is taken
    for what happened. A call with "returns" or "raises" of its own is judged: "right", or the laws that it broke.

    \b
    Example:
      evictable oracle --capacity 2 < calls.jsonl
    with lines such as {"call": "lookup", "request": "r1", "keys": [0]}

    Exit codes: 0; 1 if a recorded answer broke a law; 2 at a line that cannot be read, which is answered by "error";
    3 if an answer is wrong and no law says how.
    """
    from evictable.ci.oracle import run_oracle
    from evictable.model.trace import Head

    known_profile(profile)
    return run_oracle(None if capacity is None else Head(capacity, policy=policy), profile)


@click.command()
@click.option(
    "--dir",
    "folder",
    type=click.Path(path_type=Path),
    default=Path("golden"),
    show_default=True,
    metavar="DIR",
    help="Where the files go, and a README.md with a table of what each covers.",
)
def golden(folder: Path) -> int:
    """Write golden traces: every call in every state of small worlds, with answers and states, a file a profile.

    For tests of an implementation in another language. The same files come with this package, in specs/golden.

    \b
    Example:
      evictable golden --dir golden
    """
    from evictable.ci.golden import run_golden

    return run_golden(folder)


@click.command(epilog=EXIT_CODES)
@click.argument("subject", nargs=-1, required=True)
@click.option(
    "--cache-key", "key_only", is_flag=True, help="Fetch nothing: print a key for a CI system's cache of the folder."
)
def fetch(subject: tuple[str, ...], key_only: bool) -> int:
    """Put the releases that SUBJECT... need into the cache ($EVICTABLE_CACHE), and say where they are.

    `check` does so by itself. This is for a machine that will have no network, and for a CI system that keeps the
    folder from one run to the next.

    \b
    Example:
      evictable fetch --cache-key vllm==0.24.0 vllm==0.33.0
    """
    from evictable.ci.fetch import run_fetch

    return run_fetch(subject, key_only=key_only)
