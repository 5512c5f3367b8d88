"""What a person sees: the table of verdicts and the counterexamples, in the terminal or in a log."""

from __future__ import annotations

import os
import shlex
import sys
from collections.abc import Callable, Mapping, Sequence
from io import StringIO
from pathlib import Path
from typing import Any

from attrs import frozen
from rich.console import Console
from rich.markup import escape
from rich.table import Table
from rich.text import Text

from evictable.ci.cells import Cell, Violation
from evictable.ci.levels import POLICY
from evictable.model.calls import describe
from evictable.model.policy import MISMATCHES
from evictable.model.policy_calls import PolicyState
from evictable.model.policy_trace import PolicyTrace
from evictable.model.snapshot import Snapshot
from evictable.model.trace import Trace
from evictable.specs.shrink import fault_of

STYLE_OF_VERDICT = {
    "conforms": "bold green",
    "violates": "bold red",
    "as expected": "bold yellow",
    "inconclusive": "bold yellow",
    "left out": "dim",
}
_LOG_WIDTH = 160
FIRST_USES = 3
"""Of what raised: how often at each of these uses, and at all later ones together."""


MOST_SHOWN = 100
"""Calls of a counterexample that are printed."""
LONG_REMEDY = "the whole is in its file, and `evictable shrink FILE` may make it shorter"


@frozen
class Asked:
    """What was asked for that a command to search or replay must repeat."""

    profile: str
    seed: int
    baseline: str | None = None


class _Console(Console):
    def on_broken_pipe(self) -> None:
        """Whoever read this has gone: be quiet, and let files and the exit code tell what was found."""
        self.quiet = True
        os.dup2(os.open(os.devnull, os.O_WRONLY), self.file.fileno())


def console(*, stderr: bool = False) -> Console:
    """A console that wraps for a terminal, and in a log leaves lines whole, to be searched."""
    stream = sys.stderr if stderr else sys.stdout
    log = not stream.isatty()
    # No emoji: rich would find some in names like `package.module:x:`.
    return _Console(file=stream, width=_LOG_WIDTH if log else None, soft_wrap=log, highlight=False, emoji=False)


def as_text(show: Callable[[Console], None]) -> str:
    """What ``show`` prints, as in a log; without spaces at the ends of lines."""
    text = StringIO()
    show(Console(file=text, width=_LOG_WIDTH, soft_wrap=True, highlight=False, emoji=False, color_system=None))
    return "\n".join(line.rstrip() for line in text.getvalue().splitlines()).strip("\n")


def show_cells(out: Console, cells: Sequence[Cell]) -> None:
    """A table, which fits 80 columns, and below it what would not."""
    out.print()
    out.print(_table_of(cells))
    for cell in cells:
        if cell.violations:
            laws = ", ".join(broken_laws(cell))
            out.print(f"broken by {cell.name} (calls): {laws}", markup=False)
        for remark in remarks_on(cell):
            out.print(remark, markup=False)
        show_mismatches(out, cell)
    for cell in cells:
        if cell.exercise.get("runs"):
            out.print(exercise_of(cell), markup=False)
    for cell in cells:
        if cell.faults:
            show_faults(out, cell)
    for subject in dict.fromkeys(cell.subject for cell in cells if not cell.inside):
        out.print(f"{subject} is judged by its answers only: its inside is not built like vLLM's", markup=False)
    for cell in cells:
        if cell.profile == "any":
            out.print(f"the order of {cell.name} is not judged: name its profile with --profile", markup=False)
    out.print(_sum_of(cells), markup=False)


def remarks_on(cell: Cell) -> list[str]:
    """What the table has no room for: what is inconclusive, not exercised, or searched from end to end."""
    remarks = []
    if cell.reached:
        laws = ", ".join(f"{one.law} ({one.calls})" for one in cell.reached.values())
        remarks.append(f"of these, scheduler steps reach (calls): {laws}")
    if cell.problem is not None:
        remarks.append(f"no verdict on {cell.name}: {cell.problem}")
    if cell.ended and cell.not_exercised:
        remarks.append(f"not exercised on {cell.name}: {', '.join(cell.not_exercised)}")
    if cell.bound:
        remarks.append(f"exhaustive search on {cell.name}: {cell.bound}")
    return remarks


