"""Commands that judge: a search, a trace, a workload, every release, a campaign."""

from __future__ import annotations

import os
import shlex
import sys
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
    SUBJECT_HELP,
    known_profile,
)


@click.command(epilog=EXIT_CODES)
@click.argument("subject", nargs=-1)
@click.option("--policy", type=click.Choice(["lru", "arc", "all"]), default="lru", show_default=True)
@click.option(
    "--discipline",
    type=click.Choice(["contract", "careless", "hostile", "all"]),
    default="contract",
    show_default=True,
    help="What the caller promises: all of the contract; nothing; or all of it, but what the manager calls raises.",
)
@PROFILE
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
@SEED
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
@EXPECT
@click.option(
    "--write-expect",
    "known_path",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Add what breaks to that list, with its traces, to begin from or, with the same --expect, to go on.",
)
@BASELINE
@JSON
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
    known_path: Path | None,
    baseline: str | None,
    json_path: Path | None,
    html_path: Path | None,
    trace_dir: Path,
    junit_path: Path | None,
    summary_path: Path | None,
    host: str | None,
) -> int:
    """Search SUBJECT... for broken laws and show the shortest calls found that break each.

    SUBJECT: impl (the built-in manager, the default), impl:linked (the faster one), vllm (as installed), vllm==0.33.0
    (a published release, fetched once), vllm:PATH (a source checkout), package.module:Name (a manager factory or a
    cache policy class), stdio:COMMAND (any language) or mutant:NAME (ours with a seeded defect).

    \b
    Example:
      evictable check vllm==0.33.0 --discipline careless --html report.html
    """
    from evictable.ci.check import Check, CheckOptions
    from evictable.ci.expectations import read_expectations, refuse_another_list
    from evictable.ci.github import on_github
    from evictable.ci.levels import disciplines_at, engines_at, refuse_combinations
    from evictable.specs.subjects import hosted
    from evictable.specs.subjects.vllm import POLICIES

    known_profile(profile)
    if host is not None:
        subject = tuple(hosted(name, host) for name in subject or ("impl",))
    disciplines = disciplines_at(level) if discipline == "all" else (discipline,)
    refuse_combinations(
        level=level,
        disciplines=disciplines,
        engine=engine,
        tiers=tiers,
        store_threshold=store_threshold,
        max_tracker_size=max_tracker_size,
        expects=expect_path is not None or known_path is not None,
        baseline=baseline,
        host=host,
    )
    refuse_another_list(known_path, expect_path)
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
            known_path=known_path,
            baseline=baseline,
            trace_dir=trace_dir,
            junit_path=junit_path,
            summary_path=summary_path,
            annotate=on_github(os.environ),
        )
    ).run()


@click.command(epilog=EXIT_CODES)
@click.argument("trace", type=click.Path(path_type=Path))
@click.option("--subject", help=f"Drive {SUBJECT_HELP} with the calls. Default: judge the recorded answers.")
@PROFILE
def replay(trace: Path, subject: str | None, profile: str) -> int:
    """Judge the calls of TRACE again, as recorded or on another subject, up to the first broken law.

    Without --subject the recorded answers are judged under the recorded profile; with it, the recorded answers
    are ignored and the subject's own profile is taken. A file may hold several traces, one after the other.

    \b
    Example:
      evictable replay traces/X.jsonl --subject vllm==0.33.0
    """
    from evictable.ci.replay import run_replay

    known_profile(profile)
    return run_replay(trace, subject, profile)


@click.command(epilog=EXIT_CODES)
@click.argument("file", type=click.Path(path_type=Path))
@click.option("--subject", default="impl", show_default=True, help=SUBJECT_HELP)
@click.option("--capacity", type=click.IntRange(min=1), required=True, metavar="SLOTS")
@POLICY
@PROFILE
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
@JSON
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

    known_profile(profile)
    return run_workload(
        file, subject, capacity, policy, profile, delay, judged=not bare, json_path=json_path, record=record
    )


@click.command(epilog=EXIT_CODES)
@click.option("--release", "releases", multiple=True, metavar="X", help="Only these, such as 0.24.0. Default: all.")
@EVERY_POLICY
@EVERY_DISCIPLINE
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
@SEED
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
