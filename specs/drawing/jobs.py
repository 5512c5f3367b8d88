"""The jobs of tiers, gathered from what manager and tiers said to each other."""

from __future__ import annotations

from typing import Any

from attrs import define, evolve, field

from evictable.model import calls
from evictable.model.calls import Key
from evictable.model.exchanges import Reported, Submitted, Waited
from evictable.model.trace import Entry
from evictable.specs.drawing.drawing import Job


@define
class Jobs:
    """Every job of a run so far, by number. Managers number them by submission, and so may name one they never gave."""

    known: dict[int, Job] = field(factory=dict)

    def observe(self, number: int, entry: Entry) -> None:
        """Take in call ``number``."""
        for said in entry.exchanges:
            if isinstance(said, Submitted):
                self.known[said.job] = Job(
                    said.job, said.tier, said.promotion, said.keys, said.block_ids, said.request, number, said.raised
                )
            elif isinstance(said, Reported):
                self._reported(said, number)
            elif isinstance(said, Waited):
                for job, keys in said.ended:
                    self._ended(job, keys, number)
                    self._set(job, reported=number)
        call = entry.call
        if call.name == calls.FINISH_JOB and call.job is not None:
            self._ended(call.job, call.keys, number)

    def after(self, number: int) -> tuple[Job, ...]:
        """Those that were under way, or unreported, at or after call ``number``."""
        return tuple(
            job for job in self.known.values() if job.submitted >= number or (job.reported or number) >= number
        )

    def _reported(self, said: Reported, number: int) -> None:
        job = self.known.get(said.job)
        if job is not None and job.ended is None:
            self._ended(said.job, job.keys if said.success else said.keys, number)
        self._set(said.job, reported=number)

    def _ended(self, job: int, keys: tuple[Key, ...], number: int) -> None:
        known = self.known.get(job)
        if known is not None and known.ended is None:
            self._set(job, ended=number, moved=tuple(key for key in known.keys if key in keys))

    def _set(self, job: int, **changes: Any) -> None:
        if job in self.known:
            self.known[job] = evolve(self.known[job], **changes)
