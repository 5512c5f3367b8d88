"""The speed of the harness itself: judged calls a second of each engine, and how soon seeded defects are found."""

from __future__ import annotations

import json
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from random import Random
from typing import Any

from attrs import define, frozen

from evictable.model import trace as traces
from evictable.specs import long_jobs
from evictable.specs.bench.loads import Load, Mix, hot_of, keys_of, plan_of
from evictable.specs.bench.makers import Maker
from evictable.specs.bench.measured import Measured
from evictable.specs.callers.disciplines import CARELESS, CONTRACT
from evictable.specs.callers.workload import Workload
from evictable.specs.counterexamples import head_of
from evictable.specs.errors import UsageError
from evictable.specs.search import EXHAUSTIVE, HYPOTHESIS, RANDOM, SCHEDULER, Search, Task
from evictable.specs.session import outcome_of
from evictable.specs.subjects.base import Setup, SubjectKind

POLICY = "lru"
Run = Callable[[SubjectKind, int, int], tuple[int, float]]
"""From a subject, a number of calls and a seed: judged calls, and seconds of processor time in them."""


def _searching(engine: str, discipline: str = CARELESS, tiers: int = 0) -> Run:
    def run(kind: SubjectKind, calls: int, seed: int) -> tuple[int, float]:
        task = Task(kind, Setup(3, POLICY, tiers=tiers), kind.profile(POLICY), discipline, seed)
        search = Search(task)
        started = time.process_time()
        search.run((engine,), calls, None)
        took = time.process_time() - started
        if search.findings:
            raise UsageError(f"{kind.name} breaks {', '.join(search.findings)}: shrinking would be timed, too")
        return search.steps, took

    return run


def _replay(kind: SubjectKind, calls: int, seed: int) -> tuple[int, float]:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "trace.jsonl")
        record(kind, path, calls, seed)
        ended: dict[str, Any] = {}
        job = {"subject": kind.name, "file": str(path), "profile": "auto"}
        started = time.process_time()
        long_jobs.replay_file(job, ended.update)
        return ended["calls"], time.process_time() - started


def record(kind: SubjectKind, path: Path, calls: int, seed: int) -> None:
    """Write a trace of about so many calls: requests that share prefixes, on a cache of 1,024 slots."""
    setup = Setup(1024, POLICY)
    subject = kind.make(setup)
    head = head_of(kind, setup, kind.profile(POLICY), CONTRACT)
    with path.open("w", encoding="utf-8") as lines:
        lines.write(json.dumps(traces.head_record(head)) + "\n")

        def perform(call: Any) -> Any:
            outcome = outcome_of(subject, call)
            lines.write(json.dumps(traces.entry_record(traces.Entry(call, outcome))) + "\n")
            return outcome

        for tally in Workload(perform, setup.capacity).run(requests(seed)):
            if tally.calls >= calls:
                break


def requests(seed: int) -> Iterator[tuple[int, ...]]:
    """Without end: each goes on from one of 64 prefixes of 1 to 16 blocks."""
    random, new = Random(seed), 10_000
    while True:
        prefix, length = random.randrange(64), random.randrange(1, 17)
        rest = random.randrange(1, 9)
        yield (*range(prefix * 16, prefix * 16 + length), *range(new, new + rest))
        new += rest


def _monitor(kind: SubjectKind, calls: int, seed: int) -> tuple[int, float]:
    from evictable.specs.monitor import watch
    from evictable.specs.monitor.inside import TOUCHED

    mix = Mix(POLICY, 4096, 32)
    subject: Any = kind.make(Setup(mix.capacity, mix.policy, events=False))
    keys, random = keys_of(seed, mix.capacity), Random(seed)
    load = Load(subject.manager, subject.request_context, mix, keys, time.process_time)
    watch(subject.manager, level=TOUCHED)
    hot = hot_of(keys, mix)
    of_request = mix.half + 1 + 5  # lookups; touch, preparations and completions
    made, took = 0, 0.0
    while made < calls:
        plan = plan_of(random, mix, hot)
        took += load.run(plan, hot)
        made += len(plan) * of_request
    return made, took


ENGINES: dict[str, Run] = {
    "walk": _searching(RANDOM),
    "walk, 1 tier": _searching(RANDOM, CONTRACT, 1),
    "scheduler, 1 tier": _searching(SCHEDULER, CONTRACT, 1),
    "machine": _searching(HYPOTHESIS),
    "exhaustive": _searching(EXHAUSTIVE, CONTRACT),
    "replay": _replay,
    "monitor, touched": _monitor,
}
"""What is timed. The exhaustive engine's calls are transitions, each in a state entered anew."""


@define
class Engine:
    """Judged calls a second of one engine on one subject."""

    maker: Maker
    engine: str
    calls: int

    def round(self, seed: int) -> Measured:
        assert self.maker.kind is not None
        made, took = ENGINES[self.engine](self.maker.kind, self.calls, seed)
        return Measured({"calls a second": made / took, "calls": made})


@frozen
class Defects:
    """Judged calls and seconds until a random walk meets each defect that was put into the built-in manager."""

    maker: Maker
    one_in: int
    """Of the mutants: 1 is all of them."""

    def round(self, seed: int) -> Measured:
        numbers: dict[str, float] = {}
        for mutant in self.asked():
            found, took = self.hunt(mutant)
            if found is not None:
                numbers |= {f"calls {mutant.name}": found, f"seconds {mutant.name}": took}
        return Measured(numbers, words={"missed": ", ".join(self.missed(numbers))})

    def asked(self) -> Sequence[Any]:
        from evictable.specs.mutants import registry
        from evictable.specs.mutants.fate import RANDOM as WALK
        from evictable.specs.mutants.outside import outside

        return [mutant for mutant in registry.MUTANTS if outside(WALK, mutant) is None][:: self.one_in]

    def missed(self, numbers: Any) -> list[str]:
        return [mutant.name for mutant in self.asked() if f"calls {mutant.name}" not in numbers]

    def hunt(self, mutant: Any) -> tuple[int | None, float]:
        from evictable.specs.mutants.hunt import shortest, walk

        with processor_time() as took:
            found = shortest(walk(mutant), mutant.laws[0])
        return (None if found is None else found.steps), took[0]


@contextmanager
def processor_time() -> Iterator[list[float]]:
    """A list that holds, at the end, the seconds that the block took."""
    took: list[float] = []
    started = time.process_time()
    yield took
    took.append(time.process_time() - started)
