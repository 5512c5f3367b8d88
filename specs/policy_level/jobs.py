"""The jobs at policy level, for a process of their own, and traces as evidence."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from evictable.model.orders import ORDERS
from evictable.model.policy import PolicyModel
from evictable.model.policy_trace import (
    PolicyEntry,
    PolicyHead,
    PolicyTrace,
    read_policy_trace,
    write_policy_trace,
)
from evictable.model.trace import NOT_RECORDED
from evictable.specs.callers.disciplines import CARELESS
from evictable.specs.errors import UsageError
from evictable.specs.jobs import Pace, Send, profile_of
from evictable.specs.policy_level.judge import PolicyBreach, judge
from evictable.specs.policy_level.search import PolicyFinding, PolicySearch
from evictable.specs.policy_level.session import PolicySession, consequence
from evictable.specs.subjects.policies import PolicyKind, load_policy


def check(job: Mapping[str, Any], send: Send) -> None:
    """Search one policy under one discipline."""
    examine(load_policy(job["subject"], job["policy"]), job, send)


def examine(kind: PolicyKind, job: Mapping[str, Any], send: Send) -> None:
    """The same of a policy that is loaded."""
    profile = profile_of(job["profile"], kind.profile)
    send({"kind": "loaded", "profile": profile, "inside": kind.make(1).inside})
    pace = Pace()

    def alive() -> None:
        if pace.is_due():
            send({"kind": "progress", "steps": search.steps, "seconds": search.seconds})

    def tell(finding: PolicyFinding) -> None:
        session = finding.session
        assert session.breach is not None
        send(
            {
                "kind": "finding",
                "law": session.breach.name,
                "broken": broken_record(session.breach, consequence(session)),
                "engine": finding.engine,
                "found_after": {"steps": finding.steps, "seconds": round(finding.seconds, 3)},
                "trace": list(write_policy_trace(trace_of(session, job["policy"]))),
            }
        )

    search = PolicySearch(kind, profile, job["discipline"], job["seed"], job["capacity"], tell, alive)
    search.run(tuple(job["engines"]), job["max_calls"], job["max_time"])
    send(
        {
            "kind": "result",
            "verdict": search.verdict,
            "steps": search.steps,
            "seconds": round(search.seconds, 3),
            "not_exercised": [],
            "untouched": list(search.untouched),
            "bound": search.bound,
            "mismatches": {name: dict(counts) for name, counts in sorted(search.treatments.items())},
        }
    )


def replay(job: Mapping[str, Any], send: Send) -> None:
    """Replay the calls of a trace on one subject, up to the first broken law."""
    recorded = read_policy_trace(job["trace"])
    session = play_again(load_policy(job["subject"], recorded.head.policy), recorded, job["profile"])
    played = trace_of(session, recorded.head.policy)
    broken = [] if session.breach is None else [broken_record(session.breach, consequence(session))]
    send({"kind": "result", "broken": broken, "trace": list(write_policy_trace(played))})


def play_again(kind: PolicyKind, recorded: PolicyTrace, wanted: str) -> PolicySession:
    """The calls of a trace, up to the first broken law. Raises `UsageError` for one that cannot be made here."""
    profile = profile_of(wanted, kind.profile)
    # Whoever recorded the calls kept what promises they kept: they are judged as they are.
    session = PolicySession.begin(kind, recorded.head.capacity, profile, CARELESS, recorded.keys)
    for entry in recorded.entries:
        call = entry.call
        if call.name not in session.subject.offers:
            raise UsageError(f"line {entry.line}: {kind.name} has no {call.name}; leave the call out of the trace")
        if not session.model.possible(call):
            raise UsageError(f"line {entry.line}: nothing is said of {call} here: its block is not resident, or moved")
        session.step(call)
        if session.breach is not None:
            break
    return session


def judge_recorded(trace: PolicyTrace, profile: str) -> PolicyBreach | None:
    """The first broken law in the answers and states of a trace. Raises `UsageError` if an entry has none."""
    model = PolicyModel(ORDERS[profile].of_capacity(trace.head.capacity))
    before = model.state()
    for entry in trace.entries:
        if entry.outcome is NOT_RECORDED or entry.state is None:
            raise UsageError(
                f"line {entry.line}: {entry.call.name} has no recorded answer and state; replay the calls on a "
                "subject with --subject"
            )
        if not model.possible(entry.call):
            raise UsageError(f"line {entry.line}: nothing is said of {entry.call} here: its block is not resident")
        found = judge(model, trace.head.documented, entry.call, entry.outcome, before, entry.state)
        if found.breach is not None:
            return found.breach
        model, before = found.model, entry.state
    return None


def trace_of(session: PolicySession, policy: str) -> PolicyTrace:
    law = None if session.breach is None else session.breach.name
    head = PolicyHead(
        session.capacity,
        session.kind.name,
        policy,
        session.profile,
        session.discipline,
        session.kind.documented,
        law,
    )
    entries = (PolicyEntry(record.call, record.outcome, record.state) for record in session.records)
    return PolicyTrace(head, tuple(entries))


def broken_record(breach: PolicyBreach, then: str | None = None) -> dict[str, Any]:
    """A broken law as plain data, with what becomes of evictions ``then``."""
    observed = breach.observed if then is None else f"{breach.observed}; {then}"
    return {"law": breach.name, "sentence": breach.sentence, "expected": breach.expected, "observed": observed}
