"""What of a step is wrong, and is to be marked."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from attrs import evolve

from evictable.model.calls import Key
from evictable.specs.drawing.drawing import ANSWER, COUNTERS, EVICTABLE, SLOTS, BrokenLaw, Cell, Step

OF_ANSWERS = frozenset(
    {"answer", "evict-order", "offer-protected", "no-false-refusal", "progress", "events-replay", "events-once"}
)
"""Laws that a call breaks by what it answers."""
OF_STATES = {"evictable-iff-idle": EVICTABLE, "counters-agree": COUNTERS, "slots-conserved": SLOTS, "capacity": SLOTS}
"""Laws that are broken in a place beside the keys."""


def marked(step: Step, broken: Sequence[BrokenLaw]) -> Step:
    """``step`` as the one that breaks these laws, with every ref_cnt marked that is not what is right.

    So is each place where a law is broken. A law that shows in none of these is marked at the keys that it names; one
    that names none, at the answer.
    """
    places = {place for one in broken if (place := _place_of(one)) is not None}
    if step.evictable is not None and not step.evictable.of_model and _differs(step):
        places.add(EVICTABLE)
    wrong = {cell.key for cell in step.cells if cell.after != cell.right}
    named = {key for one in broken for key in one.keys}
    if not places and not wrong:
        wrong = {cell.key for cell in step.cells if cell.key in named}
    if not places and not wrong:
        places = {ANSWER}
    laws = tuple(one.law for one in broken)
    return evolve(step, cells=_with(step, wrong), wrong=frozenset(places), breaks=laws)


def _place_of(broken: BrokenLaw) -> str | None:
    return ANSWER if broken.law in OF_ANSWERS else OF_STATES.get(broken.law)


def _differs(step: Step) -> bool:
    evictable = step.evictable
    assert evictable is not None
    return sorted(map(str, evictable.listed)) != sorted(map(str, evictable.right))


def _with(step: Step, wrong: Collection[Key]) -> tuple[Cell, ...]:
    return tuple(evolve(cell, wrong=cell.key in wrong) for cell in step.cells)
