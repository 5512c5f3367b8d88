"""The file system tier: jobs, their results, and who waits for whom."""

from __future__ import annotations

import errno
import logging
import mmap
import os
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from evictable.impl import LookupResult, OffloadKey, ReqContext
from evictable.impl.tiering.base import JobMetadata, JobResult
from evictable.impl.tiering.file_operations import FileOperations
from evictable.impl.tiering.filesystem import FileSystemTier

A, B, C, D = (OffloadKey(bytes([n, 0, 0, 0])) for n in range(4))
REQUEST = ReqContext("r")
SLOTS, SLOT_BYTES = 4, 4
HIT, MISS = LookupResult.HIT, LookupResult.MISS


class Memory:
    """The primary tier: slot i holds as many i's, unless told otherwise."""

    def __init__(self) -> None:
        self.view = memoryview(bytearray(SLOTS * SLOT_BYTES)).cast("B", (SLOTS, SLOT_BYTES))
        self.bytes = self.view.cast("B")
        self.bytes[:] = bytes(slot for slot in range(SLOTS) for _ in range(SLOT_BYTES))

    def slots(self) -> list[int | None]:
        """What each slot holds, if it holds one number."""
        rows = [set(row) for row in self.view.tolist()]
        return [row.pop() if len(row) == 1 else None for row in rows]


class Disk(FileOperations):
    """A file system whose writes tests hold up, or make fail."""

    def __init__(self) -> None:
        self.error: Exception | None = None
        self.begun, self.goes_on = threading.Semaphore(0), threading.Event()
        self.goes_on.set()

    def write(self, file: int, block: memoryview) -> int:
        self.begun.release()
        assert self.goes_on.wait(60)
        if self.error is not None:
            raise self.error
        return super().write(file, block)


Make = Callable[..., FileSystemTier]


@pytest.fixture
def memory() -> Memory:
    return Memory()


@pytest.fixture
def disk() -> Iterator[Disk]:
    disk = Disk()
    yield disk
    disk.goes_on.set()


@pytest.fixture
def make(memory: Memory, disk: Disk, tmp_path: Path) -> Iterator[Make]:
    """A tier over the same memory, disk and folder each time."""
    made: list[FileSystemTier] = []

    def start(**options: Any) -> FileSystemTier:
        made.append(FileSystemTier(memory.view, "fs", tmp_path, **{"fsync": False, "operations": disk, **options}))
        return made[-1]

    yield start
    disk.goes_on.set()
    for tier in made:
        tier.shutdown()


def job(job_id: int, keys: list[OffloadKey], block_ids: list[int], is_promotion: bool = False) -> JobMetadata:
    return JobMetadata(job_id, keys, block_ids, is_promotion, REQUEST)


def results(tier: FileSystemTier, count: int = 1) -> list[JobResult]:
    """The next results, asked for as a scheduler asks: again and again."""
    found: list[JobResult] = []
    deadline = time.monotonic() + 60
    while len(found) < count:
        assert time.monotonic() < deadline, found
        found += tier.get_finished_jobs()
        time.sleep(0.0002)
    return found


def store(tier: FileSystemTier, *keys: OffloadKey) -> JobResult:
    """From the first slots."""
    tier.submit_store(job(0, list(keys), list(range(len(keys)))))
    (result,) = results(tier)
    return result


def load(tier: FileSystemTier, *keys: OffloadKey, block_ids: list[int] | None = None) -> JobResult:
    """Into the first slots, unless said otherwise."""
    tier.submit_load(job(1, list(keys), list(range(len(keys))) if block_ids is None else block_ids, is_promotion=True))
    (result,) = results(tier)
    return result


def lookups(tier: FileSystemTier, *keys: OffloadKey) -> list[LookupResult]:
    return [tier.lookup(key, REQUEST) for key in keys]


def damage(tmp_path: Path, key: OffloadKey) -> None:
    (path,) = tmp_path.rglob(f"{key.hex()}.block")
    path.write_bytes(bytes(len(path.read_bytes())))


# Jobs


def test_blocks_come_back_into_the_slots_named(make: Make, memory: Memory) -> None:
    tier = make()
    assert JobResult(0, success=True) == store(tier, A, B, C)
    assert JobResult(1, success=True) == load(tier, C, A, block_ids=[0, 3])
    assert [2, 1, 2, 0] == memory.slots()


def test_what_was_stored_is_a_hit_also_after_a_restart(make: Make, memory: Memory) -> None:
    first = make()
    store(first, A)
    first.shutdown()
    tier = make()
    assert [HIT, MISS] == lookups(tier, A, B)
    assert load(tier, A, block_ids=[2]).success
    assert [0, 1, 0, 3] == memory.slots()


