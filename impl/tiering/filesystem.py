"""A secondary tier that keeps blocks as files."""

from __future__ import annotations

import logging
from collections.abc import Iterable
from os import PathLike
from pathlib import Path

from evictable.impl.base import LookupResult, OffloadKey, ReqContext
from evictable.impl.tiering.base import JobMetadata, JobResult, SecondaryTierManager
from evictable.impl.tiering.block_files import BlockFiles
from evictable.impl.tiering.file_operations import FileOperations
from evictable.impl.tiering.transfer_threads import TransferThreads

_logger = logging.getLogger(__name__)


class FileSystemTier(SecondaryTierManager):
    """Blocks in files, kept from one run to the next, and shared by all who name the same folder and namespace.

        memory = mmap.mmap(-1, 1000 * 2**20)  # the primary tier: 1000 slots of 1 MiB
        slots = memoryview(memory).cast("B", (1000, 2**20))
        tier = FileSystemTier(slots, "disk", "/var/cache/kv", namespace="llama-3-8b fp16 tp1", max_bytes=10**12)

    `namespace` has to name everything that the content of a block depends on besides its key: the model and its
    weights, the data type, the layout of a slot. Slots of another size never meet, whatever the namespace.

    Content is never wrong: files appear whole, and a block counts as loaded only when its checksum has been compared.
    A file that is torn, cut off or changed fails the promotion that meets it, is removed, and is a MISS from then on.
    One that cannot be read nor removed is a MISS too, until it changes or its key is stored again. Keys of more than
    124 bytes make no file name: they are always a MISS, and their stores fail.

    * `fsync`: a store has ended only when the block survives a loss of power. Without it such a loss costs blocks, and
      loads still tell; a killed process costs nothing either way.
    * `max_bytes`: the files of this namespace may have that many bytes together; those that were stored or loaded
      longest ago make room. Processes that share a folder may exceed it by a sixteenth each.
    * `n_read_threads`, `n_write_threads`: how many blocks are loaded and stored at a time; neither waits for the other.

    A lookup is one question to the file system for the file's size, so that it sees what others have stored or
    removed: some ten microseconds on a local disk. Everything else happens in the threads. Failed stores are logged,
    the first of a row.

    Raises ValueError for memory that is not (slots, bytes) in one piece and writable, and for numbers that leave
    nothing to work with; OSError when there is no folder and none can be made.
    """

    def __init__(
        self,
        primary_kv_view: memoryview | None,
        tier_type: str,
        root_dir: str | PathLike[str],
        *,
        namespace: str = "",
        fsync: bool = True,
        max_bytes: int | None = None,
        n_read_threads: int = 8,
        n_write_threads: int = 4,
        operations: FileOperations | None = None,
    ) -> None:
        super().__init__(primary_kv_view, tier_type)
        if primary_kv_view is None or primary_kv_view.ndim < 2 or not primary_kv_view.nbytes:
            raise ValueError("primary_kv_view has to be memory of the shape (slots, bytes of a slot)")
        if primary_kv_view.readonly or not primary_kv_view.c_contiguous:
            raise ValueError("primary_kv_view has to be writable, and in one piece")
        if min(n_read_threads, n_write_threads) < 1:
            raise ValueError(f"{n_read_threads} threads to read and {n_write_threads} to write; give 1 or more of each")
        self._num_slots = len(primary_kv_view)
        self._slot_bytes = primary_kv_view.nbytes // self._num_slots
        if max_bytes is not None and max_bytes <= self._slot_bytes:
            raise ValueError(f"max_bytes is {max_bytes}, too little for one slot of {self._slot_bytes} bytes")
        # Rows of a view of two dimensions cannot be had, parts of a flat one can.
        self._memory = primary_kv_view.cast("B")
        self._files = BlockFiles(Path(root_dir), namespace, self._slot_bytes, fsync, max_bytes, operations)
        self._stores_fail = False
        self._loads = TransferThreads(f"{tier_type}-load", n_read_threads, self._load)
        self._stores = TransferThreads(f"{tier_type}-store", n_write_threads, self._store)

    def lookup(self, key: OffloadKey, req_context: ReqContext) -> LookupResult:
        return LookupResult.HIT if self._files.has(key) else LookupResult.MISS

    def submit_store(self, job: JobMetadata) -> None:
        """Raises ValueError for slots that are not one for each key, or do not exist; RuntimeError after `shutdown`."""
        self._check(job)
        self._stores.submit(job)

    def submit_load(self, job: JobMetadata) -> None:
        """Raises as `submit_store` does."""
        self._check(job)
        self._loads.submit(job)

    def get_finished_jobs(self) -> Iterable[JobResult]:
        return self._loads.take_finished() + self._stores.take_finished()

    def drain_jobs(self) -> None:
        self._loads.drain()
        self._stores.drain()

    def shutdown(self) -> None:
        """Give up what has not begun, wait for what has, end the threads and let go of the memory."""
        self._loads.shutdown()
        self._stores.shutdown()
        self._memory.release()

    def _check(self, job: JobMetadata) -> None:
        if len(job.keys) != len(job.block_ids):
            raise ValueError(f"job {job.job_id} has {len(job.keys)} keys and {len(job.block_ids)} slots")
        for block_id in job.block_ids:
            if not 0 <= block_id < self._num_slots:
                raise ValueError(f"job {job.job_id} names slot {block_id}; there are {self._num_slots}")

    # In the threads.

    def _slot(self, block_id: int) -> memoryview:
        return self._memory[block_id * self._slot_bytes : (block_id + 1) * self._slot_bytes]

    def _store(self, key: OffloadKey, block_id: int) -> bool:
        try:
            self._files.write(key, self._slot(block_id))
        except OSError as error:
            if not self._stores_fail:
                _logger.warning("stores into tier %s fail: %s", self.tier_type, error)
            self._stores_fail = True
            return False
        self._stores_fail = False
        return True

    def _load(self, key: OffloadKey, block_id: int) -> bool:
        try:
            self._files.read(key, self._slot(block_id))
        except FileNotFoundError:  # removed since it was looked up
            return False
        except OSError as error:
            _logger.warning("a load from tier %s failed: %s", self.tier_type, error)
            return False
        return True
