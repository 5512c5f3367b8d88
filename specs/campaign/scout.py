"""Watches the runs of a unit: what they reach that was not known, and what they break."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any

from attrs import define, field

from evictable.model import trace as traces
from evictable.model.calls import Call, Outcome, Raised
from evictable.specs.campaign.features import Bits, Branches, state_feature
from evictable.specs.counterexamples import head_of
from evictable.specs.records import broken_record
from evictable.specs.session import Session
from evictable.specs.shrink import Counterexample
from evictable.specs.subjects.base import Setup, SubjectKind

MOST_KEPT = 24
"""Traces that one unit may add to the corpus."""
LONGEST_KEPT = 120
"""Calls of a trace in the corpus."""


class OutOfMemory(BaseException):
    """The subject met the bound on memory. No engine may take it for an ordinary exception."""


def shape_of(law: str, fault: str | None, call: str) -> str:
    """What makes two findings at one place the same: the law and the call that breaks it, and what raised in that."""
    return f"{law} ({fault or call})"


@define
class ScoutedSession(Session):
    """A session that tells a scout of every call, and leaves out what the scout leaves out."""

    scout: Scout | None = None
    before_rest: int | None = None
    """How many calls were made when the run was brought to rest."""
    reached: dict[int, int] = field(factory=dict)
    """Features, and the number of the call that was the first to reach each."""

    def allows(self, call: Call) -> bool:
        return (self.scout is None or call.name not in self.scout.without) and super().allows(call)

    def step(self, call: Call) -> Outcome:
        before = self.records[-1].call.name if self.records else ""
        outcome = super().step(call)
        injected = self.records[-1].call.raises_in is not None
        if isinstance(outcome, Raised) and outcome.type == "MemoryError" and not injected:
            raise OutOfMemory
        feature = state_feature(before, call, outcome, self.judge.model, self.promises)
        self.reached.setdefault(feature, len(self.records))
        return outcome

    def finish(self) -> None:
        self.before_rest = len(self.records)
        super().finish()


@define
class Scout:
    """Of one unit. Everything that it takes in is plain data in the end."""

    kind: SubjectKind
    profile: str
    discipline: str
    without: frozenset[str]
    known: Bits
    settled: Mapping[str, int]
    branches: Branches = field(factory=Branches)
    new: Bits = field(factory=Bits)
    kept: list[list[str]] = field(factory=list)
    findings: dict[str, dict[str, Any]] = field(factory=dict)
    """By shape: the shortest run of this unit that ends so, as a record."""
    times: Counter[str] = field(factory=Counter)
    """By shape: runs that end so."""
    runs: int = 0
    exercised: set[str] = field(factory=set)
    rows: set[str] = field(factory=set)
    struck: bool = False

    def begin(self, kind: SubjectKind, setup: Setup, profile: str, discipline: str) -> ScoutedSession:
        session = ScoutedSession.begin(kind, setup, profile, discipline)
        assert isinstance(session, ScoutedSession)
        session.scout = self
        return session

    def take(self, session: Session) -> None:
        """A run has ended."""
        self.runs += 1
        self.exercised |= session.judge.exercised
        self.rows.update(session.judge.rows or ())
        self.struck |= bool(session.strikes.struck)
        if isinstance(session, ScoutedSession):
            self._keep(session)
        for broken in session.broken:
            found = Counterexample(
                broken.law.id, session.setup, session.profile, tuple(session.records), session.broken
            )
            self.find(found, shrunk=False)

    def find(self, found: Counterexample, *, shrunk: bool) -> None:
        """Keep a counterexample if it is news."""
        call = found.calls[-1].name
        shape = shape_of(found.law, found.fault, call)
        self.times[shape] += 1
        best = self.findings.get(shape)
        if not shrunk and len(found.records) >= self.settled.get(shape, len(found.records) + 1):
            return
        if best is None or list(found.size) < best["size"]:
            head = head_of(self.kind, found.setup, found.profile, self.discipline, found.law)
            entries = tuple(traces.Entry(one.call, one.outcome, None, 0, one.exchanges) for one in found.records)
            self.findings[shape] = {
                "shape": shape,
                "law": found.law,
                "fault": found.fault,
                "call": call,
                "broken": broken_record(found.difference_of()),
                "size": list(found.size),
                "shrunk": shrunk,
                "trace": list(traces.write(traces.Trace(head, entries))),
            }

    def _keep(self, session: ScoutedSession) -> None:
        """Into the corpus goes what has reached something, up to there, without the calls that brought it to rest."""
        everything = len(session.records)
        reached = dict.fromkeys(self.branches.seen, everything) | session.reached
        self.branches.seen.clear()
        fresh = {feature: call for feature, call in reached.items() if feature not in self.known}
        last = min(max(fresh.values(), default=0), session.before_rest or everything, LONGEST_KEPT)
        if last and len(self.kept) < MOST_KEPT:
            self.known.add(fresh)
            self.new.add(fresh)
            head = head_of(self.kind, session.setup, session.profile, self.discipline)
            entries = tuple(traces.Entry(record.call) for record in session.records[:last])
            self.kept.append(list(traces.write(traces.Trace(head, entries))))
