"""What ``--evictable-subject`` adds to a run of pytest: tests that are in no file."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from evictable.ci.cells import Cell
from evictable.ci.conformance import DISCIPLINES, Case, cases, grouped, job, searched, settle, take
from evictable.ci.jobs import run_jobs
from evictable.specs import subjects
from evictable.specs.errors import UsageError


def items_for(session: pytest.Session) -> Iterator[pytest.Item]:
    """The tests of every subject asked for. Raises `pytest.UsageError` for one that there is not."""
    config = session.config
    wanted = config.getoption("evictable_discipline")
    disciplines = DISCIPLINES if wanted == "all" else (wanted,)
    root = _Group.from_parent(session, name="evictable", nodeid="evictable")
    for subject in dict.fromkeys(_names(config)):
        named = _Group.from_parent(root, name=subject)
        for discipline in disciplines:
            group = _Group.from_parent(named, name=discipline)
            marks = grouped(config, subject, discipline)
            for case in cases(discipline):
                item = LawItem.from_parent(group, name=case.law, subject=subject, case=case)
                for mark in marks:
                    item.add_marker(mark)
                yield item


def _names(config: pytest.Config) -> list[str]:
    host = config.getoption("evictable_host")
    given = config.getoption("evictable_subject")
    try:
        named = given if host is None else [subjects.hosted(name, host) for name in given]
        return [subjects.prepare(name, lambda line: None) for name in named]
    except UsageError as error:
        raise pytest.UsageError(str(error)) from error


class _Group(pytest.Collector):
    def collect(self) -> list[pytest.Item]:
        return []


class LawItem(pytest.Item):
    """One law of one subject under one discipline."""

    def __init__(self, *, subject: str, case: Case, **more: Any) -> None:
        super().__init__(**more)
        self.subject = subject
        self.case = case

    def runtest(self) -> None:
        discipline = self.case.discipline
        cell = searched(self.config, (self.subject, discipline), self._search)
        settle(cell, self.case.law, self.config.getoption("evictable_profile"))

    def reportinfo(self) -> tuple[Path, None, str]:
        return self.config.rootpath, None, f"{self.subject} {self.case.discipline} {self.case.law}"

    def _search(self) -> Cell:
        """In a process of its own: a subject may hang, crash, or need a vLLM tree to itself."""
        several = self.config.getoption("evictable_discipline") == "all"
        wanted = job(self.config, self.subject, self.case.discipline, several=several)
        cell = Cell(self.subject, wanted["policy"], self.case.discipline, wanted["profile"])
        run_jobs([wanted], lambda index, record: take(cell, record), parallel=1)
        return cell
