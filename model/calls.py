"""The vocabulary: what a caller can ask of a manager, and what it can be told.

Every caller speaks it, every subject answers it, and a trace is a list of it.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Any

from attrs import evolve, field, frozen

Key = int | str
"""Names a block's content: a non-negative integer, or a string of hexadecimal bytes."""

_HASH_BYTES = 8
_GROUP_BYTES = 4


def key_bytes(key: Key) -> bytes:
    """The key as the subjects know it: a hash and a 4-byte group index.

    An integer becomes bytes whose order is that of the integers, since ranks tie by key; its group is 0. A
    string is hexadecimal for the whole key. Raises `ValueError` or `OverflowError` for anything else.
    """
    if isinstance(key, str):
        return bytes.fromhex(key)
    return key.to_bytes(_HASH_BYTES, "big") + bytes(_GROUP_BYTES)


def plain_key(key: Key) -> Key:
    """The one way to write a key: hexadecimal in small letters, or the integer that stands for the same bytes."""
    if isinstance(key, int):
        return key
    key = key.lower()
    digits = 2 * _HASH_BYTES
    if len(key) == digits + 2 * _GROUP_BYTES and not key[digits:].strip("0"):
        return int(key[:digits], 16)
    return key


def group_of(key: Key) -> int:
    """The index of the KV-cache group that the key belongs to."""
    return 0 if isinstance(key, int) else int.from_bytes(key_bytes(key)[-_GROUP_BYTES:], "big")


MISS = "MISS"
HIT = "HIT"
HIT_PENDING = "HIT_PENDING"
RETRY = "RETRY"
LOOKUP_ANSWERS = frozenset({MISS, HIT, HIT_PENDING, RETRY})


class CallName(StrEnum):
    """What can happen in a run: the calls of a manager, and what the tiers below it do of their own accord."""

    ON_NEW_REQUEST = "on_new_request"
    LOOKUP = "lookup"
    PREPARE_STORE = "prepare_store"
    COMPLETE_STORE = "complete_store"
    PREPARE_LOAD = "prepare_load"
    COMPLETE_LOAD = "complete_load"
    TOUCH = "touch"
    ON_REQUEST_FINISHED = "on_request_finished"
    TAKE_EVENTS = "take_events"
    RESET_CACHE = "reset_cache"
    GET_STATS = "get_stats"
    # With tiers: one more call of the manager, and what happens in the tiers.
    ON_SCHEDULE_END = "on_schedule_end"
    FILL_TIER = "fill_tier"
    DELAY_TIER = "delay_tier"
    FINISH_JOB = "finish_job"
    PEER_LOOKUP = "peer_lookup"


# Plain names: an attribute of an enum class costs a look-up on every judged call.
ON_NEW_REQUEST = CallName.ON_NEW_REQUEST.value
LOOKUP = CallName.LOOKUP.value
PREPARE_STORE = CallName.PREPARE_STORE.value
COMPLETE_STORE = CallName.COMPLETE_STORE.value
PREPARE_LOAD = CallName.PREPARE_LOAD.value
COMPLETE_LOAD = CallName.COMPLETE_LOAD.value
TOUCH = CallName.TOUCH.value
ON_REQUEST_FINISHED = CallName.ON_REQUEST_FINISHED.value
TAKE_EVENTS = CallName.TAKE_EVENTS.value
RESET_CACHE = CallName.RESET_CACHE.value
GET_STATS = CallName.GET_STATS.value
ON_SCHEDULE_END = CallName.ON_SCHEDULE_END.value
FILL_TIER = CallName.FILL_TIER.value
DELAY_TIER = CallName.DELAY_TIER.value
FINISH_JOB = CallName.FINISH_JOB.value
PEER_LOOKUP = CallName.PEER_LOOKUP.value

