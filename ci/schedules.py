"""`evictable schedules`: two threads on one manager, in every order of their steps up to a bound."""

from __future__ import annotations

import importlib.metadata
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from attrs import define, evolve, field, frozen
from rich.console import Console
from rich.markup import escape
from rich.table import Table
from rich.text import Text

from evictable.ci.files import write_json
from evictable.ci.jobs import CUT_SHORT, INTERRUPTED, run_jobs
from evictable.ci.report import console, show_difference
from evictable.specs import subjects
from evictable.specs.errors import UsageError
from evictable.specs.schedules.baton import OPCODE
from evictable.specs.schedules.pairs import NAMES
from evictable.specs.schedules.search import EXTERNAL, NONE, OWN
from evictable.specs.search import CONFORMS, INCONCLUSIVE, VIOLATES

_STYLE = {CONFORMS: "bold green", VIOLATES: "bold red", INCONCLUSIVE: "bold yellow"}
_WORDS = {CONFORMS: "linearizable", VIOLATES: "not linearizable", INCONCLUSIVE: "inconclusive"}
IN_SEQUENCE = "broken in sequence"
_LOCKS = {OWN: "its own lock around each call", EXTERNAL: "one lock of ours around each call", NONE: "no lock"}


@frozen
class Options:
    """What is asked for."""

    subject: str
    policies: tuple[str, ...]
    profile: str
    lock: str
    grain: str
    preemptions: int | None
    pairs: tuple[tuple[str, str], ...]
    outside: tuple[str, ...]
    max_time: float | None

    @property
    def bound(self) -> str:
        """How far was looked, in words."""
        points = "every instruction that touches shared state" if self.grain == OPCODE else "every line"
        bound = "any number of preemptions" if self.preemptions is None else f"up to {self.preemptions} preemptions"
        outside = f"; without it: {', '.join(self.outside)}" if self.outside else ""
        return f"{_LOCKS[self.lock]}{outside}; switches at {points}, {bound}; C calls count as one step"


