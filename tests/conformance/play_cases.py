"""Plays every case on the subject that is named, which gets a process of its own, and prints what came of each.

Every call is made, also after a law has broken: only so is the harm seen. Then the calls are judged.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from evictable.model import trace as traces
from evictable.model.calls import Call, Outcome, Raised
from evictable.model.trace import Entry
from evictable.specs import subjects
from evictable.specs.counterexamples import setup_of
from evictable.specs.session import play
from evictable.specs.subjects.base import Subject, SubjectKind


def call(subject: Subject, made: Call) -> dict[str, Any]:
    try:
        outcome: Outcome = subject.perform(made)
    except Exception as error:
        outcome = Raised(type(error).__name__)
    return traces.entry_record(Entry(made, outcome, subject.snapshot(None)))


def what_came_of(kind: SubjectKind, path: Path) -> dict[str, Any]:
    trace = traces.read(path.read_text().splitlines())
    setup = setup_of(trace.head)
    subject = kind.make(setup)
    answers = [call(subject, made) for made in trace.calls]
    session = play(kind, setup, kind.profile(setup.policy), trace.calls)
    return {
        "answers": answers,
        "broken": [broken.law.id for broken in session.broken],
        "broken_at": len(session.records) if session.broken else None,
    }


if __name__ == "__main__":
    loaded = subjects.load(sys.argv[1])
    print(json.dumps({path.stem: what_came_of(loaded, path) for path in sorted(Path(sys.argv[2]).glob("*.jsonl"))}))
