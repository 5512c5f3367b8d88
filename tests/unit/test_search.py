"""A search: the engines' shares, one shortest counterexample a law, and a verdict."""

from __future__ import annotations

from typing import Any, ClassVar

import pytest
from seeded import PROFILE, Leaks, Miscounts, Unpins, kind_of_manager, laws
from tiered import EvictsHits, KeepsPins, kind_of_tiers

from evictable.impl import CPUOffloadingManager
from evictable.impl.tiering import TieringOffloadingManager
from evictable.model.laws import LAWS
from evictable.specs.callers.disciplines import CARELESS, CONTRACT, HOSTILE
from evictable.specs.search import (
    CONFORMS,
    ENGINES,
    ENGINES_WITH_TIERS,
    FURTHER_TRIES_OF_PLANS,
    HYPOTHESIS,
    INCONCLUSIVE,
    INDISPENSABLE,
    INDISPENSABLE_ROWS,
    INDISPENSABLE_WITH_TIERS,
    RANDOM,
    SCHEDULER,
    VIOLATES,
    Finding,
    Search,
    Task,
    engines_for,
)
from evictable.specs.session import play
from evictable.specs.subjects.base import Setup, SubjectKind
from evictable.specs.subjects.builtin import BUILT_IN

WITHOUT_TIERS = [law.id for law in LAWS if not law.needs_tiers]


def search(
    kind: SubjectKind,
    engines: tuple[str, ...] = (RANDOM,),
    max_calls: int = 1500,
    discipline: str = CONTRACT,
    tiers: int = 0,
    **changes: Any,
) -> Search:
    found = Search(Task(kind, Setup(3, tiers=tiers), PROFILE, discipline, seed=1), **changes)
    found.run(engines, max_calls, None)
    return found


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize(
    ("manager", "law", "calls"),
    [(Leaks, "slots-conserved", 3), (Miscounts, "counters-agree", 6), (Unpins, "legal-step", 6)],
)
def test_an_engine_finds_a_defect_and_its_shortest_sequence(manager: Any, law: str, calls: int, engine: str) -> None:
    kind = kind_of_manager(manager)
    found = search(kind, (engine,))
    finding = found.findings[law]
    assert (VIOLATES, calls, engine) == (found.verdict, len(finding.counterexample.calls), finding.engine)
    replayed = play(kind, finding.counterexample.setup, PROFILE, finding.counterexample.calls)
    assert (calls, True) == (len(replayed.records), law in laws(replayed.broken))


def test_the_same_search_again_finds_the_same() -> None:
    first, second = (search(kind_of_manager(Unpins), ENGINES) for _ in range(2))
    assert first.steps == second.steps
    assert [(law, one.counterexample, one.engine, one.steps) for law, one in first.findings.items()] == [
        (law, one.counterexample, one.engine, one.steps) for law, one in second.findings.items()
    ]


@pytest.mark.parametrize("engines", [(RANDOM,), (HYPOTHESIS,), ENGINES])
def test_the_calls_are_shared_out_among_the_engines(engines: tuple[str, ...]) -> None:
    assert 1000 <= search(BUILT_IN, engines, 1000).steps <= 1000 + 40 * len(engines)


def test_what_conforms_is_said_to() -> None:
    found = search(BUILT_IN, ENGINES, 4000, CARELESS)
    assert (CONFORMS, {}, ()) == (found.verdict, found.findings, found.not_exercised)


@pytest.mark.parametrize(("discipline", "out_of_reach"), [(CONTRACT, {"owner-completes"}), (CARELESS, set())])
def test_nothing_tried_is_nothing_known(discipline: str, out_of_reach: set[str]) -> None:
    untried = Search(Task(BUILT_IN, Setup(3), PROFILE, discipline))
    assert (INCONCLUSIVE, INDISPENSABLE) == (untried.verdict, untried.untouched)
    assert [law for law in WITHOUT_TIERS if law not in out_of_reach] == list(untried.not_exercised)


