"""The offload manager over a CPU tier and slower tiers below it.

It stands where vLLM 0.24's `TieringOffloadingManager` stands, with the peers of 0.26, request-level tiers as in 0.33
and promotions that arrive in part as in 0.28, and keeps the laws of tiers that the published ones break.

Every pin and every reservation that is taken for a tier belongs to an owner of its own, which is nobody's request: so
no caller can complete what a job holds, and no two jobs can complete each other's. It ends with the job's result, with
the tier's refusal of the job, or with a reset, whichever comes first.

Tiers may raise. What the manager *asks* a tier (`lookup`, `get_finished_jobs`, `on_new_request`, `drain_jobs`,
`has_pending_work`, `take_events`) passes through: the call has then changed nothing, except that results of jobs which
were taken before stay taken. What it only *tells* a tier (a job, the end of a request or a step, a touch, that it may
serve its peers) is logged and goes no further: a tier that refuses a job has failed it, and everything else goes on.
"""

from __future__ import annotations

import logging
from collections import OrderedDict, deque
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from typing import cast

from evictable.impl.base import (
    CPULoadStoreSpec,
    LoadStoreSpec,
    LookupResult,
    OffloadingEvent,
    OffloadingManager,
    OffloadKey,
    OffloadPolicy,
    PrepareStoreOutput,
    ReqContext,
    RequestOffloadingContext,
)
from evictable.impl.manager import CPUOffloadingManager
from evictable.impl.metrics import OffloadingConnectorStats
from evictable.impl.policies.base import CachePolicy
from evictable.impl.tickets import Ticket
from evictable.impl.tiering.base import JobId, JobMetadata, JobResult, ParentManager, SecondaryTierManager
from evictable.impl.tiering.metrics import TieringOffloadingMetrics

_logger = logging.getLogger(__name__)
_logger.addHandler(logging.NullHandler())  # whether a tier's errors are shown is for the application to say

# Requests whose end the tiers were told of, and who may call again by mistake: this many are remembered.
_MAX_TOLD = 64_000


class CPUPrimaryTierOffloadingManager(CPUOffloadingManager):
    """The CPU tier: the only one that a GPU loads from and stores into.

    Between a GPU and this tier there are loads and stores; between this tier and one below it, reads and writes. They
    are the same steps under other names, but that a write makes room among the keys that are not `held`.

    `kv_memoryview` is the memory that the slots lie in, of shape (slots, bytes of a slot); it stays the caller's.
    """

    def __init__(
        self,
        num_blocks: int,
        cache_policy: str | Callable[..., CachePolicy] = "lru",
        enable_events: bool = False,
        kv_memoryview: memoryview | None = None,
    ) -> None:
        super().__init__(num_blocks, cache_policy, enable_events)
        self._kv_memoryview = kv_memoryview
        # Ready keys that no write may evict. Offers do not heed them, so that holding never refuses a store.
        self.held: set[OffloadKey] = set()

    def get_kv_memoryview(self) -> memoryview | None:
        """The memory that secondary tiers read and write, slot by slot."""
        return self._kv_memoryview

    def prepare_write(self, keys: Collection[OffloadKey], req_context: ReqContext) -> PrepareStoreOutput | None:
        """As `prepare_store`, but for a tier below, and without touching a held key; no offer is counted as refused."""
        get = self._policy.get
        keys = list(dict.fromkeys(keys))
        new = [key for key in keys if get(key) is None]
        if not new:
            return PrepareStoreOutput([], self._get_load_store_spec([]), [])
        kept = self.held.union(keys)
        num_idle = 0
        # Else it does not matter how many of them are idle.
        if len(new) - self._get_num_free_blocks() > max(0, self._num_evictable_cache_blocks - len(kept)):
            num_idle = sum(1 for block in map(get, kept) if block is not None and block.ref_cnt == 0)
        output = self._begin_store(new, kept, num_idle, req_context.req_id)
        self.allocation_sizes_in_current_batch.append(len(new))
        return output

    def complete_write(self, keys: Collection[OffloadKey], req_context: ReqContext, success: bool = True) -> None:
        self.complete_store(keys, req_context, success)

    def prepare_read(self, keys: Collection[OffloadKey], req_context: ReqContext) -> CPULoadStoreSpec:
        return self.prepare_load(keys, req_context)

    def complete_read(self, keys: Collection[OffloadKey], req_context: ReqContext) -> None:
        self.complete_load(keys, req_context)

    def reset_cache(self) -> None:
        super().reset_cache()
        self.held.clear()


