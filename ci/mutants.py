"""`evictable mutants`: what comes of every seeded defect, under every engine."""

from __future__ import annotations

import importlib.metadata
import statistics
import time
import tomllib
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from attrs import asdict, define, evolve, field, frozen
from rich.console import Console
from rich.table import Table
from rich.text import Text

from evictable.ci.files import write_json
from evictable.ci.jobs import CUT_SHORT, INTERRUPTED, default_parallel, run_jobs
from evictable.ci.report import console, count_calls
from evictable.specs import subjects
from evictable.specs.errors import UsageError
from evictable.specs.mutants.equivalent import arguments_by_place
from evictable.specs.mutants.fate import (
    ALIVE,
    CROSSHAIR,
    ENGINES,
    EQUIVALENT,
    OUTSIDE,
    RANDOM,
    REFUTED,
    UNDECIDED,
    Z3,
    Fate,
)
from evictable.specs.mutants.generated import MODULES, Generated, generated
from evictable.specs.mutants.hunt import MAX_CALLS
from evictable.specs.mutants.hunts import GENERATED, HAND_MADE, LIVE
from evictable.specs.mutants.mutant import Mutant
from evictable.specs.mutants.registry import MUTANTS, named
from evictable.specs.mutants.releases import LiveMutant, of_release
from evictable.specs.mutants.tested import must_pass

REFUTED_ALL, SOME_ALIVE, NOTHING_SHOWN = 0, 1, 3
SILENCE = 60.0
"""Seconds without a word after which a hunt counts as hung; then its mutant is alive."""
SILENCE_OF_SOLVERS = 600.0
SPARED = {OUTSIDE, EQUIVALENT}
"""What nobody is expected to refute."""
PIECES = 4
"""Jobs for each processor: a piece that is done early leaves the processor to another."""

_STYLE = {REFUTED: "green", ALIVE: "bold red", UNDECIDED: "bold yellow", OUTSIDE: "dim", EQUIVALENT: "dim"}


@frozen
class Target:
    """A mutant, whoever made it, as it is shown."""

    name: str
    kind: str
    sentence: str
    law: str
    told: dict[str, Any]
    """What else there is to say of it, for a reader of JSON."""
    data: Any
    """What a worker needs to build it: its name, or all of it."""


@frozen
class Row:
    """A mutant under an engine."""

    target: Target
    fate: Fate

    def record(self) -> dict[str, Any]:
        target = self.target
        told = {"mutant": target.name, "kind": target.kind, "sentence": target.sentence, **target.told}
        return {**told, **asdict(self.fate), "seconds": round(self.fate.seconds, 3)}


@define
class _Piece:
    """Mutants that are hunted in one process, one after the other."""

    engine: str
    targets: list[Target]
    under_way: str | None = None

    def take_out(self, name: str) -> None:
        self.targets = [target for target in self.targets if target.name != name]


