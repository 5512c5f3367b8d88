"""The golden files: complete, right, what the command makes, and enough to catch a defect."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from evictable.ci.golden import run_golden
from evictable.model.calls import GET_STATS
from evictable.model.snapshot import Snapshot
from evictable.model.trace import Trace, read_each
from evictable.specs.counterexamples import judge_recorded, replay, setup_of
from evictable.specs.golden.files import SCOPES, make, packaged
from evictable.specs.golden.tours import Tours, _Place
from evictable.specs.mutants import build, registry
from evictable.specs.subjects import builtin, linked
from evictable.specs.subjects.base import SubjectKind
from evictable.specs.subjects.builtin import BUILT_IN, kind_of

MOST_BYTES = 1_000_000


def traces_of(profile: str) -> list[Trace]:
    return list(read_each(packaged(profile)))


def differences(kind: SubjectKind, profile: str) -> Iterator[str]:
    """How a subject differs under the calls of the file of a profile: a law, or the order that it shows."""
    for trace in traces_of(profile):
        session, played = replay(kind, setup_of(trace.head), profile, trace.calls, trace.head)
        yield from (broken.law.id for broken in session.broken)
        order: object = None
        for entry, golden in zip(played.entries, trace.entries, strict=False):
            order = order if golden.state is None else order_in(golden.state, profile)
            if entry.state is not None and order_in(entry.state, profile) != order:
                yield f"order after {entry.call}"


def order_in(state: Snapshot, profile: str) -> object:
    return tuple(state.evictable or ()) if profile == "lru-evictable" else state.order


@pytest.mark.parametrize("profile", SCOPES)
def test_what_is_packaged_is_right(profile: str) -> None:
    broken = [judge_recorded(trace, profile) for trace in traces_of(profile)]
    assert [()] * len(broken) == broken
    assert len(broken) > 10


@pytest.mark.parametrize("profile", SCOPES)
def test_a_file_is_small(profile: str) -> None:
    assert MOST_BYTES > sum(len(line) + 1 for line in packaged(profile))


@pytest.mark.parametrize("profile", ["lru-scan", "lru-evictable"])
def test_the_command_makes_what_is_packaged(profile: str) -> None:
    assert packaged(profile) == list(make(profile).lines)


@pytest.mark.slow
def test_the_command_makes_all_that_is_packaged(tmp_path, pytestconfig) -> None:  # type: ignore[no-untyped-def]
    run_golden(tmp_path)
    source = pytestconfig.rootpath / "specs" / "golden"
    made = {path.name: path.read_text() for path in tmp_path.iterdir()}
    assert {*(f"{profile}.jsonl" for profile in SCOPES), "README.md"} == set(made)
    assert {name: (source / name).read_text() for name in made} == made


@pytest.mark.parametrize("profile", ["lru-evictable", "arc-request"])
def test_every_call_is_made_in_every_state(profile: str) -> None:
    """Followed call by call from the file, not as the paths were made."""
    met: set[object] = set()
    wanted: set[object] = set()
    for number, scope in enumerate(SCOPES[profile]):
        graph = Tours(scope, profile).graph
        wanted |= {(number, name, shape) for name, shapes in graph.items() for shape in shapes}
    for trace in traces_of(profile):
        for number, scope in enumerate(SCOPES[profile]):
            if {key for call in trace.calls for key in call.keys} <= set(scope.keys):
                met |= {(number, *step) for step in steps(trace, _Place.at_the_start(scope, profile))}
    assert set() == wanted - met


def steps(trace: Trace, place: _Place) -> Iterator[tuple[object, object]]:
    """State and call up to renaming, as far as the trace stays in the scope of ``place``."""
    if place.scope.setup.capacity != trace.head.capacity or place.scope.setup.events != trace.head.events:
        return
    for call in trace.calls:
        if call.request is not None and call.request not in place.scope.requests:
            return
        if place.name is not None:
            yield place.name, place._shape(call)
        place.make(call)


def test_statistics_are_left_out() -> None:
    assert set() == {call.name for trace in traces_of("arc") for call in trace.calls} & {GET_STATS}


@pytest.mark.parametrize("profile", ["lru-evictable", "arc"])
def test_the_built_in_manager_follows_them(profile: str) -> None:
    assert [] == list(differences(BUILT_IN, profile))


@pytest.mark.parametrize(
    ("mutant", "profile"),
    [
        ("touch-forwards", "lru-evictable"),
        ("slot-leaks-when-store-fails", "lru-evictable"),
        ("arc-without-fallback", "arc"),
    ],
)
def test_a_defect_breaks_a_law_under_them(mutant: str, profile: str) -> None:
    kind = kind_of(f"mutant:{mutant}", build.build(registry.named(mutant)))
    assert next(differences(kind, profile), None) is not None


UNNOTICED = {
    # Statistics are no part of a state, and not asked for.
    "usage-counts-evictable",
    "usage-counts-free",
    "write-usage-counts-pinned",
    "refusals-not-counted",
    "sizes-told-again",
    # Needs a refused offer of a resident key of several in the list, and more keys than are covered.
    "refusal-touches",
    # Needs two victims of one store under ARC, whose larger world has batches of one.
    "arc-size-of-t1-before-the-eviction",
    # Its lazy heap needs a longer memory than these paths.
    "heap-survives-reset",
    # Needs two loads of one block by one request under way: these paths have one.
    "linked-one-of-several-ends-all",
    # Under ARC these paths have three keys and two slots: too few for what is passed over and comes back, or for as
    # many ghosts as there may not be.
    "linked-protected-and-never-seen-again",
    "linked-taken-by-a-stale-entry",
    "linked-ghosts-without-end",
}
"""Mutants that conform under these calls, and why."""


@pytest.mark.slow
def test_which_defects_they_notice() -> None:
    careful = {
        one.name: one
        for one in (*registry.MUTANTS, *registry.MUTANTS_OF_POLICIES)
        if one.discipline == "contract" and not one.tiers and not one.needs_threads
    }
    unnoticed = set()
    for name, mutant in careful.items():
        profile = "arc" if mutant.policy == "arc" else "lru-evictable"
        kinds = linked if mutant.is_linked else builtin
        if next(differences(kinds.kind_of(name, build.build(mutant)), profile), None) is None:
            unnoticed.add(name)
    assert unnoticed == UNNOTICED
    assert 80 < len(careful)


def test_a_file_holds_what_sets_its_profile_apart() -> None:
    """Whoever does not fall back is caught by the answers alone."""
    broken = [judge_recorded(trace, "arc-no-fallback") for trace in traces_of("arc")]
    assert any(broken)
