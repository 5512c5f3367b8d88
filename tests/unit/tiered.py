"""For the tests of tiers: what happens and what is said in short, told to a judge or done by managers that are wrong.

A told step is a call, what it came to, and what manager and tiers said meanwhile. The judge is shown what is right
after it, or something else: so a test says exactly where a manager went astray, and needs none that does.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from types import MappingProxyType, SimpleNamespace
from typing import Any

from attrs import evolve
from seeded import PROFILE, announce, lookup, offer, stored, touch

from evictable.impl import ReqContext
from evictable.impl.tiering import CPUPrimaryTierOffloadingManager, TieringOffloadingManager
from evictable.impl.tiering.base import SecondaryTierManager
from evictable.model import calls
from evictable.model.calls import HIT, HIT_PENDING, Call, Key, Stored
from evictable.model.exchanges import Reported, Reserved, Submitted, Waited
from evictable.model.profiles import reference
from evictable.model.snapshot import Snapshot
from evictable.model.tiers import TieredManager
from evictable.specs.judge import Broken, Judge
from evictable.specs.subjects.base import Setup, Subject, SubjectKind
from evictable.specs.subjects.tiers import tiered_subject

# --- what happens -----------------------------------------------------------------------------------

END = Call(calls.ON_SCHEDULE_END)


def fill(tier: int, *keys: Key) -> Call:
    return Call(calls.FILL_TIER, keys, tier=tier)


def delay(tier: int, *keys: Key) -> Call:
    return Call(calls.DELAY_TIER, keys, tier=tier)


def done(job: int, *keys: Key) -> Call:
    """The job ends, having transferred these keys."""
    return Call(calls.FINISH_JOB, keys, job=job)


def peer(tier: int, request: str, *keys: Key) -> Call:
    return Call(calls.PEER_LOOKUP, keys, request, tier=tier)


# --- what is said -----------------------------------------------------------------------------------


def room(key: Key, slot: int, *evicted: Key) -> Reserved:
    return Reserved((key,), (slot,), evicted)


def no_room(*keys: Key) -> Reserved:
    return Reserved(keys, None)


def cascade(job: int, slots: Mapping[Key, int], request: str = "r1", tier: int = 0, raised: bool = False) -> Submitted:
    """A job that stores into a tier what is in these slots."""
    return Submitted(tier, job, False, tuple(slots), tuple(slots.values()), request, raised)


def promotion(
    job: int, slots: Mapping[Key, int], request: str = "r1", tier: int = 0, raised: bool = False
) -> Submitted:
    return Submitted(tier, job, True, tuple(slots), tuple(slots.values()), request, raised)


def well(job: int, *keys: Key, tier: int = 0) -> Reported:
    return Reported(tier, job, keys, True)


def badly(job: int, *keys: Key, tier: int = 0) -> Reported:
    """Failed, but for these keys."""
    return Reported(tier, job, keys, False)


def drained(*ended: tuple[int, tuple[Key, ...]], tier: int = 0) -> Waited:
    return Waited(tier, ended)


# --- telling a judge --------------------------------------------------------------------------------

Told = Call | tuple[Any, ...]
"""A call that answers None; or a call, its outcome, and exchanges."""

BEGUN = (announce("r1"), announce("r2"))


def settled(*keys: Key, tiers: int = 1) -> tuple[Told, ...]:
    """r1 has stored keys into slots 0, 1, ..., and each tier has them too, by jobs 0, 1, ...: all is at rest."""
    slots = {key: slot for slot, key in enumerate(keys)}
    return (
        *BEGUN,
        (offer("r1", *keys), Stored(keys, tuple(slots.values()), ())),
        (stored("r1", *keys), None, *(cascade(tier, slots, tier=tier) for tier in range(tiers))),
        *(done(tier, *keys) for tier in range(tiers)),
        (END, None, *(well(tier, *keys, tier=tier) for tier in range(tiers))),
    )


def told(
    *steps: Told,
    capacity: int = 3,
    tiers: int = 1,
    request_level: Iterable[int] = (),
    profile: str = PROFILE,
    shown: Mapping[str, Any] = MappingProxyType({}),
    blind: bool = False,
) -> tuple[Judge, tuple[Broken, ...]]:
    """The judge of these steps, none of which but the last may break a law, and what the last one broke.

    After the last step the judge is ``shown`` something else than what is right.
    """
    model = reference(profile, capacity, tiers=tiers, request_level=request_level)
    changes: dict[str, Any] = {}

    def look(keys: Collection[Key] | None) -> Snapshot | None:
        if blind:
            return None
        right = model.snapshot(keys)
        right.order = model.order.state() if keys is None else None
        return evolve(right, **changes)

    judge = Judge(model, look)
    broken: tuple[Broken, ...] = ()
    for place, step in enumerate(steps, 1):
        call, outcome, *exchanges = step if isinstance(step, tuple) else (step, None)
        changes.update(shown if place == len(steps) else {})
        broken = judge.observe(call, outcome, exchanges)
        if place < len(steps):
            assert () == broken, f"{call} broke {[one.law.id for one in broken]}"
    return judge, broken


def follow(*steps: Told, **options: Any) -> TieredManager:
    """The model after these steps, all of which are right."""
    judge, broken = told(*steps, **options)
    assert () == broken
    assert isinstance(judge.model, TieredManager)
    return judge.model


def broken_by(*steps: Told, **options: Any) -> dict[str, str]:
    """What the last step broke: of each law, what was observed."""
    return {one.law.id: one.difference.observed for one in told(*steps, **options)[1]}


def _circle() -> Iterator[Told]:
    """Three keys of r2 take the places of each other for ever, and leave 9 in peace: it is in T2 of an ARC cache.

    Who is first in T1 goes, although a lookup of the same step has called it HIT. The last step closes the circle.
    """
    yield from (*BEGUN, (offer("r1", 9), Stored((9,), (2,), ())), (stored("r1", 9), None, cascade(0, {9: 2})))
    yield from (done(0, 9), (END, None, well(0, 9)), touch("r1", 9), fill(0, 1, 2, 3))
    yield lookup("r2", 3), HIT_PENDING, room(3, 0)
    yield lookup("r2", 2), HIT_PENDING, room(2, 1)
    yield END, None, promotion(1, {3: 0, 2: 1}, "r2")
    yield done(1, 3, 2)
    for job, one, other in ((2, 0, 1), (4, 1, 0)):
        yield lookup("r2", 1), HIT_PENDING, well(job - 1, *((3, 2) if job == 2 else (2,))), room(1, one, 3)
        yield lookup("r2", 2), HIT
        yield lookup("r2", 3), HIT_PENDING, room(3, other, 2)
        yield END, None, promotion(job, {1: one, 3: other}, "r2")
        yield done(job, 1, 3)
        yield lookup("r2", 1), HIT, well(job, 1, 3)
        yield lookup("r2", 2), HIT_PENDING, room(2, one, 1)
        yield lookup("r2", 3), HIT
        yield END, None, promotion(job + 1, {2: one}, "r2")
        yield done(job + 1, 2)


CIRCLE = tuple(_circle())[:-6]

# --- managers ---------------------------------------------------------------------------------------


def kind_of_tiers(
    manager: Callable[..., Any] = TieringOffloadingManager,
    primary: Callable[..., Any] = CPUPrimaryTierOffloadingManager,
) -> SubjectKind:
    """Subclasses of the built-in manager of tiers and of its primary tier, over scripted tiers."""
    tiering = SimpleNamespace(
        __name__="seeded",
        TieringOffloadingManager=manager,
        CPUPrimaryTierOffloadingManager=primary,
        SecondaryTierManager=SecondaryTierManager,
    )

    def make(setup: Setup) -> Subject:
        return tiered_subject("seeded", setup, tiering, ReqContext)

    return SubjectKind("seeded", make, lambda _: PROFILE)


class EvictsHits(CPUPrimaryTierOffloadingManager):
    """Makes room for a promotion with a block that a lookup of this step has called HIT."""

    def prepare_write(self, keys: Any, req_context: Any) -> Any:
        self.held.clear()
        return super().prepare_write(keys, req_context)


class KeepsPins(TieringOffloadingManager):
    """Does not give back what a cascade has pinned if the cascade fails."""

    def _end(self, job: Any, success: bool, successful_keys: Any = ()) -> None:
        if success or job.metadata.is_promotion:
            super()._end(job, success, successful_keys)
        else:
            del self._jobs[job.metadata.job_id]
