"""`evictable replay`: the calls of a trace, judged again."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from itertools import chain, islice
from pathlib import Path
from typing import Any

from attrs import evolve
from rich.progress import Progress, TextColumn, TimeElapsedColumn

from evictable.ci.jobs import run_job
from evictable.ci.replay_policy import is_policy_level, replay_policy
from evictable.ci.report import console, count_calls, show_broken, show_trace
from evictable.model.trace import AnotherTrace, Entry, Stream, Trace, read, read_each, write
from evictable.specs import subjects
from evictable.specs.counterexamples import judge_recorded
from evictable.specs.errors import UsageError
from evictable.specs.judge import Broken
from evictable.specs.long_jobs import LAST_SHOWN, opened
from evictable.specs.recorded import RecordedJudge, profile_of_trace
from evictable.specs.records import broken_record

LONG = 2000
"""Calls above which a trace is not shown as a whole, nor held in memory."""
MOST_NAMED = 20
"""Traces of a file whose numbers are told."""


def run_replay(path: Path, subject: str | None, profile: str) -> int:
    """Print the calls and what they break; 1 if they break a law, else 0.

    Raises `UsageError`, `Inconclusive` and `LawlessDifference`.
    """
    if is_policy_level(path):
        return replay_policy(path, subject, profile)
    try:
        return _replay_one(path, subject, profile)
    except UsageError as error:
        if not isinstance(error.__cause__, AnotherTrace):
            raise
        return _replay_each(path, subject, profile)


def _replay_one(path: Path, subject: str | None, profile: str) -> int:
    with opened(path) as lines:
        stream = Stream.of(lines, may_be_cut=True)
        first = tuple(islice(stream, LONG + 1))
        if not first:
            raise UsageError(f"{path}: holds no call; a trace has a head line and one line for each call")
        if len(first) > LONG:
            if subject is not None:
                return _long_on(path, subject, profile)
            return _long_as_recorded(path, stream, chain(first, stream), profile)
    _tell_cut(path, stream.cut)
    trace = Trace(stream.head, first)
    out = console()
    if subject is None:
        broken, trace = _as_recorded(path, trace, profile)
    else:
        ((broken, trace),) = _each_on(subject, (trace,), profile)
    show_trace(out, trace)
    show_broken(out, broken)
    if not broken:
        out.print(f"{count_calls(len(trace.entries))} conform{'s' * (len(trace.entries) == 1)}", markup=False)
    return 1 if broken else 0


def _replay_each(path: Path, subject: str | None, profile: str) -> int:
    """Several traces in a file, one after the other: the first that breaks a law is shown."""
    with opened(path) as lines:
        traces = list(read_each(lines))
    played = (
        [_as_recorded(path, trace, profile) for trace in traces]
        if subject is None
        else _each_on(subject, traces, profile)
    )
    out = console()
    failed = [number for number, (broken, _) in enumerate(played, 1) if broken]
    for number in failed[:1]:
        broken, trace = played[number - 1]
        out.print(
            f"trace {number} of {len(traces):,}, from line {traces[number - 1].entries[0].line - 1:,}", markup=False
        )
        show_trace(out, trace)
        show_broken(out, broken)
    made = count_calls(sum(len(trace.entries) for trace in traces))
    more = f": {', '.join(map(str, failed))}" if 1 < len(failed) <= MOST_NAMED else ""
    verdict = f"{len(failed):,} break a law{more}" if failed else "all conform"
    out.print(f"{len(traces):,} traces, {made}: {verdict}", markup=False)
    return 1 if failed else 0


def _tell_cut(path: Path, line: int | None) -> None:
    if line is not None:
        console(stderr=True).print(f"{path}: line {line}, the last, is cut off and left out", markup=False)


def _long_as_recorded(path: Path, stream: Stream, entries: Iterable[Entry], profile: str) -> int:
    with _naming(path):
        head = evolve(stream.head, profile=profile_of_trace(stream.head, profile))
    judge = RecordedJudge(head, head.profile)
    last: deque[Entry] = deque(maxlen=LAST_SHOWN)
    broken: tuple[Broken, ...] = ()
    made, started = 0, time.monotonic()
    with _counting(path) as tell, _naming(path):
        for entry in entries:
            last.append(entry)
            made += 1
            broken = judge.observe(entry)
            if broken:
                break
            if made % 1024 == 0:
                tell(made)
    _tell_cut(path, stream.cut)
    seconds = time.monotonic() - started
    return _report_long(Trace(head, tuple(last)), made, seconds, [broken_record(one) for one in broken])


def _long_on(path: Path, subject: str, profile: str) -> int:
    name = subjects.prepare(subject, lambda line: console(stderr=True).print(line, markup=False))
    payload = {"job": "replay-file", "subject": name, "file": str(path), "profile": profile}
    with _counting(path) as tell:
        result = run_job(payload, lambda record: tell(record["calls"]))
    _tell_cut(path, result["cut"])
    return _report_long(read(result["last"]), result["calls"], result["seconds"], result["broken"])


@contextmanager
def _counting(path: Path) -> Iterator[Callable[[int], None]]:
    """Shows on a terminal how many calls have been judged."""
    err = console(stderr=True)
    progress = Progress(
        TextColumn("{task.description}: {task.completed:,} calls"), TimeElapsedColumn(), console=err, transient=True
    )
    bar = progress.add_task(str(path), total=None)
    with progress if err.is_terminal else nullcontext():
        yield lambda made: progress.update(bar, completed=made)


def _report_long(last: Trace, made: int, seconds: float, broken: Sequence[Mapping[str, Any]]) -> int:
    out = console()
    if broken:
        show_trace(out, last, f"the last of {made:,}")
        show_broken(out, broken)
    rate = made / seconds if seconds else 0.0
    verdict = f"the last breaks {', '.join(one['law'] for one in broken)}" if broken else "all conform"
    out.print(f"{count_calls(made)} judged in {seconds:.1f} s ({rate:,.0f} calls/s): {verdict}", markup=False)
    return 1 if broken else 0


@contextmanager
def _naming(path: Path) -> Iterator[None]:
    """Puts the file before what is wrong with it."""
    try:
        yield
    except UsageError as error:
        raise UsageError(f"{path}: {error}") from error


def _as_recorded(path: Path, trace: Trace, profile: str) -> tuple[list[Mapping[str, Any]], Trace]:
    with _naming(path):
        wanted = profile_of_trace(trace.head, profile)
        broken = judge_recorded(trace, wanted)
    return [broken_record(one) for one in broken], evolve(trace, head=evolve(trace.head, profile=wanted))


def _each_on(subject: str, traces: Sequence[Trace], profile: str) -> list[tuple[list[Mapping[str, Any]], Trace]]:
    name = subjects.prepare(subject, lambda line: console(stderr=True).print(line, markup=False))
    payload = {"job": "replay", "subject": name, "profile": profile, "traces": [list(write(one)) for one in traces]}
    return [(list(played["broken"]), read(played["trace"])) for played in run_job(payload)["replays"]]
