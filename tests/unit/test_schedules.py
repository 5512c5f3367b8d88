"""The baton makes each schedule once, and the same one again; what a schedule came to is judged by the model."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable
from math import comb
from typing import Any

import pytest
from attrs import evolve
from seeded import PROFILE, kind_of_manager

from evictable.impl import CPUOffloadingManager
from evictable.model import calls
from evictable.model.calls import Drained
from evictable.specs.errors import UsageError
from evictable.specs.mutants.build import build
from evictable.specs.mutants.locks import MUTANTS_OF_LOCKS
from evictable.specs.mutants.mutant import Mutant
from evictable.specs.schedules import baton as batons
from evictable.specs.schedules.baton import LINE, OPCODE, Baton, NotTheSame, Stuck
from evictable.specs.schedules.explore import Exploration
from evictable.specs.schedules.linear import History
from evictable.specs.schedules.locks import Watched
from evictable.specs.schedules.pairs import NAMES, Pair, pairs
from evictable.specs.schedules.search import EXTERNAL, NONE, OWN, Outcomes, PairSearch, Way, interleave
from evictable.specs.search import CONFORMS, INCONCLUSIVE, VIOLATES
from evictable.specs.session import outcome_of
from evictable.specs.subjects.base import Setup, SubjectKind
from evictable.specs.subjects.builtin import BUILT_IN, kind_of

LOAD, OFFER, TOUCH = calls.PREPARE_LOAD, calls.PREPARE_STORE, calls.TOUCH


class Counter:
    """Two steps that are not one."""

    def __init__(self) -> None:
        self.value = 0
        self.seen: list[str] = []

    def three_lines(self, who: str) -> None:
        self.seen.append(who)
        self.seen.append(who)
        self.seen.append(who)

    def add(self) -> None:
        self.value += 1


def explored(
    grain: str, preemptions: int | None, bodies: Callable[[Counter], list[Callable[[], None]]]
) -> tuple[Exploration, list[Counter]]:
    worlds: list[Counter] = []

    def play(baton: Baton) -> None:
        worlds.append(Counter())
        baton.run(bodies(worlds[-1]))

    exploration = Exploration(play, grain, preemptions)
    assert all(baton.decisions for baton, _ in exploration.runs())
    return exploration, worlds


def of_lines(world: Counter) -> list[Callable[[], None]]:
    return [lambda: world.three_lines("a"), lambda: world.three_lines("b")]


def of_additions(world: Counter) -> list[Callable[[], None]]:
    return [world.add, world.add]


def named(first: str, second: str, cache: str = "idle") -> Pair:
    return next(pair for pair in pairs([(first, second)]) if pair.cache == cache)


def searched(pair: Pair, way: Way, kind: SubjectKind = BUILT_IN, policy: str = "lru") -> Outcomes:
    return PairSearch(kind, policy, {"lru": PROFILE, "arc": "arc"}[policy], pair, way).run()


# --- schedules ---


def test_every_interleaving_of_lines_is_made() -> None:
    _, worlds = explored(LINE, None, of_lines)
    assert comb(6, 3) == len({"".join(world.seen) for world in worlds})


def test_no_schedule_is_made_twice() -> None:
    exploration, worlds = explored(LINE, None, of_lines)
    # The lambda has a line too, so that each thread stops at four places and goes five stretches.
    assert (comb(10, 5), True) == (len(worlds), exploration.complete)


@pytest.mark.parametrize(("preemptions", "orders"), [(0, {"aaabbb", "bbbaaa"}), (1, None)])
def test_preemptions_are_bounded(preemptions: int, orders: set[str] | None) -> None:
    _, worlds = explored(LINE, preemptions, of_lines)
    made = {"".join(world.seen) for world in worlds}
    # With one preemption a thread stops once, the other runs to its end.
    bounded = {f"{x * n}{y * 3}{x * (3 - n)}" for n in range(4) for x, y in ("ab", "ba")}
    assert (orders or bounded) == made


def test_a_line_is_one_step_and_an_addition_is_not() -> None:
    assert {2} == {world.value for world in explored(LINE, None, of_additions)[1]}
    assert {1, 2} == {world.value for world in explored(OPCODE, 1, of_additions)[1]}


def test_what_touches_nothing_shared_is_no_point() -> None:
    points = batons._points_of(Counter.add.__code__)
    names = {one.opname for one in batons.dis.get_instructions(Counter.add) if one.offset in points}
    assert {"LOAD_ATTR", "STORE_ATTR"} <= names
    assert set() == {name for name in names if name.startswith(("LOAD_FAST", "LOAD_CONST", "RETURN"))}


def test_fewest_preemptions_come_first() -> None:
    exploration = Exploration(lambda baton: baton.run(of_lines(Counter())), LINE, 2)
    used = [preemptions for _, preemptions in exploration.runs()]
    assert sorted(used) == used


def test_a_schedule_that_does_not_fit_is_refused() -> None:
    with pytest.raises(NotTheSame, match="decision 1"):
        Baton(((1, 7),)).run(of_lines(Counter()))


def test_what_a_thread_raises_comes_through() -> None:
    def fails() -> None:
        raise KeyError("seeded")

    with pytest.raises(KeyError, match="seeded"):
        Baton().run([fails, Counter().add])


def test_threads_that_wait_for_each_other_are_a_deadlock() -> None:
    one, other = threading.Lock(), threading.Lock()

    def play(baton: Baton) -> None:
        def body(first: Any, second: Any) -> Callable[[], None]:
            def take() -> None:
                with Watched(first, baton):
                    Counter().add()
                    with Watched(second, baton):
                        pass

            return take

        baton.run([body(one, other), body(other, one)])

    exploration = Exploration(play, LINE, 1)
    assert {False, True} == {baton.deadlock for baton, _ in exploration.runs()}
    assert (False, False) == (one.locked(), other.locked())


def test_a_thread_that_waits_unseen_is_stuck(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(batons, "PATIENCE", 0.05)
    gate = threading.Event()
    with pytest.raises(Stuck, match="next point"):
        Baton().run([lambda: gate.wait() and None, Counter().add])
    gate.set()


def test_the_tracing_of_this_thread_is_left_alone() -> None:
    before = sys.gettrace()
    Baton().run(of_lines(Counter()))
    assert before is sys.gettrace()


# --- pairs ---


def test_every_pair_is_there_and_may_be_made() -> None:
    made = {pair.names for pair in pairs()}
    assert len(NAMES) * (len(NAMES) + 1) // 2 == len(made)
    raised = [
        (str(pair), call)
        for pair in pairs()
        for subject in (BUILT_IN.make(Setup(2)),)
        for call in (*pair.before, pair.first)
        if type(outcome_of(subject, call)).__name__ == "Raised"
    ]
    assert [] == raised


# --- linearizability ---


def observed(pair: Pair) -> tuple[PairSearch, History]:
    """What a run without a switch came to."""
    search = PairSearch(BUILT_IN, "lru", PROFILE, pair, Way(NONE, LINE))
    search._play(Baton())
    assert search._last is not None
    return search, search._last


def with_state(history: History, **changes: Any) -> History:
    last = history.pair[-1]
    assert last.state is not None
    return evolve(history, pair=(*history.pair[:-1], evolve(last, state=evolve(last.state, **changes))))


def test_what_happened_in_sequence_has_an_explanation() -> None:
    search, history = observed(named(LOAD, OFFER))
    assert () == search._linear.refuted(history)


@pytest.mark.parametrize(
    ("changes", "law"),
    [
        ({"num_evictable": 7}, "counters-agree"),
        ({"evictable": (0, 1)}, "evictable-iff-idle"),
        ({"ref_cnt": {0: 3, 1: 0}}, "legal-step"),
        ({"slots": {0: 1, 1: 1}}, "slots-conserved"),
    ],
)
def test_a_state_that_no_order_leaves_is_refuted(changes: dict[str, Any], law: str) -> None:
    search, history = observed(named(LOAD, TOUCH))
    refuted = search._linear.refuted(with_state(history, **changes))
    assert {(0, 1), (1, 0)} == {one.order for one in refuted}
    assert all(law in [broken.law.id for broken in one.broken] for one in refuted)


def test_an_answer_that_no_order_gives_is_refuted() -> None:
    search, history = observed(named(LOAD, calls.LOOKUP))
    first, second = history.pair
    assert 2 == len(search._linear.refuted(evolve(history, pair=(first, evolve(second, outcome=calls.MISS)))))


def test_what_comes_to_light_later_counts() -> None:
    search, history = observed(named(calls.COMPLETE_STORE, calls.LOOKUP))
    drained = next(place for place, made in enumerate(history.after) if made.call.name == calls.TAKE_EVENTS)
    lost = evolve(history.after[drained], outcome=Drained(()))
    later = (*history.after[:drained], lost, *history.after[drained + 1 :])
    assert 2 == len(search._linear.refuted(evolve(history, after=later)))


def test_either_order_will_do() -> None:
    search, history = observed(named(OFFER, LOAD))
    other, swapped = observed(named(LOAD, OFFER))
    assert ((), ()) == (search._linear.refuted(history), other._linear.refuted(swapped))
    assert [made.outcome for made in history.pair] != [made.outcome for made in reversed(swapped.pair)]


# --- the built-in manager ---


def test_without_a_lock_two_loads_race() -> None:
    made = searched(named(LOAD, LOAD), Way(NONE, OPCODE, 2))
    assert made.finding is not None
    assert (VIOLATES, 1) == (made.verdict, made.finding.preemptions)
    assert {(0, 1), (1, 0)} == {one.order for one in made.finding.refuted}
    assert ["runs up to", "to its end", "goes on to its end"] == [
        next(part for part in ("runs up to", "goes on to its end", "to its end") if part in step)
        for step in made.finding.steps
    ]


@pytest.mark.parametrize("pair", [(OFFER, LOAD), (OFFER, OFFER), (calls.TAKE_EVENTS, calls.TAKE_EVENTS)], ids=str)
def test_without_a_lock_these_race(pair: tuple[str, str]) -> None:
    assert VIOLATES == searched(named(*pair), Way(NONE, LINE, 1)).verdict


@pytest.mark.parametrize("policy", ["lru", "arc"])
@pytest.mark.parametrize("lock", [OWN, EXTERNAL])
def test_under_a_lock_every_schedule_is_like_some_order(policy: str, lock: str) -> None:
    made = searched(named(OFFER, LOAD), Way(lock, LINE), policy=policy)
    assert (CONFORMS, None) == (made.verdict, made.finding)
    assert made.schedules > made.points > 50
    assert 2 == made.different


def test_a_call_outside_the_lock_is_found() -> None:
    way = Way(OWN, LINE, 1, frozenset({LOAD}))
    assert VIOLATES == searched(named(OFFER, LOAD), way).verdict


@pytest.mark.parametrize("mutant", MUTANTS_OF_LOCKS, ids=lambda mutant: mutant.name)
def test_a_lock_that_does_not_exclude_is_found(mutant: Mutant) -> None:
    kind = kind_of(f"mutant:{mutant.name}", build(mutant))
    assert VIOLATES == searched(named(LOAD, LOAD), Way(OWN, LINE), kind).verdict


class TakesItsLock(CPUOffloadingManager):
    """A method takes the lock that its caller holds."""

    def touch(self, keys: Any, req_context: Any) -> None:
        lock = Once(self._lock)
        with lock:
            super().touch(keys, req_context)


class Once:
    """A lock that answers at once that it is taken."""

    def __init__(self, lock: Any) -> None:
        self._lock = lock

    def __enter__(self) -> None:
        if not self._lock.acquire(blocking=False):
            raise RuntimeError("the lock is taken")

    def __exit__(self, *error: object) -> None:
        self._lock.release()


def test_a_method_that_takes_the_lock_itself_is_found() -> None:
    made = searched(named(TOUCH, calls.LOOKUP), Way(OWN, LINE), kind_of_manager(TakesItsLock))
    assert made.finding is not None
    assert (VIOLATES, 0) == (made.verdict, made.finding.preemptions)


class OfOneThread(CPUOffloadingManager):
    """Has no lock."""

    lock = None  # type: ignore[assignment]


def test_a_manager_without_a_lock_is_refused_with_the_remedy() -> None:
    kind = kind_of_manager(OfOneThread)
    with pytest.raises(UsageError, match="--lock external"):
        searched(named(LOAD, LOAD), Way(OWN), kind)
    assert CONFORMS == searched(named(LOAD, LOAD), Way(EXTERNAL, LINE), kind).verdict


def test_what_time_cuts_off_is_inconclusive() -> None:
    way = Way(NONE, OPCODE, 2)
    made = list(interleave(BUILT_IN, "lru", PROFILE, [named(OFFER, calls.LOOKUP)], way, 1e-9))
    assert [INCONCLUSIVE] == [one.verdict for one in made]
    assert "not all schedules" in made[0].problem
