"""A process that answers each line with a line, in time or not at all."""

from __future__ import annotations

import contextlib
import ctypes
import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence

TAIL = 4096
"""Bytes of standard error that are kept."""
LONGEST_LINE = 64 * 1024 * 1024
"""Bytes; whoever says more without a line end is not waited for."""


class Gone(Exception):
    """The process has ended; the message says how, and its last words."""


class Garbled(Exception):
    """It said something that is no answer."""


class Silent(Exception):
    """It did not answer in time."""


class Child:
    """A running process. After any of these exceptions it has been ended.

    Raises `OSError` if the command cannot be started.
    """

    def __init__(self, words: Sequence[str], environment: Mapping[str, str] | None = None) -> None:
        """``environment`` is in place of this process's own."""
        # A session of its own: Ctrl-C in a terminal is for us, and would look like a crash.
        self._process = subprocess.Popen(
            words,
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            bufsize=0,
            start_new_session=True,
            preexec_fn=_die_with_parent if sys.platform == "linux" else None,
        )
        self._pipes = [pipe for pipe in (self._process.stdin, self._process.stdout, self._process.stderr) if pipe]
        self._in, self._out, self._err = (pipe.fileno() for pipe in self._pipes)
        for pipe in self._pipes:
            os.set_blocking(pipe.fileno(), False)
        self._poll = select.poll()
        self._poll.register(self._out, select.POLLIN)
        self._poll.register(self._err, select.POLLIN)
        self._heard = bytearray()
        self._said = bytearray()
        """The end of its standard error."""

    def ask(self, line: bytes, patience: float) -> bytes:
        """Say ``line``, which ends with a line end, and return the line that answers it.

        ``patience`` is in seconds. Raises `Gone`, `Garbled` and `Silent`.
        """
        if self._heard:
            raise self._ended(Garbled(f"it said {bytes(self._heard[:80])!r} without being asked"))
        until = time.monotonic() + patience
        rest = self._write(memoryview(line))
        while True:
            if rest:
                self._poll.register(self._in, select.POLLOUT)
            ready = self._poll.poll(max(0.0, until - time.monotonic()) * 1000)
            if rest:
                self._poll.unregister(self._in)
                rest = self._write(rest)
            if not ready:
                raise self._ended(Silent(f"no answer in {patience:g} s"))
            for pipe, _ in ready:
                if pipe == self._err:
                    self._listen()
                elif pipe == self._out:
                    piece = os.read(self._out, 1 << 16)
                    if not piece:
                        raise self._gone()
                    self._heard += piece
                    if b"\n" in piece:
                        answer, _, after = bytes(self._heard).partition(b"\n")
                        self._heard[:] = after
                        return answer
            if len(self._heard) > LONGEST_LINE:
                raise self._ended(Garbled(f"a line of more than {LONGEST_LINE >> 20} MB"))

    def end(self) -> None:
        """End it, whatever it is doing."""
        with contextlib.suppress(OSError):
            os.killpg(self._process.pid, signal.SIGKILL)  # and what it started
        self._process.wait()
        for pipe in self._pipes:
            pipe.close()

    def _write(self, rest: memoryview) -> memoryview:
        try:
            return rest[os.write(self._in, rest) :]
        except BlockingIOError:
            return rest
        except BrokenPipeError:
            return rest[:0]  # it has ended, or will be found silent

    def _listen(self) -> bool:
        """Take what it says on standard error; false when there is nothing more."""
        try:
            piece = os.read(self._err, 1 << 16)
        except BlockingIOError:
            return False
        if not piece:
            with contextlib.suppress(KeyError):
                self._poll.unregister(self._err)
        self._said += piece
        del self._said[:-TAIL]
        return bool(piece)

    def _gone(self) -> Gone:
        try:
            code = self._process.wait(1.0)
        except subprocess.TimeoutExpired:
            ended = "closed its standard output"
        else:
            ended = f"was ended by signal {-code}" if code < 0 else f"ended with {code}"
        while self._listen():
            pass
        self.end()
        said = self._said.decode("utf-8", "replace").strip().splitlines()
        # The last line often tells least: Node ends with its version.
        telling = next((one.strip() for one in reversed(said) if "Error" in one), said[-1].strip() if said else "")
        return Gone(f"the process {ended}" + (f": {telling}" if telling else ""))

    def _ended(self, error: Exception) -> Exception:
        self.end()
        return error


_SET_DEATH_SIGNAL = 1
_LIBC = ctypes.CDLL(None) if sys.platform == "linux" else None


def _die_with_parent() -> None:
    """A child that hangs notices nothing of the end of its parent, which may come by a signal."""
    assert _LIBC is not None
    _LIBC.prctl(_SET_DEATH_SIGNAL, signal.SIGKILL)