def test_too_little_tried_is_too_little_known() -> None:
    found = search(BUILT_IN, max_calls=1)
    assert (INCONCLUSIVE, ("pinned-stays", "progress", *INDISPENSABLE_ROWS), {}) == (
        found.verdict,
        found.untouched,
        found.findings,
    )


@pytest.mark.parametrize("missing", INDISPENSABLE)
def test_each_indispensable_law_is(missing: str) -> None:
    found = Search(Task(BUILT_IN, Setup(3), PROFILE, CONTRACT), exercised={law.id for law in LAWS} - {missing})
    assert (INCONCLUSIVE, (missing,)) == (found.verdict, found.untouched)


def test_without_the_other_laws_a_subject_conforms_all_the_same() -> None:
    assert CONFORMS == Search(Task(BUILT_IN, Setup(3), PROFILE, CONTRACT), exercised=set(INDISPENSABLE)).verdict


def test_a_broken_law_is_a_verdict_however_little_was_tried() -> None:
    class Deaf(CPUOffloadingManager):
        def on_new_request(self, req_context: Any) -> None:
            raise RuntimeError

    found = search(kind_of_manager(Deaf), max_calls=1)
    assert (VIOLATES, {"answer"}) == (found.verdict, set(found.findings))
    assert ("pinned-stays", "progress", *INDISPENSABLE_ROWS) == found.untouched


def test_a_law_that_was_broken_has_been_exercised() -> None:
    assert "slots-conserved" not in search(kind_of_manager(Leaks), max_calls=300).not_exercised


def test_a_careful_caller_puts_no_foreign_completion_to_the_test() -> None:
    found = search(BUILT_IN, max_calls=3000)
    assert set(WITHOUT_TIERS) - {"owner-completes"} == found.exercised
    assert () == found.not_exercised


def test_time_alone_may_bound_a_search() -> None:
    found = Search(Task(BUILT_IN, Setup(3), PROFILE, CONTRACT))
    found.run(ENGINES, None, 0.3)
    assert (CONFORMS, True) == (found.verdict, found.seconds >= 0.3)


def test_each_shorter_counterexample_is_told() -> None:
    told: list[Finding] = []
    found = search(kind_of_manager(Unpins), max_calls=4000, on_finding=told.append)
    sizes: dict[str, list[tuple[int, ...]]] = {}
    for finding in told:
        sizes.setdefault(finding.counterexample.law, []).append(finding.counterexample.size)
    assert {law: sorted(shown, reverse=True) for law, shown in sizes.items()} == sizes
    assert {law: one.counterexample.size for law, one in found.findings.items()} == {
        law: shown[-1] for law, shown in sizes.items()
    }


def test_progress_is_told_after_every_episode() -> None:
    steps: list[int] = []
    search(BUILT_IN, max_calls=500, on_progress=lambda one: steps.append(one.steps))
    assert (sorted(steps), 500 <= steps[-1]) == (steps, True)


class Moody(CPUOffloadingManager):
    """Loses count once in the life of the process: played again, nothing is wrong."""

    moods: ClassVar[list[int]] = []

    def complete_load(self, keys: Any, req_context: Any) -> None:
        super().complete_load(keys, req_context)
        self._num_evictable_cache_blocks += Moody.moods.pop() if Moody.moods else 0


def test_what_does_not_happen_again_is_kept_as_it_was_seen() -> None:
    Moody.moods = [1]
    finding = search(kind_of_manager(Moody)).findings["counters-agree"]
    assert "counters-agree" == finding.counterexample.difference_of().law.id
    assert finding.counterexample.calls[-1].name == "complete_load"


def test_most_of_the_calls_search_and_do_not_shrink() -> None:
    performed = 0

    class Counted(Unpins):
        def lookup(self, key: Any, req_context: Any) -> Any:
            nonlocal performed
            performed += 1
            return super().lookup(key, req_context)

    found = search(kind_of_manager(Counted), max_calls=10_000)
    shown = sum(law.id in found.findings for law in LAWS)
    assert performed < found.steps, f"although {shown} laws are broken again and again"


