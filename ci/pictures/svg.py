"""A drawing as SVG: calls down the page, a lane for each key, the evictable list, and the jobs of tiers as arrows.

Sizes are in pixels. Every text goes through ElementTree, which escapes it.
"""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Sequence
from importlib.resources import files
from xml.etree import ElementTree

from attrs import define, field

from evictable.ci.pictures.jobs import JobLanes, counted_rows
from evictable.ci.pictures.shapes import CHARACTER, Pen, definitions
from evictable.specs.drawing.drawing import ANSWER, COUNTERS, EVICTABLE, SLOTS, Cell, Drawing, Evictable, Step, state_of
from evictable.specs.drawing.words import verdict_of

MARGIN = 16
LINE = 16
LANE = 72
"""Width of a key's lane."""
NARROWEST_CHIP = 28
MOST_CHIPS = 8
"""Keys of the evictable list that are drawn; how many more there are is said."""
NARROWEST = 640
WIDEST_CALL = 46
"""Characters of a line of the call column."""
MOST_LINES = 5
"""Lines of a call, and of its answer."""
MOST_SAID = 4
"""Lines of what manager and tiers said to each other, of one call."""
LEGEND = (
    ("absent", "·", "absent"),
    ("pending", "-1", "being stored"),
    ("idle", "0", "idle"),
    ("pinned", "1", "in use"),
)
PLACE_NAMES = {EVICTABLE: "evictable list", SLOTS: "slots", COUNTERS: "counters", ANSWER: "answer"}


def svg_of(drawing: Drawing, *, standalone: bool = True, prefix: str = "") -> str:
    """The picture as one ``svg`` element: ``standalone``, or one of several on a page, which has the style sheet.

    ``prefix`` keeps its ids apart from those of the other pictures; the hatching and so on is `definitions`.
    """
    layout = _Layout(drawing)
    pen = Pen(prefix)
    top = _heading(pen, layout) if standalone else MARGIN
    y = _head_row(pen, layout, top)
    rows = []
    for step in drawing.steps:
        height = layout.height_of(step)
        rows.append((step.number, y, height))
        _row(pen, layout, step, y, height)
        y += height
    if layout.job_lanes is not None:
        layout.job_lanes.draw(pen, rows, top)
    y = _legend(pen, layout, y + 24)
    root = pen.root(layout.width, y + MARGIN, _title(drawing), _description(drawing))
    if standalone:
        style = ElementTree.Element("style")
        style.text = style_sheet()
        paper = pen.element("rect", {"class": "paper", "width": layout.width, "height": y + MARGIN})
        for place, one in enumerate((style, definitions(), paper)):
            root.insert(2 + place, one)  # after title and description
    return ElementTree.tostring(root, encoding="unicode")


def style_sheet() -> str:
    return (files(__package__) / "drawing.css").read_text(encoding="utf-8")


@define
class _Layout:
    """Where the columns are."""

    drawing: Drawing
    calls_at: int = field(init=False)
    call_width: int = field(init=False)
    chip: int = field(init=False)
    """Width of a key in the evictable list."""
    lanes_at: int = field(init=False)
    list_at: int = field(init=False)
    width: int = field(init=False)
    job_lanes: JobLanes | None = None

    def __attrs_post_init__(self) -> None:
        texts = [line for step in self.drawing.steps for line, _ in call_lines(step)]
        self.call_width = int(max([len("call"), *map(len, texts)]) * CHARACTER) + 16
        self.calls_at = MARGIN + max(30, int(len(str(self.drawing.calls)) * CHARACTER) + 12)
        self.lanes_at = self.calls_at + self.call_width
        self.list_at = self.lanes_at + LANE * len(self.drawing.keys) + 16
        lists = [step.evictable for step in self.drawing.steps if step.evictable is not None]
        longest = max([1, *(len(key) for one in lists for key in chips_of(one))])
        self.chip = max(NARROWEST_CHIP, int(longest * CHARACTER) + 12)
        chips = max([4, *(min(len(one.listed), MOST_CHIPS + 1) for one in lists)])
        self.width = self.list_at + (chips * self.chip + 8 if lists else 0) + MARGIN
        if self.drawing.tiers:
            self.job_lanes = JobLanes(self.drawing, self.width + 24)
            self.width = self.job_lanes.right + MARGIN
        self.width = max(self.width, NARROWEST)

    @property
    def lists(self) -> bool:
        return any(step.evictable is not None for step in self.drawing.steps)

    def height_of(self, step: Step) -> int:
        lines = max(len(call_lines(step)), counted_rows(self.drawing, step.number), 3 if step.is_wrong else 1)
        return lines * LINE + 14


