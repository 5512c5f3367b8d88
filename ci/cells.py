"""A cell: one subject under one policy and one discipline, and what became of it."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from attrs import define, field

from evictable.ci.levels import MANAGER, POLICY
from evictable.model.policy_trace import PolicyTrace, read_either
from evictable.model.trace import Trace
from evictable.specs.search import CONFORMS, INCONCLUSIVE, VIOLATES


@define
class Violation:
    """A broken law of a cell, with its shortest counterexample."""

    law: str
    sentence: str
    expected: str
    observed: str
    engine: str
    steps: int
    seconds: float
    lines: list[str]
    path: Path | None = None
    fault: str | None = None
    """What raised in the last call: ``policy.insert in prepare_store``."""
    reason: str | None = None
    """Why it is expected, if it is."""
    shared: bool = False
    """A baseline breaks it by the same calls, which is why it is expected."""

    @property
    def trace(self) -> Trace | PolicyTrace:
        return read_either(self.lines)

    @property
    def id(self) -> str:
        """The law; where a fault broke it, which; and whether the baseline breaks it, too."""
        return self.law + ("" if self.fault is None else f" ({self.fault})") + (" (shared)" if self.shared else "")

    @property
    def detail(self) -> str:
        return detail_of(self.expected, self.observed)

    @property
    def calls(self) -> int:
        return len(self.lines) - 1

    @property
    def played(self) -> tuple[str, ...]:
        """The set-up and the calls, whatever law they are shown for."""
        head = {name: value for name, value in json.loads(self.lines[0]).items() if name != "law"}
        return (json.dumps(head), *self.lines[1:])

    @classmethod
    def of(cls, record: Mapping[str, Any]) -> Violation:
        """From a worker's ``finding``."""
        broken, found_after, baseline = record["broken"], record["found_after"], record.get("baseline")
        return cls(
            law=record["law"],
            sentence=broken["sentence"],
            expected=broken["expected"],
            observed=broken["observed"],
            engine=record["engine"],
            steps=found_after["steps"],
            seconds=found_after["seconds"],
            lines=record["trace"],
            fault=record.get("fault"),
            reason=None if baseline is None else f"{baseline} breaks it by the same calls",
            shared=baseline is not None,
        )

    def record(self) -> dict[str, Any]:
        record = {
            "law": self.law,
            "sentence": self.sentence,
            "detail": self.detail,
            "expected": self.expected,
            "observed": self.observed,
            "calls": self.calls,
            "found_after": {"steps": self.steps, "seconds": self.seconds},
            "engine": self.engine,
            "trace": None if self.path is None else str(self.path),
        }
        if self.fault is not None:
            record["fault"] = self.fault
        return record if self.reason is None else record | {"expected_because": self.reason}


def detail_of(expected: str, observed: str) -> str:
    """A difference in one line."""
    return f"expected {expected}; observed {observed}"


def cell_name(subject: str, policy: str, discipline: str, tiers: int) -> str:
    return f"{subject} {policy} {discipline}" + (f" tiers {tiers}" if tiers else "")


