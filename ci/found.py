"""What the laws have found in published releases: the tables of `evictable matrix`, as data for `evictable laws`.

docs/found.md shows those tables; `found.json` is made of them, and of that the short table in README.md, so that no
figure is typed twice:

    python -m evictable.ci.found docs/found.md > ci/found.json
    python -m evictable.ci.found
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from importlib.resources import files
from pathlib import Path
from typing import Any

from attrs import asdict, frozen

_DISCIPLINES = ("contract", "careless", "hostile")
_COLUMNS = ("policy", "discipline", "threshold", "tiers", "law")


@frozen
class Found:
    """A row of the matrix: where a law is broken, by which releases, in how many calls at the shortest."""

    law: str
    policy: str
    discipline: str
    threshold: int
    tiers: int
    calls: Mapping[str, int]
    """By release, such as ``0.33``; one that is not there breaks the law nowhere that was searched."""
    reached: tuple[str, ...] = ()
    """Releases in which scheduler steps break it."""

    def __str__(self) -> str:
        where = [self.policy, self.discipline]
        where += [f"threshold {self.threshold}"] if self.threshold > 1 else []
        where += [f"{self.tiers} tier{'s' if self.tiers > 1 else ''}"] if self.tiers else []
        least, most = min(self.calls.values()), max(self.calls.values())
        calls = f"{least} call{'s' if most > 1 else ''}" if least == most else f"{least} to {most} calls"
        return f"vLLM {_spans(list(self.calls))}, {' '.join(where)}: {calls}"

    @property
    def command(self) -> str:
        """What shows it on the newest of these releases."""
        newest = max(self.calls, key=_number)
        words = [f"evictable check vllm=={newest}.0", f"--policy {self.policy}", f"--discipline {self.discipline}"]
        words += [f"--store-threshold {self.threshold}"] if self.threshold > 1 else []
        words += [f"--tiers {self.tiers}"] if self.tiers else []
        return " ".join(words)


def read_found() -> tuple[Found, ...]:
    """The rows that come with this package."""
    rows = json.loads((files(__package__) / "found.json").read_text(encoding="utf-8"))
    return tuple(Found(**{**row, "reached": tuple(row["reached"])}) for row in rows)


def found_in(markdown: str) -> Iterator[Found]:
    """The rows of every table of a matrix that broke a law."""
    head: list[str] = []
    for line in markdown.splitlines():
        cells = [cell.strip() for cell in line.strip().strip("|").split("|")]
        if not line.startswith("|"):
            head = []
        elif "law" in cells and "policy" in cells:
            head = cells
        elif head and not set(line) <= set("|- "):
            row = _row(dict(zip(head, cells, strict=True)))
            if row is not None:
                yield row


def _row(cells: Mapping[str, str]) -> Found | None:
    releases = {name: cell for name, cell in cells.items() if name not in _COLUMNS and _is_number(cell)}
    if not releases:
        return None
    return Found(
        law=cells["law"].strip("`"),
        policy=cells["policy"],
        discipline=cells.get("discipline", "hostile"),  # the table of faults has no such column
        threshold=int(cells.get("threshold", 1)),
        tiers=int(cells.get("tiers", 0)),
        calls={name: int(cell.rstrip("*")) for name, cell in releases.items()},
        reached=tuple(name for name, cell in releases.items() if cell.endswith("*")),
    )


def _is_number(cell: str) -> bool:
    return cell.rstrip("*").isdigit()


def as_json(rows: Sequence[Found]) -> str:
    return "[\n" + ",\n".join(json.dumps(asdict(row)) for row in rows) + "\n]"


def record_of(row: Found) -> dict[str, Any]:
    return asdict(row) | {"command": row.command}


def short_table(rows: Sequence[Found]) -> list[str]:
    """In Markdown: of each law, by discipline and with or without tiers, the fewest calls over all policies."""
    releases = sorted({release for row in rows for release in row.calls}, key=_number)
    lines = [f"| callers | law | {' | '.join(releases)} |", "|---|---|" + "--:|" * len(releases)]
    groups: dict[tuple[str, str], dict[str, int]] = {}
    for row in sorted(rows, key=lambda row: (row.tiers > 0, _DISCIPLINES.index(row.discipline))):
        fewest = groups.setdefault((row.discipline + (", with tiers" if row.tiers else ""), row.law), {})
        for release, calls in row.calls.items():
            fewest[release] = min(calls, fewest.get(release, calls))
    for (callers, law), fewest in groups.items():
        lines.append(f"| {callers} | `{law}` | {' | '.join(str(fewest.get(one, '')) for one in releases)} |")
    return lines


def _spans(releases: Sequence[str]) -> str:
    """``0.22 to 0.30, 0.33``: what follows on each other is taken together."""
    spans: list[list[str]] = []
    for release in releases:
        if spans and _number(release) == _number(spans[-1][-1]) + 1:
            spans[-1].append(release)
        else:
            spans.append([release])
    return ", ".join(span[0] if len(span) == 1 else f"{span[0]} to {span[-1]}" for span in spans)


def _number(release: str) -> int:
    return int(release.partition(".")[2])


if __name__ == "__main__":
    if sys.argv[1:]:
        print(as_json(list(found_in(Path(sys.argv[1]).read_text(encoding="utf-8")))))
    else:
        print("\n".join(short_table(read_found())))
