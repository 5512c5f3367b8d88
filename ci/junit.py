"""The results as JUnit XML, which CI systems show: a suite for each cell, a test case for each law.

Elements and attributes are those that Jenkins' schema of the format (junit-10.xsd) allows.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import UTC, datetime
from xml.etree import ElementTree as Xml

from attrs import evolve

from evictable.ci.cells import Cell
from evictable.ci.expectations import Expectation, told_of_stale
from evictable.ci.report import Asked, as_text, search_command, show_violations
from evictable.ci.verdicts import ERROR, FAILED, SEARCH, SKIPPED, Verdict, verdicts

_NOT_IN_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def junit_xml(cells: Sequence[Cell], stale: Sequence[Expectation], asked: Asked) -> list[str]:
    """The lines of the file. Each failure has the law, the counterexample, the seed and the command to replay."""
    root = Xml.Element("testsuites", name="evictable")
    stamp = datetime.now(UTC).replace(tzinfo=None).isoformat(timespec="seconds")
    for cell in cells:
        suite = Xml.SubElement(root, "testsuite", name=cell.name, timestamp=stamp, time=f"{cell.seconds:.3f}")
        properties = Xml.SubElement(suite, "properties")
        for name, value in (("seed", asked.seed), ("profile", cell.profile), ("calls", cell.steps)):
            Xml.SubElement(properties, "property", name=name, value=str(value))
        for verdict in verdicts(cell):
            _case(suite, cell, verdict, asked)
    if stale:
        suite = Xml.SubElement(root, "testsuite", name="expected failures", timestamp=stamp, time="0")
        for one in stale:
            _stale(suite, one)
    for suite in root:
        _count(suite)
    _count(root)
    Xml.indent(root)
    text = Xml.tostring(root, encoding="unicode")
    return ['<?xml version="1.0" encoding="utf-8"?>', *text.splitlines()]


def _case(suite: Xml.Element, cell: Cell, verdict: Verdict, asked: Asked) -> None:
    time = cell.seconds if verdict.law == SEARCH else 0.0
    whose = f"evictable.{cell.name.replace('.', '_').replace(' ', '.')}"
    case = Xml.SubElement(suite, "testcase", classname=_valid(whose), name=verdict.law, time=f"{time:.3f}")
    if verdict.state == FAILED:
        law = f"{verdict.law}: {verdict.violations[0].sentence}; {verdict.why}"
        _said(case, "failure", verdict.law, law, _told(cell, verdict, asked))
    elif verdict.state == ERROR:
        _said(case, "error", "inconclusive", verdict.why, search_command(cell, asked))
    elif verdict.state == SKIPPED:
        Xml.SubElement(case, "skipped", message=_valid(verdict.why))


def _told(cell: Cell, verdict: Verdict, asked: Asked) -> str:
    shown = evolve(cell, violations={one.id: one for one in verdict.violations}, reached={})
    text = as_text(lambda out: show_violations(out, shown, asked.profile))
    return f"{text}\n  seed      {asked.seed}\n  search    {search_command(cell, asked)}"


def _stale(suite: Xml.Element, one: Expectation) -> None:
    cell = ".".join(str(part).replace(".", "_") for part in one.cell)
    case = Xml.SubElement(suite, "testcase", classname=_valid(f"evictable.{cell}"), name=one.law, time="0")
    if one.strict:
        _said(case, "failure", "stale", told_of_stale(one), "take the entry out of the list")
    else:
        Xml.SubElement(case, "skipped", message=_valid(told_of_stale(one)))


def _said(case: Xml.Element, how: str, kind: str, message: str, text: str) -> None:
    Xml.SubElement(case, how, type=kind, message=_valid(message)).text = _valid(text)


def _count(suite: Xml.Element) -> None:
    cases = list(suite.iter("testcase"))
    suite.set("tests", str(len(cases)))
    for what, name in (("failures", "failure"), ("errors", "error")):
        suite.set(what, str(sum(case.find(name) is not None for case in cases)))
    if suite.tag == "testsuite":
        suite.set("skipped", str(sum(case.find("skipped") is not None for case in cases)))


def _valid(text: str) -> str:
    """What a subject says may hold characters that XML cannot."""
    return _NOT_IN_XML.sub("\N{REPLACEMENT CHARACTER}", text)
