"""`evictable workload`: a production request trace, every call judged."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from contextlib import nullcontext
from pathlib import Path
from typing import Any

from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from evictable.ci.files import write_json
from evictable.ci.jobs import run_job
from evictable.ci.report import console, show_broken
from evictable.specs import subjects
from evictable.specs.errors import UsageError


def run_workload(
    path: Path,
    subject: str,
    capacity: int,
    policy: str,
    profile: str,
    delay: int,
    *,
    judged: bool,
    json_path: Path | None,
    record: Path | None = None,
) -> int:
    """Drive, print the figures and the verdict; 1 if a law is broken, else 0.

    Raises `UsageError` and `Inconclusive`.
    """
    total = _count_requests(path)
    err = console(stderr=True)
    name = subjects.prepare(subject, lambda line: err.print(line, markup=False))
    payload = {
        "job": "workload",
        "file": str(path),
        "subject": name,
        "capacity": capacity,
        "policy": policy,
        "profile": profile,
        "delay": delay,
        "judged": judged,
        "record": None if record is None else str(record),
    }
    progress = Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("requests, {task.fields[calls]:,} calls"),
        TimeElapsedColumn(),
        console=err,
        transient=True,
    )
    bar = progress.add_task(name, total=total, calls=0)

    def on_progress(record: Mapping[str, Any]) -> None:
        progress.update(bar, completed=record["requests"], calls=record["calls"])

    if not err.is_terminal:
        err.print(f"{name}: {total:,} requests, capacity {capacity:,}", markup=False)
    with progress if err.is_terminal else nullcontext():
        result = run_job(payload, on_progress)
    if record is not None:
        err.print(f"{name}: the calls are in {record}", markup=False)
    code = _report(name, capacity, policy, result, judged=judged, json_path=json_path)
    if result["broken"]:
        _show_way_on(payload, record)
    return code


def _show_way_on(payload: Mapping[str, Any], record: Path | None) -> None:
    """How to get from a broken law to a few calls that break it."""
    asked = [] if payload["profile"] == "auto" else ["--profile", payload["profile"]]
    if record is None:
        words = ["evictable", "workload", payload["file"], "--subject", payload["subject"]]
        words += ["--capacity", str(payload["capacity"]), "--policy", payload["policy"], *asked]
        words += ["--delay", str(payload["delay"]), "--record", "recorded.jsonl"]
        console().print(f"  record    {shlex.join(words)}", markup=False, soft_wrap=True)
    shrunk = ["evictable", "shrink", str(record or "recorded.jsonl"), *asked, "-o", "short.jsonl"]
    console().print(f"  shrink    {shlex.join(shrunk)}", markup=False, soft_wrap=True)


def _report(
    name: str, capacity: int, policy: str, result: Mapping[str, Any], *, judged: bool, json_path: Path | None
) -> int:
    out = console()
    broken = result["broken"]
    verdict = "violates" if broken else "conforms" if judged else "not judged"
    rate = result["calls"] / result["seconds"] if result["seconds"] else 0.0
    out.print(
        f"{name}, {policy}, profile {result['profile']}, capacity {capacity:,}: {result['requests']:,} requests, "
        f"{result['calls']:,} calls in {result['seconds']:.1f} s ({rate:,.0f} calls/s)",
        markup=False,
    )
    out.print(
        f"hit rate {result['hit_rate']:.4f}, stored {result['stored']:,}, evicted {result['evicted']:,}, "
        f"refusals {result['refusals']:,}: {verdict}",
        markup=False,
    )
    if broken:
        out.print(f"at call {result['calls']:,}: {result['broken_at']}", markup=False)
        show_broken(out, broken)
    code = 1 if broken else 0
    if json_path is not None:
        row = {"subject": name, "policy": policy, "capacity": capacity, "verdict": verdict, "calls_per_second": rate}
        row |= {key: value for key, value in result.items() if key != "kind"}
        try:
            write_json(json_path, {"results": [row]})
        except UsageError as error:
            console(stderr=True).print(f"evictable: {error}", markup=False)
            code = code or 2
    return code


def _count_requests(path: Path) -> int:
    try:
        with path.open("rb") as file:
            return sum(1 for line in file if line.strip())
    except OSError as error:
        raise UsageError(
            f"{path}: cannot be read ({error.strerror}); give a request trace in the Mooncake format"
        ) from error
