"""Draws a trace of a manager: the recorded answers and states, with the model run beside them."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

from attrs import evolve

from evictable.model.calls import Key, describe
from evictable.model.snapshot import Snapshot
from evictable.model.trace import Entry, Head
from evictable.specs.drawing.drawing import BrokenLaw, Cell, Counter, Drawing, Evictable, Step
from evictable.specs.drawing.follow import Follower
from evictable.specs.drawing.marks import marked
from evictable.specs.drawing.slots import slots_of
from evictable.specs.drawing.words import words_of
from evictable.specs.judge import Broken

LAST = 40
"""Calls that are drawn of a longer trace."""
MOST_KEYS = 24
"""Columns."""
COUNTERS = ("num_resident", "num_evictable", "num_pending", "num_free")

Entries = Callable[[], Iterable[Entry]]
"""The entries of a trace from the first on, each time that it is called: a trace is read twice."""


def draw(head: Head, entries: Entries, profile: str, *, told: Sequence[BrokenLaw] = (), last: int = LAST) -> Drawing:
    """The drawing of a trace up to the first broken law: of its ``last`` calls, if it is longer.

    ``told`` is what a search found broken at the last call, where that is known; else the recorded answers are judged.
    Raises `UsageError` if an entry has no answer.
    """
    scout = Follower(head, profile, to_the_end=bool(told))
    shown = deque(scout.follow(entries()), maxlen=last)
    broken = _laws(told, scout.broken)
    keys, unseen = _columns(shown, broken)
    first = scout.number - len(shown)
    steps, follower = _steps(Follower(head, profile, to_the_end=bool(told)), entries, keys, first)
    if broken and steps:
        steps[-1] = marked(steps[-1], broken)
    return Drawing(
        subject=head.subject,
        policy=head.policy,
        profile=profile,
        discipline=head.discipline,
        setup=_setup(head),
        keys=keys,
        steps=tuple(steps),
        calls=scout.number,
        broken=broken,
        tiers=head.tiers,
        jobs=follower.jobs.after(first + 1),
        inside=head.inside and any(entry.state is not None for entry in shown),
        unseen=unseen,
    )


def _steps(follower: Follower, entries: Entries, keys: Sequence[Key], first: int) -> tuple[list[Step], Follower]:
    """The steps after call ``first``."""
    steps: list[Step] = []
    before: Mapping[Key, int] = {}
    for entry in follower.follow(entries()):
        if follower.number < first:
            continue
        shown = follower.shown
        if follower.number > first:
            steps.append(_step(follower, entry, keys, before, shown))
        before = shown.ref_cnt
    return steps, follower


def _step(follower: Follower, entry: Entry, keys: Sequence[Key], before: Mapping[Key, int], shown: Snapshot) -> Step:
    right = follower.model.ref_cnt if follower.knows else shown.ref_cnt
    cells = tuple(Cell(key, before.get(key), shown.ref_cnt.get(key), right.get(key)) for key in keys)
    return Step(
        number=follower.number,
        call=str(entry.call),
        answer=describe(entry.outcome),
        said=tuple(map(str, entry.exchanges)),
        cells=cells,
        evictable=_evictable(follower, shown),
        slots=slots_of(follower.model, shown, keys, owners=follower.knows),
        counters=tuple(_counters(follower, shown)),
        words=words_of(entry.call, entry.outcome, cells),
        careless=follower.careless,
    )


def _counters(follower: Follower, shown: Snapshot) -> Iterator[Counter]:
    right = follower.model.snapshot(()) if follower.knows else None
    for name in COUNTERS:
        value = getattr(shown, name)
        if value is not None:
            yield Counter(name, value, None if right is None else getattr(right, name))


def _evictable(follower: Follower, shown: Snapshot) -> Evictable | None:
    listed = None if shown.evictable is None else tuple(shown.evictable)
    if not follower.knows:
        return None if listed is None else Evictable(listed, listed)
    right = tuple(follower.model.order.idle_keys())
    if listed is None or not follower.shows_inside:
        return Evictable(right, right, of_model=True)
    return Evictable(listed, right)


def _laws(told: Sequence[BrokenLaw], judged: Sequence[Broken]) -> tuple[BrokenLaw, ...]:
    """What was told, with the keys that judging names; or what was judged."""
    if not told:
        return tuple(law_of(one) for one in judged)
    keys = {one.law.id: one.difference.keys for one in judged}
    return tuple(evolve(one, keys=one.keys or keys.get(one.law, ())) for one in told)


def law_of(broken: Broken) -> BrokenLaw:
    difference = broken.difference
    return BrokenLaw(
        broken.law.id, broken.law.sentence, difference.expected, difference.observed, tuple(difference.keys)
    )


def _columns(shown: Iterable[Entry], broken: Sequence[BrokenLaw]) -> tuple[tuple[Key, ...], int]:
    """The keys that the drawn calls are about, and how many of them there is no room for."""
    keys: dict[Key, None] = {}
    for entry in shown:
        keys.update(dict.fromkeys(entry.call.keys))
        keys.update(dict.fromkeys(getattr(entry.outcome, "evicted_keys", ())))
        for said in entry.exchanges:
            keys.update(dict.fromkeys(getattr(said, "keys", ()) or ()))
            keys.update(dict.fromkeys(getattr(said, "evicted", ())))
    blamed = [key for one in broken for key in one.keys]
    chosen = list(dict.fromkeys([*blamed, *reversed(keys)]))  # what came last is what the end is about
    return in_order(chosen[:MOST_KEYS]), len(chosen[MOST_KEYS:])


def in_order(keys: Iterable[Key]) -> tuple[Key, ...]:
    """Integers by size, then hexadecimal ones."""
    return tuple(sorted(keys, key=lambda key: (isinstance(key, str), key)))


def _setup(head: Head) -> tuple[str, ...]:
    parts = [f"capacity {head.capacity}", f"profile {head.profile}"]
    if head.store_threshold > 1:
        parts.append(f"store threshold {head.store_threshold}")
    if not head.events:
        parts.append("events off")
    if head.tiers:
        parts.append(f"{head.tiers} tier{'s' if head.tiers > 1 else ''}")
    return tuple(parts)
