"""`evictable export TRACE --pytest`: a broken law as a test of the other project, which imports nothing of ours."""

from __future__ import annotations

from copy import deepcopy
from pathlib import Path

from attrs import evolve

from evictable.ci.expectations import read_trace
from evictable.ci.export_code import Names, Project, Scene, text_of
from evictable.ci.files import write_text
from evictable.ci.jobs import run_job
from evictable.ci.replay_policy import is_policy_level
from evictable.ci.report import console
from evictable.model import calls
from evictable.model.admission import Admission
from evictable.model.calls import Raised
from evictable.model.profiles import DEFAULT_ORDER, PROFILES, minor_of
from evictable.model.trace import Trace, read, write
from evictable.specs import subjects
from evictable.specs.counterexamples import judged, setup_of
from evictable.specs.errors import UsageError
from evictable.specs.judge import Broken
from evictable.specs.session import model_of
from evictable.specs.subjects import releases


def run_export(path: Path, subject: str | None, output: Path | None) -> int:
    """Write the test, or print it; 0. Raises `UsageError` for a trace that makes none."""
    if is_policy_level(path):
        raise UsageError(f"{path}: is of a policy by itself; only traces of managers can be exported")
    trace = read_trace(path)
    trace = _played(trace, subject) if subject is not None else trace
    project = project_of(trace)
    test = text_of(project, scene_of(path, trace))
    if output is None:
        console().out(test, end="")
    else:
        write_text(output, test.splitlines())
        console().print(
            f"written to {output}, a test of {project.name}: pytest runs it where that can be imported", markup=False
        )
    return 0


def scene_of(path: Path, trace: Trace) -> Scene:
    """What the test plays and what must hold at its end. Raises `UsageError` if no law is broken, or none of these."""
    _refuse(path, trace)
    head = trace.head
    profile = head.profile if head.profile != "auto" else (DEFAULT_ORDER if head.policy == "lru" else "any")
    if profile not in PROFILES:
        raise UsageError(f"{path}: unknown profile {profile!r}; known: {', '.join(PROFILES)}")
    made = 0
    broken: tuple[Broken, ...] = ()
    careless = []
    # A model of its own goes ahead: the judge's has taken the last call already when it is seen.
    model = model_of(setup_of(head), profile, head.admission or Admission.name)
    before = model.snapshot(None)
    try:
        for made, (judge_model, broken) in enumerate(judged(trace, profile), 1):
            call = trace.entries[made - 1].call
            misplaced = model.misplaced(call)
            if broken:
                break
            careless.append(bool(misplaced))
            model = deepcopy(judge_model)
            before = model.snapshot(None)
    except UsageError as error:
        raise UsageError(f"{path}: {error}") from error
    if not broken:
        raise UsageError(f"{path}: breaks no law; export a counterexample, or name a --subject that breaks one")
    last = trace.entries[made - 1]
    wanted = next((one for one in broken if one.law.id == head.law), broken[0])
    excused = bool(misplaced) or model.may_refuse(last.call) or last.call.raises_in is not None
    good = last.call.with_keys(tuple(key for place, key in enumerate(last.call.keys) if place not in misplaced))
    right = model.perform(good, hint=None if isinstance(last.outcome, Raised) else last.outcome)
    return Scene(
        law=wanted.law,
        difference=wanted.difference,
        head=head,
        entries=trace.entries[:made],
        careless=tuple(careless),
        excused=excused,
        right=right,
        before=before,
        after=model.snapshot(None),
        exact=model.order.exact,
    )


def project_of(trace: Trace) -> Project:
    """How the subject of a trace is imported and built. Raises `UsageError` for one without a name of its own."""
    head = trace.head
    name = subjects.prepare(head.subject, lambda line: None)
    if name == "impl":
        names, imports = Names(24), "from evictable.impl import CPUOffloadingManager, ReqContext"
        return Project(name, imports, "CPUOffloadingManager", names.built(head), names, "ReqContext(req_id={})")
    if name == "vllm" or name.startswith(("vllm==", "vllm:")):
        names = Names(_minor_of(name))
        imports = (
            "from vllm.v1.kv_offload.base import ReqContext\n"
            "from vllm.v1.kv_offload.cpu.manager import CPUOffloadingManager"
        )
        return Project(name, imports, "CPUOffloadingManager", names.built(head), names, "ReqContext(req_id={})")
    if "@" in name or name.startswith(("mutant:", "stdio:", "impl:")):
        raise UsageError(f"{name}: only managers can be exported: impl, vLLM and package.module:factory")
    return _of_factory(name, trace)


def _of_factory(name: str, trace: Trace) -> Project:
    from evictable.specs.subjects.factory import found_by
    from evictable.specs.subjects.hosts import is_policy
    from evictable.specs.subjects.managers import constructor_arguments

    factory = found_by(name)
    if is_policy(factory):
        raise UsageError(f"{name}: only managers can be exported, not a policy that a manager of ours hosts")
    module, _, attribute = name.partition(":")
    built = constructor_arguments(factory, setup_of(trace.head), name)
    top = attribute.partition(".")[0]
    return Project(name, f"from {module} import {top}", attribute, built, Names(None), "Request({})")


def _minor_of(name: str) -> int | None:
    """The release's number; of a tree the oldest or newest that has its names."""
    if name.startswith("vllm=="):
        return minor_of(name.removeprefix("vllm=="))
    root = releases.installed()[0] if name == "vllm" else releases.checkout(name.removeprefix("vllm:"))
    return 33 if "num_chunks" in (root / releases.MANAGER).read_text(encoding="utf-8") else 29


def _refuse(path: Path, trace: Trace) -> None:
    last = trace.entries[-1:] and trace.entries[-1].call
    if trace.head.tiers:
        raise UsageError(f"{path}: has tiers, which only our own stand-ins can play; export a trace without --tiers")
    if any(entry.call.ticket is not None for entry in trace.entries):
        raise UsageError(f"{path}: uses tickets, which no other project has; export a trace without")
    strange = {entry.call.raises_in for entry in trace.entries} & {calls.EVENTS_APPEND, calls.SLOTS_RECORD}
    if strange:
        raise UsageError(f"{path}: makes {strange.pop()} raise; only faults of policies and slots can be exported")
    if last and last.name == calls.GET_STATS:
        raise UsageError(f"{path}: ends with get_stats, whose answer is not exported; give another counterexample")


def _played(trace: Trace, subject: str) -> Trace:
    """As the subject answers now."""
    name = subjects.prepare(subject, lambda line: console(stderr=True).print(line, markup=False))
    (played,) = run_job({"job": "replay", "subject": name, "profile": "auto", "traces": [list(write(trace))]})[
        "replays"
    ]
    again = read(played["trace"])
    return evolve(again, head=evolve(again.head, law=trace.head.law))
