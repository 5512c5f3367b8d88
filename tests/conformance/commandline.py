"""Running the installed command: quietly, or on a terminal."""

from __future__ import annotations

import fcntl
import os
import pty
import struct
import subprocess
import sysconfig
import termios
from collections.abc import Callable
from pathlib import Path

SCRIPT = Path(sysconfig.get_path("scripts"), "evictable")

Run = Callable[..., subprocess.CompletedProcess[str]]
"""What the fixture `evictable` is."""


def on_terminal(folder: Path, *arguments: object, both: bool) -> tuple[int, str, str]:
    """Exit code, what a terminal of 80 columns got, and standard output if that is not the terminal too."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))
    environment = {name: value for name, value in os.environ.items() if name not in ("COLUMNS", "NO_COLOR")}
    process = subprocess.Popen(
        [SCRIPT, *map(str, arguments)],
        stdin=theirs,
        stdout=theirs if both else subprocess.PIPE,
        stderr=theirs,
        cwd=folder,
        env={**environment, "TERM": "xterm-256color"},
    )
    os.close(theirs)
    shown = b""
    while piece := _read(ours):
        shown += piece
    os.close(ours)
    printed = process.stdout.read() if process.stdout is not None else b""
    return process.wait(), shown.decode(), printed.decode()


def _read(terminal: int) -> bytes:
    try:
        return os.read(terminal, 65536)
    except OSError:  # so Linux says that nobody holds the other side any more
        return b""
