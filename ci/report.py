"""What a person sees: the table of verdicts and the counterexamples, in the terminal or in a log."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.table import Table
from rich.text import Text

from evictable.ci.cells import Cell, Violation
from evictable.model.calls import describe
from evictable.model.snapshot import Snapshot
from evictable.model.trace import Trace

_STYLE = {"conforms": "bold green", "violates": "bold red", "inconclusive": "bold yellow"}
_LOG_WIDTH = 160


def console(*, stderr: bool = False) -> Console:
    """A console that wraps for a terminal, and in a log leaves lines long enough to search."""
    stream = sys.stderr if stderr else sys.stdout
    return Console(file=stream, width=None if stream.isatty() else _LOG_WIDTH, soft_wrap=False, highlight=False)


def table_of(cells: Sequence[Cell]) -> Table:
    table = Table(title=None, header_style="bold")
    for heading in ("subject", "policy", "discipline", "profile", "verdict"):
        table.add_column(heading, overflow="fold")
    for heading in ("calls", "calls/s"):
        table.add_column(heading, justify="right")
    table.add_column("broken laws (calls)", overflow="fold")
    for cell in cells:
        table.add_row(
            cell.subject,
            cell.policy,
            cell.discipline,
            cell.profile,
            Text(cell.verdict, style=_STYLE[cell.verdict]),
            f"{cell.steps:,}",
            f"{cell.steps / cell.seconds:,.0f}" if cell.seconds else "",
            escape(cell.problem) if cell.problem else ", ".join(map(_brief, _by_length(cell))),
        )
    return table


def _by_length(cell: Cell) -> list[Violation]:
    return sorted(cell.violations.values(), key=lambda violation: (violation.calls, violation.law))


def _brief(violation: Violation) -> str:
    return f"{violation.law} ({violation.calls})" + (" expected" if violation.reason is not None else "")


def show_violation(out: Console, cell: Cell, violation: Violation) -> None:
    out.print()
    out.print(f"[bold red]{violation.law}[/] broken by [bold]{escape(cell.name)}[/]: {escape(violation.sentence)}")
    found = f"found by {violation.engine} after {violation.steps:,} calls, {violation.seconds:.2f} s"
    if violation.reason is not None:
        out.print(f"  expected: {escape(violation.reason)}")
    show_trace(out, violation.trace, found)
    show_difference(out, violation.expected, violation.observed)
    if violation.path is not None:
        out.print(f"  replay    evictable replay {escape(str(violation.path))} --subject {escape(cell.subject)}")


def show_difference(out: Console, expected: str, observed: str) -> None:
    out.print(f"  [green]expected[/]  {escape(expected)}")
    out.print(f"  [red]observed[/]  {escape(observed)}")


def show_broken(out: Console, broken: Sequence[Mapping[str, Any]]) -> None:
    for one in broken:
        out.print(f"[bold red]{one['law']}[/] broken: {escape(one['sentence'])}")
        show_difference(out, one["expected"], one["observed"])


def show_trace(out: Console, trace: Trace, note: str = "") -> None:
    """The calls down the page, and after each its answer, every ref_cnt and the evictable list."""
    head = trace.head
    out.print(
        f"  {count_calls(len(trace.entries))}, capacity {head.capacity}, profile {head.profile}"
        + (f"; {note}" if note else "")
    )
    table = Table(box=None, padding=(0, 2, 0, 0), header_style="dim")
    table.add_column("#", justify="right")
    for heading in ("call", "answer", "ref_cnt", "evictable"):
        table.add_column(heading, overflow="fold")
    last = len(trace.entries)
    for number, entry in enumerate(trace.entries, 1):
        table.add_row(
            str(number),
            escape(str(entry.call)),
            escape(describe(entry.outcome)),
            *_state(entry.state),
            style="bold" if number == last else None,
        )
    out.print(table)


def count_calls(number: int) -> str:
    return f"{number:,} call" + ("" if number == 1 else "s")


def _state(state: Snapshot | None) -> tuple[str, str]:
    if state is None:
        return "", ""
    counts = "  ".join(f"{key}:{count}" for key, count in state.ref_cnt.items()) or "-"
    evictable = "not kept" if state.evictable is None else escape(str(list(state.evictable)))
    return escape(counts), evictable
