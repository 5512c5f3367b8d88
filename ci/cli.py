"""The command line."""

from __future__ import annotations

import errno
import os
import shlex
import signal
import sys
import traceback
from collections.abc import Sequence
from pathlib import Path

import click
from click.shell_completion import CompletionItem

from evictable.specs.errors import LawlessDifference, UsageError

_EXIT_CODES = """
Exit codes: 0 conforms; 1 a law is broken; 2 wrong usage, or the subject cannot be loaded; 3 inconclusive, or a
stale list of expected failures; 130 interrupted.
"""


@click.group(epilog=_EXIT_CODES, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="evictable", prog_name="evictable")
def cli() -> None:
    """Is a block evictable exactly when nobody uses it? Judge a KV-cache offload manager against a reference model."""


_PROFILE = click.option(
    "--profile", default="auto", show_default=True, help="Rules of eviction to judge by: auto, or a profile's name."
)
_SUBJECT_HELP = "impl, vllm, vllm==0.33.0, vllm:PATH, package.module:factory or stdio:COMMAND"


@cli.command(epilog=_EXIT_CODES)
@click.argument("subject", nargs=-1)
@click.option("--policy", type=click.Choice(["lru", "arc", "all"]), default="lru", show_default=True)
@click.option(
    "--discipline",
    type=click.Choice(["contract", "careless", "hostile", "all"]),
    default="contract",
    show_default=True,
    help="What the caller promises: all of the contract; nothing; or all of it, but what the manager calls raises.",
)
@_PROFILE
@click.option(
    "--level",
    type=click.Choice(["manager", "policy"]),
    default="manager",
    show_default=True,
    help="Judge the manager, or its cache policy by itself: careless callers then make marks that do not match. "
    "SUBJECT may be package.module:PolicyClass.",
)
@click.option(
    "--engine",
    type=click.Choice(["random", "scheduler", "hypothesis", "exhaustive", "all"]),
    default="all",
    show_default=True,
    help="A random walk, scheduler steps (needs --tiers), a Hypothesis machine, or all of these that apply; or "
    "exhaustive: every call in every state of small worlds, one after the other.",
)
@click.option(
    "--tiers",
    type=click.IntRange(min=0, max=8),
    default=0,
    show_default=True,
    metavar="N",
    help="Judge the tiering manager, over N scripted secondary tiers.",
)
@click.option(
    "--max-time",
    type=click.FloatRange(min=0, min_open=True),
    metavar="SECONDS",
    help="For each subject, policy and discipline. Default: 20, if there is no --max-calls.",
)
@click.option(
    "--max-calls", type=click.IntRange(min=1), metavar="N", help="Likewise; the same seed then gives the same result."
)
@click.option("--seed", type=click.IntRange(min=0), default=0, show_default=True)
@click.option("--capacity", type=click.IntRange(min=1), metavar="SLOTS", help="Fix it. Default: varied, 1 to 4.")
@click.option(
    "--store-threshold",
    type=click.IntRange(min=1),
    default=1,
    show_default=True,
    metavar="N",
    help="Store a key only when it was asked for N times.",
)
@click.option(
    "--max-tracker-size",
    type=click.IntRange(min=1),
    metavar="KEYS",
    help="Keys whose counts are kept. Default: varied, 1 to 7.",
)
@click.option(
    "--expect",
    "expect_path",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Known failures (TOML): each is replayed first, and fails the check only when it is stale.",
)
@click.option("--json", "json_path", type=click.Path(path_type=Path), metavar="FILE", help="Write the results there.")
@click.option(
    "--html",
    "html_path",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Write a page there: the verdicts, and each counterexample drawn, to step through.",
)
@click.option(
    "--trace-dir",
    type=click.Path(path_type=Path),
    default=Path("traces"),
    show_default=True,
    metavar="DIR",
    help="Where counterexamples go.",
)
@click.option(
    "--junitxml",
    "junit_path",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Write them as JUnit XML, too: a suite for each subject, policy and discipline, a case for each law.",
)
@click.option(
    "--summary",
    "summary_path",
    type=click.Path(path_type=Path),
    envvar="GITHUB_STEP_SUMMARY",
    metavar="FILE",
    help="Add a summary in Markdown to it. Default: $GITHUB_STEP_SUMMARY, if there is one. On GitHub Actions what "
    "fails is annotated, too.",
)
@click.option(
    "--host",
    metavar="SUBJECT",
    help="The manager that hosts SUBJECT, a cache policy class: impl (the default), vllm==0.33.0 and so on. "
    "SUBJECT@HOST says the same.",
)
def check(
    subject: tuple[str, ...],
    policy: str,
    discipline: str,
    profile: str,
    level: str,
    engine: str,
    max_time: float | None,
    max_calls: int | None,
    seed: int,
    capacity: int | None,
    store_threshold: int,
    max_tracker_size: int | None,
    tiers: int,
    expect_path: Path | None,
    json_path: Path | None,
    html_path: Path | None,
    trace_dir: Path,
    junit_path: Path | None,
    summary_path: Path | None,
    host: str | None,
) -> int:
    """Search SUBJECT... for broken laws and show the shortest calls found that break each.

    SUBJECT: impl (the built-in manager, the default), vllm (as installed), vllm==0.33.0 (a published release,
    fetched once), vllm:PATH (a source checkout), package.module:Name (a manager factory or a cache policy class) or
    stdio:COMMAND (any language).

    \b
    Example:
      evictable check vllm==0.33.0 --discipline careless --html report.html
    """
    from evictable.ci.check import Check, CheckOptions
    from evictable.ci.expectations import read_expectations
    from evictable.ci.github import on_github
    from evictable.ci.levels import POLICY, disciplines_at, engines_at, refuse_at_policy_level
    from evictable.specs.callers.disciplines import CONTRACT, HOSTILE
    from evictable.specs.search import EXHAUSTIVE, SCHEDULER
    from evictable.specs.subjects import hosted
    from evictable.specs.subjects.vllm import POLICIES

    _known_profile(profile)
    if host is not None:
        subject = tuple(hosted(name, host) for name in subject or ("impl",))
    if level == POLICY:
        if host is not None:
            raise UsageError("--level policy judges a policy without its manager: leave out --host")
        refuse_at_policy_level(
            hostile=discipline == HOSTILE,
            engine=engine,
            tiers=tiers > 0,
            store_threshold=store_threshold > 1,
            max_tracker_size=max_tracker_size is not None,
            expect=expect_path is not None,
        )
    disciplines = disciplines_at(level) if discipline == "all" else (discipline,)
    if engine == SCHEDULER and (not tiers or disciplines != (CONTRACT,)):
        raise UsageError("--engine scheduler needs --tiers 1 or more and --discipline contract: a scheduler is careful")
    if engine == EXHAUSTIVE and HOSTILE in disciplines and tiers:
        raise UsageError("--engine exhaustive makes no tier raise: leave out --discipline hostile, or --tiers")
    if tiers and store_threshold > 1:
        raise UsageError("--store-threshold and --tiers do not go together: a primary tier stores every key")
    return Check(
        CheckOptions(
            subjects=subject or ("impl",),
            policies=POLICIES if policy == "all" else (policy,),
            disciplines=disciplines,
            profile=profile,
            level=level,
            engines=engines_at(level, tiers) if engine == "all" else (engine,),
            max_time=20.0 if max_time is None and max_calls is None else max_time,
            max_calls=max_calls,
            seed=seed,
            capacity=capacity,
            store_threshold=store_threshold,
            max_tracker_size=max_tracker_size,
            tiers=tiers,
            expectations=() if expect_path is None else read_expectations(expect_path),
            json_path=json_path,
            html_path=html_path,
            trace_dir=trace_dir,
            junit_path=junit_path,
            summary_path=summary_path,
            annotate=on_github(os.environ),
        )
    ).run()


