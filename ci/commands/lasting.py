"""Commands that run for hours."""

from __future__ import annotations

from pathlib import Path

import click

from evictable.ci.commands.shared import (
    BASELINE,
    EVERY_DISCIPLINE,
    EVERY_POLICY,
    EXIT_CODES,
    EXPECT,
    JSON,
    POLICY,
    PROFILE,
    SEED,
    known_profile,
)
from evictable.specs.errors import UsageError


@click.command(epilog=EXIT_CODES)
@click.argument("subject", nargs=-1)
@click.option(
    "--for",
    "duration",
    metavar="TIME",
    help="90s, 10m, 8h, earlier runs in DIR included; and up to a tenth more for shrinking. Default: 10m.",
)
@click.option("--max-units", type=click.IntRange(min=1), metavar="N", help="Units of work, likewise.")
@click.option(
    "--unit-calls",
    type=click.IntRange(min=1),
    metavar="N",
    help="Calls in a unit, at most: for a slow subject. Default: some thousands.",
)
@click.option("--workers", type=click.IntRange(min=1), metavar="N", help="Processes. Default: one for each processor.")
@click.option(
    "--dir",
    "folder",
    type=click.Path(path_type=Path),
    default=Path("campaign"),
    show_default=True,
    metavar="DIR",
    help="Where everything is kept; the same command goes on there.",
)
@EVERY_POLICY
@EVERY_DISCIPLINE
@click.option(
    "--tiers",
    type=click.IntRange(min=0, max=8),
    multiple=True,
    default=(0, 1, 2),
    show_default=True,
    metavar="N",
    help="Secondary tiers; may be given several times. With any there is no threshold.",
)
@click.option(
    "--store-threshold",
    "thresholds",
    type=click.IntRange(min=1),
    multiple=True,
    default=(1, 2),
    show_default=True,
    metavar="N",
    help="May be given several times.",
)
@click.option(
    "--level",
    type=click.Choice(["manager", "policy", "all"]),
    default="all",
    show_default=True,
    help="Managers, cache policies by themselves, or both.",
)
@PROFILE
@SEED
@click.option(
    "--memory", type=click.IntRange(min=0), default=4096, show_default=True, metavar="MIB", help="Of a process; 0: any."
)
@EXPECT
@BASELINE
@click.option(
    "--json", "json_path", type=click.Path(path_type=Path), metavar="FILE", help="A copy of DIR/summary.json."
)
@click.option("--metrics-port", type=click.IntRange(min=1, max=65535), metavar="PORT", help="Answer Prometheus there.")
@click.option("--metrics-address", default="127.0.0.1", show_default=True, metavar="ADDRESS")
@click.option("--dask", metavar="ADDRESS", help="Do the units on this Dask cluster instead of this machine.")
@click.option("--status-only", is_flag=True, help="Search nothing: say what the campaign in DIR has come to.")
@click.option("--unit", type=click.IntRange(min=0), metavar="N", help="Search nothing but do unit N of DIR again.")
def fuzz(
    subject: tuple[str, ...],
    duration: str | None,
    max_units: int | None,
    unit_calls: int | None,
    workers: int | None,
    folder: Path,
    policy: str,
    discipline: str,
    tiers: tuple[int, ...],
    thresholds: tuple[int, ...],
    level: str,
    profile: str,
    seed: int,
    memory: int,
    expect_path: Path | None,
    baseline: str | None,
    json_path: Path | None,
    metrics_port: int | None,
    metrics_address: str,
    dask: str | None,
    status_only: bool,
    unit: int | None,
) -> int:
    """Search SUBJECT... for long: all engines, policies, disciplines and tiers, guided by what was reached before.

    SUBJECT: what `check` takes. Default: those of the campaign in DIR.

    \b
    Example:
      evictable fuzz impl vllm==0.33.0 --for 8h --dir campaign
    """
    from evictable.ci.expectations import read_expectations
    from evictable.ci.fuzz import Campaign, Options, places_wanted, prepared
    from evictable.ci.fuzz_report import serve_metrics
    from evictable.ci.jobs import default_parallel
    from evictable.ci.soak import seconds_of
    from evictable.ci.units import dask_pool, local_pool
    from evictable.specs.subjects import prepare

    known_profile(profile)
    if dask is not None and workers is not None:
        raise UsageError("--workers and --dask do not go together: the cluster has workers of its own")
    if status_only and unit is not None:
        raise UsageError("--status-only and --unit do not go together: give one of them")
    places = places_wanted(subject, policy, discipline, tiers, thresholds, level)
    options = Options(
        places=prepared(places, lambda line: click.echo(line, err=True)),
        folder=folder,
        max_time=seconds_of(duration or None, default=None if max_units else "10m"),
        max_units=max_units,
        profile=profile,
        seed=seed,
        memory=memory,
        most_calls=unit_calls,
        expectations=() if expect_path is None else read_expectations(expect_path),
        json_path=json_path,
        baseline=None if baseline is None else prepare(baseline, lambda line: click.echo(line, err=True)),
    )
    campaign = Campaign(options)
    if status_only:
        return campaign.show()
    if unit is not None:
        return campaign.again(unit, local_pool(1))

    def watch(running: Campaign) -> None:
        if metrics_port is not None:
            serve_metrics(running, metrics_address, metrics_port)

    processes = workers or default_parallel()
    return campaign.run(lambda: local_pool(processes) if dask is None else dask_pool(dask), watch)


@click.command(epilog=EXIT_CODES)
@click.argument("subject", default="impl")
@click.option("--for", "duration", metavar="TIME", help="90s, 10m, 1h. Default: 1m, if there is no --max-calls.")
@click.option("--max-calls", type=click.IntRange(min=1), metavar="N", help="At most so many calls.")
@click.option("--threads", type=click.IntRange(min=1, max=64), default=4, show_default=True)
@click.option(
    "--tiers",
    type=click.IntRange(min=0, max=8),
    default=0,
    show_default=True,
    metavar="N",
    help="The tiering manager; another thread ends the tiers' jobs.",
)
@POLICY
@PROFILE
@click.option("--capacity", type=click.IntRange(min=4), default=32, show_default=True, metavar="SLOTS")
@click.option(
    "--lock",
    type=click.Choice(["own", "external"]),
    default="own",
    show_default=True,
    help="Held by whoever calls: the manager's, or one of ours.",
)
@click.option("--no-faults", is_flag=True, help="Nothing raises.")
@SEED
@JSON
def soak(
    subject: str,
    duration: str | None,
    max_calls: int | None,
    threads: int,
    tiers: int,
    policy: str,
    profile: str,
    capacity: int,
    lock: str,
    no_faults: bool,
    seed: int,
    json_path: Path | None,
) -> int:
    """Let several threads play careful schedulers on one SUBJECT: calls judged, faults, resets, memory measured.

    SUBJECT: impl (the default), or what `check` takes. Two runs differ: it is the machine that switches threads.

    \b
    Example:
      evictable soak impl --for 10m --threads 4 --tiers 2
    """
    from evictable.ci.soak import Options, run_soak, seconds_of

    known_profile(profile)
    options = Options(
        subject=subject,
        policy=policy,
        profile=profile,
        threads=threads,
        tiers=tiers,
        capacity=capacity,
        lock=lock,
        faults=not no_faults,
        seed=seed,
        max_time=seconds_of(duration or None, default=None if max_calls else "1m"),
        max_calls=max_calls,
    )
    return run_soak(options, json_path)
