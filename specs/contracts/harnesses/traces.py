"""Reading a trace: any text reads, or is refused with a `TraceError` that names its line."""

from __future__ import annotations

from typing import Any

from evictable.model.trace import TraceError, read, read_call, read_entry, read_head
from evictable.specs.contracts.caches import chosen

HEAD = '{"evictable_trace": 1, "capacity": 2}'
CALL = '{"call": "lookup", "keys": [3], "request": "r"}'
WORDS = ("", "{", "}", "[", "]", '{"call":', '"touch"', '"take_events"', "1", "null", ",", "-", '"', "\\")
READ = ("", '{"call":"take_events"}')
"""What of up to three of those words is no fault: a blank line, and a call that needs nothing else."""
DIGITS = "0123456789abcdefABCDEF"
ODD: tuple[Any, ...] = (None, True, -1, 0, 2, 2**64, 1.5, "", "0A", "zz", (), [], [7], ["0a"], [None], {}, {"3": 1})
"""Values that JSON can put anywhere, of every kind; ``()`` stands for a field that is not there."""


def any_short_text(head: str, text: str) -> bool:
    """
    pre: len(head) <= 1 and len(text) <= 1 and head.isascii() and text.isascii()
    post: _
    """
    try:
        read([head, text])
    except TraceError as error:
        return 1 <= error.line <= 2
    return False


def any_short_line_after_a_head(text: str, blank_first: bool) -> bool:
    """
    pre: len(text) <= 1 and text.isascii()
    post: _
    """
    lines = [HEAD, "", text] if blank_first else [HEAD, text]
    try:
        return read(lines).entries == () and not text.strip()
    except TraceError as error:
        return error.line == len(lines)


def any_two_words(i: int, j: int) -> bool:
    """
    pre: 0 <= i <= 13 and 0 <= j <= 13
    post: _
    """
    text = chosen(i, *WORDS) + chosen(j, *WORDS)
    try:
        read([HEAD, text])
    except TraceError as error:
        return text not in READ and error.line == 2
    return text in READ


def any_three_words(i: int, j: int, k: int) -> bool:
    """
    pre: 0 <= i <= 13 and 0 <= j <= 13 and 0 <= k <= 13
    post: _
    """
    text = chosen(i, *WORDS) + chosen(j, *WORDS) + chosen(k, *WORDS)
    try:
        read([HEAD, text])
    except TraceError as error:
        return text not in READ and error.line == 2
    return text in READ


def a_line_cut_off(at: int, of_head: bool) -> bool:
    """
    pre: 0 <= at <= 60
    post: _
    """
    line = HEAD if of_head else CALL
    cut = line[: chosen(at, *range(61))]
    try:
        trace = read([cut] if of_head else [HEAD, cut])
    except TraceError as error:
        return len(cut) < len(line) and error.line == (1 if of_head else 2)
    return cut == line or (not of_head and not cut and trace.entries == ())


def a_head_within_bounds(capacity: int, threshold: int, size: int, tiers: int) -> bool:
    """
    pre: capacity >= 1 and threshold >= 1 and size >= 0 and 0 <= tiers <= 16
    post: _
    """
    record = {"evictable_trace": 1, "capacity": capacity, "store_threshold": threshold}
    if size:
        record["max_tracker_size"] = size
    if tiers:
        record["tiers"] = tiers
    head = read_head(1, record)
    built = (head.capacity, head.store_threshold, head.max_tracker_size, head.tiers)
    return built == (capacity, threshold, size if size else None, tiers)


def a_head_beyond_bounds(capacity: int, threshold: int, size: int, tiers: int) -> bool:
    """
    pre: -1 <= capacity <= 1 and -1 <= threshold <= 1 and -1 <= size <= 1 and (-1 <= tiers <= 0 or 16 <= tiers <= 17)
    post: _
    """
    record = {
        "evictable_trace": 1,
        "capacity": capacity,
        "store_threshold": threshold,
        "max_tracker_size": size,
        "tiers": tiers,
    }
    good = capacity >= 1 and threshold >= 1 and size >= 1 and 0 <= tiers <= 16
    try:
        read_head(1, record)
    except TraceError:
        return not good
    return good


def any_key_within_bounds(key: int, position: int, twice: bool) -> bool:
    """
    pre: 0 <= key < 2**64
    post: _
    """
    keys = [key, key] if twice else [key]
    record: dict[str, Any] = {"call": "touch", "request": "r", "keys": keys}
    if position >= 0:
        record["positions"] = [position] * len(keys)
    call = read_call(1, record)
    return call.keys == tuple(keys) and call.positions == (None if position < 0 else (position,) * len(keys))


def a_key_of_two_characters(first: str, digit_follows: bool) -> bool:
    """
    pre: len(first) == 1 and first.isascii()
    post: _
    """
    second = "a" if digit_follows else "g"
    try:
        read_call(1, {"call": "touch", "request": "r", "keys": [first + second]})
    except TraceError:
        return first not in DIGITS or not digit_follows
    return first in DIGITS and digit_follows


def any_value_in_a_call(keys: int, request: int, limit: int) -> bool:
    """
    pre: 0 <= keys <= 16 and 0 <= request <= 2 and 0 <= limit <= 2
    post: _
    """
    requests: tuple[Any, ...] = ((), 7, "r")
    values: dict[str, Any] = {
        "keys": chosen(keys, *ODD),
        "request": chosen(request, *requests),
        "limit": chosen(limit, -1, 2, "2"),
    }
    record = {"call": "touch"} | {name: value for name, value in values.items() if value != ()}
    try:
        call = read_call(7, record)
    except TraceError as error:
        return error.line == 7
    return isinstance(call.keys, tuple) and isinstance(call.request, str) and (call.limit is None or call.limit >= 0)


def any_value_returned(name: int, value: int, raises: int) -> bool:
    """
    pre: 0 <= name <= 4 and 0 <= value <= 16 and 0 <= raises <= 2
    post: _
    """
    called = chosen(name, "lookup", "prepare_store", "prepare_load", "take_events", "get_stats")
    returned, raised = chosen(value, *ODD), chosen(raises, (), 1, "KeyError")
    record: dict[str, Any] = {"call": called, "request": "r", "keys": [1]}
    record |= {} if returned == () else {"returns": returned}
    record |= {} if raised == () else {"raises": raised}
    try:
        return read_entry(7, record).line == 7
    except TraceError as error:
        return error.line == 7


def any_value_in_a_state(counts: int, free: int, order: int) -> bool:
    """
    pre: 0 <= counts <= 16 and 0 <= free <= 3 and 0 <= order <= 2
    post: _
    """
    slots: tuple[Any, ...] = ((), 7, [1], ["1"])
    orders: tuple[Any, ...] = ([], {}, [[[[[1]]]]])
    values: dict[str, Any] = {
        "ref_cnt": chosen(counts, *ODD),
        "free": chosen(free, *slots),
        "order": chosen(order, *orders),
    }
    state = {name: value for name, value in values.items() if value != ()}
    try:
        entry = read_entry(7, {"call": "touch", "request": "r", "keys": [], "state": state})
    except TraceError as error:
        return error.line == 7
    return entry.state is not None and isinstance(entry.state.ref_cnt, dict)
