"""The figures of a benchmark as tables: a row for each case, a column for each subject."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Sequence

from rich.console import Console
from rich.table import Table

from evictable.specs.bench.floor import NAME as FLOOR
from evictable.specs.bench.rows import BYTES, CALLS, RATE, SHARE, Row

_LABELS: tuple[tuple[str, Callable[[Row], str]], ...] = (
    ("policy", lambda row: row.policy or ""),
    ("blocks", lambda row: f"{row.blocks:,}" if row.blocks else ""),
    ("what", lambda row: row.what),
    ("keys", lambda row: str(row.keys or "")),
    ("pinned", lambda row: _pinned(row.pinned)),
)


def _pinned(pinned: float | None) -> str:
    if pinned is None:
        return ""
    return f"{pinned:.0%}" if isinstance(pinned, float) else f"{pinned:,}"


def short(subject: str) -> str:
    """As a column is headed."""
    return subject.removeprefix("vllm==").removeprefix("impl:")


def shown(value: float, unit: str) -> str:
    """With three digits, in a unit that suits."""
    if unit == BYTES:
        return f"{value:,.0f} B"
    if unit == RATE:
        return f"{value:,.0f}/s"
    if unit == SHARE:
        return f"{value:.1%}"
    if unit == CALLS:
        return f"{value:,.0f}"
    for scale, name in ((1e-6, "ns"), (1e-3, "us"), (1.0, "ms")):
        if value < scale:
            return f"{value / scale * 1000:.3g} {name}"
    return f"{value:.3g} s"


def show_ratios(out: Console, rows: Sequence[Row], reference: str, to_floor: bool = False) -> None:
    """The time of the reference (of the floor), and the ratios of the others to it."""
    base = FLOOR if to_floor else reference

    def cell(row: Row) -> str:
        """The ratio, where there is one."""
        ratio = row.to_floor if to_floor else row.ratio
        if row.subject == base or ratio is None:
            return shown(row.value.median, row.unit)
        return f"{ratio.median:.2f}±{ratio.half:.2f}" if ratio.median < 100 else f"{ratio.median:,.0f}"

    of = [row for row in rows if not to_floor or row.to_floor is not None or row.subject == FLOOR]
    _show(out, of, cell, base)
    out.print(f"Time of {base}; of the others the ratio to it in the same round, median ± half the quartile distance.")


def show_values(out: Console, rows: Sequence[Row], note: str = "") -> None:
    """Medians."""
    _show(out, rows, lambda row: shown(row.value.median, row.unit), None)
    if note:
        out.print(note, markup=False)


def show_growth(out: Console, rows: Sequence[Row]) -> None:
    """How many times as long an eviction takes with 99 per cent pinned as with none."""
    steady = {(row.policy, row.blocks, row.subject, row.pinned): row.value for row in rows if row.what == "steady"}
    table = _table(["policy", "blocks", *map(short, dict.fromkeys(row.subject for row in rows))], left=1)
    for policy, blocks in dict.fromkeys((row.policy, row.blocks) for row in rows):
        pinned = max(number or 0 for *of, _, number in steady if of == [policy, blocks])
        cells = [
            f"{steady[at].median / steady[(*at[:3], 0)].median:.2f}"
            for subject in dict.fromkeys(row.subject for row in rows)
            if (at := (policy, blocks, subject, pinned)) in steady
        ]
        table.add_row(policy or "", f"{blocks or 0:,}", *cells)
    out.print(table)
    out.print("An eviction with 99 per cent of the blocks pinned, to one with none, in the steady state.")


def show_words(out: Console, rows: Sequence[Row]) -> None:
    """Medians, each with what it is of, a line a row."""
    table = _table(["policy", "blocks", "subject", "median", "which"])
    for row in rows:
        blocks = f"{row.blocks:,}" if row.blocks else ""
        table.add_row(row.policy or "", blocks, row.subject, shown(row.value.median, row.unit), row.word)
    out.print(table)


def show_defects(out: Console, rows: Sequence[Row]) -> None:
    """How soon the seeded defects are found: the median one, nine of ten, and the slowest three."""
    seconds = {row.what.removeprefix("seconds "): row.value.median for row in rows if row.what.startswith("seconds ")}
    calls = {row.what.removeprefix("calls "): row.value.median for row in rows if row.what.startswith("calls ")}
    slowest = sorted(calls, key=lambda name: calls[name], reverse=True)
    ninth = sorted(calls.values())[len(calls) * 9 // 10]
    nine_tenths = sorted(seconds.values())[len(seconds) * 9 // 10]
    half, soon = statistics.median(calls.values()), statistics.median(seconds.values())
    out.print(
        f"A random walk meets {len(calls)} seeded defects: half of them within {half:,.0f} judged calls, {soon:.2f} s; "
        f"nine of ten within {ninth:,.0f}, {nine_tenths:.2f} s.",
        markup=False,
    )
    out.print(
        "Slowest: " + "; ".join(f"{name} {calls[name]:,.0f} calls, {seconds[name]:.2f} s" for name in slowest[:3]),
        markup=False,
    )


def _show(out: Console, rows: Sequence[Row], cell: Callable[[Row], str], base: str | None) -> None:
    subjects = list(dict.fromkeys(row.subject for row in rows))
    if base in subjects:
        subjects.sort(key=lambda name: name != base)
    places: dict[tuple[object, ...], dict[str, Row]] = {}
    for row in rows:
        places.setdefault(row.place, {})[row.subject] = row
    labels = [(name, label) for name, label in _LABELS if len({label(row) for row in rows}) > 1]
    table = _table([*(name for name, _ in labels), *map(short, subjects)], left=len(labels))
    for by_subject in places.values():
        first = next(iter(by_subject.values()))
        cells = [cell(by_subject[name]) if name in by_subject else "" for name in subjects]
        table.add_row(*(label(first) for _, label in labels), *cells)
    out.print(table)


def _table(headings: Sequence[str], left: int | None = None) -> Table:
    table = Table(box=None, padding=(0, 1, 0, 0), header_style="dim")
    for place, heading in enumerate(headings):
        number = place >= (len(headings) if left is None else left) or heading in ("blocks", "keys", "pinned", "median")
        table.add_column(heading, justify="right" if number else "left", no_wrap=True)
    return table
