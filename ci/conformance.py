"""The conformance suite as pytest runs it: one test a law and discipline, one search a discipline.

from evictable.ci.conformance import ManagerConformance

class TestMine(ManagerConformance):
    def make_manager(self, num_blocks, enable_events):
        return MyManager(num_blocks, enable_events)
"""

from __future__ import annotations

import os
import shlex
import sys
import warnings
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from attrs import evolve, frozen

if TYPE_CHECKING:
    from evictable.ci.cells import Cell
    from evictable.specs.subjects.base import SubjectKind
    from evictable.specs.subjects.policies import PolicyKind

SEARCH = "search"
"""The test beside those of the laws: it fails where there is no verdict."""
REPLAY = "replay"
DISCIPLINES = ("contract", "careless", "hostile")
BY_ITSELF = "by-itself"
"""In place of a discipline: a cache policy without a manager, which does not ask it for everything."""


@frozen
class Case:
    """One test: a law under a discipline, or `SEARCH`, or the `REPLAY` of a trace."""

    discipline: str
    law: str


Run = Callable[[], "Cell"]
_CELLS = pytest.StashKey[dict[Any, "Cell"]]()


def check_options(config: pytest.Config) -> None:
    """Raises `pytest.UsageError` for a value that no search takes."""
    given = {name: config.getoption(f"evictable_{name}") for name in ("profile", "max_time", "max_calls")}
    wrong = _wrong_value(given)
    if wrong is not None:
        name, problem = wrong
        raise pytest.UsageError(f"--evictable-{name.replace('_', '-')}: {problem}")


def check_settings(cls: type[Conformance]) -> None:
    """Raises `pytest.Collector.CollectError` likewise, for the attributes of a class."""
    given = {name: getattr(cls, name) for name in ("profile", "max_time", "max_calls")}
    wrong = _wrong_value(given)
    disciplines = cls.disciplines
    # An empty one would be a suite that nothing fails.
    listed = isinstance(disciplines, (tuple, list, set, frozenset))
    if not listed or not disciplines or not all(one in DISCIPLINES for one in disciplines):
        wrong = "disciplines", f"{disciplines!r}; give a tuple of {', '.join(DISCIPLINES)}"
    if wrong is not None:
        name, problem = wrong
        raise pytest.Collector.CollectError(f"{cls.__name__}.{name}: {problem}")


def _wrong_value(given: Mapping[str, Any]) -> tuple[str, str] | None:
    """The name of a setting that no search takes, and what is wrong with it."""
    from evictable.model.profiles import PROFILES

    if given["profile"] not in ("auto", *PROFILES):
        return "profile", f"unknown profile {given['profile']!r}; known: auto, {', '.join(PROFILES)}"
    for name, kinds, wanted in (("max_time", (int, float), "number"), ("max_calls", (int,), "whole number")):
        value = given[name]
        if value is not None and (isinstance(value, bool) or not isinstance(value, kinds) or not value > 0):
            return name, f"{value!r}; give a {wanted} above 0"
    return None


def cases(discipline: str) -> list[Case]:
    """All tests of a discipline: the laws that it can break at all, and the search itself."""
    from evictable.model.laws import LAWS
    from evictable.model.policy import POLICY_LAWS

    if discipline == BY_ITSELF:
        return [Case(discipline, law) for law in (SEARCH, *POLICY_LAWS) if law != "mismatch"]
    laws = [law.id for law in LAWS if law.can_be_tested(careless=discipline == "careless", tiers=False)]
    return [Case(discipline, SEARCH), *(Case(discipline, law) for law in laws)]


def grouped(config: pytest.Config, whose: str, discipline: str) -> list[pytest.MarkDecorator]:
    """With ``--dist loadgroup`` the tests of a discipline stay together, so that it is searched once.

    So they do with ``--dist loadscope``, which needs no marks.
    """
    marks: list[pytest.MarkDecorator] = [pytest.mark.evictable]
    if config.pluginmanager.hasplugin("xdist"):
        marks.append(pytest.mark.xdist_group(f"evictable-{whose}-{discipline}".replace("@", "-")))
    return marks


def job(config: pytest.Config, subject: str, discipline: str, *, several: bool) -> dict[str, Any]:
    """What a worker is asked for."""
    from evictable.specs.search import ENGINES

    max_time, max_calls = config.getoption("evictable_max_time"), config.getoption("evictable_max_calls")
    return {
        "job": "check",
        "subject": subject,
        "policy": config.getoption("evictable_policy"),
        "discipline": discipline,
        "profile": config.getoption("evictable_profile"),
        "engines": list(ENGINES),
        "max_time": 20.0 if max_time is None and max_calls is None else max_time,
        "max_calls": max_calls,
        "seed": config.getoption("evictable_seed"),
        "capacity": None,
        "all_disciplines": several,
        "path": list(filter(None, sys.path)),
    }


