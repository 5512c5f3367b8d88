"""`evictable golden`: small worlds from end to end, as data for other languages."""

from __future__ import annotations

from pathlib import Path

from evictable.ci.files import write_text
from evictable.ci.report import console
from evictable.specs.golden.files import SCOPES, make, readme


def run_golden(folder: Path) -> int:
    """Write a file for each profile and the page about them. Raises `UsageError`."""
    out = console()
    made = []
    for profile in SCOPES:
        made.append(golden := make(profile))
        path = folder / f"{profile}.jsonl"
        write_text(path, golden.lines)
        counts = f"{golden.num_traces:,} traces, {golden.num_calls:,} calls, {golden.size:,} bytes"
        out.print(f"{path}: {counts}", markup=False)
    write_text(folder / "README.md", readme(made).splitlines())
    return 0
