"""What a call did, in words."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence

from evictable.model import calls
from evictable.model.calls import Call, Drained, Gauges, Key, Loaded, Outcome, Raised, Stored, describe
from evictable.model.manager import Manager
from evictable.specs.drawing.drawing import BrokenLaw, Cell, state_of

_STATES = {"absent": "absent", "pending": "being stored", "idle": "idle", "illegal": "in no legal state"}


def words_of(call: Call, outcome: Outcome, cells: Sequence[Cell]) -> str:
    """The call, what it came to, and what became of each block, in a few sentences."""
    asked = _ASKED[call.name](call)
    if call.raises_in is not None:
        asked += f", while {call.raises_in} raises at use {call.at}"
    changes = "; ".join(_change(cell) for cell in cells if cell.changed)
    return " ".join(part for part in (f"{asked}.", _answered(call, outcome), changes and f"Block {changes}.") if part)


def verdict_of(broken: Sequence[BrokenLaw]) -> str:
    """Why the last call is wrong."""
    return " ".join(
        f"That breaks {one.law}: {one.sentence}. Expected: {one.expected}. Observed: {one.observed}." for one in broken
    )


def misplaced_in(model: Manager, call: Call) -> str:
    """What of ``call`` a careful caller would not have named, with the reason; empty if nothing."""
    wrong = dict.fromkeys(call.keys[place] for place in model.misplaced(call))
    if not wrong and call.name == calls.RESET_CACHE and not model.at_rest:
        return "a reset with transfers in flight"
    return "; ".join(_reason(model, call, key) for key in wrong)


def _reason(model: Manager, call: Call, key: Key) -> str:
    if call.name == calls.PREPARE_STORE:
        return f"{key} is named twice"
    if call.name == calls.PREPARE_LOAD:
        return f"{key} is {'absent' if key not in model.ref_cnt else 'still being stored'}"
    transfer = "store" if call.name == calls.COMPLETE_STORE else "load"
    open_ones = model.stores.get(key) == call.owner if transfer == "store" else (call.owner, key) in model.loads
    if open_ones:
        return f"{key} is completed more often than prepared"
    return f"{call.owner} has no {transfer} of {key} in flight"


def _change(cell: Cell) -> str:
    return f"{cell.key}: {_state(cell.before)} -> {_state(cell.after)}"


def _state(ref_cnt: int | None) -> str:
    state = state_of(ref_cnt)
    if state == "pinned":
        return f"in use {ref_cnt} time{'s' if ref_cnt != 1 else ''}"
    return _STATES[state] + (f" ({ref_cnt})" if ref_cnt is not None else "")


def _answered(call: Call, outcome: Outcome) -> str:
    if isinstance(outcome, Raised):
        return f"The manager {outcome}."
    if isinstance(outcome, Stored):
        return _stored(outcome)
    if isinstance(outcome, Loaded):
        return f"It is told to read from slots {list(outcome.block_ids)}."
    if isinstance(outcome, (Drained, Gauges)) or call.name == calls.LOOKUP:
        return f"The answer: {describe(outcome)}."
    return "The answer is None: refused." if call.name == calls.PREPARE_STORE else ""


def _stored(outcome: Stored) -> str:
    parts = [
        f"{key} goes into slot {slot}" for key, slot in zip(outcome.keys_to_store, outcome.block_ids, strict=False)
    ]
    if outcome.evicted_keys:
        parts.append(f"{_listed(outcome.evicted_keys)} evicted for it")
    return f"The answer: {', '.join(parts) or 'there is nothing to store'}."


def _listed(keys: Collection[Key]) -> str:
    return f"{', '.join(map(str, keys))} {'is' if len(keys) == 1 else 'are'}"


def _named(call: Call) -> str:
    return ", ".join(map(str, call.keys)) or "nothing"


_ASKED: dict[str, Callable[[Call], str]] = {
    calls.ON_NEW_REQUEST: lambda call: f"Request {call.request} begins",
    calls.ON_REQUEST_FINISHED: lambda call: f"Request {call.request} has finished",
    calls.LOOKUP: lambda call: f"{call.request} asks whether {_named(call)} is there",
    calls.PREPARE_STORE: lambda call: f"{call.request} asks for room to store {_named(call)}",
    calls.COMPLETE_STORE: lambda call: (
        f"{call.request} reports that its store of {_named(call)} {'is done' if call.success else 'has failed'}"
    ),
    calls.PREPARE_LOAD: lambda call: f"{call.request} begins to read {_named(call)}",
    calls.COMPLETE_LOAD: lambda call: f"{call.request} reports that it has read {_named(call)}",
    calls.TOUCH: lambda call: f"{call.request} says that {_named(call)} was used",
    calls.TAKE_EVENTS: lambda call: (
        "A consumer takes the events" + ("" if call.limit is None else f", and stops after {call.limit}")
    ),
    calls.RESET_CACHE: lambda call: "The cache is reset",
    calls.GET_STATS: lambda call: "The metrics are read",
    calls.ON_SCHEDULE_END: lambda call: "The scheduler step ends",
    calls.FILL_TIER: lambda call: f"Tier {call.tier} holds {_named(call)}, from before",
    calls.DELAY_TIER: lambda call: f"Tier {call.tier} answers RETRY for {_named(call)} until the step ends",
    calls.FINISH_JOB: lambda call: f"Job {call.job} ends, having transferred {_named(call)}",
    calls.PEER_LOOKUP: lambda call: f"Behind tier {call.tier}, {call.request} asks for {_named(call)}",
}
