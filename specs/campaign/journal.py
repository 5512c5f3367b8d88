"""The journal of a campaign: one line for each unit that is done, on the disk before anybody is told.

A campaign is what its journal says: whatever else lies in the folder is made of it. The line holds all that came of
a unit, so a unit is either done with everything that it found, or not done. A process that is killed while it
writes leaves a line without an end, which the next one cuts off; that unit is done again.
"""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from attrs import define, field

from evictable.specs.errors import UsageError

JOURNAL = "journal.jsonl"
HEAD = "campaign.json"
_FIELDS = (("unit", int), ("place", int), ("elapsed", (int, float)), ("result", dict))
"""What every entry has."""


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Hold the folder; the lock goes away with the process, however it ends. Raises `UsageError` if another has it."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        handle = os.open(folder / ".lock", os.O_CREAT | os.O_RDWR, 0o644)
    except OSError as error:
        raise UsageError(f"{folder}: cannot be written ({error.strerror}); give another --dir") from error
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield
    except BlockingIOError as error:
        raise UsageError(f"{folder}: another campaign runs there; wait for it, or give another --dir") from error
    finally:
        os.close(handle)


@define
class Journal:
    """What is done, in the order in which it was."""

    folder: Path
    _end: int = 0
    """Bytes that are whole lines."""
    _file: int | None = field(default=None, init=False)

    @property
    def path(self) -> Path:
        return self.folder / JOURNAL

    def read(self) -> Iterator[Mapping[str, Any]]:
        """Every line. A last one without an end is not one. Raises `UsageError` for one that cannot be read."""
        self._end = 0
        try:
            with self.path.open("rb") as lines:
                for number, line in enumerate(lines, 1):
                    if not line.endswith(b"\n"):
                        return
                    yield self._entry(number, line)
                    self._end += len(line)
        except FileNotFoundError:
            return
        except OSError as error:
            raise UsageError(f"{self.path}: cannot be read ({error.strerror}); give another --dir") from error

    def _entry(self, number: int, line: bytes) -> Mapping[str, Any]:
        try:
            entry = json.loads(line)
            if isinstance(entry, dict) and all(isinstance(entry[name], its) for name, its in _FIELDS):
                return entry
        except (ValueError, KeyError):
            pass
        raise UsageError(f"{self.path}: line {number} is no entry of a journal; give another --dir, or take it out")

    def append(self, entry: Mapping[str, Any]) -> None:
        """Put a line on the disk. Raises `UsageError` if it cannot be, and then leaves the journal as it was."""
        line = json.dumps(entry).encode() + b"\n"
        try:
            if self._file is None:
                self._file = os.open(self.path, os.O_CREAT | os.O_RDWR, 0o644)
                os.ftruncate(self._file, self._end)
            written = 0
            while written < len(line):
                written += os.pwrite(self._file, line[written:], self._end + written)
            os.fsync(self._file)
        except OSError as error:
            raise UsageError(
                f"{self.path}: cannot be written ({error.strerror}); make room and run the same command again: what "
                "is in it is kept"
            ) from error
        self._end += len(line)

    def close(self) -> None:
        if self._file is not None:
            os.close(self._file)
            self._file = None
