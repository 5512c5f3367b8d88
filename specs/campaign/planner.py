"""Which unit comes next: from the seed, and from what came of the units that lie a window behind.

A unit is planned from the results of all units up to a fixed distance behind it, and of none after them. So it does
not matter in which order, by how many workers or where the units are done: a campaign of one seed and one window is
one sequence of units, also when it is killed and taken up again.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterator, Mapping, Sequence
from random import Random
from typing import Any

from attrs import define, field

from evictable.model import calls
from evictable.specs.campaign.features import Bits
from evictable.specs.campaign.findings import Findings, Key
from evictable.specs.campaign.places import CORPUS, POLICY, SHRINK, Place
from evictable.specs.campaign.units import Unit
from evictable.specs.search import EXHAUSTIVE, HYPOTHESIS, RANDOM, SCHEDULER, untouched

CALLS = {RANDOM: 12_000, CORPUS: 8000, SCHEDULER: 8000, HYPOTHESIS: 2500, EXHAUSTIVE: 60_000}
"""Of a unit: one or two seconds."""
CALLS_OF_POLICIES = {RANDOM: 4000, EXHAUSTIVE: 20_000}
WEIGHTS = {RANDOM: 4, CORPUS: 6, SCHEDULER: 3, HYPOTHESIS: 2, EXHAUSTIVE: 2}
TRIES = 2
"""How often a shape is shrunk from another run, however long that is; later ones only if they are shorter."""
SHORT = 4
"""Calls of a shrunk finding that is not worth another try."""
PARENTS = 8
FROM_ELSEWHERE = 16
"""Findings of other places that a unit tries at most, beside its parents: each is a few calls."""
EVEN = 0.5
"""The part of the units that goes to the place that has had fewest, and not to where much was new."""
MOST_OF_CORPUS = 512
"""Traces that are kept of a place: the oldest, which others began with, give way to newer ones."""
CAPACITIES = (1, 2, 3, 4, 6, 8, 16)
DROPPED = 0.2
"""The part of its vocabulary that a unit of a swarm leaves out."""
DROPPABLE = (
    calls.LOOKUP,
    calls.TOUCH,
    calls.PREPARE_LOAD,
    calls.ON_REQUEST_FINISHED,
    calls.TAKE_EVENTS,
    calls.RESET_CACHE,
    calls.GET_STATS,
    calls.DELAY_TIER,
    calls.PEER_LOOKUP,
)


@define
class Tally:
    """What the units of one place have come to."""

    units: int = 0
    calls: int = 0
    seconds: float = 0.0
    cut: int = 0
    """Units that the clock ended before their calls were made."""
    exercised: set[str] = field(factory=set)
    rows: set[str] = field(factory=set)
    struck: bool = False
    needed: set[str] | None = None
    """At policy level: what no unit has met."""
    worlds: dict[str, None] = field(factory=dict)
    problems: dict[str, int] = field(factory=dict)
    left_out: str | None = None
    """Why there is no such search."""
    features: Bits = field(factory=Bits)

    def take(self, result: Mapping[str, Any]) -> None:
        problem = result.get("problem")
        if problem is not None and problem["kind"] == "error":
            self.left_out = problem["message"]
            return
        if problem is not None and problem["kind"] != "unrepeatable":
            told = f"{problem['kind']}: {problem['message']}"
            self.problems[told] = self.problems.get(told, 0) + 1
        self.units += 1
        self.calls += result.get("calls", 0)
        self.seconds += result.get("seconds", 0.0)
        self.cut += bool(result.get("cut"))
        self.exercised.update(result.get("exercised", ()))
        self.rows.update(result.get("rows", ()))
        self.struck |= bool(result.get("struck"))
        self.worlds.update(dict.fromkeys(result.get("worlds", ())))
        if "untouched" in result:
            left = set(result["untouched"])
            self.needed = left if self.needed is None else self.needed & left

    def merge(self, features: str) -> None:
        self.features.merge(Bits.of(features))

    def untouched(self, place: Place) -> tuple[str, ...]:
        """What no unit has put to the test, though without it nothing was tried."""
        if place.level == POLICY:
            return ("anything",) if self.needed is None else tuple(sorted(self.needed))
        return untouched(place.tiers, place.discipline, self.exercised, self.rows, struck=self.struck)


@define
class _Site:
    """What is known of a place, as far as planning has heard."""

    place: Place
    features: Bits = field(factory=Bits)
    corpus: deque[tuple[str, ...]] = field(factory=lambda: deque(maxlen=MOST_OF_CORPUS))
    novelty: float = 0.0
    """Features that were new, of late."""
    turns: int = 0
    """Units that searched it."""
    next_scope: int = 0
    num_scopes: int | None = None
    open: bool = True

    def engines(self) -> list[str]:
        exhausted = self.num_scopes is not None and self.next_scope >= self.num_scopes
        return [
            engine
            for engine in self.place.engines
            if not (engine == EXHAUSTIVE and exhausted) and not (engine == CORPUS and not self.corpus)
        ]


@define
class Planner:
    """Plans units by number, from 0 on, and takes in results in that order."""

    places: Sequence[Place]
    seed: int
    window: int
    profile: str = "auto"
    memory: int = 0
    most_calls: int | None = None
    """Of a unit, if fewer than usual."""
    folded: int = 0
    """The results of so many units, from the first on, have been taken in."""
    results: dict[int, tuple[Mapping[str, Any], Mapping[str, Any]]] = field(factory=dict)
    """What has arrived and not been taken in: the entry of the unit, and its result."""
    findings: Findings = field(factory=Findings)
    to_shrink: deque[tuple[Key, list[str], str]] = field(factory=deque)
    _sites: dict[Place, _Site] = field(init=False)
    _first: list[tuple[Place, str]] = field(init=False)
    """What has not had its first turn."""
    _tries: Counter[Key] = field(factory=Counter)

    def __attrs_post_init__(self) -> None:
        self._sites = {place: _Site(place) for place in self.places}
        most = max((len(place.engines) for place in self.places), default=0)
        self._first = [
            (place, place.engines[turn]) for turn in range(most) for place in self.places if turn < len(place.engines)
        ]

    def may_plan(self, number: int) -> bool:
        """Whether enough is known: the results of all units a window behind."""
        behind = number - self.window
        return all(one < self.folded or one in self.results for one in range(self.folded, behind + 1))

    def plan(self, number: int) -> Unit | None:
        """The unit with that number; ``None`` if there is no place left to search."""
        self._fold(number - self.window)
        while number % 2 and self.to_shrink:
            if self._is_short(self.to_shrink[0][0]):  # shrunk meanwhile, by what was shrunk for another law
                self.to_shrink.popleft()
            else:
                return self._shrinking(number)
        return self._searching(number)

    def plan_shrinking(self, number: int) -> Unit | None:
        """At the end: a unit that shrinks what nobody has shrunk yet. Call `fold_all` before."""
        while self.to_shrink:
            key, _, _ = self.to_shrink[0]
            if not self.findings.found[key].shrunk and self._sites[key[0]].open:
                return self._shrinking(number)
            self.to_shrink.popleft()
        return None

    def note(self, entry: Mapping[str, Any]) -> None:
        """A unit that was planned in an earlier run, and is done: what planning it changed."""
        number, place = entry["unit"], self.places[entry["place"]]
        self._fold(number - self.window)
        if entry["engine"] == SHRINK:
            wanted = place, entry["shape"]
            while any(key == wanted for key, _, _ in self.to_shrink):
                if self.to_shrink.popleft()[0] == wanted:
                    break
        else:
            self._taken(place, entry["engine"])

    def take(self, entry: Mapping[str, Any], result: Mapping[str, Any]) -> None:
        """A result has arrived. It counts for planning when its turn comes."""
        if entry["unit"] >= self.folded:
            self.results[entry["unit"]] = (entry, result)

    def fold_all(self) -> None:
        """Take in what has arrived, as far as there is no gap."""
        self._fold(max(self.results, default=-1))

    def entry(self, unit: Unit) -> dict[str, Any]:
        """What the journal says of a unit."""
        return {
            "unit": unit.number,
            "place": list(self.places).index(unit.place),
            "engine": unit.engine,
            "seed": unit.seed,
            "shape": unit.shape,
        }

    # --- planning ---

    def _is_short(self, key: Key) -> bool:
        found = self.findings.found[key]
        return found.shrunk and found.calls <= SHORT

    def _searching(self, number: int) -> Unit | None:
        draw = Random(f"{self.seed} {number}")
        self._first = [one for one in self._first if self._sites[one[0]].open]
        ready = next((one for one in self._first if one[1] in self._sites[one[0]].engines()), None)
        if ready is not None:
            site, engine = self._sites[ready[0]], ready[1]
        else:
            sites = [site for site in self._sites.values() if site.open and site.engines()]
            if not sites:
                return None
            if draw.random() < EVEN:
                site = min(sites, key=lambda one: one.turns)
            else:
                (site,) = draw.choices(sites, [1 + min(one.novelty, 4 * len(sites)) for one in sites])
            engines = site.engines()
            (engine,) = draw.choices(engines, [WEIGHTS[engine] for engine in engines])
        scope = site.next_scope
        calls_of = CALLS_OF_POLICIES if site.place.level == POLICY else CALLS
        self._taken(site.place, engine)
        plain = ready is not None or engine == EXHAUSTIVE or site.place.level == POLICY
        best = self._best_of(site.place)
        return Unit(
            number,
            site.place,
            engine,
            draw.getrandbits(32),
            max_calls=min(calls_of[engine], self.most_calls or calls_of[engine]),
            profile=self.profile,
            capacity=None if plain or draw.random() < 0.6 else draw.choice(CAPACITIES),
            without=() if plain or draw.random() < 0.3 else _dropped(draw, engine),
            scope=scope if engine == EXHAUSTIVE else 0,
            parents=tuple(self._parents(draw, site)) if engine == CORPUS else (),
            known=site.features.text() if engine in (RANDOM, CORPUS, SCHEDULER, HYPOTHESIS) else None,
            settled=best,
            memory=self.memory,
        )

    def _taken(self, place: Place, engine: str) -> None:
        site = self._sites[place]
        if (place, engine) in self._first:
            self._first.remove((place, engine))
        site.turns += 1
        if engine == EXHAUSTIVE:
            site.next_scope += 1

    def _parents(self, draw: Random, site: _Site) -> Iterator[tuple[str, ...]]:
        """What was found elsewhere and not here, then traces of the place, now and then of another."""
        place = site.place
        others = [one for one in self._sites.values() if one.corpus and one.place.resembles(place)]
        found = [
            one
            for (elsewhere, _), one in self.findings.found.items()
            if elsewhere != place and place.resembles(elsewhere) and place.level != POLICY
        ]
        unknown = [one for one in found if place.can_break(one.fault) and (place, one.shape) not in self.findings.found]
        for one in draw.sample(unknown, min(FROM_ELSEWHERE, len(unknown))):
            yield tuple(one.trace)
        for _ in range(PARENTS):
            chance = draw.random()
            if chance < 0.15 and found:
                yield tuple(draw.choice(found).trace)
            elif chance < 0.3 and others:
                yield draw.choice(draw.choice(others).corpus)
            else:
                yield draw.choice(site.corpus)

    def _best_of(self, place: Place) -> dict[str, int]:
        """The shapes that have been shrunk often enough."""
        return {
            shape: found.calls
            for (of, shape), found in self.findings.found.items()
            if of == place and self._tries[of, shape] >= TRIES
        }

    def _shrinking(self, number: int) -> Unit:
        (place, shape), trace, law = self.to_shrink.popleft()
        return Unit(
            number,
            place,
            SHRINK,
            max_seconds=120.0,
            profile=self.profile,
            parents=(tuple(trace),),
            law=law,
            shape=shape,
            memory=self.memory,
        )

    # --- taking in ---

    def _fold(self, last: int) -> None:
        while self.folded <= last and self.folded in self.results:
            entry, result = self.results.pop(self.folded)
            self._fold_one(entry, result)
            self.folded += 1

    def _fold_one(self, entry: Mapping[str, Any], result: Mapping[str, Any]) -> None:
        place = self.places[entry["place"]]
        site = self._sites[place]
        problem = result.get("problem")
        if problem is not None and problem["kind"] == "error":
            site.open = False
            return
        new = 0
        if result.get("features"):
            new = site.features.merge(Bits.of(result["features"]))
        site.novelty = site.novelty / 2 + new / 16
        site.corpus.extend(map(tuple, result.get("corpus", ())))
        if result.get("scopes") is not None:
            site.num_scopes = result["scopes"]
        self.findings.take(place, entry, result)
        for one in result.get("findings", ()):
            key = place, one["shape"]
            shorter = len(one["trace"]) - 1 < self.findings.found[key].calls
            if not one["shrunk"] and (self._tries[key] < TRIES or shorter):
                self._tries[key] += 1
                self.to_shrink.append((key, one["trace"], one["law"]))


def _dropped(draw: Random, engine: str) -> tuple[str, ...]:
    """A scheduler goes by what lookups tell it: it cannot do without."""
    dropped = [name for name in DROPPABLE if draw.random() < DROPPED]
    return tuple(name for name in dropped if not (engine == SCHEDULER and name == calls.LOOKUP))