def call_lines(step: Step) -> list[tuple[str, str]]:
    """The lines of the call column, each with its class."""
    lines = [(line, "call") for line in _wrapped(step.call)]
    wrong = " wrong-text" if ANSWER in step.wrong else ""
    mark = "✗ " if wrong else ""
    lines += [(line, f"answer{wrong}") for line in _wrapped(f"{mark}→ {step.answer}")]
    if step.careless:
        lines += [(line, "careless") for line in _wrapped(f"careless: {step.careless}")]
    said = [line for line in step.said if " job " not in line]  # jobs are arrows
    lines += [(line, "said") for one in said[:MOST_SAID] for line in _wrapped(one)]
    if len(said) > MOST_SAID:
        lines.append((f"and {len(said) - MOST_SAID} more between manager and tiers", "said"))
    others = sorted(PLACE_NAMES[place] for place in step.wrong & {SLOTS, COUNTERS})
    if others:
        lines.append((f"✗ wrong: {', '.join(others)}", "wrong-text"))
    return lines


def _wrapped(text: str) -> list[str]:
    return textwrap.wrap(text, WIDEST_CALL, subsequent_indent="  ", max_lines=MOST_LINES, placeholder=" …") or [""]


def _title(drawing: Drawing) -> str:
    laws = ", ".join(one.law for one in drawing.broken)
    return f"{laws} broken by {drawing.name}" if laws else f"Calls to {drawing.name}: no law is broken"


def _description(drawing: Drawing) -> str:
    return " ".join([*(f"Call {step.number}: {step.words}" for step in drawing.steps), verdict_of(drawing.broken)])


def _heading(pen: Pen, layout: _Layout) -> int:
    """The title, the broken laws and how the subject was built; returns where the next line begins."""
    drawing = layout.drawing
    y = MARGIN + 14
    pen.text(MARGIN, y, _title(drawing), "title")
    for line, kind in heading_lines(drawing, int((layout.width - 2 * MARGIN) / CHARACTER)):
        y += LINE
        pen.text(MARGIN, y, line, kind)
    return y + LINE


def heading_lines(drawing: Drawing, width: int) -> Iterable[tuple[str, str]]:
    """What is said above a drawing, wrapped at ``width`` characters, each line with its class."""
    shown = (
        f"the last {len(drawing.steps)} of {drawing.calls:,} calls" if drawing.left_out else f"{drawing.calls} calls"
    )
    if drawing.calls == 1:
        shown = "1 call"
    yield ", ".join((shown, *drawing.setup)), "dim"
    for one in drawing.broken:
        for text, kind in (
            (f"{one.law}: {one.sentence}", "law"),
            (f"  expected  {one.expected}", "expected"),
            (f"  observed  {one.observed}", "observed"),
        ):
            yield from ((line, kind) for line in textwrap.wrap(text, width, subsequent_indent="      "))


def _head_row(pen: Pen, layout: _Layout, y: int) -> int:
    drawing = layout.drawing
    pen.text(MARGIN, y + 18, "#", "dim")
    pen.text(layout.calls_at, y + 18, "call, → answer", "dim")
    for place, key in enumerate(drawing.keys):
        pen.text(layout.lanes_at + LANE * place + LANE / 2, y + 18, short(str(key)), "key", anchor="middle")
    if drawing.keys:
        pen.text(layout.lanes_at, y + 4, "ref_cnt", "dim")
    if layout.lists:
        pen.text(layout.list_at, y + 4, "evictable", "dim")
        pen.text(layout.list_at, y + 18, "next first", "dim")
    return y + 26


def _row(pen: Pen, layout: _Layout, step: Step, y: int, height: int) -> None:
    with pen.group("step" + (" is-wrong" if step.is_wrong else ""), {"data-step": step.number}):
        pen.rect(2, y, layout.width - 4, height, "row", title=f"Call {step.number}: {step.words}")
        pen.text(MARGIN, y + 20, str(step.number), "number")
        lines = call_lines(step)
        for line, (text, kind) in enumerate(lines):
            pen.text(layout.calls_at, y + 20 + LINE * line, text, kind)
        _wrong_lines(pen, layout, lines, y)
        for place, cell in enumerate(step.cells):
            _cell(pen, cell, layout.lanes_at + LANE * place, y, height, step.number)
        if step.evictable is not None:
            _evictable(pen, step.evictable, layout, y, wrong=EVICTABLE in step.wrong)


