"""The trace format: what is written reads back, and what does not follow it is refused with its line."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from evictable.model import calls
from evictable.model.admission import ADMISSIONS
from evictable.model.calls import Call, Drained, Event, Gauges, Loaded, Outcome, Raised, Stored
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
from evictable.model.snapshot import Snapshot
from evictable.model.trace import MOST_TIERS, NOT_RECORDED, Entry, Head, Trace, TraceError, read, write
from evictable.model.trace_tiers import KINDS

HEAD = '{"evictable_trace": 1, "capacity": 2}'
TIERED_HEAD = '{"evictable_trace": 1, "capacity": 2, "tiers": 2}'

# --- what is written reads back -------------------------------------------------------------------

KEYS = st.integers(0, 2**64 - 1) | st.binary(min_size=1, max_size=12).map(bytes.hex) | st.sampled_from(("10", "0123"))
KEY_TUPLES = st.lists(KEYS, max_size=3).map(tuple)
IDS = st.lists(st.integers(-1, 9), max_size=3).map(tuple)
NAMES = st.text(max_size=5)
GAUGES = st.none() | st.floats(allow_nan=False, allow_infinity=False)
PLACES = st.none() | NAMES
EVENTS = st.lists(st.builds(Event, st.booleans(), KEY_TUPLES, st.booleans(), PLACES, PLACES), max_size=3).map(tuple)
ANSWERS: dict[str, st.SearchStrategy[Outcome]] = {
    calls.LOOKUP: st.sampled_from(sorted(calls.LOOKUP_ANSWERS)),
    calls.PREPARE_STORE: st.none() | st.builds(Stored, KEY_TUPLES, IDS, KEY_TUPLES),
    calls.PREPARE_LOAD: st.builds(Loaded, IDS),
    calls.TAKE_EVENTS: st.builds(Drained, EVENTS),
    calls.GET_STATS: st.builds(Gauges, GAUGES, GAUGES, GAUGES, GAUGES, st.none() | IDS, GAUGES),
}
COUNTS = st.none() | st.integers(-2, 9)
STATES = st.builds(
    Snapshot,
    ref_cnt=st.dictionaries(KEYS, st.integers(-1, 3), max_size=4),
    slots=st.none() | st.dictionaries(KEYS, st.integers(0, 3), max_size=4),
    evictable=st.none() | KEY_TUPLES,
    num_resident=COUNTS,
    num_evictable=COUNTS,
    num_free=COUNTS,
    num_pending=COUNTS,
    num_events=COUNTS,
    full=st.just(True),
    free=st.none() | IDS,
    handed_out=COUNTS,
    order=st.none() | st.lists(st.integers(0, 9) | st.lists(KEYS, max_size=2).map(tuple), max_size=3).map(tuple),
)


TIERS = 2
TIER = st.integers(0, TIERS - 1)
JOB = st.integers(-1, 9)
LOOKED_UP = st.sampled_from(sorted(calls.LOOKUP_ANSWERS))
SAID: dict[str, st.SearchStrategy[Exchange]] = {
    "asked": st.builds(Asked, TIER, KEYS, LOOKED_UP),
    "reserved": st.builds(Reserved, KEY_TUPLES, st.none() | IDS, KEY_TUPLES),
    "submitted": st.builds(Submitted, TIER, JOB, st.booleans(), KEY_TUPLES, IDS, NAMES, st.booleans()),
    "reported": st.builds(Reported, TIER, JOB, KEY_TUPLES, st.booleans()),
    "told_finished": st.builds(ToldFinished, TIER, NAMES),
    "waited": st.builds(Waited, TIER, st.lists(st.tuples(JOB, KEY_TUPLES), max_size=2).map(tuple)),
    "peer_asked": st.builds(PeerAsked, TIER, NAMES, KEYS, LOOKED_UP),
    "peer_claims": st.builds(PeerClaims, TIER, NAMES, KEY_TUPLES),
    "peer_finished": st.builds(PeerFinished, TIER, NAMES),
}


@st.composite
def entries(draw: st.DrawFn, name: str) -> Entry:
    keys = draw(KEY_TUPLES) if name in calls.CALLS_WITH_KEYS else ()
    if name == calls.LOOKUP:
        keys = (draw(KEYS),)
    place = st.none() | st.integers(0, 99)
    call = Call(
        name,
        keys,
        draw(NAMES) if name in calls.CALLS_WITH_REQUEST else None,
        success=draw(st.booleans()) if name in (calls.COMPLETE_STORE, calls.RESET_CACHE) else True,
        limit=draw(st.none() | st.integers(0, 3)) if name == calls.TAKE_EVENTS else None,
        positions=draw(st.none() | st.tuples(*[place] * len(keys))),
        tier=draw(TIER) if name in calls.CALLS_WITH_TIER else None,
        job=draw(JOB) if name == calls.FINISH_JOB else None,
        raises_in=draw(st.none() | st.sampled_from(calls.FAULTS)),
        at=draw(st.integers(1, 3)),
    )
    raised = st.builds(Raised, NAMES, NAMES)
    answer = draw(ANSWERS.get(name, st.none()) | raised | st.just(NOT_RECORDED))
    return Entry(call, answer, draw(st.none() | STATES))


HEADS = st.builds(
    Head,
    capacity=st.integers(1, 9),
    subject=NAMES,
    policy=NAMES,
    profile=NAMES,
    events=st.booleans(),
    store_threshold=st.integers(1, 3),
    max_tracker_size=st.none() | st.integers(1, 9),
    admission=st.none() | st.sampled_from(sorted(ADMISSIONS)),
    discipline=st.none() | NAMES,
    law=st.none() | NAMES,
    tiers=st.just(TIERS),
    request_level=st.lists(TIER, max_size=2).map(tuple),
)


@pytest.mark.parametrize("name", sorted(calls.CallName))
@settings(max_examples=25)
@given(data=st.data(), head=HEADS)
def test_what_is_written_reads_back(name: str, data: st.DataObject, head: Head) -> None:
    written = data.draw(st.lists(entries(str(name)), max_size=4))
    again = read(write(Trace(head, tuple(written))))
    lines = range(2, 2 + len(written))
    assert head == again.head
    assert list(zip(lines, written, strict=True)) == [
        (entry.line, Entry(entry.call, entry.outcome, entry.state)) for entry in again.entries
    ]
    messages = [entry.outcome.message for entry in again.entries if isinstance(entry.outcome, Raised)]
    expected = [entry.outcome.message for entry in written if isinstance(entry.outcome, Raised)]
    assert expected == messages
    assert tuple(entry.call for entry in written) == again.calls


@pytest.mark.parametrize("kind", KINDS)
@settings(max_examples=25)
@given(data=st.data())
def test_what_was_said_reads_back(kind: str, data: st.DataObject) -> None:
    said = data.draw(st.lists(SAID[kind], min_size=1, max_size=3).map(tuple))
    entry = Entry(Call(calls.ON_SCHEDULE_END), None, line=2, exchanges=said)
    assert {KINDS[kind]} == set(map(type, said))
    assert (entry,) == read(write(Trace(Head(capacity=1, tiers=TIERS), (entry,)))).entries


def test_a_head_without_tiers_says_nothing_of_them() -> None:
    (line,) = write(Trace(Head(capacity=1), ()))
    assert set() == {"tiers", "request_level"} & json.loads(line).keys()


def test_the_example_of_the_format() -> None:
    lines = [
        '{"evictable_trace": 1, "subject": "vllm==0.29.0", "policy": "arc", "profile": "arc", "capacity": 2, '
        '"store_threshold": 1, "events": true}',
        '{"call": "prepare_store", "request": "r1", "keys": [3, 0], "returns": '
        '{"keys_to_store": [3, 0], "block_ids": [0, 1], "evicted_keys": []}}',
        '{"call": "complete_store", "request": "r1", "keys": [3, 0], "success": true, "returns": null}',
        '{"call": "prepare_load", "request": "r2", "keys": [3, 9], "raises": "AssertionError", '
        '"state": {"ref_cnt": {"3": 1, "0": 0}, "evictable": [0], "num_evictable": 1, "free": []}}',
    ]
    state = Snapshot({3: 1, 0: 0}, None, (0,), num_evictable=1, free=(), full=True)
    assert Trace(
        Head(capacity=2, subject="vllm==0.29.0", policy="arc", profile="arc"),
        (
            Entry(Call("prepare_store", (3, 0), "r1"), Stored((3, 0), (0, 1), ()), line=2),
            Entry(Call("complete_store", (3, 0), "r1"), None, line=3),
            Entry(Call("prepare_load", (3, 9), "r2"), Raised("AssertionError"), state, line=4),
        ),
    ) == read(lines)


def test_unknown_fields_are_ignored() -> None:
    plain = [HEAD, '{"call": "lookup", "request": "r", "keys": [1], "returns": "HIT", "state": {"ref_cnt": {"1": 0}}}']
    richer = [line[:-1] + ', "colour": ["red"]}' for line in plain]
    assert read(plain) == read(richer)


def test_blank_lines_are_skipped_and_counted() -> None:
    trace = read(["", HEAD, "  \n", '{"call": "take_events"}', ""])
    assert [(4, "take_events")] == [(entry.line, entry.call.name) for entry in trace.entries]


def test_the_same_bytes_are_the_same_key() -> None:
    trace = read([HEAD, '{"call": "touch", "request": "r", "keys": ["AB"], "state": {"ref_cnt": {"AB": 0}}}'])
    (entry,) = trace.entries
    assert (("ab",), {"ab": 0}) == (entry.call.keys, entry.state.ref_cnt)  # type: ignore[union-attr]


@pytest.mark.parametrize("name", ["0x12", "000000000000000c00000001", "0012"])
def test_hexadecimal_that_looks_like_a_number(name: str) -> None:
    trace = read([HEAD, json.dumps({"call": "take_events", "state": {"ref_cnt": {name: 0, "12": 1}}})])
    assert {12: 1, name.removeprefix("0x"): 0} == trace.entries[0].state.ref_cnt  # type: ignore[union-attr]


def test_hexadecimal_for_the_bytes_of_an_integer_is_that_integer() -> None:
    trace = read([HEAD, '{"call": "touch", "request": "r", "keys": ["000000000000000C00000000", 12]}'])
    assert (12, 12) == trace.entries[0].call.keys


# --- what does not follow the format --------------------------------------------------------------


@pytest.mark.parametrize(
    ("head", "problem"),
    [
        ("{", "not a JSON object"),
        ("[1]", "not a JSON object"),
        ("[" * 100_000, "not a JSON object"),
        ('{"capacity": 2}', "this is not a trace, whose first line is"),
        ('{"evictable_trace": 2, "capacity": 2}', "trace version 2; this release reads version 1: upgrade evictable"),
        ('{"evictable_trace": true, "capacity": 2}', "trace version True"),
        ('{"evictable_trace": "1", "capacity": 2}', "trace version '1'"),
        ('{"evictable_trace": 1}', '"capacity" is missing'),
        ('{"evictable_trace": 1, "capacity": null}', '"capacity" is None; expected int'),
        ('{"evictable_trace": 1, "capacity": 0}', '"capacity" is 0; a cache has at least 1 slot'),
        ('{"evictable_trace": 1, "capacity": true}', '"capacity" is True; expected int'),
        ('{"evictable_trace": 1, "capacity": 2, "policy": 3}', '"policy" is 3; expected str'),
        ('{"evictable_trace": 1, "capacity": 2, "events": 1}', '"events" is 1; expected bool'),
        ('{"evictable_trace": 1, "capacity": 2, "store_threshold": 0}', '"store_threshold" is 0; it is at least 1'),
        ('{"evictable_trace": 1, "capacity": 2, "max_tracker_size": 0}', '"max_tracker_size" is 0; it is at least 1'),
        ('{"evictable_trace": 1, "capacity": 2, "admission": "x"}', "unknown \"admission\" 'x'"),
        ('{"evictable_trace": 1, "capacity": 2, "tiers": -1}', f'"tiers" is -1; it is from 0 to {MOST_TIERS}'),
        (f'{{"evictable_trace": 1, "capacity": 2, "tiers": {MOST_TIERS + 1}}}', f'"tiers" is {MOST_TIERS + 1}; it is'),
        (
            '{"evictable_trace": 1, "capacity": 2, "tiers": 2, "request_level": [0, 2]}',
            '"request_level" is [0, 2]; tiers are numbered from 0 to 1',
        ),
        (
            '{"evictable_trace": 1, "capacity": 2, "tiers": 2, "request_level": 1}',
            '"request_level" is 1; expected a list of integers',
        ),
    ],
)
def test_a_bad_head_is_refused(head: str, problem: str) -> None:
    with pytest.raises(TraceError) as caught:
        read(["", head])
    assert (2, True) == (
        caught.value.line,
        f"line 2: {problem}" in str(caught.value).replace("the first line has ", ""),
    )


@pytest.mark.parametrize(("lines", "line"), [([], 1), (["", " "], 2)])
def test_an_empty_trace_is_refused(lines: list[str], line: int) -> None:
    with pytest.raises(TraceError, match=f"line {line}: the trace is empty"):
        read(lines)


@pytest.mark.parametrize(
    ("entry", "problem"),
    [
        ({}, 'no "call": this is no line of a trace'),
        ({"call": 1}, '"call" is 1; expected str'),
        ({"call": "fly"}, 'unknown call "fly"; known: on_new_request'),
        ({"call": "touch", "keys": [1]}, 'touch needs a "request"'),
        ({"call": "touch", "request": 1, "keys": [1]}, '"request" is 1; expected str'),
        ({"call": "touch", "request": "r", "keys": 1}, '"keys" is 1; expected a list'),
        ({"call": "touch", "request": "r", "keys": [-1]}, "key -1: keys are integers from 0 to 2**64 - 1"),
        ({"call": "touch", "request": "r", "keys": [2**64]}, f"key {2**64}: keys are"),
        ({"call": "touch", "request": "r", "keys": [True]}, "key True: keys are"),
        ({"call": "touch", "request": "r", "keys": [1.0]}, "key 1.0: keys are"),
        ({"call": "touch", "request": "r", "keys": [""]}, "key '': keys are"),
        ({"call": "touch", "request": "r", "keys": ["abc"]}, "key 'abc': keys are"),
        ({"call": "touch", "request": "r", "keys": ["ab c0"]}, "key 'ab c0': keys are"),
        ({"call": "lookup", "request": "r", "keys": []}, "lookup names 0 keys; it takes one"),
        ({"call": "lookup", "request": "r", "keys": [1, 2]}, "lookup names 2 keys; it takes one"),
        ({"call": "touch", "request": "r", "keys": [1], "positions": []}, "0 positions for 1 keys"),
        ({"call": "touch", "request": "r", "keys": [1], "positions": ["a"]}, '"positions" holds integers or null'),
        ({"call": "touch", "request": "r", "keys": [1], "positions": [True]}, '"positions" holds integers or null'),
        ({"call": "take_events", "limit": -1}, '"limit" is -1; it is at least 0'),
        ({"call": "take_events", "limit": "1"}, "\"limit\" is '1'; expected int"),
        (
            {"call": "take_events", "raises_in": "evict"},
            "a fault in 'evict' (\"raises_in\") cannot be played by this release; known: submit_store, submit_load",
        ),
        ({"call": "take_events", "raises_in": "submit_load", "at": 0}, '"at" is 0; it is at least 1'),
        ({"call": "fill_tier", "keys": [1]}, 'fill_tier needs a "tier"'),
        ({"call": "delay_tier", "keys": [1]}, 'delay_tier needs a "tier"'),
        ({"call": "peer_lookup", "request": "p", "keys": [1]}, 'peer_lookup needs a "tier"'),
        ({"call": "peer_lookup", "tier": 0, "keys": [1]}, 'peer_lookup needs a "request"'),
        ({"call": "fill_tier", "tier": "0", "keys": [1]}, "\"tier\" is '0'; expected int"),
        ({"call": "finish_job", "keys": [1]}, 'finish_job needs a "job"'),
        ({"call": "on_schedule_end"}, 'on_schedule_end needs tiers; the first line has no "tiers"'),
        ({"call": "take_events", "exchanges": 1}, '"exchanges" is 1; expected list'),
        ({"call": "complete_store", "request": "r", "keys": [1], "success": 1}, '"success" is 1; expected bool'),
        ({"call": "take_events", "raises": 1}, '"raises" is 1; expected str'),
        ({"call": "take_events", "raises": "E", "message": 1}, '"message" is 1; expected str'),
        ({"call": "take_events", "state": 1}, '"state" is 1; expected dict'),
    ],
    ids=str,
)
def test_a_bad_call_is_refused_with_its_line(entry: dict[str, Any], problem: str) -> None:
    with pytest.raises(TraceError) as caught:
        read([HEAD, '{"call": "take_events"}', json.dumps(entry)])
    assert str(caught.value).startswith(f"line 3: {problem}")


@pytest.mark.parametrize(
    ("entry", "problem"),
    [
        ({"call": "fill_tier", "tier": 2, "keys": [1]}, '"tier" is 2; tiers are numbered from 0 to 1'),
        ({"call": "fill_tier", "tier": -1, "keys": [1]}, '"tier" is -1; tiers are numbered from 0 to 1'),
        ({"said": "whispered"}, "\"said\" is 'whispered'; known: asked, reserved, submitted, reported, told_finished"),
        ({"said": ["asked"]}, "\"said\" is ['asked']; known: asked"),
        ({"said": "asked", "key": 1, "answer": "HIT"}, "\"tier\" of 'asked' is None; expected int"),
        ({"said": "asked", "tier": True, "key": 1, "answer": "HIT"}, "\"tier\" of 'asked' is True; expected int"),
        ({"said": "asked", "tier": 2, "key": 1, "answer": "HIT"}, '"tier" is 2; tiers are numbered from 0 to 1'),
        ({"said": "asked", "tier": 0, "key": -1, "answer": "HIT"}, "key -1: keys are integers from 0 to 2**64 - 1"),
        ({"said": "reserved", "keys": 1}, "\"keys\" of 'reserved' is 1; expected list"),
        ({"said": "reserved", "keys": [1], "block_ids": ["a"]}, "\"block_ids\" is ['a']; expected a list of integers"),
        ({"said": "reserved", "keys": [1], "block_ids": [0], "evicted": 1}, '"evicted" is 1; expected a list'),
        ({"said": "submitted", "tier": 0, "job": 0}, "\"promotion\" of 'submitted' is None; expected bool"),
        ({"said": "reported", "tier": 0, "job": 0, "keys": [1]}, "\"success\" of 'reported' is None; expected bool"),
        ({"said": "told_finished", "tier": 0}, "\"request\" of 'told_finished' is None; expected str"),
        ({"said": "waited", "tier": 0, "ended": [1]}, '"ended" is [1]; expected a list of [job, [key, ...]]'),
        ({"said": "waited", "tier": 0, "ended": [[0, 1]]}, '"ended" is 1; expected a list'),
        (1, '"exchanges" is a list of {"said": ..., "tier": ...}'),
    ],
    ids=str,
)
def test_what_cannot_have_been_said_is_refused(entry: Any, problem: str) -> None:
    if not isinstance(entry, dict) or "call" not in entry:
        entry = {"call": "on_schedule_end", "exchanges": [entry]}
    with pytest.raises(TraceError) as caught:
        read([TIERED_HEAD, json.dumps(entry)])
    assert str(caught.value).startswith(f"line 2: {problem}")


@pytest.mark.parametrize(
    ("call", "answer", "problem"),
    [
        ("lookup", "HITS", "\"returns\" is 'HITS'; a lookup returns HIT, HIT_PENDING, MISS, RETRY"),
        ("lookup", [], '"returns" is []; a lookup returns'),
        ("take_events", {}, '"returns" of take_events is a list of'),
        ("take_events", [1], '"returns" of take_events is a list of'),
        ("take_events", [{"keys": [1]}], '"removed" is missing'),
        ("take_events", [{"removed": True}], '"keys" is None; expected a list'),
        ("prepare_store", [], '"returns" of prepare_store is []; expected an object or null'),
        ("prepare_store", {}, '"keys_to_store" is None; expected a list'),
        ("prepare_store", {"keys_to_store": [1], "block_ids": ["a"]}, "\"block_ids\" is ['a']; expected a list of int"),
        ("prepare_store", {"keys_to_store": [], "block_ids": []}, '"evicted_keys" is None; expected a list'),
        ("prepare_load", {"block_ids": [True]}, '"block_ids" is [True]; expected a list of integers'),
        ("get_stats", {"usage": "1"}, '"returns" of get_stats holds numbers or null'),
        ("touch", {}, "touch returns null"),
    ],
)
def test_a_bad_answer_is_refused(call: str, answer: Any, problem: str) -> None:
    entry = {"call": call, "request": "r", "keys": [1], "returns": answer}
    with pytest.raises(TraceError) as caught:
        read([HEAD, json.dumps(entry)])
    assert str(caught.value).startswith(f"line 2: {problem}")


@pytest.mark.parametrize(
    ("state", "problem"),
    [
        ({}, '"state" has no "ref_cnt"'),
        ({"ref_cnt": []}, '"ref_cnt" is []; expected dict'),
        ({"ref_cnt": {"1": "a"}}, "\"ref_cnt\" is ['a']; expected a list of integers"),
        ({"ref_cnt": {"xyz": 1}}, "key 'xyz': not an integer from 0 to 2**64 - 1, nor hexadecimal digits"),
        ({"ref_cnt": {"9" * 5001: 1}}, "key '999"),
        ({"ref_cnt": {}, "slots": 1}, '"slots" is 1; expected dict'),
        ({"ref_cnt": {}, "evictable": 1}, '"evictable" is 1; expected a list'),
        ({"ref_cnt": {}, "num_evictable": "1"}, "\"num_evictable\" is '1'; expected int"),
        ({"ref_cnt": {}, "order": [[[[[1]]]]]}, '"order" is nested too deeply'),
        ({"ref_cnt": {}, "free": {}}, '"free" is {}; expected a list of integers'),
    ],
    ids=lambda value: str(value)[:40],
)
def test_a_bad_state_is_refused(state: dict[str, Any], problem: str) -> None:
    with pytest.raises(TraceError) as caught:
        read([HEAD, json.dumps({"call": "take_events", "state": state})])
    assert str(caught.value).startswith(f"line 2: {problem}")


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=4),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=6,
)
FIELDS = (
    *("evictable_trace", "capacity", "events", "call", "request", "keys", "returns", "raises", "state", "limit"),
    *("positions", "success", "ref_cnt", "slots", "order", "free", "removed", "block_ids", "keys_to_store", "usage"),
    *("tiers", "request_level", "tier", "job", "raises_in", "at", "exchanges", "said", "key", "answer", "promotion"),
    *("raised", "evicted", "ended"),
)
WORDS = st.sampled_from((*sorted(calls.CallName), *KINDS))
RECORDS = st.dictionaries(st.sampled_from(FIELDS), JSON | WORDS, max_size=5)
NESTED = st.dictionaries(st.sampled_from(FIELDS), RECORDS | st.lists(RECORDS, max_size=2) | JSON, max_size=5)


def reads_or_says_why(lines: list[str]) -> bool:
    try:
        read(lines)
    except TraceError as error:
        return str(error).startswith(f"line {error.line}: ")
    return True


@given(st.text() | st.text(alphabet='{}[]",:1 \n'))
def test_no_text_does_any_harm(text: str) -> None:
    assert reads_or_says_why(text.splitlines())
    assert reads_or_says_why([HEAD, *text.splitlines()])


@settings(max_examples=100)
@given(st.sampled_from(sorted(calls.CallName)), st.sampled_from(sorted(KINDS)), RECORDS, NESTED)
def test_no_json_does_any_harm(name: str, kind: str, record: dict[str, Any], nested: dict[str, Any]) -> None:
    call = {"call": name, "request": "r", "keys": [1], "tier": 0, "job": 0}
    said = {"said": kind, "tier": 0, "job": 0, "keys": [1], "key": 1, "promotion": True, "request": "r"}
    parts: list[dict[str, Any]] = [{"returns": nested}, {"state": nested}, {"exchanges": [said | nested, nested]}]
    for entry in (record, nested, *(call | part for part in (record, nested, *parts))):
        assert reads_or_says_why([TIERED_HEAD, json.dumps(entry)])
        assert reads_or_says_why([json.dumps(entry | {"evictable_trace": 1})])