@cli.command(epilog=_EXIT_CODES)
@click.argument("trace", type=click.Path(path_type=Path))
@click.option("--subject", help=f"Drive {_SUBJECT_HELP} with the calls. Default: judge the recorded answers.")
@_PROFILE
def replay(trace: Path, subject: str | None, profile: str) -> int:
    """Judge the calls of TRACE again, as recorded or on another subject, up to the first broken law.

    Without --subject the recorded answers are judged under the recorded profile; with it, the recorded answers
    are ignored and the subject's own profile is taken. A file may hold several traces, one after the other.

    \b
    Example:
      evictable replay traces/X.jsonl --subject vllm==0.33.0
    """
    from evictable.ci.replay import run_replay

    _known_profile(profile)
    return run_replay(trace, subject, profile)


@cli.command(epilog=_EXIT_CODES)
@click.argument("file", type=click.Path(path_type=Path))
@click.option("--subject", default="impl", show_default=True, help=_SUBJECT_HELP)
@click.option("--capacity", type=click.IntRange(min=1), required=True, metavar="SLOTS")
@click.option("--policy", type=click.Choice(["lru", "arc"]), default="lru", show_default=True)
@_PROFILE
@click.option(
    "--delay",
    type=click.IntRange(min=0),
    default=8,
    show_default=True,
    metavar="REQUESTS",
    help="Requests that begin between a preparation and its completion.",
)
@click.option("--bare", is_flag=True, help="Do not judge: for comparison of speed.")
@click.option(
    "--record",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Write the calls and their answers there, as a trace.",
)
@click.option("--json", "json_path", type=click.Path(path_type=Path), metavar="FILE", help="Write the results there.")
def workload(
    file: Path,
    subject: str,
    capacity: int,
    policy: str,
    profile: str,
    delay: int,
    bare: bool,
    json_path: Path | None,
    record: Path | None,
) -> int:
    """Drive a subject with a request trace (Mooncake format), every call judged.

    \b
    Example:
      evictable workload requests.jsonl --subject vllm==0.24.0 --capacity 20000
    """
    from evictable.ci.workload import run_workload

    _known_profile(profile)
    return run_workload(
        file, subject, capacity, policy, profile, delay, judged=not bare, json_path=json_path, record=record
    )


