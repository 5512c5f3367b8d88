"""The page of `evictable check --html`: the verdicts, and each counterexample drawn."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from evictable.ci.cells import Cell, Violation
from evictable.ci.pictures.page import Example, VerdictRow, page_of
from evictable.ci.report import broken_laws, command_of, exercise_of, remarks_on, together
from evictable.ci.show import drawing_of_lines
from evictable.specs.drawing.drawing import BrokenLaw


def page_of_check(cells: Sequence[Cell], profile: str, remarks: Sequence[str] = ()) -> Iterator[str]:
    """The lines of the page. ``profile`` is what was asked for; ``remarks`` go below the table."""
    judged = [cell for cell in cells if cell.started and not cell.left_out]
    examples = [one for cell in judged for one in _examples(cell, profile)]
    known = [line for cell in judged for line in _known(cell)]
    passed = ["No law was broken in the calls that were tried: evidence, not proof."] if not examples else []
    return page_of("evictable check", examples, [_row(cell) for cell in judged], [*remarks, *known, *passed])


def _row(cell: Cell) -> VerdictRow:
    laws = broken_laws(cell)
    remarks = remarks_on(cell)
    if cell.exercise.get("runs"):
        remarks.append(exercise_of(cell))
    if cell.started and not cell.inside:
        remarks.append("judged by its answers only: its inside is not built like vLLM's")
    if cell.profile == "any":
        remarks.append("the order of eviction is not judged: name its profile with --profile")
    return VerdictRow(
        cell.subject,
        cell.policy,
        cell.discipline + (" at policy level" if cell.level == "policy" else ""),
        cell.profile,
        cell.tiers,
        cell.told,
        cell.steps,
        cell.seconds,
        laws,
        remarks,
    )


def _examples(cell: Cell, profile: str) -> Iterator[Example]:
    for group in together(cell):
        first = group[0]
        note = f"found by {first.engine} after {first.steps:,} calls, {first.seconds:.2f} s"
        yield _example(cell, group, profile, note)
    for one in cell.reached.values():
        yield _example(cell, [one], profile, "", f"{one.law}, reached by scheduler steps alone on {cell.name}")


def _example(cell: Cell, group: Sequence[Violation], profile: str, note: str, title: str = "") -> Example:
    told = tuple(BrokenLaw(one.law, one.sentence, one.expected, one.observed) for one in group)
    drawing = drawing_of_lines(group[0].lines, cell.profile, told)
    return Example(drawing, command_of(group[0], cell.subject, profile), note, title)


def _known(cell: Cell) -> Iterator[str]:
    for one in cell.violations.values():
        if one.reason is not None:
            yield f"known: {one.law} broken by {cell.name}, {one.calls} calls: {one.reason}"
