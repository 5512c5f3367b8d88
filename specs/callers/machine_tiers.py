"""The machine of a manager with tiers: what happens in the tiers, and lookups that bring something about."""

from __future__ import annotations

from hypothesis import strategies as st
from hypothesis.stateful import precondition, rule

from evictable.model import calls
from evictable.model.calls import Call, Key
from evictable.model.tiers import TieredManager
from evictable.specs.callers.disciplines import HOSTILE
from evictable.specs.callers.machine import BATCH, REQUESTS, ManagerMachine

TIERS = st.integers(0, 7)


class TieredMachine(ManagerMachine):
    """A `ManagerMachine` with tiers below: its ``setup`` says how many."""

    peers: int = 0

    def hostile(self) -> bool:
        return self.discipline == HOSTILE

    @property
    def model(self) -> TieredManager:
        model = self.session.judge.model
        assert isinstance(model, TieredManager)
        return model

    @rule(tier=TIERS, keys=BATCH)
    def fill(self, tier: int, keys: tuple[Key, ...]) -> None:
        self.step(Call(calls.FILL_TIER, keys, tier=tier % self.model.num_tiers))

    @rule(tier=TIERS, keys=BATCH)
    def delay(self, tier: int, keys: tuple[Key, ...]) -> None:
        self.step(Call(calls.DELAY_TIER, keys, tier=tier % self.model.num_tiers))

    @rule(request=REQUESTS, keys=BATCH, load=st.booleans())
    def ask(self, request: str, keys: tuple[Key, ...], load: bool) -> None:
        """Look keys up; the ones that were there are loaded at once, or not at all."""
        request = self._now(request)
        hits = tuple(key for key in keys if self.step(Call(calls.LOOKUP, (key,), request)) == calls.HIT)
        if load and hits:
            self.step(Call(calls.PREPARE_LOAD, hits, request))
            self.step(Call(calls.COMPLETE_LOAD, hits, request))

    @rule()
    def end_step(self) -> None:
        self.step(Call(calls.ON_SCHEDULE_END))

    @rule(which=st.integers(0, 3), moved=st.sampled_from((None, None, None, 0, 1)))
    def end_job(self, which: int, moved: int | None) -> None:
        """``moved`` is how many of its keys were transferred; ``None`` is all."""
        running = [number for number in self.model.jobs if number not in self.model.results]
        if running:
            number = running[which % len(running)]
            self.step(Call(calls.FINISH_JOB, self.model.jobs[number].keys[:moved], job=number))

    @rule(tier=TIERS, keys=BATCH)
    def ask_as_a_peer(self, tier: int, keys: tuple[Key, ...]) -> None:
        self.peers += 1
        self.step(Call(calls.PEER_LOOKUP, keys, f"p{self.peers}", tier=tier % self.model.num_tiers))

    @precondition(hostile)
    @rule(request=REQUESTS, keys=BATCH, at=st.integers(1, 2))
    def store_into_a_tier_that_raises(self, request: str, keys: tuple[Key, ...], at: int) -> None:
        request = self._now(request)
        self.step(Call(calls.PREPARE_STORE, keys, request, raises_in="submit_store"))
        stored = tuple(key for key in keys if (request, key) in self.session.promises.stores)
        if stored:
            self.step(Call(calls.COMPLETE_STORE, stored, request, raises_in="submit_store", at=at))

    @precondition(hostile)
    @rule(at=st.integers(1, 2))
    def end_step_with_a_tier_that_raises(self, at: int) -> None:
        self.step(Call(calls.ON_SCHEDULE_END, raises_in="submit_load", at=at))
