"""Which hunts a job asks for: of mutants given as data, of generated ones, or of a release's."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any

from evictable.specs.mutants.fate import Fate
from evictable.specs.mutants.mutant import Mutant

HAND_MADE, GENERATED, LIVE = "hand-made", "generated", "live"
Hunt = Callable[[Callable[[], None]], Fate]


def hunts(job: Mapping[str, Any]) -> Iterator[tuple[str, Hunt]]:
    """The name of each mutant, and the hunt for it.

    ``job`` has ``source`` (`HAND_MADE`, `GENERATED` or `LIVE`), ``mutants`` (as data; of the latter two names only),
    ``engine``, ``subject`` and ``max_calls``.
    """
    return _SOURCES[job["source"]](job)


def _hand_made(job: Mapping[str, Any]) -> Iterator[tuple[str, Hunt]]:
    from evictable.specs.mutants import registry
    from evictable.specs.mutants.hunt import hunt

    for given in job["mutants"]:
        mutant = Mutant(**{**given, "laws": tuple(given["laws"])})
        if mutant not in registry.MUTANTS:
            registry.add(mutant)
        yield mutant.name, partial(hunt, job["engine"], mutant, max_calls=job["max_calls"])


def _generated(job: Mapping[str, Any]) -> Iterator[tuple[str, Hunt]]:
    from evictable.specs.mutants.generated import MODULES, generated
    from evictable.specs.mutants.hunt_generated import hunt_generated

    wanted = set(job["mutants"])
    modules = tuple(one for one in MODULES if any(f"-{one.replace('.', '-')}-" in name for name in wanted))
    for one in generated(modules):
        if one.mutant.name in wanted:
            yield one.mutant.name, partial(hunt_generated, one.mutant)


def _live(job: Mapping[str, Any]) -> Iterator[tuple[str, Hunt]]:
    from evictable.specs import subjects
    from evictable.specs.mutants.hunt_live import hunt_live
    from evictable.specs.mutants.releases import of_release

    kind = subjects.load(job["subject"])
    wanted = set(job["mutants"])
    for one in of_release(job["subject"]):
        if one.name in wanted:
            yield one.name, partial(hunt_live, one, kind, max_calls=job["max_calls"])


_SOURCES: dict[str, Callable[[Mapping[str, Any]], Iterator[tuple[str, Hunt]]]] = {
    HAND_MADE: _hand_made,
    GENERATED: _generated,
    LIVE: _live,
}