# --- with tiers -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("discipline", "tiers", "expected"),
    [
        (CONTRACT, 0, (RANDOM, HYPOTHESIS)),
        (CONTRACT, 2, (RANDOM, SCHEDULER, HYPOTHESIS)),
        (CARELESS, 2, (RANDOM, HYPOTHESIS)),
        (HOSTILE, 2, (RANDOM, HYPOTHESIS)),
    ],
)
def test_scheduler_steps_are_careful_and_need_tiers(discipline: str, tiers: int, expected: tuple[str, ...]) -> None:
    assert expected == engines_for(ENGINES_WITH_TIERS, discipline, tiers)


@pytest.mark.parametrize("discipline", [CONTRACT, CARELESS, HOSTILE])
def test_what_conforms_with_tiers_is_said_to(discipline: str) -> None:
    engines = engines_for(ENGINES_WITH_TIERS, discipline, 2)
    found = search(BUILT_IN, engines, 5000, discipline, tiers=2)
    assert (CONFORMS, {}, {}, ()) == (found.verdict, found.findings, found.reached, found.not_exercised)


@pytest.mark.parametrize("missing", INDISPENSABLE_WITH_TIERS)
def test_each_law_that_tiers_make_indispensable_is(missing: str) -> None:
    task = Task(BUILT_IN, Setup(3, tiers=1), PROFILE, CONTRACT)
    found = Search(task, exercised={law.id for law in LAWS} - {missing})
    assert (INCONCLUSIVE, (missing,)) == (found.verdict, found.untouched)


def test_with_tiers_nothing_tried_is_nothing_known() -> None:
    untried = Search(Task(BUILT_IN, Setup(3, tiers=1), PROFILE, CARELESS))
    assert (INCONCLUSIVE, INDISPENSABLE_WITH_TIERS) == (untried.verdict, untried.untouched)
    assert [law.id for law in LAWS] == list(untried.not_exercised)


@pytest.mark.parametrize("engine", ENGINES_WITH_TIERS)
def test_an_engine_finds_a_pin_that_is_kept(engine: str) -> None:
    kind = kind_of_tiers(KeepsPins)
    found = search(kind, (engine,), tiers=1)
    finding = found.findings["pin-has-job"]
    assert (VIOLATES, True, engine) == (found.verdict, len(finding.counterexample.calls) <= 6, finding.engine)
    replayed = play(kind, finding.counterexample.setup, PROFILE, finding.counterexample.calls)
    assert finding.counterexample.broken == replayed.broken


def test_what_a_scheduler_reaches_is_told_apart() -> None:
    told: list[Finding] = []
    found = search(kind_of_tiers(primary=EvictsHits), (SCHEDULER,), 4000, tiers=2, on_reached=told.append)
    reached = found.reached["hit-loads"]
    assert (SCHEDULER, told[-1], set(found.findings)) == (reached.engine, reached, set(found.reached))
    assert 0 < reached.steps == found.findings["hit-loads"].steps < found.steps
    sizes = [finding.counterexample.size for finding in told]
    assert sorted(set(sizes), reverse=True) == sizes
    assert len(sizes) <= 1 + FURTHER_TRIES_OF_PLANS
    assert found.findings["hit-loads"].counterexample.size <= sizes[-1]


class StopsAtRest(TieringOffloadingManager):
    """Answers a request that no scheduler of ours has with errors."""

    def prepare_store(self, keys: Any, req_context: Any) -> Any:
        if req_context.req_id == "rest":
            raise RuntimeError
        return super().prepare_store(keys, req_context)


def test_what_only_bringing_a_run_to_rest_breaks_is_not_reached_by_a_scheduler() -> None:
    found = search(kind_of_tiers(StopsAtRest), (SCHEDULER,), 100, tiers=1)
    assert ({"answer", "progress"}, {}) == (set(found.findings), found.reached)
