"""Plots of a benchmark: SVG that needs nothing to be drawn, and is read on a light and on a dark page."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from math import ceil, floor, log10
from xml.sax.saxutils import escape

from attrs import frozen

from evictable.ci.bench_tables import short, shown
from evictable.specs.bench.rows import SECONDS, Row

_COLOURS = ("#d1242f", "#bc6c00", "#0a7f5a", "#0969da", "#8250df", "#57606a", "#b5308a")
_DARK = ("#ff7b72", "#e3a008", "#3fb950", "#58a6ff", "#bc8cff", "#9aa4ae", "#f778ba")
_WIDTH, _HEIGHT, _LEFT, _TOP, _BOTTOM, _GAP = 420, 300, 62, 40, 48, 26
_NAMES = 78
"""Room for the names at the lines' ends."""

Line = Sequence[tuple[float, float]]


@frozen
class Panel:
    title: str
    lines: Mapping[str, Line]
    """By subject; all values above 0."""


def evict_plot(rows: Sequence[Row], what: str = "steady") -> list[str]:
    """Seconds of an eviction against blocks pinned at the cold end, of the largest caches, a panel for each policy."""
    of = [row for row in rows if row.section == "evict" and row.what == what]
    panels = []
    for policy in dict.fromkeys(row.policy for row in of):
        blocks = max(row.blocks or 0 for row in of if row.policy == policy)
        lines: dict[str, list[tuple[float, float]]] = {}
        for row in of:
            if row.policy == policy and row.blocks == blocks and row.pinned:
                lines.setdefault(row.subject, []).append((row.pinned, row.value.median))
        panels.append(Panel(f"{str(policy).upper()}, {blocks:,} blocks", lines))
    first = "first eviction after that" if what == "first" else "eviction"
    return list(_drawn(panels, f"An {first} of 16 blocks" if what != "first" else f"The {first}"))


def _drawn(panels: Sequence[Panel], title: str) -> Iterator[str]:
    each = _LEFT + _WIDTH + _NAMES
    width, height = each * len(panels) + _GAP, _TOP + _HEIGHT + _BOTTOM
    subjects = list(dict.fromkeys(name for panel in panels for name in panel.lines))
    yield f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}">'
    yield f"<title>{escape(title)}, by blocks pinned at the cold end</title>"
    yield from _style(len(subjects))
    values = [value for panel in panels for line in panel.lines.values() for _, value in line]
    low, high = (floor(log10(min(values))), ceil(log10(max(values)))) if values else (-6, -3)
    for number, panel in enumerate(panels):
        yield f'<g transform="translate({number * each + _LEFT},{_TOP})">'
        yield from _panel(panel, subjects, low, max(high, low + 1))
        yield "</g>"
    yield "</svg>"


def _style(number: int) -> Iterator[str]:
    def colours(of: Sequence[str]) -> str:
        each = [(place, of[place % len(of)]) for place in range(number)]
        return " ".join(f".s{place} {{ stroke: {c} }} text.s{place} {{ fill: {c}; stroke: none }}" for place, c in each)

    yield "<style>"
    yield "text { font: 12px system-ui, sans-serif; fill: #1f2328 } .title { font-size: 14px; font-weight: 600 }"
    yield ".grid { stroke: #8c959f; stroke-opacity: .35 } path, .mark { fill: none; stroke-width: 2 }"
    yield colours(_COLOURS)
    yield f"@media (prefers-color-scheme: dark) {{ text {{ fill: #e6edf3 }} {colours(_DARK)} }}"
    yield "</style>"


def _panel(panel: Panel, subjects: Sequence[str], low: int, high: int) -> Iterator[str]:
    numbers = [number for line in panel.lines.values() for number, _ in line]
    left, right = (floor(log10(min(numbers))), ceil(log10(max(numbers)))) if numbers else (0, 1)

    def x(number: float) -> float:
        return (log10(number) - left) / max(right - left, 1) * _WIDTH

    def y(value: float) -> float:
        return _HEIGHT - (log10(value) - low) / (high - low) * _HEIGHT

    yield f'<text class="title" x="0" y="-16">{escape(panel.title)}</text>'
    for power in range(low, high + 1):
        at = y(10.0**power)
        yield f'<line class="grid" x1="0" x2="{_WIDTH}" y1="{at:.1f}" y2="{at:.1f}"/>'
        yield f'<text x="-8" y="{at + 4:.1f}" text-anchor="end">{shown(10.0**power * 1.000001, SECONDS)}</text>'
    for power in range(left, right + 1):
        at = x(10.0**power)
        yield f'<line class="grid" x1="{at:.1f}" x2="{at:.1f}" y1="0" y2="{_HEIGHT}"/>'
        yield f'<text x="{at:.1f}" y="{_HEIGHT + 18}" text-anchor="middle">{10**power:,}</text>'
    yield f'<text x="{_WIDTH / 2}" y="{_HEIGHT + 38}" text-anchor="middle">blocks pinned at the cold end</text>'
    ends = _apart({name: y(line[-1][1]) for name, line in panel.lines.items()})
    for name, line in panel.lines.items():
        place = subjects.index(name)
        path = "M" + " L".join(f"{x(number):.1f},{y(value):.1f}" for number, value in line)
        yield f'<path class="s{place}" d="{path}"/>'
        for number, value in line:
            yield f'<circle class="mark s{place}" cx="{x(number):.1f}" cy="{y(value):.1f}" r="2.5"/>'
        end = x(line[-1][0]) + 8
        yield f'<text class="s{place}" x="{end:.1f}" y="{ends[name] + 4:.1f}">{escape(short(name))}</text>'


def _apart(places: Mapping[str, float], least: float = 14.0) -> dict[str, float]:
    """The places, moved so that names do not cover each other."""
    moved: dict[str, float] = {}
    before = -least
    for name, place in sorted(places.items(), key=lambda one: one[1]):
        before = moved[name] = max(place, before + least)
    over = max(0.0, before - _HEIGHT)
    return {name: place - over for name, place in moved.items()}
