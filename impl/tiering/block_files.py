"""Blocks as files: each of them is there whole, or not at all.

A layout is a format version, a number of bytes a block and a namespace. It has a folder of its own in the root:

    NAME-LAYOUT/kk/KEY.block   a block; KEY is its key in hexadecimal, kk the first two digits
    NAME-LAYOUT/writing/       blocks that are being written, each locked by its writer

so that blocks of another layout are never seen. A block's file is, big-endian:

    8 bytes   magic
    4         format version
    4         length of the key
    8         length of the block
    16        digest of the layout
    ...       the key
    16        BLAKE2b of all that stands before and of the block
    ...       the block
"""

from __future__ import annotations

import errno
import os
import re
import struct
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from hashlib import blake2b
from pathlib import Path
from uuid import uuid4

from evictable.impl.base import OffloadKey
from evictable.impl.tiering.file_operations import FileOperations

_MAGIC = b"EVICTBLK"
_VERSION = 1
_FIXED = struct.Struct(">8sIIQ16s")
_DIGEST_BYTES = 16
_SUFFIX = ".block"

# One removal of old blocks makes room for this part of the bound, because it has to look at every file.
_STEP = 16


class BadBlock(OSError):
    """A file is not, whole and unchanged, what was written for its key."""


class BlockFiles:
    """The blocks of one layout; several threads and processes may use them at once.

    A file appears by being renamed to its name after it was written, and with `fsync` after it reached the storage:
    a process that is killed leaves nothing behind that could be taken for a block. What it was writing is removed by
    the next one that starts: only if nobody holds its lock, which ends with its writer.

    Raises OSError if the folder cannot be made or read.
    """

    def __init__(
        self,
        root: Path,
        namespace: str,
        block_bytes: int,
        fsync: bool = True,
        max_bytes: int | None = None,
        operations: FileOperations | None = None,
    ) -> None:
        self._layout = blake2b(repr((_VERSION, block_bytes, namespace)).encode(), digest_size=_DIGEST_BYTES).digest()
        name = re.sub("[^A-Za-z0-9]+", "-", namespace)[:40].strip("-") or "blocks"
        self.folder = root / f"{name}-{self._layout.hex()}"
        self._writing = self.folder / "writing"
        self._block_bytes = block_bytes
        self._fsync = fsync
        self._max_bytes = max_bytes
        self._room = 0  # bytes that may be written before the files have to be counted again
        self._under_way = 0  # bytes that are being written, and cannot be counted yet
        self._room_lock = threading.Lock()
        self._os = FileOperations() if operations is None else operations
        # Files that could not be read, nor be removed: as long as they are the same there is no use in trying again.
        self._unusable: dict[OffloadKey, tuple[int, ...]] = {}
        try:
            self._make_folder(self._writing)
            self._remove_leftovers()
        except OSError as error:
            raise OSError(error.errno, f"no place for blocks ({error.strerror})", str(self.folder)) from error

    def has(self, key: OffloadKey) -> bool:
        """Whether there is a file that looks right from outside."""
        try:
            status = self._os.status(self._path(key))
        except OSError:
            return False
        return status.st_size == self._file_bytes(key) and self._unusable.get(key) != _identity(status)

    def write(self, key: OffloadKey, block: memoryview) -> None:
        """Keep a block; if there is one of the key already, that one.

        Raises OSError when it cannot; then there is no block, or, if only its folder failed to sync, the whole one.
        """
        if not self.has(key):
            with self._room_for(self._file_bytes(key)):
                self._write(key, block)
            self._unusable.pop(key, None)

    def read(self, key: OffloadKey, block: memoryview) -> None:
        """Fill the block.

        Raises OSError if there is nothing to be read: FileNotFoundError, BadBlock (the file has been removed), or
        what the system says. Then the block may hold anything, and `has` answers False until the file is another.
        """
        path = self._path(key)
        status = self._os.status(path)
        try:
            file = self._os.open(path, os.O_RDONLY)
            try:
                status = self._os.status(file)
                self._read_checked(file, status, path, key, block)
                if self._max_bytes is not None:
                    with suppress(OSError):
                        self._os.touch(file)
            finally:
                self._os.close(file)
        except FileNotFoundError:
            raise
        except OSError as error:
            self._unusable[key] = _identity(status)
            if isinstance(error, BadBlock):
                with suppress(OSError):
                    self._remove_if(path, status)
                    self._unusable.pop(key, None)
            raise

    # Names and sizes.

    def _path(self, key: OffloadKey) -> Path:
        digits = key.hex()
        return self.folder.joinpath(digits[:2], digits + _SUFFIX)

    def _head(self, key: OffloadKey) -> bytes:
        """All that stands before the checksum."""
        return _FIXED.pack(_MAGIC, _VERSION, len(key), self._block_bytes, self._layout) + key

    def _file_bytes(self, key: OffloadKey) -> int:
        return _FIXED.size + len(key) + _DIGEST_BYTES + self._block_bytes

    # The steps of reading and writing.

    def _write(self, key: OffloadKey, block: memoryview) -> None:
        path = self._path(key)
        head = self._head(key)
        self._make_folder(path.parent)
        file, unfinished = self._create()
        try:
            self._write_all(file, memoryview(head + _checksum(head, block)))
            self._write_all(file, block)
            if self._fsync:
                self._os.sync(file)
            self._os.replace(unfinished, path)
        except BaseException:
            with suppress(OSError):
                self._os.remove(unfinished)
            raise
        finally:
            self._os.close(file)
        if self._fsync:
            self._sync_folder(path.parent)

    def _read_checked(self, file: int, status: os.stat_result, path: Path, key: OffloadKey, block: memoryview) -> None:
        if status.st_size != self._file_bytes(key):
            raise BadBlock(f"{path} has {status.st_size} bytes, and should have {self._file_bytes(key)}")
        head = self._head(key)
        found = bytearray(len(head) + _DIGEST_BYTES)
        if not (self._read_all(file, memoryview(found)) and self._read_all(file, block)):
            raise BadBlock(f"{path} was cut off")
        if not found.startswith(head):
            raise BadBlock(f"{path} belongs to another key or another layout")
        if not found.endswith(_checksum(head, block)):
            raise BadBlock(f"{path} has another checksum than its content")

    def _write_all(self, file: int, content: memoryview) -> None:
        while content:
            content = content[self._os.write(file, content) :]

    def _read_all(self, file: int, content: memoryview) -> bool:
        while content:
            count = self._os.read(file, content)
            if not count:
                return False
            content = content[count:]
        return True

    def _create(self) -> tuple[int, Path]:
        """A new file to write, locked."""
        while True:
            path = self._writing / uuid4().hex
            file = self._open_new(path)
            self._os.lock(file, wait=True)
            # Whoever starts just now may have taken it for a leftover before it was locked.
            if self._os.status(file).st_nlink:
                return file, path
            self._os.close(file)

    def _open_new(self, path: Path) -> int:
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL
        try:
            return self._os.open(path, flags)
        except FileNotFoundError:  # somebody has cleared the root
            self._make_folder(path.parent)
            return self._os.open(path, flags)

    def _make_folder(self, folder: Path) -> None:
        with suppress(FileExistsError):
            try:
                self._os.make_folder(folder)
            except FileNotFoundError:
                self._make_folder(folder.parent)
                self._os.make_folder(folder)
            if self._fsync:
                self._sync_folder(folder.parent)

    def _sync_folder(self, folder: Path) -> None:
        file = self._os.open(folder, os.O_RDONLY)
        try:
            self._os.sync(file)
        finally:
            self._os.close(file)

    # What is removed, and when.

    def _remove_leftovers(self) -> None:
        """Remove what processes that are no more were writing.

        Where the file system has no locks nothing is removed, lest a process be robbed that lives.
        """
        for name in self._os.names(self._writing):
            with suppress(OSError):
                file = self._os.open(self._writing / name, os.O_WRONLY)
                try:
                    if self._os.lock(file, wait=False):
                        self._os.remove(self._writing / name)
                finally:
                    self._os.close(file)

    def _remove_if(self, path: Path, status: os.stat_result) -> None:
        """Remove a file if it is still this one.

        Between the look and the removal another process may put a good one there. That is then lost, as it could be
        at any time: it costs a miss.
        """
        if _identity(self._os.status(path)) == _identity(status):
            self._os.remove(path)

    @contextmanager
    def _room_for(self, size: int) -> Iterator[None]:
        """Before that many bytes are written, remove the blocks that were stored or read longest ago, if need be."""
        if self._max_bytes is None:
            yield
            return
        if size > self._max_bytes:
            raise OSError(errno.ENOSPC, f"a block has {size} bytes, and there may be {self._max_bytes} in all")
        with self._room_lock:
            if self._room < size:
                # No more than a step, because other processes write as well.
                step = max(size, self._max_bytes // _STEP)
                self._trim(self._max_bytes - step - self._under_way)
                self._room = step
            self._room -= size
            self._under_way += size
        try:
            yield
        finally:
            with self._room_lock:
                self._under_way -= size

    def _trim(self, limit: int) -> None:
        """Remove the oldest blocks until they have at most `limit` bytes together."""
        blocks = sorted(self._blocks())
        total = sum(size for _, size, _, _ in blocks)
        for _, size, folder, name in blocks:
            if total <= limit:
                return
            with suppress(FileNotFoundError):  # another process was quicker; the bytes are free all the same
                self._os.remove(self.folder / folder / name)
            total -= size

    def _blocks(self) -> Iterator[tuple[int, int, str, str]]:
        """Of each block when it was stored or read last, its bytes, and where it is."""
        for folder in self._os.names(self.folder):
            if len(folder) != 2:
                continue
            for name in self._os.names(self.folder / folder):
                with suppress(FileNotFoundError):
                    if name.endswith(_SUFFIX):
                        status = self._os.status(self.folder / folder / name)
                        yield status.st_mtime_ns, status.st_size, folder, name


def _checksum(head: bytes, block: memoryview) -> bytes:
    digest = blake2b(head, digest_size=_DIGEST_BYTES)
    digest.update(block)
    return digest.digest()


def _identity(status: os.stat_result) -> tuple[int, ...]:
    """Tells a file from the one that replaces it."""
    return status.st_dev, status.st_ino, status.st_mtime_ns
