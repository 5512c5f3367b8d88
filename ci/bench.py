"""`evictable bench`: subjects side by side, and the speed of the harness itself."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import Any

from attrs import define, evolve, field, frozen
from rich.console import Console
from rich.status import Status

from evictable.ci import bench_tables as tables
from evictable.ci.bench_plots import evict_plot
from evictable.ci.files import write_json, write_text
from evictable.ci.jobs import CUT_SHORT, INTERRUPTED
from evictable.ci.report import console
from evictable.specs import subjects
from evictable.specs.bench.rows import BY_KEYS, BYTES, Row, rows_of
from evictable.specs.bench.run import Bench, Failed, Taken, disagreements
from evictable.specs.bench.sections import FULL, QUICK, REFERENCE, Case, Section, Sizes, judging, named
from evictable.specs.errors import UsageError

WHERE_TRACES_ARE = "such as conversation_trace.jsonl of github.com/kvcache-ai/Mooncake"


@frozen
class Options:
    subjects: tuple[str, ...]
    sections: tuple[str, ...] = ()
    """Their names; none is all of them."""
    quick: bool = False
    rounds: int | None = None
    trace: Path | None = None
    """Requests in the Mooncake format."""
    json_path: Path | None = None
    plots: Path | None = None
    """The folder for them."""

    @property
    def sizes(self) -> Sizes:
        sizes = QUICK if self.quick else FULL
        return sizes if self.rounds is None else evolve(sizes, rounds=self.rounds)


@define
class Run:
    """A benchmark under way, and what it has come to so far."""

    options: Options
    bench: Bench
    names: list[str]
    out: Console
    err: Console
    rows: list[Row] = field(factory=list)
    wrong: list[str] = field(factory=list)
    """What was answered otherwise than is right, or than others of the profile did."""
    failed: list[str] = field(factory=list)
    """What could not be measured."""
    interrupted: bool = False
    _spared: set[tuple[str, str]] = field(factory=set)
    """Subjects and policies that are not timed, for their answers are wrong."""
    _done: dict[str, dict[str, Taken | Failed]] = field(factory=dict)

    @property
    def reference(self) -> str:
        return REFERENCE if REFERENCE in self.names else self.names[0]

    def judge(self) -> None:
        """Every subject's answers to the mixed load, before anything is timed."""
        for case in judging(self.options.sizes):
            policy = case.arguments["policy"]
            came = self.bench.run(case, self.names)
            for name, taken in came.items():
                if isinstance(taken, Failed):
                    self.wrong.append(f"{taken} ({policy}); not timed")
                    self._spared.add((name, policy))
            self._compare(case, came)
            right = [name for name, taken in came.items() if isinstance(taken, Taken)]
            made = next((int(came[name].numbers[0]["calls"]) for name in right), 0)  # type: ignore[union-attr]
            profiles = {name: self.bench.profiles[name][policy] for name in right}
            where = f"{made:,} calls each on {case.arguments['capacity']:,} slots"
            self.out.print(f"Judged, {policy}, {where}, all as expected: {_groups(profiles)}", markup=False)

    def measure(self, section: Section) -> None:
        """Run what has not been run for another section, and show it."""
        made: list[Row] = []
        for case in section.cases(self.options.sizes, self.options.trace):
            came = self._done.get(case.title)
            if came is None:
                came = self._done[case.title] = self.bench.run(case, self._timed(case))
                self._compare(case, came)
                self.failed += [str(one) for one in came.values() if isinstance(one, Failed)]
            made += rows_of(section.name, case, came, self.reference)
            self._missed(came)
        if section.name in ("evict", "slowest"):
            made = [row for row in made if (row.what == "slowest") == (section.name == "slowest")]
        self.rows += made
        if made:
            self.out.print(f"\n{section.title}", style="bold", markup=False)
            _show(self.out, section.name, made, self.reference)

    def attempt(self, section: Section) -> None:
        """`measure`; what one section cannot measure does not take away what others have."""
        try:
            self.measure(section)
        except UsageError as error:
            self.failed.append(f"section {section.name}: {error}")

    def _timed(self, case: Case) -> list[str]:
        return [name for name in self.names if (name, case.arguments.get("policy", "lru")) not in self._spared]

    def _compare(self, case: Case, came: Mapping[str, Taken | Failed]) -> None:
        if "policy" in case.arguments:
            found = disagreements(came, self.bench.profiles, case.arguments["policy"])
            self.wrong += [f"{one} ({case.title})" for one in found]

    def _missed(self, came: Mapping[str, Taken | Failed]) -> None:
        for taken in came.values():
            if isinstance(taken, Taken):
                self.failed += [f"not found: {words['missed']}" for words in taken.words if words.get("missed")]


