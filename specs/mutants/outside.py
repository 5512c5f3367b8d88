"""What an engine does not speak of, as data: mutants that it cannot refute, and why, in a line each.

An entry is a claim, too: where the engine does refute the mutant it is stale, and a slow test fails.
"""

from __future__ import annotations

from evictable.specs.callers.disciplines import HOSTILE
from evictable.specs.mutants.fate import CROSSHAIR, EXHAUSTIVE, Z3
from evictable.specs.mutants.mutant import LAZY_HEAP, Mutant

_DEEP = "it takes several jobs, one after the other, and more transitions than a test has time for"
_HIDDEN = "what the heap keeps or has lost shows some calls later, and states that look alike are searched once"
_WHOLE = "no tier wants whole requests"
_PEERS = "no peer asks"
_NO_DRAIN = "draining is proved by no theorem: events are a log that is appended to"
_REFUSED_MARK = "the policy refuses the mark, and the way back sorts the order, of which only what is lower is known"
_NO_LIFETIMES = "no contract announces or finishes a request"
_NOT_DRAINED = "no contract drains events"
_NO_ARC_TOUCH = "no quick contract touches a block of ARC's"
_SLOW_ARC = "the contract about ARC's evictions takes minutes, and is left to evictable prove --full"
_TICKETS = dict.fromkeys(
    (
        "ticket-not-looked-at",
        "ticket-of-another-time",
        "ticket-of-another-request",
        "ticket-never-spent",
        "ticket-covers-any-number",
    ),
    "no call carries a ticket there",
)
_SEVERAL = "it takes several loads of a request at a time, of which one ends: more transitions than a test has time for"
_RESET = "after a reset all that can be seen is as in the beginning, from where it was searched before"

OUTSIDE: dict[str, dict[str, str]] = {
    EXHAUSTIVE: {
        **_TICKETS,
        "refusal-touches": "two idle keys, and an offer that is refused and names one: it takes batches of 3",
        "arc-size-of-t1-before-the-eviction": "two victims of T1 and T2, and a target between: more than 4 keys",
        "linked-never-ended": _SEVERAL,
        "linked-one-of-several-ends-all": _SEVERAL,
        "linked-taken-by-a-stale-entry": "a block is passed over, touched and passed over again: 14 calls",
        "linked-ghosts-without-end": "more evictions than slots, and a key that is asked for again after that",
        "heap-survives-reset": _HIDDEN,
        "heap-loses-what-it-spares": _HIDDEN,
        "holds-outlive-the-step": _DEEP,
        "pinned-counted-among-the-held": _DEEP,
        "job-ids-repeat": _DEEP,
        "one-result-a-poll": _DEEP,
        "latest-result-first": _DEEP,
        "job-counts-as-use": _DEEP,
        "end-told-of-a-live-request": _DEEP,
        "cascade-in-the-way-of-an-offer": _WHOLE,
        "end-told-while-parked": _WHOLE,
        "whole-request-not-cascaded": _WHOLE,
        "whole-request-waits-for-the-pending": _WHOLE,
        "hit-of-a-peer-not-held": _PEERS,
        "origin-tier-asked": _PEERS,
        "pending-key-promised-to-a-peer": _PEERS,
        "job-of-a-peer-under-another-tier": _PEERS,
        "one-promotion-job-a-step": "there is one request",
        "reset-keeps-promotions": _RESET,
        "reset-keeps-jobs": _RESET,
    },
    Z3: {
        **_TICKETS,
        "mark-at-every-unpin": _REFUSED_MARK,
        "pinned-when-stored": _REFUSED_MARK,
        "sizes-told-again": "statistics start empty, and one report is asked for",
        "events-newest-first": _NO_DRAIN,
        "one-event-a-drain": _NO_DRAIN,
        "events-delivered-twice": _NO_DRAIN,
        "events-lost": _NO_DRAIN,
        "refusal-touches": "batches of 2: two idle keys, and an offer that is refused and names one, take batches of 3",
        "slot-leaks-at-eviction": "the offer raises, and its way back takes free slots by their place, which is open",
        "slot-stays-free": "it walks the free list, whose order is left open",
        "foreign-load-completion-accepted": "it takes the first of all requests that load, whose order is left open",
        "finish-aborts-stores": "it walks all blocks, of which there may be any number",
    },
    CROSSHAIR: {
        **_TICKETS,
        "refusal-touches": "two keys in a call: an offer that is refused and names an idle one takes three",
        "finish-forgets-loads": _NO_LIFETIMES,
        "finish-aborts-stores": _NO_LIFETIMES,
        "announcement-forgets-loads": _NO_LIFETIMES,
        "events-newest-first": _NOT_DRAINED,
        "one-event-a-drain": _NOT_DRAINED,
        "events-delivered-twice": _NOT_DRAINED,
        "events-lost": _NOT_DRAINED,
        "events-survive-reset": "the contract about resets begins without undrained events",
        "arc-second-use-forgotten": _NO_ARC_TOUCH,
        "arc-pending-counts-as-used-again": _NO_ARC_TOUCH,
        "arc-gives-from-t1-above-the-target-only": _SLOW_ARC,
        "arc-size-of-t1-before-the-eviction": _SLOW_ARC,
        "arc-without-fallback": _SLOW_ARC,
        "arc-ghosts-survive-reset": "no contract resets ARC",
        "arc-target-survives-reset": "no contract resets ARC",
    },
}


def outside(engine: str, mutant: Mutant) -> str | None:
    """Why ``engine`` does not speak of ``mutant``; ``None`` if it does, and so must refute it."""
    return OUTSIDE.get(engine, {}).get(mutant.name) or _by_kind(engine, mutant)


def _by_kind(engine: str, mutant: Mutant) -> str | None:
    if mutant.discipline == HOSTILE and (engine in (Z3, CROSSHAIR) or (engine == EXHAUSTIVE and mutant.tiers)):
        return "nothing raises by itself there"
    if engine in (Z3, CROSSHAIR) and mutant.tiers:
        return "theorems and contracts are of the manager without tiers"
    if engine in (Z3, CROSSHAIR) and mutant.is_linked:
        return "theorems and contracts are of the manager with a policy"
    if engine in (Z3, CROSSHAIR) and mutant.module == LAZY_HEAP:
        return "theorems and contracts are of the built-in policies"
    if engine == Z3 and mutant.policy != "lru":
        return "theorems are of the LRU order"
    return None
