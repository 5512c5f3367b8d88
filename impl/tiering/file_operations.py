"""What block files ask of the operating system, one method for each operation."""

from __future__ import annotations

import fcntl
import os
from pathlib import Path


class FileOperations:
    """The file system. Every method raises OSError.

    `BlockFiles` goes through this class for everything that it does to files, so that a test can count operations,
    make one fail, or end the process before any of them.
    """

    def open(self, path: Path, flags: int) -> int:
        """A descriptor; of a folder too, if it is opened for reading."""
        return os.open(path, flags, 0o666)

    def close(self, file: int) -> None:
        os.close(file)

    def read(self, file: int, block: memoryview) -> int:
        """Fill the block from its start with what follows in the file; how many bytes that was, 0 at the end."""
        return os.readv(file, [block])

    def write(self, file: int, block: memoryview) -> int:
        """Append a part of the block, from its start; how many bytes that was."""
        return os.write(file, block)

    def sync(self, file: int) -> None:
        """Return when what was written has reached the storage; of a folder, which names it holds."""
        os.fsync(file)

    def lock(self, file: int, wait: bool) -> bool:
        """Take the file's lock until it is closed, also by the end of the process.

        False if there is none to be had: another holds it and we do not `wait`, or the file system has no locks.
        """
        try:
            fcntl.flock(file, fcntl.LOCK_EX if wait else fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            return False
        return True

    def status(self, file: int | Path) -> os.stat_result:
        return os.fstat(file) if isinstance(file, int) else file.stat()

    def touch(self, file: int) -> None:
        """Make now the time of its last change."""
        os.utime(file)

    def names(self, folder: Path) -> list[str]:
        """What the folder holds, in no particular order."""
        return [path.name for path in folder.iterdir()]

    def make_folder(self, path: Path) -> None:
        path.mkdir()

    def replace(self, path: Path, target: Path) -> None:
        """Rename, over what may be there."""
        path.replace(target)

    def remove(self, path: Path) -> None:
        path.unlink()
