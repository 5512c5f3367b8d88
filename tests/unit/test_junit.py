"""The JUnit file: what it may hold, and what it says of each state that a law can be in."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from xml.etree import ElementTree as Xml

import pytest

from evictable.ci.cells import Cell, Violation
from evictable.ci.expectations import Expectation
from evictable.ci.junit import junit_xml
from evictable.ci.report import Asked
from evictable.model.trace import read

LINES = [
    '{"evictable_trace": 1, "capacity": 2}',
    '{"call": "on_new_request", "request": "r1"}',
    '{"call": "prepare_store", "request": "r1", "keys": [0], "returns": {"keys_to_store": [0], "block_ids": [0], '
    '"evicted_keys": []}}',
]
# Jenkins' junit-10.xsd: the attributes that an element needs, those that it may have, and the elements in it.
SCHEMA: Mapping[str, tuple[set[str], set[str], set[str]]] = {
    "testsuites": (set(), {"name", "time", "tests", "failures", "errors"}, {"testsuite"}),
    "testsuite": (
        {"name", "tests", "failures", "errors"},
        {"group", "time", "skipped", "timestamp", "hostname", "id", "package", "file", "log", "url", "version"},
        {"testsuite", "properties", "testcase", "system-out", "system-err"},
    ),
    "properties": (set(), set(), {"property"}),
    "property": ({"name", "value"}, set(), set()),
    "testcase": ({"name"}, {"time", "classname", "group"}, {"skipped", "error", "failure", "system-out", "system-err"}),
    "skipped": (set(), {"type", "message"}, set()),
    "error": (set(), {"type", "message"}, set()),
    "failure": (set(), {"type", "message"}, set()),
}


def cell(**more: object) -> Cell:
    made = Cell("impl", "lru", "contract", "lru-evictable", started=True, ended=True, steps=300, seconds=1.5)
    made.verdict_of_search = "conforms"
    for name, value in more.items():
        setattr(made, name, value)
    return made


def violation(reason: str | None = None, observed: str = "[]") -> Violation:
    found = Violation("answer", "lookups are what the state says", "[0]", observed, "random", 30, 0.1, LINES)
    found.path, found.reason = Path("traces/a.jsonl"), reason
    return found


def expectation(*, strict: bool) -> Expectation:
    return Expectation("impl", "lru", "contract", "answer", "known", Path("a.jsonl"), read(LINES), strict)


def written(*cells: Cell, stale: tuple[Expectation, ...] = ()) -> Xml.Element:
    text = "\n".join(junit_xml(cells, stale, Asked("auto", 7)))
    return Xml.fromstring(text.encode())


def in_case(root: Xml.Element, law: str) -> Xml.Element | None:
    case = root.find(f"testsuite/testcase[@name='{law}']")
    assert case is not None
    return case[0] if len(case) else None


@pytest.mark.parametrize(
    "root",
    [
        written(cell()),
        written(cell(violations={"answer": violation()}), cell(problem="it hung"), stale=(expectation(strict=True),)),
        written(cell(violations={"answer": violation("known")}), cell(left_out=True, problem="nothing to strike")),
    ],
    ids=["passing", "failing", "known"],
)
def test_only_what_the_schema_allows(root: Xml.Element) -> None:
    for element in root.iter():
        needed, allowed, inside = SCHEMA[element.tag]
        assert needed <= set(element.keys()) <= needed | allowed
        assert {child.tag for child in element} <= inside


def test_the_counts_are_those_of_the_cases() -> None:
    root = written(cell(violations={"answer": violation()}), cell(problem="it hung"))
    assert ("34", "1", "1") == tuple(root.get(name) for name in ("tests", "failures", "errors"))
    assert 34 == len(root.findall("testsuite/testcase"))


def test_a_failure_has_law_seed_and_commands() -> None:
    failure = in_case(written(cell(violations={"answer": violation()})), "answer")
    assert failure is not None
    message = "answer: lookups are what the state says; expected [0]; observed []"
    assert ("failure", "answer", message) == (failure.tag, failure.get("type"), failure.get("message"))
    lines = (failure.text or "").splitlines()
    assert "  replay    evictable replay traces/a.jsonl --subject impl" in lines
    assert ["  seed      7", "  search    evictable check impl --policy lru --discipline contract --seed 7"] == lines[
        -2:
    ]


@pytest.mark.parametrize(
    ("state", "law", "tag", "message"),
    [
        ({"violations": {"answer": violation("mended in 0.34")}}, "answer", "skipped", "known failure: mended in 0.34"),
        ({"not_exercised": ["drains"]}, "drains", "skipped", "not exercised in 300 calls"),
        ({"problem": "it hung"}, "search", "error", "it hung"),
        ({"problem": "it hung"}, "answer", "skipped", "no verdict"),
        ({"ended": False}, "search", "error", "the search did not end"),
        ({"left_out": True, "problem": "no faults"}, "search", "skipped", "left out: no faults"),
    ],
)
def test_what_is_no_success(state: dict[str, object], law: str, tag: str, message: str) -> None:
    inside = in_case(written(cell(**state)), law)
    assert inside is not None
    assert (tag, message) == (inside.tag, inside.get("message"))


def test_a_law_that_held_is_a_success() -> None:
    assert in_case(written(cell()), "answer") is None


@pytest.mark.parametrize(("strict", "tag"), [(True, "failure"), (False, "skipped")])
def test_an_entry_that_is_stale(strict: bool, tag: str) -> None:
    inside = in_case(written(stale=(expectation(strict=strict),)), "answer")
    assert inside is not None
    assert tag == inside.tag


def test_what_xml_cannot_hold_is_replaced() -> None:
    failure = in_case(written(cell(violations={"answer": violation(observed="\x00<a>")})), "answer")
    assert failure is not None
    assert "observed \N{REPLACEMENT CHARACTER}<a>" in str(failure.get("message"))
