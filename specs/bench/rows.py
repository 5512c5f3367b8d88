"""What was measured as flat rows: a median, its spread, and the ratios to the reference and to the floor."""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from attrs import frozen

from evictable.specs.bench.floor import NAME as FLOOR
from evictable.specs.bench.makers import NEUTRAL
from evictable.specs.bench.run import Failed, Taken
from evictable.specs.bench.sections import Case

SECONDS, BYTES, RATE, SHARE, CALLS = "s", "bytes", "calls/s", "share", "calls"
_UNITS = {"traced": BYTES, "resident": BYTES, "calls a second": RATE, "hit rate": SHARE}
BY_KEYS = ("lookup", "touch", "prepare_load", "complete_load", "prepare_store", "complete_store")


@frozen
class Spread:
    median: float
    low: float
    """The first quartile."""
    high: float
    """The third."""

    @classmethod
    def of(cls, numbers: Sequence[float]) -> Spread:
        if len(numbers) < 2:
            return cls(numbers[0], numbers[0], numbers[0])
        low, median, high = statistics.quantiles(numbers, n=4, method="inclusive")
        return cls(median, low, high)

    @property
    def half(self) -> float:
        """Half of what lies between the quartiles."""
        return (self.high - self.low) / 2


@frozen
class Row:
    """One number of one subject in one case."""

    section: str
    policy: str | None
    blocks: int | None
    what: str
    keys: int | None
    """Of a request, or of a call."""
    pinned: float | None
    """Blocks, or a share of them."""
    subject: str
    unit: str
    value: Spread
    rounds: int
    ratio: Spread | None
    """To the reference in the same round."""
    to_floor: Spread | None
    word: str = ""

    @property
    def place(self) -> tuple[Any, ...]:
        """Where it stands in a table, whoever's it is."""
        return self.policy, self.blocks, self.what, self.keys, self.pinned

    def record(self) -> dict[str, Any]:
        """As JSON."""
        flat: dict[str, Any] = {
            "section": self.section,
            "policy": self.policy,
            "blocks": self.blocks,
            "what": self.what,
            "keys": self.keys,
            "pinned": self.pinned,
            "subject": self.subject,
            "unit": self.unit,
            "rounds": self.rounds,
        }
        for name, spread in (("", self.value), ("ratio_", self.ratio), ("to_floor_", self.to_floor)):
            if spread is not None:
                flat |= {f"{name}median": spread.median, f"{name}low": spread.low, f"{name}high": spread.high}
        return flat | ({"word": self.word} if self.word else {})


def rows_of(section: str, case: Case, came: Mapping[str, Taken | Failed], reference: str) -> Iterator[Row]:
    """Of every number and subject that did not fail."""
    numbers = {name: taken.numbers for name, taken in came.items() if isinstance(taken, Taken) and taken.numbers}
    for subject, rounds in numbers.items():
        for name in rounds[0]:
            values = [one[name] for one in rounds]
            what, keys, pinned = _split(name, case)
            taken = came[subject]
            assert isinstance(taken, Taken)
            unit = _UNITS.get(name) or (CALLS if name.startswith("calls") else SECONDS)
            compared = unit in (SECONDS, BYTES)
            yield Row(
                section=section,
                policy=case.arguments.get("policy"),
                blocks=case.arguments.get("capacity"),
                what=what,
                keys=keys,
                pinned=pinned,
                subject=case.arguments["what"] if subject == NEUTRAL and case.trial == "memory" else subject,
                unit=unit,
                value=Spread.of(values),
                rounds=len(values),
                ratio=_ratio(values, numbers.get(reference), name) if compared and subject != reference else None,
                to_floor=_ratio(values, numbers.get(FLOOR), name) if subject != FLOOR else None,
                word=_word(taken, name),
            )


def _split(name: str, case: Case) -> tuple[str, int | None, float | None]:
    """What a number is of: a call, how many keys it has, how many blocks are pinned."""
    head, _, tail = name.rpartition(" ")
    share = case.arguments.get("pinned") if case.trial == "calls" else None
    if head in BY_KEYS:
        return head, int(tail), share
    if head in ("first", "steady"):
        return head, case.arguments.get("batch"), int(tail)
    what = case.arguments.get("engine")
    return (f"{what}, {name}" if what else name), case.arguments.get("batch"), share


def _ratio(values: Sequence[float], others: Sequence[Mapping[str, float]] | None, name: str) -> Spread | None:
    if not others or name not in others[0] or len(others) != len(values):
        return None
    pairs = [(value, other[name]) for value, other in zip(values, others, strict=True)]
    return Spread.of([value / other for value, other in pairs if other]) if all(other for _, other in pairs) else None


def _word(taken: Taken, name: str) -> str:
    """That of the round whose number is the median, or next above it."""
    if not any(name in words for words in taken.words):
        return ""
    order = sorted(range(len(taken.numbers)), key=lambda number: taken.numbers[number][name])
    return taken.words[order[len(order) // 2]][name]