class _OwnerId(str):
    """Equal to no other id, whatever its text: no caller's request has it."""

    __slots__ = ()

    def __eq__(self, other: object) -> bool:
        return self is other

    def __ne__(self, other: object) -> bool:
        return self is not other

    __hash__ = object.__hash__


def _new_owner(req_context: ReqContext) -> ReqContext:
    return ReqContext(_OwnerId(f"a job of {req_context.req_id}"))


@dataclass(eq=False, slots=True)
class _Request:
    """A request whose tiers will still be told of its end.

    That waits for all that may yet become a job of it: its keys that are being stored, those for which a promotion is
    staged, and those that are parked until somebody's transfer of them has ended, for the tiers in `level_tiers`.
    """

    req_context: ReqContext
    origin: int | None  # the tier whose peer this is; it is not told anything
    level_tiers: tuple[int, ...] = ()
    finished: bool = False
    storing: set[OffloadKey] = field(default_factory=set)
    staged: set[OffloadKey] = field(default_factory=set)
    parked: set[OffloadKey] = field(default_factory=set)

    def forget_transfers(self) -> None:
        self.storing.clear()
        self.staged.clear()
        self.parked.clear()


@dataclass(eq=False, slots=True)
class _Batch:
    """Promotions for one request from one tier: slots are reserved, and the end of the step submits them."""

    request: _Request
    owner: ReqContext
    keys: list[OffloadKey] = field(default_factory=list)
    block_ids: list[int] = field(default_factory=list)


@dataclass(eq=False, slots=True)
class _Job:
    """A job that a tier was given, and the keys that `owner` still holds for it."""

    tier_idx: int
    owner: ReqContext
    metadata: JobMetadata
    keys: Sequence[OffloadKey]


class _Parent(ParentManager):
    """The manager as one tier sees it on behalf of its peers."""

    def __init__(self, manager: TieringOffloadingManager, tier_idx: int) -> None:
        self._manager = manager
        self._tier_idx = tier_idx

    def on_new_request(self, req_context: ReqContext) -> RequestOffloadingContext:
        return self._manager.on_new_request(req_context, exclude_tier_idx=self._tier_idx)

    def lookup(self, key: OffloadKey, req_context: ReqContext) -> LookupResult:
        return self._manager.lookup(key, req_context, exclude_tier_idx=self._tier_idx)

    def create_store_job(self, keys: Collection[OffloadKey], req_context: ReqContext) -> JobMetadata:
        return self._manager.create_store_job(keys, req_context, self._tier_idx)

    def on_request_finished(self, req_context: ReqContext) -> None:
        self._manager.on_request_finished(req_context, exclude_tier_idx=self._tier_idx)


