"""`evictable replay` of a trace at policy level."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from evictable.ci.jobs import run_job
from evictable.ci.report import console, count_calls, show_broken, show_trace
from evictable.model.policy_trace import PolicyTrace, is_policy_trace, read_policy_trace, write_policy_trace
from evictable.model.profiles import PROFILES
from evictable.model.trace import TraceError
from evictable.specs import subjects
from evictable.specs.errors import UsageError


def is_policy_level(path: Path) -> bool:
    """Whether the file holds such a trace. What cannot be read is none: the reader of traces says why."""
    try:
        with path.open(encoding="utf-8") as lines:
            return is_policy_trace(next((line for line in lines if line.strip()), ""))
    except (OSError, UnicodeDecodeError):
        return False


def replay_policy(path: Path, subject: str | None, profile: str) -> int:
    """Print the calls and what they break; 1 if they break a law, else 0. Raises `UsageError` and `Inconclusive`."""
    try:
        trace = read_policy_trace(path.read_text(encoding="utf-8").splitlines())
    except TraceError as error:
        raise UsageError(f"{path}: {error}") from error
    if not trace.entries:
        raise UsageError(f"{path}: holds no call; a trace has a head line and one line for each call")
    try:
        broken, trace = _as_recorded(trace, profile) if subject is None else _on(subject, trace, profile)
    except UsageError as error:
        raise UsageError(f"{path}: {error}") from error
    out = console()
    show_trace(out, trace)
    show_broken(out, broken)
    if not broken:
        out.print(f"{count_calls(len(trace.entries))} conform{'s' * (len(trace.entries) == 1)}", markup=False)
    return 1 if broken else 0


def _as_recorded(trace: PolicyTrace, profile: str) -> tuple[list[Mapping[str, Any]], PolicyTrace]:
    from evictable.specs.policy_level.jobs import broken_record, judge_recorded

    wanted = trace.head.profile if profile == "auto" else profile
    if wanted not in PROFILES:
        raise UsageError(f"unknown profile {wanted!r}; name one with --profile: {', '.join(PROFILES)}")
    breach = judge_recorded(trace, wanted)
    return [] if breach is None else [broken_record(breach)], trace


def _on(subject: str, trace: PolicyTrace, profile: str) -> tuple[list[Mapping[str, Any]], PolicyTrace]:
    name = subjects.prepare(subject, lambda line: console(stderr=True).print(line, markup=False))
    played = run_job(
        {"job": "replay-policy", "subject": name, "profile": profile, "trace": list(write_policy_trace(trace))}
    )
    return list(played["broken"]), read_policy_trace(played["trace"])
