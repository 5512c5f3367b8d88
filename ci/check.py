"""`evictable check`: subjects x policies x disciplines, searched for broken laws."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from attrs import define, field, frozen
from rich.console import Console
from rich.live import Live
from rich.table import Table

from evictable.ci.cells import Cell, Violation, cell_name
from evictable.ci.expectations import Expectation, add_expectations, replay_expectations, told_of_stale
from evictable.ci.files import append_text, file_name, write_json, write_text
from evictable.ci.github import annotated, markdown
from evictable.ci.jobs import CUT_SHORT, INTERRUPTED, run_jobs
from evictable.ci.junit import junit_xml
from evictable.ci.levels import MANAGER, POLICY
from evictable.ci.report import Asked, console, count_calls, show_cells, show_violations
from evictable.specs import subjects
from evictable.specs.errors import UsageError

CONFORMS, BROKEN, UNUSABLE, INCONCLUSIVE = 0, 1, 2, 3


@frozen
class CheckOptions:
    """What to check and how long. ``max_time`` is in seconds, for each cell; so is ``max_calls``."""

    subjects: tuple[str, ...]
    policies: tuple[str, ...]
    disciplines: tuple[str, ...]
    profile: str
    engines: tuple[str, ...]
    max_time: float | None
    max_calls: int | None
    seed: int
    capacity: int | None
    store_threshold: int
    max_tracker_size: int | None
    tiers: int
    expectations: tuple[Expectation, ...]
    json_path: Path | None
    trace_dir: Path
    level: str = MANAGER
    junit_path: Path | None = None
    summary_path: Path | None = None
    """A file that gets Markdown added to it."""
    annotate: bool = False
    """Tell GitHub Actions of failures, too."""
    html_path: Path | None = None
    known_path: Path | None = None
    """A list of known failures that gets those added to it that it does not have."""
    baseline: str | None = None
    """A subject: what it breaks by the same calls is expected."""


@define
class Check:
    """One run of the command. `cells` and `stale` hold what came of it, also after an interruption."""

    options: CheckOptions
    out: Console = field(factory=console)
    err: Console = field(factory=lambda: console(stderr=True))
    cells: list[Cell] = field(factory=list)
    stale: list[Expectation] = field(factory=list)
    unwritten: list[str] = field(factory=list)
    interrupted: bool = False
    baseline: str | None = None

    def run(self) -> int:
        """Search every cell, report, and return the exit code.

        Raises `UsageError` and `Inconclusive`, both before anything was searched.
        """
        names = [subjects.prepare(name, self._say) for name in dict.fromkeys(self.options.subjects)]
        if self.options.baseline is not None:
            self.baseline = subjects.prepare(self.options.baseline, self._say)
        self.cells = [
            Cell(name, policy, discipline, self.options.profile, self.options.tiers, self.options.level)
            for name in names
            for policy in self.options.policies
            for discipline in self.options.disciplines
        ]
        try:
            self._replay_expectations()
            self._search()
        except KeyboardInterrupt:
            self.interrupted = True
        # Files first: they are complete even if nobody reads the report to its end.
        self._write_traces()
        self._write_results()
        self._report()
        return self.exit_code

    @property
    def exit_code(self) -> int:
        if self.interrupted:
            return INTERRUPTED
        if any(cell.unexpected for cell in self.cells):
            return BROKEN
        if self.unwritten or any(cell.unusable for cell in self.cells):
            return UNUSABLE
        judged = [cell for cell in self.cells if not cell.left_out]
        if (
            any(one.strict for one in self.stale)
            or not judged
            or any(not cell.conforms and not cell.violations for cell in judged)
        ):
            return INCONCLUSIVE
        return CONFORMS

    def record(self) -> dict[str, Any]:
        import importlib.metadata  # a fifth of the time that the command takes to start

        return {
            "evictable": importlib.metadata.version("evictable"),
            "seed": self.options.seed,
            "results": [cell.record() for cell in self.cells if not cell.left_out],
        }

    @property
    def _asked(self) -> Asked:
        return Asked(self.options.profile, self.options.seed, self.baseline)

    # --- the parts of a run ---

    def _replay_expectations(self) -> None:
        here = {cell.key for cell in self.cells}
        known = [one for one in self.options.expectations if one.cell in here]
        others = Counter(cell_name(*one.cell) for one in self.options.expectations if one.cell not in here)
        if others:
            named = ", ".join(f"{name} ({number})" for name, number in others.items())
            self._say(f"expected failures that are not checked here: {named}")
        replay_expectations(known, self.options.profile, self.stale.append)

    def _search(self) -> None:
        options = self.options
        payloads = [
            {
                "job": "check-policy" if options.level == POLICY else "check",
                "subject": cell.subject,
                "policy": cell.policy,
                "discipline": cell.discipline,
                "profile": options.profile,
                "engines": list(options.engines),
                "max_time": options.max_time,
                "max_calls": options.max_calls,
                "seed": options.seed,
                "capacity": options.capacity,
                "store_threshold": options.store_threshold,
                "max_tracker_size": options.max_tracker_size,
                "tiers": options.tiers,
                "baseline": self.baseline,
                "all_disciplines": len(options.disciplines) > 1,
            }
            for cell in self.cells
        ]
        expected = {
            (*one.cell, one.law, one.fault): one.reason for one in options.expectations if one not in self.stale
        }
        live = Live(console=self.err, refresh_per_second=4, transient=True) if self.err.is_terminal else None

        def on_record(index: int, record: Mapping[str, Any]) -> None:
            cell = self.cells[index]
            violation = cell.take(record)
            if violation is not None:
                violation.reason = violation.reason or expected.get((*cell.key, violation.law, violation.fault))
            if live is None:
                self._log(cell, record)

        def show() -> None:
            if live is not None:
                live.update(_progress(self.cells))

        if live is None:
            run_jobs(payloads, on_record)
        else:
            with live:
                run_jobs(payloads, on_record, idle=show)

    def _log(self, cell: Cell, record: Mapping[str, Any]) -> None:
        if record["kind"] == "loaded":
            self._say(f"{cell.name}: searching")
        elif record["kind"] == "finding":
            found = Violation.of(record)
            self._say(f"{cell.name}: {found.id} broken, shortest so far: {count_calls(found.calls)}")
        elif record["kind"] == "reached":
            self._say(
                f"{cell.name}: {record['law']} reached by scheduler steps: {count_calls(len(record['trace']) - 1)}"
            )
        elif record["kind"] in ("result", "crash", "hang", "unexplained"):
            self._say(f"{cell.name}: {cell.problem or cell.told}, {cell.steps:,} calls in {cell.seconds:.1f} s")

    def _write_traces(self) -> None:
        for cell in self.cells:
            found = [(violation.id, violation) for violation in cell.violations.values()]
            found += [(f"{violation.law}-scheduler", violation) for violation in cell.reached.values()]
            for name, violation in found:
                path = self._path(cell, name)
                if self._try_writing(lambda path, lines=violation.lines: write_text(path, lines), path):
                    violation.path = path
            if cell.hung is not None:
                path = self._path(cell, cell.ended_as)
                if self._try_writing(lambda path, lines=cell.hung: write_text(path, lines), path):
                    cell.problem = f"{cell.problem}; the calls are in {path}"

    def _write_results(self) -> None:
        options = self.options
        asked = self._asked
        if options.json_path is not None:
            self._try_writing(lambda path: write_json(path, self.record()), options.json_path)
        if options.junit_path is not None:
            lines = junit_xml(self.cells, self.stale, asked)
            self._try_writing(lambda path: write_text(path, lines), options.junit_path)
        if options.summary_path is not None:
            text = list(markdown(self.cells, self.stale, asked))
            self._try_writing(lambda path: append_text(path, text), options.summary_path)
        if options.html_path is not None and self._try_writing(self._write_page, options.html_path):
            self._say(f"the page is in {options.html_path}")
        if options.known_path is not None:
            self._try_writing(self._add_known, options.known_path)

    def _write_page(self, path: Path) -> None:
        from evictable.ci.check_page import page_of_check  # a tenth of the time that the command takes to start

        remarks = [CUT_SHORT] if self.interrupted else []
        remarks += [told_of_stale(one) for one in self.stale]
        write_text(path, page_of_check(self.cells, self.options.profile, remarks))

    def _add_known(self, path: Path) -> None:
        found = [(cell, violation) for cell in self.cells for violation in cell.unexpected]
        number = add_expectations(path, found, f"found on {time.strftime('%Y-%m-%d')}, not looked at yet")
        self._say(f"{path}: {number} added; give each a reason, and the file as --expect")

    def _path(self, cell: Cell, name: str) -> Path:
        more = (f"tiers{cell.tiers}",) if cell.tiers else ()
        if cell.level == POLICY:
            more = ("policy",)
        return self.options.trace_dir / (file_name(cell.subject, cell.policy, cell.discipline, *more, name) + ".jsonl")

    def _try_writing(self, writer: Any, path: Path) -> bool:
        """Nothing that was found may be lost for want of a file: say so and go on."""
        try:
            writer(path)
        except UsageError as error:
            self.unwritten.append(str(path))
            self._say(f"evictable: {error}")
            return False
        return True

    def _report(self) -> None:
        for cell in self.cells:
            show_violations(self.out, cell, self.options.profile)
        for cell in self.cells:
            if cell.left_out:
                self.out.print(f"left out: {cell.name}: {cell.problem}", markup=False)
        cells = [cell for cell in self.cells if cell.started and not cell.unusable and not cell.left_out]
        if cells:
            show_cells(self.out, cells)
        for problem in dict.fromkeys(cell.problem for cell in self.cells if cell.unusable):
            self._say(f"evictable: {problem}")
        for one in self.stale:
            self.out.print(f"{told_of_stale(one)}; take the entry out of the list", markup=False)
        for line in self._shorter_than_listed():
            self.out.print(line, markup=False)
        if self.options.annotate:
            for line in annotated(self.cells, self.stale, self._asked):
                self.out.print(line, markup=False, soft_wrap=True)
        if self.interrupted:
            self.out.print(CUT_SHORT)

    def _shorter_than_listed(self) -> Iterator[str]:
        """An entry stands for its law: what breaks that in fewer calls may be something else."""
        listed: dict[Any, Expectation] = {}
        for one in self.options.expectations:
            key = (*one.cell, one.law, one.fault)
            if key not in listed or len(one.trace.entries) < len(listed[key].trace.entries):
                listed[key] = one
        for cell in self.cells:
            for violation in cell.violations.values():
                known = listed.get((*cell.key, violation.law, violation.fault))
                if known is not None and not violation.shared and violation.calls < len(known.trace.entries):
                    told = f"{violation.law} on {cell.name} in {count_calls(violation.calls)}, fewer than in"
                    yield f"{told} {known.path}: is it the same? see {violation.path or 'the trace'}"

    def _say(self, line: str) -> None:
        self.err.print(line, markup=False)


def _progress(cells: Sequence[Cell]) -> Table:
    table = Table(box=None, padding=(0, 2, 0, 0), header_style="dim")
    for heading in ("", "calls", "calls/s", "laws broken"):
        table.add_column(heading, justify="left" if not heading else "right")
    for cell in cells:
        if cell.started and not cell.ended and cell.problem is None:
            rate = f"{cell.steps / cell.seconds:,.0f}" if cell.seconds else ""
            table.add_row(cell.name, f"{cell.steps:,}", rate, str(len(cell.violations)))
    left = sum(1 for cell in cells if not cell.started)
    done = sum(1 for cell in cells if cell.ended or cell.problem is not None)
    table.add_row(f"{done} done, {left} to go, {time.strftime('%H:%M:%S')}", "", "", "")
    return table
