"""What GitHub Actions shows of a run: a Markdown summary of the job, and annotations.

The formats are GitHub's: `$GITHUB_STEP_SUMMARY` is a file to append Markdown to, and a line that begins with
`::error` is an annotation, with `%`, line ends and, in properties, `:` and `,` escaped.
"""

from __future__ import annotations

import html
from collections.abc import Iterator, Mapping, Sequence

from evictable.ci.cells import Cell, Violation
from evictable.ci.expectations import Expectation, told_of_stale
from evictable.ci.report import Asked, broken_laws, count_calls, replay_command, search_command
from evictable.ci.verdicts import ERROR, FAILED, SEARCH, verdicts

_WHERE_ACTIONS_RUN = "GITHUB_ACTIONS"
MOST_ANNOTATIONS = 10
"""GitHub shows so many of a step."""


def on_github(environment: Mapping[str, str]) -> bool:
    return environment.get(_WHERE_ACTIONS_RUN) == "true"


def markdown(cells: Sequence[Cell], stale: Sequence[Expectation], asked: Asked) -> Iterator[str]:
    """The table of verdicts, then every unexpected failure with its commands, then what is known or stale."""
    yield "## evictable"
    yield ""
    yield "| subject | policy | discipline | tiers | verdict | calls | laws broken (calls) |"
    yield "|---|---|---|--:|---|--:|---|"
    for cell in cells:
        laws = ", ".join(broken_laws(cell))
        parts = (cell.subject, cell.policy, cell.discipline, cell.tiers, cell.told, f"{cell.steps:,}", laws)
        yield "| " + " | ".join(_cell(str(part)) for part in parts) + " |"
    for cell in cells:
        failed = [verdict for verdict in verdicts(cell) if verdict.state == FAILED]
        if failed:
            yield from ("", f"<details><summary>{html.escape(cell.name)}: {len(failed)} broken</summary>")
            for verdict in sorted(failed, key=lambda one: one.violations[0].calls):
                yield from _failure(cell, verdict.violations[0], asked)
            yield from ("", "</details>")
        elif cell.problem is not None and not cell.left_out:
            yield from ("", f"**No verdict** on {_cell(cell.name)}: {_cell(cell.problem)}")
    for one in stale:
        yield ""
        yield f"{_cell(told_of_stale(one))}; take the entry out of the list"
    yield ""


def annotated(cells: Sequence[Cell], stale: Sequence[Expectation], asked: Asked) -> Iterator[str]:
    """An error for each law that is broken unexpectedly, a warning for what gives no verdict or is stale."""
    lines = []
    for cell in cells:
        for verdict in verdicts(cell):
            if verdict.state == FAILED:
                first = verdict.violations[0]
                text = f"{first.sentence}; {verdict.why}"
                if first.path is not None:
                    text += f"\n{replay_command(first.path, cell.subject, asked.profile)}"
                lines.append(_annotation("error", f"{verdict.law} broken by {cell.name}", text))
            elif verdict.state == ERROR and verdict.law == SEARCH:
                lines.append(_annotation("warning", f"no verdict on {cell.name}", verdict.why))
    for one in stale:
        lines.append(_annotation("warning" if one.strict else "notice", told_of_stale(one), one.reason))
    yield from lines[:MOST_ANNOTATIONS]
    if len(lines) > MOST_ANNOTATIONS:
        yield f"{len(lines) - MOST_ANNOTATIONS} more are in the summary"


def _failure(cell: Cell, violation: Violation, asked: Asked) -> Iterator[str]:
    yield ""
    yield f"**`{violation.law}`** in {count_calls(violation.calls)}: {violation.sentence}"
    yield ""
    yield "```text"
    yield f"expected  {_fenced(violation.expected)}"
    yield f"observed  {_fenced(violation.observed)}"
    yield f"search    {search_command(cell, asked)}"
    if violation.path is not None:
        yield f"replay    {replay_command(violation.path, cell.subject, asked.profile)}"
    yield "```"


def _cell(text: str) -> str:
    """In a table of Markdown, or a line of it: nothing in it is markup."""
    for sign in "\\`*_[]<>|":
        text = text.replace(sign, f"\\{sign}")
    return text.replace("\n", " ")


def _fenced(text: str) -> str:
    return text.replace("```", "'''").replace("\n", " ")


def _annotation(level: str, title: str, text: str) -> str:
    title = _escaped(title).replace(":", "%3A").replace(",", "%2C")
    return f"::{level} title={title}::{_escaped(text)}"


def _escaped(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")