def searched(config: pytest.Config, key: Any, run: Run) -> Cell:
    """The result of a search, which is run once in this process. Its counterexamples are written."""
    found = config.stash.setdefault(_CELLS, {})
    if key not in found:
        cell = found[key] = run()
        folder = Path(config.getoption("evictable_trace_dir"))
        for violation in cell.violations.values():
            violation.path = _written(folder, cell, violation.id, violation.lines)
        if cell.hung is not None and (path := _written(folder, cell, cell.ended_as, cell.hung)) is not None:
            cell.problem = f"{cell.problem}; the calls are in {path}"
    return found[key]


def _written(folder: Path, cell: Cell, name: str, lines: list[str]) -> Path | None:
    """Where a trace is now. What was found is told also where it cannot be written."""
    from evictable.ci.files import file_name, write_text
    from evictable.specs.errors import UsageError

    path = folder / f"{file_name(cell.subject, cell.policy, cell.discipline, name)}.jsonl"
    try:
        write_text(path, lines)
    except UsageError as error:
        warnings.warn(str(error), stacklevel=2)
        return None
    return path


def settle(cell: Cell, law: str, profile: str, replayed_by: Callable[[Path], str] | None = None) -> None:
    """Pass, skip or fail the running test of ``law``."""
    from evictable.ci.report import as_text, show_violations

    broken = {of: violation for of, violation in cell.violations.items() if violation.law == law}
    if broken:
        shown = evolve(cell, violations=broken, reached={})
        pytest.fail(as_text(lambda out: show_violations(out, shown, profile, replayed_by)), pytrace=False)
    elif cell.left_out:
        pytest.skip(f"left out: {cell.problem}")
    elif not cell.ended or cell.problem is not None:
        problem = cell.problem or "the search did not end"
        if law == SEARCH:
            pytest.fail(f"no verdict on {cell.name}: {problem}", pytrace=False)
        pytest.skip(f"no verdict: {problem}")
    elif law in cell.not_exercised:
        unknown = " (no order is judged under the profile any: name another)" if law == "evict-order" else ""
        pytest.skip(f"not exercised in {cell.steps:,} calls{unknown if cell.profile == 'any' else ''}")


class Conformance:
    """What both kinds of class have in common. The attributes may be overridden."""

    disciplines: tuple[str, ...] = ("contract",)
    """What callers promise: of ``contract``, ``careless`` and ``hostile``. See the README."""
    profile: str = "any"
    """The rule of eviction to judge by; ``any`` judges everything but the order."""
    max_time: float | None = None
    """Seconds for each discipline; by default ``--evictable-max-time``."""
    max_calls: int | None = None
    """Likewise; by default ``--evictable-max-calls``."""

    def subject(self, name: str) -> SubjectKind:
        raise NotImplementedError

    def test_law(self, evictable_case: Case, request: pytest.FixtureRequest) -> None:
        whose = str(request.node.nodeid).rpartition("::")[0]
        if evictable_case.law == REPLAY:
            self._replay(Path(request.config.getoption("evictable_replay")), whose)
            return
        cell = searched(
            request.config,
            (type(self), evictable_case.discipline),
            lambda: self._search(request.config, whose, evictable_case.discipline),
        )
        # From where pytest was called, as the trace is; ids are from its root directory.
        file = os.path.relpath(request.node.path, request.config.invocation_params.dir)
        here = "::".join((file, *whose.split("::")[1:]))
        settle(cell, evictable_case.law, self.profile, lambda path: _replay_command(here, path))

    def _search(self, config: pytest.Config, whose: str, discipline: str) -> Cell:
        from evictable.ci.cells import Cell
        from evictable.specs.errors import UsageError
        from evictable.specs.subjects.releases import cache_dir

        # Hypothesis would leave a folder of its own in the project.
        os.environ.setdefault("HYPOTHESIS_STORAGE_DIRECTORY", str(cache_dir() / "hypothesis"))
        from evictable.specs.worker import examine

        wanted = self._job(config, whose, discipline)
        cell = Cell(whose, wanted["policy"], discipline, self.profile)
        cell.take({"kind": "start"})

        try:
            examine(self.subject(whose), wanted, lambda record: take(cell, record), guarded=False)
        except UsageError as error:
            cell.take({"kind": "error", "message": str(error)})
        return cell

    def _job(self, config: pytest.Config, whose: str, discipline: str) -> dict[str, Any]:
        wanted = job(config, whose, discipline, several=len(self.disciplines) > 1) | {"profile": self.profile}
        if self.max_time is not None or self.max_calls is not None:
            wanted |= {"max_time": self.max_time, "max_calls": self.max_calls}
        return wanted

    def _replay(self, path: Path, whose: str) -> None:
        from evictable.ci.expectations import read_trace
        from evictable.ci.report import as_text, show_broken, show_trace
        from evictable.specs.counterexamples import replay, setup_of
        from evictable.specs.jobs import profile_of
        from evictable.specs.records import broken_record

        trace, kind = read_trace(path), self.subject(whose)
        profile = profile_of(self.profile, kind.profile(trace.head.policy))
        head = evolve(trace.head, subject=whose, profile=profile, events=trace.head.events and kind.events)
        session, played = replay(kind, setup_of(head), profile, trace.calls, head)
        if session.broken:
            broken = [broken_record(one) for one in session.broken]
            shown = as_text(lambda out: (show_trace(out, played), show_broken(out, broken))[-1])
            pytest.fail(shown, pytrace=False)