@define
class Hunt:
    """One run of the command."""

    targets: Sequence[Target]
    engines: Sequence[str]
    job: Mapping[str, Any] = field(factory=dict)
    """What every worker is told."""
    out: Console = field(factory=console)
    err: Console = field(factory=lambda: console(stderr=True))
    excused: Mapping[str, str] = field(factory=dict)
    """Mutants that change nothing that anybody could notice, and the argument for each."""
    fates: dict[tuple[str, str], Fate] = field(factory=dict)
    interrupted: bool = False
    _began: float = field(factory=time.monotonic)

    def run(self) -> int:
        """Hunt every mutant with every engine, and show what came of it. Raises `UsageError`."""
        try:
            for engine in self.engines:
                self._hunt_with(engine)
        except KeyboardInterrupt:
            self.interrupted = True
            for target in self.targets:
                for engine in self.engines:
                    self.fates.setdefault((target.name, engine), Fate(engine, UNDECIDED))
        self._report()
        if self.interrupted:
            self.out.print(CUT_SHORT)
        return self.exit_code

    def _hunt_with(self, engine: str) -> None:
        pieces = _pieces(engine, self.targets)
        while pieces:  # what a process that died has left is for another one
            self._run(pieces, SILENCE_OF_SOLVERS if engine in (Z3, CROSSHAIR) else SILENCE)
            pieces = [piece for piece in pieces if piece.targets]

    @property
    def rows(self) -> list[Row]:
        return [Row(target, self.fates[target.name, engine]) for target in self.targets for engine in self.engines]

    @property
    def exit_code(self) -> int:
        verdicts = {fate.verdict for fate in self.fates.values()}
        if self.interrupted:
            return INTERRUPTED
        if ALIVE in verdicts or self.stale:
            return SOME_ALIVE
        return REFUTED_ALL if REFUTED in verdicts else NOTHING_SHOWN

    @property
    def stale(self) -> list[str]:
        """Mutants that are said to be equivalent, and are refuted."""
        return [name for (name, _), fate in self.fates.items() if name in self.excused and fate.verdict == REFUTED]

    @property
    def at_odds(self) -> list[str]:
        """Mutants that one engine refutes and another, which covers them, does not."""
        told: dict[str, set[str]] = {}
        for (name, _), fate in self.fates.items():
            told.setdefault(name, set()).add(fate.verdict)
        return [name for name, verdicts in told.items() if {REFUTED, ALIVE} <= verdicts]

    def record(self) -> dict[str, Any]:
        version = importlib.metadata.version("evictable")
        return {"evictable": version, "at_odds": self.at_odds, "results": [row.record() for row in self.rows]}

    def _run(self, pieces: Sequence[_Piece], silence: float) -> None:
        def on_record(index: int, record: Mapping[str, Any]) -> None:
            self._take(pieces[index], record)

        payloads = [
            {**self.job, "job": "mutants", "engine": piece.engine, "mutants": [target.data for target in piece.targets]}
            for piece in pieces
        ]
        run_jobs(payloads, on_record, silence=silence)

    def _take(self, piece: _Piece, record: Mapping[str, Any]) -> None:
        kind = record["kind"]
        if kind == "hunting":
            piece.under_way = record["mutant"]
        elif kind == "fate":
            self._decide(piece, record["mutant"], Fate(**record["fate"]))
        elif kind == "error":
            raise UsageError(record["message"])
        elif kind == "crash":
            name = piece.under_way or piece.targets[0].name
            self._decide(piece, name, Fate(piece.engine, ALIVE, note=record["message"]))

    def _decide(self, piece: _Piece, name: str, fate: Fate) -> None:
        if fate.verdict == ALIVE and name in self.excused:
            fate = evolve(fate, verdict=EQUIVALENT, note=self.excused[name])
        piece.take_out(name)
        piece.under_way = None
        self.fates[name, piece.engine] = fate
        total = len(self.targets) * len(self.engines)
        seconds = time.monotonic() - self._began
        told = f"{seconds:6.1f} s  {len(self.fates)} of {total}  {piece.engine}: {name}: {_told(fate)}"
        self.err.print(told, markup=False)

    def _report(self) -> None:
        self.out.print()
        self.out.print(self._table() if len(self.engines) > 1 else self._table_of_one())
        for lines in (self._told_outside(), self._told_alive(), self._told_counts(), self._told_agreement()):
            for line in lines:
                self.out.print(line, markup=False)

    def _table(self) -> Table:
        table = _table("mutant", "kind", "law", *self.engines)
        for target in self.targets:
            fates = [self.fates[target.name, engine] for engine in self.engines]
            told = [Text(_brief(fate), _STYLE[fate.verdict]) for fate in fates]
            table.add_row(target.name, target.kind, target.law, *told)
        return table

    def _table_of_one(self) -> Table:
        table = _table("mutant", "kind", "law", "verdict", "by", right=("calls", "judged", "seconds"))
        for row in self.rows:
            fate = row.fate
            table.add_row(
                row.target.name,
                row.target.kind,
                row.target.law,
                Text(fate.verdict, _STYLE[fate.verdict]),
                fate.by,
                *("" if count is None else f"{count:,}" for count in (fate.calls, fate.judged)),
                f"{fate.seconds:.2f}",
            )
        return table

    def _told_outside(self) -> Iterator[str]:
        for engine in self.engines:
            reasons: dict[str, list[str]] = {}
            for target in self.targets:
                fate = self.fates[target.name, engine]
                if fate.verdict in SPARED:
                    why = f"outside {engine}" if fate.verdict == OUTSIDE else EQUIVALENT
                    reasons.setdefault(f"{why}: {fate.note}", []).append(target.name)
            for reason, names in reasons.items():
                yield f"{reason}: {', '.join(names)}"

    def _told_alive(self) -> Iterator[str]:
        for row in self.rows:
            if row.fate.verdict == ALIVE:
                yield f"ALIVE under {row.fate.engine}: {row.target.name} ({row.target.sentence}): {row.fate.note}"

        for name in self.stale:
            yield f"STALE: {name} is said to be equivalent, and is refuted: take it out of specs/mutants/equivalent.py"

    def _told_counts(self) -> Iterator[str]:
        for engine in self.engines:
            fates = [fate for (_, of), fate in self.fates.items() if of == engine]
            counts = Counter(fate.verdict for fate in fates)
            told = ", ".join(f"{counts[verdict]} {verdict}" for verdict in _STYLE if counts[verdict])
            yield f"{engine}: {told}; {', '.join(_medians(fates))}"
            by = Counter(fate.law or fate.engine for fate in fates if fate.verdict == REFUTED)
            yield f"refuted by {', '.join(f'{what} {count}' for what, count in by.most_common())}"

    def _told_agreement(self) -> Iterator[str]:
        if len(self.engines) < 2:
            return
        by_mutant = [[self.fates[target.name, engine] for engine in self.engines] for target in self.targets]
        several = [fates for fates in by_mutant if sum(fate.verdict not in SPARED for fate in fates) > 1]
        agreed = sum(len({fate.verdict for fate in fates} - SPARED) == 1 for fates in several)
        yield f"covered by two engines or more: {len(several)} mutants; they agree on {agreed}"
        if self.at_odds:
            yield f"they disagree on {', '.join(self.at_odds)}"


