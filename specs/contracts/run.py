"""The engine `crosshair` of `evictable prove`: every contract, two processes at a time."""

from __future__ import annotations

import json
import os
import queue
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from importlib.util import find_spec
from typing import Any

from attrs import frozen

from evictable.specs.contracts.copies import Edit
from evictable.specs.contracts.registry import CONTRACTS, Contract
from evictable.specs.errors import UsageError
from evictable.specs.mutants.mutant import Mutant
from evictable.specs.theorems import INCONCLUSIVE, Result, Theorem

ENGINE = "crosshair"
PROCESSES = 2
GRACE = 60.0
"""Seconds by the clock beyond a contract's limit, which is in processor time, before its process is ended."""


@frozen
class Job:
    """A contract to be examined, as it stands or on a copy with edits."""

    contract: Contract
    edits: tuple[Edit, ...] = ()
    copy: str = ""


def theorems(full: bool = False) -> tuple[Theorem, ...]:
    """What `prove` will decide, in the same order."""
    return tuple(theorem_of(contract) for contract in chosen(full))


def theorem_of(contract: Contract) -> Theorem:
    return Theorem(contract.name, contract.sentence, ENGINE, contract.bound)


def chosen(full: bool = False, subject: Mutant | None = None) -> tuple[Contract, ...]:
    """The quick contracts, or all; of a mutant of the built-in manager only those that call it."""
    return tuple(
        contract for contract in CONTRACTS if (full or not contract.slow) and (subject is None or contract.of_impl)
    )


def prove(subject: Mutant | None = None, *, full: bool = False, processes: int = PROCESSES) -> Iterator[Result]:
    """Examine every contract, on the built-in manager or on one of its mutants; results in the order they come in.

    Closing the generator ends the processes. Raises `UsageError` if CrossHair is not installed.
    """
    edits: tuple[Edit, ...] = ()
    if subject is not None:
        edits = (Edit(f"impl.{subject.module}" if subject.module else "impl", subject.old, subject.new),)
    jobs = [Job(contract, edits, "" if subject is None else subject.name) for contract in chosen(full, subject)]
    for _, result in examine(jobs, processes):
        yield result


def examine(jobs: Sequence[Job], processes: int = PROCESSES) -> Iterator[tuple[Job, Result]]:
    """The verdict on each job, in the order they come in. Closing the generator ends the processes.

    Raises `UsageError` if CrossHair is not installed.
    """
    if find_spec("crosshair") is None:
        raise UsageError("contracts need CrossHair, which is not installed: pip install 'evictable[prove]'")
    waiting: queue.SimpleQueue[Job] = queue.SimpleQueue()
    for job in jobs:
        waiting.put(job)
    done: queue.SimpleQueue[tuple[Job, Result]] = queue.SimpleQueue()
    stop = threading.Event()
    workers = [_Worker(waiting, done, stop) for _ in range(min(processes, len(jobs)))]
    for worker in workers:
        worker.start()
    try:
        for _ in jobs:
            yield done.get()
    finally:
        stop.set()
        for worker in workers:
            worker.kill()
        for worker in workers:
            worker.join()


class _Worker(threading.Thread):
    """Hands jobs to one process after the other; a process that overruns or dies is replaced."""

    def __init__(
        self, waiting: queue.SimpleQueue[Job], done: queue.SimpleQueue[tuple[Job, Result]], stop: threading.Event
    ) -> None:
        super().__init__(daemon=True)
        self._waiting = waiting
        self._done = done
        self._stop_asked = stop
        self._process: subprocess.Popen[str] | None = None

    def run(self) -> None:
        try:
            while not self._stop_asked.is_set():
                try:
                    job = self._waiting.get_nowait()
                except queue.Empty:
                    return
                try:
                    answer = self._ask(job)
                except Exception as error:  # or the one who waits for this result would wait for ever
                    answer = {"verdict": INCONCLUSIVE, "seconds": 0.0, "detail": f"{type(error).__name__}: {error}"}
                self._done.put((job, Result(theorem_of(job.contract), **answer)))
        finally:
            self._end()

    def _ask(self, job: Job) -> dict[str, Any]:
        if self._process is None or self._process.poll() is not None:
            self._end()
            self._process = _start()
            if self._stop_asked.is_set():  # too late to be killed by who asked
                raise RuntimeError("stopped")
        process = self._process
        assert process.stdin is not None
        assert process.stdout is not None
        edits = [[edit.module, edit.old, edit.new] for edit in job.edits]
        seconds = job.contract.seconds
        asked = {"contract": job.contract.name, "edits": edits, "copy": job.copy, "seconds": seconds}
        # The clock runs on where others use the processor too; what counts is inside the process.
        limit = 4 * seconds + GRACE
        alarm = threading.Timer(limit, process.kill)
        alarm.start()
        try:
            process.stdin.write(json.dumps(asked) + "\n")
            process.stdin.flush()
            line = process.stdout.readline()
        except OSError:
            line = ""
        finally:
            alarm.cancel()
        if line:
            answer: dict[str, Any] = json.loads(line)
            return answer
        code = process.wait()
        over = f"no answer within {limit:g} s" if code < 0 else "its process ended"
        return {"verdict": INCONCLUSIVE, "seconds": 0.0, "detail": f"{over} (exit code {code})"}

    def kill(self) -> None:
        """End the process that is at work, from another thread."""
        process = self._process
        if process is not None:
            process.kill()

    def _end(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.communicate()
            self._process = None


def _start() -> subprocess.Popen[str]:
    # Coverage would trace what CrossHair traces.
    environment = {name: value for name, value in os.environ.items() if not name.startswith("COVERAGE_")}
    return subprocess.Popen(
        (sys.executable, "-m", "evictable.specs.contracts.worker"),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,  # nothing may come between the lines of a table
        text=True,
        env=environment,
    )
