"""One job in a process of its own: a subject is driven where it lives, and only results cross.

Reads one JSON object (the job) from standard input and writes JSON lines to standard output, each with a
``kind``: ``loaded``, ``progress``, ``finding``, ``result``, or ``error`` (bad input; the process then ends with 2).
Run as ``python -m evictable.specs.worker``.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, closing, contextmanager
from functools import partial
from pathlib import Path
from typing import Any

from attrs import asdict, evolve

from evictable.model import trace as traces
from evictable.model.calls import Call, Outcome
from evictable.specs import subjects
from evictable.specs.baseline import Baseline
from evictable.specs.budget import Budget
from evictable.specs.callers.disciplines import CONTRACT, HOSTILE
from evictable.specs.callers.workload import Tally, Workload, read_requests
from evictable.specs.counterexamples import head_of, replay, setup_of, trace_of
from evictable.specs.errors import LawlessDifference, UsageError
from evictable.specs.jobs import Pace, Send, profile_of
from evictable.specs.judge import Broken, Judge
from evictable.specs.prove import load_engine
from evictable.specs.records import broken_record
from evictable.specs.schedules.pairs import pairs
from evictable.specs.schedules.records import pair_record
from evictable.specs.schedules.search import Way, interleave
from evictable.specs.search import Finding, Search, Task, engines_for
from evictable.specs.session import model_of, outcome_of
from evictable.specs.soak.records import ending_record, soak_record
from evictable.specs.soak.soak import Plan, Soak
from evictable.specs.subjects.base import Setup, Subject, SubjectKind
from evictable.specs.subjects.releases import cache_dir
from evictable.specs.subjects.stdio import Hung
from evictable.specs.watch import Watch


def check(job: Mapping[str, Any], send: Send) -> None:
    """Search one subject under one policy, profile and discipline."""
    loaded = subjects.load(job["subject"])
    if job.get("baseline") is None:
        examine(loaded, job, send)
        return
    with closing(Baseline.start(job["baseline"], job["profile"])) as baseline:
        examine(loaded, job, send, baseline=baseline)


def examine(
    loaded: SubjectKind,
    job: Mapping[str, Any],
    send: Send,
    *,
    guarded: bool = True,
    baseline: Baseline | None = None,
) -> None:
    """The same of a subject that is loaded. ``guarded`` ends this process when a call does not come back."""
    pace = Pace()

    def alive(*_: object) -> None:
        if pace.is_due():
            send({"kind": "progress", "steps": search.steps, "seconds": search.seconds})

    def make(setup: Setup) -> Subject:
        # Also while a counterexample is being shrunk, which takes a slow subject long.
        alive()
        return watch.over(setup, loaded.make(setup))

    def on_hang(setup: Setup, called: tuple[Call, ...]) -> None:
        head = head_of(kind, setup, profile, job["discipline"])
        played = traces.Trace(head, tuple(traces.Entry(call) for call in called))
        seconds = f"{watch.longest_call:g} s"
        message = f"{called[-1]} did not come back in {seconds}, as call {len(called)} after construction"
        send({"kind": "hang", "message": message, "trace": list(traces.write(played))})
        os._exit(1)

    watch = Watch(on_hang)

    kind = evolve(loaded, make=make)
    profile = profile_of(job["profile"], kind.profile(job["policy"]))
    capacity = job["capacity"]
    threshold, tracker = job.get("store_threshold", 1), job.get("max_tracker_size")
    tiers = job.get("tiers", 0)
    setup = Setup(capacity or 3, job["policy"], kind.events, store_threshold=threshold, tiers=tiers)
    if tracker is not None:
        setup = evolve(setup, max_tracker_size=tracker)
    against: dict[str, Any] = {}
    if baseline is not None:
        baseline.refuse_setup(loaded, job["discipline"], setup)
        against = {
            "also_breaks": partial(baseline.breaks, loaded, job["discipline"]),
            "parts": partial(baseline.parts, loaded, job["discipline"]),
        }
    task = Task(
        kind,
        setup,
        profile,
        job["discipline"],
        job["seed"],
        vary_capacity=capacity is None,
        vary_tracker=threshold > 1 and tracker is None,
        **against,
    )
    first = loaded.make(setup)
    inside = first.snapshot(()) is not None
    if job["discipline"] == HOSTILE and not tiers and not first.faults.places:
        reason = (
            f"{loaded.name}: nothing that it calls can be made to raise: a manager keeps its policy in _policy and its "
            "events in events; leave out --discipline hostile"
        )
        if not job.get("all_disciplines"):
            raise UsageError(reason)
        send({"kind": "left out", "message": reason})
        return
    send({"kind": "loaded", "profile": profile, "inside": inside})
    if guarded:
        watch.start()

    def tell(kind_of_record: str, finding: Finding) -> None:
        found = finding.counterexample
        send(
            {
                "kind": kind_of_record,
                "law": found.law,
                "fault": found.fault,
                "broken": broken_record(found.difference_of()),
                "baseline": baseline.name if baseline is not None and finding.shared else None,
                "also": [broken.law.id for broken in found.broken if broken.law.id != found.law],
                "engine": finding.engine,
                "found_after": {"steps": finding.steps, "seconds": round(finding.seconds, 3)},
                "trace": list(traces.write(trace_of(kind, found, job["discipline"]))),
            }
        )

    search = Search(task, partial(tell, "finding"), alive, partial(tell, "reached"))
    engines = engines_for(tuple(job["engines"]), job["discipline"], tiers)
    search.run(engines, job["max_calls"], job["max_time"])
    send(
        {
            "kind": "result",
            "verdict": search.verdict,
            "steps": search.steps,
            "seconds": round(search.seconds, 3),
            "not_exercised": list(search.not_exercised),
            "untouched": list(search.untouched),
            "bound": "; ".join(search.worlds),
            "exercise": search.exercise.record(),
            "faults": search.strikes.records(),
            "restores_order": search.strikes.restores_order,
        }
    )


def play(job: Mapping[str, Any], send: Send) -> None:
    """Replay the calls of some traces on one subject."""
    kind = subjects.load(job["subject"])
    pace = Pace()

    def calls(trace: traces.Trace) -> Iterator[Call]:
        for made, call in enumerate(trace.calls):
            if pace.is_due():
                send({"kind": "progress", "calls": made})
            yield call

    results = []
    for lines in job["traces"]:
        trace = traces.read(lines)
        profile = profile_of(job["profile"], kind.profile(trace.head.policy))
        head = evolve(
            trace.head,
            subject=kind.name,
            profile=profile,
            events=trace.head.events and kind.events,
            admission=kind.admission if trace.head.store_threshold > 1 else None,
        )
        session, played = replay(kind, setup_of(head), profile, calls(trace), head)
        broken = [broken_record(one) for one in session.broken]
        results.append({"profile": profile, "broken": broken, "trace": list(traces.write(played))})
    send({"kind": "result", "replays": results})


def workload(job: Mapping[str, Any], send: Send) -> None:
    """Drive a subject with a request trace, every call judged; or, for comparison, bare."""
    kind = subjects.load(job["subject"])
    profile = profile_of(job["profile"], kind.profile(job["policy"]))
    setup = Setup(job["capacity"], job["policy"], kind.events)
    subject = kind.make(setup)
    broken: tuple[Broken, ...] = ()
    last: Call | None = None
    made = 0
    judge = Judge(model_of(setup, profile, kind.admission), subject.snapshot) if job["judged"] else None
    note: Callable[[Call, Outcome], None] | None = None

    def perform(call: Call) -> Outcome:
        nonlocal broken, last, made
        if broken:
            return None
        made += 1
        outcome = outcome_of(subject, call)
        if note is not None:
            note(call, outcome)
        if judge is not None:
            try:
                broken, last = judge.observe(call, outcome), call
            except LawlessDifference as error:
                error.where = f"call {made:,}"
                raise
        return outcome

    bare = judge is None and job["record"] is None
    path = Path(job["file"])
    head = head_of(kind, setup, profile, CONTRACT)
    try:
        with _recorder(job["record"], head) as note, path.open(encoding="utf-8") as lines:
            run = Workload(
                subject.perform if bare else perform,
                setup.capacity,
                job["delay"],
                stop=lambda: bool(broken),
                events=kind.events,
            )
            started, cpu_started = time.monotonic(), time.process_time()
            pace, tally = Pace(), Tally(0, 0, 0, 0, 0, 0, 0)
            for tally in run.run(read_requests(lines, str(path))):
                if pace.is_due():
                    send({"kind": "progress", "requests": tally.requests, "calls": tally.calls})
            seconds, cpu_seconds = time.monotonic() - started, time.process_time() - cpu_started
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"{path}: cannot be read ({error}); give a request trace in the Mooncake format") from error
    if not tally.requests:
        raise UsageError(f"{path}: holds no request; give a request trace in the Mooncake format")
    send(
        {
            "kind": "result",
            "profile": profile,
            "requests": tally.requests,
            "calls": made if broken else tally.calls,
            "hit_rate": tally.hit_rate,
            "stored": tally.stored,
            "evicted": tally.evicted,
            "refusals": tally.refusals,
            "seconds": seconds,
            "cpu_seconds": cpu_seconds,
            "broken": [broken_record(one) for one in broken],
            "broken_at": str(last) if broken else None,
        }
    )


@contextmanager
def _recorder(file: str | None, head: traces.Head) -> Iterator[Callable[[Call, Outcome], None] | None]:
    """What writes calls and their answers to a trace, if there is to be one."""
    if file is None:
        yield None
        return
    with ExitStack() as stack:
        try:
            lines = stack.enter_context(Path(file).open("w", encoding="utf-8"))
        except OSError as error:
            raise UsageError(f"{file}: cannot be written ({error.strerror}); give another --record") from error
        lines.write(json.dumps(traces.head_record(head)) + "\n")

        def note(call: Call, outcome: Outcome) -> None:
            lines.write(json.dumps(traces.entry_record(traces.Entry(call, outcome))) + "\n")

        yield note


def prove(job: Mapping[str, Any], send: Send) -> None:
    """Let one engine show its theorems of a subject."""
    engine = load_engine(job["engine"])
    send(
        {"kind": "theorems", "theorems": [asdict(theorem) for theorem in engine.theorems(job["subject"], job["full"])]}
    )
    for result in engine.prove(job["subject"], job["full"]):
        send({"kind": "theorem", "result": asdict(result)})
    send({"kind": "result"})


def mutants(job: Mapping[str, Any], send: Send) -> None:
    """Hunt some mutants, one after the other, with one engine."""
    from evictable.specs.mutants.hunts import hunts  # seldom asked for

    pace = Pace()

    def alive() -> None:
        if pace.is_due():
            send({"kind": "progress"})

    for name, hunt in hunts(job):
        send({"kind": "hunting", "mutant": name})
        send({"kind": "fate", "mutant": name, "fate": asdict(hunt(alive))})
    send({"kind": "result"})


def check_policy(job: Mapping[str, Any], send: Send) -> None:
    """Search one policy by itself."""
    from evictable.specs.policy_level import jobs  # seldom asked for

    jobs.check(job, send)


def play_policy(job: Mapping[str, Any], send: Send) -> None:
    """Replay the calls of a trace at policy level."""
    from evictable.specs.policy_level import jobs

    jobs.replay(job, send)


def schedules(job: Mapping[str, Any], send: Send) -> None:
    """Interleave pairs of calls of two threads, one pair after the other."""
    kind = subjects.load(job["subject"])
    profile = profile_of(job["profile"], kind.profile(job["policy"]))
    way = Way(job["lock"], job["grain"], job["preemptions"], frozenset(job["outside"]))
    asked = pairs(tuple(pair) for pair in job["pairs"])
    send({"kind": "loaded", "profile": profile, "pairs": len(asked)})
    pace = Pace()

    def alive() -> None:
        if pace.is_due():
            send({"kind": "progress"})

    for made in interleave(kind, job["policy"], profile, asked, way, job["max_time"], alive):
        send({"kind": "pair", **pair_record(made)})
    send({"kind": "result"})


def soak(job: Mapping[str, Any], send: Send) -> None:
    """A long run of several threads on one subject."""
    kind = subjects.load(job["subject"])
    profile = profile_of(job["profile"], kind.profile(job["policy"]))
    setup = Setup(job["capacity"], job["policy"], kind.events, tiers=job["tiers"])
    plan = Plan(job["threads"], job["faults"], job["lock"], seed=job["seed"])
    pace = Pace()

    def alive(run: Soak) -> None:
        if pace.is_due():
            send({"kind": "progress", **soak_record(run)})

    run = Soak(kind, setup, profile, plan, Budget(job["max_calls"], job["max_time"]), alive)
    send({"kind": "loaded", "profile": profile})
    run.run()
    send({"kind": "result", "verdict": run.verdict, "problem": run.problem, **soak_record(run), **ending_record(run)})


def replay_file(job: Mapping[str, Any], send: Send) -> None:
    """Drive a subject with a long trace."""
    from evictable.specs import long_jobs

    long_jobs.replay_file(job, send)


def shrink(job: Mapping[str, Any], send: Send) -> None:
    """Shrink a failing trace."""
    from evictable.specs import long_jobs

    long_jobs.shrink(job, send)


def bench_monitor(job: Mapping[str, Any], send: Send) -> None:
    """Measure a monitor's cost."""
    from evictable.specs.bench.loads import Mix
    from evictable.specs.monitor.bench import measure

    kind = subjects.load(job["subject"])
    rows = []
    for batch in job["batches"]:
        for cost in measure(kind, Mix(job["policy"], job["capacity"], batch), job["rounds"]):
            send({"kind": "progress"})
            if cost is not None:
                rows.append({"subject": kind.name, **asdict(cost.mix), **asdict(cost, recurse=False), "mix": None})
    send({"kind": "result", "rows": rows})