@cli.command(epilog=_EXIT_CODES)
@click.option("--release", "releases", multiple=True, metavar="X", help="Only these, such as 0.24.0. Default: all.")
@click.option("--policy", type=click.Choice(["lru", "arc", "all"]), default="all", show_default=True)
@click.option(
    "--discipline", type=click.Choice(["contract", "careless", "hostile", "all"]), default="all", show_default=True
)
@click.option(
    "--store-threshold",
    "thresholds",
    type=click.IntRange(min=1),
    multiple=True,
    default=(1, 2),
    show_default=True,
    metavar="N",
)
@click.option(
    "--tiers",
    type=click.IntRange(min=0, max=8),
    multiple=True,
    default=(0, 1, 2),
    show_default=True,
    metavar="N",
    help="Secondary tiers below the manager; with any there is no threshold.",
)
@click.option("--max-time", type=click.FloatRange(min=0, min_open=True), metavar="SECONDS", help="For each cell.")
@click.option("--max-calls", type=click.IntRange(min=1), metavar="N", help="For each cell. Default time: 10 s.")
@click.option("--seed", type=click.IntRange(min=0), default=0, show_default=True)
@click.option(
    "--dir",
    "folder",
    type=click.Path(path_type=Path),
    default=Path("matrix"),
    show_default=True,
    metavar="DIR",
    help="Where finished cells, matrix.json and matrix.md go; a run goes on from what is there.",
)
def matrix(
    releases: tuple[str, ...],
    policy: str,
    discipline: str,
    thresholds: tuple[int, ...],
    tiers: tuple[int, ...],
    max_time: float | None,
    max_calls: int | None,
    seed: int,
    folder: Path,
) -> int:
    """Search every vLLM release, and replay what is found on one on all others.

    \b
    Example:
      evictable matrix --release 0.24.0 --release 0.33.0 --policy lru --max-time 6
    """
    from evictable.ci.matrix import Matrix, MatrixOptions
    from evictable.specs.callers.disciplines import DISCIPLINES
    from evictable.specs.subjects.releases import KNOWN_RELEASES
    from evictable.specs.subjects.vllm import POLICIES

    return Matrix(
        MatrixOptions(
            releases=tuple(dict.fromkeys(releases)) or KNOWN_RELEASES,
            policies=POLICIES if policy == "all" else (policy,),
            disciplines=DISCIPLINES if discipline == "all" else (discipline,),
            thresholds=tuple(dict.fromkeys(thresholds)),
            tiers=tuple(dict.fromkeys(tiers)),
            max_time=10.0 if max_time is None and max_calls is None else max_time,
            max_calls=max_calls,
            seed=seed,
            folder=folder,
            command=shlex.join(["evictable", *sys.argv[1:]]),
        )
    ).run()


