"""Doing a unit of work, in a process of its own: what `evictable.specs.worker` runs as the job ``fuzz``."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from typing import Any

from attrs import define, evolve, field

from evictable.model import trace as traces
from evictable.model.calls import Call
from evictable.model.trace import Trace
from evictable.specs import subjects
from evictable.specs.budget import Budget
from evictable.specs.callers import scheduler
from evictable.specs.callers.disciplines import HOSTILE
from evictable.specs.callers.walk import walk
from evictable.specs.campaign.corpus import extensions
from evictable.specs.campaign.features import Bits
from evictable.specs.campaign.places import CORPUS, POLICY, SHRINK
from evictable.specs.campaign.scout import OutOfMemory, Scout, shape_of
from evictable.specs.campaign.units import OTHER_VERSION, Unit, version
from evictable.specs.counterexamples import head_of, trace_of
from evictable.specs.errors import UsageError
from evictable.specs.jobs import Pace, Send, profile_of
from evictable.specs.recorded import setup_of
from evictable.specs.search import EXHAUSTIVE, RANDOM, SCHEDULER
from evictable.specs.session import Session, play
from evictable.specs.shrink import Counterexample, Shrinker, fault_of
from evictable.specs.subjects.base import Setup, Subject, SubjectKind
from evictable.specs.watch import Watch

PROGRESS_EVERY = 0.5
"""Seconds."""


def fuzz(job: Mapping[str, Any], send: Send) -> None:
    """Do one unit; its ``result`` record is all that there is to say of it.

    Raises `UsageError` if its subject cannot be loaded, or cannot be searched so.
    """
    planned_by = job["unit"]["evictable"]
    if planned_by != version():
        message = f"a worker has evictable {version()}, and the campaign is of {planned_by}: it ends here"
        problem = {"kind": OTHER_VERSION, "message": message}
        send({"kind": "result", "unit": job["unit"]["number"], "problem": problem})
        return
    unit = Unit.of(job["unit"])
    if not unit.place.subject.startswith("stdio:"):  # its process may set aside more than it ever uses
        _bound_memory(unit.memory)
    if unit.place.level == POLICY:
        _search_policy(unit, send)
    else:
        _Doing(unit, send).do()


def _bound_memory(mebibytes: int) -> None:
    if not mebibytes:
        return
    try:
        import resource
    except ImportError:  # there is none on Windows
        return
    resource.setrlimit(resource.RLIMIT_AS, (mebibytes << 20, mebibytes << 20))


@define
class _Doing:
    """One unit at manager level."""

    unit: Unit
    send: Send
    budget: Budget = field(init=False)
    pace: Pace = field(factory=lambda: Pace(PROGRESS_EVERY))
    watch: Watch = field(init=False)
    scout: Scout = field(init=False)
    worlds: list[str] = field(factory=list)
    num_scopes: int | None = None

    def do(self) -> None:
        unit = self.unit
        self.budget = Budget(unit.max_calls, unit.max_seconds)
        loaded = subjects.load(unit.place.subject)
        profile = profile_of(unit.profile, loaded.profile(unit.place.policy))
        known = Bits() if unit.known is None else Bits.of(unit.known)
        self.watch = Watch(self._hangs)
        kind = evolve(loaded, make=lambda setup: self._make(loaded, setup))
        self.scout = Scout(kind, profile, unit.place.discipline, frozenset(unit.without), known, unit.settled)
        setup = self._setup(loaded)
        places = loaded.make(setup).faults.places
        if unit.place.discipline == HOSTILE and not unit.place.tiers and not places:
            raise UsageError(f"{loaded.name}: nothing that it calls can be made to raise")
        self.watch.start()
        try:
            if unit.engine == SHRINK:
                self._shrink(kind, profile)
            else:
                self._search(kind, profile, setup)
        except OutOfMemory:
            self._tell({"kind": "memory", "message": f"the subject met the bound of {unit.memory} MiB"})
        else:
            self._tell(None)

    def _setup(self, kind: SubjectKind) -> Setup:
        place = self.unit.place
        capacity = self.unit.capacity or 3
        return Setup(capacity, place.policy, kind.events, store_threshold=place.threshold, tiers=place.tiers)

    def _make(self, loaded: SubjectKind, setup: Setup) -> Subject:
        self._alive()
        subject = loaded.make(setup)
        # An exhaustive search copies subjects; what watches branches is not to be copied with them.
        searched = self.unit.engine not in (EXHAUSTIVE, SHRINK)
        return self.watch.over(setup, self.scout.branches.over(subject) if searched else subject)

    def _alive(self) -> None:
        if self.pace.is_due():
            self.send({"kind": "progress", "calls": self.budget.calls})

    def _hangs(self, setup: Setup, made: tuple[Call, ...]) -> None:
        scout = self.scout
        head = head_of(scout.kind, setup, scout.profile, scout.discipline)
        trace = traces.Trace(head, tuple(map(traces.Entry, made)))
        message = f"{made[-1]} did not come back in {self.watch.longest_call:g} s, as call {len(made)}"
        self._tell({"kind": "hang", "message": message, "trace": list(traces.write(trace))})
        os._exit(1)

    def _tell(self, problem: Mapping[str, Any] | None) -> None:
        scout, budget = self.scout, self.budget
        cut = self.unit.engine != SHRINK and budget.calls < self.unit.max_calls and budget.spent
        self.send(
            {
                "kind": "result",
                "unit": self.unit.number,
                "calls": budget.calls,
                "seconds": round(budget.seconds, 3),
                "cut": cut,
                "runs": scout.runs,
                "features": scout.new.text() if len(scout.new) else None,
                "corpus": scout.kept,
                "findings": list(scout.findings.values()),
                "times": dict(scout.times),
                "exercised": sorted(scout.exercised),
                "rows": sorted(scout.rows),
                "struck": scout.struck,
                "worlds": self.worlds,
                "scopes": self.num_scopes,
                "problem": problem,
            }
        )

    # --- searching ---

    def _search(self, kind: SubjectKind, profile: str, setup: Setup) -> None:
        engine = self.unit.engine
        if engine == EXHAUSTIVE:
            self._explore(kind, profile, setup)
        elif engine in (RANDOM, CORPUS, SCHEDULER):
            for session in self._sessions(kind, profile, setup):
                self.scout.take(session)
        else:
            from evictable.specs.callers import machine  # Hypothesis: half a second

            machine.drive(
                kind,
                setup,
                profile,
                self.unit.place.discipline,
                self.budget,
                self.unit.seed,
                self.scout.take,
                vary_capacity=self.unit.capacity is None,
                vary_tracker=setup.store_threshold > 1,
                begin=self.scout.begin,
            )

    def _sessions(self, kind: SubjectKind, profile: str, setup: Setup) -> Iterator[Session]:
        unit, budget, begin = self.unit, self.budget, self.scout.begin
        vary = unit.capacity is None
        if unit.engine == CORPUS:
            parents = [traces.read(lines) for lines in unit.parents]
            yield from extensions(
                kind,
                setup,
                profile,
                unit.place.discipline,
                parents,
                budget,
                unit.seed,
                capacity=unit.capacity,
                begin=begin,
            )
        elif unit.engine == RANDOM:
            yield from walk(
                kind,
                setup,
                profile,
                unit.place.discipline,
                budget,
                unit.seed,
                vary_capacity=vary,
                vary_tracker=setup.store_threshold > 1,
                begin=begin,
            )
        else:
            for plan in scheduler.plans(setup, unit.seed, budget, vary_capacity=vary, request_level=kind.request_level):
                session = scheduler.play(kind, profile, plan, to_rest=True, begin=begin)
                budget.calls += len(session.records)
                yield session

    def _explore(self, kind: SubjectKind, profile: str, setup: Setup) -> None:
        from evictable.specs.exhaustive.explore import Exploration
        from evictable.specs.exhaustive.locksteps import scopes_for

        scopes = scopes_for(
            kind,
            setup,
            profile,
            self.unit.place.discipline,
            vary_capacity=True,
            vary_tracker=setup.store_threshold > 1,
        )
        self.num_scopes = len(scopes)
        if self.unit.scope >= len(scopes):
            return
        scope = scopes[self.unit.scope]
        search = Exploration(kind, scope, profile, exercised=self.scout.exercised)
        for session in search.run(self.budget, self._alive):
            self.scout.take(session)
        how = "all" if search.complete else "not all of the calls in the first"
        self.worlds.append(
            f"{how} {search.all_states:,} states of {scope}, every call with batches up to {scope.batch}"
        )

    # --- shrinking ---

    def _shrink(self, kind: SubjectKind, profile: str) -> None:
        """The parent, shortened. If it does not break its law again, it is kept as it is and said to be so."""
        law, trace = self.unit.law, traces.read(self.unit.parents[0])
        setup, discipline = setup_of(trace.head), self.unit.place.discipline
        calls = trace.calls
        shrinker = Shrinker(kind, profile, discipline, law, fault_of(calls), ends_in=calls[-1].name)
        smallest = shrinker.shrink(setup, calls)
        self.budget.calls = shrinker.played
        if smallest is None:
            self._does_not_repeat(kind, profile, setup, trace)
            return
        for broken in smallest.broken:
            self._keep_shrunk(kind, evolve(smallest, law=broken.law.id))

    def _keep_shrunk(self, kind: SubjectKind, found: Counterexample) -> None:
        self.scout.find(found, shrunk=True)
        record = self.scout.findings[shape_of(found.law, found.fault, found.calls[-1].name)]
        record["trace"] = list(traces.write(trace_of(kind, found, self.unit.place.discipline)))

    def _does_not_repeat(self, kind: SubjectKind, profile: str, setup: Setup, trace: Trace) -> None:
        session = play(kind, setup, profile, trace.calls, self.unit.place.discipline)
        others = ", ".join(broken.law.id for broken in session.broken) or "nothing"
        message = f"the calls that broke {self.unit.law} break {others} when they are made again"
        self._tell({"kind": "unrepeatable", "message": message, "trace": list(self.unit.parents[0])})
        os._exit(0)


def _search_policy(unit: Unit, send: Send) -> None:
    """The same of a policy by itself; what is found there is shrunk at once, since its runs are short."""
    from evictable.model.policy_trace import write_policy_trace
    from evictable.specs.policy_level import jobs
    from evictable.specs.policy_level.search import PolicySearch
    from evictable.specs.policy_level.session import consequence
    from evictable.specs.policy_level.shrink import size
    from evictable.specs.subjects.policies import load_policy

    place = unit.place
    kind = load_policy(place.subject, place.policy)
    profile = profile_of(unit.profile, kind.profile)
    pace = Pace(PROGRESS_EVERY)

    def alive() -> None:
        if pace.is_due():
            send({"kind": "progress", "calls": search.steps})

    search = PolicySearch(kind, profile, place.discipline, unit.seed, unit.capacity, on_progress=alive)
    search.run((unit.engine,), unit.max_calls, unit.max_seconds)
    findings = []
    for found in search.findings.values():
        session = found.session
        assert session.breach is not None
        last = session.records[-1].call.name
        findings.append(
            {
                "shape": shape_of(session.breach.name, None, last),
                "law": session.breach.name,
                "fault": None,
                "call": last,
                "broken": jobs.broken_record(session.breach, consequence(session)),
                "size": list(size(session)),
                "shrunk": True,
                "trace": list(write_policy_trace(jobs.trace_of(session, place.policy))),
            }
        )
    send(
        {
            "kind": "result",
            "unit": unit.number,
            "calls": search.steps,
            "seconds": round(search.seconds, 3),
            "cut": search.steps < unit.max_calls and search.seconds >= unit.max_seconds,
            "runs": 0,
            "features": None,
            "corpus": [],
            "findings": findings,
            "times": {finding["shape"]: 1 for finding in findings},
            "exercised": sorted(search.exercised),
            "rows": [],
            "struck": False,
            "worlds": [search.bound] if search.bound else [],
            "scopes": 1,
            "untouched": list(search.untouched),
            "problem": None,
        }
    )
