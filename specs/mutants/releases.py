"""Run-time mutants of published vLLM managers, as data: the same kinds of bugs, applied after loading.

Not here, because no law is broken by it: a heap of 0.33 that survives a reset. Its entries count only if key and rank
are those of now, and then another one is there that says the same.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from attrs import field, frozen

from evictable.specs.callers.disciplines import CONTRACT
from evictable.specs.errors import UsageError
from evictable.specs.mutants.live import (
    Live,
    Method,
    Patch,
    afterwards,
    answers,
    calls_with,
    keeps,
    leaves_out,
    nothing,
    replaced,
    silences,
    without,
)

OF_LISTS, OF_HEAPS = "0.24.0", "0.33.0"
"""The releases that are mutated: one with a list of the evictable blocks, one with a lazy heap."""
BOTH = (OF_LISTS, OF_HEAPS)


@frozen
class LiveMutant:
    """A known defect that is put into a live manager."""

    name: str
    kind: str
    sentence: str
    patch: Patch = field(repr=False)
    laws: tuple[str, ...]
    """What it is known to break; any law will do, if the release itself keeps it under the same calls."""
    releases: tuple[str, ...] = BOTH
    discipline: str = CONTRACT
    policy: str = "lru"
    tiers: int = 0


# --- what the patches do ---


def _inserts_listed(live: Live) -> None:
    def make(act: Method) -> Method:
        def insert(key: Any, block: Any, *more: Any) -> None:
            act(key, block, *more)
            live.list_key(key)

        return insert

    replaced(live.policy, "insert", make)


def _counts_one_reader(live: Live, answer: Any, keys: Collection[Any], context: Any) -> None:
    for key in keys:
        live.block(key).ref_cnt = 1


def _pins_again(live: Live, answer: Any, keys: Collection[Any], context: Any) -> None:
    for key in keys:
        live.block(key).ref_cnt += 1


def _unpins_again(live: Live, answer: Any, keys: Collection[Any], context: Any) -> None:
    for key in keys:
        block = live.block(key)
        if block.ref_cnt > 0:
            block.ref_cnt -= 1


def _free_list_survives(live: Live) -> None:
    def make(act: Method) -> Method:
        def reset_cache() -> None:
            free = list(live.manager._free_list)
            act()
            live.manager._free_list.extend(free)

        return reset_cache

    replaced(live.manager, "reset_cache", make)


def _list_survives(live: Live) -> None:
    def make(act: Method) -> Method:
        def clear() -> None:
            listed = live.evictable
            act()
            for key in listed:
                live.list_key(key)

        return clear

    replaced(live.policy, "clear", make)


def _frees_twice(live: Live) -> None:
    def make(act: Method) -> Method:
        def complete_store(*arguments: Any, **named: Any) -> None:
            free = getattr(live.manager, live.free)

            def twice(block: Any) -> None:
                free(block)
                free(block)

            with without(live.manager, live.free, twice):
                act(*arguments, **named)

        return complete_store

    replaced(live.manager, "complete_store", make)


def _evicts_the_last(live: Live) -> None:
    def make(act: Method) -> Method:
        def evict(number: int, protected: set[Any]) -> Any:
            candidates = [key for key in live.evictable if key not in protected]
            spared = set(candidates[:-number]) if number else set()
            return act(number, protected | spared)

        return evict

    replaced(live.policy, "evict", make)


def _evicts_one_more(live: Live) -> None:
    def make(act: Method) -> Method:
        def evict(number: int, protected: set[Any]) -> Any:
            more = act(number + 1, protected)
            return act(number, protected) if more is None else more

        return evict

    replaced(live.policy, "evict", make)


def _touches_too(live: Live, answer: Any, key: Any, context: Any) -> None:
    live.manager.touch([key], context)


def _tells_no_victims(output: Any) -> Any:
    if output is not None:
        output.evicted_keys = []
    return output


def _stores_all(live: Live, output: Any, keys: Collection[Any], context: Any) -> None:
    if output is not None:
        output.keys_to_store = list(keys)


def _hit_for_pending(found: Any) -> Any:
    if found is None:
        return True
    return type(found).HIT if getattr(found, "name", "") == "HIT_PENDING" else found


def _miss_for_pending(found: Any) -> Any:
    if found is None:
        return False
    return type(found).MISS if getattr(found, "name", "") == "HIT_PENDING" else found


def _pending_while_pinned(live: Live) -> None:
    def make(act: Method) -> Method:
        def lookup(key: Any, context: Any) -> Any:
            found, block = act(key, context), live.block(key)
            if block is None or block.ref_cnt <= 0:
                return found
            return None if isinstance(found, bool) else type(found).HIT_PENDING

        return lookup

    replaced(live.manager, "lookup", make)


def _announces_failures(live: Live, answer: Any, keys: Collection[Any], context: Any, success: bool = True) -> None:
    if not success and keys and live.manager.events is not None:
        event = live.event_class(keys=list(keys), medium=live.manager.medium, removed=False)
        live.manager.events.append(event)


def _always_succeeds(keys: Collection[Any], context: Any, success: bool = True) -> tuple[Any, ...]:
    return (keys, context, True)


def _newest_first(live: Live) -> None:
    def make(act: Method) -> Method:
        def take_events() -> Any:
            if live.manager.events:
                live.manager.events.reverse()
            return act()

        return take_events

    replaced(live.manager, "take_events", make)


def _one_event(live: Live) -> None:
    def make(act: Method) -> Method:
        def take_events() -> Any:
            later = (live.manager.events or [])[1:]
            if live.manager.events:
                del live.manager.events[1:]
            taken = list(act())
            if live.manager.events is not None:
                live.manager.events.extend(later)
            return taken

        return take_events

    replaced(live.manager, "take_events", make)


def _finish_gives_stores_up(live: Live) -> None:
    stores: dict[str, set[Any]] = {}

    def prepared(act: Method) -> Method:
        def prepare_store(keys: Any, context: Any) -> Any:
            output = act(keys, context)
            if output is not None:
                stores.setdefault(context.req_id, set()).update(output.keys_to_store)
            return output

        return prepare_store

    def finished(act: Method) -> Method:
        def on_request_finished(context: Any) -> Any:
            begun = stores.pop(context.req_id, set())
            pending = [key for key in begun if (block := live.block(key)) is not None and block.ref_cnt < 0]
            live.manager.complete_store(pending, context, False)
            return act(context)

        return on_request_finished

    replaced(live.manager, "prepare_store", prepared)
    replaced(live.manager, "on_request_finished", finished)


def _refuses_an_exact_fit(live: Live) -> None:
    def make(act: Method) -> Method:
        def prepare_store(keys: Any, context: Any) -> Any:
            need = sum(live.block(key) is None for key in keys) - live.num_free
            if need > 0 and need == getattr(live.manager, live.num_evictable):
                return None
            return act(keys, context)

        return prepare_store

    replaced(live.manager, "prepare_store", make)


def _refusal_evicts(live: Live) -> None:
    def make(act: Method) -> Method:
        def prepare_store(keys: Any, context: Any) -> Any:
            output = act(keys, context)
            if output is None:
                live.policy.evict(1, set(keys))
            return output

        return prepare_store

    replaced(live.manager, "prepare_store", make)


def _usage_counts_evictable(live: Live) -> None:
    def make(act: Method) -> Method:
        def get_stats() -> Any:
            before = getattr(live.manager, live.num_evictable)
            setattr(live.manager, live.num_evictable, 0)
            try:
                return act()
            finally:
                setattr(live.manager, live.num_evictable, before)

        return get_stats

    replaced(live.manager, "get_stats", make)


def _sorts_slots(spec: Any) -> Any:
    ids = getattr(spec, "block_ids", None)
    if ids is not None:
        spec.block_ids.sort()
    return spec


def _stale_is_current(live: Live) -> None:
    live.policy._is_current = lambda entry: entry[1] in live.policy._evictable


def _heap_loses_the_spared(live: Live) -> None:
    def make(act: Method) -> Method:
        def evict(number: int, protected: set[Any]) -> Any:
            evicted = act(number, protected)
            live.policy._heap[:] = [entry for entry in live.policy._heap if entry[1] not in protected]
            return evicted

        return evict

    replaced(live.policy, "evict", make)


def _policy_without(name: str) -> Patch:
    return lambda live: setattr(live.policy, name, nothing)


def _target_stands_still(live: Live) -> None:
    def make(act: Method) -> Method:
        def touch(*arguments: Any) -> None:
            before = live.policy.target_t1_size
            act(*arguments)
            live.policy.target_t1_size = before

        return touch

    replaced(live.policy, "touch", make)


def _protects_nothing(number: int, protected: set[Any]) -> tuple[Any, ...]:
    return number, set()


def _backwards(keys: Any, *more: Any) -> tuple[Any, ...]:
    return (list(keys)[::-1], *more)


LIVE_MUTANTS: tuple[LiveMutant, ...] = (
    LiveMutant(
        "no-mark-when-stored",
        "missed-step",
        "a block does not become evictable when its store completes",
        leaves_out("complete_store", "policy", "mark_evictable"),
        ("evictable-iff-idle",),
    ),
    LiveMutant(
        "no-mark-when-unpinned",
        "missed-step",
        "a block does not become evictable when its last load completes",
        leaves_out("complete_load", "policy", "mark_evictable"),
        ("evictable-iff-idle",),
    ),
    LiveMutant(
        "no-unmark-when-pinned",
        "missed-step",
        "a block stays evictable while a load reads it",
        leaves_out("prepare_load", "policy", "mark_non_evictable"),
        ("evictable-iff-idle",),
    ),
    LiveMutant(
        "listed-when-inserted",
        "late-membership",
        "a block is evictable as soon as its store begins",
        _inserts_listed,
        ("evictable-iff-idle",),
    ),
    LiveMutant(
        "second-reader-not-counted",
        "missed-step",
        "a load of a block that another load reads already is not counted",
        afterwards("prepare_load", _counts_one_reader),
        ("legal-step",),
    ),
    LiveMutant(
        "pinned-twice",
        "error-path",
        "a load takes two pins on each block, and gives one back",
        afterwards("prepare_load", _pins_again),
        ("legal-step",),
    ),
    LiveMutant(
        "unpinned-twice",
        "double-unpin",
        "a load's completion unpins a block twice if somebody else reads it, too",
        afterwards("complete_load", _unpins_again),
        ("legal-step", "evictable-iff-idle"),
    ),
    LiveMutant(
        "counter-forgets-stores",
        "miscounted",
        "the evictable counter does not grow when a store completes",
        keeps("complete_store", "num_evictable"),
        ("counters-agree",),
    ),
    LiveMutant(
        "counter-forgets-pins",
        "miscounted",
        "the evictable counter does not shrink when a load pins idle blocks",
        keeps("prepare_load", "num_evictable"),
        ("counters-agree",),
    ),
    LiveMutant(
        "counter-forgets-unpins",
        "miscounted",
        "the evictable counter does not grow when a load completes",
        keeps("complete_load", "num_evictable"),
        ("counters-agree",),
    ),
    LiveMutant(
        "counter-forgets-evictions",
        "miscounted",
        "the evictable counter does not shrink when blocks are evicted",
        keeps("prepare_store", "num_evictable"),
        ("counters-agree",),
    ),
    LiveMutant(
        "counter-survives-reset",
        "forgetful-reset",
        "a reset does not set the evictable counter back",
        keeps("reset_cache", "num_evictable"),
        ("counters-agree",),
    ),
    LiveMutant(
        "pending-forgets-begun-stores",
        "miscounted",
        "the write-pending counter does not grow when stores begin",
        keeps("prepare_store", "num_pending"),
        ("counters-agree",),
        (OF_HEAPS,),
    ),
    LiveMutant(
        "pending-forgets-ended-stores",
        "miscounted",
        "the write-pending counter does not shrink when stores end",
        keeps("complete_store", "num_pending"),
        ("counters-agree",),
        (OF_HEAPS,),
    ),
    LiveMutant(
        "usage-counts-evictable",
        "miscounted",
        "the usage gauge counts evictable blocks as used",
        _usage_counts_evictable,
        ("counters-agree",),
    ),
    LiveMutant(
        "slot-leaks-when-store-fails",
        "error-path",
        "a failed store does not give its slot back",
        leaves_out("complete_store", "manager", "free"),
        ("slots-conserved",),
    ),
    LiveMutant(
        "slot-leaks-at-eviction",
        "slots",
        "an evicted block does not give its slot back",
        leaves_out("prepare_store", "manager", "free"),
        ("answer", "slots-conserved"),
    ),
    LiveMutant(
        "slot-freed-twice",
        "double-unpin",
        "a failed store gives its slot back twice",
        _frees_twice,
        ("slots-conserved",),
    ),
    LiveMutant(
        "free-list-survives-reset",
        "forgetful-reset",
        "a reset hands out all slots afresh, but keeps the list of those given back",
        _free_list_survives,
        ("slots-conserved",),
    ),
    LiveMutant(
        "list-survives-reset",
        "forgetful-reset",
        "a reset forgets the blocks but not which of them were evictable",
        _list_survives,
        ("evictable-iff-idle",),
    ),
    LiveMutant(
        "nothing-protected",
        "protection",
        "keys of the offer that are resident may be evicted for it",
        calls_with("policy", "evict", _protects_nothing),
        ("offer-protected",),
    ),
    LiveMutant(
        "evicts-from-the-other-end",
        "order",
        "the most recently used block goes first",
        _evicts_the_last,
        ("evict-order",),
    ),
    LiveMutant(
        "evicts-one-too-many",
        "boundary",
        "a store evicts one block more than it needs",
        _evicts_one_more,
        ("evict-order",),
    ),
    LiveMutant(
        "refuses-an-exact-fit",
        "boundary",
        "an offer that needs every evictable block is refused",
        _refuses_an_exact_fit,
        ("no-false-refusal",),
    ),
    LiveMutant(
        "refusal-evicts",
        "refusal",
        "an offer that is refused has evicted a block",
        _refusal_evicts,
        ("all-or-nothing", "counters-agree"),
    ),
    LiveMutant("touch-forgotten", "order", "a touch changes nothing", _policy_without("touch"), ("evict-order",)),
    LiveMutant(
        "touch-forwards",
        "order",
        "a touch walks its keys forwards, so that the head of a prefix goes before its tail",
        calls_with("policy", "touch", _backwards),
        ("evict-order",),
    ),
    LiveMutant(
        "lookup-touches", "order", "a lookup counts as a use", afterwards("lookup", _touches_too), ("evict-order",)
    ),
    LiveMutant(
        "stored-backwards",
        "order",
        "the keys of one completed store join the list backwards",
        calls_with("manager", "complete_store", _backwards),
        ("evict-order",),
        (OF_LISTS,),
    ),
    LiveMutant(
        "unpinned-backwards",
        "order",
        "the keys of one completed load join the list backwards",
        calls_with("manager", "complete_load", _backwards),
        ("evict-order",),
        (OF_LISTS,),
    ),
    LiveMutant(
        "victims-not-told",
        "answer",
        "the answer does not name the evicted keys",
        answers("prepare_store", _tells_no_victims),
        ("evict-order",),
    ),
    LiveMutant(
        "resident-keys-stored-again",
        "answer",
        "the answer names every key of the offer as one to store",
        afterwards("prepare_store", _stores_all),
        ("answer",),
    ),
    LiveMutant(
        "load-slots-sorted",
        "slots",
        "a load gets its slots in ascending order, not in the order of its keys",
        answers("prepare_load", _sorts_slots),
        ("answer",),
    ),
    LiveMutant(
        "hit-while-pending",
        "pending-misread",
        "a lookup says HIT while the store is in flight",
        answers("lookup", _hit_for_pending),
        ("answer",),
    ),
    LiveMutant(
        "pending-read-as-a-miss",
        "pending-misread",
        "a lookup says MISS while the store is in flight",
        answers("lookup", _miss_for_pending),
        ("answer",),
    ),
    LiveMutant(
        "pending-while-pinned",
        "boundary",
        "a lookup says HIT_PENDING while somebody reads the block",
        _pending_while_pinned,
        ("answer",),
    ),
    LiveMutant(
        "failure-taken-for-success",
        "error-path",
        "a failed store leaves a readable block",
        calls_with("manager", "complete_store", _always_succeeds),
        ("legal-step",),
    ),
    LiveMutant(
        "finish-aborts-stores",
        "early-reuse",
        "a request that finishes gives up its stores in flight, and their slots while they are written to",
        _finish_gives_stores_up,
        ("pinned-stays", "legal-step"),
    ),
    LiveMutant(
        "no-event-when-stored",
        "events",
        "nothing is announced when a store completes",
        silences("complete_store"),
        ("events-once", "events-replay"),
    ),
    LiveMutant(
        "no-event-at-eviction",
        "events",
        "nothing is announced when blocks are evicted",
        silences("prepare_store"),
        ("events-once", "events-replay"),
    ),
    LiveMutant(
        "failed-store-announced",
        "events",
        "a store that fails is announced as if it had succeeded",
        afterwards("complete_store", _announces_failures),
        ("events-once", "events-replay"),
    ),
    LiveMutant(
        "events-newest-first",
        "events",
        "events are delivered newest first",
        _newest_first,
        ("events-once", "events-replay"),
    ),
    LiveMutant(
        "one-event-a-drain", "events", "a drain ends after one event", _one_event, ("events-once", "events-replay")
    ),
    LiveMutant(
        "heap-stale-entries-current",
        "stale-heap",
        "the entry from before a touch is taken for the current one",
        _stale_is_current,
        ("evict-order",),
        (OF_HEAPS,),
    ),
    LiveMutant(
        "heap-loses-what-it-spares",
        "stale-heap",
        "an entry that comes up while its key is protected is not put back",
        _heap_loses_the_spared,
        ("no-false-refusal",),
        (OF_HEAPS,),
    ),
    LiveMutant(
        "finish-forgets-recency",
        "requests",
        "the end of a request re-ranks nothing",
        _policy_without("on_request_finished"),
        ("evict-order",),
        (OF_HEAPS,),
    ),
    LiveMutant(
        "access-forgets-recency",
        "requests",
        "the first access of a request re-ranks nothing",
        _policy_without("on_request_access"),
        ("evict-order",),
        (OF_HEAPS,),
    ),
    LiveMutant(
        "arc-touch-forgotten",
        "order",
        "a touch changes nothing in ARC",
        _policy_without("touch"),
        ("evict-order", "all-or-nothing"),
        policy="arc",
    ),
    LiveMutant(
        "arc-target-stands-still",
        "order",
        "a ghost that is touched moves no target",
        _target_stands_still,
        ("evict-order", "all-or-nothing"),
        policy="arc",
    ),
    LiveMutant(
        "arc-nothing-protected",
        "protection",
        "keys of the offer that are resident may be evicted from ARC for it",
        calls_with("policy", "evict", _protects_nothing),
        ("offer-protected",),
        policy="arc",
    ),
)


def of_release(subject: str, names: Collection[str] = ()) -> tuple[LiveMutant, ...]:
    """The mutants of a subject, or those of them that are named.

    Raises `UsageError` if none were written for it, or none of such a name.
    """
    release = subject.removeprefix("vllm==")
    found = {mutant.name: mutant for mutant in LIVE_MUTANTS if release in mutant.releases}
    if not found or not subject.startswith("vllm=="):
        known = ", ".join(f"vllm=={one}" for one in BOTH)
        raise UsageError(f"there are no mutants of {subject}; known: impl, {known}")
    unknown = [name for name in names if name not in found]
    if unknown:
        raise UsageError(f"unknown mutant {unknown[0]!r} of {subject}; known: {', '.join(found)}")
    return tuple(found[name] for name in names or found)