def broken_laws(cell: Cell) -> list[str]:
    """Each broken law with the calls of its shortest counterexample: of the unexpected ones, if there are any."""
    shown: dict[str, Violation] = {}
    for violation in sorted(by_length(cell), key=lambda one: one.reason is not None):
        shown.setdefault(violation.law, violation)
    return [brief(violation) for violation in by_length(cell) if shown[violation.law] is violation]


def exercise_of(cell: Cell) -> str:
    """What was put to the test, in a line."""
    rows, pairs = cell.exercise["rows"], cell.exercise["pairs"]
    missing = [row for row, times in rows.items() if not times]
    refused = sum(sum(reasons.values()) for reasons in cell.exercise["refusals"].values())
    return (
        f"exercised on {cell.name}, {cell.exercise['runs']:,} runs: {len(rows) - len(missing)} of {len(rows)} rows of "
        f"the life cycle{', all but ' + ', '.join(missing) if missing else ''}; {refused:,} refusals; of {pairs['of']} "
        f"ordered pairs of calls of two requests {pairs['met']}, {pairs['directly']} one right after the other"
    )


def show_faults(out: Console, cell: Cell) -> None:
    """Which of the manager's callouts raised, in which calls, at which of their uses."""
    table = Table(title=f"raised in {cell.name}", title_justify="left", box=None, padding=(0, 2, 0, 0))
    breaks: dict[str | None, list[str]] = {}
    for violation in by_length(cell):
        breaks.setdefault(violation.fault or _latest_fault(violation), []).append(brief(violation))
    for heading in ("call", "raises", "uses in one call", "struck at use (times)", "breaks (calls)"):
        table.add_column(heading)
    for row in cell.faults:
        struck = _struck_at({int(use): times for use, times in row["struck"].items()})
        broken = ", ".join(breaks.get(f"{row['place']} in {row['call']}", []))
        never = Text("never", style="bold yellow")
        table.add_row(row["call"], row["place"], f"up to {row['uses']}", struck or never, Text(broken, style="red"))
    out.print()
    out.print(table)
    if not cell.inside:
        out.print(
            f"{cell.name}: judged by its answers, what a raise broke shows in a later call: of each law one place is "
            "named, and others may break it too",
            markup=False,
        )
    if not cell.restores_order:
        out.print(
            f"{cell.name}: its policy has no checkpoint and restore: where a failed call leaves its own keys in the "
            "order is not judged, nor any order after it",
            markup=False,
        )


def _latest_fault(violation: Violation) -> str | None:
    """Where what a fault did came to light in a later call, as it does where only answers are judged."""
    made = violation.trace.calls if isinstance(violation.trace, Trace) else ()
    return next((fault for end in range(len(made), 0, -1) if (fault := fault_of(made[:end]))), None)


def _struck_at(struck: Mapping[int, int]) -> str:
    """The first uses one by one, the others together."""
    parts = [f"{use}({times:,})" for use, times in struck.items() if use <= FIRST_USES]
    later = {use: times for use, times in struck.items() if use > FIRST_USES}
    if later:
        parts.append(f"up to {max(later)}({sum(later.values()):,})")
    return " ".join(parts)


def _sum_of(cells: Sequence[Cell]) -> str:
    counts = {
        "conform": sum(cell.conforms for cell in cells),
        "violate as expected": sum(bool(cell.violations) and not cell.unexpected for cell in cells),
        "violate": sum(bool(cell.unexpected) for cell in cells),
        "inconclusive": sum(not cell.violations and not cell.conforms for cell in cells),
    }
    return ", ".join(f"{count} {what}" for what, count in counts.items() if count)


def _table_of(cells: Sequence[Cell]) -> Table:
    table = Table(box=None, padding=(0, 2, 0, 0), header_style="bold")
    table.add_column("subject", overflow="fold")
    tiered = any(cell.tiers for cell in cells)
    for heading in ("policy", "discipline", "profile", *(("tiers",) if tiered else ()), "verdict"):
        table.add_column(heading, no_wrap=True)
    for heading in ("calls", "calls/s"):
        table.add_column(heading, justify="right", no_wrap=True)
    for cell in cells:
        table.add_row(
            escape(cell.subject),
            cell.policy,
            cell.discipline,
            cell.profile,
            *((str(cell.tiers),) if tiered else ()),
            Text(cell.told, style=STYLE_OF_VERDICT[cell.told]),
            f"{cell.steps:,}",
            f"{cell.steps / cell.seconds:,.0f}" if cell.seconds else "",
        )
    return table