def _show(out: Console, name: str, rows: Sequence[Row], reference: str) -> None:
    if name == "mixed":
        tables.show_ratios(out, rows, reference)
        tables.show_ratios(out, rows, reference, to_floor=True)
    elif name == "calls":
        tables.show_ratios(out, sorted(rows, key=_by_call), reference)
    elif name == "trace":
        tables.show_ratios(out, rows, reference)
    elif name == "evict":
        tables.show_values(out, rows)
        tables.show_growth(out, rows)
    elif name == "memory":
        tables.show_values(out, rows)
        tables.show_ratios(out, [row for row in rows if row.unit == BYTES], reference)
    elif name == "slowest":
        tables.show_words(out, rows)
    elif name == "harness":
        tables.show_values(out, [row for row in rows if row.what.endswith("calls a second")])
        defects = [row for row in rows if row.what.startswith(("calls ", "seconds "))]
        if defects:
            tables.show_defects(out, defects)
    else:
        tables.show_values(out, rows)


def _by_call(row: Row) -> tuple[Any, ...]:
    return row.policy or "", BY_KEYS.index(row.what), row.keys, row.pinned


def _groups(profiles: Mapping[str, str]) -> str:
    """Subjects by profile: those of one profile have to agree."""
    groups: dict[str, list[str]] = {}
    for name, profile in profiles.items():
        groups.setdefault(profile, []).append(name)
    return "; ".join(f"{profile}: {', '.join(names)}" for profile, names in groups.items())


def run_bench(options: Options) -> int:
    """Measure and print; 0, 1 if a subject's answers are wrong, 3 if something could not be measured, 130 if cut short.

    Raises `UsageError`.
    """
    sections = named(options.sections)
    sections = _possible(sections, options)
    out, err = console(), console(stderr=True)
    names = [subjects.prepare(name, lambda line: err.print(line, markup=False)) for name in options.subjects]
    names = list(dict.fromkeys(names))
    status = err.status("") if err.is_terminal else None
    with Bench(lambda case, name, number: _tell(status, case, name, number)) as bench, status or nullcontext():
        run = Run(options, bench, names, out, err)
        if any(section.needs_subjects for section in sections):
            run.judge()
        try:
            for section in sections:
                run.attempt(section)
        except KeyboardInterrupt:
            run.interrupted = True
    return _ended(run)


def _possible(sections: list[Section], options: Options) -> list[Section]:
    if options.trace is not None and not options.trace.is_file():
        raise UsageError(f"{options.trace}: no such file; give --trace a request trace, {WHERE_TRACES_ARE}")
    if options.trace is None and "trace" in options.sections:
        raise UsageError(f"--section trace needs --trace FILE, {WHERE_TRACES_ARE}")
    return [section for section in sections if section.name != "trace" or options.trace is not None]


def _tell(status: Status | None, case: Case, name: str, number: int) -> None:
    if status is not None:
        status.update(f"{case.title}: {name}, round {number + 1} of {case.warm_up + case.rounds}")


def _ended(run: Run) -> int:
    for line in (*dict.fromkeys(run.wrong), *dict.fromkeys(run.failed)):
        run.out.print(line, markup=False)
    if run.options.json_path is not None:
        write_json(run.options.json_path, {"results": [row.record() for row in run.rows]} | _problems(run))
    if run.options.plots is not None and any(row.section == "evict" for row in run.rows):
        for what in ("steady", "first"):
            write_text(run.options.plots / f"evict-{what}.svg", evict_plot(run.rows, what))
    if run.interrupted:
        run.out.print(CUT_SHORT)
        return INTERRUPTED
    return 1 if run.wrong else 3 if run.failed else 0


def _problems(run: Run) -> dict[str, Any]:
    return {"wrong": run.wrong, "failed": run.failed}
