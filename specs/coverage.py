"""Which calls of different requests have met, and in which order."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from itertools import product

from attrs import define, field
from rich.table import Table

from evictable.model import calls
from evictable.model.calls import Call, CallName

PLAIN: tuple[str, ...] = tuple(name.value for name in CallName if name.value not in calls.WITH_TIERS)
WITH_TIERS: tuple[str, ...] = tuple(name.value for name in CallName)


def vocabulary(tiers: int) -> tuple[str, ...]:
    """The names of the calls that a run over so many tiers can make."""
    return WITH_TIERS if tiers else PLAIN


@define
class PairCoverage:
    """Ordered pairs (A, B): a call A, and later in the same run a call B that was not made for the same request.

    What belongs to no request (a drain, a reset, the metrics, the end of a step, what happens in a tier) pairs with
    everything. Both at once and with others between is counted.
    """

    names: tuple[str, ...] = PLAIN
    directly: Counter[tuple[str, str]] = field(factory=Counter)
    """B is the very next call."""
    eventually: Counter[tuple[str, str]] = field(factory=Counter)
    """Calls B before which there was such an A in the run."""
    _last: Call | None = None
    _before: dict[str, set[str | None]] = field(factory=dict)
    """Of each name, two of the requests that have made it: one of them is another one."""

    def begin(self) -> None:
        """A new run, on a fresh subject: what was called before has not met what follows."""
        self._last = None
        self._before.clear()

    def observe(self, call: Call) -> None:
        name, request = call.name, call.request
        last = self._last
        if last is not None and _apart(last.request, request):
            self.directly[last.name, name] += 1
        eventually = self.eventually
        for earlier, requests in self._before.items():
            # `_apart` from any of them: of two one is another than this, and none is also apart from itself.
            if request is None or len(requests) > 1 or request not in requests:
                eventually[earlier, name] += 1
        made = self._before.setdefault(name, set())
        if len(made) < 2:
            made.add(request)
        self._last = call

    def observe_run(self, run: Iterable[Call]) -> None:
        """A whole run."""
        self.begin()
        for call in run:
            self.observe(call)

    def missing(self, *, directly: bool = False) -> tuple[tuple[str, str], ...]:
        """The pairs that did not occur: at all, or one call right after the other."""
        seen = self.directly if directly else self.eventually
        return tuple(pair for pair in self._pairs() if not seen[pair])

    @property
    def summary(self) -> str:
        """One line for a report."""
        every = len(self.names) ** 2
        met, next_to = every - len(self.missing()), every - len(self.missing(directly=True))
        return f"of {every} ordered pairs of calls of two requests {met} occurred, {next_to} one right after the other"

    def table(self) -> Table:
        """Rows: the first call; columns: the second, by the numbers of the rows. How often it followed directly."""
        table = Table(box=None, padding=(0, 1, 0, 0), header_style="dim")
        table.add_column("#", justify="right")
        table.add_column("first, then", no_wrap=True)
        for number in range(1, len(self.names) + 1):
            table.add_column(str(number), justify="right", no_wrap=True)
        for number, first in enumerate(self.names, 1):
            table.add_row(str(number), first, *(self._shown(first, second) for second in self.names))
        return table

    def _shown(self, first: str, second: str) -> str:
        """``-``: never; ``0``: only with other calls between."""
        return str(self.directly[first, second]) if self.eventually[first, second] else "-"

    def _pairs(self) -> Iterator[tuple[str, str]]:
        return product(self.names, self.names)


def _apart(one: str | None, other: str | None) -> bool:
    """Not of the same request. What is nobody's is apart from everything, also from what is nobody's."""
    return one is None or one != other
