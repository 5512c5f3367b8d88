"""What a benchmark consists of, as data: sections, and the cases of each at full and at small sizes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from attrs import field, frozen

from evictable.specs.bench import harness, memory
from evictable.specs.bench.floor import NAME as FLOOR
from evictable.specs.bench.makers import NEUTRAL
from evictable.specs.errors import UsageError
from evictable.specs.subjects.vllm import POLICIES

SUBJECTS = ("impl", "impl:linked", "vllm==0.23.0", "vllm==0.24.0", "vllm==0.30.0", "vllm==0.33.0")
REFERENCE = "vllm==0.24.0"
"""What others are compared to, if it is among them: PR #46216, as released."""


@frozen
class Case:
    """One trial with its arguments, and on whom it is made."""

    trial: str
    arguments: Mapping[str, Any]
    rounds: int
    warm_up: int = 0
    """Rounds before those, which do not count."""
    floor: bool = False
    """Also on the floor."""
    only: tuple[str, ...] = ()
    """On these instead of the subjects."""
    fresh: bool = False
    """Each round in a process of its own."""

    def on(self, subjects: Sequence[str]) -> tuple[str, ...]:
        return self.only or (*subjects, *((FLOOR,) if self.floor else ()))

    @property
    def title(self) -> str:
        return f"{self.trial} " + ", ".join(f"{name} {_shown(value)}" for name, value in self.arguments.items())


def _shown(value: Any) -> str:
    return f"{value:,}" if isinstance(value, int) and not isinstance(value, bool) else str(value)


@frozen
class Sizes:
    """How large everything is."""

    rounds: int
    capacity: int
    """Blocks of the mixed load and of the calls."""
    slots_judged: int
    """Blocks of the mixed load that is judged; in the timed ones only subjects of one profile are compared."""
    capacities: tuple[int, ...]
    """Blocks where evictions meet pinned blocks."""
    batches: tuple[int, ...] = (2, 32, 512)
    calls: Mapping[int, int] = field(factory=lambda: {1: 32, 16: 8, 256: 2})
    """Keys of a call, to calls of a round."""
    calls_pinned: Mapping[int, int] = field(factory=lambda: {1: 16, 16: 4, 256: 1})
    """Likewise where blocks are pinned: some releases then take a second for one call."""
    shares: tuple[float, ...] = (0.0, 0.5, 0.99)
    memory: int = 1_000_000
    requests: int = 3000
    traced: tuple[int, ...] = (2_000, 10_000, 50_000)
    """Slots for the request trace."""
    judged: int = 20_000
    """Calls for each engine."""
    one_in: int = 1
    """Of the seeded defects."""


FULL = Sizes(rounds=5, capacity=100_000, slots_judged=20_000, capacities=(10_000, 100_000, 1_000_000))
QUICK = Sizes(
    rounds=3,
    capacity=4_096,
    slots_judged=1_024,
    capacities=(1_000, 10_000),
    batches=(2, 32),
    calls={1: 16, 16: 4},
    calls_pinned={1: 8, 16: 2},
    memory=20_000,
    requests=300,
    traced=(500,),
    judged=1_500,
    one_in=40,
)


@frozen
class Section:
    name: str
    title: str
    cases: Callable[[Sizes, Path | None], list[Case]]
    needs_subjects: bool = True


def judging(sizes: Sizes) -> list[Case]:
    """What comes before any timing of the subjects."""
    return [
        Case("judging", {"policy": policy, "capacity": sizes.slots_judged, "batches": sizes.batches}, rounds=1)
        for policy in POLICIES
    ]


def _mixed(sizes: Sizes, trace: Path | None) -> list[Case]:
    return [
        Case(
            "mixed",
            {"policy": policy, "capacity": sizes.capacity, "batch": batch},
            sizes.rounds,
            warm_up=1,
            floor=True,
        )
        for policy in POLICIES
        for batch in sizes.batches
    ]


def _calls(sizes: Sizes, trace: Path | None) -> list[Case]:
    return [
        Case(
            "calls",
            {
                "policy": policy,
                "capacity": sizes.capacity,
                "pinned": share,
                "batches": sizes.calls_pinned if share else sizes.calls,
            },
            sizes.rounds,
            warm_up=1,
            floor=share == 0,  # it does not know of pins
        )
        for policy in POLICIES
        for share in sizes.shares
    ]


LARGE = 1_000_000
"""Blocks from which on there are fewer rounds: some releases then look for a victim for a third of a second."""


def pinned_of(capacity: int) -> list[int]:
    """None, powers of ten, half (not of a large cache) and 99 per cent of the blocks."""
    powers = [10**n for n in range(2, 7) if 10**n < capacity / 2]
    half = [] if capacity >= LARGE else [capacity // 2]
    return [0, *powers, *half, capacity * 99 // 100]


def _evict(sizes: Sizes, trace: Path | None) -> list[Case]:
    def case(policy: str, capacity: int) -> Case:
        arguments = {"policy": policy, "capacity": capacity, "pinned": pinned_of(capacity)}
        if capacity < LARGE:
            return Case("pinning", arguments, sizes.rounds)
        # A release may take seconds for one ARC eviction here.
        return Case("pinning", arguments, 1 if policy != "lru" else max(1, sizes.rounds // 2))

    return [case(policy, capacity) for policy in POLICIES for capacity in sizes.capacities]


def _memory(sizes: Sizes, trace: Path | None) -> list[Case]:
    def case(what: str, traced: bool, only: tuple[str, ...]) -> Case:
        arguments = {"what": what, "capacity": sizes.memory, "traced": traced}
        return Case("memory", arguments, rounds=1, only=only, fresh=True)

    records = [case(what, traced, (NEUTRAL,)) for what in memory.RECORDS for traced in (True, False)]
    return [case(memory.MANAGER, True, ()), case(memory.MANAGER, False, ()), *records]


def _trace(sizes: Sizes, trace: Path | None) -> list[Case]:
    if trace is None:
        return []
    return [
        Case(
            "trace",
            {"policy": policy, "capacity": capacity, "file": str(trace), "requests": sizes.requests},
            max(1, sizes.rounds // 2),
        )
        for policy in POLICIES
        for capacity in sizes.traced
    ]


def _harness(sizes: Sizes, trace: Path | None) -> list[Case]:
    engines = [
        Case("engine", {"engine": engine, "calls": sizes.judged}, max(1, sizes.rounds // 2), warm_up=1, only=("impl",))
        for engine in harness.ENGINES
    ]
    return [*engines, Case("defects", {"one_in": sizes.one_in}, rounds=1, only=(NEUTRAL,))]


SECTIONS: dict[str, Section] = {
    one.name: one
    for one in (
        Section("mixed", "Mixed load: a request", _mixed),
        Section("calls", "Single calls on idle blocks", _calls),
        Section("evict", "An eviction of 16 blocks, by blocks pinned at the cold end", _evict),
        Section("slowest", "The slowest single call of filling, pinning, evicting and unpinning", _evict),
        Section("memory", "Memory a block, the keys left out, and a full collection", _memory),
        Section("trace", "A request trace: a request", _trace),
        Section("harness", "The harness: judged calls a second", _harness, needs_subjects=False),
    )
}


def named(names: Sequence[str]) -> list[Section]:
    """Those sections, all if none is named. Raises `UsageError` for one that there is not."""
    for name in names:
        if name not in SECTIONS:
            raise UsageError(f"--section {name}: there is none; known: {', '.join(SECTIONS)}")
    return [SECTIONS[name] for name in dict.fromkeys(names or SECTIONS)]
