"""Doing units of work: each in a process of its own, here or on a Dask cluster."""

from __future__ import annotations

import importlib
import threading
from collections.abc import Callable, Mapping
from concurrent.futures import FIRST_COMPLETED, Executor, Future, ThreadPoolExecutor, wait
from typing import Any

from attrs import define, field

from evictable.ci.jobs import Inconclusive, run_jobs
from evictable.model.policy_trace import read_either
from evictable.specs import subjects
from evictable.specs.campaign.units import Unit
from evictable.specs.errors import UsageError

SILENCE = 60.0
"""Seconds without a word after which a unit counts as hung."""
RETRIES = 2
"""How often a unit is done again that an executor has lost."""
_FIELDS = frozenset({"shape", "law", "fault", "call", "broken", "size", "shrunk", "trace"})

Result = Mapping[str, Any]


class Stopped(Exception):
    """Nobody waits for the unit any more."""


def perform(unit: Mapping[str, Any], stop: threading.Event | None = None) -> dict[str, Any]:
    """Do a unit, given as `Unit.record`, in a process of its own, and return its result as plain data.

    Whatever becomes of that process, there is a result: if it died or hung, one with a ``problem``. Raises `Stopped`
    when ``stop`` is set.
    """
    number = unit["number"]
    try:
        subjects.prepare(unit["place"]["subject"], lambda line: None)
    except UsageError as error:
        return {"unit": number, "problem": {"kind": "error", "message": str(error)}}
    last: dict[str, Any] = {}

    def on_record(index: int, record: Mapping[str, Any]) -> None:
        if record["kind"] == "result":
            last.update(record)
        elif record["kind"] in ("error", "crash") and not last:
            last.update({"unit": number, "problem": {"kind": record["kind"], "message": record["message"]}})
        elif record["kind"] == "hang":
            last.update({"unit": number, "problem": dict(record)})

    def idle() -> None:
        if stop is not None and stop.is_set():
            raise Stopped

    run_jobs([{"job": "fuzz", "unit": unit}], on_record, parallel=1, idle=idle, silence=SILENCE)
    return last


def checked(unit: Unit, result: Any) -> Result:
    """``result`` without what is no finding; that there was such a thing, or that it is no result, is a problem."""
    if not isinstance(result, Mapping) or result.get("unit") != unit.number or "problem" not in result:
        return {"unit": unit.number, "problem": _nonsense(unit, "what is no result of it")}
    findings = result.get("findings", ())
    wrong = {place: told for place, found in enumerate(findings) if (told := _wrong(found)) is not None}
    if not wrong:
        return dict(result)
    kept = [found for place, found in enumerate(findings) if place not in wrong]
    problem = result["problem"] or _nonsense(unit, next(iter(wrong.values())))
    return {**result, "findings": kept, "problem": problem}


def _nonsense(unit: Unit, what: str) -> dict[str, str]:
    return {"kind": "nonsense", "message": f"{unit.name} answered {what}"}


def _wrong(found: Any) -> str | None:
    """Why that is no finding."""
    if not isinstance(found, Mapping) or not set(found) >= _FIELDS:
        return "a finding without what belongs to one"
    try:
        read_either(found["trace"])
    except (TypeError, ValueError, IndexError) as error:
        return f"a finding that cannot be read ({error})"
    return None


@define
class Pool:
    """Units under way at an executor, and what comes back of them. Nothing that was submitted is lost."""

    executor: Executor
    size: int
    """Units that it does at the same time."""
    work: Callable[[Mapping[str, Any]], Any] = perform
    close: Callable[[], None] = lambda: None
    under_way: dict[Future[Any], Unit] = field(factory=dict)
    _losses: dict[int, int] = field(factory=dict)

    def submit(self, unit: Unit) -> None:
        self.under_way[self.executor.submit(self.work, unit.record())] = unit

    @property
    def has_room(self) -> bool:
        return len(self.under_way) < 2 * self.size  # one waits for each that is done

    def collect(self, seconds: float) -> list[tuple[Unit, Result]]:
        """What has come back, at the latest after so many seconds."""
        done = wait(self.under_way, timeout=seconds, return_when=FIRST_COMPLETED).done
        results = []
        for future in sorted(done, key=lambda one: self.under_way[one].number):
            unit = self.under_way.pop(future)
            error = future.exception()
            if error is None:
                results.append((unit, checked(unit, future.result())))
            elif self._losses.get(unit.number, 0) < RETRIES:
                self._losses[unit.number] = self._losses.get(unit.number, 0) + 1
                self.submit(unit)
            else:
                told = " ".join(f"{type(error).__name__} {error}".split())
                message = f"{unit.name} was lost {RETRIES + 1} times, the last time by {told}"
                results.append((unit, {"unit": unit.number, "problem": {"kind": "lost", "message": message}}))
        return results


def local_pool(workers: int) -> Pool:
    """Units in processes of this machine: a thread waits for each."""
    stop = threading.Event()
    executor = ThreadPoolExecutor(workers)

    def close() -> None:
        stop.set()
        executor.shutdown(wait=True, cancel_futures=True)

    return Pool(executor, workers, lambda unit: perform(unit, stop), close)


def dask_pool(address: str) -> Pool:
    """Units on a Dask cluster, whose workers have this very version. Raises `UsageError` if it cannot be had."""
    try:
        client_of: Any = importlib.import_module("distributed").Client
    except ImportError as error:
        raise UsageError("--dask needs dask.distributed: install evictable[dask]") from error
    try:
        client = client_of(address, timeout=10)
        size = sum(client.nthreads().values())
    except (OSError, ValueError, TimeoutError) as error:
        told = " ".join(str(error).split())
        raise UsageError(f"--dask {address}: no Dask scheduler answers there ({told})") from error
    if not size:
        client.close()
        raise Inconclusive(f"--dask {address}: the cluster has no workers")

    def close() -> None:
        for future in pool.under_way:
            future.cancel()
        client.close()

    pool = Pool(client.get_executor(pure=False), size, perform, close)
    return pool
