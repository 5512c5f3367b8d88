"""Traces at policy level: written and read again, and bad ones told with their line."""

from __future__ import annotations

import json

import pytest

from evictable.model.calls import Raised
from evictable.model.policy_calls import NAMES, OF_ONE_KEY, Evicted, PolicyCall, PolicyState
from evictable.model.policy_trace import (
    PolicyEntry,
    PolicyHead,
    PolicyTrace,
    is_policy_trace,
    read_policy_trace,
    write_policy_trace,
)
from evictable.model.trace import NOT_RECORDED, TraceError

HEAD = '{"evictable_trace": 1, "level": "policy", "capacity": 2}'
STATE = PolicyState({0: (1, -1), 1: (2, 0)}, (1,), ((0, 1), (), 1.5))


def test_what_was_written_is_read() -> None:
    entries = [PolicyEntry(PolicyCall(name, (1,) if name in OF_ONE_KEY else ()), None) for name in NAMES]
    entries += [
        PolicyEntry(PolicyCall("insert", (0,), ref_cnt=-1, again=True), Raised("KeyError", "0"), STATE),
        PolicyEntry(PolicyCall("evict", (0, 1), n=2), Evicted(((1, 2),)), PolicyState({})),
        PolicyEntry(PolicyCall("touch", (1, 0)), NOT_RECORDED),
    ]
    head = PolicyHead(3, "vllm==0.24.0", "arc", "arc-no-fallback", "careless", True, "answer")
    lines = list(write_policy_trace(PolicyTrace(head, tuple(entries))))
    read = read_policy_trace(lines)
    assert (head, lines) == (read.head, list(write_policy_trace(read)))
    assert [entry.call for entry in entries] == [entry.call for entry in read.entries]
    assert STATE == read.entries[-3].state


@pytest.mark.parametrize(
    ("line", "is_one"), [(HEAD, True), ('{"evictable_trace": 1, "capacity": 2}', False), ("{", False), ("[]", False)]
)
def test_the_head_tells_the_level(line: str, is_one: bool) -> None:
    assert is_one == is_policy_trace(line)


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        ([], "line 1: the trace is empty; "),
        (["{"], "line 1: not a JSON object ("),
        (["[]"], "line 1: not a JSON object"),
        (['{"evictable_trace": 2, "level": "policy"}'], "line 1: trace version 2; this release reads 1"),
        (['{"evictable_trace": 1, "capacity": 0}'], 'line 1: "capacity" is 0; it is from 1 to 10000'),
        (['{"evictable_trace": 1}'], 'line 1: "capacity" is missing'),
        ([HEAD, "", '{"call": "lookup"}'], "line 3: unknown call 'lookup'; a policy knows insert, "),
        (
            [HEAD, '{"call": "insert", "key": -1, "ref_cnt": 0}'],
            'line 2: "key" is [-1]; expected integers, keys from 0',
        ),
        ([HEAD, '{"call": "insert", "key": 0}'], 'line 2: "ref_cnt" is missing'),
        ([HEAD, '{"call": "touch", "keys": 1}'], 'line 2: "keys" is 1; expected list'),
        ([HEAD, '{"call": "evict", "n": -1, "protected": []}'], 'line 2: "n" is -1; it is at least 0'),
        ([HEAD, '{"call": "evict", "n": true, "protected": []}'], 'line 2: "n" is True; expected int'),
        (
            [HEAD, '{"call": "clear", "returns": [[0]]}'],
            'line 2: "returns" is [[0]]; expected a list of lists of 2 integers',
        ),
    ],
)
def test_a_bad_trace_is_told_with_its_line(lines: list[str], message: str) -> None:
    with pytest.raises(TraceError) as raised:
        read_policy_trace(lines)
    assert str(raised.value).startswith(message)


def test_what_is_not_known_is_passed_over() -> None:
    line = json.dumps({"call": "clear", "returns": None, "colour": "red"})
    assert (PolicyCall("clear"),) == tuple(entry.call for entry in read_policy_trace([HEAD, line]).entries)
