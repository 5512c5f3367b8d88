"""`evictable fuzz`: a campaign, for as long as is wanted, in a folder that it can be taken up from again."""

from __future__ import annotations

import itertools
import json
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from attrs import define, evolve, field, frozen
from rich.console import Console
from rich.live import Live

from evictable.ci import fuzz_report as report
from evictable.ci.against import broken_there
from evictable.ci.check import BROKEN, CONFORMS, INCONCLUSIVE, UNUSABLE
from evictable.ci.expectations import Expectation, replay_expectations
from evictable.ci.files import file_name, write_json, write_text
from evictable.ci.jobs import CUT_SHORT, INTERRUPTED
from evictable.ci.report import console
from evictable.ci.units import Pool, Result
from evictable.specs import subjects
from evictable.specs.callers.disciplines import DISCIPLINES
from evictable.specs.campaign.findings import Finding, Findings
from evictable.specs.campaign.journal import HEAD, Journal, locked
from evictable.specs.campaign.places import MANAGER, POLICY, SHRINK, Place, places_of
from evictable.specs.campaign.planner import Planner, Tally
from evictable.specs.campaign.units import OTHER_VERSION, Unit, version
from evictable.specs.errors import UsageError
from evictable.specs.subjects.vllm import POLICIES

WINDOW = 32
"""Units that may be planned before the result of the first of them is known."""
STATUS_EVERY = 2.0
SHRINKING = 10.0
"""Seconds, at least, for shrinking when the time is up; or a tenth of it."""
LINE_EVERY = 10.0
"""Seconds."""


@frozen
class Options:
    """What is asked for. ``max_time``, in seconds, and ``max_units`` count what earlier runs in the folder did."""

    places: tuple[Place, ...]
    """Empty: those of the campaign in the folder."""
    folder: Path
    max_time: float | None = None
    max_units: int | None = None
    profile: str = "auto"
    seed: int = 0
    memory: int = 4096
    most_calls: int | None = None
    """Of a unit."""
    expectations: tuple[Expectation, ...] = ()
    json_path: Path | None = None
    baseline: str | None = None
    """A subject: what it breaks by the same calls is expected."""