@cli.command(epilog=_EXIT_CODES)
@click.argument("subject", default="impl")
@click.option("--full", is_flag=True, help="Larger bounds: half an hour instead of a few minutes.")
@click.option(
    "--engine",
    type=click.Choice(["exhaustive", "z3", "crosshair", "all"]),
    default="all",
    show_default=True,
    help="Every state of a small world; proofs for any number of keys and slots; contracts.",
)
@click.option("--json", "json_path", type=click.Path(path_type=Path), metavar="FILE", help="Write the results there.")
def prove(subject: str, full: bool, engine: str, json_path: Path | None) -> int:
    """Show that the model keeps its laws and that SUBJECT follows it, each theorem with its bound.

    SUBJECT: impl (the default), or what `check` takes. Exit code 1 if a theorem is refuted, 3 if one is undecided.

    \b
    Example:
      evictable prove impl --engine z3
    """
    from evictable.ci.prove import run_prove

    return run_prove(subject, full, None if engine == "all" else engine, json_path)


@cli.command(epilog=_EXIT_CODES)
@click.argument("name", nargs=-1)
@click.option(
    "--engine",
    "engines",
    type=click.Choice(["random", "exhaustive", "z3", "crosshair", "all"]),
    multiple=True,
    default=("random",),
    show_default=True,
    help="May be given several times. A random walk; every call in every state of small worlds; proofs; contracts.",
)
@click.option(
    "--file",
    "path",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Hunt the mutants of a TOML file: [[mutant]] with name, sentence, module, old, new and laws.",
)
@click.option(
    "--max-calls", type=click.IntRange(min=1), metavar="N", help="In a random walk, for each. Default: 200,000."
)
@click.option(
    "--generated",
    is_flag=True,
    help="Hunt every edit that an operator can make of manager, blocks and policies; NAME is then such a module.",
)
@click.option(
    "--subject",
    default="impl",
    show_default=True,
    help="Whose mutants: vllm==0.24.0 and vllm==0.33.0 have some, too, which are put into the live manager.",
)
@click.option("--json", "json_path", type=click.Path(path_type=Path), metavar="FILE", help="Write the results there.")
def mutants(
    name: tuple[str, ...],
    engines: tuple[str, ...],
    path: Path | None,
    max_calls: int | None,
    generated: bool,
    subject: str,
    json_path: Path | None,
) -> int:
    """Does every seeded defect still come to light? Hunt NAME..., by default all of the built-in managers.

    For each mutant and engine: what refutes it, in how many calls, how soon; or why the engine does not speak of
    it. Exit code 1 if one is alive that an engine covers, 3 if no engine covers any. A time-out refutes nothing.

    \b
    Example:
      evictable mutants touch-forwards --engine all
    """
    from evictable.ci.mutants import Options, run_mutants
    from evictable.specs.mutants.hunt import MAX_CALLS

    return run_mutants(Options(name, engines, path, generated, subject, max_calls or MAX_CALLS, json_path))


