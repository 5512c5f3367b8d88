"""`evictable matrix`: every release under every policy and discipline, and which laws each breaks.

What is found on one release is replayed on all others. Every finished cell is kept in a folder, so that an
interrupted run goes on where it stopped.
"""

from __future__ import annotations

import datetime
import importlib.metadata
import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from attrs import define, evolve, field, frozen
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from evictable.ci.cells import Cell, detail_of
from evictable.ci.files import file_name, write_json, write_text
from evictable.ci.jobs import ENDINGS, Inconclusive, run_jobs
from evictable.ci.report import console
from evictable.model.laws import LAWS
from evictable.specs import subjects
from evictable.specs.search import ENGINES, ENGINES_WITH_TIERS, VIOLATES

_LAW_ORDER = {law.id: place for place, law in enumerate(LAWS)}


@frozen
class MatrixOptions:
    """What to search, and how long: ``max_time`` in seconds, or ``max_calls``, for each cell."""

    releases: tuple[str, ...]
    policies: tuple[str, ...]
    disciplines: tuple[str, ...]
    thresholds: tuple[int, ...]
    tiers: tuple[int, ...]
    max_time: float | None
    max_calls: int | None
    seed: int
    folder: Path
    command: str
    """As it was typed, for the report."""


@frozen
class Place:
    """Under what a release is searched."""

    policy: str
    discipline: str
    threshold: int = 1
    tiers: int = 0

    def __str__(self) -> str:
        return f"{self.policy}, {self.discipline}, threshold {self.threshold}, tiers {self.tiers}"


@define
class Evidence:
    """A counterexample to a law on one release, found there or replayed from another."""

    law: str
    lines: list[str]
    detail: str
    origin: str
    """The release that it was found on."""

    @property
    def calls(self) -> int:
        return len(self.lines) - 1

    def on_policy(self, policy: str) -> Evidence:
        """The same calls for a subject with that policy."""
        head = {**json.loads(self.lines[0]), "policy": policy}
        return Evidence(self.law, [json.dumps(head), *self.lines[1:]], self.detail, self.origin)


@define
class Verdicts:
    """What came of one release at one place: its cell, and one shortest counterexample for each broken law."""

    release: str
    place: Place
    cell: Cell = field(init=False)
    evidence: dict[str, Evidence] = field(factory=dict)
    reached: dict[str, int] = field(factory=dict)
    """Laws that scheduler steps of this release break, and in how many calls."""

    def __attrs_post_init__(self) -> None:
        place = self.place
        self.cell = Cell(f"vllm=={self.release}", place.policy, place.discipline, tiers=place.tiers)

    @property
    def name(self) -> str:
        return f"{self.cell.name} threshold {self.place.threshold}"

    @property
    def has_verdict(self) -> bool:
        return bool(self.evidence) or self.cell.conforms

    def take(self, record: Mapping[str, Any]) -> None:
        """Take in a record of the worker."""
        found = self.cell.take(record)
        self.reached = {law: one.calls for law, one in self.cell.reached.items()}
        if found is not None:
            self.offer(Evidence(found.law, found.lines, found.detail, self.release))

    def offer(self, evidence: Evidence) -> None:
        """Keep it if it is the first for its law, or shorter than the one known."""
        known = self.evidence.get(evidence.law)
        if known is None or evidence.calls < known.calls:
            self.evidence[evidence.law] = evidence

    def record(self) -> dict[str, Any]:
        return self.cell.record() | {
            "store_threshold": self.place.threshold,
            "scheduler_steps": self.reached,
            "verdict": VIOLATES if self.evidence else self.cell.verdict,
            "violations": [
                {"law": one.law, "calls": one.calls, "detail": one.detail, "found_on": one.origin, "trace": one.lines}
                for one in self.evidence.values()
            ],
        }

    def restore(self, record: Mapping[str, Any]) -> None:
        """What `record` told of a cell that had ended, before anything was replayed."""
        cell = self.cell
        cell.started = cell.ended = True
        cell.profile, cell.verdict_of_search = record["profile"], record["verdict"]
        cell.steps, cell.seconds = record["steps"], record["seconds"]
        cell.not_exercised, cell.problem = record["not_exercised"], record.get("problem")
        self.reached = dict(record["scheduler_steps"])
        for one in record["violations"]:
            self.offer(Evidence(one["law"], one["trace"], one["detail"], one["found_on"]))


