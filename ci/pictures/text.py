"""A drawing as text in the terminal."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Console
from rich.markup import escape
from rich.table import Table
from rich.text import Text

from evictable.ci.pictures.jobs import sentence_of
from evictable.ci.pictures.shapes import plain
from evictable.ci.pictures.svg import count, notes_of, short
from evictable.model.calls import Key
from evictable.specs.drawing.drawing import (
    ANSWER,
    COUNTERS,
    EVICTABLE,
    SLOTS,
    Cell,
    Drawing,
    Evictable,
    Slot,
    Step,
    state_of,
)

STYLES = {"absent": "dim", "pending": "black on yellow", "idle": "green", "pinned": "white on blue", "illegal": "red"}
WRONG = "bold red"
MOST_LISTED = 12
"""Keys of an evictable list that are printed."""
_ASCII = str.maketrans({"→": ">", "·": ".", "✗": "!", "…": "~", "✓": "+", "½": "/"})


def show_drawing(out: Console, drawing: Drawing) -> None:
    """Print a drawing: the laws, the calls with a lane for each key, the slots at the end, the jobs."""
    ascii_only = out.options.ascii_only

    def put(line: str | Text, style: str = "") -> None:
        out.print(_shown(Text(line, style=style) if isinstance(line, str) else line, ascii_only))

    for one in drawing.broken:
        put(
            Text.from_markup(f"[bold red]{escape(one.law)}[/] broken by {escape(drawing.name)}: {escape(one.sentence)}")
        )
    shown = "1 call" if drawing.calls == 1 else f"{drawing.calls:,} calls"
    put("  " + ", ".join((drawing.name if not drawing.broken else shown, *drawing.setup)), "dim")
    out.print(_table(drawing, ascii_only))
    for one in drawing.broken:
        of = f"{one.law}: " if len(drawing.broken) > 1 else ""
        put(f"  expected  {of}{one.expected}", "green")
        put(f"  observed  {of}{one.observed}", "red")
    for line in _slots(drawing):
        put(line)
    for job in drawing.jobs:
        put(f"  {sentence_of(job)}")
    for note in notes_of(drawing):
        put(f"  {note}", "dim")


def _table(drawing: Drawing, ascii_only: bool) -> Table:
    table = Table(box=None, padding=(0, 1, 0, 0), header_style="dim")
    table.add_column("#", justify="right")
    table.add_column("call, and its answer", overflow="fold")
    for key in drawing.keys:
        table.add_column(short(str(key)), justify="center", no_wrap=True)
    if any(step.evictable is not None for step in drawing.steps):
        table.add_column("evictable", overflow="fold")
    for step in drawing.steps:
        row = [Text(str(step.number)), _call(step), *map(_cell, step.cells)]
        if step.evictable is not None:
            row.append(_evictable(step.evictable, wrong=EVICTABLE in step.wrong))
        table.add_row(*(_shown(text, ascii_only) for text in row))
    return table


def _shown(text: Text, ascii_only: bool) -> Text:
    """Without signs that steer a terminal, or that it does not have."""
    clean = plain(text.plain)
    made = Text(clean.translate(_ASCII).encode("ascii", "replace").decode() if ascii_only else clean, style=text.style)
    made.spans = text.spans  # a sign stands for one sign
    return made


def _call(step: Step) -> Text:
    text = Text(step.call, style="bold" if step.is_wrong else "")
    wrong = ANSWER in step.wrong
    text.append(f"\n{'✗ ' if wrong else ''}→ {step.answer}", style=WRONG if wrong else "dim")
    if step.careless:
        text.append(f"\ncareless: {step.careless}", style="yellow")
    for line in step.said:
        text.append(f"\n{line}", style="dim")
    if step.wrong & {SLOTS, COUNTERS}:
        text.append(f"\n✗ wrong: {', '.join(sorted(step.wrong & {SLOTS, COUNTERS}))}", style=WRONG)
    return text


def _cell(cell: Cell) -> Text:
    shown = f"{count(cell.before)}→{count(cell.after)}" if cell.changed else count(cell.after)
    text = Text(f" {shown} ", style=STYLES[state_of(cell.after)])
    if cell.wrong:
        right = f"\n✗ right {count(cell.right)}" if cell.after != cell.right else "\n✗"
        text.append(right, style=WRONG)
    return text


def _evictable(evictable: Evictable, *, wrong: bool) -> Text:
    text = Text(_listed(evictable.listed))
    if wrong:
        text.append(f"\n✗ right {_listed(evictable.right)}", style=WRONG)
    return text


def _listed(keys: Sequence[Key]) -> str:
    more = f", +{len(keys) - MOST_LISTED}" if len(keys) > MOST_LISTED else ""
    return f"[{', '.join(short(str(key)) for key in keys[:MOST_LISTED])}{more}]"


def _slots(drawing: Drawing) -> list[str]:
    slots = drawing.steps[-1].slots if drawing.steps else ()
    return [
        f"  slot {slot.number}: {words_of_slot(slot)}"
        for slot in slots
        if slot.keys or slot.owners or slot.state == "lost"
    ]


def words_of_slot(slot: Slot) -> str:
    """``holds 0; r1 writes 0``."""
    holds = f"holds {', '.join(map(str, slot.keys))}" if slot.keys else slot.state
    return "; ".join((holds, *slot.owners))
