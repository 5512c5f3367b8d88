"""The reference manager over secondary tiers.

The primary tier is a `Manager`; below it are tiers that read its slots (the cascade, after a store) and write them
(promotions, after a lookup found a key in a tier). When a tier is asked for results, how promotions are gathered
into jobs and which of several fitting victims makes room is free: the model follows what manager and tiers said to
each other (`evictable.model.exchanges`), step by step, and notes every breach on the way.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from attrs import define, field, frozen

from evictable.model import calls
from evictable.model.breach import Breach
from evictable.model.calls import Answer, Call, Key, Outcome, Stored
from evictable.model.exchanges import (
    Exchange,
    PeerAsked,
    PeerClaims,
    PeerFinished,
    Reported,
    Reserved,
    Submitted,
    ToldFinished,
    Waited,
)
from evictable.model.lifecycle import is_evictable, is_ready, pin
from evictable.model.manager import Manager, StorePlan
from evictable.model.patience import Patience
from evictable.model.transfers import Slots

STAGED = "a promotion"
"""Who stores a key for which room was made, until a job loads it. No request has that id."""


def job_name(job: int) -> str:
    """Who holds what job number ``job`` pins or writes."""
    return f"job {job}"


@frozen
class Job:
    """A transfer that a tier was given and whose result was not taken yet."""

    tier: int
    promotion: bool
    keys: tuple[Key, ...]
    block_ids: tuple[int, ...]
    request: str


@frozen
class Staged:
    """A key for which room was made, and which no job loads yet."""

    tier: int
    request: str | None


@define
class TieredManager(Manager):
    """A `Manager` with ``contents`` of tiers below it, nearest first.

    `begin` must be told of the exchanges of a call before it is performed. ``breaches`` is what was wrong with the
    call, beyond its answer and its effect on the primary tier.
    """

    contents: list[set[Key]] = field(factory=list)
    request_level: frozenset[int] = frozenset()
    delayed: list[set[Key]] = field(factory=list)
    """What each tier answers RETRY for until the step ends."""
    jobs: dict[int, Job] = field(factory=dict)
    results: dict[int, tuple[Key, ...]] = field(factory=dict)
    """Of jobs that have ended and whose result the manager has not taken: the keys that were transferred."""
    unheard: set[int] = field(factory=set)
    """Those that were waiting when the step before ended."""
    staged: dict[Key, Staged] = field(factory=dict)
    hits: set[Key] = field(factory=set)
    """What lookups of this step called HIT, with nothing since that may take it away."""
    held: set[Key] = field(factory=set)
    """All that lookups of this step called HIT: what a manager may spare when it makes room for a promotion."""
    told: set[tuple[int, str]] = field(factory=set)
    """Tiers that were told of a request's end."""
    peers: set[str] = field(factory=set)
    """Requests of peers that have begun to ask."""
    slot_contents: Slots = field(factory=Slots)
    patience: Patience = field(factory=Patience)
    breaches: list[Breach] = field(factory=list)
    concerned: set[Key] = field(factory=set)
    """Keys that tiers were busy with during the call."""
    exercised: set[str] = field(factory=set)
    """Tier laws that the call has put to the test."""
    _exchanges: list[Exchange] = field(factory=list)

    @property
    def num_tiers(self) -> int:
        return len(self.contents)

    # --- following a call ---

    def begin(self, exchanges: Sequence[Exchange]) -> bool:
        """Take in what was said during a call; whether results were taken before anything else was done.

        Those are settled here, so that what the call itself does is measured from there.
        """
        self.breaches, self.concerned, self.exercised = [], set(), set()
        settled = 0
        for exchange in exchanges:
            if not isinstance(exchange, (Reported, Waited)):
                break
            self._settle(exchange)
            settled += 1
        self._exchanges = list(exchanges[settled:])
        return settled > 0

    def end(self) -> None:
        """What is said without belonging to any part of the call."""
        for exchange in self._exchanges:
            if isinstance(exchange, Submitted):
                self._take_job(exchange)
            elif isinstance(exchange, ToldFinished):
                self.told.add((exchange.tier, exchange.request))
            elif isinstance(exchange, (Reported, Waited)):
                self._settle(exchange)
        self._exchanges = []

    def touched(self, exchanges: Iterable[Exchange]) -> set[Key]:
        """The keys of the primary tier that the exchanges of a call are about."""
        keys: set[Key] = set()
        for exchange in exchanges:
            if isinstance(exchange, Reserved):
                keys.update(exchange.keys, exchange.evicted)
            elif isinstance(exchange, Submitted):
                keys.update(exchange.keys)
            elif isinstance(exchange, Reported) and exchange.job in self.jobs:
                keys.update(self.jobs[exchange.job].keys)
        return keys

    # --- operations ---

    def perform(self, call: Call, hint: Outcome = None) -> Answer:
        if call.positions is not None:
            self.order.placed(call.request, call.keys, call.positions)
        answer = self._operate(call, hint)
        self.end()
        return answer

    def _operate(self, call: Call, hint: Outcome) -> Answer:
        name, keys, request = call.name, call.keys, call.request
        if name == calls.LOOKUP:
            reserved = next((one for one in self._exchanges if isinstance(one, Reserved)), None)
            answer = self._look_up(keys[0], request, None, str(hint), reserved)
            self.patience.looked_up(request, keys[0], answer)
            if request not in self.live:
                self.patience.disturbed()  # it is owed no service
            return answer
        if name == calls.PREPARE_STORE:
            return self._prepare_store(keys, request, hint if isinstance(hint, Stored) else None)
        if name == calls.COMPLETE_STORE:
            self._complete_store(keys, request, call.success)
            return None
        if name == calls.PREPARE_LOAD:
            loaded = self.prepare_load(keys, request)
            self._begin_read(f"a load of {request}", keys, loaded.block_ids)
            if self.patience.served(request):
                self.exercised.add("tier-progress")
            return loaded
        if name == calls.COMPLETE_LOAD:
            self.slot_contents.end(f"a load of {request}", keys, [self.slots[key] for key in keys], ())
            self.complete_load(keys, request)
            return None
        if name == calls.ON_SCHEDULE_END:
            self._end_step()
            return None
        if name == calls.RESET_CACHE:
            self.reset_cache()
            return None
        if name in calls.IN_TIERS:
            self._happen(call)
            return None
        if name == calls.ON_NEW_REQUEST:  # it may submit again
            self.told.difference_update((tier, request) for tier in range(self.num_tiers))
        self.patience.disturbed_by(call)
        return Manager.perform(self, call, hint)

    def _look_up(
        self, key: Key, request: str | None, peer_of: int | None, answer: str, reserved: Reserved | None
    ) -> str:
        """What a lookup answers; of two right answers the one that was given."""
        presence = self.presence(key)
        if presence != calls.MISS:
            if presence == calls.HIT:
                self.hits.add(key)
                self.held.add(key)
            return presence
        tier = self._tier_with(key, peer_of)
        if answer == calls.MISS and any(of == request for _, of in self.told):
            return answer  # tiers that were told of the request's end need not be asked for it
        if tier is None:
            others = (tier for tier in range(self.num_tiers) if tier != peer_of)
            return calls.RETRY if any(key in self.delayed[tier] for tier in others) else calls.MISS
        refused = reserved is not None and reserved.block_ids is None
        if refused and not self.plan_store((key,)).has_room:
            self.prepare_store((key,), request)  # an offer like any other, and it is refused
        if answer not in (calls.RETRY, calls.HIT_PENDING):
            return calls.HIT_PENDING if self._has_room(key) else calls.MISS
        if refused:
            return calls.MISS
        return answer if self._promote(key, request, tier, reserved) else calls.MISS

    def _tier_with(self, key: Key, peer_of: int | None) -> int | None:
        return next(
            (
                tier
                for tier in range(self.num_tiers)
                if tier != peer_of and key in self.contents[tier] and key not in self.delayed[tier]
            ),
            None,
        )

    def _has_room(self, key: Key) -> bool:
        """Whether a promotion must find room: without taking what this step has called HIT."""
        plan = self.plan_store((key,))
        return plan.need <= plan.available - sum(1 for held in self.held if self.order.is_idle(held))

    def _promote(self, key: Key, request: str | None, tier: int, reserved: Reserved | None) -> bool:
        """Make room for a key that ``tier`` has; whether there is any."""
        if not self.plan_store((key,)).has_room:
            return False
        hint = None
        if reserved is not None and reserved.block_ids is not None:
            hint = Stored(reserved.keys, reserved.block_ids, reserved.evicted)
        stored = self.prepare_store((key,), request, hint, choose=lambda plan: self._victims(plan, key, hint))
        if stored is None:
            return False
        self.stores[key] = STAGED
        self.staged[key] = Staged(tier, request)
        self.concerned.add(key)
        self.exercised.add("pin-has-job")
        if hint is not None and stored.evicted_keys == hint.evicted_keys and stored.block_ids != hint.block_ids:
            self._wrong("answer", f"{key} in a free slot", f"slots {list(hint.block_ids)}", (key,))
        return True

    def _victims(self, plan: StorePlan, key: Key, hint: Stored | None) -> tuple[Key, ...] | None:
        """The first in the order; keys that this step has called HIT may be passed over."""
        need = plan.need
        if hint is None or not self.order.exact or plan.victims is None:
            return plan.victims
        evicted = hint.evicted_keys
        if need <= 0:
            if evicted:
                observed = f"evicts {list(evicted)} for the promotion of {key}"
                self._wrong("evict-order", "evicts none: there is a free slot", observed, evicted)
            return ()
        spared = {key}
        fitting = []
        while (victims := self.order.victims(need, spared)) is not None:
            if tuple(victims) == evicted:
                return evicted
            fitting.append(victims)
            if not self.held.issuperset(victims):
                break
            spared.update(victims)
        expected = " or ".join(f"evicts {victims}" for victims in fitting)
        self._wrong("evict-order", expected, f"evicts {list(evicted)} for the promotion of {key}", evicted)
        return tuple(fitting[0])

    def _prepare_store(self, keys: Sequence[Key], request: str | None, hint: Stored | None) -> Stored | None:
        ready = tuple(key for key in dict.fromkeys(keys) if is_ready(self.ref_cnt.get(key)))
        stored = self.prepare_store(keys, request, hint)
        self.patience.disturbed()
        self.hits.clear()
        if stored is None:
            return None
        self.breaches += self.slot_contents.begin_write(f"a store of {request}", stored.keys_to_store, stored.block_ids)
        if ready and request in self.live:
            for tier in self.request_level:
                self._expect_store(tier, ready, request)
        return stored

    def _complete_store(self, keys: Sequence[Key], request: str | None, success: bool) -> None:
        slots = [self.slots[key] for key in keys]
        self.patience.disturbed()
        self.slot_contents.end(f"a store of {request}", keys, slots, keys if success else ())
        self.complete_store(keys, success)
        if not success:
            self.hits.clear()
        elif keys:
            for tier in range(self.num_tiers):
                self._expect_store(tier, keys, request)

    def _expect_store(self, tier: int, keys: Sequence[Key], request: str | None) -> None:
        """Now ``tier`` is given a job to store these keys, unless it was told that the request has finished."""
        if request is None or (tier, request) in self.told:
            return
        for exchange in self._exchanges:
            if isinstance(exchange, Submitted) and exchange.tier == tier and not exchange.promotion:
                if set(exchange.keys) != set(keys):
                    self._wrong("answer", f"tier {tier} gets a job to store {list(keys)}", str(exchange), keys)
                return
        self._wrong("answer", f"tier {tier} gets a job to store {list(keys)}", "it gets none", keys)

    def _end_step(self) -> None:
        waiting = bool(self.jobs)
        self._hear_peers()
        self.end()
        for key, staged in self.staged.items():
            expected = f"a job of tier {staged.tier} loads {key} by the end of the step"
            self._wrong("pin-has-job", expected, "its slot is reserved and no job loads it", (key,))
        self._judge_results()
        self.hits.clear()
        self.held.clear()
        for delayed in self.delayed:
            if delayed:
                self.patience.disturbed()
            delayed.clear()
        self._judge_patience(waiting=waiting)

    def _judge_results(self) -> None:
        """A manager that has polled early in a step hears in the next one of what ended meanwhile, not later."""
        for number in sorted(self.unheard & self.results.keys()):
            keys = self.jobs[number].keys
            expected = f"{job_name(number)}, which has ended, gives back {list(keys)}"
            self._wrong("tier-drains", expected, "its result is not taken for 2 steps", keys)
        self.unheard = set(self.results)

    def _hear_peers(self) -> None:
        """What peers asked for, one after the other, and what they were given."""
        reserved: Reserved | None = None
        asking: str | None = None
        for exchange in list(self._exchanges):
            if isinstance(exchange, Reserved):
                reserved = exchange
            elif isinstance(exchange, PeerAsked):
                asking = exchange.request
                self._hear_question(exchange, reserved)
                reserved = None
            elif isinstance(exchange, PeerClaims):
                self.exercised.add("hit-loads")
                self._judge_hits(exchange.keys, f"a peer behind tier {exchange.tier} can have them")
            elif isinstance(exchange, Submitted) and not exchange.promotion and exchange.request == asking:
                self._exchanges.remove(exchange)
                self._take_job(exchange)
            elif isinstance(exchange, PeerFinished):
                self.order.finished(exchange.request)

    def _hear_question(self, asked: PeerAsked, reserved: Reserved | None) -> None:
        self.patience.disturbed()
        if asked.request not in self.peers:
            self.peers.add(asked.request)
            self.order.announced(asked.request)
        right = self._look_up(asked.key, asked.request, asked.tier, asked.answer, reserved)
        if right != asked.answer:
            self._wrong("answer", f"a peer is told {right}", str(asked), (asked.key,))

    def claims(self) -> None:
        """The call was cut short by an error: judge what peers had been promised up to there."""
        self._hear_peers()

    def _judge_hits(self, keys: Sequence[Key], purpose: str) -> None:
        gone = tuple(key for key in keys if not is_ready(self.ref_cnt.get(key)))
        if gone:
            self._wrong(
                "hit-loads", f"{list(keys)} stay, HIT in this step, until {purpose}", f"{list(gone)} are gone", gone
            )

    def loads_hits(self, call: Call) -> None:
        """Before a load: the keys that lookups of this step called HIT must be there."""
        named = [key for key in call.keys if key in self.hits]
        if named:
            self.exercised.add("hit-loads")
            self._judge_hits(named, f"{call.request} has loaded them")

    def reset_cache(self) -> None:
        Manager.reset_cache(self)
        self.staged.clear()
        self.hits.clear()
        self.held.clear()
        self.patience.disturbed()
        going_on = [job for job in self.jobs if job not in self.results]
        self.breaches += self.slot_contents.flushed(map(job_name, going_on))
        self.jobs = {job: self.jobs[job] for job in going_on}
        self.results.clear()

    # --- jobs ---

    def _take_job(self, submitted: Submitted) -> None:
        """A tier was given a job: it pins what it reads; what it writes was reserved for it."""
        tier, keys = submitted.tier, submitted.keys
        job = Job(tier, submitted.promotion, keys, submitted.block_ids, submitted.request)
        self.concerned.update(keys)
        self.exercised.update(("pin-has-job", "slot-contents"))
        if (tier, submitted.request) in self.told:
            expected = f"no further job of {submitted.request}, of whose end tier {tier} was told"
            self._wrong("tier-drains", expected, str(submitted), keys)
        if len(keys) != len(submitted.block_ids):
            self._wrong("answer", f"a slot for each of {list(keys)}", str(submitted), keys)
        if submitted.promotion:
            self._begin_promotion(submitted, job)
        else:
            self._begin_cascade(submitted, job)

    def _begin_promotion(self, submitted: Submitted, job: Job) -> None:
        for key, slot in zip(job.keys, job.block_ids, strict=False):
            staged = self.staged.pop(key, None)
            if staged is None or staged.tier != job.tier or self.slots.get(key) != slot:
                expected = f"a job writes only slots that were reserved for its keys in tier {job.tier}"
                self._wrong("pin-has-job", expected, f"{key} into slot {slot}", (key,))
                return
        if submitted.raised:
            self.patience.disturbed()
            self._undo(job.keys)
            return
        for key in job.keys:
            self.stores[key] = job_name(submitted.job)
        self.jobs[submitted.job] = job
        self.breaches += self.slot_contents.begin_write(job_name(submitted.job), job.keys, job.block_ids)

    def _begin_cascade(self, submitted: Submitted, job: Job) -> None:
        for key, slot in zip(job.keys, job.block_ids, strict=False):
            if not is_ready(self.ref_cnt.get(key)) or self.slots[key] != slot:
                self._wrong("pin-has-job", "a job reads ready blocks in their slots", f"{key} from slot {slot}", (key,))
                return
        self._begin_read(job_name(submitted.job), job.keys, job.block_ids)
        for key in job.keys:
            before = self.ref_cnt[key]
            self._set(key, pin(before))
            if is_evictable(before):
                self.order.busy(key)
            owner = (job_name(submitted.job), key)
            self.loads[owner] = self.loads.get(owner, 0) + 1
        self.jobs[submitted.job] = job
        if submitted.raised:  # it has failed at once
            self._end_job(submitted.job, ())
            self._settle(Reported(job.tier, submitted.job, (), success=False))

    def _settle(self, exchange: Reported | Waited) -> None:
        if isinstance(exchange, Waited):
            for number, keys in exchange.ended:
                self._end_job(number, keys)
            return
        job = self.jobs.pop(exchange.job, None)
        transferred = self.results.pop(exchange.job, ())
        if job is None:
            return
        self.concerned.update(job.keys)
        self.exercised.update(("pin-has-job", "tier-drains"))
        if not job.promotion:
            self.complete_load(job.keys, job_name(exchange.job))
            return
        arrived = job.keys if exchange.success else tuple(key for key in job.keys if key in exchange.keys)
        if set(arrived) != set(transferred) or not exchange.success:
            self.patience.disturbed()
        if arrived:
            self.complete_store(arrived, True)
        self._undo(tuple(key for key in job.keys if key not in arrived))

    def _undo(self, keys: Sequence[Key]) -> None:
        if keys:
            self.complete_store(keys, False)
            self.hits.difference_update(keys)

    def _end_job(self, number: int, keys: Iterable[Key]) -> None:
        """The transfer itself is over; the manager has not heard of it yet."""
        job = self.jobs.get(number)
        if job is None or number in self.results:
            return
        transferred = tuple(key for key in job.keys if key in set(keys))
        self.results[number] = transferred
        whole = len(transferred) == len(job.keys)
        self.slot_contents.end(job_name(number), job.keys, job.block_ids, transferred if job.promotion else ())
        if not job.promotion and whole:
            self.contents[job.tier].update(job.keys)

    def _happen(self, call: Call) -> None:
        if call.name == calls.FINISH_JOB and call.job is not None:
            self._end_job(call.job, call.keys)
            return
        if call.tier is None or not 0 <= call.tier < self.num_tiers:
            return
        if call.name == calls.FILL_TIER:
            self.contents[call.tier].update(call.keys)
            self.patience.disturbed()
        elif call.name == calls.DELAY_TIER:
            self.delayed[call.tier].update(call.keys)

    def _begin_read(self, owner: str, keys: Sequence[Key], slots: Sequence[int]) -> None:
        self.exercised.add("slot-contents")
        self.breaches += self.slot_contents.begin_read(owner, keys, slots)

    # --- patience ---

    def _judge_patience(self, *, waiting: bool) -> None:
        """Is anybody going round in circles who should have been served?"""
        if waiting or any(owner is None or not owner.startswith("job ") for owner, _ in self.loads):
            self.patience.disturbed()
        if any(owner not in (STAGED, *map(job_name, self.jobs)) for owner in self.stores.values()):
            self.patience.disturbed()
        within_reach = set(self.ref_cnt).union(*self.contents)
        state = (tuple(self.ref_cnt.items()), self.order.state(), tuple(map(frozenset, self.contents)))
        circle = self.patience.step_ends(within_reach, self.capacity, state)
        self.exercised |= self.patience.exercised
        if circle is not None:
            request, keys, steps = circle
            self._wrong(
                "tier-progress",
                f"{request} is served with {list(keys)}: all of them exist and fit",
                f"after {steps} more steps everything is as before, and {request} still waits",
                keys,
            )

    def _wrong(self, law: str, expected: str, observed: str, keys: Iterable[Key]) -> None:
        self.breaches.append(Breach(law, expected, observed, tuple(keys)))