@define
class Matrix:
    """One run. Everything that is finished is in the folder, whatever happens then."""

    options: MatrixOptions
    err: Console = field(factory=lambda: console(stderr=True))
    cells: list[Verdicts] = field(factory=list)

    def run(self) -> int:
        """Search, replay, write; 0 if every cell has a verdict, 3 if one has none. Raises `UsageError`."""
        options = self.options
        for release in options.releases:
            subjects.prepare(f"vllm=={release}", self._say)
        self.cells = [
            Verdicts(release, Place(policy, discipline, threshold, tiers))
            for release in options.releases
            for policy in options.policies
            for discipline in options.disciplines
            for tiers in options.tiers
            for threshold in options.thresholds
            if threshold == 1 or not tiers
        ]
        self._search()
        self._replay()
        write_json(options.folder / "matrix.json", self.record())
        write_text(options.folder / "matrix.md", self.markdown())
        out = console()
        for line in self.table():
            out.print(line, markup=False, soft_wrap=True)
        out.print(f"shortest counterexamples found: {options.folder / 'matrix.md'}", markup=False)
        without = [one for one in self.cells if not one.has_verdict]
        for one in without:
            self._say(f"no verdict on {one.name}: {one.cell.problem}")
        return 3 if without else 0

    def record(self) -> dict[str, Any]:
        return {
            "evictable": importlib.metadata.version("evictable"),
            "seed": self.options.seed,
            "results": [cell.record() for cell in self.cells],
        }

    # --- searching ---

    def _search(self) -> None:
        open_cells = [cell for cell in self.cells if not self._resume(cell)]
        if len(open_cells) < len(self.cells):
            self._say(f"{len(self.cells) - len(open_cells)} cells are finished already, in {self.options.folder}")
        payloads = [self._payload(cell) for cell in open_cells]
        with self._bar("searching", len(payloads)) as advance:

            def on_record(index: int, record: Mapping[str, Any]) -> None:
                one = open_cells[index]
                one.take(record)
                if record["kind"] == "result":
                    write_json(self._cell_path(one), {"options": self._cell_options(), "result": one.record()})
                if record["kind"] in ENDINGS:
                    advance()

            run_jobs(payloads, on_record)

    def _payload(self, cell: Verdicts) -> dict[str, Any]:
        return {
            "job": "check",
            "subject": f"vllm=={cell.release}",
            "policy": cell.place.policy,
            "discipline": cell.place.discipline,
            "profile": "auto",
            "engines": list(ENGINES_WITH_TIERS if cell.place.tiers else ENGINES),
            "max_time": self.options.max_time,
            "max_calls": self.options.max_calls,
            "seed": self.options.seed,
            "capacity": None,
            "store_threshold": cell.place.threshold,
            "max_tracker_size": None,
            "tiers": cell.place.tiers,
        }

    def _cell_options(self) -> dict[str, Any]:
        """What makes a kept result worthless when it changes."""
        options = self.options
        return {
            "evictable": importlib.metadata.version("evictable"),
            "max_time": options.max_time,
            "max_calls": options.max_calls,
            "seed": options.seed,
        }

    def _cell_path(self, cell: Verdicts) -> Path:
        place = cell.place
        setting = f"tiers{place.tiers}" if place.tiers else f"threshold{place.threshold}"
        name = file_name(cell.release, place.policy, place.discipline, setting)
        return self.options.folder / "cells" / f"{name}.json"

    def _resume(self, cell: Verdicts) -> bool:
        try:
            kept = json.loads(self._cell_path(cell).read_text(encoding="utf-8"))
            if kept["options"] != self._cell_options():
                return False
            cell.restore(kept["result"])
        except (OSError, ValueError, KeyError, TypeError):
            return False
        return True

    # --- replaying ---

    def _replay(self) -> None:
        """What was found anywhere is replayed on every other release and policy, under the same caller."""
        payloads, targets = [], []
        for cell in self.cells:
            others = [
                one.on_policy(cell.place.policy)
                for other in self.cells
                if other is not cell and evolve(other.place, policy=cell.place.policy) == cell.place
                for one in other.evidence.values()
                if one.origin == other.release
            ]
            if others:
                payloads.append(
                    {
                        "job": "replay",
                        "subject": f"vllm=={cell.release}",
                        "profile": "auto",
                        "traces": [one.lines for one in others],
                    }
                )
                targets.append((cell, others))
        with self._bar("replaying", len(payloads)) as advance:

            def on_record(index: int, record: Mapping[str, Any]) -> None:
                cell, others = targets[index]
                if record["kind"] in ("error", "crash", "unexplained"):
                    raise Inconclusive(f"replaying on vllm=={cell.release}: {record['message']}")
                if record["kind"] == "result":
                    for one, result in zip(others, record["replays"], strict=True):
                        for broken in result["broken"]:
                            detail = detail_of(broken["expected"], broken["observed"])
                            cell.offer(Evidence(broken["law"], result["trace"], detail, one.origin))
                    advance()

            run_jobs(payloads, on_record)

    # --- reporting ---

    def markdown(self) -> Iterable[str]:
        """The table, then the shortest counterexample found to each law at each place."""
        yield from self.table()
        yield ""
        for place in self._places():
            for law in self._laws(place):
                yield from self._shortest(place, law)

    def table(self) -> Iterable[str]:
        """Laws by releases, for each place."""
        options = self.options
        shown = [release.removesuffix(".0") for release in options.releases]
        yield f"Made on {datetime.date.today().isoformat()} with evictable {importlib.metadata.version('evictable')}:"
        yield f"`{options.command}`"
        yield ""
        yield (
            "A number is the calls of the shortest counterexample found (or replayed from another release or policy); "
            f"`-`: none was found in {self._bound()} of search. The releases differ in what they show: before 0.24 "
            "there is no evictable list and no counter of it, before 0.26 no write-pending counter."
        )
        yield ""
        if any(options.tiers):
            yield (
                "With tiers, a star: scheduler steps break the law too, made by the release's own lookup code. Before "
                "0.24 the tiering manager has no reset; before 0.26 tiers cannot ask for their peers."
            )
            yield ""
        yield "| policy | discipline | threshold | tiers | law | " + " | ".join(shown) + " |"
        yield "|---" * (5 + len(shown)) + "|"
        for place in self._places():
            row = f"| {place.policy} | {place.discipline} | {place.threshold} | {place.tiers} |"
            laws = self._laws(place)
            if not laws:
                yield (
                    f"{row} none | "
                    + " | ".join(self._mark(place, release, None) for release in options.releases)
                    + " |"
                )
            for law in laws:
                marks = " | ".join(self._mark(place, release, law) for release in options.releases)
                yield f"{row} `{law}` | {marks} |"

    def _bound(self) -> str:
        options = self.options
        bounds = [] if options.max_time is None else [f"{options.max_time:g} s"]
        bounds += [] if options.max_calls is None else [f"{options.max_calls:,} calls"]
        return " or ".join(bounds)

    def _places(self) -> Sequence[Place]:
        return tuple(dict.fromkeys(cell.place for cell in self.cells))

    def _at(self, place: Place) -> list[Verdicts]:
        return [cell for cell in self.cells if cell.place == place]

    def _laws(self, place: Place) -> list[str]:
        return sorted({law for cell in self._at(place) for law in cell.evidence}, key=_LAW_ORDER.__getitem__)

    def _mark(self, place: Place, release: str, law: str | None) -> str:
        cell = next(cell for cell in self._at(place) if cell.release == release)
        if law in cell.evidence:
            return f"{cell.evidence[law].calls}{'*' if law in cell.reached else ''}"
        return "-" if cell.has_verdict else "?"

    def _shortest(self, place: Place, law: str) -> Iterable[str]:
        broken = [cell for cell in self._at(place) if law in cell.evidence]
        shortest = min(broken, key=lambda cell: cell.evidence[law].calls)
        evidence = shortest.evidence[law]
        span = f"{broken[0].release} to {broken[-1].release}" if len(broken) > 1 else broken[0].release
        yield (
            f"**{law}**, {place}: {span} "
            f"({len(broken)} of {len(self.options.releases)} releases). Shortest found, on {shortest.release}:"
        )
        yield ""
        yield "```"
        yield from evidence.lines[:1]
        for line in evidence.lines[1:]:
            record = json.loads(line)
            record.pop("state", None)
            yield json.dumps(record)
        yield "```"
        yield f"{evidence.detail}"
        yield ""

    def _bar(self, what: str, total: int) -> _Bar:
        return _Bar(self.err, what, total)

    def _say(self, line: str) -> None:
        self.err.print(line, markup=False)


class _Bar:
    """A progress bar in a terminal, a line for every tenth in a log."""

    def __init__(self, err: Console, what: str, total: int) -> None:
        self._err, self._what, self._total, self._done = err, what, total, 0
        columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
        self._progress = Progress(*columns, console=err, transient=True, disable=not err.is_terminal)
        self._task = self._progress.add_task(what, total=total)

    def __enter__(self) -> Any:
        self._progress.start()
        return self._advance

    def __exit__(self, *exc: object) -> None:
        self._progress.stop()

    def _advance(self) -> None:
        self._done += 1
        self._progress.advance(self._task)
        if not self._err.is_terminal and (self._done == self._total or self._done % max(1, self._total // 10) == 0):
            self._err.print(f"{self._what}: {self._done} of {self._total}", markup=False)
