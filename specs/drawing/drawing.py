"""A drawing: calls down the page, keys across, and what is wrong marked. Data only; renderers are in `evictable.ci`."""

from __future__ import annotations

from attrs import frozen

from evictable.model.calls import Key

ANSWER = "answer"
EVICTABLE = "evictable"
SLOTS = "slots"
COUNTERS = "counters"
PLACES = (ANSWER, EVICTABLE, SLOTS, COUNTERS)
"""What of a call can be marked as wrong besides the cell of a key."""


@frozen
class Cell:
    """One key and one call: its ``ref_cnt`` before and after, ``None`` where no block has the key."""

    key: Key
    before: int | None
    after: int | None
    right: int | None
    """What the model says that it is afterwards."""
    wrong: bool = False
    """To be marked; where ``after`` is ``right`` it is the key that a broken law names."""

    @property
    def changed(self) -> bool:
        return self.before != self.after


@frozen
class Slot:
    """One slot after a call."""

    number: int
    keys: tuple[Key, ...]
    """Whose blocks say that they lie here: one, in a manager that is right, or none."""
    state: str
    """``taken``, ``free``, ``unused`` (never handed out) or ``lost`` (handed out, neither taken nor free)."""
    owners: tuple[str, ...]
    """Who, by right, is writing it or reading it: ``r1 writes 0``."""


@frozen
class Counter:
    """A number that the manager keeps, and what it should be."""

    name: str
    value: int
    right: int | None
    """``None``: not known."""


@frozen
class Evictable:
    """The list of evictable keys after a call, the next victim first."""

    listed: tuple[Key, ...]
    right: tuple[Key, ...]
    of_model: bool = False
    """The subject keeps no such list, or shows none."""


@frozen
class Step:
    """One call and what came of it."""

    number: int
    """From 1, in the whole trace."""
    call: str
    answer: str
    said: tuple[str, ...]
    """What manager and tiers said to each other meanwhile."""
    cells: tuple[Cell, ...]
    evictable: Evictable | None
    slots: tuple[Slot, ...]
    counters: tuple[Counter, ...]
    words: str
    """What happened, in a few sentences."""
    careless: str = ""
    """What a careful caller would not have named."""
    wrong: frozenset[str] = frozenset()
    """Which of `PLACES` are wrong."""
    breaks: tuple[str, ...] = ()
    """The laws that it breaks."""

    @property
    def wrong_counters(self) -> tuple[Counter, ...]:
        """Those that are not right, once a law is broken."""
        return tuple(one for one in self.counters if self.breaks and one.right not in (None, one.value))

    @property
    def is_wrong(self) -> bool:
        return bool(self.wrong) or any(cell.wrong for cell in self.cells)


@frozen
class Job:
    """A transfer between the primary tier and one below it: an arrow. Times are numbers of calls."""

    number: int
    tier: int
    promotion: bool
    """It goes up, from the tier into slots; else down."""
    keys: tuple[Key, ...]
    block_ids: tuple[int, ...]
    request: str
    submitted: int
    raised: bool = False
    ended: int | None = None
    """When the transfer itself was over; ``None``: it is under way."""
    moved: tuple[Key, ...] = ()
    """What it had transferred by then."""
    reported: int | None = None
    """When the manager took its result."""

    @property
    def result(self) -> str:
        if self.raised:
            return "raises"
        if self.ended is None:
            return "under way"
        if set(self.moved) == set(self.keys):
            return "done"
        return "failed in part" if self.moved else "failed"


@frozen
class BrokenLaw:
    """A law that the last call breaks."""

    law: str
    sentence: str
    expected: str
    observed: str
    keys: tuple[Key, ...] = ()


@frozen
class Drawing:
    """A trace to be looked at, up to its first broken law."""

    subject: str
    policy: str
    profile: str
    discipline: str | None
    setup: tuple[str, ...]
    """How it was built, in words: ``capacity 2``, ``1 tier``."""
    keys: tuple[Key, ...]
    """The columns."""
    steps: tuple[Step, ...]
    calls: int
    """In the whole trace, up to where the drawing ends: more than there are ``steps`` if only the last are drawn."""
    broken: tuple[BrokenLaw, ...] = ()
    tiers: int = 0
    jobs: tuple[Job, ...] = ()
    inside: bool = True
    """The subject shows its inside; else every ref_cnt is the model's."""
    unseen: int = 0
    """Keys that the drawn calls name and for which there is no column."""
    notes: tuple[str, ...] = ()

    @property
    def left_out(self) -> int:
        """Calls before the first that is drawn."""
        return self.calls - len(self.steps)

    @property
    def name(self) -> str:
        parts = (self.subject, self.policy, self.discipline)
        return " ".join(part for part in parts if part)


def state_of(ref_cnt: int | None) -> str:
    """The state of a block with that ``ref_cnt``: ``absent``, ``pending``, ``idle``, ``pinned``, or ``illegal``."""
    if ref_cnt is None:
        return "absent"
    if ref_cnt < -1:
        return "illegal"
    return "pending" if ref_cnt == -1 else "idle" if ref_cnt == 0 else "pinned"
