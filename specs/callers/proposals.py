"""Sensible next calls: mostly what a scheduler would do, under `careless` now and then with one mistake in it.

What finds bugs fast is small: few slots, few keys, few requests, good calls with one bad key among them.
A source of choices is all that differs between callers that draw at random and callers that are driven.
"""

from __future__ import annotations

from collections.abc import Sequence
from random import Random

from attrs import define, evolve, field

from evictable.model import calls
from evictable.model.calls import Call, Key
from evictable.model.tiers import TieredManager
from evictable.specs.callers.disciplines import CARELESS, HOSTILE
from evictable.specs.session import Session

# What a caller does, and how often. A swarm leaves some of it out of an episode.
ACTIONS: dict[str, int] = {
    "offer": 8,
    "complete_store": 8,
    "load": 6,
    "complete_load": 6,
    "touch": 3,
    "lookup": 2,
    "drain": 2,
    "finish": 1,
    "stats": 1,
    "reset": 1,
}
TIER_ACTIONS: dict[str, int] = {
    "lookup": 4,
    "load hits": 4,
    "end step": 5,
    "finish job": 8,
    "fill": 1,
    "delay": 1,
    "peer": 1,
}
"""With tiers, besides; then lookups do more than answer."""
ESSENTIAL = frozenset({"offer", "complete_store"})
ESSENTIAL_WITH_TIERS = frozenset({"lookup", "end step", "finish job", "fill"})

MISTAKES: tuple[str, ...] = (
    "repeat a key",
    "name a stray key",
    "for another request",
    "once more",
    "unprepared",
    "after finish",
    "reset in flight",
    "report late",
    "drop a drain",
    "announce again",
)
ANOTHER_TICKET = "with another ticket"
"""Besides, where there are tickets."""
TIER_FAULT = "a tier raises"

_PREPARING = frozenset({calls.PREPARE_STORE, calls.PREPARE_LOAD})
_TELLING = frozenset({calls.PREPARE_STORE, calls.PREPARE_LOAD, calls.LOOKUP, calls.TOUCH})