@cli.command(epilog=_EXIT_CODES)
@click.argument("subject", default="impl")
@click.option("--policy", type=click.Choice(["lru", "arc", "all"]), default="all", show_default=True)
@_PROFILE
@click.option(
    "--lock",
    type=click.Choice(["own", "external", "none"]),
    default="own",
    show_default=True,
    help="Held around each call: the manager's, one of ours, or none.",
)
@click.option(
    "--grain",
    type=click.Choice(["line", "opcode"]),
    help="Where threads switch. Default: line; without a lock opcode.",
)
@click.option(
    "--preemptions", type=click.IntRange(min=0), metavar="N", help="At most. Default: any number; without a lock 2."
)
@click.option(
    "--pair", "pair", multiple=True, metavar="A,B", help="Only these, such as prepare_load,touch. Default: all."
)
@click.option("--outside", multiple=True, metavar="CALL", help="Made without the lock, to see that this is noticed.")
@click.option(
    "--max-time",
    type=click.FloatRange(min=0, min_open=True),
    default=120.0,
    show_default=True,
    metavar="SECONDS",
    help="For each policy, shared out among the pairs; what is cut off twice is inconclusive.",
)
@click.option("--json", "json_path", type=click.Path(path_type=Path), metavar="FILE", help="Write the results there.")
def schedules(
    subject: str,
    policy: str,
    profile: str,
    lock: str,
    grain: str | None,
    preemptions: int | None,
    pair: tuple[str, ...],
    outside: tuple[str, ...],
    max_time: float,
    json_path: Path | None,
) -> int:
    """Interleave every pair of calls of two threads on SUBJECT: is each schedule like some order of the two calls?

    SUBJECT: impl (the default), or what `check` takes.

    \b
    Example:
      evictable schedules --lock none --policy lru --pair prepare_load,prepare_load
    """
    from evictable.ci.schedules import Options, pair_of, run_schedules
    from evictable.specs.schedules.pairs import NAMES
    from evictable.specs.subjects.vllm import POLICIES

    _known_profile(profile)
    for name in outside:
        if name not in NAMES:
            raise UsageError(f"--outside {name}: no call that is paired; known: {', '.join(NAMES)}")
    unlocked = lock == "none" or bool(outside)
    options = Options(
        subject=subject,
        policies=POLICIES if policy == "all" else (policy,),
        profile=profile,
        lock=lock,
        grain=grain or ("opcode" if unlocked else "line"),
        preemptions=2 if preemptions is None and unlocked else preemptions,
        pairs=tuple(map(pair_of, pair)),
        outside=outside,
        max_time=max_time,
    )
    return run_schedules(options, json_path)


@cli.command(epilog=_EXIT_CODES)
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
@click.option("--policy", type=click.Choice(["lru", "arc"]), default="lru", show_default=True)
@_PROFILE
@click.option("--capacity", type=click.IntRange(min=4), default=32, show_default=True, metavar="SLOTS")
@click.option(
    "--lock",
    type=click.Choice(["own", "external"]),
    default="own",
    show_default=True,
    help="Held by whoever calls: the manager's, or one of ours.",
)
@click.option("--no-faults", is_flag=True, help="Nothing raises.")
@click.option("--seed", type=click.IntRange(min=0), default=0, show_default=True)
@click.option("--json", "json_path", type=click.Path(path_type=Path), metavar="FILE", help="Write the results there.")
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

    _known_profile(profile)
    default = "1m" if max_calls is None else None
    wanted = duration or default
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
        max_time=None if wanted is None else seconds_of(wanted),
        max_calls=max_calls,
    )
    return run_soak(options, json_path)


