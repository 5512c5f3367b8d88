"""For the tests of the checking machinery: calls in short, and subjects that are wrong on purpose."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import Any

from evictable.impl import CPUOffloadingManager, ReqContext
from evictable.model import calls
from evictable.model.calls import Answer, Call, Drained, Event, Key, Outcome, Stored
from evictable.model.manager import Manager
from evictable.model.profiles import reference
from evictable.model.snapshot import Snapshot
from evictable.specs.faults import Faults
from evictable.specs.judge import Broken
from evictable.specs.session import Session, play
from evictable.specs.subjects.base import Setup, SubjectKind
from evictable.specs.subjects.managers import ManagerSubject

PROFILE = "lru-evictable"


def announce(request: str) -> Call:
    return Call(calls.ON_NEW_REQUEST, request=request)


def finish(request: str) -> Call:
    return Call(calls.ON_REQUEST_FINISHED, request=request)


def lookup(request: str, key: Key) -> Call:
    return Call(calls.LOOKUP, (key,), request)


def offer(request: str, *keys: Key) -> Call:
    return Call(calls.PREPARE_STORE, keys, request)


def stored(request: str, *keys: Key) -> Call:
    return Call(calls.COMPLETE_STORE, keys, request)


def failed(request: str, *keys: Key) -> Call:
    return Call(calls.COMPLETE_STORE, keys, request, success=False)


def load(request: str, *keys: Key) -> Call:
    return Call(calls.PREPARE_LOAD, keys, request)


def loaded(request: str, *keys: Key) -> Call:
    return Call(calls.COMPLETE_LOAD, keys, request)


def touch(request: str, *keys: Key) -> Call:
    return Call(calls.TOUCH, keys, request)


DRAIN = Call(calls.TAKE_EVENTS)
RESET = Call(calls.RESET_CACHE)
STATS = Call(calls.GET_STATS)


def drain(limit: int) -> Call:
    return Call(calls.TAKE_EVENTS, limit=limit)


def holding(*keys: Key) -> tuple[Call, ...]:
    """Requests r1 and r2 are announced, and r1 has stored ``keys``, in this order."""
    begun = (announce("r1"), announce("r2"))
    return (*begun, offer("r1", *keys), stored("r1", *keys)) if keys else begun


class Puppet:
    """The reference manager as a subject.

    Tests change its ``answer`` (from the call and the right answer) and what it lets be ``seen``; what it
    ``does`` with a call may be replaced as well. It raises for misplaced keys, as `impl` does.
    """

    def __init__(self, setup: Setup, profile: str = PROFILE) -> None:
        self.model: Manager = reference(
            profile,
            setup.capacity,
            events=setup.events,
            store_threshold=setup.store_threshold,
            max_tracker_size=setup.max_tracker_size,
        )
        self.queue: list[Event] = []
        self.faults = Faults(())

    def perform(self, call: Call) -> Answer:
        if self.model.misplaced(call):
            raise ValueError("misplaced")
        return self.answer(call, self.does(call))

    def does(self, call: Call) -> Answer:
        if call.name == calls.TAKE_EVENTS:
            count = len(self.queue) if call.limit is None else call.limit
            taken, self.queue = self.queue[:count], self.queue[count:]
            return Drained(tuple(taken))
        if call.name == calls.RESET_CACHE:
            self.queue = []
        right = self.model.perform(call)
        if self.model.with_events:
            if isinstance(right, Stored) and right.evicted_keys:
                self.queue.append(Event(True, right.evicted_keys))
            if call.name == calls.COMPLETE_STORE and call.success and call.keys:
                self.queue.append(Event(False, call.keys))
        return right

    def answer(self, call: Call, right: Answer) -> Answer:
        return right

    def snapshot(self, keys: Collection[Key] | None) -> Snapshot | None:
        shown = self.model.snapshot(keys)
        shown.num_events = len(self.queue)
        if keys is None:
            shown.free = tuple(slot for slot in range(self.model.capacity) if slot not in self.model.holders)
            shown.handed_out = self.model.capacity
            shown.order = self.model.order.state()
        return self.seen(shown)

    def seen(self, shown: Snapshot) -> Snapshot | None:
        return shown


class Blind(Puppet):
    """Shows nothing of its inside."""

    def snapshot(self, keys: Collection[Key] | None) -> Snapshot | None:
        return None


def kind_of(subject: Callable[..., Any], profile: str = PROFILE) -> SubjectKind:
    """A kind of `Puppet`."""
    return SubjectKind("puppet", lambda setup: subject(setup, profile), lambda policy: profile)


def kind_of_manager(manager: Callable[..., Any], policy: Any = "lru") -> SubjectKind:
    """A subclass of the built-in manager, or the built-in one with another policy class."""

    def make(setup: Setup) -> ManagerSubject:
        return ManagerSubject(manager(setup.capacity, policy, setup.events), ReqContext)

    return SubjectKind("seeded", make, lambda _: PROFILE)


def judged(subject: Callable[..., Any], sequence: Sequence[Call], capacity: int = 3, profile: str = PROFILE) -> Session:
    """A careless session of a kind of `Puppet`."""
    return play(kind_of(subject, profile), Setup(capacity), profile, sequence)


def laws(broken: Sequence[Broken]) -> list[str]:
    return [one.law.id for one in broken]


def outcomes(session: Session) -> list[Outcome]:
    return [record.outcome for record in session.records]


class Leaks(CPUOffloadingManager):
    """Loses the slot of a store that failed."""

    def complete_store(self, keys: Any, req_context: Any, success: bool = True) -> None:
        super().complete_store(keys, req_context, success)
        if not success:
            self._free_list.pop()


class Miscounts(CPUOffloadingManager):
    """Counts one evictable block too many after a load."""

    def complete_load(self, keys: Any, req_context: Any) -> None:
        super().complete_load(keys, req_context)
        self._num_evictable_cache_blocks += 1


class Unpins(CPUOffloadingManager):
    """Takes a pinned block for idle as soon as somebody touches it."""

    def touch(self, keys: Any, req_context: Any) -> None:
        super().touch(keys, req_context)
        for key in keys:
            block = self._policy.get(key)
            if block is not None and block.ref_cnt > 0:
                block.ref_cnt = 0
                self._policy.mark_evictable(key)
                self._num_evictable_cache_blocks += 1