@define
class Schedules:
    """One run of the command."""

    options: Options
    out: Console = field(factory=console)
    err: Console = field(factory=lambda: console(stderr=True))
    rows: list[dict[str, Any]] = field(factory=list)
    failures: list[str] = field(factory=list)
    interrupted: bool = False

    def run(self) -> int:
        """Interleave, and show what came of it. Raises `UsageError`."""
        payloads = [self._payload(policy) for policy in self.options.policies]

        def on_record(index: int, record: Mapping[str, Any]) -> None:
            self._take(self.options.policies[index], record)

        try:
            run_jobs(payloads, on_record)
        except KeyboardInterrupt:
            self.interrupted = True
        self._report()
        if self.interrupted:
            self.out.print(CUT_SHORT)
        return self.exit_code

    @property
    def exit_code(self) -> int:
        verdicts = {row["verdict"] for row in self.rows}
        if self.interrupted:
            return INTERRUPTED
        if VIOLATES in verdicts:
            return 1
        return 3 if INCONCLUSIVE in verdicts or self.failures or not self.rows else 0

    def record(self) -> dict[str, Any]:
        return {
            "evictable": importlib.metadata.version("evictable"),
            "subject": self.options.subject,
            "bound": self.options.bound,
            "results": self.rows,
        }

    def _payload(self, policy: str) -> dict[str, Any]:
        options = self.options
        return {
            "job": "schedules",
            "subject": options.subject,
            "policy": policy,
            "profile": options.profile,
            "lock": options.lock,
            "grain": options.grain,
            "preemptions": options.preemptions,
            "pairs": [list(pair) for pair in options.pairs],
            "outside": list(options.outside),
            "max_time": options.max_time,
        }

    def _take(self, policy: str, record: Mapping[str, Any]) -> None:
        kind = record["kind"]
        if kind == "pair":
            row = {"policy": policy} | {name: value for name, value in record.items() if name != "kind"}
            self.rows.append(row)
            told = f"{len(self.rows)}: {policy}, {row['pair']}, {row['cache']}"
            self.err.print(f"{told}: {_words(row)}, {row['schedules']:,} schedules", markup=False)
        elif kind == "error":
            raise UsageError(record["message"])
        elif kind in ("crash", "hang", "unexplained"):
            self.failures.append(f"{policy}: {record['message']}")

    def _report(self) -> None:
        shown: set[str] = set()
        for row in self.rows:
            if row["verdict"] == VIOLATES and row["pair"] not in shown:
                shown.add(row["pair"])
                self._show(row)
        self.out.print()
        self.out.print(_table(self.rows))
        for failure in self.failures:
            self.out.print(f"no verdict on {failure}", markup=False)
        counts = Counter(map(_words, self.rows))
        told = ", ".join(f"{count} {words}" for words, count in counts.items())
        total = sum(row["schedules"] for row in self.rows)
        self.out.print(f"{self.options.subject}: {told or 'nothing'}; {total:,} schedules", markup=False)
        self.out.print(self.options.bound, markup=False)

    def _show(self, row: Mapping[str, Any]) -> None:
        found = row["finding"]
        of = f"{escape(self.options.subject)} {row['policy']}"
        self.out.print()
        self.out.print(f"[bold red]{_words(row)}[/] {escape(row['pair'])} on {of}")
        number, preemptions = found["number"], found["preemptions"]
        self.out.print(f"  schedule {number:,}, {preemptions} preemption{'s' if preemptions != 1 else ''}; before:")
        for call, answer in found["before"]:
            self.out.print(f"    {call}: {answer}", markup=False)
        for step in found["schedule"]:
            self.out.print(f"  {step}", markup=False)
        if found["state"] is not None:
            self.out.print(f"  then ref_cnt {found['state']['ref_cnt']}, evictable {found['state'].get('evictable')}")
        if not found["calls"]:
            self.out.print("  and neither thread can go on")
        for order in found["orders"]:
            self.out.print(f"  thread {order['first']} first is no explanation, see {order['call']}:", markup=False)
            broken = order["broken"][0]
            show_difference(self.out, broken["expected"], broken["observed"], broken["law"])


def _words(row: Mapping[str, Any]) -> str:
    """The verdict. What goes wrong without a preemption is no race: the two calls, one after the other, break a law."""
    if row["verdict"] == VIOLATES and not row["finding"]["preemptions"]:
        return IN_SEQUENCE
    return _WORDS[row["verdict"]]


def _table(rows: Sequence[Mapping[str, Any]]) -> Table:
    table = Table(box=None, padding=(0, 2, 0, 0), header_style="bold")
    for heading in ("policy", "pair", "cache", "verdict"):
        table.add_column(heading, overflow="fold")
    for heading in ("schedules", "points", "histories", "seconds"):
        table.add_column(heading, justify="right", no_wrap=True)
    for row in rows:
        verdict = Text(_words(row), style=_STYLE[row["verdict"]])
        verdict.append(f": {row['problem']}" if row["problem"] else "")
        numbers = (f"{row['schedules']:,}", str(row["points"]), str(row["histories"]), f"{row['seconds']:.2f}")
        table.add_row(row["policy"], row["pair"], row["cache"], verdict, *numbers)
    return table


def pair_of(text: str) -> tuple[str, str]:
    """``A,B`` as two names of calls. Raises `UsageError`."""
    first, _, second = text.partition(",")
    for name in (first, second):
        if name not in NAMES:
            raise UsageError(f"--pair {text}: {name!r} is no call that is paired; known: {', '.join(NAMES)}")
    return first, second


def run_schedules(options: Options, json_path: Path | None) -> int:
    """Run the command and return its exit code. Raises `UsageError`."""
    err = console(stderr=True)
    name = subjects.prepare(options.subject, lambda line: err.print(line, markup=False))
    made = Schedules(evolve(options, subject=name), err=err)
    code = made.run()
    if json_path is not None:
        write_json(json_path, made.record())
    return code
