"""Scheduler steps: the calls that a scheduler makes of requests, and nothing that it would not make.

A run is a plan: requests that arrive, wait, load, store and finish, and jobs that end in between. The plan is played
step by step as vLLM's engine does. First what has ended since the last step is reported; then the waiting requests
are looked up, each as a whole, and what was found is loaded; then running ones offer what they have computed; then
the manager hears which requests had finished before the step; then the step ends. A plan is shrunk as a plan, so
what is left of it is still what a scheduler does.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from random import Random

from attrs import define, evolve, field, frozen

from evictable.model import calls
from evictable.model.calls import Call, Key, Outcome, Raised, Stored, plain_key
from evictable.model.orders import ORDERS
from evictable.model.tiers import TieredManager
from evictable.specs.budget import Budget
from evictable.specs.callers.disciplines import CONTRACT
from evictable.specs.callers.walk import Begin
from evictable.specs.session import Session
from evictable.specs.subjects.base import Setup, SubjectKind
from evictable.specs.subjects.schedulers import Group

# In the order in which a step does them.
COMPLETE, JOB, FILL, PEER, FINISH, DRAIN, RESET = "complete", "job", "fill", "peer", "finish", "drain", "reset"
SCHEDULE = "schedule"
STORE = "store"
END = "end"
_PHASES = dict.fromkeys((COMPLETE, JOB, FILL, PEER, FINISH, DRAIN, RESET), 0) | {SCHEDULE: 1, STORE: 2, END: 3}


@frozen
class Deed:
    """One thing that happens. ``chunks`` are positions in no prompt in particular: names of content."""

    name: str
    request: str = ""
    chunks: tuple[int, ...] = ()
    """Of ``schedule`` and ``store``: the prompt, or its head. Of ``fill`` and ``peer``: what, in all groups."""
    number: int = 0
    """Of ``fill`` and ``peer``: the tier. Of ``job``: which of those that run, counted from the oldest."""
    group: int | None = None
    """Of ``store`` and ``fill``: of this group alone; ``None`` is all groups."""
    whole: bool = True
    """Of ``job`` and ``complete``: it went well."""


@frozen
class Plan:
    """What happens, to requests of a model with these KV-cache groups."""

    setup: Setup
    windows: tuple[int | None, ...]
    """The sliding window of each group, in chunks; ``None`` is full attention."""
    deeds: tuple[Deed, ...]

    def keys(self, chunks: Sequence[int], group: int) -> tuple[Key, ...]:
        """The keys of chunks in one group."""
        return tuple(chunk if group == 0 else plain_key(f"{chunk:016x}{group:08x}") for chunk in chunks)

    def all_keys(self, deed: Deed) -> tuple[Key, ...]:
        """The keys of its chunks in every group, or in its own."""
        groups = range(len(self.windows)) if deed.group is None else (min(deed.group, len(self.windows) - 1),)
        return tuple(key for group in groups for key in self.keys(deed.chunks, group))


_TELLING = frozenset({calls.LOOKUP, calls.PREPARE_STORE, calls.PREPARE_LOAD, calls.TOUCH})


class _Ended(Exception):
    """A law is broken: the scheduler's own code, which may be under way, is left."""