IN_TIERS = frozenset({FILL_TIER, DELAY_TIER, FINISH_JOB, PEER_LOOKUP})
"""What happens in a tier. The manager is not called: it hears of it when it next asks the tier."""
WITH_TIERS = IN_TIERS | {ON_SCHEDULE_END}

_OF_REQUESTS = frozenset({LOOKUP, PREPARE_STORE, COMPLETE_STORE, PREPARE_LOAD, COMPLETE_LOAD, TOUCH})
CALLS_WITH_KEYS = _OF_REQUESTS | IN_TIERS
CALLS_WITH_REQUEST = _OF_REQUESTS | {ON_NEW_REQUEST, ON_REQUEST_FINISHED, PEER_LOOKUP}
CALLS_WITH_TIER = frozenset({FILL_TIER, DELAY_TIER, PEER_LOOKUP})
TIER_FAULTS = ("submit_store", "submit_load")
"""The methods of a tier that can be made to raise."""
EVENTS_APPEND, SLOTS_ALLOCATE, SLOTS_RECORD, SLOTS_FREE = (
    "events.append",
    "slots.allocate",
    "slots.record",
    "slots.free",
)
MANAGER_FAULTS = (
    "policy.get",
    "policy.insert",
    "policy.remove",
    "policy.touch",
    "policy.evict",
    "policy.clear",
    "policy.mark_evictable",
    "policy.mark_non_evictable",
    "policy.on_store_miss",  # from 0.31, as the next one
    "policy.on_request_finished",
    "policy.on_request_access",  # from 0.33
    EVENTS_APPEND,
    SLOTS_ALLOCATE,
    SLOTS_RECORD,
    SLOTS_FREE,
)
"""What a manager calls that can be made to raise: its policy, its event queue, the allocator of slots and of the
records of blocks, and what gives slots back."""
FAULTS = TIER_FAULTS + MANAGER_FAULTS
COMPLETIONS = frozenset({COMPLETE_STORE, COMPLETE_LOAD})
TRANSFERS = COMPLETIONS | {PREPARE_STORE, PREPARE_LOAD}


@frozen
class Call:
    """One call: its name and its arguments.

    ``lookup`` names exactly one key. ``positions`` gives the token position of each key (same length
    as ``keys``), where the caller knows it. ``limit`` makes a drain of events stop after that many. A preparation with
    a ``ticket`` is remembered under that number, and a completion with it is of that preparation and no other.

    With tiers, which are numbered from 0: ``fill_tier`` puts keys into ``tier``; ``delay_tier`` makes it answer
    RETRY for keys until the step ends; ``finish_job`` ends the ``job``-th transfer that was submitted (from 0),
    having transferred ``keys`` (all of them: success; some: it fails in part); ``peer_lookup`` lets somebody
    behind ``tier`` ask for keys as ``request``, at the end of the step. ``success`` false at ``reset_cache`` lets the
    jobs fail that it waits for.

    During a call with ``raises_in``, one of `FAULTS`, that method raises at its ``at``-th use (from 1), before it acts.
    """

    name: str
    keys: tuple[Key, ...] = ()
    request: str | None = None
    success: bool = True
    limit: int | None = None
    positions: tuple[int | None, ...] | None = None
    tier: int | None = None
    job: int | None = None
    raises_in: str | None = None
    at: int = 1
    ticket: int | None = None

    @property
    def owner(self) -> str | None:
        """Whose a transfer is that the call prepares or completes: the request's, or more closely its ticket's."""
        return self.request if self.ticket is None else f"{self.request} with ticket {self.ticket}"

    def with_keys(self, keys: tuple[Key, ...]) -> Call:
        """The same call about other keys; each key that stays keeps its position."""
        if self.positions is None:
            return evolve(self, keys=keys)
        known = dict(zip(self.keys, self.positions, strict=True))
        return evolve(self, keys=keys, positions=tuple(known.get(key) for key in keys))

    def __str__(self) -> str:
        arguments = []
        if self.name in CALLS_WITH_KEYS:
            arguments.append(str(self.keys[0]) if self.name == LOOKUP else "[" + ", ".join(map(str, self.keys)) + "]")
        if self.request is not None:
            arguments.append(f"request={self.request}")
        if self.job is not None:
            arguments.insert(0, f"job={self.job}")
        if self.tier is not None:
            arguments.append(f"tier={self.tier}")
        if self.name == COMPLETE_STORE or not self.success:
            arguments.append(f"success={self.success}")
        if self.limit is not None:
            arguments.append(f"limit={self.limit}")
        if self.positions is not None:
            arguments.append(f"positions={list(self.positions)}")
        if self.ticket is not None:
            arguments.append(f"ticket={self.ticket}")
        if self.raises_in is not None:
            arguments.append(f"{self.raises_in} raises" + (f" at use {self.at}" if self.at > 1 else ""))
        return f"{self.name}({', '.join(arguments)})"