def test_what_a_neighbour_stores_or_removes_is_seen(make: Make, tmp_path: Path) -> None:
    ours, theirs = make(), make()
    store(theirs, A)
    assert [HIT] == lookups(ours, A)
    next(tmp_path.rglob("*.block")).unlink()
    assert [MISS] == lookups(ours, A)


def test_slots_may_be_made_of_wider_numbers(tmp_path: Path) -> None:
    memory = memoryview(bytearray(range(16))).cast("h", (2, 4))
    tier = FileSystemTier(memory, "fs", tmp_path)
    store(tier, A)
    load(tier, A, block_ids=[1])
    tier.shutdown()
    assert bytes(range(8)) * 2 == bytes(memory)


def test_a_job_without_blocks_has_ended(make: Make) -> None:
    assert JobResult(0, success=True) == store(make())


def test_a_result_is_told_once(make: Make) -> None:
    tier = make()
    store(tier, A)
    assert [] == list(tier.get_finished_jobs())


@pytest.mark.parametrize("threads", [1, 3])
def test_of_many_jobs_each_ends_once(threads: int, make: Make) -> None:
    tier = make(n_read_threads=threads, n_write_threads=threads)
    keys = [OffloadKey(bytes([n, 1])) for n in range(50)]
    for number, key in enumerate(keys):
        tier.submit_store(job(number, [key, D], [0, 1]))
    assert [(n, True) for n in range(50)] == sorted((done.job_id, done.success) for done in results(tier, 50))
    for number, key in enumerate(keys):  # all of them to the same slots, which is harmless because they are the same
        tier.submit_load(job(number, [key, D], [2, 3], is_promotion=True))
    assert [(n, True) for n in range(50)] == sorted((done.job_id, done.success) for done in results(tier, 50))


# Failures


def test_a_promotion_tells_what_arrived_although_it_failed(make: Make, tmp_path: Path) -> None:
    tier = make()
    store(tier, A, B, C)
    damage(tmp_path, B)
    assert JobResult(1, success=False, successful_keys=(C, A)) == load(tier, C, B, A)


def test_a_damaged_block_fails_one_promotion_and_is_then_a_miss(make: Make, memory: Memory, tmp_path: Path) -> None:
    tier = make()
    store(tier, A)
    damage(tmp_path, A)
    assert [HIT] == lookups(tier, A)
    assert JobResult(1, success=False, successful_keys=()) == load(tier, A)
    assert [MISS] == lookups(tier, A)
    tier.submit_store(job(2, [A], [1]))
    assert [JobResult(2, success=True)] == results(tier)
    assert load(tier, A, block_ids=[3]).success
    assert 1 == memory.slots()[3]


def test_a_block_removed_since_its_lookup_fails_quietly(make: Make, caplog: pytest.LogCaptureFixture) -> None:
    assert JobResult(1, success=False, successful_keys=()) == load(make(), A)
    assert [] == caplog.records


def test_blocks_of_another_namespace_or_size_are_misses(make: Make, memory: Memory, tmp_path: Path) -> None:
    store(make(namespace="one"), A)
    assert [MISS] == lookups(make(namespace="two"), A)
    other = FileSystemTier(memory.bytes.cast("B", (2, 8)), "fs", tmp_path, namespace="one")
    assert [MISS] == lookups(other, A)
    other.shutdown()


def test_a_full_disk_fails_the_store_and_nothing_else(make: Make, disk: Disk) -> None:
    tier = make()
    disk.error = OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    assert JobResult(0, success=False) == store(tier, A, B)
    assert [MISS, MISS] == lookups(tier, A, B)
    disk.error = None
    assert JobResult(0, success=True) == store(tier, A, B)


def test_failing_stores_are_logged_once_in_a_row(make: Make, disk: Disk, caplog: pytest.LogCaptureFixture) -> None:
    tier = make(n_write_threads=1)
    for error in (OSError(28, "full"), OSError(28, "full"), None, OSError(28, "full")):
        disk.error = error
        store(tier, B if error is None else A)
    assert ["stores into tier fs fail: [Errno 28] full"] * 2 == [record.getMessage() for record in caplog.records]


def test_a_defect_in_a_transfer_fails_its_job_only(make: Make, disk: Disk, caplog: pytest.LogCaptureFixture) -> None:
    tier = make(n_write_threads=1)
    disk.error = RuntimeError("defect")
    assert not store(tier, A).success
    assert [logging.ERROR] == [record.levelno for record in caplog.records]
    disk.error = None
    assert store(tier, A).success


# Who waits for whom


def test_the_scheduler_does_not_wait_for_the_disk(make: Make, disk: Disk) -> None:
    tier = make()
    disk.goes_on.clear()
    tier.submit_store(job(0, [A, B, C, D], [0, 1, 2, 3]))
    tier.submit_store(job(1, [A], [0]))
    assert disk.begun.acquire(timeout=60)
    assert ([MISS], []) == (lookups(tier, A), list(tier.get_finished_jobs()))


