"""Follows a recorded run with the model beside it, one call after the other."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from attrs import define, field

from evictable.model.admission import Admission
from evictable.model.manager import Manager
from evictable.model.snapshot import Snapshot
from evictable.model.trace import Entry, Head
from evictable.specs.drawing.jobs import Jobs
from evictable.specs.drawing.words import misplaced_in
from evictable.specs.errors import LawlessDifference
from evictable.specs.judge import Broken
from evictable.specs.recorded import RecordedJudge, setup_of
from evictable.specs.session import model_of


@define
class Follower:
    """Where a run is: what the subject shows, what is right, and the jobs so far."""

    head: Head
    profile: str
    to_the_end: bool = False
    """Also beyond a law that is broken earlier. What is right is not known from there on."""
    model: Manager = field(init=False)
    jobs: Jobs = field(factory=Jobs)
    broken: tuple[Broken, ...] = ()
    careless: str = ""
    """What a careful caller would not have named in the latest call."""
    knows: bool = True
    """The model is where the latest call, if it was right, leads."""
    number: int = 0
    _judge: RecordedJudge = field(init=False)
    _state: Snapshot | None = None

    def __attrs_post_init__(self) -> None:
        self._judge = RecordedJudge(self.head, self.profile)
        self.model = model_of(setup_of(self.head), self.profile, self.head.admission or Admission.name)

    def follow(self, entries: Iterable[Entry]) -> Iterator[Entry]:
        """Each entry once the run is there; up to the first that breaks a law.

        Raises `UsageError` if an entry has no answer.
        """
        for entry in entries:
            parted = bool(self.broken) or not self.knows
            self.knows = not parted
            self.number += 1
            # With tiers a call may begin by taking results: what its keys are then is not seen from here.
            self.careless = misplaced_in(self.model, entry.call) if self.knows and not entry.exchanges else ""
            self._state = entry.state
            self.jobs.observe(self.number, entry)
            if self.knows:
                self._observe(entry)
            yield entry
            if self.broken and not self.to_the_end:
                return

    def _observe(self, entry: Entry) -> None:
        try:
            self.broken = self._judge.observe(entry)
        except LawlessDifference:
            self.knows = False
        self.model = self._judge.model

    @property
    def shows_inside(self) -> bool:
        """The latest call has a state of the subject's own."""
        return self._state is not None and self.head.inside

    @property
    def shown(self) -> Snapshot:
        """What the subject shows after the latest call; of one that shows nothing, what the model has."""
        return self.model.snapshot(None) if self._state is None else self._state
