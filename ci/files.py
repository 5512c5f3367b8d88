"""Writing results: whole or not at all, and a full disk is one line.

What a subject said may hold half a surrogate pair, which is no UTF-8; it is written as its escape.
"""

from __future__ import annotations

import json
import os
import re
import tempfile
from collections.abc import Iterable
from pathlib import Path
from typing import IO, Any

from evictable.specs.errors import UsageError


def write_text(path: Path, lines: Iterable[str], *, durable: bool = False) -> None:
    """Put a file in place by a rename, so that a killed run leaves the old one; ``durable``: it is on the disk then.

    Raises `UsageError`.
    """
    try:
        if path.exists() and not path.is_file():
            # A device or a pipe: a rename would put a file in its place.
            with path.open("w", encoding="utf-8", errors="backslashreplace") as file:
                _write(file, lines)
            return
        target = path.resolve()  # a link stays a link
        if not target.parent.exists():
            target.parent.mkdir(parents=True, exist_ok=True)
        handle, name = tempfile.mkstemp(prefix=f".{target.name}.", dir=target.parent)
        try:
            with os.fdopen(handle, "w", encoding="utf-8", errors="backslashreplace") as file:
                _write(file, lines)
                if durable:
                    file.flush()
                    os.fsync(file.fileno())
            Path(name).chmod(0o644)
            Path(name).replace(target)
        except BaseException:
            Path(name).unlink(missing_ok=True)
            raise
    except OSError as error:
        raise _unwritable(path, error) from error


def append_text(path: Path, lines: Iterable[str]) -> None:
    """Add lines to a file that others add to, too. Raises `UsageError`."""
    try:
        with path.open("a", encoding="utf-8", errors="backslashreplace") as file:
            _write(file, lines)
    except OSError as error:
        raise _unwritable(path, error) from error


def _unwritable(path: Path, error: OSError) -> UsageError:
    return UsageError(f"{path}: cannot be written ({error.strerror}); name a folder with space to write in")


def _write(file: IO[str], lines: Iterable[str]) -> None:
    file.writelines(line + "\n" for line in lines)


def write_json(path: Path, value: Any) -> None:
    """Raises `UsageError`."""
    write_text(path, [json.dumps(value, indent=1)])


def file_name(*parts: str) -> str:
    """A name for a file from parts that may hold any character."""
    return "-".join(re.sub(r"[^A-Za-z0-9._]+", "-", part).strip("-") for part in parts)