@define
class Campaign:
    """One run of the command, in a folder that is its own meanwhile."""

    options: Options
    out: Console = field(factory=console)
    err: Console = field(factory=lambda: console(stderr=True))
    head: dict[str, Any] = field(factory=dict)
    places: tuple[Place, ...] = ()
    findings: Findings = field(factory=Findings)
    tallies: dict[Place, Tally] = field(factory=dict)
    done: set[int] = field(factory=set)
    """Units."""
    earlier: float = 0.0
    """Seconds that earlier runs took."""
    corpus: int = 0
    workers: int = 0
    interrupted: bool = False
    stale: list[Expectation] = field(factory=list)
    unwritten: list[str] = field(factory=list)
    _planner: Planner = field(init=False)
    _journal: Journal = field(init=False)
    _began: float = field(factory=time.monotonic)
    _expected: dict[tuple[Any, ...], str] = field(factory=dict)
    _told: dict[str, float] = field(factory=dict)
    _again: list[Unit] = field(factory=list)
    """Units that were under way when an earlier run ended."""

    # --- the commands ---

    def run(self, pool_of: Callable[[], Pool], watch: Callable[[Campaign], None] = lambda campaign: None) -> int:
        """Search until the bounds are reached, report, and return the exit code.

        Raises `UsageError` and `Inconclusive`; what was found until then is in the folder.
        """
        with locked(self.options.folder), self._pool_of(pool_of) as pool:
            self._open(pool.size)
            self._replay_expectations()
            watch(self)
            try:
                with self._live():
                    self._search(pool)
                    self._shrink_the_rest(pool)
            except KeyboardInterrupt:
                self.interrupted = True
            finally:
                self._journal.close()
            return self._end()

    def show(self) -> int:
        """What the folder says, without searching; of a campaign that runs, too."""
        self._read_head(any_version=True)
        self._load()
        self._compare()
        self._report()
        return self.exit_code

    def again(self, number: int, pool: Pool) -> int:
        """Do one unit of the folder again, and say what comes of it."""
        self._read_head()
        self._load(up_to=number)
        unit = self._planner.plan(number)
        entry = None if unit is None else self._planner.entry(unit)
        known = next((one for one in Journal(self.options.folder).read() if one["unit"] == number), None)
        if known is None or entry is None or any(entry[name] != known[name] for name in entry):
            raise UsageError(f"--unit {number}: none of that number can be planned again; replay what it found")
        assert unit is not None
        with self._pool_of(lambda: pool):
            pool.submit(unit)
            results: list[tuple[Unit, Result]] = []
            while not results:
                results = pool.collect(1.0)
        return report.show_unit(self.out, *results[0])

    # --- results ---

    @property
    def seconds(self) -> float:
        return self.earlier + time.monotonic() - self._began

    @property
    def unexpected(self) -> list[Finding]:
        return [one for one in self.findings.in_order if one.reason is None]

    @property
    def open_places(self) -> list[Place]:
        return [place for place in self.places if self.tallies[place].left_out is None]

    @property
    def untried(self) -> dict[Place, tuple[str, ...]]:
        """Places at which too little was tried for a verdict, and what is missing."""
        broken = {place for place, _ in self.findings.found}
        return {
            place: missing
            for place in self.open_places
            if place not in broken and (missing := self.tallies[place].untouched(place))
        }

    @property
    def exit_code(self) -> int:
        if self.interrupted:
            return INTERRUPTED
        if self.unexpected:
            return BROKEN
        useless = {place.subject for place in self.places} - {place.subject for place in self.open_places}
        if self.unwritten or useless:
            return UNUSABLE
        problems = any(tally.problems for tally in self.tallies.values())
        return INCONCLUSIVE if self.stale or problems or self.untried else CONFORMS

    def verdict(self, place: Place) -> str:
        """In a word."""
        tally = self.tallies[place]
        mine = [one for (of, _), one in self.findings.found.items() if of == place]
        if mine:
            return "violates" if any(one.reason is None for one in mine) else "as expected"
        if tally.left_out is not None:
            return "left out"
        return "inconclusive" if tally.problems or place in self.untried else "conforms"

    # --- the folder ---

    def _open(self, size: int) -> None:
        path = self.options.folder / HEAD
        if path.exists():
            self._read_head()
            self._load()
            self._say(f"{path.parent}: {len(self.done)} units are done, in {self.earlier:.0f} s")
            return
        options = self.options
        self.head = {
            "evictable": version(),
            "seed": options.seed,
            "window": max(WINDOW, 3 * size),
            "profile": options.profile,
            "memory": options.memory,
            "unit_calls": options.most_calls,
            "places": [place.record() for place in options.places],
        }
        if not options.places:
            raise UsageError(f"{options.folder}: holds no campaign; name a SUBJECT")
        write_json(path, self.head)
        self._load()

    def _read_head(self, *, any_version: bool = False) -> None:
        """The campaign of the folder. Raises `UsageError` unless it is the one that is asked for."""
        path, options = self.options.folder / HEAD, self.options
        try:
            head = json.loads(path.read_text(encoding="utf-8"))
            places = tuple(Place(**one) for one in head["places"])
            kept = {name: head[name] for name in ("evictable", "seed", "profile", "window", "memory", "unit_calls")}
        except FileNotFoundError as error:
            raise UsageError(f"{path.parent}: holds no campaign; give the --dir of one") from error
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise UsageError(f"{path}: is no campaign's ({error!r}); give another --dir") from error
        if kept["evictable"] != version() and not any_version:
            raise UsageError(
                f"{path.parent}: is a campaign of evictable {kept['evictable']}, and this is {version()}: give another "
                "--dir"
            )
        asked = {"seed": options.seed, "profile": options.profile}
        other = [name for name, value in asked.items() if options.places and kept[name] != value]
        if options.places and options.places != places:
            other.insert(0, "subjects, policies, disciplines, tiers, thresholds or levels")
        if other:
            raise UsageError(
                f"{path.parent}: is a campaign of other {' and '.join(other)}; leave them out to go on with it, or "
                "give another --dir"
            )
        self.head = head

    def _load(self, up_to: int | None = None) -> None:
        """Take in the journal: all of it, or what was done before a unit was planned."""
        self.places = tuple(Place(**one) for one in self.head["places"])
        self.tallies = {place: Tally() for place in self.places}
        head = self.head
        self._planner = Planner(
            self.places, head["seed"], head["window"], head["profile"], head["memory"], head["unit_calls"]
        )
        self._journal = Journal(self.options.folder)
        entries = {}
        for entry in self._journal.read():
            if not 0 <= entry["place"] < len(self.places):
                raise UsageError(
                    f"{self._journal.path}: unit {entry['unit']} is of no place in this campaign; give another --dir"
                )
            entries[entry["unit"]] = entry
            self.earlier = max(self.earlier, entry["elapsed"])
            if up_to is None or entry["unit"] <= up_to - head["window"]:
                self._planner.take(entry, entry["result"])
        self.done = set(entries)
        most = self.options.max_units
        for number in range(max(self.done, default=-1) + 1 if up_to is None else up_to):
            if most is not None and number >= most and number not in entries:
                continue  # what shrank at the end is not planned by its number
            if number in entries:
                self._planner.note(entries[number])
                self._count(entries[number], entries[number]["result"])
            elif (unit := self._planner.plan(number)) is not None:
                self._again.append(unit)
        self._mark_expected()

    def _record(self, unit: Unit, result: Result) -> None:
        """A unit is done: what it found goes into files, then all of it into the journal."""
        problem = result.get("problem")
        if problem is not None and problem["kind"] == OTHER_VERSION:
            raise UsageError(problem["message"])
        entry = self._planner.entry(unit)
        self.done.add(unit.number)
        news = self._count(entry, result)
        for found in news:
            self._write_trace(found)
        if problem is not None and problem.get("trace"):
            name = file_name(*_words(unit.place), problem["kind"], str(unit.number))
            self._try_writing(self.options.folder / "problems" / f"{name}.jsonl", problem["trace"])
        self._journal.append({**entry, "elapsed": round(self.seconds, 1), "result": result})
        self._planner.take(entry, result)
        self._tell(unit, result, news)

    def _count(self, entry: Mapping[str, Any], result: Result) -> list[Finding]:
        place = self.places[entry["place"]]
        self.tallies[place].take(result)
        if result.get("features"):
            self.tallies[place].merge(result["features"])
        self.corpus += len(result.get("corpus", ()))
        news = self.findings.take(place, entry, result)
        problem = result.get("problem")
        if problem is not None and problem["kind"] == "unrepeatable":
            self.findings.doubt((place, entry["shape"]), problem["message"])
        self._mark(news)
        return news

    def _write_trace(self, found: Finding) -> None:
        self._try_writing(self.path_of(found), found.trace)

    def path_of(self, found: Finding) -> Path:
        """Where its trace is."""
        name = file_name(*_words(found.place), found.law, found.fault or found.shape.rpartition("(")[2])
        return self.options.folder / "findings" / f"{name}.jsonl"

    def _try_writing(self, path: Path, lines: Sequence[str]) -> None:
        """A trace is in the journal, too: that it cannot be written is said, and the campaign goes on."""
        try:
            write_text(path, lines, durable=True)
        except UsageError as error:
            self.unwritten.append(str(path))
            self._say(f"evictable: {error}")

    # --- expected failures ---

    def _replay_expectations(self) -> None:
        known = [one for one in self.options.expectations if one.subject in {place.subject for place in self.places}]
        replay_expectations(known, "auto", self.stale.append)
        self._mark_expected()

    def _mark_expected(self) -> None:
        self._expected = {
            (*one.cell, one.law, one.fault): one.reason for one in self.options.expectations if one not in self.stale
        }
        self._mark(list(self.findings.found.values()))

    def _mark(self, findings: Sequence[Finding]) -> None:
        for one in findings:
            place = one.place
            cell = (place.subject, place.policy, place.discipline, place.tiers, one.law, one.fault)
            one.reason = None if place.level == POLICY else self._expected.get(cell)

    def _compare(self) -> None:
        """At the end, when findings are short: before that, the calls of both break this or that."""
        baseline = self.options.baseline
        if baseline is None or self.interrupted:
            return
        self._say(f"which of them {baseline} breaks by the same calls:")
        for found in broken_there(self.unexpected, baseline, self.options.profile, self._say):
            found.reason = f"{baseline} breaks it by the same calls"

    # --- searching ---

    def _search(self, pool: Pool) -> None:
        for unit in self._again:
            pool.submit(unit)
        number = max(self.done | {unit.number for unit in self._again}, default=-1) + 1
        while True:
            while self._goes_on(number) and pool.has_room and self._planner.may_plan(number):
                planned = self._planner.plan(number)
                if planned is None:
                    break
                pool.submit(planned)
                number += 1
            if not pool.under_way:
                return
            self._collect(pool)

    def _goes_on(self, number: int) -> bool:
        options = self.options
        if options.max_time is not None and self.seconds >= options.max_time:
            return False
        return options.max_units is None or number < options.max_units

    def _shrink_the_rest(self, pool: Pool) -> None:
        """What was found last is shrunk, too, as far as a little more time allows."""
        self._planner.fold_all()
        most = self.options.max_time
        last = None if most is None else self.seconds + max(SHRINKING, most / 10)
        before = set(self.done)
        numbers = (number for number in itertools.count() if number not in before)
        while True:
            while pool.has_room and (last is None or self.seconds < last):
                if (unit := self._planner.plan_shrinking(next(numbers))) is None:
                    break
                pool.submit(unit)
            if not pool.under_way:
                return
            self._collect(pool)

    def _collect(self, pool: Pool) -> None:
        for unit, result in pool.collect(0.5):
            self._record(unit, result)
        if self._is_time("status", STATUS_EVERY):
            self._write_status("running")

    @contextmanager
    def _pool_of(self, pool_of: Callable[[], Pool]) -> Iterator[Pool]:
        pool = pool_of()
        self.workers = pool.size
        try:
            yield pool
        finally:
            pool.close()

    # --- telling ---

    @contextmanager
    def _live(self) -> Iterator[None]:
        if not self.err.is_terminal:
            yield
            return
        with Live(get_renderable=lambda: report.live(self), console=self.err, refresh_per_second=2, transient=True):
            yield

    def _tell(self, unit: Unit, result: Result, news: Sequence[Finding]) -> None:
        if result.get("problem") is not None:
            self._say(f"{unit.place.name}: {unit.name}: {result['problem']['kind']}: {result['problem']['message']}")
        for found in news:
            known = "expected: " if found.reason is not None else ""
            shortened = "shortened" if unit.engine == SHRINK else "broken"
            self._say(f"{known}{found.place.name}: {found.shape} {shortened}, {found.calls} calls, by {unit.name}")
        if not self.err.is_terminal and self._is_time("line", LINE_EVERY):
            self._say(report.line(self))

    def _is_time(self, what: str, seconds: float) -> bool:
        if time.monotonic() - self._told.get(what, 0.0) < seconds:
            return False
        self._told[what] = time.monotonic()
        return True

    def _write_status(self, state: str) -> None:
        write_json(self.options.folder / "status.json", report.status(self, state))

    def _end(self) -> int:
        self.findings.settle()
        self._compare()
        folder = self.options.folder
        for found in self.findings.in_order:
            if not self.path_of(found).exists():  # an earlier run was ended before it was written
                self._write_trace(found)
        self._write_status("interrupted" if self.interrupted else "ended")
        summary = report.summary(self)
        write_json(folder / "summary.json", summary)
        write_text(folder / "summary.md", report.markdown(self))
        if self.options.json_path is not None:
            write_json(self.options.json_path, summary)
        self._report()
        if self.interrupted:
            self.out.print(f"{CUT_SHORT}; the same command goes on", markup=False)
        return self.exit_code

    def _report(self) -> None:
        self.findings.settle()
        report.show(self.out, self)

    def _say(self, line: str) -> None:
        self.err.print(line, markup=False)


