"""What the manager of tiers and a secondary tier agree on (vLLM 0.24's tiering interface, peers as in 0.26).

Content reaches a GPU only from the primary tier, a pool of slots in CPU memory: a secondary tier reads slots (a
store, after the GPU stored them) and writes slots (a promotion, before the GPU loads them), as jobs that end later.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass

from evictable.impl.base import LookupResult, OffloadingEvent, OffloadKey, ReqContext, RequestOffloadingContext

JobId = int


@dataclass(frozen=True)
class JobMetadata:
    """One transfer between the primary tier and a secondary one.

    `block_ids` are primary slots, one for each of `keys` and in the same order: read by a store, written by a
    promotion. They belong to the job until its result was taken by `get_finished_jobs`.
    """

    job_id: JobId
    keys: Sequence[OffloadKey]
    block_ids: Sequence[int]
    is_promotion: bool
    req_context: ReqContext


@dataclass(frozen=True)
class JobResult:
    """How a job ended. Of a promotion that failed, `successful_keys` are those that arrived all the same."""

    job_id: JobId
    success: bool
    successful_keys: Collection[OffloadKey] | None = None


class ParentManager(ABC):
    """What a tier may ask of the manager above it on behalf of somebody elsewhere, a peer.

    Good only during `serve_external_requests`. For each request of a peer, under an id of its own: announce it,
    look keys up, pin what was found with a job, and finish the request. The tier that asks is itself left out.
    """

    @abstractmethod
    def on_new_request(self, req_context: ReqContext) -> RequestOffloadingContext:
        """Announce the peer's request."""

    @abstractmethod
    def lookup(self, key: OffloadKey, req_context: ReqContext) -> LookupResult:
        """As the manager's own `lookup`; what is a HIT can be claimed until `serve_external_requests` returns."""

    @abstractmethod
    def create_store_job(self, keys: Collection[OffloadKey], req_context: ReqContext) -> JobMetadata:
        """Pin the keys for a job of the calling tier, which reports it by `get_finished_jobs` as any other.

        Raises KeyNotResident or NotReady for the first key that is not there to be read; then nothing is pinned.
        """

    @abstractmethod
    def on_request_finished(self, req_context: ReqContext) -> None:
        """Finish the peer's request."""


class SecondaryTierManager(ABC):
    """One tier below the primary one. Nothing here may block, but `drain_jobs` and `shutdown`.

    `primary_kv_view` is the primary tier's memory, of shape (slots, bytes of a slot), so that `view[block_id]` is a
    slot; a tier that moves no data does not need it. `tier_type` is a name for people.

    A method that raises must not have acted. A tier that raises in `submit_store` or `submit_load` has refused the
    job: the manager takes it for failed, and must not hear of it again.
    """

    def __init__(self, primary_kv_view: memoryview | None, tier_type: str) -> None:
        self.primary_kv_view = primary_kv_view
        self.tier_type = tier_type

    @abstractmethod
    def lookup(self, key: OffloadKey, req_context: ReqContext) -> LookupResult:
        """HIT if a promotion of the key can be submitted, MISS, or RETRY if that is not known yet."""

    @abstractmethod
    def submit_store(self, job: JobMetadata) -> None:
        """Begin to read the job's slots into this tier; keys that it holds already need not be read."""

    @abstractmethod
    def submit_load(self, job: JobMetadata) -> None:
        """Begin to write the job's slots from this tier."""

    @abstractmethod
    def get_finished_jobs(self) -> Iterable[JobResult]:
        """The jobs that ended since the last call, each once. The job's slots are not used from then on."""

    @abstractmethod
    def drain_jobs(self) -> None:
        """Wait until no job touches the primary memory; the results wait for `get_finished_jobs`.

        A transfer under way is not cut off; one that has not begun may be given up, and then fails.
        """

    def has_pending_work(self) -> bool:
        """Whether the engine must keep stepping for this tier although no request is scheduled."""
        return False

    def touch(self, keys: Collection[OffloadKey], req_context: ReqContext) -> None:
        """Note that the keys were used."""
        return

    def on_new_request(self, req_context: ReqContext) -> RequestOffloadingContext:
        """A request begins; the answer says whether this tier wants all of its blocks."""
        return RequestOffloadingContext()

    def on_request_finished(self, req_context: ReqContext) -> None:
        """No further job of the request will be submitted; those that were may still be under way."""
        return

    def serve_external_requests(self, parent: ParentManager) -> None:
        """Answer what peers have asked this tier for, once a step and before its promotions are submitted."""
        return

    def on_schedule_end(self) -> None:
        """Called at the end of each scheduler step."""
        return

    def take_events(self) -> Iterable[OffloadingEvent]:
        """What was stored in and removed from this tier since the last call."""
        return ()

    def shutdown(self) -> None:
        """Release threads, files, connections."""
        return
