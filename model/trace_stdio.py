"""What a manager in another process says of itself when it is given the head line of a trace."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from attrs import frozen

from evictable.model.admission import ADMISSIONS, Admission
from evictable.model.snapshot import Snapshot
from evictable.model.trace import TraceError, read_state, state_record

PROTOCOL = 1
MOST_PATIENCE = 15.0
"""Seconds: longer than that nobody waits for an answer."""


@frozen
class Hello:
    """The answer to a head line: a manager has been constructed as that says, in place of any before it."""

    name: str = ""
    version: str = ""
    profile: str = "any"
    """Its order of eviction under the policy of the head line."""
    events: bool = True
    """Whether it records events at all."""
    tickets: bool = False
    """Whether it heeds the ``ticket`` of a call."""
    admission: str = Admission.name
    """The rule of its admission tracker."""
    patience: float | None = None
    """Seconds after which a call of it counts as hung."""
    state: Snapshot | None = None
    """Its state at the beginning. Whoever tells this one tells the state after every call."""


def hello_record(hello: Hello) -> dict[str, Any]:
    record: dict[str, Any] = {
        "evictable_stdio": PROTOCOL,
        "name": hello.name,
        "version": hello.version,
        "profile": hello.profile,
        "events": hello.events,
        "tickets": hello.tickets,
        "admission": hello.admission,
    }
    return record if hello.state is None else record | {"state": state_record(hello.state)}


def read_hello(record: Mapping[str, Any]) -> Hello:
    """The hello in ``record``. Raises `TraceError`."""
    if "evictable_stdio" not in record:
        raise TraceError(1, 'the answer to the head line has no "evictable_stdio": 1')
    if record["evictable_stdio"] != PROTOCOL or isinstance(record["evictable_stdio"], bool):
        raise TraceError(1, f'"evictable_stdio" is {record["evictable_stdio"]!r}; this release speaks {PROTOCOL}')
    known = {"name": str, "version": str, "profile": str, "events": bool, "tickets": bool, "admission": str}
    told = {name: record[name] for name in known if record.get(name) is not None}
    for name, value in told.items():
        if not isinstance(value, known[name]):
            raise TraceError(1, f'"{name}" is {value!r}; expected {known[name].__name__}')
    if told.get("admission", Admission.name) not in ADMISSIONS:
        raise TraceError(1, f'unknown "admission" {told["admission"]!r}; known: {", ".join(ADMISSIONS)}')
    return Hello(**told, patience=_patience(record.get("patience")), state=read_state(1, record))


def _patience(value: Any) -> float | None:
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 < value <= MOST_PATIENCE:
        raise TraceError(1, f'"patience" is {value!r}; it is in seconds, up to {MOST_PATIENCE:g}')
    return float(value)
