"""Commands that measure."""

from __future__ import annotations

from pathlib import Path

import click

from evictable.ci.commands.shared import EVERY_POLICY, EXIT_CODES, JSON


@click.command(epilog=EXIT_CODES)
@click.argument("subject", nargs=-1)
@click.option(
    "--section",
    "sections",
    multiple=True,
    metavar="NAME",
    help="Only this; several may be given: mixed, calls, evict, slowest, memory, trace, harness.",
)
@click.option("--quick", is_flag=True, help="Small sizes and few rounds: a first look, in half a minute.")
@click.option("--rounds", type=click.IntRange(min=1), metavar="N", help="Of each case. Default: 5; with --quick 3.")
@click.option(
    "--trace",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Requests for section trace, in the Mooncake format.",
)
@click.option("--json", "json_path", type=click.Path(path_type=Path), metavar="FILE", help="Write the rows there.")
@click.option("--plots", type=click.Path(path_type=Path), metavar="DIR", help="Write plots there, as SVG.")
def bench(
    subject: tuple[str, ...],
    sections: tuple[str, ...],
    quick: bool,
    rounds: int | None,
    trace: Path | None,
    json_path: Path | None,
    plots: Path | None,
) -> int:
    """How fast is SUBJECT..., beside others and at the same results? And how fast is the harness?

    Each subject in a process of its own, rounds in an order drawn anew, thread time; what they answer is judged before
    it is timed. By default impl, impl:linked and the releases 0.23.0, 0.24.0, 0.30.0 and 0.33.0.

    \b
    Example:
      evictable bench impl vllm==0.24.0 --section mixed
    """
    from evictable.ci.bench import Options, run_bench
    from evictable.specs.bench.sections import SUBJECTS

    return run_bench(Options(subject or SUBJECTS, sections, quick, rounds, trace, json_path, plots))


@click.command("bench-monitor")
@click.argument("subject", nargs=-1)
@EVERY_POLICY
@click.option("--capacity", type=click.IntRange(min=4096), multiple=True, default=(100_000,), show_default=True)
@click.option("--rounds", type=click.IntRange(min=1), default=9, show_default=True, metavar="N")
@JSON
def bench_monitor(
    subject: tuple[str, ...], policy: str, capacity: tuple[int, ...], rounds: int, json_path: Path | None
) -> int:
    """What the monitor costs: process time of watched managers to that of the bare one, under a mixed load.

    SUBJECT: impl (the default), or what `check` takes. A request looks up, touches and loads half of its keys and
    stores the others; blocks are pinned while others are evicted.

    \b
    Example:
      evictable bench-monitor vllm==0.33.0 --policy lru
    """
    from evictable.ci.bench_monitor import run_bench_monitor

    return run_bench_monitor(
        subject or ("impl",), ("lru", "arc") if policy == "all" else (policy,), capacity, rounds, json_path
    )