def _wrong_lines(pen: Pen, layout: _Layout, lines: Sequence[tuple[str, str]], y: int) -> None:
    """A frame around the answer, and around the names of what else is wrong."""
    for kind, place in (("answer wrong-text", "answer"), ("wrong-text", "inside")):
        numbers = [number for number, (_, one) in enumerate(lines) if one == kind]
        if numbers:
            height = LINE * len(numbers)
            where = layout.calls_at - 5, y + 8 + LINE * numbers[0]
            pen.rect(*where, layout.call_width - 10, height, "wrong", data={"data-wrong": place})


def _cell(pen: Pen, cell: Cell, x: int, y: int, height: int, number: int) -> None:
    state = state_of(cell.after)
    said = f"after call {number}: key {cell.key}, ref_cnt {count(cell.after)}"
    with pen.group("cell", {"data-key": cell.key}):
        if cell.wrong:
            said += f", wrong; right is {count(cell.right)}"
        pen.rect(x + 6, y, LANE - 12, height, f"lane {state}", title=said)
        text = f"{count(cell.before)} → {count(cell.after)}" if cell.changed else count(cell.after)
        pen.text(
            x + LANE / 2, y + 20, text, f"count on-{state}" + (" changed" if cell.changed else ""), anchor="middle"
        )
        if cell.wrong:
            pen.rect(x + 3, y + 2, LANE - 6, height - 4, "wrong", data={"data-wrong": "key"})
            right = ("✗ right", count(cell.right)) if cell.after != cell.right else ("✗",)
            for line, label in enumerate(right, 1):
                pen.text(x + LANE / 2, y + 20 + LINE * line, label, "wrong-label", anchor="middle")


def chips_of(evictable: Evictable) -> list[str]:
    return [short(str(key)) for key in evictable.listed[:MOST_CHIPS]]


def _evictable(pen: Pen, evictable: Evictable, layout: _Layout, y: int, *, wrong: bool) -> None:
    x, chip, keys = layout.list_at, layout.chip, chips_of(evictable)
    for place, key in enumerate(keys):
        pen.rect(x + chip * place, y + 7, chip - 4, 18, "chip")
        pen.text(x + chip * place + (chip - 4) / 2, y + 20, key, "chip-text", anchor="middle")
    more = len(evictable.listed) - len(keys)
    if more or not keys:
        pen.text(x + chip * len(keys) + 2, y + 20, f"+{more}" if more else "none", "dim")
    if wrong:
        width = max(chip * len(keys), 44)
        pen.rect(x - 4, y + 3, width + 4, 26, "wrong", data={"data-wrong": "evictable"})
        right = ", ".join(map(str, evictable.right[:MOST_CHIPS])) or "none"
        pen.text(x, y + 26 + LINE, f"✗ right {right}", "wrong-label")


def _legend(pen: Pen, layout: _Layout, y: int) -> int:
    x = MARGIN
    with pen.group("legend", {}):
        for state, example, name in LEGEND:
            pen.rect(x, y - 12, 26, 16, f"lane {state}")
            pen.text(x + 13, y, example, f"count on-{state}", anchor="middle")
            pen.text(x + 32, y, name, "dim")
            x += int(len(name) * CHARACTER) + 54
        if layout.drawing.broken:
            pen.rect(x, y - 12, 26, 16, "wrong")
            pen.text(x + 13, y, "✗", "wrong-label", anchor="middle")
            pen.text(x + 32, y, "wrong", "dim")
    for note in notes_of(layout.drawing):
        y += LINE + 4
        pen.text(MARGIN, y, note, "dim")
    return y


def notes_of(drawing: Drawing) -> Sequence[str]:
    """What the drawing leaves out, in words."""
    notes = []
    if not drawing.inside:
        notes.append("every ref_cnt and list is the model's: the trace has no state of the subject's own")
    elif any(step.evictable is not None and step.evictable.of_model for step in drawing.steps):
        notes.append("the evictable list is the model's: the subject keeps none")
    if drawing.left_out:
        notes.append(f"only the last {len(drawing.steps)} of {drawing.calls:,} calls are drawn")
    if drawing.unseen:
        notes.append(f"{drawing.unseen} keys that these calls name have no column")
    return (*notes, *drawing.notes)


def count(ref_cnt: int | None) -> str:
    """A ref_cnt as it is drawn: a dot where there is no block."""
    return "·" if ref_cnt is None else str(ref_cnt)


def short(key: str, most: int = 7) -> str:
    """A key that may be 64 hexadecimal digits."""
    return key if len(key) <= most else key[: most - 1] + "…"
