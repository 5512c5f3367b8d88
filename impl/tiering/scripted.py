"""A secondary tier that does what it is told, for tests of whatever sits above it."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable

from evictable.impl.base import (
    LookupResult,
    OffloadKey,
    OffloadPolicy,
    ReqContext,
    RequestOffloadingContext,
)
from evictable.impl.tiering.base import JobId, JobMetadata, JobResult, ParentManager, SecondaryTierManager


class ScriptedTier(SecondaryTierManager):
    """Moves no data. Its jobs end when and how `finish` and `fail` say, and its peers ask what `peers` say.

        tier = ScriptedTier()
        tier.hold([key])
        manager = TieringOffloadingManager(CPUPrimaryTierOffloadingManager(4), [tier])
        manager.lookup(key, request)  # HIT_PENDING: it is promoted
        manager.on_schedule_end()
        (job,) = tier.jobs.values()
        tier.finish(job.job_id)
        manager.lookup(key, request)  # HIT

    * `keys`: what it holds. * `jobs`: those in flight, by id. * `results`: what the manager has not taken yet; append
    to it for results that no job should have. * `peers`: functions that `serve_external_requests` gives the manager
    to, each once. * `finished_requests`: the ids of those whose end it was told of, in order.
    """

    def __init__(
        self,
        tier_type: str = "scripted",
        request_level: bool = False,
        primary_kv_view: memoryview | None = None,
    ) -> None:
        super().__init__(primary_kv_view, tier_type)
        self.request_level = request_level
        self.keys: set[OffloadKey] = set()
        self.jobs: dict[JobId, JobMetadata] = {}
        self.results: list[JobResult] = []
        self.peers: list[Callable[[ParentManager], None]] = []
        self.finished_requests: list[str] = []
        self._delayed: set[OffloadKey] = set()
        self._next_errors: list[BaseException] = []

    # The script

    def hold(self, keys: Iterable[OffloadKey]) -> None:
        """The tier has the keys from now on."""
        self.keys.update(keys)

    def delay(self, keys: Iterable[OffloadKey]) -> None:
        """Lookups of the keys answer RETRY until the step ends."""
        self._delayed.update(keys)

    def finish(self, job_id: JobId, successful_keys: Collection[OffloadKey] | None = None) -> None:
        """End a job well, or only for some of its keys, and so badly. A store leaves its keys here, or none of them.

        Raises KeyError if no such job is in flight.
        """
        job = self.jobs.pop(job_id)
        success = successful_keys is None or set(successful_keys).issuperset(job.keys)
        if success and not job.is_promotion:
            self.keys.update(job.keys)
        self.results.append(JobResult(job_id, success, None if success else successful_keys))

    def fail(self, job_id: JobId) -> None:
        """End a job badly. Raises KeyError if no such job is in flight."""
        self.finish(job_id, ())

    def fail_next_submit(self, error: BaseException) -> None:
        """The next job is refused with this error; said again, the one after that, too."""
        self._next_errors.append(error)

    # What the manager calls

    def lookup(self, key: OffloadKey, req_context: ReqContext) -> LookupResult:
        if key in self._delayed:
            return LookupResult.RETRY
        return LookupResult.HIT if key in self.keys else LookupResult.MISS

    def submit_store(self, job: JobMetadata) -> None:
        if self._next_errors:
            raise self._next_errors.pop(0)
        self.jobs[job.job_id] = job

    submit_load = submit_store

    def get_finished_jobs(self) -> list[JobResult]:
        results, self.results = self.results, []
        return results

    def drain_jobs(self) -> None:
        """End all jobs well."""
        for job_id in list(self.jobs):
            self.finish(job_id)

    def on_new_request(self, req_context: ReqContext) -> RequestOffloadingContext:
        return RequestOffloadingContext(
            OffloadPolicy.REQUEST_LEVEL if self.request_level else OffloadPolicy.BLOCK_LEVEL
        )

    def on_request_finished(self, req_context: ReqContext) -> None:
        self.finished_requests.append(req_context.req_id)

    def serve_external_requests(self, parent: ParentManager) -> None:
        while self.peers:
            self.peers.pop(0)(parent)

    def on_schedule_end(self) -> None:
        self._delayed.clear()