@frozen
class Stored:
    """What ``prepare_store`` answers: the new keys, a slot for each, and the keys that made room."""

    keys_to_store: tuple[Key, ...]
    block_ids: tuple[int, ...]
    evicted_keys: tuple[Key, ...]

    def __str__(self) -> str:
        return f"store {list(self.keys_to_store)} in slots {list(self.block_ids)}, evicting {list(self.evicted_keys)}"


@frozen
class Loaded:
    """What ``prepare_load`` answers: the slot of each named key."""

    block_ids: tuple[int, ...]

    def __str__(self) -> str:
        return f"load from slots {list(self.block_ids)}"


@frozen
class Event:
    """Keys that were stored or removed, as told to a consumer of ``take_events``.

    ``metadata_only`` marks the clean-up of a store that failed (vLLM 0.33): nothing was announced for it.
    """

    removed: bool
    keys: tuple[Key, ...]
    metadata_only: bool = False
    medium: str | None = None
    """Where the blocks are, such as ``CPU``; ``None`` where it is not recorded."""
    locality: str | None = None
    """``LOCAL`` or ``REMOTE`` relative to the publisher; ``None`` where it is not told."""

    def __str__(self) -> str:
        return ("removed " if self.removed else "stored ") + str(list(self.keys))


@frozen
class Drained:
    """What ``take_events`` delivered before it ended or the consumer dropped it."""

    events: tuple[Event, ...]

    def __str__(self) -> str:
        return "events: " + ("; ".join(map(str, self.events)) or "none")


@frozen
class Gauges:
    """What ``get_stats`` reports; ``None`` where it has no such metric.

    The usages are fractions of the capacity and describe the state; the others count since the last report.
    """

    usage: float | None = None
    write_usage: float | None = None
    read_usage: float | None = None
    stores_skipped: float | None = None
    """Keys that were offered and not admitted by the store threshold."""
    allocation_sizes: tuple[int, ...] | None = None
    """Of each offer that had new keys, how many, also when it was refused."""
    allocation_failures: float | None = None
    """Offers that were refused."""


@frozen
class Raised:
    """The call raised instead of answering."""

    type: str
    message: str = field(default="", eq=False)

    def __str__(self) -> str:
        # In one line and without control characters: a subject says what it likes, in a log that others read.
        message = "".join(one if one.isprintable() else repr(one)[1:-1] for one in self.message)
        return f"raises {self.type}" + (f": {message}" if message else "")


MANAGER_DIED, BAD_ANSWER = "ManagerDied", "BadAnswer"
LOST = frozenset({MANAGER_DIED, BAD_ANSWER})
"""What a call raises that a manager in another process never answered, or not so that it could be read. It is no
refusal, whatever was called: nothing of such a manager is as it was."""

Answer = str | Stored | Loaded | Drained | Gauges | None
Outcome = Answer | Raised


def describe(outcome: Any) -> str:
    """An outcome in words, for a report."""
    return "None" if outcome is None else str(outcome)
