"""`evictable shrink`: a failing trace made as short as it gets."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import nullcontext
from pathlib import Path
from typing import Any

from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

from evictable.ci.jobs import run_job
from evictable.ci.report import console, count_calls, show_broken, show_trace
from evictable.model.laws import LAW_BY_ID
from evictable.model.trace import Stream, read
from evictable.specs import subjects
from evictable.specs.errors import UsageError
from evictable.specs.long_jobs import opened


def run_shrink(path: Path, subject: str | None, profile: str, law: str | None, output: Path | None) -> int:
    """Print the shortest trace found and write it; 1 if there is one, 0 if no law is broken. Raises `UsageError`."""
    if law is not None and law not in LAW_BY_ID:
        raise UsageError(f"unknown law {law!r}; known: {', '.join(LAW_BY_ID)}")
    with opened(path) as lines:
        recorded = Stream.of(lines).head.subject
    err, out = console(stderr=True), console()
    name = subjects.prepare(subject or recorded, lambda line: err.print(line, markup=False))
    payload = {"job": "shrink", "subject": name, "file": str(path), "profile": profile, "law": law}
    progress = Progress(
        SpinnerColumn(),
        TextColumn("{task.description}: {task.fields[tries]:,} candidates"),
        TimeElapsedColumn(),
        console=err,
        transient=True,
    )
    bar = progress.add_task(name, total=None, tries=0)

    def on_progress(record: Mapping[str, Any]) -> None:
        progress.update(bar, tries=record["tries"])

    with progress if err.is_terminal else nullcontext():
        result = run_job(payload, on_progress)
    if result["cut"] is not None:
        err.print(f"{path}: line {result['cut']} is cut off and left out", markup=False)
    if result["trace"] is None:
        out.print(f"{count_calls(result['calls'])} break no law on {name}: nothing to shrink", markup=False)
        return 0
    trace = read(result["trace"])
    show_trace(out, trace)
    show_broken(out, result["broken"])
    out.print(
        f"{count_calls(result['calls'])} shrunk to {len(trace.entries)} on {name} in {result['seconds']:.1f} s: "
        f"{result['tries']:,} candidates, {count_calls(result['played'])}; "
        + (
            "no call and no key can be left out"
            if result["minimal"]
            else "stopped at the limit, not known to be minimal"
        ),
        markup=False,
    )
    if output is not None:
        try:
            output.write_text(
                "".join(f"{line}\n" for line in result["trace"]), encoding="utf-8", errors="backslashreplace"
            )
        except OSError as error:
            raise UsageError(f"{output}: cannot be written ({error.strerror}); give another -o") from error
        out.print(f"written to {output}", markup=False)
    return 1
