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

from attrs import asdict, define, field, frozen
from rich.console import Console
from rich.table import Table
from rich.text import Text

from evictable.ci.files import write_json
from evictable.ci.jobs import default_parallel, run_jobs
from evictable.ci.report import console, count_calls
from evictable.specs.errors import UsageError
from evictable.specs.mutants.fate import ALIVE, CROSSHAIR, ENGINES, OUTSIDE, REFUTED, Z3, Fate
from evictable.specs.mutants.hunt import MAX_CALLS
from evictable.specs.mutants.mutant import Mutant
from evictable.specs.mutants.registry import MUTANTS, named

REFUTED_ALL, SOME_ALIVE, NOTHING_SHOWN = 0, 1, 3
SILENCE = 60.0
"""Seconds without a word after which a hunt counts as hung; then its mutant is alive."""
SILENCE_OF_SOLVERS = 600.0
PIECES = 4
"""Jobs for each processor: a piece that is done early leaves the processor to another."""

_STYLE = {REFUTED: "green", ALIVE: "bold red", OUTSIDE: "dim"}


@frozen
class Row:
    """A mutant under an engine."""

    mutant: Mutant
    fate: Fate

    def record(self) -> dict[str, Any]:
        told = {name: value for name, value in asdict(self.mutant).items() if name not in ("old", "new")}
        return {
            "mutant": told.pop("name"),
            **told,
            "laws": list(self.mutant.laws),
            **asdict(self.fate),
            "seconds": round(self.fate.seconds, 3),
        }


@define
class _Piece:
    """Mutants that are hunted in one process, one after the other."""

    engine: str
    mutants: list[Mutant]
    under_way: str | None = None

    def payload(self, max_calls: int) -> dict[str, Any]:
        return {
            "job": "mutants",
            "engine": self.engine,
            "mutants": [asdict(mutant) for mutant in self.mutants],
            "max_calls": max_calls,
        }

    def take_out(self, name: str) -> Mutant:
        mutant = next(mutant for mutant in self.mutants if mutant.name == name)
        self.mutants.remove(mutant)
        return mutant