@define
class Cell:
    """One row of the table of results. ``problem`` says why there is no verdict, or an uncertain one."""

    subject: str
    policy: str
    discipline: str
    profile: str = "auto"
    tiers: int = 0
    level: str = MANAGER
    steps: int = 0
    seconds: float = 0.0
    started: bool = False
    ended: bool = False
    verdict_of_search: str = INCONCLUSIVE
    not_exercised: list[str] = field(factory=list)
    violations: dict[str, Violation] = field(factory=dict)
    reached: dict[str, Violation] = field(factory=dict)
    """Broken laws that a scheduler reaches, step by step, with the shortest way found."""
    problem: str | None = None
    inside: bool = True
    """The subject shows its inside."""
    hung: list[str] | None = None
    """The lines of the trace whose last call never came back, or came to what no law explains."""
    ended_as: str = ""
    """The kind of the record that said so: ``hang`` or ``unexplained``."""
    bound: str = ""
    """What was searched from end to end, in words."""
    mismatches: Mapping[str, Mapping[str, int]] = field(factory=dict)
    """At policy level: by the kind of call that does not match, what became of how many."""
    unusable: bool = False
    """The subject could not be loaded."""
    left_out: bool = False
    """There is no such search of the subject, and none was asked for by name."""
    faults: list[dict[str, Any]] = field(factory=list)
    """Hostile callers only: of each call and each place that it reaches, where faults struck."""
    restores_order: bool = True
    exercise: Mapping[str, Any] = field(factory=dict)
    """How often each row of the life cycle, law, refusal and pair of calls was put to the test."""

    @property
    def name(self) -> str:
        level = " at policy level" if self.level == POLICY else ""
        return cell_name(*self.key) + level

    @property
    def key(self) -> tuple[str, str, str, int]:
        return self.subject, self.policy, self.discipline, self.tiers

    @property
    def verdict(self) -> str:
        """``violates`` as soon as a law is broken; without a finished search never ``conforms``."""
        if self.violations:
            return VIOLATES
        return self.verdict_of_search if self.ended and self.problem is None else INCONCLUSIVE

    @property
    def told(self) -> str:
        """The verdict as people are told it: what breaks is as expected, or the cell was left out."""
        if self.left_out:
            return "left out"
        return "as expected" if self.violations and not self.unexpected else self.verdict

    @property
    def conforms(self) -> bool:
        return self.verdict == CONFORMS

    @property
    def unexpected(self) -> list[Violation]:
        return [violation for violation in self.violations.values() if violation.reason is None]

    def take(self, record: Mapping[str, Any]) -> Violation | None:
        """Take in a record of the worker; a violation if it brought a new or shorter one."""
        kind = record["kind"]
        if kind == "start":
            self.started = True
        elif kind == "loaded":
            self.profile, self.inside = record["profile"], record["inside"]
        elif kind == "progress":
            self.steps, self.seconds = record["steps"], record["seconds"]
        elif kind == "finding":
            violation = Violation.of(record)
            self.violations[violation.id] = violation
            return violation
        elif kind == "reached":
            self.reached[record["law"]] = Violation.of(record)
        elif kind == "result":
            self.ended, self.verdict_of_search = True, record["verdict"]
            if record["untouched"] and not self.violations:
                self.problem = self._too_little(record["untouched"])
            self.steps, self.seconds = record["steps"], record["seconds"]
            self.not_exercised = record["not_exercised"]
            self.exercise = record.get("exercise", {})
            self.faults, self.restores_order = record.get("faults", []), record.get("restores_order", True)
            self.bound, self.mismatches = record.get("bound", ""), record.get("mismatches", {})
        else:
            self.problem, self.unusable, self.left_out = record["message"], kind == "error", kind == "left out"
            self.hung, self.ended_as = record.get("trace"), kind
        return None

    def _too_little(self, untouched: Sequence[str]) -> str:
        tried = f"too little was tried ({', '.join(untouched)} not exercised)"
        if not self.inside and list(untouched) == ["all-or-nothing"]:
            return (
                f"{tried}: its answers alone do not show what a call that raised had changed; keep the state as vLLM's "
                "managers do, or leave out --discipline hostile"
            )
        return f"{tried}: search longer"

    def record(self) -> dict[str, Any]:
        record = {
            "subject": self.subject,
            "policy": self.policy,
            "profile": self.profile,
            "discipline": self.discipline,
            "tiers": self.tiers,
            "verdict": self.verdict,
            "steps": self.steps,
            "seconds": round(self.seconds, 3),
            "not_exercised": self.not_exercised,
            "violations": [self._with_steps(violation) for violation in self.violations.values()],
        }
        if self.exercise:
            record["exercise"] = dict(self.exercise)
        if self.faults:
            record |= {"faults": self.faults, "restores_order": self.restores_order}
        if self.level == POLICY:
            record |= {"level": POLICY, "bound": self.bound, "mismatches": self.mismatches}
        return record if self.problem is None else record | {"problem": self.problem}

    def _with_steps(self, violation: Violation) -> dict[str, Any]:
        """Its record, and where scheduler steps break the law too, how."""
        steps = self.reached.get(violation.law)
        if steps is None:
            return violation.record()
        path = None if steps.path is None else str(steps.path)
        return violation.record() | {"scheduler_steps": {"calls": steps.calls, "detail": steps.detail, "trace": path}}
