"""Jobs in processes of their own, a few at a time, and what they report."""

from __future__ import annotations

import json
import os
import queue
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from attrs import define

from evictable.specs.errors import UsageError

SILENCE = 120.0
"""Seconds without a word after which a job counts as hung: a subject may block for ever in a call."""
HEARD = 5.0
"""Seconds without a word after which nothing more is to come of a process that has ended."""
TAIL = 4096
"""Bytes of standard error that are kept: a subject may print without end."""

# Without -P a file in the working directory would hide one of the standard library by the same name.
WORKER = (sys.executable, *("-O",) * sys.flags.optimize, "-P", "-m", "evictable.specs.worker")

INTERRUPTED = 130
CUT_SHORT = "interrupted: this is what was found so far"

OnRecord = Callable[[int, Mapping[str, Any]], None]
LAST_WORDS = ("result", "error", "hang", "unexplained", "left out")
"""What a job's own last record may be."""
ENDINGS = (*LAST_WORDS, "crash")
"""What the last record of a job may be."""


class Inconclusive(Exception):
    """The subject's process died or hung, so that there is no verdict; the message is one line."""


@define
class _Running:
    process: subprocess.Popen[str]
    said: bytearray
    """The end of its standard error."""
    listener: threading.Thread
    silent: float = 0.0
    """Seconds since its last word."""
    ended: bool = False
    """It sent its last record: a result or an error."""

    @property
    def is_gone(self) -> bool:
        """Its process has ended, and what it said has been heard."""
        return (self.ended or self.silent > HEARD) and self.process.poll() is not None


def default_parallel() -> int:
    """As many jobs at a time as this process may use processors."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def run_job(
    payload: Mapping[str, Any], on_progress: Callable[[Mapping[str, Any]], None] = lambda record: None
) -> Mapping[str, Any]:
    """Run one job and return its result.

    Raises `UsageError` for what the job calls an error, and `Inconclusive` if it dies, hangs, or meets what no law
    explains.
    """
    last: Mapping[str, Any] = {}

    def on_record(index: int, record: Mapping[str, Any]) -> None:
        nonlocal last
        last = record
        if record["kind"] == "progress":
            on_progress(record)

    run_jobs([payload], on_record)
    if last["kind"] == "error":
        raise UsageError(last["message"])
    if last["kind"] in ("crash", "hang", "unexplained"):
        raise Inconclusive(last["message"])
    return last


def run_jobs(
    payloads: Sequence[Mapping[str, Any]],
    on_record: OnRecord,
    *,
    parallel: int | None = None,
    idle: Callable[[], None] = lambda: None,
    silence: float | None = None,
) -> None:
    """Run every job; `on_record` gets (index of the job, record) in this thread, `idle` is called now and then.

    A job that dies, or hangs for ``silence`` seconds (default: `SILENCE`), ends with a record of kind ``crash``
    and a ``message``. If this thread is interrupted, every job is ended before the exception goes on.
    """
    records: queue.Queue[tuple[int, str | None]] = queue.Queue()
    running: dict[int, _Running] = {}
    waiting = iter(enumerate(payloads))
    limit = parallel or default_parallel()
    silence = SILENCE if silence is None else silence
    before = time.monotonic()
    with _ended_at_last(running):
        while True:
            while len(running) < limit and (following := next(waiting, None)) is not None:
                index, payload = following
                running[index] = _start(index, payload, records)
                on_record(index, {"kind": "start"})
            if not running:
                return
            try:
                index, line = records.get(timeout=0.2)
            except queue.Empty:
                line, index = "", -1
            if index not in running:
                pass  # nothing was said, or by a job that counts as hung already
            elif line is None:
                _close(index, running.pop(index), on_record)
            else:
                record = json.loads(line)
                running[index].silent = 0.0
                running[index].ended |= record["kind"] in LAST_WORDS
                on_record(index, record)
            now = time.monotonic()
            for index, job in list(running.items()):
                job.silent += min(now - before, 1.0)  # more, and it is this process that was stopped for a while
                # Its output need not end with it: a child of the subject may keep that open.
                if job.is_gone:
                    del running[index]
                    _close(index, job, on_record)
                elif job.silent > silence:
                    del running[index]
                    job.process.kill()
                    _close(index, job, on_record, hung=True)
            before = now
            idle()


def _start(index: int, payload: Mapping[str, Any], records: queue.Queue[tuple[int, str | None]]) -> _Running:
    process = subprocess.Popen(
        WORKER,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        encoding="utf-8",
    )
    assert process.stdin is not None
    said = bytearray()
    listener = threading.Thread(target=_listen, args=(process, said), daemon=True)
    listener.start()
    try:
        process.stdin.write(json.dumps(payload))
        process.stdin.close()
    except BrokenPipeError:
        pass  # it died at once; its exit code and standard error tell why
    threading.Thread(target=_read, args=(index, process, records), daemon=True).start()
    return _Running(process, said, listener)


def _listen(process: subprocess.Popen[str], said: bytearray) -> None:
    assert process.stderr is not None
    while piece := os.read(process.stderr.fileno(), 65536):
        said += piece
        del said[:-TAIL]


def _read(index: int, process: subprocess.Popen[str], records: queue.Queue[tuple[int, str | None]]) -> None:
    assert process.stdout is not None
    for line in process.stdout:
        if line.endswith("\n"):  # a process that is killed may leave half a line
            records.put((index, line))
    process.wait()
    records.put((index, None))


def _close(index: int, job: _Running, on_record: OnRecord, *, hung: bool = False) -> None:
    code = job.process.wait()
    if not job.ended and hung:
        on_record(index, {"kind": "crash", "message": "the subject gave no sign of life and was ended"})
    elif not job.ended:
        job.listener.join(1.0)  # not for ever: a child of the subject may keep its end open
        said = job.said.decode("utf-8", "replace").strip().splitlines()
        last = said[-1] if said else "it said nothing"
        on_record(index, {"kind": "crash", "message": f"the process of the subject {_ended_with(code)}: {last}"})


def _ended_with(code: int) -> str:
    return f"was ended by signal {-code} ({signal.strsignal(-code)})" if code < 0 else f"ended with {code}"


@contextmanager
def _ended_at_last(running: Mapping[int, _Running]) -> Iterator[None]:
    try:
        yield
    finally:
        for job in running.values():
            job.process.kill()
        for job in running.values():
            job.process.wait()