@cli.command(epilog=_EXIT_CODES)
@click.argument("subject", nargs=-1)
@click.option("--for", "duration", metavar="TIME", help="90s, 10m, 8h, earlier runs in DIR included. Default: 10m.")
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
@click.option("--policy", type=click.Choice(["lru", "arc", "all"]), default="all", show_default=True)
@click.option(
    "--discipline", type=click.Choice(["contract", "careless", "hostile", "all"]), default="all", show_default=True
)
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
@_PROFILE
@click.option("--seed", type=click.IntRange(min=0), default=0, show_default=True)
@click.option(
    "--memory", type=click.IntRange(min=0), default=4096, show_default=True, metavar="MIB", help="Of a process; 0: any."
)
@click.option(
    "--expect",
    "expect_path",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Known failures (TOML), as in `check`.",
)
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
    from evictable.ci.fuzz import Campaign, Options, prepared
    from evictable.ci.fuzz_report import serve_metrics
    from evictable.ci.jobs import default_parallel
    from evictable.ci.soak import seconds_of
    from evictable.ci.units import dask_pool, local_pool
    from evictable.specs.callers.disciplines import DISCIPLINES
    from evictable.specs.campaign.places import MANAGER, POLICY, places_of
    from evictable.specs.subjects.vllm import POLICIES

    _known_profile(profile)
    if dask is not None and workers is not None:
        raise UsageError("--workers and --dask do not go together: the cluster has workers of its own")
    if status_only and unit is not None:
        raise UsageError("--status-only and --unit do not go together: give one of them")
    places = places_of(
        subject,
        POLICIES if policy == "all" else (policy,),
        DISCIPLINES if discipline == "all" else (discipline,),
        tuple(dict.fromkeys(tiers)),
        tuple(dict.fromkeys(thresholds)),
        (MANAGER, POLICY) if level == "all" else (level,),
    )
    if subject and not places:
        raise UsageError("--level policy has no hostile callers: leave out --discipline hostile")
    default = "10m" if max_units is None else None
    wanted = duration or default
    options = Options(
        places=prepared(places, lambda line: click.echo(line, err=True)),
        folder=folder,
        max_time=None if wanted is None else seconds_of(wanted),
        max_units=max_units,
        profile=profile,
        seed=seed,
        memory=memory,
        most_calls=unit_calls,
        expectations=() if expect_path is None else read_expectations(expect_path),
        json_path=json_path,
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


@cli.command()
@click.option("--capacity", type=click.IntRange(min=1), metavar="SLOTS", help="If the first line is no head line.")
@click.option("--policy", type=click.Choice(["lru", "arc"]), default="lru", show_default=True, help="Likewise.")
@_PROFILE
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

    _known_profile(profile)
    return run_oracle(None if capacity is None else Head(capacity, policy=policy), profile)


@cli.command()
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


@cli.command(epilog=_EXIT_CODES)
@click.argument("trace", type=click.Path(path_type=Path))
@click.option("--pytest", "as_pytest", is_flag=True, required=True, help="As a test that pytest runs.")
@click.option("--subject", help=f"Whose answers count: {_SUBJECT_HELP}. Default: the recorded ones.")
@click.option("-o", "output", type=click.Path(path_type=Path), metavar="FILE", help="Default: standard output.")
def export(trace: Path, as_pytest: bool, subject: str | None, output: Path | None) -> int:
    """Make a test of the other project out of TRACE: it imports nothing of ours, and fails with the broken law.

    \b
    Example:
      evictable export traces/X.jsonl --pytest -o test_it.py
    """
    from evictable.ci.export import run_export

    return run_export(trace, subject, output)


@cli.command(epilog=_EXIT_CODES)
@click.argument("trace", type=click.Path(path_type=Path))
@click.option("--subject", help=f"{_SUBJECT_HELP}. Default: the recorded one.")
@_PROFILE
@click.option("--law", metavar="ID", help="The law to break. Default: the recorded one, or the first broken.")
@click.option("-o", "--output", type=click.Path(path_type=Path), metavar="FILE", help="Write the shortest trace there.")
def shrink(trace: Path, subject: str | None, profile: str, law: str | None, output: Path | None) -> int:
    """Make a failing TRACE as short as it gets: of a check, a workload or the monitor, also of thousands of calls.

    Every candidate is played on a fresh subject. At the end each call and each key is left out once more, by itself:
    that the law then holds is what "no call and no key can be left out" means.

    \b
    Example:
      evictable shrink traces/X.jsonl -o short.jsonl
    """
    from evictable.ci.shrink import run_shrink

    _known_profile(profile)
    return run_shrink(trace, subject, profile, law, output)


@cli.command(epilog=_EXIT_CODES)
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


@cli.command(epilog=_EXIT_CODES)
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


@cli.command(epilog=_EXIT_CODES)
@click.argument("trace", type=click.Path(path_type=Path))
@click.option("--svg", type=click.Path(path_type=Path), metavar="FILE", help="Write the picture there, for an issue.")
@click.option("--html", type=click.Path(path_type=Path), metavar="FILE", help="Write a page there, to step through.")
@click.option(
    "--last",
    type=click.IntRange(min=1, max=400),
    default=40,
    show_default=True,
    metavar="N",
    help="Calls that are drawn, at most: the last.",
)
@click.option("--subject", help=f"Whose answers to draw: {_SUBJECT_HELP}. Default: the recorded ones.")
@_PROFILE
def show(trace: Path, svg: Path | None, html: Path | None, last: int, subject: str | None, profile: str) -> int:
    """Draw TRACE up to its first broken law: calls down the page, keys across, what is wrong marked.

    In the terminal, or with --svg or --html in a file.

    \b
    Example:
      evictable show traces/X.jsonl --svg picture.svg
    """
    from evictable.ci.show import run_show

    _known_profile(profile)
    return run_show(trace, profile, svg, html, subject=subject, last=last)


@cli.command()
@click.option("--json", "json_path", type=click.Path(path_type=Path), metavar="FILE", help="Write them there instead.")
def laws(json_path: Path | None) -> int:
    """Print every law: its sentence, why it matters, and the real defects that it has caught.

    \b
    Example:
      evictable laws --json laws.json
    """
    from evictable.ci.explain import run_laws

    return run_laws(json_path)


def _laws_and_files(context: click.Context, parameter: click.Parameter, begun: str) -> list[CompletionItem]:
    """What a shell offers for LAW|TRACE."""
    from evictable.model.laws import LAWS

    offered = [CompletionItem(law.id, help=law.sentence) for law in LAWS if law.id.startswith(begun)]
    return offered or [CompletionItem(begun, type="file")]


@cli.command(epilog=_EXIT_CODES)
@click.argument("what", metavar="LAW|TRACE", shell_complete=_laws_and_files)
@click.option("--subject", help=f"Of a trace, whose answers: {_SUBJECT_HELP}. Default: the recorded ones.")
def explain(what: str, subject: str | None) -> int:
    """Say in words what a LAW demands and why; or what happened in a TRACE, call by call, and why the last is wrong.

    \b
    Example:
      evictable explain owner-completes
    """
    from evictable.ci.explain import run_explain

    return run_explain(what, subject)


@cli.command("bench-monitor")
@click.argument("subject", nargs=-1)
@click.option("--policy", type=click.Choice(["lru", "arc", "all"]), default="all", show_default=True)
@click.option("--capacity", type=click.IntRange(min=4096), multiple=True, default=(100_000,), show_default=True)
@click.option("--rounds", type=click.IntRange(min=1), default=9, show_default=True, metavar="N")
@click.option("--json", "json_path", type=click.Path(path_type=Path), metavar="FILE", help="Write the results there.")
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


def _known_profile(profile: str) -> None:
    from evictable.model.profiles import PROFILES

    if profile != "auto" and profile not in PROFILES:
        raise UsageError(f"unknown profile {profile!r}; known: auto, {', '.join(PROFILES)}")


_NO_ROOM = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO, errno.EPIPE)


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line and exit. Bad input is one line on standard error and exit code 2."""
    from evictable.ci.jobs import Inconclusive

    # `timeout` and CI systems end a run so: what was found must not be lost, nor a process be left behind.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        code = cli.main(args=arguments, prog_name="evictable", standalone_mode=False)
    except UsageError as error:
        click.echo(f"evictable: {error}", err=True)
        code = 2
    except Inconclusive as error:
        click.echo(f"evictable: {error}", err=True)
        code = 3
    except LawlessDifference as error:
        click.echo(f"evictable: {error.line}", err=True)
        code = 3
    except click.ClickException as error:
        click.echo(f"evictable: {error.format_message()} (try --help)", err=True)
        code = 2
    except (KeyboardInterrupt, click.Abort):
        click.echo("evictable: interrupted", err=True)
        code = 130
    except Exception as error:
        if isinstance(error, OSError) and error.errno in _NO_ROOM:
            # Standard output cannot be written; nor can it by the interpreter's own last flush.
            sys.stdout = None
            click.echo(f"evictable: the output cannot be written ({error.strerror}); give it another place", err=True)
            code = 2
        else:
            # A fault of this program is no broken law of the subject.
            traceback.print_exc()
            code = 3
    sys.exit(code if isinstance(code, int) else 0)


if __name__ == "__main__":
    main()