def _pieces(engine: str, targets: Sequence[Target]) -> list[_Piece]:
    number = min(len(targets), PIECES * default_parallel())
    return [_Piece(engine, list(targets[first::number])) for first in range(number)]


def _table(*headings: str, right: Sequence[str] = ()) -> Table:
    table = Table(box=None, padding=(0, 2, 0, 0), header_style="bold")
    for heading in headings:
        table.add_column(heading, overflow="fold")
    for heading in right:
        table.add_column(heading, justify="right", no_wrap=True)
    return table


def _told(fate: Fate) -> str:
    if fate.verdict == REFUTED:
        calls = "" if fate.calls is None else f" in {count_calls(fate.calls)}"
        return f"refuted by {fate.by}{calls}"
    return f"{fate.verdict}: {fate.note}"


def _brief(fate: Fate) -> str:
    if fate.verdict != REFUTED:
        return fate.verdict
    return f"{fate.by}{'' if fate.calls is None else f' ({fate.calls})'} {fate.seconds:.1f} s"


def _medians(fates: Sequence[Fate]) -> Iterator[str]:
    medians: dict[str, Callable[[Fate], float | None]] = {
        "calls in the shortest counterexample": lambda fate: fate.calls,
        "judged calls until it was found": lambda fate: fate.judged,
        "seconds": lambda fate: fate.seconds,
    }
    for what, of in medians.items():
        values = [value for fate in fates if fate.verdict == REFUTED and (value := of(fate)) is not None]
        if values:
            median = statistics.median(values)
            yield f"median {what} {median:.2f}" if what == "seconds" else f"median {what} {median:,.0f}"


