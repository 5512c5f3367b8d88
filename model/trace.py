"""The trace format, version 1: a head line, then one JSON object a call.

Counterexamples, recordings and cases all use it; it depends on nothing but JSON, so that another language
can read and replay it. Unknown fields are ignored, unknown versions refused.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from attrs import asdict, fields, frozen

from evictable.model import calls
from evictable.model.admission import ADMISSIONS
from evictable.model.calls import (
    Call,
    CallName,
    Drained,
    Event,
    Gauges,
    Key,
    Loaded,
    Outcome,
    Raised,
    Stored,
    plain_key,
)
from evictable.model.exchanges import Exchange
from evictable.model.snapshot import Snapshot
from evictable.model.trace_tiers import exchange_record, read_exchange

VERSION = 1
MOST_TIERS = 16


class TraceError(ValueError):
    """A trace that does not follow the format; the message starts with the line number."""

    def __init__(self, line: int, problem: str) -> None:
        super().__init__(f"line {line}: {problem}")
        self.line = line


class AnotherTrace(TraceError):
    """A second head: the file holds several traces, one after the other."""


@frozen
class Head:
    """The first line: who was called, and how it was built."""

    capacity: int
    subject: str = "impl"
    policy: str = "lru"
    profile: str = "auto"
    events: bool = True
    store_threshold: int = 1
    max_tracker_size: int | None = None
    admission: str | None = None
    """The rule of the admission tracker, where there is a threshold."""
    inside: bool = True
    """Whether the states are the subject's own; else it does not show its inside, and they are the model's."""
    discipline: str | None = None
    law: str | None = None
    """The law that the last call breaks, in a counterexample."""
    tiers: int = 0
    """Secondary tiers below the manager."""
    request_level: tuple[int, ...] = ()
    """Those that want whole requests."""


NOT_RECORDED = Raised("<not recorded>")


@frozen
class Entry:
    """A call, what it came to if that was recorded, and the state after it if that was."""

    call: Call
    outcome: Outcome = NOT_RECORDED
    state: Snapshot | None = None
    line: int = 0
    exchanges: tuple[Exchange, ...] = ()
    """What manager and tiers said to each other during the call."""


@frozen
class Trace:
    head: Head
    entries: tuple[Entry, ...]

    @property
    def calls(self) -> tuple[Call, ...]:
        return tuple(entry.call for entry in self.entries)


# --- reading --------------------------------------------------------------------------------------


def read(lines: Iterable[str]) -> Trace:
    """The trace in ``lines``; blank lines are skipped. Raises `TraceError` with the number of the first bad line."""
    stream = Stream.of(lines)
    return Trace(stream.head, tuple(stream))


class Stream:
    """A trace read a line at a time: its head, then by iteration its entries, once."""

    def __init__(self, head: Head, lines: Iterator[tuple[int, str]], *, may_be_cut: bool) -> None:
        self.head = head
        self.cut: int | None = None
        """The number of a last line that was cut off, once it has been met; it is left out."""
        self._lines = lines
        self._may_be_cut = may_be_cut

    @classmethod
    def of(cls, lines: Iterable[str], *, may_be_cut: bool = False) -> Stream:
        """With ``may_be_cut``, a last line without an end may be the beginning of one. Raises `TraceError`."""
        numbered = enumerate(lines, 1)
        number = 0
        for number, text in numbered:
            if text.strip():
                return cls(read_head(number, read_object(number, text)), numbered, may_be_cut=may_be_cut)
        raise TraceError(
            max(number, 1), 'the trace is empty; its first line is {"evictable_trace": 1, "capacity": ...}'
        )

    def __iter__(self) -> Iterator[Entry]:
        tiers = self.head.tiers
        for number, text in self._lines:
            if not text.strip():
                continue
            try:
                record = read_object(number, text)
            except TraceError:
                if self._may_be_cut and not text.endswith("\n"):
                    self.cut = number
                    return
                raise
            if "evictable_trace" in record:
                raise AnotherTrace(
                    number, "another trace begins here; put each into a file of its own (only replay takes all)"
                )
            entry = read_entry(number, record)
            check_tiers(number, entry, tiers)
            yield entry


def read_each(lines: Iterable[str]) -> Iterator[Trace]:
    """The traces in ``lines``, each beginning with its head. Raises `TraceError`; lines count from the first."""
    trace: list[str] = []
    skipped = 0
    for text in lines:
        if trace and '"evictable_trace"' in text and "evictable_trace" in read_object(skipped + len(trace) + 1, text):
            yield read(["\n"] * skipped + trace)
            skipped, trace = skipped + len(trace), []
        trace.append(text)
    yield read(["\n"] * skipped + trace)


def check_tiers(number: int, entry: Entry, tiers: int) -> None:
    """Raises `TraceError` if ``entry`` names a tier that there is not."""
    if entry.call.name in calls.WITH_TIERS and not tiers:
        raise TraceError(number, f'{entry.call.name} needs tiers; the first line has no "tiers"')
    for named in (entry.call, *entry.exchanges):
        tier = getattr(named, "tier", None)
        if tier is not None and not 0 <= tier < tiers:
            raise TraceError(number, f'"tier" is {tier}; tiers are numbered from 0 to {tiers - 1}')


def read_object(number: int, text: str | bytes) -> Mapping[str, Any]:
    """The JSON object that a line holds. Raises `TraceError`."""
    try:
        record = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise TraceError(number, f"not a JSON object ({error})") from None
    if not isinstance(record, dict):
        raise TraceError(number, "not a JSON object")
    return record


def read_head(number: int, record: Mapping[str, Any]) -> Head:
    """The head in ``record``. Raises `TraceError`."""
    version = record.get("evictable_trace")
    if version is None:
        raise TraceError(number, 'this is not a trace, whose first line is {"evictable_trace": 1, "capacity": ...}')
    if version != VERSION or isinstance(version, bool):
        raise TraceError(number, f"trace version {version!r}; this release reads version {VERSION}: upgrade evictable")
    threshold = _typed(number, record, "store_threshold", int, 1)
    if threshold < 1:
        raise TraceError(number, f'"store_threshold" is {threshold}; it is at least 1')
    capacity = _typed(number, record, "capacity", int)
    if capacity < 1:
        raise TraceError(number, f'"capacity" is {capacity}; a cache has at least 1 slot')
    tracker_size = _typed(number, record, "max_tracker_size", int, None)
    if tracker_size is not None and tracker_size < 1:
        raise TraceError(number, f'"max_tracker_size" is {tracker_size}; it is at least 1')
    tiers = _typed(number, record, "tiers", int, 0)
    if not 0 <= tiers <= MOST_TIERS:
        raise TraceError(number, f'"tiers" is {tiers}; it is from 0 to {MOST_TIERS}')
    request_level = _ids(number, "request_level", record.get("request_level", []))
    if not all(0 <= tier < tiers for tier in request_level):
        raise TraceError(number, f'"request_level" is {list(request_level)}; tiers are numbered from 0 to {tiers - 1}')
    admission = _typed(number, record, "admission", str, None)
    if admission is not None and admission not in ADMISSIONS:
        raise TraceError(number, f'unknown "admission" {admission!r}; known: {", ".join(ADMISSIONS)}')
    return Head(
        capacity=capacity,
        subject=_typed(number, record, "subject", str, "impl"),
        policy=_typed(number, record, "policy", str, "lru"),
        profile=_typed(number, record, "profile", str, "auto"),
        events=_typed(number, record, "events", bool, True),
        store_threshold=threshold,
        max_tracker_size=tracker_size,
        admission=admission,
        inside=_typed(number, record, "inside", bool, True),
        discipline=_typed(number, record, "discipline", str, None),
        law=_typed(number, record, "law", str, None),
        tiers=tiers,
        request_level=request_level,
    )


_REQUIRED = object()
_CALL_NAMES = frozenset(CallName)
_INTEGERS = {int}
_KEYS_END = 2**64


def _typed(number: int, record: Mapping[str, Any], name: str, kind: type, default: Any = _REQUIRED) -> Any:
    if name not in record or (record[name] is None and default is not _REQUIRED):
        if default is _REQUIRED:
            raise TraceError(number, f'"{name}" is missing')
        return default
    value = record[name]
    if not isinstance(value, kind) or (kind is int and isinstance(value, bool)):
        raise TraceError(number, f'"{name}" is {value!r}; expected {kind.__name__}')
    return value


def read_entry(number: int, record: Mapping[str, Any]) -> Entry:
    """The call in ``record``, with what it came to. Raises `TraceError`."""
    if "call" not in record:
        raise TraceError(number, 'no "call": this is no line of a trace, such as {"call": "lookup", "keys": [0], ...}')
    call = read_call(number, record)
    outcome, state = read_answer(number, call, record)
    return Entry(call, outcome, state, number, _read_exchanges(number, record))


def read_answer(number: int, call: Call, record: Mapping[str, Any]) -> tuple[Outcome, Snapshot | None]:
    """What ``record`` says that ``call`` came to, and the state after it. Raises `TraceError`."""
    outcome: Outcome = NOT_RECORDED
    if "raises" in record:
        outcome = Raised(_typed(number, record, "raises", str), _typed(number, record, "message", str, ""))
    elif "returns" in record:
        outcome = _read_answer(number, call, record["returns"])
    return outcome, read_state(number, record)


def read_state(number: int, record: Mapping[str, Any]) -> Snapshot | None:
    """The state in ``record``, if there is one. Raises `TraceError`."""
    return None if record.get("state") is None else _read_state(number, _typed(number, record, "state", dict))


def _read_exchanges(number: int, record: Mapping[str, Any]) -> tuple[Exchange, ...]:
    exchanges = []
    for one in _typed(number, record, "exchanges", list, []):
        if not isinstance(one, dict):
            raise TraceError(number, '"exchanges" is a list of {"said": ..., "tier": ...}')
        try:
            exchanges.append(read_exchange(one, lambda name, value: _keys(number, name, value)))
        except TraceError:
            raise
        except ValueError as error:
            raise TraceError(number, str(error)) from None
    return tuple(exchanges)


def read_call(number: int, record: Mapping[str, Any]) -> Call:
    """The call in ``record``. Raises `TraceError`."""
    name = _typed(number, record, "call", str)
    if name not in _CALL_NAMES:
        raise TraceError(number, f'unknown call "{name}"; known: {", ".join(CallName)}')
    if name in _PLAIN and _SELDOM.isdisjoint(record):
        return Call(name, _keys_of_call(number, name, record), _request_of(number, name, record))
    raises_in = _typed(number, record, "raises_in", str, None)
    if raises_in is not None and raises_in not in calls.FAULTS:
        known = ", ".join(calls.FAULTS)
        raise TraceError(
            number, f'a fault in {raises_in!r} ("raises_in") cannot be played by this release; known: {known}'
        )
    at = _typed(number, record, "at", int, 1)
    if at < 1:
        raise TraceError(number, f'"at" is {at}; it is at least 1')
    tier = _typed(number, record, "tier", int, None)
    if name in calls.CALLS_WITH_TIER and tier is None:
        raise TraceError(number, f'{name} needs a "tier"')
    job = _typed(number, record, "job", int, None)
    if name == calls.FINISH_JOB and job is None:
        raise TraceError(number, f'{name} needs a "job"')
    keys = _keys_of_call(number, name, record)
    limit = _typed(number, record, "limit", int, None)
    if limit is not None and limit < 0:
        raise TraceError(number, f'"limit" is {limit}; it is at least 0')
    positions = _typed(number, record, "positions", list, None)
    if positions is not None:
        if len(positions) != len(keys):
            raise TraceError(number, f"{len(positions)} positions for {len(keys)} keys")
        if not all(place is None or (isinstance(place, int) and not isinstance(place, bool)) for place in positions):
            raise TraceError(number, '"positions" holds integers or null')
    ticket = _typed(number, record, "ticket", int, None)
    return Call(
        name,
        keys,
        _request_of(number, name, record),
        success=_typed(number, record, "success", bool, True),
        limit=limit,
        positions=None if positions is None else tuple(positions),
        tier=tier if name in calls.CALLS_WITH_TIER else None,
        job=job if name == calls.FINISH_JOB else None,
        raises_in=raises_in,
        at=at,
        ticket=ticket if name in calls.TRANSFERS else None,
    )


_SELDOM = frozenset({"success", "limit", "positions", "tier", "job", "raises_in", "at", "ticket"})
"""Fields of a call that most records leave out."""
_PLAIN = _CALL_NAMES - calls.CALLS_WITH_TIER - {calls.FINISH_JOB}
"""Calls that need none of them."""


def _keys_of_call(number: int, name: str, record: Mapping[str, Any]) -> tuple[Key, ...]:
    keys = _keys(number, "keys", record.get("keys", [])) if name in calls.CALLS_WITH_KEYS else ()
    if name == calls.LOOKUP and len(keys) != 1:
        raise TraceError(number, f"lookup names {len(keys)} keys; it takes one")
    return keys


def _request_of(number: int, name: str, record: Mapping[str, Any]) -> str | None:
    request: str | None = _typed(number, record, "request", str, None)
    if name not in calls.CALLS_WITH_REQUEST:
        return None
    if request is None:
        raise TraceError(number, f'{name} needs a "request"')
    return request


def _keys(number: int, name: str, value: Any) -> tuple[Key, ...]:
    if not isinstance(value, list):
        raise TraceError(number, f'"{name}" is {value!r}; expected a list')
    if set(map(type, value)) == _INTEGERS and min(value) >= 0 and max(value) < _KEYS_END:
        return tuple(value)  # the plain case at once: logs hold millions of keys
    for key in value:
        is_index = isinstance(key, int) and not isinstance(key, bool) and 0 <= key < _KEYS_END
        if not is_index and not (isinstance(key, str) and _is_hexadecimal(key)):
            raise TraceError(
                number, f"key {key!r}: keys are integers from 0 to 2**64 - 1, or strings of hexadecimal digits"
            )
    return tuple(plain_key(key) for key in value)


def _table_key(number: int, name: str) -> Key:
    """The key that names a field of a JSON object: as `_table_name` writes it."""
    if _reads_as_index(name):
        return int(name)
    digits = name.removeprefix("0x")
    if not _is_hexadecimal(digits):
        raise TraceError(number, f"key {name!r}: not an integer from 0 to 2**64 - 1, nor hexadecimal digits")
    return plain_key(digits)


def _table_name(key: Key) -> str:
    """All names in JSON are strings: what would read as an integer but is hexadecimal begins with ``0x``."""
    return f"0x{key}" if isinstance(key, str) and _reads_as_index(key) else str(key)


def _reads_as_index(name: str) -> bool:
    return name.isascii() and name.isdecimal() and len(name) <= 20 and str(int(name)) == name and int(name) < 2**64


def _is_hexadecimal(text: str) -> bool:
    try:
        return len(bytes.fromhex(text)) * 2 == len(text) > 0
    except ValueError:
        return False


def _ids(number: int, name: str, value: Any) -> tuple[int, ...]:
    if not isinstance(value, list) or not set(map(type, value)) <= {int}:  # whose own type is not bool
        raise TraceError(number, f'"{name}" is {value!r}; expected a list of integers')
    return tuple(value)


def _read_answer(number: int, call: Call, value: Any) -> Outcome:
    if value is None:
        return None
    if call.name == calls.LOOKUP:
        if not isinstance(value, str) or value not in calls.LOOKUP_ANSWERS:
            raise TraceError(
                number, f'"returns" is {value!r}; a lookup returns {", ".join(sorted(calls.LOOKUP_ANSWERS))}'
            )
        return str(value)
    if call.name == calls.TAKE_EVENTS:
        if not isinstance(value, list) or not all(isinstance(event, dict) for event in value):
            raise TraceError(number, '"returns" of take_events is a list of {"removed": ..., "keys": [...]}')
        return Drained(
            tuple(
                Event(
                    _typed(number, event, "removed", bool),
                    _keys(number, "keys", event.get("keys")),
                    _typed(number, event, "metadata_only", bool, False),
                    _typed(number, event, "medium", str, None),
                    _typed(number, event, "locality", str, None),
                )
                for event in value
            )
        )
    if not isinstance(value, dict):
        raise TraceError(number, f'"returns" of {call.name} is {value!r}; expected an object or null')
    if call.name == calls.PREPARE_STORE:
        return Stored(
            _keys(number, "keys_to_store", value.get("keys_to_store")),
            _ids(number, "block_ids", value.get("block_ids")),
            _keys(number, "evicted_keys", value.get("evicted_keys")),
        )
    if call.name == calls.PREPARE_LOAD:
        return Loaded(_ids(number, "block_ids", value.get("block_ids")))
    if call.name == calls.GET_STATS:
        metrics = {metric.name: value.get(metric.name) for metric in fields(Gauges)}
        sizes = metrics.pop("allocation_sizes")
        if not all(one is None or isinstance(one, (int, float)) for one in metrics.values()):
            raise TraceError(number, '"returns" of get_stats holds numbers or null')
        return Gauges(**metrics, allocation_sizes=None if sizes is None else _ids(number, "allocation_sizes", sizes))
    raise TraceError(number, f"{call.name} returns null")


def _read_state(number: int, state: Mapping[str, Any]) -> Snapshot:
    def by_key(name: str) -> dict[Key, int] | None:
        table = _typed(number, state, name, dict, None)
        if table is None:
            return None
        _ids(number, name, list(table.values()))
        return {_table_key(number, key): value for key, value in table.items()}

    ref_cnt = by_key("ref_cnt")
    if ref_cnt is None:
        raise TraceError(number, '"state" has no "ref_cnt"')
    free = state.get("free")
    evictable = state.get("evictable")
    return Snapshot(
        ref_cnt=ref_cnt,
        slots=by_key("slots"),
        evictable=None if evictable is None else _keys(number, "evictable", evictable),
        num_resident=_typed(number, state, "num_resident", int, None),
        num_evictable=_typed(number, state, "num_evictable", int, None),
        num_pending=_typed(number, state, "num_pending", int, None),
        num_free=_typed(number, state, "num_free", int, None),
        num_events=_typed(number, state, "num_events", int, None),
        full=True,
        free=None if free is None else _ids(number, "free", free),
        handed_out=_typed(number, state, "handed_out", int, None),
        order=_order(number, state.get("order")),
        tracker=by_key("tracker"),
    )


def _order(number: int, value: Any, depth: int = 4) -> Any:
    """With tuples for lists, as the orders of the model have it, so that the two compare."""
    if not isinstance(value, list):
        return value
    if depth == 0:
        raise TraceError(number, '"order" is nested too deeply')
    return tuple(_order(number, part, depth - 1) for part in value)


# --- writing --------------------------------------------------------------------------------------


def write(trace: Trace) -> Iterator[str]:
    """The lines of a trace, without line ends."""
    yield json.dumps(head_record(trace.head))
    for entry in trace.entries:
        yield json.dumps(entry_record(entry))


def head_record(head: Head) -> dict[str, Any]:
    record: dict[str, Any] = {
        "evictable_trace": VERSION,
        "subject": head.subject,
        "policy": head.policy,
        "profile": head.profile,
        "capacity": head.capacity,
        "store_threshold": head.store_threshold,
        "events": head.events,
    }
    if not head.inside:
        record["inside"] = False
    if head.tiers:
        record["tiers"] = head.tiers
        record["request_level"] = list(head.request_level)
    for name in ("max_tracker_size", "admission", "discipline", "law"):
        if getattr(head, name) is not None:
            record[name] = getattr(head, name)
    return record


def entry_record(entry: Entry) -> dict[str, Any]:
    record = call_record(entry.call)
    if entry.outcome is not NOT_RECORDED:
        record |= outcome_record(entry.outcome)
    if entry.exchanges:
        record["exchanges"] = [exchange_record(one) for one in entry.exchanges]
    if entry.state is not None:
        record["state"] = state_record(entry.state)
    return record


def call_record(call: Call) -> dict[str, Any]:
    record: dict[str, Any] = {"call": call.name}
    if call.request is not None:
        record["request"] = call.request
    if call.name in calls.CALLS_WITH_KEYS:
        record["keys"] = list(call.keys)
    if call.name == calls.COMPLETE_STORE or not call.success:
        record["success"] = call.success
    for name in ("ticket", "tier", "job", "raises_in"):
        if getattr(call, name) is not None:
            record[name] = getattr(call, name)
    if call.at != 1:
        record["at"] = call.at
    if call.limit is not None:
        record["limit"] = call.limit
    if call.positions is not None:
        record["positions"] = list(call.positions)
    return record


def outcome_record(outcome: Outcome) -> dict[str, Any]:
    if isinstance(outcome, Raised):
        record = {"raises": outcome.type}
        return record | {"message": outcome.message} if outcome.message else record
    return {"returns": _answer_record(outcome)}


def _answer_record(outcome: Outcome) -> Any:
    if isinstance(outcome, Stored):
        return {
            "keys_to_store": list(outcome.keys_to_store),
            "block_ids": list(outcome.block_ids),
            "evicted_keys": list(outcome.evicted_keys),
        }
    if isinstance(outcome, Loaded):
        return {"block_ids": list(outcome.block_ids)}
    if isinstance(outcome, Drained):
        return [
            {"removed": event.removed, "keys": list(event.keys)}
            | ({"metadata_only": True} if event.metadata_only else {})
            | {name: value for name in ("medium", "locality") if (value := getattr(event, name)) is not None}
            for event in outcome.events
        ]
    if isinstance(outcome, Gauges):
        return {name: value for name, value in asdict(outcome).items() if value is not None}
    return outcome


def state_record(state: Snapshot) -> dict[str, Any]:
    record: dict[str, Any] = {"ref_cnt": {_table_name(key): count for key, count in state.ref_cnt.items()}}
    if state.slots is not None:
        record["slots"] = {_table_name(key): slot for key, slot in state.slots.items()}
    if state.evictable is not None:
        record["evictable"] = list(state.evictable)
    for name in ("num_resident", "num_evictable", "num_pending", "num_free", "num_events", "handed_out"):
        if getattr(state, name) is not None:
            record[name] = getattr(state, name)
    if state.free is not None:
        record["free"] = list(state.free)
    if state.order is not None:
        record["order"] = state.order
    if state.tracker is not None:
        record["tracker"] = {_table_name(key): count for key, count in state.tracker.items()}
    return record