class TieringOffloadingManager(OffloadingManager):
    """Keeps a primary tier and the tiers below it, nearest first, in step.

    What a GPU has stored is stored into every tier. A key that only a tier has is promoted: its slot is reserved when
    it is looked up, and the end of the step submits one job for each tier and request. What a lookup of this step
    called HIT is not evicted for a promotion until the step ends.

    For one thread at a time: where there are several, whoever calls holds `lock`, also a thread of a tier that calls
    back on behalf of peers; not one that only notes that a job has ended, which the tier reports when it is asked. As
    in `CPUOffloadingManager`, a call does what it says or raises and changes nothing, and
    requests that were never announced, or are finished, may call; but once a request is finished and nothing of it
    waits any more, the tiers are told, and from then on they hear no more of it: its lookups promote nothing and its
    stores stay in the primary tier. `exclude_tier_idx` is the tier that asks on behalf of a peer.
    """

    def __init__(
        self,
        primary_tier: CPUPrimaryTierOffloadingManager,
        secondary_tiers: Sequence[SecondaryTierManager] | None = None,
    ) -> None:
        self.primary_tier = primary_tier
        self.secondary_tiers = list(secondary_tiers or ())
        # Results that no job waited for: told twice, by another tier than had the job, or after a reset.
        self.num_stray_results = 0

        self._parents = [_Parent(self, tier_idx) for tier_idx in range(len(self.secondary_tiers))]
        self._requests: dict[str, _Request] = {}
        self._told: OrderedDict[str, None] = OrderedDict()
        self._num_jobs = 0
        self._jobs: dict[JobId, _Job] = {}
        self._staged: dict[tuple[int, str], _Batch] = {}
        self._parked: dict[OffloadKey, list[_Request]] = {}
        # Taken from the tiers and not yet applied. Empty between calls, unless applying one has raised.
        self._results: deque[tuple[int, JobResult]] = deque()
        self._polled_this_step = False
        self._stats = OffloadingConnectorStats()

    @property
    def lock(self) -> AbstractContextManager[object]:
        """The primary tier's: one lock for all, whoever calls which of them. The manager calls its tiers under it."""
        return self.primary_tier.lock

    # Requests

    def on_new_request(
        self, req_context: ReqContext, *, exclude_tier_idx: int | None = None
    ) -> RequestOffloadingContext:
        """REQUEST_LEVEL if any tier wants all blocks of the request."""
        self.primary_tier.on_new_request(req_context)
        level_tiers = tuple(
            tier_idx
            for tier_idx in self._tiers_but(exclude_tier_idx)
            if self.secondary_tiers[tier_idx].on_new_request(req_context).policy is OffloadPolicy.REQUEST_LEVEL
        )
        self._told.pop(req_context.req_id, None)
        request = self._record(req_context, exclude_tier_idx)
        request.req_context = req_context
        request.origin = exclude_tier_idx
        request.level_tiers = level_tiers
        request.finished = False
        return RequestOffloadingContext(OffloadPolicy.REQUEST_LEVEL if level_tiers else OffloadPolicy.BLOCK_LEVEL)

    def on_request_finished(self, req_context: ReqContext, *, exclude_tier_idx: int | None = None) -> None:
        """The tiers are told as soon as no store, promotion or cascade of the request can become a job any more."""
        self.primary_tier.on_request_finished(req_context)
        if req_context.req_id not in self._told:
            request = self._record(req_context, exclude_tier_idx)
            request.finished = True
            self._tell_end(request)

    def _record(self, req_context: ReqContext, origin: int | None = None) -> _Request:
        """The record of a request, which is made here if it has none."""
        request = self._requests.get(req_context.req_id)
        if request is None:
            request = self._requests[req_context.req_id] = _Request(req_context, origin)
        return request

    def _tell_end(self, request: _Request) -> None:
        """Tell the tiers that a request has finished, if it has and nothing of it waits."""
        req_id = request.req_context.req_id
        if not request.finished or request.storing or request.staged or request.parked:
            return
        if self._requests.get(req_id) is not request:
            return  # told already
        del self._requests[req_id]
        self._told[req_id] = None
        if len(self._told) > _MAX_TOLD:
            self._told.popitem(last=False)
        for tier_idx in self._tiers_but(request.origin):
            with self._tolerating(tier_idx):
                self.secondary_tiers[tier_idx].on_request_finished(request.req_context)

    def _tiers_but(self, tier_idx: int | None) -> Iterator[int]:
        return (other for other in range(len(self.secondary_tiers)) if other != tier_idx)

    # Lookups and promotions

    def lookup(self, key: OffloadKey, req_context: ReqContext, *, exclude_tier_idx: int | None = None) -> LookupResult:
        """HIT or HIT_PENDING as the primary tier says; else what the first tier says that has the key, or may have it.

        Where a tier has it, HIT_PENDING: a promotion begins; or MISS, if there is no room for one. RETRY if no tier
        has it, but one does not know yet.
        """
        if not self._polled_this_step:
            self._poll()
        result = self.primary_tier.lookup(key, req_context)
        if result is LookupResult.HIT:
            self.primary_tier.held.add(key)
        if result is not LookupResult.MISS or req_context.req_id in self._told:
            return result
        for tier_idx in self._tiers_but(exclude_tier_idx):
            answer = self.secondary_tiers[tier_idx].lookup(key, req_context)
            if answer is LookupResult.HIT:
                promoted = self._promote(key, req_context, tier_idx, exclude_tier_idx)
                return LookupResult.HIT_PENDING if promoted else LookupResult.MISS
            if answer is not LookupResult.MISS:
                result = LookupResult.RETRY
        return result

    def touch(self, keys: Collection[OffloadKey], req_context: ReqContext) -> None:
        keys = list(keys)  # it may be something that can be read once only
        self.primary_tier.touch(keys, req_context)
        if req_context.req_id not in self._told:
            for tier_idx, tier in enumerate(self.secondary_tiers):
                with self._tolerating(tier_idx):
                    tier.touch(keys, req_context)

    def _promote(self, key: OffloadKey, req_context: ReqContext, tier_idx: int, origin: int | None) -> bool:
        """Reserve a slot for a key that the tier has; whether there is one."""
        place = (tier_idx, req_context.req_id)
        batch = self._staged.get(place)
        owner = _new_owner(req_context) if batch is None else batch.owner
        output = self.primary_tier.prepare_write([key], owner)
        if output is None:
            self._stats.increase_counter(TieringOffloadingMetrics.PROMOTION_ALLOCATION_FAILURES)
            return False
        if batch is None:
            batch = self._staged[place] = _Batch(self._record(req_context, origin), owner)
        batch.keys += output.keys_to_store
        batch.block_ids += _block_ids(output.store_spec)
        batch.request.staged.update(output.keys_to_store)
        return True

    def _submit_staged(self) -> list[_Request]:
        """Submit what lookups have staged; answers the requests that it was for."""
        requests: list[_Request] = []
        for place, batch in list(self._staged.items()):
            del self._staged[place]
            tier_idx, request = place[0], batch.request
            requests.append(request)
            request.staged.difference_update(batch.keys)
            job = self._register(tier_idx, batch.owner, batch.keys, batch.block_ids, True, request.req_context)
            with self._tolerating(tier_idx):
                self._submit(job)
        return requests

    # Loads

    def prepare_load(self, keys: Collection[OffloadKey], req_context: ReqContext) -> LoadStoreSpec:
        """As the primary tier's. What lookups of this step called HIT is there, unless an offer has taken its room."""
        return self.primary_tier.prepare_load(keys, req_context)

    def complete_load(
        self, keys: Collection[OffloadKey], req_context: ReqContext, ticket: Ticket | None = None
    ) -> None:
        self.primary_tier.complete_load(keys, req_context, ticket)

    # Stores and cascades

    def prepare_store(self, keys: Collection[OffloadKey], req_context: ReqContext) -> PrepareStoreOutput | None:
        """As the primary tier's; then the keys that are there already go to the tiers that want the whole request.

        Those of them that are pending follow when they have been stored, or at the end of the step in which they have
        been promoted, if they are still there.
        """
        keys = list(keys)  # it may be something that can be read once only
        self._poll()
        output = self.primary_tier.prepare_store(keys, req_context)
        if output is None:
            return None
        self.primary_tier.held.difference_update(output.evicted_keys)
        if req_context.req_id not in self._told:
            request = self._record(req_context)
            request.storing.update(output.keys_to_store)
            if request.level_tiers:
                present = dict.fromkeys(keys)
                for key in output.keys_to_store:
                    present.pop(key, None)
                self._cascade_present(present, request)
        return output

    def complete_store(
        self,
        keys: Collection[OffloadKey],
        req_context: ReqContext,
        success: bool = True,
        ticket: Ticket | None = None,
    ) -> None:
        """As the primary tier's; then the keys go to every tier."""
        keys = list(keys)
        self.primary_tier.complete_store(keys, req_context, success, ticket)
        request = self._requests.get(req_context.req_id)
        if request is not None:
            request.storing.difference_update(keys)
            if success and keys:
                self._cascade(keys, req_context, self._tiers_but(request.origin))
        self._unpark(keys, success, request)
        if request is not None:
            self._tell_end(request)

    def create_store_job(self, keys: Collection[OffloadKey], req_context: ReqContext, tier_idx: int = 0) -> JobMetadata:
        """Pin the keys for a job that the tier is about to do, and will report.

        Raises KeyNotResident or NotReady for the first key that cannot be read; then nothing is pinned.
        """
        keys = tuple(keys)
        owner = _new_owner(req_context)
        block_ids = self.primary_tier.prepare_read(keys, owner).block_ids
        return self._register(tier_idx, owner, keys, block_ids, False, req_context).metadata

    def _cascade(self, keys: Sequence[OffloadKey], req_context: ReqContext, tiers: Iterable[int]) -> None:
        """Store keys that are ready into the tiers, as far as those go along."""
        for tier_idx in tiers:
            with self._tolerating(tier_idx):
                job = self.create_store_job(keys, req_context, tier_idx)
                self._submit(self._jobs[job.job_id])

    def _cascade_present(self, keys: Iterable[OffloadKey], request: _Request) -> None:
        """Cascade keys of a request-level request that need no store, at once or when they are ready."""
        ready: list[OffloadKey] = []
        for key in keys:
            result = self.primary_tier.lookup(key, request.req_context)
            if result is LookupResult.HIT:
                ready.append(key)
            elif result is LookupResult.HIT_PENDING and key not in request.parked:
                request.parked.add(key)
                self._parked.setdefault(key, []).append(request)
        if ready:
            self._cascade(ready, request.req_context, request.level_tiers)

    def _unpark(self, keys: Iterable[OffloadKey], ready: bool, stored_by: _Request | None = None) -> None:
        """Whoever is parked on keys that are ready has them cascaded now; on keys that are gone, waits no longer.

        `stored_by` has just had them cascaded to every tier.
        """
        parked: dict[_Request, list[OffloadKey]] = {}
        for key in keys:
            for request in self._parked.pop(key, ()):
                request.parked.discard(key)
                parked.setdefault(request, []).append(key)
        for request, their_keys in parked.items():
            if ready and request is not stored_by:
                self._cascade(their_keys, request.req_context, request.level_tiers)
            self._tell_end(request)

    def _unpark_arrived(self) -> None:
        """Cascade the parked keys that promotions have brought, and let nobody wait for those that they have not.

        This is not done as soon as the result is taken, because a call that then has to make room would find the keys
        pinned.
        """
        arrived: list[OffloadKey] = []
        gone: list[OffloadKey] = []
        for key, requests in self._parked.items():
            result = self.primary_tier.lookup(key, requests[0].req_context)
            if result is LookupResult.HIT:
                arrived.append(key)
            elif result is LookupResult.MISS:
                gone.append(key)
        self._unpark(arrived, ready=True)
        self._unpark(gone, ready=False)

    # Jobs

    def _register(
        self,
        tier_idx: int,
        owner: ReqContext,
        keys: Sequence[OffloadKey],
        block_ids: Iterable[int],
        is_promotion: bool,
        req_context: ReqContext,
    ) -> _Job:
        job_id = self._num_jobs
        self._num_jobs += 1
        keys = tuple(keys)
        metadata = JobMetadata(job_id, keys, tuple(block_ids), is_promotion, req_context)
        job = self._jobs[job_id] = _Job(tier_idx, owner, metadata, keys)
        return job

    def _submit(self, job: _Job) -> None:
        """Give the tier its job. Raises what the tier raises, after the job has been given up."""
        tier = self.secondary_tiers[job.tier_idx]
        try:
            (tier.submit_load if job.metadata.is_promotion else tier.submit_store)(job.metadata)
        except BaseException:
            self._end(job, success=False)
            raise

    def _poll(self) -> None:
        """Take all results, and apply them in this order. One that cannot be applied waits for the next poll."""
        try:
            for tier_idx, tier in enumerate(self.secondary_tiers):
                for result in tier.get_finished_jobs():
                    self._results.append((tier_idx, result))
        finally:
            self._apply_results()
        self._polled_this_step = True

    def _apply_results(self) -> None:
        while self._results:
            tier_idx, result = self._results[0]
            job = self._jobs.get(result.job_id)
            if job is not None and job.tier_idx == tier_idx:
                self._end(job, result.success, result.successful_keys or ())
            else:
                self.num_stray_results += 1
            self._results.popleft()

    def _end(self, job: _Job, success: bool, successful_keys: Collection[OffloadKey] = ()) -> None:
        """Give back what the job holds; of a promotion, what arrived becomes ready.

        When the primary tier raises, what is left for another try is in `job.keys`.
        """
        if job.metadata.is_promotion:
            good = set(job.keys if success else successful_keys)
            arrived = [key for key in job.keys if key in good]
            lost = [key for key in job.keys if key not in good]
            if arrived:
                self.primary_tier.complete_write(arrived, job.owner)
                job.keys = lost
            if lost:
                self.primary_tier.complete_write(lost, job.owner, False)
        else:
            self.primary_tier.complete_read(job.keys, job.owner)
        del self._jobs[job.metadata.job_id]
        if not success:
            self._count_failure(job)

    def _count_failure(self, job: _Job) -> None:
        names = TieringOffloadingMetrics
        name = names.PROMOTION_JOB_FAILURES if job.metadata.is_promotion else names.CASCADE_JOB_FAILURES
        tier_type = self.secondary_tiers[job.tier_idx].tier_type
        self._stats.increase_counter(name, labelvalues=(f"{job.tier_idx + 1}:{tier_type}",))

    @contextmanager
    def _tolerating(self, tier_idx: int) -> Iterator[None]:
        try:
            yield
        except Exception:
            _logger.exception("tier %d (%s) has failed", tier_idx, self.secondary_tiers[tier_idx].tier_type)

    # Steps, and the whole cache

    def on_schedule_end(self) -> None:
        """End the scheduler step: serve peers, submit promotions, and hold what lookups called HIT no longer."""
        self._poll()
        for tier_idx, tier in enumerate(self.secondary_tiers):
            with self._tolerating(tier_idx):
                tier.serve_external_requests(self._parents[tier_idx])
        requests = self._submit_staged()
        self._unpark_arrived()
        self.primary_tier.held.clear()
        self._polled_this_step = False
        for tier_idx, tier in enumerate(self.secondary_tiers):
            with self._tolerating(tier_idx):
                tier.on_schedule_end()
        for request in requests:
            self._tell_end(request)

    def has_pending_work(self) -> bool:
        """Whether a job is under way or about to be, or a tier has something else to do."""
        mine = self._jobs or self._staged or self._parked
        return bool(mine) or any(tier.has_pending_work() for tier in self.secondary_tiers)

    def reset_cache(self) -> None:
        """Wait for the tiers' jobs, and forget what is in the primary tier or was to come there.

        The tiers keep what they hold, and requests go on. Those that are finished wait for nothing any more.
        """
        for tier in self.secondary_tiers:
            tier.drain_jobs()
        self._poll()
        self.primary_tier.reset_cache()
        self._jobs.clear()
        self._staged.clear()
        self._parked.clear()
        for request in list(self._requests.values()):
            request.forget_transfers()
            self._tell_end(request)

    def take_events(self) -> Iterator[OffloadingEvent]:
        """The events of the primary tier, then those of the others, nearest first."""
        yield from self.primary_tier.take_events()
        for tier in self.secondary_tiers:
            yield from tier.take_events()

    def get_stats(self) -> OffloadingConnectorStats:
        """The primary tier's metrics, and of `TieringOffloadingMetrics` what was counted since the last call."""
        counted, self._stats = self._stats, OffloadingConnectorStats()
        return self.primary_tier.get_stats().aggregate(counted)

    def shutdown(self) -> None:
        """Shut the tiers down, all of them, then the primary one; not that, if a tier may still be using its memory.

        Raises what the first tier raised that could not be shut down.
        """
        errors: list[Exception] = []
        for tier in self.secondary_tiers:
            try:
                tier.shutdown()
            except Exception as error:
                errors.append(error)
        if errors:
            raise errors[0]
        self.primary_tier.shutdown()


def _block_ids(spec: LoadStoreSpec) -> Sequence[int]:
    return cast(CPULoadStoreSpec, spec).block_ids
