"""The golden files: one a profile, many short traces in each, as `evictable golden` writes them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from importlib.resources import files

from attrs import evolve, frozen

from evictable.model import trace as traces
from evictable.model.manager import Manager
from evictable.model.orders.lru_evictable import LruEvictable
from evictable.model.snapshot import Snapshot
from evictable.model.trace import Entry, Head
from evictable.specs.exhaustive.scopes import Scope
from evictable.specs.golden.tours import Made, Tours
from evictable.specs.subjects.base import Setup

FREE = (
    "block_ids of prepare_store: any free slots, each once; a load then names the slot that your manager took",
    "evicted_keys: in any sequence",
    "take_events: in any batches; the facts about one key in their sequence",
    "state: of a call without one it is as before; slots are free as above; evictable is in eviction order, under arc "
    "in any; order is, under arc, T1, T2, B1, B2 and the target of T1, else every key with a place, next victim first",
)
"""What another implementation may do otherwise."""


def _scope(
    capacity: int, keys: int, batch: int, requests: int = 1, *, events: bool = False, lifetimes: bool = False
) -> Scope:
    return Scope(Setup(capacity, events=events), keys, batch, num_requests=requests, lifetimes=lifetimes)


_TOLD = _scope(1, 2, 2, events=True)
_LRU = (_TOLD, _scope(2, 3, 2), _scope(2, 3, 2, 2))
_BY_REQUEST = (_scope(1, 2, 2, lifetimes=True), _scope(1, 1, 1, 2, events=True), _scope(2, 3, 1))
SCOPES: dict[str, tuple[Scope, ...]] = {
    "lru-scan": _LRU,
    "lru-evictable": (*_LRU, _scope(1, 2, 1, lifetimes=True), _scope(2, 4, 2), _scope(3, 4, 2)),
    "lru-ranked": _BY_REQUEST,
    "arc": (_scope(1, 1, 1, 2, events=True), _scope(1, 2, 2), _scope(2, 3, 1)),
    "arc-request": (_scope(1, 2, 1, lifetimes=True), _scope(1, 2, 1)),
}
"""The worlds of each profile, small ones first.

`any` has no file: where every victim is right, nothing is prescribed after the first. Nor has `lru-ranked-request`:
without positions of tokens, which are in no scope, it is `lru-ranked`; nor `arc-no-fallback`, which refuses where there
is room (`no-false-refusal`): nobody should be held to that.
"""


@frozen
class Golden:
    """The content of one file."""

    profile: str
    lines: tuple[str, ...]
    covers: tuple[str, ...]
    """Of each scope, what is covered, in words."""
    num_traces: int
    num_calls: int

    @property
    def size(self) -> int:
        """Bytes."""
        return sum(len(line) + 1 for line in self.lines)


def make(profile: str) -> Golden:
    """The golden file of a profile, made anew."""
    lines: list[str] = []
    covers = []
    num_traces = 0
    for scope in SCOPES[profile]:
        scope = evolve(scope, setup=evolve(scope.setup, policy="arc" if profile.startswith("arc") else "lru"))
        tours = Tours(scope, profile)
        covers.append(
            f"every call but get_stats that the contract allows, in each of the {len(tours.graph):,} states of "
            f"{scope}, batches up to {scope.batch}: {tours.num_transitions:,} transitions up to renaming of keys and "
            "requests"
        )
        for number, path in enumerate(tours.paths()):
            lines += _trace(profile, scope, path, covers[-1] if number == 0 else None)
            num_traces += 1
    return Golden(profile, tuple(lines), tuple(covers), num_traces, len(lines) - num_traces)


def packaged(profile: str) -> list[str]:
    """The lines of the file that comes with this package."""
    return (files(__package__) / f"{profile}.jsonl").read_text(encoding="utf-8").splitlines()


def _trace(profile: str, scope: Scope, path: list[Made], covers: str | None) -> Iterator[str]:
    setup = scope.setup
    head = Head(setup.capacity, "model", setup.policy, profile, events=setup.events, discipline=scope.discipline)
    record = traces.head_record(head)
    if covers is not None:  # said once, of this trace and those that follow
        record |= {"covers": covers, "free": list(FREE)}
    yield _line(record)
    before: Snapshot | None = None
    for made in path:
        state = _state(made.model)
        yield _line(traces.entry_record(Entry(made.call, made.answer, None if state == before else state)))
        before = state


def _state(model: Manager) -> Snapshot:
    """Without counters, which follow from the rest; the order only where it is more than the evictable list."""
    shown = model.snapshot(None)
    order = None if type(model.order) is LruEvictable else model.order.state()
    return Snapshot(shown.ref_cnt, shown.slots, shown.evictable, full=True, order=order)


def _line(record: object) -> str:
    return json.dumps(record, separators=(",", ":"))


_README = """\
# Golden traces

What is right in small worlds, as data: an implementation in any language can be tested with these files alone. Each is
JSON lines in the trace format, many short traces one after the other. A line with `"evictable_trace"` begins a trace:
construct a fresh manager of that `capacity`. Every other line is a call with its answer and the state after it.
`node examples/golden.js` is such a test, without Python; where Python is at hand, `evictable check stdio:COMMAND` tries
far more.

They are made from the model by `evictable golden --dir specs/golden`, and a test holds them to that. The first head of
each scope has `covers`, which is the table below, and `free`, which says what may be otherwise:

{free}

Callers keep the contract: no call here may raise, and nothing is said of wrong calls, tickets, tiers, thresholds or
token positions. `lru-ranked-request` has no file, because without positions it is `lru-ranked`; `any` has none, because
it prescribes no victim, and `arc-no-fallback` has none, because it refuses where there is room. States and calls are
covered up to renaming of keys and requests.

Compare the states, too, where your manager can show its own, above all `evictable` as a list: a wrong order is in the
state at once, and in the answers only when something is evicted, which need not follow in the same trace.

| file | traces | calls | bytes | covers |
|---|---|---|---|---|
{rows}
"""


def readme(made: list[Golden]) -> str:
    """The page beside the files."""
    rows = [
        f"| `{one.profile}.jsonl` | {one.num_traces:,} | {one.num_calls:,} | {one.size:,} | {'<br>'.join(one.covers)} |"
        for one in made
    ]
    return _README.format(free="\n".join(f"* {one}" for one in FREE), rows="\n".join(rows))