@define
class Hunt:
    """One run of the command."""

    mutants: Sequence[Mutant]
    engines: Sequence[str]
    max_calls: int = MAX_CALLS
    out: Console = field(factory=console)
    err: Console = field(factory=lambda: console(stderr=True))
    fates: dict[tuple[str, str], Fate] = field(factory=dict)
    _began: float = field(factory=time.monotonic)

    def run(self) -> int:
        """Hunt every mutant with every engine, and show what came of it. Raises `UsageError`."""
        for engine in self.engines:
            pieces = _pieces(engine, self.mutants)
            while pieces:  # what a process that died has left is for another one
                self._run(pieces, SILENCE_OF_SOLVERS if engine in (Z3, CROSSHAIR) else SILENCE)
                pieces = [piece for piece in pieces if piece.mutants]
        self._report()
        return self.exit_code

    @property
    def rows(self) -> list[Row]:
        return [Row(mutant, self.fates[mutant.name, engine]) for mutant in self.mutants for engine in self.engines]

    @property
    def exit_code(self) -> int:
        verdicts = {fate.verdict for fate in self.fates.values()}
        if ALIVE in verdicts:
            return SOME_ALIVE
        return REFUTED_ALL if REFUTED in verdicts else NOTHING_SHOWN

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

        run_jobs([piece.payload(self.max_calls) for piece in pieces], on_record, silence=silence)

    def _take(self, piece: _Piece, record: Mapping[str, Any]) -> None:
        kind = record["kind"]
        if kind == "hunting":
            piece.under_way = record["mutant"]
        elif kind == "fate":
            self._decide(piece, record["mutant"], Fate(**record["fate"]))
        elif kind == "error":
            raise UsageError(record["message"])
        elif kind == "crash":
            name = piece.under_way or piece.mutants[0].name
            self._decide(piece, name, Fate(piece.engine, ALIVE, note=record["message"]))

    def _decide(self, piece: _Piece, name: str, fate: Fate) -> None:
        piece.take_out(name)
        piece.under_way = None
        self.fates[name, piece.engine] = fate
        total = len(self.mutants) * len(self.engines)
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
        for mutant in self.mutants:
            fates = [self.fates[mutant.name, engine] for engine in self.engines]
            table.add_row(
                mutant.name, mutant.kind, mutant.laws[0], *(Text(_brief(fate), _STYLE[fate.verdict]) for fate in fates)
            )
        return table

    def _table_of_one(self) -> Table:
        table = _table("mutant", "kind", "law", "verdict", "by", right=("calls", "judged", "seconds"))
        for row in self.rows:
            fate = row.fate
            table.add_row(
                row.mutant.name,
                row.mutant.kind,
                row.mutant.laws[0],
                Text(fate.verdict, _STYLE[fate.verdict]),
                fate.by,
                *("" if count is None else f"{count:,}" for count in (fate.calls, fate.judged)),
                f"{fate.seconds:.2f}",
            )
        return table

    def _told_outside(self) -> Iterator[str]:
        for engine in self.engines:
            reasons: dict[str, list[str]] = {}
            for row in self.rows:
                if (row.fate.engine, row.fate.verdict) == (engine, OUTSIDE):
                    reasons.setdefault(row.fate.note, []).append(row.mutant.name)
            for reason, names in reasons.items():
                yield f"outside {engine}: {reason}: {', '.join(names)}"

    def _told_alive(self) -> Iterator[str]:
        for row in self.rows:
            if row.fate.verdict == ALIVE:
                yield f"ALIVE under {row.fate.engine}: {row.mutant.name} ({row.mutant.sentence}): {row.fate.note}"

    def _told_counts(self) -> Iterator[str]:
        for engine in self.engines:
            fates = [fate for (_, of), fate in self.fates.items() if of == engine]
            counts = Counter(fate.verdict for fate in fates)
            told = ", ".join(f"{counts[verdict]} {verdict}" for verdict in (REFUTED, ALIVE, OUTSIDE) if counts[verdict])
            yield f"{engine}: {told}; {', '.join(_medians(fates))}"

    def _told_agreement(self) -> Iterator[str]:
        if len(self.engines) < 2:
            return
        by_mutant = [[self.fates[mutant.name, engine] for engine in self.engines] for mutant in self.mutants]
        several = [fates for fates in by_mutant if sum(fate.verdict != OUTSIDE for fate in fates) > 1]
        agreed = sum(len({fate.verdict for fate in fates} - {OUTSIDE}) == 1 for fates in several)
        yield f"covered by two engines or more: {len(several)} mutants; they agree on {agreed}"
        if self.at_odds:
            yield f"they disagree on {', '.join(self.at_odds)}"


def _pieces(engine: str, mutants: Sequence[Mutant]) -> list[_Piece]:
    number = min(len(mutants), PIECES * default_parallel())
    return [_Piece(engine, list(mutants[first::number])) for first in range(number)]


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


def run_mutants(
    names: Sequence[str],
    engines: Sequence[str],
    path: Path | None = None,
    max_calls: int | None = None,
    json_path: Path | None = None,
) -> int:
    """Run the command and return its exit code. Raises `UsageError`."""
    if path is not None and names:
        raise UsageError("name mutants of the registry, or give a --file of others, not both")
    known = MUTANTS if path is None else read_mutants(path)
    mutants = tuple(named(name) for name in dict.fromkeys(names)) or known
    if not mutants:
        raise UsageError(f"{path}: holds no mutant; write [[mutant]] tables")
    hunt = Hunt(mutants, ENGINES if "all" in engines else tuple(dict.fromkeys(engines)), max_calls or MAX_CALLS)
    code = hunt.run()
    if json_path is not None:
        write_json(json_path, hunt.record())
    return code