class ManagerConformance(Conformance):
    """Inherit, and say how your manager is made: it has the methods of vLLM's ``OffloadingManager``."""

    def make_manager(self, num_blocks: int, enable_events: bool) -> Any:
        """A fresh manager of so many slots.

        May take ``num_chunks`` instead, ``cache_policy``, ``store_threshold`` and so on, or leave ``enable_events``
        out: then there are none.
        """
        raise NotImplementedError("make_manager(self, num_blocks, enable_events) returns a fresh manager")

    def subject(self, name: str) -> SubjectKind:
        from evictable.specs.subjects.factory import of_callable

        return of_callable(name, self.make_manager, "make_manager")


class PolicyConformance(Conformance):
    """Inherit, and say how your cache policy is made: it has the methods of vLLM's ``CachePolicy``, of any release.

    It is judged in the built-in manager, and by itself: no manager asks a policy for more than it has.
    ``--evictable-subject`` with ``--evictable-host`` judges it in a vLLM release.
    """

    def make_policy(self, cache_capacity: int) -> Any:
        """A fresh policy for so many blocks."""
        raise NotImplementedError("make_policy(self, cache_capacity) returns a fresh policy")

    def subject(self, name: str) -> SubjectKind:
        from evictable.specs.subjects.hosts import in_builtin

        return in_builtin(name, lambda cache_capacity: self.make_policy(cache_capacity))

    def _search(self, config: pytest.Config, whose: str, discipline: str) -> Cell:
        if discipline != BY_ITSELF:
            return super()._search(config, whose, discipline)
        from evictable.ci.cells import Cell
        from evictable.ci.levels import ENGINES_OF_POLICIES, POLICY
        from evictable.specs.callers.disciplines import CONTRACT
        from evictable.specs.errors import UsageError
        from evictable.specs.policy_level.jobs import examine

        wanted = self._job(config, whose, CONTRACT) | {"engines": list(ENGINES_OF_POLICIES)}
        cell = Cell(whose, wanted["policy"], CONTRACT, self.profile, level=POLICY)
        cell.take({"kind": "start"})
        try:
            examine(self._by_itself(whose), wanted, lambda record: take(cell, record))
        except UsageError as error:
            cell.take({"kind": "error", "message": str(error)})
        return cell

    def _replay(self, path: Path, whose: str) -> None:
        from evictable.ci.replay_policy import is_policy_level

        if not is_policy_level(path):
            super()._replay(path, whose)
            return
        from evictable.ci.report import as_text, show_broken, show_policy_trace
        from evictable.model.policy_trace import read_policy_trace
        from evictable.specs.policy_level.jobs import broken_record, play_again, trace_of
        from evictable.specs.policy_level.session import consequence

        recorded = read_policy_trace(path.read_text(encoding="utf-8").splitlines())
        session = play_again(self._by_itself(whose), recorded, self.profile)
        if session.breach is not None:
            played = trace_of(session, recorded.head.policy)
            broken = [broken_record(session.breach, consequence(session))]
            shown = as_text(lambda out: (show_policy_trace(out, played), show_broken(out, broken))[-1])
            pytest.fail(shown, pytrace=False)

    def _by_itself(self, name: str) -> PolicyKind:
        from evictable.specs.subjects.policies import of_callable

        return of_callable(name, lambda cache_capacity: self.make_policy(cache_capacity))


def cases_for(config: pytest.Config, cls: type[Conformance]) -> list[Any]:
    """The parameters of ``test_law`` of a class. Raises as `check_settings` does."""
    if config.getoption("evictable_replay"):
        return [pytest.param(Case("", REPLAY), id=REPLAY)]
    check_settings(cls)
    return [
        pytest.param(
            case, id=f"{discipline}-{case.law}", marks=grouped(config, f"{cls.__module__}.{cls.__name__}", discipline)
        )
        for discipline in (*cls.disciplines, *((BY_ITSELF,) if issubclass(cls, PolicyConformance) else ()))
        for case in cases(discipline)
    ]


def take(cell: Cell, record: Mapping[str, Any]) -> None:
    """Take in a record, whatever it brought."""
    cell.take(record)


def _replay_command(whose: str, path: Path) -> str:
    return shlex.join(["pytest", whose, f"--evictable-replay={path}"])