def fuzz(job: Mapping[str, Any], send: Send) -> None:
    """One unit of a campaign."""
    from evictable.specs.campaign import play as units  # seldom asked for

    units.fuzz(job, send)


JOBS: dict[str, Callable[[Mapping[str, Any], Send], None]] = {
    "check": check,
    "check-policy": check_policy,
    "replay": play,
    "replay-policy": play_policy,
    "workload": workload,
    "prove": prove,
    "mutants": mutants,
    "schedules": schedules,
    "soak": soak,
    "fuzz": fuzz,
    "replay-file": replay_file,
    "shrink": shrink,
    "bench-monitor": bench_monitor,
}


def main() -> int:
    # The parent decides what Ctrl-C means: it ends this process when it has taken what was found.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    # What a subject prints must not land among the results.
    results = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)

    def send(record: Mapping[str, Any]) -> None:
        results.write(json.dumps(record) + "\n")
        results.flush()

    # Hypothesis would leave a folder of its own where the user works.
    os.environ.setdefault("HYPOTHESIS_STORAGE_DIRECTORY", str(cache_dir() / "hypothesis"))
    job = json.loads(sys.stdin.read())
    sys.path.extend(place for place in job.get("path", ()) if place not in sys.path)
    try:
        JOBS[job["job"]](job, send)
    except (UsageError, traces.TraceError) as error:
        send({"kind": "error", "message": " ".join(str(error).split())})
        return 2
    except Hung as hung:
        send({"kind": "hang", "message": str(hung), "trace": list(traces.write(_of_hung(job, hung)))})
        return 1
    except LawlessDifference as error:
        lines = None if error.setup is None else list(traces.write(_of_hung(job, error)))
        send({"kind": "unexplained", "message": error.line, "trace": lines})
        return 1
    except BrokenPipeError:
        return 1
    return 0


def _of_hung(job: Mapping[str, Any], hung: Hung | LawlessDifference) -> traces.Trace:
    """The calls up to one that was not answered, or as no law explains."""
    head = traces.Head(
        hung.setup.capacity,
        subject=job["subject"],
        policy=hung.setup.policy,
        profile=job.get("profile", "auto"),
        events=hung.setup.events,
        store_threshold=hung.setup.store_threshold,
        max_tracker_size=hung.setup.max_tracker_size if hung.setup.store_threshold > 1 else None,
        discipline=job.get("discipline"),
        tiers=hung.setup.tiers,
        request_level=hung.setup.request_level,
    )
    return traces.Trace(head, tuple(traces.Entry(call) for call in hung.made))


if __name__ == "__main__":
    sys.exit(main())