def read_mutants(path: Path) -> tuple[Mutant, ...]:
    """The mutants of a file. Raises `UsageError`."""
    try:
        given = tomllib.loads(path.read_text(encoding="utf-8"))["mutant"]
        return tuple(Mutant(**{**one, "laws": tuple(one["laws"])}) for one in given)
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError, KeyError, TypeError) as error:
        what = f"lacks {error}" if isinstance(error, KeyError) else f"cannot be read ({error})"
        raise UsageError(
            f"{path}: {what}; write [[mutant]] tables with name, sentence, module, old, new, laws"
        ) from error


def run_mutants(options: Options) -> int:
    """Run the command and return its exit code. Raises `UsageError`."""
    hunt = _hunt(options)
    code = hunt.run()
    if options.json_path is not None:
        write_json(options.json_path, hunt.record())
    return code


@frozen
class Options:
    """What the command line asks for."""

    names: Sequence[str] = ()
    engines: Sequence[str] = (RANDOM,)
    path: Path | None = None
    generated: bool = False
    subject: str = "impl"
    max_calls: int = MAX_CALLS
    json_path: Path | None = None


def _hunt(options: Options) -> Hunt:
    engines = ENGINES if "all" in options.engines else tuple(dict.fromkeys(options.engines))
    others = [what for what, is_so in _others(options).items() if is_so]
    if len(others) > 1:
        raise UsageError(f"{' and '.join(others)} do not go together: each says which mutants to hunt")
    if others and others != ["NAME"] and others != ["--file"] and engines != (RANDOM,):
        raise UsageError(f"{others[0]} takes no --engine: those mutants are hunted in one way")
    job = {"max_calls": options.max_calls, "subject": options.subject}
    if options.generated:
        unknown = [name for name in options.names if name not in MODULES]
        if unknown:
            raise UsageError(f"no mutants are generated of {unknown[0]}; with --generated, name {', '.join(MODULES)}")
        must_pass()
        targets = [_of_generated(one) for one in generated(tuple(options.names) or MODULES)]
        return Hunt(targets, (GENERATED,), {**job, "source": GENERATED}, excused=_equivalents(targets))
    if options.subject != "impl":
        err = console(stderr=True)
        name = subjects.prepare(options.subject, lambda line: err.print(line, markup=False))
        targets = [_of_live(one) for one in of_release(name, options.names)]
        return Hunt(targets, (RANDOM,), {**job, "source": LIVE, "subject": name})
    known = MUTANTS if options.path is None else read_mutants(options.path)
    mutants = tuple(named(name) for name in dict.fromkeys(options.names)) or known
    if not mutants:
        raise UsageError(f"{options.path}: holds no mutant; write [[mutant]] tables")
    return Hunt([_of_mutant(mutant) for mutant in mutants], engines, {**job, "source": HAND_MADE})


def _others(options: Options) -> dict[str, bool]:
    return {
        "NAME": bool(options.names) and options.subject == "impl" and not options.generated,
        "--file": options.path is not None,
        "--generated": options.generated,
        "--subject": options.subject != "impl",
    }


def _of_mutant(mutant: Mutant) -> Target:
    data = asdict(mutant)
    told = {name: data[name] for name in ("module", "discipline", "policy", "tiers")} | {"laws": list(mutant.laws)}
    return Target(mutant.name, mutant.kind, mutant.sentence, mutant.laws[0], told, data)


def _of_live(mutant: LiveMutant) -> Target:
    told = {"discipline": mutant.discipline, "policy": mutant.policy, "laws": list(mutant.laws)}
    return Target(mutant.name, mutant.kind, mutant.sentence, mutant.laws[0], told, mutant.name)


def _of_generated(one: Generated) -> Target:
    module, _, rest = one.place.partition(":")
    operator = rest.split(": ")[1]
    told = {"module": module, "line": one.line, "place": one.place}
    return Target(one.mutant.name, operator, f"line {one.line} of {one.place}", "any", told, one.mutant.name)


def _equivalents(targets: Sequence[Target]) -> Mapping[str, str]:
    arguments = arguments_by_place()
    return {target.name: arguments[place] for target in targets if (place := target.told["place"]) in arguments}
