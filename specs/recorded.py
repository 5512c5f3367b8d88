"""Judging a recording, call by call, in memory that grows with the model's state and not with the calls."""

from __future__ import annotations

from collections.abc import Collection

from attrs import define, field

from evictable.model.admission import Admission
from evictable.model.calls import Key
from evictable.model.manager import Manager
from evictable.model.orders import DEFAULT_ORDER
from evictable.model.policy_trace import PolicyHead
from evictable.model.profiles import PROFILES
from evictable.model.snapshot import Snapshot
from evictable.model.trace import NOT_RECORDED, Entry, Head
from evictable.specs.errors import LawlessDifference, UsageError
from evictable.specs.judge import Broken, Judge
from evictable.specs.session import model_of
from evictable.specs.subjects.base import Setup


def setup_of(head: Head) -> Setup:
    """How to build the subject of a trace."""
    more = {} if head.max_tracker_size is None else {"max_tracker_size": head.max_tracker_size}
    return Setup(
        head.capacity,
        head.policy,
        head.events,
        head.store_threshold,
        tiers=head.tiers,
        request_level=head.request_level,
        **more,
    )


def profile_of_trace(head: Head | PolicyHead, wanted: str) -> str:
    """The profile to judge a recording by: ``wanted``, or its own for ``auto``. Raises `UsageError`."""
    profile = head.profile if wanted == "auto" else wanted
    if profile == "auto":  # by whoever wrote it, of a manager that it did not know
        profile = DEFAULT_ORDER if head.policy == "lru" else "any"
    if profile not in PROFILES:
        raise UsageError(f"unknown profile {profile!r}; name one with --profile: {', '.join(PROFILES)}")
    return profile


@define
class RecordedJudge:
    """Holds the answers of a recording, and its states where it has any, against the model."""

    head: Head
    profile: str
    _judge: Judge | None = None
    _state: Snapshot | None = None
    _full: bool = field(init=False, default=False)

    def observe(self, entry: Entry) -> tuple[Broken, ...]:
        """The laws that the next entry breaks; after the first that does, none may follow.

        Raises `UsageError` if it has no answer, and `LawlessDifference`.
        """
        if entry.outcome is NOT_RECORDED:
            raise UsageError(
                f"line {entry.line}: {entry.call.name} has no recorded answer; replay the calls on a subject "
                "with --subject"
            )
        state = entry.state if self.head.inside else None
        judge = self._judge
        if judge is None:
            judge = self._judge = self._begin(state)
        self._state = state
        judge.shows_everything(state is not None)
        try:
            return judge.observe(entry.call, entry.outcome, entry.exchanges)
        except LawlessDifference as error:
            error.where = f"line {entry.line}"
            raise

    @property
    def model(self) -> Manager:
        """What is right after the latest entry."""
        assert self._judge is not None
        return self._judge.model

    def _begin(self, first: Snapshot | None) -> Judge:
        """A trace whose first entry has a state has them from the start, where all was empty."""
        if first is not None:
            events = None if first.num_events is None else 0
            self._state = Snapshot({}, {}, (), num_events=events, full=True, order=None)
        else:
            self._state = Snapshot({}, {}, (), full=True)  # there may be some later
        model = model_of(setup_of(self.head), self.profile, self.head.admission or Admission.name)
        return Judge(model, self._look, always_full=True)

    def _look(self, keys: Collection[Key] | None) -> Snapshot | None:
        return self._state
