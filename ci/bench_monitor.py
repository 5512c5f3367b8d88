"""`evictable bench-monitor`: what the monitor costs, against the bare manager in the same run."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from rich.table import Table

from evictable.ci.files import write_json
from evictable.ci.jobs import run_job
from evictable.ci.report import console
from evictable.specs import subjects
from evictable.specs.monitor import LEVELS

BATCHES = (2, 32, 512)


def run_bench_monitor(
    subject: Sequence[str], policies: Sequence[str], capacities: Sequence[int], rounds: int, json_path: Path | None
) -> int:
    """Print a table; 0. Raises `UsageError` and `Inconclusive`."""
    out, err = console(), console(stderr=True)
    rows = []
    for name in subject:
        prepared = subjects.prepare(name, lambda line: err.print(line, markup=False))
        for policy in policies:
            for capacity in capacities:
                payload = {
                    "job": "bench-monitor",
                    "subject": prepared,
                    "policy": policy,
                    "capacity": capacity,
                    "batches": BATCHES,
                    "rounds": rounds,
                }
                rows += run_job(payload)["rows"]
    table = Table(box=None, padding=(0, 2, 0, 0), header_style="dim")
    for heading in ("subject", "policy", "slots", "keys a request", "bare", *LEVELS):
        table.add_column(heading, justify="left" if heading in ("subject", "policy") else "right")
    for row in rows:
        ratios = [f"{row['ratios'][level]:.2f}" for level in LEVELS]
        bare = f"{row['microseconds']['bare']:.1f} us"
        table.add_row(row["subject"], row["policy"], f"{row['capacity']:,}", str(row["batch"]), bare, *ratios)
    out.print(table)
    out.print(f"Process time to that of the bare manager, median of {rounds} rounds in one process.", markup=False)
    if json_path is not None:
        write_json(json_path, {"results": rows})
    return 0
