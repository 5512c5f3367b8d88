"""`evictable prove`: what is shown of a subject, by which engine, and up to which bound."""

from __future__ import annotations

import importlib.metadata
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from attrs import define, field
from rich.console import Console
from rich.markup import escape
from rich.table import Table
from rich.text import Text

from evictable.ci.files import write_json
from evictable.ci.jobs import CUT_SHORT, INTERRUPTED, run_jobs
from evictable.ci.report import console
from evictable.specs import subjects
from evictable.specs.errors import UsageError
from evictable.specs.prove import engines_of
from evictable.specs.theorems import INCONCLUSIVE, REFUTED

SHOWN, REFUTED_CODE, UNDECIDED = 0, 1, 3
SILENCE = 1800.0
"""Seconds that one theorem may take: a solver says nothing while it works."""

_STYLE = {REFUTED: "bold red", INCONCLUSIVE: "bold yellow"}


@define
class Row:
    """A theorem, and what came of it. Without a verdict it is undecided."""

    theorem: str
    sentence: str
    engine: str
    bound: str
    verdict: str = INCONCLUSIVE
    seconds: float = 0.0
    detail: str = "the engine did not come to it"
    decided: bool = False

    def take(self, result: Mapping[str, Any]) -> None:
        self.verdict, self.seconds, self.detail = result["verdict"], result["seconds"], result["detail"]
        self.decided = True

    def record(self) -> dict[str, Any]:
        return {
            "theorem": self.theorem,
            "sentence": self.sentence,
            "engine": self.engine,
            "bound": self.bound,
            "verdict": self.verdict,
            "seconds": round(self.seconds, 3),
            "detail": self.detail,
        }


@define
class Proof:
    """One run of the command."""

    subject: str
    full: bool
    engines: tuple[str, ...]
    out: Console = field(factory=console)
    err: Console = field(factory=lambda: console(stderr=True))
    rows: dict[tuple[str, str], Row] = field(factory=dict)
    failures: list[str] = field(factory=list)
    interrupted: bool = False

    def run(self) -> int:
        """Let every engine work, and show what came of it. Raises `UsageError`."""
        payloads = [
            {"job": "prove", "subject": self.subject, "engine": engine, "full": self.full} for engine in self.engines
        ]
        started = time.monotonic()

        def on_record(index: int, record: Mapping[str, Any]) -> None:
            self._take(self.engines[index], record, time.monotonic() - started)

        try:
            run_jobs(payloads, on_record, silence=SILENCE)
        except KeyboardInterrupt:
            self.interrupted = True
        self._report(time.monotonic() - started)
        if self.interrupted:
            self.out.print(CUT_SHORT)
        return self.exit_code

    @property
    def exit_code(self) -> int:
        verdicts = {row.verdict for row in self.rows.values()}
        if self.interrupted:
            return INTERRUPTED
        if REFUTED in verdicts:
            return REFUTED_CODE
        return UNDECIDED if INCONCLUSIVE in verdicts or self.failures or not self.rows else SHOWN

    def record(self) -> dict[str, Any]:
        return {
            "evictable": importlib.metadata.version("evictable"),
            "subject": self.subject,
            "full": self.full,
            "results": [row.record() for row in self.rows.values()],
        }

    def _take(self, engine: str, record: Mapping[str, Any], seconds: float) -> None:
        kind = record["kind"]
        if kind == "theorems":
            for one in record["theorems"]:
                self.rows[engine, one["name"]] = Row(one["name"], one["sentence"], one["engine"], one["bound"])
        elif kind == "theorem":
            result = record["result"]
            theorem = result["theorem"]
            row = Row(theorem["name"], theorem["sentence"], theorem["engine"], theorem["bound"])
            row.take(result)
            self.rows[engine, row.theorem] = row
            done = sum(one.decided for one in self.rows.values())
            self._say(f"{seconds:6.1f} s  {done} of {len(self.rows)}  {row.engine}: {row.theorem}: {row.verdict}")
        elif kind == "error":
            raise UsageError(record["message"])
        elif kind in ("crash", "hang", "unexplained"):
            self.failures.append(f"{engine}: {record['message']}")

    def _report(self, seconds: float) -> None:
        for row in self.rows.values():
            if row.verdict in _STYLE:
                self.out.print()
                self.out.print(f"[{_STYLE[row.verdict]}]{row.verdict}[/] {row.theorem}: {escape(row.sentence)}")
                self.out.print(f"  {row.engine}, {escape(row.bound)}")
                for line in row.detail.splitlines():
                    self.out.print(f"  {line}", markup=False)
        self.out.print()
        self.out.print(self._table())
        for failure in self.failures:
            self.out.print(f"no verdict from {failure}", markup=False)
        counts: dict[str, int] = {}
        for row in self.rows.values():
            counts[row.verdict] = counts.get(row.verdict, 0) + 1
        told = ", ".join(f"{count} {verdict}" for verdict, count in counts.items())
        self.out.print(f"{self.subject}: {told or 'nothing shown'}, in {seconds:.0f} s", markup=False)

    def _table(self) -> Table:
        table = Table(box=None, padding=(0, 2, 0, 0), header_style="bold")
        for heading in ("theorem", "engine", "bound", "verdict"):
            table.add_column(heading, overflow="fold")
        table.add_column("seconds", justify="right", no_wrap=True)
        for row in self.rows.values():
            table.add_row(
                row.theorem,
                row.engine,
                escape(row.bound),
                Text(row.verdict, style=_STYLE.get(row.verdict, "bold green")),
                f"{row.seconds:.1f}",
            )
        return table

    def _say(self, line: str) -> None:
        self.err.print(line, markup=False)


def run_prove(subject: str, full: bool, engine: str | None, json_path: Path | None) -> int:
    """Run the command and return its exit code. Raises `UsageError`."""
    err = console(stderr=True)
    name = subjects.prepare(subject, lambda line: err.print(line, markup=False))
    engines = engines_of(name) if engine is None else (engine,)
    if engine is not None and engine not in engines_of(name):
        raise UsageError(f"the engine {engine} says nothing of {name}; it can be asked of impl")
    proof = Proof(name, full, engines, err=err)
    code = proof.run()
    if json_path is not None:
        write_json(json_path, proof.record())
    return code