def test_loads_do_not_wait_for_stores(make: Make, disk: Disk) -> None:
    tier = make(n_read_threads=1, n_write_threads=1)
    store(tier, A)
    disk.goes_on.clear()
    tier.submit_store(job(0, [B, C, D], [1, 2, 3]))
    assert load(tier, A).success


def end_by(end: Callable[[], None], tier: FileSystemTier, disk: Disk) -> list[JobResult]:
    """The results of a job under way and of one that waits, if the tier is told to `end`."""
    disk.goes_on.clear()
    while disk.begun.acquire(blocking=False):
        pass
    tier.submit_store(job(0, [A], [0]))
    assert disk.begun.acquire(timeout=60)
    tier.submit_store(job(1, [B], [1]))
    ending = threading.Thread(target=end)
    ending.start()
    given_up = results(tier)
    assert ending.is_alive()
    disk.goes_on.set()
    ending.join()
    return given_up + list(tier.get_finished_jobs())


def test_a_drain_gives_up_what_waits_and_waits_for_what_runs(make: Make, disk: Disk) -> None:
    tier = make(n_write_threads=1)
    assert [JobResult(1, success=False), JobResult(0, success=True)] == end_by(tier.drain_jobs, tier, disk)
    assert [HIT, MISS] == lookups(tier, A, B)
    assert store(tier, C).success


def test_a_shutdown_does_the_same_for_good(make: Make, disk: Disk) -> None:
    threads = threading.active_count()
    tier = make(n_write_threads=1)
    assert [JobResult(1, success=False), JobResult(0, success=True)] == end_by(tier.shutdown, tier, disk)
    tier.shutdown()
    assert threads == threading.active_count()
    with pytest.raises(RuntimeError, match="job 2 was submitted after shutdown"):
        tier.submit_store(job(2, [C], [2]))
    assert [] == list(tier.get_finished_jobs())


def test_after_a_shutdown_the_memory_can_be_closed(tmp_path: Path) -> None:
    with mmap.mmap(-1, 8) as memory, memoryview(memory) as flat, flat.cast("B", (2, 4)) as slots:
        tier = FileSystemTier(slots, "fs", tmp_path)
        store(tier, A, B)
        tier.shutdown()


# What is refused


@pytest.mark.parametrize(
    ("keys", "block_ids", "message"),
    [
        ([A], [SLOTS], "job 7 names slot 4; there are 4"),
        ([A, B], [0, -1], "job 7 names slot -1"),
        ([A, B], [0], "job 7 has 2 keys and 1 slots"),
    ],
)
@pytest.mark.parametrize("promotion", [False, True])
def test_a_job_that_cannot_be_done_is_refused_whole(
    keys: list[OffloadKey], block_ids: list[int], message: str, promotion: bool, make: Make
) -> None:
    tier = make()
    submit = tier.submit_load if promotion else tier.submit_store
    with pytest.raises(ValueError, match=message):
        submit(job(7, keys, block_ids, promotion))
    tier.drain_jobs()
    assert ([], [MISS, MISS]) == (list(tier.get_finished_jobs()), lookups(tier, A, B))


FLAT = memoryview(bytearray(16))


@pytest.mark.parametrize(
    ("view", "options", "message"),
    [
        (None, {}, "memory of the shape"),
        (FLAT, {}, "memory of the shape"),
        (memoryview(bytes(8)).cast("B", (2, 4)), {}, "writable"),
        (FLAT.cast("B", (4, 4))[::2], {}, "in one piece"),
        (FLAT.cast("B", (4, 4)), {"n_read_threads": 0}, "0 threads to read and 4 to write"),
        (FLAT.cast("B", (4, 4)), {"n_write_threads": 0}, "8 threads to read and 0 to write"),
        (FLAT.cast("B", (4, 4)), {"max_bytes": 4}, "max_bytes is 4, too little for one slot of 4 bytes"),
    ],
)
def test_what_leaves_nothing_to_work_with_is_refused(
    view: memoryview | None, options: dict[str, Any], message: str, tmp_path: Path
) -> None:
    threads = threading.active_count()
    with pytest.raises(ValueError, match=message):
        FileSystemTier(view, "fs", tmp_path, **options)
    assert ([], threads) == (list(tmp_path.iterdir()), threading.active_count())


def test_a_folder_that_cannot_be_made_is_an_error_at_once(memory: Memory, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    threads = threading.active_count()
    with pytest.raises(OSError, match="no place for blocks"):
        FileSystemTier(memory.view, "fs", tmp_path / "file")
    assert threads == threading.active_count()