def by_length(cell: Cell) -> list[Violation]:
    return sorted(cell.violations.values(), key=lambda violation: (violation.calls, violation.law))


def brief(violation: Violation) -> str:
    return f"{violation.law} ({violation.calls})" + (" expected" if violation.reason is not None else "")


def show_violations(out: Console, cell: Cell, profile: str, replayed_by: Callable[[Path], str] | None = None) -> None:
    """The counterexamples of a cell, shortest first: one table for all the laws that the same calls break.

    ``profile`` is what was asked for: the command to replay names it too. What is expected gets a line. ``replayed_by``
    gives the command that plays a trace again, where it is not `evictable replay`.
    """
    for group in together(cell):
        out.print()
        for violation in group:
            out.print(
                f"[bold red]{violation.law}[/] broken by [bold]{escape(cell.name)}[/]: {escape(violation.sentence)}"
            )
        first = group[0]
        show_trace(out, first.trace, f"found by {first.engine} after {first.steps:,} calls, {first.seconds:.2f} s")
        for violation in group:
            show_difference(out, violation.expected, violation.observed, violation.law if len(group) > 1 else "")
        _show_command(out, first, cell.subject, profile, replayed_by)
    for violation in cell.reached.values():
        out.print()
        out.print(f"[bold red]{violation.law}[/], reached by scheduler steps alone on [bold]{escape(cell.name)}[/]:")
        show_trace(out, violation.trace)
        show_difference(out, violation.expected, violation.observed)
        _show_command(out, violation, cell.subject, profile)
    for violation in by_length(cell):
        if violation.reason is not None:
            out.print(
                f"known: {violation.law} broken by {cell.name}, {count_calls(violation.calls)}: {violation.reason}",
                markup=False,
            )


def together(cell: Cell) -> list[list[Violation]]:
    """The unexpected counterexamples of a cell, shortest first: those of the same calls in one group."""
    groups: dict[tuple[str, ...], list[Violation]] = {}
    shown: set[str] = set()
    for violation in by_length(cell):
        # Of faults in many places that break a law the first is shown; the table of faults names the others.
        if violation.reason is None and not (violation.fault is not None and violation.law in shown):
            groups.setdefault(violation.played, []).append(violation)
            shown.add(violation.law)
    return list(groups.values())


def command_of(violation: Violation, subject: str, profile: str) -> str | None:
    """What plays a counterexample again, if it was written."""
    if violation.path is None:
        return None
    return replay_command(violation.path, subject, profile)


def _show_command(
    out: Console,
    violation: Violation,
    subject: str,
    profile: str,
    replayed_by: Callable[[Path], str] | None = None,
) -> None:
    if violation.path is None:
        return
    command = replayed_by(violation.path) if replayed_by is not None else command_of(violation, subject, profile)
    out.print(f"  replay    {command}", markup=False, soft_wrap=True)  # whole, to be copied


def replay_command(path: Path, subject: str, profile: str) -> str:
    """What plays a counterexample again; ``profile`` is what was asked for."""
    words = ["evictable", "replay", str(path), "--subject", subject]
    return shlex.join(words + ([] if profile == "auto" else ["--profile", profile]))


def search_command(cell: Cell, asked: Asked) -> str:
    """What searches a cell again."""
    words = ["evictable", "check", cell.subject, "--policy", cell.policy, "--discipline", cell.discipline]
    more = {"--tiers": str(cell.tiers or ""), "--level": POLICY if cell.level == POLICY else ""}
    more["--profile"] = "" if asked.profile == "auto" else asked.profile
    more["--baseline"] = asked.baseline or ""
    for option, value in more.items():
        words += [option, value] if value else []
    return shlex.join([*words, "--seed", str(asked.seed)])


def show_difference(out: Console, expected: str, observed: str, law: str = "") -> None:
    of = f"[dim]{law}:[/] " if law else ""
    out.print(f"  [green]expected[/]  {of}{escape(expected)}")
    out.print(f"  [red]observed[/]  {of}{escape(observed)}")


