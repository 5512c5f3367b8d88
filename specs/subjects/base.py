"""A subject: who is judged. Calls in, answers or exceptions out, and a look inside where there is one."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Protocol

from attrs import frozen

from evictable.model.calls import Answer, Call, Key
from evictable.model.exchanges import Exchange
from evictable.model.snapshot import Snapshot
from evictable.specs.faults import Faults
from evictable.specs.subjects.schedulers import Reference, Scheduling


@frozen
class Setup:
    """How a subject is constructed, and under which profile it is judged."""

    capacity: int
    """Slots; at least 1."""
    policy: str = "lru"
    events: bool = True
    store_threshold: int = 1
    """A key is stored only when it was asked for that often; 1 stores all."""
    max_tracker_size: int = 64_000
    """Keys whose counts are kept, at least 1."""
    tiers: int = 0
    """Secondary tiers below the manager; 0 is a manager without any."""
    request_level: tuple[int, ...] = ()
    """Tiers that want all blocks of a request, also those that are in the primary tier already."""


class Subject(Protocol):
    """One manager, freshly constructed."""

    def perform(self, call: Call) -> Answer:
        """Make the call. Whatever the subject raises comes through."""

    def snapshot(self, keys: Collection[Key] | None) -> Snapshot | None:
        """The state of the named keys, or in full; ``None`` if the subject does not show its inside.

        Reads only: nothing that the subject counts or orders may move.
        """

    def exchanges(self) -> tuple[Exchange, ...]:
        """What it and its tiers said to each other during the latest call, in order; empty without tiers."""

    @property
    def faults(self) -> Faults:
        """What makes its collaborators raise during a call that says so."""


@frozen
class SubjectKind:
    """A loaded subject: constructs as many instances as the engines need, in this process."""

    name: str
    """As on the command line."""
    make: Callable[[Setup], Subject]
    """Raises `UsageError` if there can be no such instance."""
    profile: Callable[[str], str]
    """The profile that ``--profile auto`` means under a policy."""
    admission: str = "new-keys"
    """The rule of its admission tracker, see `evictable.model.admission`."""
    events: bool = True
    """Whether it records events at all."""
    scheduling: Callable[[], Scheduling] = Reference
    """How the scheduler above it makes a load of its lookups."""
    tickets: bool = False
    """Whether its preparations answer with tickets (``spec.ticket``) that its completions take."""
    tiers: bool = True
    """Whether there can be tiers below it."""
    request_level: bool = True
    """Whether its tiers can want whole requests."""
    threads: bool = True
    """Whether its own lines run in this process, where threads can be interleaved."""
