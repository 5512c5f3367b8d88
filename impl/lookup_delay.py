"""How long requests wait for the answer to their lookups."""

from __future__ import annotations

import time
from collections.abc import Callable

from evictable.impl.metrics import LookupMetrics, OffloadingConnectorStats


class LookupDelays:
    """A stop-watch for whoever looks up a request's blocks (in vLLM the scheduler's side of the connector).

    Take `start()` before the lookups of one request, and call `looked_up` after them. Two delays are observed, in
    seconds of `clock`: how long one round of lookups took, and, when a round ended without an answer (HIT_PENDING or
    RETRY: ask again), how long the request waited from the start of its first such round to the end of the round
    that brought the answer, or to the end of the request. Remembers only requests that wait.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._waiting_since: dict[str, float] = {}
        self._stats = OffloadingConnectorStats()

    def start(self) -> float:
        return self._clock()

    def looked_up(self, req_id: str, started: float, deferred: bool) -> None:
        """A round of lookups that began at `started` has ended; `deferred` if it has to be asked again."""
        self._stats.observe_histogram(LookupMetrics.LOOKUP_SYNC_DELAY, self._clock() - started)
        if deferred:
            self._waiting_since.setdefault(req_id, started)
        else:
            self.request_finished(req_id)

    def request_finished(self, req_id: str) -> None:
        """The request waits no longer, whether or not it got its answer."""
        since = self._waiting_since.pop(req_id, None)
        if since is not None:
            self._stats.observe_histogram(LookupMetrics.LOOKUP_ASYNC_DELAY, self._clock() - since)

    def get_stats(self) -> OffloadingConnectorStats:
        """What was observed since the last time."""
        stats, self._stats = self._stats, OffloadingConnectorStats()
        return stats
