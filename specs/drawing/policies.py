"""Draws a trace at policy level: what ``get`` finds and what the policy lists, without slots, jobs or requests."""

from __future__ import annotations

from collections.abc import Sequence

from evictable.model.calls import Key, describe
from evictable.model.policy_trace import PolicyEntry, PolicyTrace
from evictable.specs.drawing.draw import LAST, in_order
from evictable.specs.drawing.drawing import BrokenLaw, Cell, Drawing, Evictable, Step
from evictable.specs.drawing.marks import marked
from evictable.specs.policy_level.jobs import judge_recorded


def draw_policy(trace: PolicyTrace, profile: str, *, told: Sequence[BrokenLaw] = (), last: int = LAST) -> Drawing:
    """The drawing of a trace at policy level. Raises `UsageError` if an entry has no answer or state."""
    head, broken = trace.head, tuple(told) or _judged(trace, profile)
    steps: list[Step] = []
    keys = in_order(trace.keys)
    before: dict[Key, int] = {}
    for number, entry in enumerate(trace.entries, 1):
        step, before = _step(number, entry, keys, before)
        steps.append(step)
    if broken and steps:
        steps[-1] = marked(steps[-1], broken)
    return Drawing(
        subject=f"{head.subject}, its policy",
        policy=head.policy,
        profile=profile,
        discipline=head.discipline,
        setup=(f"capacity {head.capacity}", f"profile {profile}"),
        keys=keys,
        steps=tuple(steps[-last:]),
        calls=len(steps),
        broken=broken,
    )


def _judged(trace: PolicyTrace, profile: str) -> tuple[BrokenLaw, ...]:
    breach = judge_recorded(trace, profile)
    if breach is None:
        return ()
    return (BrokenLaw(breach.name, breach.sentence, breach.expected, breach.observed),)


def _step(number: int, entry: PolicyEntry, keys: Sequence[Key], before: dict[Key, int]) -> tuple[Step, dict[Key, int]]:
    state = entry.state
    after = before if state is None else {key: ref_cnt for key, (_, ref_cnt) in state.blocks.items()}
    listed = None if state is None else state.listed
    idle = tuple(key for key, ref_cnt in after.items() if ref_cnt == 0)
    cells = tuple(Cell(key, before.get(key), after.get(key), after.get(key)) for key in keys)
    call, answer = str(entry.call), describe(entry.outcome)
    step = Step(
        number=number,
        call=call,
        answer=answer,
        said=(),
        cells=cells,
        evictable=None if listed is None else Evictable(listed, idle),
        slots=(),
        counters=(),
        words=f"The policy's owner calls {call}. The answer: {answer}.",
    )
    return step, after
