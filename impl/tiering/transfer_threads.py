"""Threads that carry jobs out, block by block."""

from __future__ import annotations

import logging
import threading
from collections import deque
from collections.abc import Callable

from evictable.impl.base import OffloadKey
from evictable.impl.tiering.base import JobMetadata, JobResult

_logger = logging.getLogger(__name__)


class _Progress:
    """A job, how many of its blocks have not ended yet, and the keys of those that failed."""

    __slots__ = ("failed", "job", "left")

    def __init__(self, job: JobMetadata) -> None:
        self.job = job
        self.left = len(job.keys)
        self.failed: set[OffloadKey] = set()

    def result(self) -> JobResult:
        if not self.failed:
            return JobResult(self.job.job_id, success=True)
        arrived = tuple(key for key in self.job.keys if key not in self.failed) if self.job.is_promotion else None
        return JobResult(self.job.job_id, success=False, successful_keys=arrived)


class TransferThreads:
    """Calls `transfer(key, block_id)` for every block of every job, in the order in which they are submitted.

    `transfer` answers whether the block arrived; one that raises has failed, and the thread goes on.
    """

    def __init__(self, name: str, num_threads: int, transfer: Callable[[OffloadKey, int], bool]) -> None:
        self._transfer = transfer
        self._changed = threading.Condition()  # guards all that follows
        self._waiting: deque[tuple[_Progress, OffloadKey, int]] = deque()
        self._num_running = 0
        self._finished: list[JobResult] = []
        self._closed = False
        # Daemons, so that a process can end that forgets to shut down; blocks are written so that this does no harm.
        self._threads = [
            threading.Thread(target=self._work, name=f"{name}-{index}", daemon=True) for index in range(num_threads)
        ]
        for thread in self._threads:
            thread.start()

    def submit(self, job: JobMetadata) -> None:
        """Raises RuntimeError after `shutdown`."""
        progress = _Progress(job)
        with self._changed:
            if self._closed:
                raise RuntimeError(f"job {job.job_id} was submitted after shutdown")
            if not progress.left:
                self._finished.append(progress.result())
            self._waiting.extend((progress, *block) for block in zip(job.keys, job.block_ids, strict=True))
            self._changed.notify_all()

    def take_finished(self) -> list[JobResult]:
        with self._changed:
            finished, self._finished = self._finished, []
        return finished

    def drain(self) -> None:
        """Give up what has not begun, and wait for what has."""
        with self._changed:
            self._give_up_waiting()
            self._changed.wait_for(lambda: not self._num_running)

    def shutdown(self) -> None:
        """As `drain`, and end the threads."""
        with self._changed:
            self._closed = True
            self._give_up_waiting()
            self._changed.notify_all()
        for thread in self._threads:
            thread.join()

    def _give_up_waiting(self) -> None:
        while self._waiting:
            progress, key, _ = self._waiting.popleft()
            self._end(progress, key, arrived=False)

    def _end(self, progress: _Progress, key: OffloadKey, arrived: bool) -> None:
        if not arrived:
            progress.failed.add(key)
        progress.left -= 1
        if not progress.left:
            self._finished.append(progress.result())

    def _work(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._waiting or self._closed)
                if not self._waiting:
                    return
                progress, key, block_id = self._waiting.popleft()
                self._num_running += 1
            try:
                arrived = self._transfer(key, block_id)
            except Exception:
                _logger.exception("job %s failed at key %s", progress.job.job_id, key.hex())
                arrived = False
            with self._changed:
                self._num_running -= 1
                self._end(progress, key, arrived)
                self._changed.notify_all()
