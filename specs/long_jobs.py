"""Jobs over long traces: they are read where they are played, a line at a time."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TextIO

from attrs import evolve

from evictable.model import trace as traces
from evictable.specs import subjects
from evictable.specs.counterexamples import replay, setup_of, trace_of
from evictable.specs.errors import LawlessDifference, UsageError
from evictable.specs.jobs import Pace, Send, profile_of
from evictable.specs.judge import Broken, Judge
from evictable.specs.records import broken_record
from evictable.specs.session import model_of, outcome_of
from evictable.specs.shrink_long import LongShrinker

LAST_SHOWN = 12
"""Calls that are shown of a long trace that breaks a law."""


@contextmanager
def opened(path: Path) -> Iterator[TextIO]:
    """The file of a trace. What is wrong with it raises `UsageError`, naming file and line."""
    try:
        with path.open(encoding="utf-8") as lines:
            yield lines
    except traces.TraceError as error:
        raise UsageError(f"{path}: {error}") from error
    except UnicodeDecodeError as error:
        raise UsageError(f"{path}: not a text file; a trace is JSON lines in UTF-8") from error
    except OSError as error:
        raise UsageError(f"{path}: cannot be read ({error.strerror}); give a trace file") from error


def replay_file(job: Mapping[str, Any], send: Send) -> None:
    """Drive a subject with the calls of a file, in memory that does not grow with them."""
    kind = subjects.load(job["subject"])
    path = Path(job["file"])
    with opened(path) as lines:
        stream = traces.Stream.of(lines, may_be_cut=True)
        head = stream.head
        profile = profile_of(job["profile"], kind.profile(head.policy))
        setup = evolve(setup_of(head), events=head.events and kind.events)
        subject = kind.make(setup)
        judge = Judge(model_of(setup, profile, kind.admission), subject.snapshot)
        last: deque[traces.Entry] = deque(maxlen=LAST_SHOWN)
        broken: tuple[Broken, ...] = ()
        made, started = 0, time.monotonic()
        pace = Pace(last=started)
        for entry in stream:
            outcome = outcome_of(subject, entry.call)
            exchanges = subject.exchanges() if setup.tiers else ()
            last.append(traces.Entry(entry.call, outcome, None, entry.line, exchanges))
            made += 1
            try:
                broken = judge.observe(entry.call, outcome, exchanges)
            except LawlessDifference as error:
                error.where = f"{path}: line {entry.line}"
                raise
            if broken:
                break
            if made % 256 == 0 and pace.is_due():
                send({"kind": "progress", "calls": made})
    shown = evolve(head, subject=kind.name, profile=profile, events=setup.events)
    send(
        {
            "kind": "result",
            "calls": made,
            "seconds": time.monotonic() - started,
            "broken": [broken_record(one) for one in broken],
            "cut": stream.cut,
            "last": list(traces.write(traces.Trace(shown, tuple(last)))),
        }
    )


def shrink(job: Mapping[str, Any], send: Send) -> None:
    """Shrink a failing trace."""
    pace = Pace(last=time.monotonic())

    def make(setup: Any) -> Any:
        if pace.is_due():
            send({"kind": "progress", "tries": shrinker.tries})
        return loaded.make(setup)

    path = Path(job["file"])
    with opened(path) as lines:
        stream = traces.Stream.of(lines, may_be_cut=True)
        trace = traces.Trace(stream.head, tuple(stream))
    loaded = subjects.load(job["subject"])
    kind = evolve(loaded, make=make)
    profile = profile_of(job["profile"], kind.profile(trace.head.policy))
    setup = evolve(setup_of(trace.head), events=trace.head.events and kind.events)
    law = job["law"] or trace.head.law
    shrinker = LongShrinker(kind, profile, trace, setup, law)
    started = time.monotonic()
    found = shrinker.shrink()
    if found is None:
        send({"kind": "result", "calls": len(trace.entries), "trace": None, "cut": stream.cut})
        return
    result = trace_of(kind, found, shrinker.discipline)
    session, _ = replay(kind, found.setup, profile, found.calls, result.head)
    send(
        {
            "kind": "result",
            "calls": len(trace.entries),
            "cut": stream.cut,
            "seconds": time.monotonic() - started,
            "tries": shrinker.tries,
            "played": shrinker.played,
            "minimal": shrinker.minimal,
            "broken": [broken_record(one) for one in session.broken],
            "trace": list(traces.write(result)),
        }
    )