@define
class Proposer:
    """Proposes calls for one session. Nothing it proposes breaks a promise of the session's discipline."""

    session: Session
    random: Random
    keys: Sequence[Key]
    actions: Sequence[str] = tuple(ACTIONS)
    mistakes: Sequence[str] = ()
    mistake_rate: float = 0.0
    ticketed: bool = False
    """Preparations are remembered by tickets, and completions carry them."""
    fault_rate: float = 0.0
    """The part of the calls in which what the manager calls raises."""
    batch: int = 3
    """Keys in a batch, at most; now and then there is none."""
    requests: int = 3
    """Requests that run at the same time."""
    placed: float = 0.0
    """The part of the keys whose token position a request tells."""
    whole: bool = False
    """A store is completed as it was prepared, in one call, as schedulers do."""
    _positions: dict[tuple[str | None, Key], int | None] = field(factory=dict)
    _planned: list[Call] = field(factory=list)
    _last: Call | None = None
    _num_requests: int = 0
    _num_peers: int = 0
    _prepared: list[Call] = field(factory=list)
    """Preparations with tickets, in the order of their numbers, which begin with 1."""
    _weighted: list[str] = field(init=False)

    def __attrs_post_init__(self) -> None:
        weights = dict(ACTIONS)
        if self.session.setup.tiers:
            for action, weight in TIER_ACTIONS.items():
                weights[action] = weights.get(action, 0) + weight
        self._weighted = [action for action in self.actions for _ in range(weights.get(action, 0))]
        self._planned = self._fill_at_the_start()

    def next_call(self) -> Call:
        """The next call. There always is one: a new request may be announced, a key looked up."""
        for _ in range(20):
            call = self._planned.pop() if self._planned else self._propose()
            if self.ticketed and call is not None and call.name in _PREPARING:
                call = evolve(call, ticket=len(self._prepared) + 1)
            if call is not None and self.session.allows(call):
                if self.placed and call.name in _TELLING:
                    call = self._place(call)
                if self.ticketed and call.name in _PREPARING:
                    self._prepared.append(call)
                if self.fault_rate and self.random.random() < self.fault_rate:
                    call = self._let_raise(call)
                self._last = call
                return call
        return self._announce()

    # --- one action each: a call, or None where the state offers none ---

    def _propose(self) -> Call | None:
        promises = self.session.promises
        if len(promises.live) < self.requests and (not promises.live or self.random.random() < 0.1):
            return self._announce()
        if self.mistakes and self.random.random() < self.mistake_rate:
            return self._mistake(self.random.choice(self.mistakes))
        return self._act(self.random.choice(self._weighted))

    def _act(self, action: str) -> Call | None:
        promises, draw = self.session.promises, self.random
        if action == "offer":
            return self._plan_offer()
        if action == "lookup":
            return Call(calls.LOOKUP, (draw.choice(self.keys),), self._live())
        if action == "touch":
            return Call(calls.TOUCH, self._some_keys(), self._live())
        if action == "load":
            return self._plan_load()
        if action == "complete_store" and self.whole:
            batches = self.session.stores_to_end()
            if not batches:
                return None
            owner, keys = draw.choice(batches)
            return promises.completion(calls.COMPLETE_STORE, owner, keys, success=draw.random() < 0.8)
        if action == "complete_store":
            return self._complete(calls.COMPLETE_STORE, list(promises.stores))
        if action == "complete_load":
            return self._complete(calls.COMPLETE_LOAD, list(promises.loads.elements()))
        if action == "drain":
            return Call(calls.TAKE_EVENTS)
        if action == "stats":
            return Call(calls.GET_STATS)
        if action in TIER_ACTIONS:  # a lookup is dealt with above
            return self._act_in_tiers(action)
        if action == "finish":
            return Call(calls.ON_REQUEST_FINISHED, request=self._live())
        if promises.stores or promises.loads:
            return None
        well = not self.session.setup.tiers or draw.random() < 0.7
        self._planned.append(Call(calls.RESET_CACHE, success=well))
        return Call(calls.TAKE_EVENTS)

    # --- with tiers ---

    def _fill_at_the_start(self) -> list[Call]:
        """Without content in the tiers, promotions are too rare to find anything."""
        draw = self.random
        return [
            Call(calls.FILL_TIER, tuple(draw.sample(self.keys, draw.randint(1, len(self.keys)))), tier=tier)
            for tier in range(self.session.setup.tiers)
            if draw.random() < 0.8
        ]

    def _act_in_tiers(self, action: str) -> Call | None:
        model, draw = self.session.judge.model, self.random
        if not isinstance(model, TieredManager):
            return None
        tier = draw.randrange(model.num_tiers)
        if action == "load hits":
            hits = sorted(self.session.promises.hits, key=str)
            return Call(calls.PREPARE_LOAD, tuple(self._sample(hits)), self._live()) if hits else None
        if action == "end step":
            return Call(calls.ON_SCHEDULE_END)
        if action == "finish job":
            running = [number for number in model.jobs if number not in model.results]
            if not running:
                return None
            number = draw.choice(running)
            return Call(calls.FINISH_JOB, self._part_of(model.jobs[number].keys), job=number)
        if action == "fill":
            return Call(calls.FILL_TIER, self._some_keys(), tier=tier)
        if action == "delay":
            return Call(calls.DELAY_TIER, self._some_keys(), tier=tier)
        self._num_peers += 1
        return Call(calls.PEER_LOOKUP, self._some_keys(), f"p{self._num_peers}", tier=tier)

    def _part_of(self, keys: tuple[Key, ...]) -> tuple[Key, ...]:
        """Mostly all of them, now and then none or some."""
        chance = self.random.random()
        if chance < 0.7 or not keys:
            return keys
        return () if chance < 0.85 else tuple(self.random.sample(keys, self.random.randint(0, len(keys))))

    def _plan_offer(self) -> Call:
        """Offer some keys; where keys must be asked for before they are stored, ask for them first."""
        request, keys = self._live(), self._some_keys()
        offer = Call(calls.PREPARE_STORE, keys, request)
        threshold = self.session.setup.store_threshold
        if threshold == 1 or self.random.random() < 0.4:
            return offer
        self._planned.append(offer)
        for _ in range(self.random.randint(1, threshold)):
            self._planned.extend(Call(calls.LOOKUP, (key,), request) for key in keys)
        return self._planned.pop()

    def _plan_load(self) -> Call | None:
        """Look up some ready keys, then load those that are there, as a scheduler step does."""
        ready = [key for key, ref_cnt in self.session.judge.model.ref_cnt.items() if ref_cnt >= 0]
        if not ready:
            return None
        request = self._live()
        chosen = tuple(self._sample(ready))
        if self.ticketed and self.session.promises.loads and self.random.random() < 0.3:  # only tickets tell them apart
            owner, key = self.random.choice(sorted(self.session.promises.loads, key=str))
            request, chosen = self.session.promises.tickets[owner][0], (key,)
        self._planned.append(Call(calls.PREPARE_LOAD, chosen, request))
        self._planned.extend(Call(calls.LOOKUP, (key,), request) for key in chosen)
        return self._planned.pop()

    def _complete(self, name: str, transfers: list[tuple[str | None, Key]]) -> Call | None:
        if not transfers:
            return None
        transfers.sort(key=str)
        owner = self.random.choice(transfers)[0]
        keys = [key for request, key in transfers if request == owner]
        if self.random.random() < 0.7:  # else all at once, a key that was pinned twice named twice
            keys = self._sample(keys)
        success = name != calls.COMPLETE_STORE or self.random.random() < 0.8
        return self.session.promises.completion(name, owner, keys, success=success)

    def _announce(self) -> Call:
        self._num_requests += 1
        return Call(calls.ON_NEW_REQUEST, request=f"r{self._num_requests}")

    # --- what a careless caller does ---

    def _mistake(self, mistake: str) -> Call | None:
        promises, draw = self.session.promises, self.random
        if mistake == TIER_FAULT:
            name = draw.choice((calls.COMPLETE_STORE, calls.COMPLETE_STORE, calls.PREPARE_STORE, calls.ON_SCHEDULE_END))
            call = self._good(name)
            if call is None or call.name not in (calls.COMPLETE_STORE, calls.PREPARE_STORE, calls.ON_SCHEDULE_END):
                return None
            method = "submit_load" if call.name == calls.ON_SCHEDULE_END else "submit_store"
            return evolve(call, raises_in=method, at=draw.choice((1, 1, 1, 2)))
        if mistake == "reset in flight":
            if self.ticketed:
                self._plan_late_report()
            return Call(calls.RESET_CACHE)
        if mistake == "report late":
            stores = draw.random() < 0.5
            late = list(promises.stale_stores if stores else promises.stale_loads)
            return self._complete(calls.COMPLETE_STORE if stores else calls.COMPLETE_LOAD, late)
        if mistake == "drop a drain":
            return Call(calls.TAKE_EVENTS, limit=draw.randint(1, 2))
        if mistake == "once more":
            return self._last
        if mistake == "announce again":
            return Call(calls.ON_NEW_REQUEST, request=self._any_request())
        if mistake == "after finish":
            if not promises.finished:
                return None
            name = draw.choice((calls.PREPARE_STORE, calls.LOOKUP, calls.TOUCH, calls.PREPARE_LOAD))
            keys = self._some_keys() if name != calls.LOOKUP else (draw.choice(self.keys),)
            return Call(name, keys, draw.choice(sorted(promises.finished, key=str)))
        if mistake == "unprepared":
            name = draw.choice((calls.PREPARE_LOAD, calls.COMPLETE_LOAD, calls.COMPLETE_STORE))
            success = draw.random() < 0.5
            return self._with_any_ticket(Call(name, self._some_keys(), self._any_request(), success=success))
        name = draw.choice(
            (calls.PREPARE_STORE, calls.PREPARE_LOAD, calls.COMPLETE_LOAD, calls.COMPLETE_STORE, calls.TOUCH)
        )
        call = self._good(name)
        if call is None or not call.keys:
            return None
        if mistake == "for another request":
            return evolve(call, request=self._any_request())
        if mistake == ANOTHER_TICKET:
            return self._with_any_ticket(call)
        if call.name == calls.LOOKUP:  # what an offer begins with where keys are counted; it takes one key
            return call
        extra = draw.choice(call.keys) if mistake == "repeat a key" else draw.choice(self.keys)
        place = draw.randint(0, len(call.keys))
        return evolve(call, keys=(*call.keys[:place], extra, *call.keys[place:]))

    def _plan_late_report(self) -> None:
        """After a reset: the same request begins the same store, or load, anew; then the old one is reported."""
        promises, draw = self.session.promises, self.random
        stores, loads = sorted(promises.stores, key=str), sorted(promises.loads, key=str)
        if not stores and not loads:
            return
        owner, key = draw.choice(stores + loads)
        name = calls.COMPLETE_STORE if (owner, key) in promises.stores else calls.COMPLETE_LOAD
        late = promises.completion(name, owner, (key,))
        anew = [Call(calls.PREPARE_STORE, (key,), late.request)]
        if name == calls.COMPLETE_LOAD:
            anew.append(Call(calls.COMPLETE_STORE, (key,), late.request, ticket=len(self._prepared) + 1))
            anew.append(Call(calls.PREPARE_LOAD, (key,), late.request))
        self._planned.extend((late, *reversed(anew)))

    def _with_any_ticket(self, call: Call) -> Call:
        """A completion with another ticket, if there is one of a preparation like its own, whosever it is."""
        if call.name not in calls.COMPLETIONS or not self._prepared:
            return call
        begun_by = calls.PREPARE_STORE if call.name == calls.COMPLETE_STORE else calls.PREPARE_LOAD
        alike = [one for one in self._prepared if one.name == begun_by and set(one.keys) & set(call.keys)]
        others = [one for one in alike if one.ticket != call.ticket]
        return evolve(call, ticket=self.random.choice(others or self._prepared).ticket)

    def _let_raise(self, call: Call) -> Call:
        """``call``, in which a fault waits: most places are used once a key."""
        places, draw = self.session.subject.faults.places, self.random
        if not places:
            return call
        reached = self.session.strikes.reached
        known = [place for name, place in reached if name == call.name]
        place = draw.choice(known if known and draw.random() < 0.8 else places)
        most = reached.get((call.name, place), 1)
        return evolve(call, raises_in=place, at=draw.choice((1, 2, draw.randint(1, max(most, len(call.keys))))))

    def _good(self, name: str) -> Call | None:
        if name == calls.PREPARE_LOAD:
            ready = [key for key, ref_cnt in self.session.judge.model.ref_cnt.items() if ref_cnt >= 0]
            return Call(name, tuple(self._sample(ready)), self._live()) if ready else None
        return self._act({calls.PREPARE_STORE: "offer", calls.ON_SCHEDULE_END: "end step"}.get(name, name))

    # --- choices ---

    def _place(self, call: Call) -> Call:
        """The same position for a key whenever a request names it; two keys of a request may share one."""
        positions = []
        for key in call.keys:
            of = (call.request, key)
            if of not in self._positions:
                told = self.random.random() < self.placed
                self._positions[of] = self.random.randint(1, 8) if told else None
            positions.append(self._positions[of])
        return evolve(call, positions=tuple(positions))

    def _live(self) -> str | None:
        return self.random.choice(sorted(self.session.promises.live, key=str))

    def _any_request(self) -> str | None:
        promises = self.session.promises
        return self.random.choice(sorted(promises.live | promises.finished, key=str))

    def _some_keys(self) -> tuple[Key, ...]:
        return tuple(self._sample(self.keys))

    def _sample(self, among: Sequence[Key]) -> list[Key]:
        size = self.random.randint(1, self.batch) if self.random.random() > 0.02 else 0
        return self.random.sample(among, min(len(among), size))


def mistakes_of(discipline: str, tiers: int = 0, *, ticketed: bool = False) -> tuple[str, ...]:
    """The mistakes that a discipline does not rule out."""
    if discipline == HOSTILE:
        return (TIER_FAULT,) if tiers else ()
    if discipline != CARELESS:
        return ()
    return (*MISTAKES, ANOTHER_TICKET) if ticketed else MISTAKES
