"""How exchanges between manager and tiers stand in a trace: one JSON object each, in the order of saying."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from attrs import fields

from evictable.model.calls import Key
from evictable.model.exchanges import (
    Asked,
    Exchange,
    PeerAsked,
    PeerClaims,
    PeerFinished,
    Reported,
    Reserved,
    Submitted,
    ToldFinished,
    Waited,
)

KINDS: Mapping[str, type[Exchange]] = {
    "asked": Asked,
    "reserved": Reserved,
    "submitted": Submitted,
    "reported": Reported,
    "told_finished": ToldFinished,
    "waited": Waited,
    "peer_asked": PeerAsked,
    "peer_claims": PeerClaims,
    "peer_finished": PeerFinished,
}
_NAMES = {kind: name for name, kind in KINDS.items()}


def exchange_record(exchange: Exchange) -> dict[str, Any]:
    """An exchange as plain data, under its kind."""
    record: dict[str, Any] = {"said": _NAMES[type(exchange)]}
    for part in fields(type(exchange)):
        name, value = part.name, getattr(exchange, part.name)
        if name == "ended":
            record[name] = [[job, list(keys)] for job, keys in value]
        else:
            record[name] = list(value) if isinstance(value, tuple) else value
    return record


Keys = Callable[[str, Any], tuple[Key, ...]]
"""Reads a list of keys, given the name of its field. Raises what the caller of `read_exchange` expects."""


def read_exchange(record: Mapping[str, Any], keys_of: Keys) -> Exchange:
    """The exchange in ``record``. Raises `ValueError` with one clear sentence, and what ``keys_of`` raises."""

    def typed(name: str, kind: type, default: Any = None) -> Any:
        value = record.get(name, default)
        if not isinstance(value, kind) or (kind is int and isinstance(value, bool)):
            raise ValueError(f'"{name}" of {said!r} is {value!r}; expected {kind.__name__}')
        return value

    def keys(name: str = "keys") -> tuple[Key, ...]:
        return keys_of(name, typed(name, list))

    def ids() -> tuple[int, ...]:
        value = typed("block_ids", list)
        if not all(isinstance(one, int) and not isinstance(one, bool) for one in value):
            raise ValueError(f'"block_ids" is {value!r}; expected a list of integers')
        return tuple(value)

    def key() -> Key:
        return keys_of("key", [record.get("key")])[0]

    said = record.get("said")
    if said == "reserved":
        room = None if record.get("block_ids") is None else ids()
        return Reserved(keys(), room, keys_of("evicted", record.get("evicted", [])))
    if not isinstance(said, str) or said not in KINDS:
        raise ValueError(f'"said" is {said!r}; known: {", ".join(KINDS)}')
    tier = typed("tier", int)
    if said == "asked":
        return Asked(tier, key(), typed("answer", str))
    if said == "submitted":
        return Submitted(
            tier,
            typed("job", int),
            typed("promotion", bool),
            keys(),
            ids(),
            typed("request", str),
            typed("raised", bool, False),
        )
    if said == "reported":
        return Reported(tier, typed("job", int), keys(), typed("success", bool))
    if said in ("told_finished", "peer_finished"):
        return (ToldFinished if said == "told_finished" else PeerFinished)(tier, typed("request", str))
    if said == "peer_asked":
        return PeerAsked(tier, typed("request", str), key(), typed("answer", str))
    if said == "peer_claims":
        return PeerClaims(tier, typed("request", str), keys())
    ended = typed("ended", list)
    if not all(isinstance(one, list) and len(one) == 2 and isinstance(one[0], int) for one in ended):
        raise ValueError(f'"ended" is {ended!r}; expected a list of [job, [key, ...]]')
    return Waited(tier, tuple((job, keys_of("ended", moved)) for job, moved in ended))