@define
class _Player:
    plan: Plan
    kind: SubjectKind
    session: Session
    phase: int = 0
    transfers: dict[str, list[Call]] = field(factory=dict)
    """Completions that each request still owes, oldest first."""
    running: set[str] = field(factory=set)
    """Requests that have been admitted: they are not looked up again."""
    over: set[str] = field(factory=set)
    """Requests that have finished, or do so in this step: it was known before the step began."""
    finishing: list[str] = field(factory=list)

    def step(self, call: Call) -> Outcome:
        if call.name in _TELLING and ORDERS[self.session.profile].by_request:
            call = evolve(call, positions=tuple(_position(key) for key in call.keys))
        if not self.session.allows(call):
            return Raised("not allowed")
        outcome = self.session.step(call)
        if self.session.broken:
            raise _Ended
        return outcome

    def play(self, deed: Deed) -> None:
        if _PHASES[deed.name] < self.phase:
            self.end(Deed(END))
        self.phase = _PHASES[deed.name]
        _DEEDS[deed.name](self, deed)

    def schedule(self, deed: Deed) -> None:
        request = deed.request
        if request in self.over or request in self.running or self.transfers.get(request):
            return
        if request not in self.session.promises.live:
            self.step(Call(calls.ON_NEW_REQUEST, request=request))
        windows = self.plan.windows
        groups = [Group(self.plan.keys(deed.chunks, number), window) for number, window in enumerate(windows)]
        load = self.kind.scheduling()(
            groups,
            lambda key: str(self.step(Call(calls.LOOKUP, (key,), request))),
            lambda keys: None if not keys else self._touch(keys, request),
        )
        if load is None:
            return
        self.running.add(request)
        if load and not isinstance(self.step(Call(calls.PREPARE_LOAD, load, request)), Raised):
            self.transfers.setdefault(request, []).append(Call(calls.COMPLETE_LOAD, load, request))

    def _touch(self, keys: tuple[Key, ...], request: str) -> None:
        self.step(Call(calls.TOUCH, keys, request))

    def store(self, deed: Deed) -> None:
        ended = deed.request in self.over and deed.request not in self.finishing
        if deed.request in self.running and not ended:
            outcome = self.step(Call(calls.PREPARE_STORE, self.plan.all_keys(deed), deed.request))
            if isinstance(outcome, Stored) and outcome.keys_to_store:
                done = Call(calls.COMPLETE_STORE, outcome.keys_to_store, deed.request)
                self.transfers.setdefault(deed.request, []).append(done)

    def complete(self, deed: Deed) -> None:
        owed = self.transfers.get(deed.request)
        if owed:
            self.step(owed.pop(0))

    def finish(self, deed: Deed) -> None:
        if deed.request in self.session.promises.live and deed.request not in self.over:
            self.over.add(deed.request)
            self.finishing.append(deed.request)

    def job(self, deed: Deed) -> None:
        model = self.session.judge.model
        assert isinstance(model, TieredManager)
        jobs = [number for number in model.jobs if number not in model.results]
        if deed.number < len(jobs):
            number = jobs[deed.number]
            keys = model.jobs[number].keys
            self.step(Call(calls.FINISH_JOB, keys if deed.whole else keys[: len(keys) // 2], job=number))

    def fill(self, deed: Deed) -> None:
        self.step(Call(calls.FILL_TIER, self.plan.all_keys(deed), tier=deed.number))

    def drain(self, deed: Deed) -> None:
        self.step(Call(calls.TAKE_EVENTS))

    def reset(self, deed: Deed) -> None:
        if not any(self.transfers.values()):
            self.step(Call(calls.TAKE_EVENTS))
            self.step(Call(calls.RESET_CACHE))

    def peer(self, deed: Deed) -> None:
        self.step(Call(calls.PEER_LOOKUP, self.plan.all_keys(deed), deed.request, tier=deed.number))

    def end(self, deed: Deed) -> None:
        while self.finishing:
            self.step(Call(calls.ON_REQUEST_FINISHED, request=self.finishing.pop(0)))
        self.step(Call(calls.ON_SCHEDULE_END))
        self.phase = 0


_DEEDS: dict[str, Callable[[_Player, Deed], None]] = {
    COMPLETE: _Player.complete,
    JOB: _Player.job,
    FILL: _Player.fill,
    PEER: _Player.peer,
    SCHEDULE: _Player.schedule,
    STORE: _Player.store,
    FINISH: _Player.finish,
    DRAIN: _Player.drain,
    RESET: _Player.reset,
    END: _Player.end,
}


def play(
    kind: SubjectKind, profile: str, plan: Plan, *, to_rest: bool = False, begin: Begin = Session.begin
) -> Session:
    """A session in which the plan is played up to its first broken law, and then, on request, brought to rest."""
    session = begin(kind, plan.setup, profile, CONTRACT)
    player = _Player(plan, kind, session)
    try:
        for deed in plan.deeds:
            player.play(deed)
    except _Ended:
        return session
    if to_rest:
        session.finish()
    return session


REQUESTS = 4
PROMPTS = 2
CHUNKS = 4
FAR = 8
"""Chunks of different prompts are so far apart: what is in a chunk says where it is, as hashes do in a server."""


def _position(key: Key) -> int:
    """The token position that the scheduler gives to a key, at one token a chunk."""
    number = key if isinstance(key, int) else int(key[:16], 16)
    return number % FAR + 1


WINDOWS: tuple[tuple[int | None, ...], ...] = ((None,), (None,), (None, 1), (None, 1), (None, 2), (1,), (None, 1, 2))


def plans(setup: Setup, seed: int, budget: Budget, *, vary_capacity: bool, request_level: bool) -> Iterator[Plan]:
    """Plans at random, as long as the budget lasts; one seed and a budget of calls make one run."""
    draw = Random(seed)
    while not budget.spent:
        one = Random(draw.getrandbits(64))
        varied = evolve(setup, capacity=one.choice((1, 2, 3, 3, 4, 6))) if vary_capacity else setup
        if request_level and one.random() < 0.3:
            varied = evolve(varied, request_level=tuple(range(setup.tiers)))
        if vary_capacity and one.random() < 0.3:
            yield _with_a_gap(one, varied)
        else:
            plan = Plan(varied, one.choice(WINDOWS), tuple(_deeds(one, setup.tiers)))
            yield _and_then_alone(one, plan) if vary_capacity and one.random() < 0.3 else plan


STEPS_ALONE = 10


def _and_then_alone(draw: Random, plan: Plan) -> Plan:
    """Everything has come to its end, all chunks of a prompt are in a tier, and its request alone asks for them."""
    prompt = tuple(range(draw.randint(2, CHUNKS)))
    names = sorted({deed.request for deed in plan.deeds if deed.name == SCHEDULE})
    jobs = (Deed(JOB),) * 8
    deeds = [
        *plan.deeds,
        *(Deed(COMPLETE, name) for name in names for _ in range(3)),
        *(Deed(FINISH, name) for name in names),
        Deed(FILL, chunks=prompt),
        Deed(END),
        *jobs,
        Deed(END),
        Deed(END),
    ]
    for _ in range(STEPS_ALONE):
        deeds += [Deed(SCHEDULE, "alone", prompt), Deed(END), *jobs]
    capacity = max(plan.setup.capacity, len(prompt) * len(plan.windows))
    return Plan(evolve(plan.setup, capacity=capacity), plan.windows, tuple(deeds))


def _with_a_gap(draw: Random, setup: Setup) -> Plan:
    """A full primary, a prompt that is there in one group and with gaps in another, and the rest in the tiers.

    Drawn without a bias this is too rare to be met; in a server it is the normal state of a sliding window's keys.
    """
    length = draw.randint(2, 4)
    windows = (None, draw.randint(1, 3))
    chunks = tuple(range(length))
    cut = draw.randint(0, length - 1)
    places = [draw.choice(("primary", "tier", "nowhere")) for _ in chunks]
    stored = tuple(chunk for chunk in chunks if places[chunk] == "primary")
    filled = tuple(chunk for chunk in chunks if places[chunk] == "tier")
    deeds = [
        Deed(SCHEDULE, "r1", chunks),
        *(Deed(STORE, "r1", part, group=0) for part in (chunks[:cut], chunks[cut:]) if part),
        *((Deed(STORE, "r1", stored, group=1),) if stored else ()),
        Deed(END),
        *(Deed(COMPLETE, "r1") for _ in range(3)),
        Deed(END),
        *(Deed(JOB, number=draw.randint(0, 1)) for _ in range(draw.randint(1, 3 * setup.tiers))),
        Deed(END),
        *((Deed(FILL, chunks=filled, number=draw.randrange(setup.tiers), group=1),) if filled else ()),
        Deed(SCHEDULE, "r2", chunks),
    ]
    rest = tuple(_deeds(draw, setup.tiers, born=2))
    return Plan(evolve(setup, capacity=length + len(stored)), windows, (*deeds, *rest))


def _deeds(draw: Random, tiers: int, born: int = 0) -> Iterator[Deed]:
    """``born`` requests have been named."""
    everything = [prompt * FAR + place for prompt in range(PROMPTS) for place in range(CHUNKS)]
    for tier in range(tiers):
        if draw.random() < 0.8:
            yield Deed(FILL, chunks=tuple(draw.sample(everything, draw.randint(1, len(everything)))), number=tier)
    prompts: dict[str, tuple[int, ...]] = {}
    # A swarm: what goes wrong with the one would hide what goes wrong with the other.
    finishing, peers, resets = draw.random() < 0.5, draw.random() < 0.4, draw.random() < 0.2
    for _ in range(draw.choice((3, 6, 12, 24))):
        for _ in range(draw.randint(0, 3)):
            yield Deed(JOB, number=draw.choice((0, 0, 0, 1)), whole=draw.random() < 0.85)
        for request in prompts:
            if draw.random() < 0.5:
                yield Deed(COMPLETE, request)
        for request in list(prompts):
            if finishing and draw.random() < 0.15:
                yield Deed(FINISH, request)
                if draw.random() < 0.5:
                    del prompts[request]
        if draw.random() < 0.1:
            yield Deed(FILL, chunks=(draw.choice(everything),), number=draw.randrange(tiers))
        if peers and draw.random() < 0.2:
            born += 1
            asked = tuple(draw.sample(everything, draw.randint(1, 3)))
            yield Deed(PEER, f"p{born}", asked, draw.randrange(tiers))
        if draw.random() < 0.1:
            yield Deed(DRAIN)
        if resets and draw.random() < 0.15:
            yield Deed(RESET)
        if len(prompts) < REQUESTS and draw.random() < 0.6:
            born += 1
            first = draw.randrange(PROMPTS) * FAR
            prompts[f"r{born}"] = tuple(range(first, first + draw.randint(1, CHUNKS)))
        for request, prompt in prompts.items():
            if draw.random() < 0.8:
                yield Deed(SCHEDULE, request, prompt)
        for request, prompt in prompts.items():
            if draw.random() < 0.4:
                yield Deed(STORE, request, prompt[: draw.randint(1, len(prompt))])
        yield Deed(END)


MOST_PLAYED = 3000
"""Plans that are played to shrink one."""


def shrink(kind: SubjectKind, profile: str, plan: Plan, law: str) -> Session | None:
    """The session of the smallest plan found that still breaks ``law``; ``None`` if ``plan`` itself does not."""
    tries = 0
    best: tuple[Plan, Session] | None = None

    def attempt(candidate: Plan) -> bool:
        nonlocal tries, best
        if not _is_in_order(candidate):
            return False
        tries += 1
        if tries > MOST_PLAYED:
            return False
        session = play(kind, profile, candidate)
        if not any(broken.law.id == law for broken in session.broken):
            return False
        if best is not None and _size(candidate, session) >= _size(*best):
            return False
        best = (candidate, session)
        return True

    if not attempt(plan):
        return None
    before = None
    while best is not None and best is not before:
        before = best
        for smaller in _passes(lambda: best[0] if best is not None else plan):
            attempt(smaller)
    return None if best is None else best[1]


def _size(plan: Plan, session: Session) -> tuple[int, ...]:
    keys = sum(len(record.call.keys) for record in session.records)
    setup = plan.setup
    names = sum(_names(plan))
    return (
        len(session.records),
        keys,
        len(plan.deeds),
        len(plan.windows),
        setup.capacity,
        len(setup.request_level),
        names,
    )


def _names(plan: Plan) -> Iterator[int]:
    return (chunk for deed in plan.deeds for chunk in deed.chunks)


def _is_in_order(plan: Plan) -> bool:
    """Whether a request has one prompt, and a chunk comes after the same ones in every prompt, as hashes have it."""
    prompts: dict[str, tuple[int, ...]] = {}
    heads: dict[int, tuple[int, ...]] = {}
    for deed in plan.deeds:
        if deed.name == SCHEDULE:
            if prompts.setdefault(deed.request, deed.chunks) != deed.chunks:
                return False
            for place, chunk in enumerate(deed.chunks):
                if heads.setdefault(chunk, deed.chunks[:place]) != deed.chunks[:place]:
                    return False
    return True


def _passes(best: Callable[[], Plan]) -> Iterator[Plan]:
    """Neighbours of the best plan so far, which changes while they are tried."""
    size = max(1, len(best().deeds) // 2)
    while size >= 1:
        start = 0
        while start < len(best().deeds):
            plan = best()
            yield evolve(plan, deeds=plan.deeds[:start] + plan.deeds[start + size :])
            if best() is plan:
                start += size
        size //= 2
    for capacity in range(1, best().setup.capacity):
        yield evolve(best(), setup=evolve(best().setup, capacity=capacity))
    if best().setup.request_level:
        yield evolve(best(), setup=evolve(best().setup, request_level=()))
    for group in range(len(best().windows) - 1, 0, -1):
        if group < len(best().windows):
            yield evolve(best(), windows=best().windows[:group] + best().windows[group + 1 :])
    for place in range(len(best().deeds)):
        for out in range(len(best().deeds[place].chunks) - 1, -1, -1) if place < len(best().deeds) else ():
            plan = best()
            if place < len(plan.deeds) and 1 < len(plan.deeds[place].chunks) > out:
                chunks = plan.deeds[place].chunks
                fewer = evolve(plan.deeds[place], chunks=chunks[:out] + chunks[out + 1 :])
                yield evolve(plan, deeds=(*plan.deeds[:place], fewer, *plan.deeds[place + 1 :]))
    for request in sorted({deed.request for deed in best().deeds if deed.name == SCHEDULE}):
        plan = best()
        shorter = tuple(
            evolve(deed, chunks=deed.chunks[:-1]) if deed.request == request else deed for deed in plan.deeds
        )
        yield evolve(plan, deeds=shorter)
    for chunk in sorted(set(_names(best())), reverse=True):
        yield _rename(best(), lambda name, gone=chunk: None if name == gone else name)  # type: ignore[misc]
        for other in range(chunk):
            yield _rename(best(), lambda name, one=chunk, new=other: new if name == one else name)  # type: ignore[misc]


def _rename(plan: Plan, name: Callable[[int], int | None]) -> Plan:
    deeds = []
    for deed in plan.deeds:
        chunks = tuple(dict.fromkeys(new for chunk in deed.chunks if (new := name(chunk)) is not None))
        if chunks or not deed.chunks:
            deeds.append(evolve(deed, chunks=chunks))
    return evolve(plan, deeds=tuple(deeds))
