"""Jobs in processes of their own, a few at a time, and what they report."""

from __future__ import annotations

import json
import os
import queue
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import IO, Any

from attrs import define, field

SILENCE = 120.0
"""Seconds without a word after which a job counts as hung: a subject may block for ever in a call."""

OnRecord = Callable[[int, Mapping[str, Any]], None]


@define
class _Running:
    process: subprocess.Popen[str]
    errors: IO[bytes]
    heard: float = field(factory=time.monotonic)
    ended: bool = False
    """It sent its last record: a result or an error."""
    hung: bool = False


def default_parallel() -> int:
    """As many jobs at a time as this process may use processors."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def run_jobs(
    payloads: Sequence[Mapping[str, Any]],
    on_record: OnRecord,
    *,
    parallel: int | None = None,
    idle: Callable[[], None] = lambda: None,
    silence: float = SILENCE,
) -> None:
    """Run every job; `on_record` gets (index of the job, record) in this thread, `idle` is called now and then.

    A job that dies or hangs ends with a record of kind ``crash`` and a ``message``. If this thread is
    interrupted, every job is ended before the exception goes on.
    """
    records: queue.Queue[tuple[int, str | None]] = queue.Queue()
    running: dict[int, _Running] = {}
    waiting = iter(enumerate(payloads))
    limit = parallel or default_parallel()
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
            if line is None:
                job = running.pop(index)
                _close(index, job, on_record)
            elif line:
                running[index].heard = time.monotonic()
                record = json.loads(line)
                running[index].ended |= record["kind"] in ("result", "error")
                on_record(index, record)
            for job in running.values():
                if time.monotonic() - job.heard > silence and not job.hung:
                    job.hung = True
                    job.process.kill()
            idle()


def _start(index: int, payload: Mapping[str, Any], records: queue.Queue[tuple[int, str | None]]) -> _Running:
    errors = tempfile.TemporaryFile()  # noqa: SIM115 - it lives as long as the process
    process = subprocess.Popen(
        [sys.executable, "-m", "evictable.specs.worker"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=errors,
        text=True,
        encoding="utf-8",
    )
    assert process.stdin is not None
    try:
        process.stdin.write(json.dumps(payload))
        process.stdin.close()
    except BrokenPipeError:
        pass  # it died at once; its exit code and standard error tell why
    reader = threading.Thread(target=_read, args=(index, process, records), daemon=True)
    reader.start()
    return _Running(process, errors)


def _read(index: int, process: subprocess.Popen[str], records: queue.Queue[tuple[int, str | None]]) -> None:
    assert process.stdout is not None
    for line in process.stdout:
        records.put((index, line))
    process.wait()
    records.put((index, None))


def _close(index: int, job: _Running, on_record: OnRecord) -> None:
    code = job.process.wait()
    if job.hung:
        on_record(index, {"kind": "crash", "message": "the subject gave no sign of life and was ended"})
    elif not job.ended:
        job.errors.seek(0)
        said = job.errors.read().decode("utf-8", "replace").strip().splitlines()
        last = said[-1] if said else "it said nothing"
        on_record(index, {"kind": "crash", "message": f"the process of the subject ended with {code}: {last}"})
    job.errors.close()


@contextmanager
def _ended_at_last(running: Mapping[int, _Running]) -> Iterator[None]:
    try:
        yield
    finally:
        for job in running.values():
            job.process.kill()
        for job in running.values():
            job.process.wait()
            job.errors.close()
