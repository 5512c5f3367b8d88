"""The other way round: what is right, told call by call to whoever asks.

`Oracle.expect` says what a call may come to, `Oracle.observe` judges what it came to, `Oracle.answer` takes a right
answer for what happened, so that an oracle can stand where a manager stands. `Stream` does the same for JSON lines.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from attrs import define, evolve, field, frozen

from evictable.model import calls
from evictable.model import trace as traces
from evictable.model.admission import Admission
from evictable.model.calls import Answer, Call, Drained, Key, Loaded, Outcome, Raised, Stored
from evictable.model.exchanges import Exchange
from evictable.model.manager import Manager, StorePlan
from evictable.model.snapshot import Snapshot
from evictable.model.tiers import TieredManager
from evictable.model.trace import NOT_RECORDED, Entry, Head, TraceError
from evictable.model.trace_stdio import Hello, hello_record
from evictable.specs.counterexamples import setup_of
from evictable.specs.errors import LawlessDifference, UsageError
from evictable.specs.exhaustive.copies import copied
from evictable.specs.jobs import profile_of
from evictable.specs.judge import Broken, Judge
from evictable.specs.records import broken_record
from evictable.specs.session import model_of
from evictable.specs.subjects.base import Setup

REFUSED = "Refused"
"""What the oracle raises where a call should be refused."""
SHOWN = 1024
"""With more slots no states are told, and no lists of slots."""
_PROFILES = {"lru": "lru-evictable", "arc": "arc"}


@frozen
class Expectation:
    """What a call may come to."""

    outcome: Outcome
    """A right one: where bad keys are named a refusal, else the answer."""
    may_raise: bool = False
    """It may as well raise, with nothing changed: the caller broke a promise."""
    misplaced: tuple[Key, ...] = ()
    """Keys that should not have been named here."""
    otherwise: Answer = None
    """Where keys are misplaced: the answer as if they had not been named, which is right, too."""
    block_ids: tuple[int, ...] | None = None
    """Of a store: the slots that may be taken, each once."""
    evicted_keys: tuple[Key, ...] | None = None
    """Of a store, where the order is not exact: the keys that may make room, as many as in the answer."""

    breaks: str | None = None
    """A law that even the right outcome breaks: `arc-no-fallback` refuses where there is room."""

    def record(self) -> dict[str, Any]:
        """As a line of a trace, with the freedoms beside the answer."""
        record = traces.outcome_record(self.outcome)
        if self.misplaced:
            record |= {"misplaced": list(self.misplaced), "or": traces.outcome_record(self.otherwise)}
        elif self.may_raise:
            record["may_raise"] = True
        if self.breaks is not None:
            record["breaks"] = self.breaks
        choices = {"block_ids": self.block_ids, "evicted_keys": self.evicted_keys}
        free = {name: list(allowed) for name, allowed in choices.items() if allowed is not None}
        return record | {"free": free} if free else record


class Parted(Exception):
    """A law was broken before: what is right from there on, nobody can tell."""


@define
class Oracle:
    """Knows what is right of one manager, from its construction on.

    ``of`` is the head of a trace or a `Setup`, ``profile`` the rules of eviction; without one those of ``of``, or the
    built-in manager's under its policy. Raises `UsageError` for an unknown profile.
    """

    of: Head | Setup
    profile: str = "auto"
    model: Manager = field(init=False)
    parted: bool = field(init=False, default=False)
    _judge: Judge | None = field(init=False, default=None)
    _state: Snapshot | None = field(init=False, default=None)

    def __attrs_post_init__(self) -> None:
        head = self.of if isinstance(self.of, Head) else None
        if self.profile == "auto":
            self.profile = "auto" if head is None else head.profile
        self.profile = profile_of(self.profile, _PROFILES.get(self.of.policy, "any"))
        setup = self.of if isinstance(self.of, Setup) else setup_of(self.of)
        self.model = model_of(setup, self.profile, (head.admission if head else None) or Admission.name)

    @property
    def state(self) -> Snapshot:
        """The state that is right now, with its order where that is prescribed."""
        order = self.model.order
        return evolve(self.model.snapshot(None), order=order.state() if order.exact else None)

    def expect(self, call: Call) -> Expectation:
        """What ``call`` may come to if it is made now. Nothing changes.

        Costs the keys of the call; a store under a threshold, or under an order that heeds requests, the whole state.
        Raises `Parted` after a broken law, and `UsageError` for a call that needs tiers.
        """
        self._together()
        model = self.model
        if call.name in calls.WITH_TIERS or isinstance(model, TieredManager):
            raise UsageError(f"{call.name}: with tiers there is more than one right answer; record the answers instead")
        places = set(model.misplaced(call))
        if not places:
            return self._of_good(call, model.may_refuse(call))
        misplaced = tuple(dict.fromkeys(call.keys[place] for place in sorted(places)))
        good = call.with_keys(tuple(key for place, key in enumerate(call.keys) if place not in places))
        as_if = self._of_good(good, True)
        refused = Raised(REFUSED, f"{list(misplaced)} should not be named in {call.name}")
        return evolve(as_if, outcome=refused, misplaced=misplaced, otherwise=as_if.outcome)  # type: ignore[arg-type]

    def observe(
        self, call: Call, outcome: Outcome, state: Snapshot | None = None, exchanges: Sequence[Exchange] = ()
    ) -> tuple[Broken, ...]:
        """The laws that ``call`` broke by coming to ``outcome`` (and to ``state``, if known); none if it is right.

        Raises `Parted` after a broken law, and `LawlessDifference` where it is wrong and no law says so.
        """
        self._together()
        if self._judge is None:
            # Nothing has happened: every manager begins so.
            self._state = Snapshot({}, {}, (), full=True)
            self._judge = Judge(self.model, self._look, always_full=state is not None)
        self._state = state
        self.parted = True  # whatever is raised
        broken = self._judge.observe(call, outcome, exchanges)
        self.parted = bool(broken)
        return broken

    def answer(self, call: Call) -> Expectation:
        """As `expect`, and its outcome is taken for what happened."""
        expected = self.expect(call)
        self.observe(call, expected.outcome)
        return expected

    def _together(self) -> None:
        if self.parted:
            raise Parted("a law was broken before: nothing more can be told")

    def _look(self, keys: Collection[Key] | None) -> Snapshot | None:
        return self._state if keys is None or self._state is None else self._state.of(keys)

    def _of_good(self, call: Call, may_raise: bool) -> Expectation:
        answer = right_answer(self.model, call)
        model = self.model
        if call.name == calls.PREPARE_STORE and answer is None:
            has_room = model.admission.threshold < 2 and model.plan_store(call.keys).has_room
            return Expectation(answer, may_raise, breaks="no-false-refusal" if has_room else None)
        if not isinstance(answer, Stored) or not answer.keys_to_store:
            return Expectation(answer, may_raise)
        slots: tuple[int, ...] | None = None
        if model.capacity <= SHOWN:
            leaving = {model.slots[key] for key in answer.evicted_keys}
            slots = tuple(one for one in range(model.capacity) if one not in model.holders or one in leaving)
        victims = None
        if not model.order.exact and answer.evicted_keys:
            victims = tuple(key for key in model.order.idle_keys() if key not in call.keys)
        return Expectation(answer, may_raise, block_ids=slots, evicted_keys=victims)


def right_answer(model: Manager, call: Call) -> Answer:
    """A right answer to ``call``, none of whose keys is misplaced, without carrying it out.

    Where there is a choice: the lowest free slots, the first victims, an event for each batch of facts.
    """
    name = call.name
    if name == calls.LOOKUP:
        return model.presence(call.keys[0])
    if name == calls.PREPARE_LOAD:
        return Loaded(tuple(model.slots[key] for key in call.keys))
    if name == calls.TAKE_EVENTS:
        return Drained(model.events.to_tell()[: call.limit] if model.with_events else ())
    if name == calls.GET_STATS:
        counted = model.statistics
        gauges = model.get_stats()
        model.statistics = counted
        return gauges
    if name == calls.PREPARE_STORE:
        if model.order.by_request or model.admission.threshold > 1:  # an offer moves these before it is planned
            return copied(model).perform(call)
        return _stored(model, model.plan_store(call.keys))
    return None


def _stored(model: Manager, plan: StorePlan) -> Stored | None:
    if plan.victims is None:
        return None
    slots: list[int] = []
    slot = 0
    while len(slots) < len(plan.new):
        if slot not in model.holders or model.holders[slot] in plan.victims:
            slots.append(slot)
        slot += 1
    return Stored(plan.new, tuple(slots), plan.victims)


@define
class Stream:
    """Answers lines of JSON: a head line with a hello, a call with what is right, a recorded call with a verdict."""

    head: Head | None = None
    """If the first line is no head."""
    profile: str = "auto"
    num_broken: int = 0
    num_unexplained: int = 0
    _oracle: Oracle | None = None
    _shows: bool = False
    _broken_at: int = 0

    def answer(self, number: int, text: str | bytes) -> dict[str, Any]:
        """The answer to line ``number``. Raises `TraceError`."""
        record = traces.read_object(number, text)
        try:
            if "evictable_trace" in record:
                return self._begin(traces.read_head(number, record), record.get("state") is not False)
            if self._oracle is None:
                if self.head is None:
                    raise TraceError(
                        number, 'no head line; begin with {"evictable_trace": 1, "capacity": ...}, or give --capacity'
                    )
                self._begin(self.head, True)
            return self._of_call(number, record)
        except UsageError as error:
            raise TraceError(number, str(error)) from error

    def _begin(self, head: Head, wanted: bool) -> dict[str, Any]:
        self._oracle = oracle = Oracle(head, self.profile)
        self._shows = wanted and head.capacity <= SHOWN
        return hello_record(
            Hello(
                "evictable oracle",
                profile=oracle.profile,
                events=head.events,
                tickets=True,
                admission=oracle.model.admission.name,
                state=oracle.state if self._shows else None,
            )
        )

    def _of_call(self, number: int, record: Mapping[str, Any]) -> dict[str, Any]:
        oracle = self._oracle
        assert oracle is not None
        entry = traces.read_entry(number, record)
        traces.check_tiers(number, entry, oracle.model.num_tiers if isinstance(oracle.model, TieredManager) else 0)
        if oracle.parted:
            return {"right": None, "message": f"not judged: model and manager have parted in line {self._broken_at}"}
        try:
            return self._told(number, oracle, entry)
        except LawlessDifference as error:
            self.num_unexplained, self._broken_at = self.num_unexplained + 1, number
            return {"right": None, "message": error.line}

    def _told(self, number: int, oracle: Oracle, entry: Entry) -> dict[str, Any]:
        if entry.outcome is NOT_RECORDED:
            expected = oracle.answer(entry.call).record()
            return expected | {"state": traces.state_record(oracle.state)} if self._shows else expected
        broken = oracle.observe(entry.call, entry.outcome, entry.state, entry.exchanges)
        if not broken:
            return {"right": True}
        self.num_broken, self._broken_at = self.num_broken + 1, number
        return {"right": False, "broken": [broken_record(one) for one in broken]}
