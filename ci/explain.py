"""`evictable laws` and `evictable explain`: why a law matters, what it has caught, and what a trace shows."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.markup import escape

from evictable.ci.files import write_json
from evictable.ci.found import Found, read_found, record_of
from evictable.ci.pictures.shapes import plain
from evictable.ci.report import console
from evictable.model.laws import LAW_BY_ID, LAWS, Law
from evictable.specs.drawing.drawing import Drawing
from evictable.specs.drawing.words import verdict_of
from evictable.specs.errors import UsageError
from evictable.specs.mutants.mutant import Mutant
from evictable.specs.mutants.registry import MUTANTS

MOST_SEEDED = 3
"""Names of seeded defects that are printed of a law; `--json` has all."""


def run_laws(json_path: Path | None) -> int:
    """Print every law; or write them to a file."""
    found = read_found()
    if json_path is not None:
        write_json(json_path, {"results": [_record(law, found) for law in LAWS]})
        return 0
    out = console()
    for law in LAWS:
        show_law(out, law, found)
    return 0


def run_explain(what: str, subject: str | None = None) -> int:
    """A law in words, or a trace call by call; 1 if the trace breaks a law. Raises `UsageError` and `Inconclusive`."""
    if what in LAW_BY_ID:
        out = console()
        law = LAW_BY_ID[what]
        found = read_found()
        show_law(out, law, found)
        show_commands(out, law, [row for row in found if row.law == law.id])
        return 0
    if not Path(what).exists():
        raise UsageError(f"{what}: neither a law nor a trace file; the laws are {', '.join(LAW_BY_ID)}")
    from evictable.ci.show import drawing_of

    drawing = drawing_of(Path(what), subject=subject)
    explain_trace(console(), drawing)
    return 1 if drawing.broken else 0


def show_law(out: Console, law: Law, found: Sequence[Found]) -> None:
    """The sentence, why it matters, when it can be judged, and what it has caught."""
    caught = [row for row in found if row.law == law.id]
    out.print(f"[bold]{law.id}[/]: {escape(law.sentence)}")
    out.print(f"  why      {escape(law.why)}")
    if needs := needs_of(law):
        out.print(f"  needs    {needs}")
    for row in caught:
        out.print(f"  caught   {row}", markup=False)
    if not caught:
        out.print("  caught   nothing in a published release so far; seeded defects only", markup=False)
    seeded = [mutant.name for mutant in mutants_of(law)]
    more = f" and {len(seeded) - MOST_SEEDED} more" if len(seeded) > MOST_SEEDED else ""
    out.print(f"  seeded   {', '.join(seeded[:MOST_SEEDED])}{more}", markup=False)


def show_commands(out: Console, law: Law, caught: Sequence[Found]) -> None:
    """How to see it broken."""
    for mutant in mutants_of(law)[:1]:
        out.print(f"  see it   evictable check mutant:{mutant.name} {mutant.options}", markup=False)
    for row in sorted(caught, key=lambda row: (min(row.calls.values()), row.tiers, row.threshold))[:1]:
        out.print(f"           {row.command}", markup=False)


def mutants_of(law: Law) -> list[Mutant]:
    """The seeded defects that a search reports by that law: first those of which it is the first."""
    own = [mutant for mutant in MUTANTS if law.id in mutant.laws and not mutant.needs_threads]
    return sorted(own, key=lambda mutant: mutant.laws.index(law.id))


def needs_of(law: Law) -> str:
    """What a subject or a caller must have for the law to be judged at all."""
    parts = []
    if law.needs_inside:
        parts.append("a subject that shows its inside")
    if law.needs_mistakes:
        parts.append("a careless caller")
    if law.needs_tiers:
        parts.append("secondary tiers")
    return ", ".join(parts)


def explain_trace(out: Console, drawing: Drawing) -> None:
    """What happened, call by call, and why the last call is wrong."""
    for line in sentences_of(drawing):
        out.print(plain(line), markup=False)


def sentences_of(drawing: Drawing) -> Iterator[str]:
    """The same, line by line."""
    yield f"{drawing.name}, {', '.join(drawing.setup)}"
    if drawing.left_out:
        yield f"the last {len(drawing.steps)} of {drawing.calls:,} calls:"
    for step in drawing.steps:
        yield f"{step.number}. {step.words}"
        if step.careless:
            yield f"   No careful caller does that: {step.careless}."
        yield from (f"   Meanwhile {line}." for line in step.said)
    yield verdict_of(drawing.broken) or "No law is broken."
    yield from _why_wrong(drawing)


def _why_wrong(drawing: Drawing) -> Iterator[str]:
    if not drawing.broken:
        return
    for cell in drawing.steps[-1].cells:
        if cell.after != cell.right:
            yield f"The ref_cnt of {cell.key} should be {_ref(cell.right)}, not {_ref(cell.after)}."
    for one in drawing.broken:
        if one.law in LAW_BY_ID:
            yield f"Why {one.law} matters: {LAW_BY_ID[one.law].why}"


def _ref(ref_cnt: int | None) -> str:
    return "absent" if ref_cnt is None else str(ref_cnt)


def _record(law: Law, found: Sequence[Found]) -> dict[str, Any]:
    return {
        "law": law.id,
        "sentence": law.sentence,
        "why": law.why,
        "needs": needs_of(law),
        "caught": [record_of(row) for row in found if row.law == law.id],
        "seeded": [mutant.name for mutant in mutants_of(law)],
    }
