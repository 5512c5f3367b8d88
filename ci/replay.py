"""`evictable replay`: the calls of a trace, judged again."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from attrs import evolve

from evictable.ci.expectations import read_trace
from evictable.ci.jobs import run_job
from evictable.ci.replay_policy import is_policy_level, replay_policy
from evictable.ci.report import console, count_calls, show_broken, show_trace
from evictable.model.profiles import DEFAULT_ORDER, PROFILES
from evictable.model.trace import Trace, read, write
from evictable.specs import subjects
from evictable.specs.counterexamples import judge_recorded, setup_of
from evictable.specs.errors import UsageError
from evictable.specs.records import broken_record


def run_replay(path: Path, subject: str | None, profile: str) -> int:
    """Print the calls and what they break; 1 if they break a law, else 0. Raises `UsageError` and `Inconclusive`."""
    if is_policy_level(path):
        return replay_policy(path, subject, profile)
    trace = read_trace(path)
    if not trace.entries:
        raise UsageError(f"{path}: holds no call; a trace has a head line and one line for each call")
    try:
        setup_of(trace.head)
    except UsageError as error:
        raise UsageError(f"{path}: {error}") from error
    out = console()
    if subject is None:
        broken, trace = _as_recorded(path, trace, profile)
    else:
        broken, trace = _on(subject, trace, profile)
    show_trace(out, trace)
    show_broken(out, broken)
    if not broken:
        out.print(f"{count_calls(len(trace.entries))} conform{'s' * (len(trace.entries) == 1)}", markup=False)
    return 1 if broken else 0


def _as_recorded(path: Path, trace: Trace, profile: str) -> tuple[list[Mapping[str, Any]], Trace]:
    wanted = trace.head.profile if profile == "auto" else profile
    if wanted == "auto":
        wanted = DEFAULT_ORDER if trace.head.policy == "lru" else "any"
    if wanted not in PROFILES:
        raise UsageError(f"{path}: unknown profile {wanted!r}; name one with --profile: {', '.join(PROFILES)}")
    try:
        broken = judge_recorded(trace, wanted)
    except UsageError as error:
        raise UsageError(f"{path}: {error}") from error
    return [broken_record(one) for one in broken], evolve(trace, head=evolve(trace.head, profile=wanted))


def _on(subject: str, trace: Trace, profile: str) -> tuple[list[Mapping[str, Any]], Trace]:
    name = subjects.prepare(subject, lambda line: console(stderr=True).print(line, markup=False))
    (played,) = run_job({"job": "replay", "subject": name, "profile": profile, "traces": [list(write(trace))]})[
        "replays"
    ]
    return list(played["broken"]), read(played["trace"])