def places_wanted(
    names: Sequence[str], policy: str, discipline: str, tiers: Sequence[int], thresholds: Sequence[int], level: str
) -> tuple[Place, ...]:
    """Where to search by these options; no place without names. Raises `UsageError`."""
    places = places_of(
        names,
        POLICIES if policy == "all" else (policy,),
        DISCIPLINES if discipline == "all" else (discipline,),
        tuple(dict.fromkeys(tiers)),
        tuple(dict.fromkeys(thresholds)),
        (MANAGER, POLICY) if level == "all" else (level,),
    )
    if names and not places:
        raise UsageError("--level policy has no hostile callers: leave out --discipline hostile")
    return places


def prepared(places: Sequence[Place], say: Callable[[str], None]) -> tuple[Place, ...]:
    """The places with their subjects fetched, and by their normal names. Raises `UsageError`."""
    names = {name: subjects.prepare(name, say) for name in dict.fromkeys(place.subject for place in places)}
    return tuple(dict.fromkeys(evolve(place, subject=names[place.subject]) for place in places))


def _words(place: Place) -> Iterator[str]:
    yield from (place.subject, place.policy, place.discipline)
    if place.tiers:
        yield f"tiers{place.tiers}"
    if place.threshold > 1:
        yield f"threshold{place.threshold}"
    if place.level == POLICY:
        yield POLICY
