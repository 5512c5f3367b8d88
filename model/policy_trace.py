"""Traces at policy level: a head line with ``"level": "policy"``, then one JSON object a call, as in `trace`.

    {"evictable_trace": 1, "level": "policy", "subject": "vllm==0.24.0", "policy": "lru", "profile": "lru-evictable",
     "capacity": 1, "discipline": "careless", "documented": false}
    {"call": "insert", "key": 0, "ref_cnt": -1, "returns": null, "state": {"blocks": [[0, 1, -1]], "evictable": []}}
    {"call": "evict", "n": 1, "protected": [], "returns": [[0, 1]], "state": {"blocks": [], "evictable": []}}

A block is a key, a number (the first inserted is 1) and in a state its ref_cnt. Keys are non-negative integers.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from attrs import frozen

from evictable.model.calls import Raised
from evictable.model.policy_calls import (
    EVICT,
    INSERT,
    NAMES,
    OF_KEYS,
    OF_ONE_KEY,
    WITH_REF_CNT,
    Evicted,
    PolicyCall,
    PolicyOutcome,
    PolicyState,
)
from evictable.model.trace import NOT_RECORDED, VERSION, Trace, TraceError, read

LEVEL = "policy"
MOST_SLOTS = 10_000


@frozen
class PolicyHead:
    capacity: int
    subject: str = "impl"
    policy: str = "lru"
    profile: str = "auto"
    discipline: str = "careless"
    documented: bool = False
    """It is judged by what the built-in policies are documented to do with calls that do not match."""
    law: str | None = None


@frozen
class PolicyEntry:
    call: PolicyCall
    outcome: PolicyOutcome = NOT_RECORDED
    state: PolicyState | None = None
    line: int = 0


@frozen
class PolicyTrace:
    head: PolicyHead
    entries: tuple[PolicyEntry, ...]

    @property
    def keys(self) -> tuple[int, ...]:
        """All that its calls name."""
        return tuple(sorted({key for entry in self.entries for key in entry.call.keys if isinstance(key, int)}))


def is_policy_trace(first_line: str) -> bool:
    """Whether a trace with this first line is one at policy level."""
    try:
        record = json.loads(first_line)
    except (ValueError, RecursionError):
        return False
    return isinstance(record, dict) and record.get("level") == LEVEL


def read_policy_trace(lines: Iterable[str]) -> PolicyTrace:
    """Blank lines are skipped. Raises `TraceError` with the number of the first bad line."""
    head: PolicyHead | None = None
    entries = []
    for number, text in enumerate(lines, 1):
        if not text.strip():
            continue
        try:
            record = json.loads(text)
        except (ValueError, RecursionError) as error:
            raise TraceError(number, f"not a JSON object ({error})") from None
        if not isinstance(record, dict):
            raise TraceError(number, "not a JSON object")
        if head is None:
            head = _read_head(number, record)
        else:
            entries.append(_read_entry(number, record))
    if head is None:
        raise TraceError(1, 'the trace is empty; its first line is {"evictable_trace": 1, "level": "policy", ...}')
    return PolicyTrace(head, tuple(entries))


def read_either(lines: Sequence[str]) -> Trace | PolicyTrace:
    """The trace in at least one line, of whichever level it is. Raises `TraceError`."""
    return read_policy_trace(lines) if is_policy_trace(lines[0]) else read(lines)


def write_policy_trace(trace: PolicyTrace) -> Iterator[str]:
    """The lines of a trace, without line ends."""
    head = trace.head
    record = {
        "evictable_trace": VERSION,
        "level": LEVEL,
        "subject": head.subject,
        "policy": head.policy,
        "profile": head.profile,
        "capacity": head.capacity,
        "discipline": head.discipline,
        "documented": head.documented,
    }
    yield json.dumps(record if head.law is None else record | {"law": head.law})
    for entry in trace.entries:
        yield json.dumps(_entry_record(entry))


def _read_head(number: int, record: Mapping[str, Any]) -> PolicyHead:
    if record.get("evictable_trace") != VERSION:
        raise TraceError(number, f"trace version {record.get('evictable_trace')!r}; this release reads {VERSION}")
    capacity = _typed(number, record, "capacity", int)
    if not 1 <= capacity <= MOST_SLOTS:
        raise TraceError(number, f'"capacity" is {capacity}; it is from 1 to {MOST_SLOTS}')
    return PolicyHead(
        capacity,
        subject=_typed(number, record, "subject", str, "impl"),
        policy=_typed(number, record, "policy", str, "lru"),
        profile=_typed(number, record, "profile", str, "auto"),
        discipline=_typed(number, record, "discipline", str, "careless"),
        documented=_typed(number, record, "documented", bool, False),
        law=_typed(number, record, "law", str, None),
    )


def _read_entry(number: int, record: Mapping[str, Any]) -> PolicyEntry:
    call = _read_call(number, record)
    outcome: PolicyOutcome = NOT_RECORDED
    if "raises" in record:
        outcome = Raised(_typed(number, record, "raises", str), _typed(number, record, "message", str, ""))
    elif "returns" in record:
        answer = record["returns"]
        outcome = None if answer is None else Evicted(_blocks(number, "returns", answer, 2))
    state = None if record.get("state") is None else _read_state(number, _typed(number, record, "state", dict))
    return PolicyEntry(call, outcome, state, number)


def _read_call(number: int, record: Mapping[str, Any]) -> PolicyCall:
    name = _typed(number, record, "call", str)
    if name not in NAMES:
        raise TraceError(number, f"unknown call {name!r}; a policy knows {', '.join(NAMES)}")
    keys: tuple[int, ...] = ()
    if name in OF_ONE_KEY:
        keys = _integers(number, "key", [record.get("key")])
    elif name in OF_KEYS or name == EVICT:
        field_name = "protected" if name == EVICT else "keys"
        keys = _integers(number, field_name, _typed(number, record, field_name, list))
    n = _typed(number, record, "n", int) if name == EVICT else 0
    if n < 0:
        raise TraceError(number, f'"n" is {n}; it is at least 0')
    ref_cnt = _typed(number, record, "ref_cnt", int) if name in WITH_REF_CNT else 0
    again = _typed(number, record, "same_block", bool, False)
    return PolicyCall(name, keys, n=n, ref_cnt=ref_cnt, again=again)


def _read_state(number: int, record: Mapping[str, Any]) -> PolicyState:
    blocks = {key: (block, count) for key, block, count in _blocks(number, "blocks", record.get("blocks"), 3)}
    listed = record.get("evictable")
    return PolicyState(
        blocks,
        None if listed is None else _integers(number, "evictable", listed),
        _order(record.get("order")),
    )


def _blocks(number: int, name: str, value: Any, size: int) -> tuple[Any, ...]:
    if not isinstance(value, list) or not all(isinstance(one, list) and len(one) == size for one in value):
        raise TraceError(number, f'"{name}" is {value!r}; expected a list of lists of {size} integers')
    for one in value:
        _integers(number, name, one, least=-1)
    return tuple(tuple(one) for one in value)


def _integers(number: int, name: str, value: Any, least: int = 0) -> tuple[int, ...]:
    if not isinstance(value, list) or not all(type(one) is int and least <= one < 2**64 for one in value):
        raise TraceError(number, f'"{name}" is {value!r}; expected integers, keys from 0')
    return tuple(value)


def _order(value: Any) -> Any:
    """With tuples for lists, as the orders of the model have it."""
    return tuple(map(_order, value)) if isinstance(value, list) else value


_REQUIRED = object()


def _typed(number: int, record: Mapping[str, Any], name: str, kind: type, default: Any = _REQUIRED) -> Any:
    value = record.get(name, default)
    if value is _REQUIRED:
        raise TraceError(number, f'"{name}" is missing')
    if value is default:
        return value
    if not isinstance(value, kind) or (kind is int and isinstance(value, bool)):
        raise TraceError(number, f'"{name}" is {value!r}; expected {kind.__name__}')
    return value


def _entry_record(entry: PolicyEntry) -> dict[str, Any]:
    record = _call_record(entry.call)
    if isinstance(entry.outcome, Raised):
        if entry.outcome is not NOT_RECORDED:
            record |= {"raises": entry.outcome.type, "message": entry.outcome.message}
    else:
        record["returns"] = None if entry.outcome is None else [list(block) for block in entry.outcome.blocks]
    if entry.state is not None:
        state = entry.state
        blocks = [[key, number, count] for key, (number, count) in state.blocks.items()]
        listed = None if state.listed is None else list(state.listed)
        record["state"] = {"blocks": blocks, "evictable": listed, "order": state.order}
    return record


def _call_record(call: PolicyCall) -> dict[str, Any]:
    record: dict[str, Any] = {"call": call.name}
    if call.name in OF_ONE_KEY:
        record["key"] = call.key
    elif call.name in OF_KEYS:
        record["keys"] = list(call.keys)
    elif call.name == EVICT:
        record |= {"n": call.n, "protected": list(call.keys)}
    if call.name in WITH_REF_CNT:
        record["ref_cnt"] = call.ref_cnt
    if call.name == INSERT and call.again:
        record["same_block"] = True
    return record
