"""`evictable soak`: several threads on one manager for as long as is wanted."""

from __future__ import annotations

import importlib.metadata
import re
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from attrs import asdict, frozen
from rich.console import Console

from evictable.ci.files import write_json
from evictable.ci.jobs import INTERRUPTED, run_job
from evictable.ci.report import console, show_broken
from evictable.specs import subjects
from evictable.specs.errors import UsageError
from evictable.specs.jobs import Pace
from evictable.specs.search import INCONCLUSIVE, VIOLATES

LINE_EVERY = 5.0
"""Seconds between two lines of progress."""
_UNITS = {"": 1, "s": 1, "m": 60, "h": 3600}


@frozen
class Options:
    """What is asked for."""

    subject: str
    policy: str
    profile: str
    threads: int
    tiers: int
    capacity: int
    lock: str
    faults: bool
    seed: int
    max_time: float | None
    max_calls: int | None


def seconds_of(text: str | None, default: str | None = None) -> float | None:
    """``90``, ``90s``, ``10m`` or ``1h`` in seconds; ``None``: without end. Raises `UsageError`."""
    text = default if text is None else text
    if text is None:
        return None
    found = re.fullmatch(r"(\d+(?:\.\d+)?)([smh]?)", text)
    if found is None or not float(found[1]):
        raise UsageError(f"--for {text}: give a time such as 90s, 10m or 1h")
    return float(found[1]) * _UNITS[found[2]]


def run_soak(options: Options, json_path: Path | None) -> int:
    """Run the command and return its exit code. Raises `UsageError` and `Inconclusive`."""
    err, out = console(stderr=True), console()
    name = subjects.prepare(options.subject, lambda line: err.print(line, markup=False))
    pace = Pace(LINE_EVERY, last=time.monotonic())
    last: Mapping[str, Any] = {}

    def on_progress(record: Mapping[str, Any]) -> None:
        nonlocal last
        last = record
        if pace.is_due():
            err.print(_line(record), markup=False)

    payload = asdict(options) | {"job": "soak", "subject": name}
    try:
        result = run_job(payload, on_progress)
    except KeyboardInterrupt:
        out.print(_line(last) if last else "nothing was called yet", markup=False)
        out.print("interrupted: the cache did not come to rest, and there is no verdict")
        return INTERRUPTED
    _report(out, name, options, result)
    if json_path is not None:
        row = asdict(options) | {"subject": name} | {key: value for key, value in result.items() if key != "kind"}
        write_json(json_path, {"evictable": importlib.metadata.version("evictable"), "results": [row]})
    return {VIOLATES: 1, INCONCLUSIVE: 3}.get(result["verdict"], 0)


def _line(record: Mapping[str, Any]) -> str:
    blocks, resident = record["memory"]
    memory = f", {blocks:,} blocks, {resident / 2**20:.1f} MiB" if blocks else ""
    return (
        f"{record['seconds']:7.1f} s  {record['calls']:,} calls, {record['requests']:,} requests, "
        f"{record['faults']:,} faults, {record['rests']:,} rests{memory}"
    )


def _report(out: Console, name: str, options: Options, result: Mapping[str, Any]) -> None:
    if result["broken"]:
        for thread, call, answer in result["last"]:
            out.print(f"  {thread:6} {call}: {answer}", markup=False)
        show_broken(out, result["broken"])
    tiers = f", {options.tiers} tiers with a thread of their own ({result['jobs']:,} deeds)" if options.tiers else ""
    shares = ", ".join(f"{calls:,}" for calls in result["threads"])
    out.print(f"{name} {options.policy}, {options.capacity} slots{tiers}: calls of the threads: {shares}", markup=False)
    out.print(_line(result).strip(), markup=False)
    if result["constant"] is not None:
        out.print(f"memory {'constant' if result['constant'] else 'grows'}: {result['growth']}", markup=False)
    ending = "everything completed, a store of all slots made" if result["came_to_rest"] else "not at rest"
    out.print(f"in the end: {ending}", markup=False)
    told = result["verdict"] == INCONCLUSIVE or result["crowded"]
    problem = f": {result['problem']}" if told else ""
    out.print(f"{result['verdict']}{problem}", markup=False)
