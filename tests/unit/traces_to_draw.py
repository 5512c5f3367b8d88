"""Traces with a known wrong cell."""

from __future__ import annotations

import json
from typing import Any

from evictable.model.policy_trace import read_policy_trace
from evictable.model.trace import Trace, read
from evictable.specs.drawing.draw import LAST, draw
from evictable.specs.drawing.drawing import BrokenLaw, Drawing
from evictable.specs.drawing.policies import draw_policy

HEAD = {"evictable_trace": 1, "subject": "s", "policy": "lru", "profile": "lru-evictable", "capacity": 2}


def state(ref_cnt: dict[int, int], evictable: list[int], slots: dict[int, int] | None = None) -> dict[str, Any]:
    slots = dict.fromkeys(ref_cnt) if slots is None else slots
    placed = {str(key): place if slot is None else slot for place, (key, slot) in enumerate(slots.items())}
    return {"ref_cnt": {str(key): count for key, count in ref_cnt.items()}, "slots": placed, "evictable": evictable}


def stored(*keys: int) -> list[dict[str, Any]]:
    """A store of keys by r1, prepared and completed."""
    answer = {"keys_to_store": list(keys), "block_ids": list(range(len(keys))), "evicted_keys": []}
    return [
        {"call": "prepare_store", "request": "r1", "keys": list(keys), "returns": answer}
        | {"state": state(dict.fromkeys(keys, -1), [])},
        {"call": "complete_store", "request": "r1", "keys": list(keys), "success": True, "returns": None}
        | {"state": state(dict.fromkeys(keys, 0), list(keys))},
    ]


def foreign(*keys: int, wrong: int) -> list[dict[str, Any]]:
    """r1 reads all keys, and r2's report about one of them is believed."""
    slots = {"block_ids": list(range(len(keys)))}
    pinned = {key: int(key != wrong) for key in keys}
    return [
        *stored(*keys),
        {"call": "prepare_load", "request": "r1", "keys": list(keys), "returns": slots}
        | {"state": state(dict.fromkeys(keys, 1), [])},
        {"call": "complete_load", "request": "r2", "keys": [wrong], "returns": None}
        | {"state": state(pinned, [wrong])},
    ]


def lines_of(entries: list[dict[str, Any]], **head: Any) -> list[str]:
    return [json.dumps(HEAD | head), *map(json.dumps, entries)]


def drawn(entries: list[dict[str, Any]], *, last: int = LAST, told: tuple[BrokenLaw, ...] = (), **head: Any) -> Drawing:
    trace: Trace = read(lines_of(entries, **head))
    return draw(trace.head, lambda: trace.entries, trace.head.profile, last=last, told=told)


def drawn_policy(entries: list[dict[str, Any]], **head: Any) -> Drawing:
    trace = read_policy_trace(lines_of(entries, level="policy", **head))
    return draw_policy(trace, trace.head.profile)


def wrong_keys(drawing: Drawing) -> list[tuple[int, Any]]:
    """Each marked cell: the number of its call, and its key."""
    return [(step.number, cell.key) for step in drawing.steps for cell in step.cells if cell.wrong]


PROMOTION = {
    "said": "submitted",
    "tier": 0,
    "job": 0,
    "promotion": True,
    "keys": [7],
    "block_ids": [0],
    "request": "r1",
}


def tiered_entries() -> list[dict[str, Any]]:
    asked = [{"said": "asked", "tier": 0, "key": 7, "answer": "HIT"}]
    reserved = [{"said": "reserved", "keys": [7], "block_ids": [0], "evicted": []}]
    return [
        {"call": "fill_tier", "tier": 0, "keys": [7], "returns": None},
        {"call": "on_new_request", "request": "r1", "returns": None},
        {"call": "lookup", "request": "r1", "keys": [7], "returns": "HIT_PENDING", "exchanges": asked + reserved},
        {"call": "on_schedule_end", "returns": None, "exchanges": [PROMOTION]},
        {"call": "finish_job", "job": 0, "keys": [7], "returns": None},
        {"call": "on_schedule_end", "returns": None}
        | {"exchanges": [{"said": "reported", "tier": 0, "job": 0, "keys": [7], "success": True}]},
    ]
