"""A baseline: another subject that makes the same calls. What they break there, too, is not the subject's own doing.

A process can hold one tree of vLLM, so the baseline lives in a child, ``python -m evictable.specs.baseline``. Both
sides say JSON, a line each: first its name, then the lines of a trace, answered with the laws that its calls break.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from attrs import define, frozen

from evictable.model import trace as traces
from evictable.model.calls import Call, Drained, Gauges, Loaded, Outcome, Raised, Stored
from evictable.specs import subjects
from evictable.specs.counterexamples import head_of, replay, setup_of
from evictable.specs.errors import LawlessDifference, UsageError
from evictable.specs.jobs import profile_of
from evictable.specs.session import Session
from evictable.specs.subjects.base import Setup, SubjectKind
from evictable.specs.subjects.children import Child, Garbled, Gone, Silent
from evictable.specs.subjects.stdio import Hung

STARTING = 60.0
"""Seconds that a baseline may take to be loaded."""
PATIENCE = 30.0
"""Seconds for all calls of a trace."""


@define(eq=False)
class Baseline:
    """Tells which laws some calls break on the subject of that name. Raises `UsageError` if it cannot."""

    name: str
    _child: Child

    @classmethod
    def start(cls, name: str, profile: str = "auto") -> Baseline:
        """``profile``: ``auto`` for the baseline's own, or a profile's name."""
        try:
            child = Child((sys.executable, "-m", "evictable.specs.baseline"))
        except OSError as error:
            raise UsageError(f"baseline {name}: no process can be started ({error.strerror})") from error
        baseline = cls(name, child)
        baseline._ask({"subject": name, "profile": profile, "path": sys.path}, STARTING)
        return baseline

    def breaks(self, kind: SubjectKind, discipline: str, setup: Setup, calls: Iterable[Call]) -> frozenset[str]:
        """The ids of the laws that ``calls``, made of ``kind``, break here at the first one that breaks any."""
        head = head_of(kind, setup, kind.profile(setup.policy), discipline)
        lines = list(traces.write(traces.Trace(head, tuple(traces.Entry(call) for call in calls))))
        return frozenset(self._ask({"trace": lines}, PATIENCE)["broken"])

    def parts(self, kind: SubjectKind, discipline: str, setup: Setup, calls: Sequence[Call]) -> bool:
        """Whether all but the last of ``calls`` come to something else here than on ``kind``, which they break no
        law of: an answer, a count, or an order."""
        head = head_of(kind, setup, kind.profile(setup.policy), discipline)
        _, played = replay(kind, setup, head.profile, calls[:-1], head)
        return bool(self._ask({"trace": list(traces.write(played)), "parts": True}, PATIENCE)["parts"])

    def refuse_setup(self, kind: SubjectKind, discipline: str, setup: Setup) -> None:
        """Raises `UsageError` if there is none of that setup here, where nothing would ever be broken."""
        head = head_of(kind, setup, kind.profile(setup.policy), discipline)
        self._ask({"trace": list(traces.write(traces.Trace(head, ()))), "built": True}, PATIENCE)

    def close(self) -> None:
        self._child.end()

    def _ask(self, question: Mapping[str, Any], patience: float) -> Mapping[str, Any]:
        try:
            answer: Mapping[str, Any] = json.loads(self._child.ask(json.dumps(question).encode() + b"\n", patience))
        except (Gone, Silent, Garbled, OSError) as error:
            raise UsageError(f"baseline {self.name}: {error}; leave out --baseline, or name another") from error
        if "error" in answer:
            self.close()
            raise UsageError(f"baseline {answer['error']}")
        return answer


@frozen
class _Judge:
    """The child's side."""

    kind: SubjectKind
    profile: str

    def laws_broken(self, lines: Sequence[str]) -> list[str]:
        """Of no setup that it cannot be built for, and by no call that no law is about."""
        made = self._play(traces.read(lines))
        return [] if made is None else [broken.law.id for broken in made[0].broken]

    def parts(self, lines: Sequence[str]) -> bool:
        trace = traces.read(lines)
        made = self._play(trace)
        if made is None:
            return True
        session, played = made
        both = zip(played.entries, trace.entries, strict=False)  # shorter if it breaks a law
        return bool(session.broken) or not all(_same_way(*entries) for entries in both)

    def _play(self, trace: traces.Trace) -> tuple[Session, traces.Trace] | None:
        """The calls of a trace, made here; ``None`` if they cannot be judged."""
        setup = setup_of(trace.head)
        try:
            profile = profile_of(self.profile, self.kind.profile(setup.policy))
            return replay(self.kind, setup, profile, trace.calls, trace.head)
        except (UsageError, LawlessDifference, Hung):
            return None

    def refusal(self, lines: Sequence[str]) -> str | None:
        """Why it cannot be built as the head of a trace says."""
        setup = setup_of(traces.read(lines).head)
        try:
            profile_of(self.profile, self.kind.profile(setup.policy))
            self.kind.make(setup)
        except UsageError as error:
            return " ".join(str(error).split())
        return None

    def answer(self, question: Mapping[str, Any]) -> Mapping[str, Any]:
        lines = question["trace"]
        if "parts" in question:
            return {"parts": self.parts(lines)}
        if "built" in question:
            refusal = self.refusal(lines)
            return {} if refusal is None else {"error": refusal}
        return {"broken": self.laws_broken(lines)}


def _same_way(entry: traces.Entry, other: traces.Entry) -> bool:
    """Whether a call came to the same with two managers, which need not choose the same slots and words."""
    if _said(entry.outcome) != _said(other.outcome):
        return False
    one, two = entry.state, other.state
    if one is None or two is None:
        return one is two
    if one.evictable is not None and two.evictable is not None and list(one.evictable) != list(two.evictable):
        return False
    return dict(one.ref_cnt) == dict(two.ref_cnt)


def _said(outcome: Outcome) -> Any:
    if isinstance(outcome, Stored):
        return outcome.keys_to_store, outcome.evicted_keys
    if isinstance(outcome, Drained):
        return [(event.removed, event.keys) for event in outcome.events]
    return type(outcome) if isinstance(outcome, (Raised, Loaded, Gauges)) else outcome


def main() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)  # what a subject prints is no answer

    def answer(record: Mapping[str, Any]) -> None:
        answers.write(json.dumps(record) + "\n")
        answers.flush()

    asked = json.loads(sys.stdin.readline())
    sys.path.extend(place for place in asked["path"] if place not in sys.path)
    try:
        judge = _Judge(subjects.load(asked["subject"]), asked["profile"])
    except UsageError as error:
        answer({"error": " ".join(str(error).split())})
        return
    answer({"subject": judge.kind.name})
    for line in sys.stdin:
        answer(judge.answer(json.loads(line)))


if __name__ == "__main__":
    main()
