"""When two states are the same: equal in all that decides the future, up to the names of keys, requests and slots.

A state says of each key where it stands: its count, who stores and loads it, its place in every list. All of that
is about one key at a time, so two keys of which the same is said can be exchanged and nothing changes; sorted, what
is said of all of them names the state without naming a key. Slots have no names at all: nothing depends on a
slot's number. There are few requests, so every renaming of them is tried.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Hashable, Iterable, Sequence
from math import factorial, prod
from typing import Any

from attrs import define, frozen

from evictable.model.calls import Key
from evictable.model.manager import Manager
from evictable.model.orders.arc import ArcRequest
from evictable.model.orders.lru_ranked import LruRanked
from evictable.model.requests import Requests
from evictable.model.snapshot import Snapshot
from evictable.model.tiers import STAGED, TieredManager, job_name
from evictable.specs.callers.disciplines import CARELESS, Promises

Facts = tuple[Any, ...]
"""What is said of one key; compares with what is said of any other."""


@frozen
class Identity:
    """Names a state. Two states with the same name have the same future, up to renaming."""

    name: Hashable
    orbit: int
    """How many states there are that differ from it in the names of keys and requests only, itself included."""
    classes: tuple[int, ...]
    """For each key which class it belongs to: keys of a class can be exchanged. The same in all states of this name."""
    places: tuple[int, ...] = ()
    """For each request which place it takes: likewise the same."""


@define
class Identifier:
    """Identifies states of so many keys and requests."""

    keys: Sequence[Key]
    requests: Sequence[str]
    reduced: bool = True
    """Without it states that differ in names are different states."""

    def of(
        self, model: Manager, promises: Promises, discipline: str, seen: Snapshot | None, last: str | None
    ) -> Identity:
        """The identity of what model, caller and subject are in; ``last`` is what they remember of how they came."""
        places = range(len(self.requests))
        if not self.reduced or len(places) == 1:
            renamings: Iterable[tuple[int, ...]] = (tuple(places),)
        else:
            renamings = itertools.permutations(places)
        best: Hashable = None
        facts: list[Facts] = []
        places_taken: tuple[int, ...] = ()
        times = 0
        for renaming in renamings:
            said = _Said(model, promises, discipline, seen, dict(zip(self.requests, renaming, strict=True)))
            of_keys = [tuple(said.of_key.get(key, ())) for key in self.keys]
            name: Any = (tuple(sorted(of_keys) if self.reduced else of_keys), said.of_all, last)
            if best is None or name < best:
                best, facts, times, places_taken = name, of_keys, 1, renaming
            elif name == best:
                times += 1
        if not self.reduced:
            return Identity(best, 1, tuple(range(len(self.keys))), places_taken)
        same = Counter(facts)
        orbit = factorial(len(self.keys)) // prod(map(factorial, same.values()))
        classes = {said: number for number, said in enumerate(sorted(same))}
        every = orbit * factorial(len(places)) // times
        return Identity(best, every, tuple(classes[said] for said in facts), places_taken)


class _Said:
    """All that is said of a state: of each key, and of no key in particular."""

    def __init__(
        self, model: Manager, promises: Promises, discipline: str, seen: Snapshot | None, requests: dict[Any, int]
    ) -> None:
        self.of_key: dict[Key, list[Any]] = {}
        self.requests = requests
        self.jobs: dict[int, int] = {}
        tiers: tuple[Any, ...] = ()
        if isinstance(model, TieredManager):
            self.jobs = {number: rank for rank, number in enumerate(sorted(model.jobs))}
        self._of_blocks(model)
        of_order = self._of_order(model)
        self._of_tracker(4, model.admission.counts, model.admission.threshold)
        if model.with_events:
            self._of_events(model)
        told = self._of_promises(model, promises, discipline)
        shown = () if seen is None else self._of_subject(model, seen)
        if isinstance(model, TieredManager):
            tiers = self._of_tiers(model)
        ids = sorted(requests, key=requests.__getitem__)
        lives = tuple((one in model.live, one in model.finished) for one in ids)
        self.of_all = (lives, of_order, told, shown, tiers)

    def _say(self, key: Key, *fact: Any) -> None:
        self.of_key.setdefault(key, []).append(fact)

    def _owner(self, owner: str | None) -> int:
        known = self.requests.get(owner)
        if known is not None:
            return known
        if owner is None or owner == STAGED:
            return -1 if owner is None else -2
        return next(-10 - rank for number, rank in self.jobs.items() if job_name(number) == owner)

    def _of_blocks(self, model: Manager) -> None:
        for key, ref_cnt in model.ref_cnt.items():
            self._say(key, 0, ref_cnt)
        for key, owner in model.stores.items():
            self._say(key, 1, self._owner(owner))
        loads = [(self._owner(owner), key, count) for (owner, key), count in model.loads.items()]
        for owner_index, key, count in sorted(loads) if len(loads) > 1 else loads:
            self._say(key, 2, owner_index, count)

    def _of_order(self, model: Manager) -> tuple[Any, ...]:
        order = model.order
        if not order.exact:
            return ()  # whatever it would choose, any choice is followed
        rest = self._of_lists(3, order.state())
        if isinstance(order, (LruRanked, ArcRequest)):
            rest += self._of_records(order._requests)
        return rest

    def _of_lists(self, label: int, order: Any) -> tuple[Any, ...]:
        """Lists of keys, and numbers besides; or one list of keys."""
        if not isinstance(order, tuple):
            return (repr(order),)
        rest = []
        lists = [part for part in order if isinstance(part, tuple)]
        if lists:
            rest = [part for part in order if not isinstance(part, tuple)]
        for number, part in enumerate(lists or (order,)):
            for place, key in enumerate(part):
                self._say(key, label, number, place)
        return tuple(rest)

    def _of_records(self, requests: Requests) -> tuple[Any, ...]:
        finished = []
        for request, record in sorted(requests.records.items(), key=lambda item: self._owner(item[0])):
            index = self._owner(request)
            for group, keys in record.groups.items():
                for place, key in enumerate(keys):
                    self._say(key, 19, index, group, place)
            for number, part in enumerate((record.inserted, record.reused, record.missed)):
                for key in part:
                    self._say(key, 20, index, number)
            finished.append((index, record.finished))
        return tuple(finished)

    def _of_tracker(self, label: int, counts: Any, threshold: int) -> None:
        for place, (key, count) in enumerate(counts.items()):
            self._say(key, label, place, min(count, threshold))

    def _of_events(self, model: Manager) -> None:
        events = model.events
        for key, readings in events._waiting.items():
            self._say(key, 5, tuple(map(tuple, readings)))
        for key in events._consumer:
            self._say(key, 6)
        for key in events._ready:
            self._say(key, 7)

    def _of_promises(self, model: Manager, promises: Promises, discipline: str) -> tuple[Any, ...]:
        for request, key in promises.stores:
            if model.stores.get(key) != request:
                self._say(key, 8, self._owner(request))
        for (request, key), count in promises.loads.items():
            if model.loads.get((request, key)) != count:
                self._say(key, 9, self._owner(request), count)
        if promises.stale_stores or promises.stale_loads:
            for index, key in sorted((self._owner(request), key) for request, key in promises.stale_stores):
                self._say(key, 10, index)
            stale = [(self._owner(request), key, count) for (request, key), count in promises.stale_loads.items()]
            for index, key, count in sorted(stale):
                self._say(key, 11, index, count)
        if discipline == CARELESS:
            return ()
        for key in promises.hits:
            self._say(key, 12)
        return (promises.events and promises.undrained,)

    def _of_subject(self, model: Manager, seen: Snapshot) -> tuple[Any, ...]:
        """What the subject shows beyond what was compared: its order, its free slots, its queue of events."""
        rest: tuple[Any, ...] = (seen.handed_out or 0, seen.num_events or 0)
        if seen.order is not None and (not model.order.exact or seen.order != model.order.state()):
            rest += self._of_lists(13, seen.order)
        if seen.tracker is not None and list(seen.tracker.items()) != list(model.admission.counts.items()):
            self._of_tracker(14, seen.tracker, model.admission.threshold)
        return rest

    def _of_tiers(self, model: TieredManager) -> tuple[Any, ...]:
        for tier, contents in enumerate(model.contents):
            for key in contents:
                self._say(key, 21, tier)
        for tier, delayed in enumerate(model.delayed):
            for key in delayed:
                self._say(key, 22, tier)
        of_jobs = []
        for number, rank in self.jobs.items():
            job = model.jobs[number]
            for place, key in enumerate(job.keys):
                self._say(key, 23, rank, place, key in model.results.get(number, ()))
            ended = (number in model.results, number in model.unheard)
            of_jobs.append((job.tier, job.promotion, self._owner(job.request), *ended))
        for key, staged in model.staged.items():
            self._say(key, 24, staged.tier, self._owner(staged.request))
        for key in model.hits:
            self._say(key, 25)
        for key in model.held:
            self._say(key, 26)
        for key, slot in model.slots.items():
            content = model.slot_contents.contents.get(slot)
            self._say(key, 27, 0 if content is None else 1 if content == key else 2)
        elsewhere = []
        for slot, under_way in model.slot_contents.under_way.items():
            holder = model.holders.get(slot)
            for own, writes in sorted((one.key == holder, one.writes) for one in under_way):
                if holder is None:
                    elsewhere.append(writes)
                else:
                    self._say(holder, 28, own, writes)
        told = tuple(sorted((tier, self._owner(request)) for tier, request in model.told if request in self.requests))
        return (tuple(of_jobs), told, tuple(sorted(elsewhere)))
