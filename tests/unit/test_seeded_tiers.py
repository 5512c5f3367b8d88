"""Managers of tiers that are wrong in one way each: the law that says so, where the built-in one keeps them all."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from attrs import evolve, frozen
from seeded import DRAIN, PROFILE, RESET, finish, laws, load, lookup, offer, stored
from tiered import BEGUN, CIRCLE, END, EvictsHits, KeepsPins, Told, done, fill, kind_of_tiers, peer

from evictable.impl import ReqContext
from evictable.impl.tiering import CPUPrimaryTierOffloadingManager, TieringOffloadingManager
from evictable.model.calls import Call
from evictable.model.laws import LAWS
from evictable.specs.callers.disciplines import CONTRACT, HOSTILE
from evictable.specs.session import Session, play
from evictable.specs.subjects.base import Setup


class ForgetsStaged(TieringOffloadingManager):
    """Submits no promotion that it has made room for."""

    def _submit_staged(self) -> Any:
        return []


class TellsEarly(TieringOffloadingManager):
    """Tells the tiers of a request's end, and cascades what it was storing all the same."""

    def on_request_finished(self, req_context: Any, **more: Any) -> None:
        for tier in self.secondary_tiers:
            tier.on_request_finished(req_context)
        super().on_request_finished(ReqContext(f"not {req_context.req_id}"), **more)


class Deaf(TieringOffloadingManager):
    """Takes no result of the second tier."""

    def _poll(self) -> None:
        first, rest = self.secondary_tiers[:1], self.secondary_tiers[1:]
        self.secondary_tiers = first
        super()._poll()
        self.secondary_tiers = first + rest


class Hasty(TieringOffloadingManager):
    """Does not wait for the tiers when it resets."""

    def reset_cache(self) -> None:
        tiers, self.secondary_tiers = self.secondary_tiers, []
        super().reset_cache()
        self.secondary_tiers = tiers


class Gullible(TieringOffloadingManager):
    """Takes a promotion that has failed for one that has not."""

    def _end(self, job: Any, success: bool, successful_keys: Any = ()) -> None:
        super()._end(job, success or job.metadata.is_promotion, successful_keys)


class Negligent(CPUPrimaryTierOffloadingManager):
    """Makes room for a promotion and does not say for whom."""

    def prepare_write(self, keys: Any, req_context: Any) -> Any:
        output = super().prepare_write(keys, req_context)
        if output is not None:
            output.evicted_keys = []
        return output


class Turned(CPUPrimaryTierOffloadingManager):
    """Takes the slots that a job reads for each other."""

    def prepare_read(self, keys: Any, req_context: Any) -> Any:
        spec = super().prepare_read(keys, req_context)
        return type(spec)(spec.block_ids[::-1])


@frozen
class Case:
    law: str
    calls: tuple[Call, ...]
    """Of which the last breaks the law."""
    manager: Callable[..., Any] = TieringOffloadingManager
    primary: Callable[..., Any] = CPUPrimaryTierOffloadingManager
    capacity: int = 2
    tiers: int = 1
    policy: str = "lru"
    discipline: str = CONTRACT

    def play(self, right: bool = False) -> Session:
        kind = kind_of_tiers() if right else kind_of_tiers(self.manager, self.primary)
        setup = Setup(self.capacity, self.policy, tiers=self.tiers)
        return play(kind, setup, "arc" if self.policy == "arc" else PROFILE, self.calls, self.discipline)


def call_of(step: Told) -> Call:
    return step[0] if isinstance(step, tuple) else step


STORED = (*BEGUN, offer("r1", 1), stored("r1", 1))
PROMOTED = (*BEGUN, fill(0, 5, 6), lookup("r1", 5), END)
FULL = (*BEGUN, offer("r1", 1, 2), stored("r1", 1, 2), done(0, 1, 2), END, fill(0, 5))

CASES = {
    "a cascade fails and its pin stays": Case("pin-has-job", (*STORED, done(0), END), KeepsPins),
    "a tier raises and a pin stays": Case(
        "pin-has-job", (*STORED[:-1], evolve(STORED[-1], raises_in="submit_store")), KeepsPins, discipline=HOSTILE
    ),
    "a reservation without a job": Case("pin-has-job", PROMOTED, ForgetsStaged),
    "a job reads other slots": Case("pin-has-job", FULL[:4], primary=Turned),
    "a HIT is evicted before its load": Case(
        "hit-loads", (*FULL, lookup("r1", 1), lookup("r2", 5), load("r1", 1)), primary=EvictsHits
    ),
    "a HIT is evicted before a peer has it": Case(
        "hit-loads", (*FULL[:-1], done(1, 1, 2), fill(1, 5), peer(0, "p", 1, 5), END), primary=EvictsHits, tiers=2
    ),
    "a job after the end": Case("tier-drains", (*STORED[:3], finish("r1"), stored("r1", 1)), TellsEarly),
    "a result that is never taken": Case("tier-drains", (*STORED, done(1, 1), END, END), Deaf, tiers=2),
    "a request in a circle": Case(
        "tier-progress", tuple(map(call_of, CIRCLE)), primary=EvictsHits, capacity=3, policy="arc"
    ),
    "a reset that does not wait": Case("slot-contents", (*STORED, DRAIN, RESET), Hasty),
    "a promotion fails and its key stays": Case("pin-has-job", (*PROMOTED, done(0), lookup("r1", 5)), Gullible),
    "an eviction that is not said": Case("evict-order", (*FULL, lookup("r1", 5)), primary=Negligent),
}


@pytest.mark.parametrize("case", CASES.values(), ids=CASES.keys())
def test_the_law_that_says_so(case: Case) -> None:
    session = case.play()
    assert (len(case.calls), True) == (len(session.records), case.law in laws(session.broken))


@pytest.mark.parametrize("case", CASES.values(), ids=CASES.keys())
def test_the_built_in_manager_keeps_it(case: Case) -> None:
    session = case.play(right=True)
    assert (len(case.calls), ()) == (len(session.records), session.broken)


def test_every_law_of_tiers_is_broken_by_some_manager() -> None:
    assert {law.id for law in LAWS if law.needs_tiers} == {case.law for case in CASES.values()} - {"evict-order"}