def show_broken(out: Console, broken: Sequence[Mapping[str, Any]]) -> None:
    for one in broken:
        out.print(f"[bold red]{one['law']}[/] broken: {escape(one['sentence'])}")
        show_difference(out, one["expected"], one["observed"])


def show_trace(out: Console, trace: Trace | PolicyTrace, note: str = "") -> None:
    """The calls down the page, and after each its answer, every ref_cnt and the evictable list."""
    if isinstance(trace, PolicyTrace):
        show_policy_trace(out, trace, note)
        return
    head = trace.head
    built = [count_calls(len(trace.entries)), f"capacity {head.capacity}", f"profile {head.profile}"]
    if head.store_threshold > 1:
        tracker = "" if head.max_tracker_size is None else f" with a tracker of {head.max_tracker_size}"
        built.append(f"store threshold {head.store_threshold}{tracker}")
    if not head.events:
        built.append("events off")
    if head.tiers:
        wanting = f", {list(head.request_level)} of them for whole requests" if head.request_level else ""
        built.append(f"{head.tiers} tier{'s' if head.tiers > 1 else ''}{wanting}")
    out.print(f"  {', '.join(built)}" + (f"; {note}" if note else ""), markup=False)
    whose = "" if head.inside else " (of the model)"
    table = Table(box=None, padding=(0, 2, 0, 0), header_style="dim")
    table.add_column("#", justify="right")
    for heading in ("call", "answer", f"ref_cnt{whose}", f"evictable{whose}"):
        table.add_column(heading, overflow="fold")
    last = len(trace.entries)
    first = max(0, last - MOST_SHOWN)
    if first:
        out.print(f"  the last {MOST_SHOWN} calls; {LONG_REMEDY}", markup=False)
    for number, entry in enumerate(trace.entries[first:], first + 1):
        table.add_row(
            str(number),
            escape(str(entry.call)),
            escape("\n".join((describe(entry.outcome), *map(str, entry.exchanges)))),
            *_state(entry.state),
            style="bold" if number == last else None,
        )
    out.print(table)


def show_policy_trace(out: Console, trace: PolicyTrace, note: str = "") -> None:
    """The calls of a policy down the page, and after each what ``get`` finds and the evictable list."""
    head = trace.head
    built = [count_calls(len(trace.entries)), f"capacity {head.capacity}", f"profile {head.profile}"]
    out.print(f"  {', '.join(built)}" + (f"; {note}" if note else ""), markup=False)
    table = Table(box=None, padding=(0, 2, 0, 0), header_style="dim")
    table.add_column("#", justify="right")
    for heading in ("call", "answer", "ref_cnt", "evictable"):
        table.add_column(heading, overflow="fold")
    for number, entry in enumerate(trace.entries, 1):
        state = entry.state or PolicyState({})
        counts = "  ".join(f"{key}:{count}" for key, (_, count) in state.blocks.items()) or "-"
        listed = "not kept" if state.listed is None else str(list(state.listed))
        shown = (str(entry.call), describe(entry.outcome), counts, listed)
        table.add_row(str(number), *map(escape, shown), style="bold" if number == len(trace.entries) else None)
    out.print(table)


def show_mismatches(out: Console, cell: Cell) -> None:
    """What became of the calls that did not match."""
    if not cell.mismatches:
        return
    out.print()
    out.print(f"calls that do not match, on {cell.name}:", markup=False)
    table = Table(box=None, padding=(0, 2, 0, 0), header_style="dim")
    for heading in ("method", "where", "what it does", "calls"):
        table.add_column(heading, overflow="fold", justify="right" if heading == "calls" else "left")
    for name, row in MISMATCHES.items():
        for treatment, count in sorted(cell.mismatches.get(name, {}).items(), key=lambda item: -item[1]):
            table.add_row(row.method, row.sentence, escape(treatment), f"{count:,}")
    out.print(table)


def count_calls(number: int) -> str:
    return f"{number:,} call" + ("" if number == 1 else "s")


def _state(state: Snapshot | None) -> tuple[str, str]:
    if state is None:
        return "", ""
    counts = "  ".join(f"{key}:{count}" for key, count in state.ref_cnt.items()) or "-"
    evictable = "not kept" if state.evictable is None else escape(str(list(state.evictable)))
    return escape(counts), evictable
