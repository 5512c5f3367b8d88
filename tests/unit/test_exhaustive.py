"""Exhaustive lockstep: every reachable state of a small world, every call, counted, and able to fail."""

from __future__ import annotations

import itertools
from typing import Any

import pytest
from attrs import evolve
from seeded import Blind, kind_of, kind_of_manager, offer, stored

from evictable.impl import CPUOffloadingManager
from evictable.model import calls, manager
from evictable.model.calls import Call
from evictable.model.orders import ORDERS
from evictable.model.orders.lru_evictable import LruEvictable
from evictable.model.profiles import reference
from evictable.model.trace import read, write
from evictable.specs import subjects
from evictable.specs.budget import Budget
from evictable.specs.callers.disciplines import CARELESS, CONTRACT
from evictable.specs.counterexamples import judge_recorded, setup_of, trace_of
from evictable.specs.exhaustive import prove, theorems
from evictable.specs.exhaustive.copies import Press, copied
from evictable.specs.exhaustive.explore import Exploration
from evictable.specs.exhaustive.locksteps import QUICK, Lockstep, Proof, scopes_for, search
from evictable.specs.exhaustive.scopes import Scope
from evictable.specs.search import CONFORMS, EXHAUSTIVE, VIOLATES, Search, Task
from evictable.specs.session import Session, play
from evictable.specs.subjects.base import Setup, SubjectKind
from evictable.specs.subjects.builtin import BUILT_IN
from evictable.specs.theorems import EXHAUSTED, INCONCLUSIVE, REFUTED

TINY = Scope(Setup(1, events=False), 2, 2)
SMALL = Scope(Setup(2, events=False), 3, 2)


def explored(scope: Scope, kind: SubjectKind = BUILT_IN, **changes: Any) -> Exploration:
    """Searched to its end, with nothing broken."""
    exploration = Exploration(kind, scope, kind.profile(scope.setup.policy), **changes)
    assert [] == list(exploration.run())
    assert exploration.complete
    return exploration


def counts(exploration: Exploration) -> tuple[int, int, int]:
    return exploration.all_states, exploration.states, exploration.transitions


def refuted(kind: SubjectKind, scope: Scope = SMALL) -> Proof:
    return search(kind, Lockstep("seeded", scope))


def setup(capacity: int, policy: str = "lru", **more: Any) -> Setup:
    return Setup(capacity, policy, **{"events": False, **more})


# --- how much is searched ---


@pytest.mark.parametrize(
    ("scope", "expected"),
    [
        (Scope(setup(3), 4, 2), (1216, 93, 3163)),
        (Scope(setup(2), 4, 3), (217, 29, 1198)),
        (Scope(setup(1), 2, 2, CARELESS), (159, 84, 3302)),
        (Scope(setup(1, "arc"), 2, 2, CARELESS), (690, 351, 14757)),
        (Scope(setup(1, store_threshold=2, max_tracker_size=2), 2, 2, CARELESS), (359, 180, 7607)),
        (Scope(setup(1, tiers=1), 1, 1), (104, 104, 1376)),
        (Scope(setup(1, events=True), 2, 2, num_requests=2, lifetimes=True), (690, 208, 5169)),
    ],
    ids=str,
)
def test_states_and_transitions_are_these(scope: Scope, expected: tuple[int, int, int]) -> None:
    assert expected == counts(explored(scope))


def test_every_lockstep_of_the_quick_run_has_a_name_of_its_own() -> None:
    assert len(theorems()) == len({theorem.name for theorem in theorems()})
    assert set(theorems()) < set(theorems(full=True))


RENAMED = [
    Scope(setup(2), 3, 2),
    Scope(setup(1), 2, 2, CARELESS),
    Scope(setup(1, "arc"), 3, 2),
    Scope(setup(1, events=True), 2, 2),
    Scope(setup(1), 2, 1, num_requests=2, lifetimes=True),
    Scope(setup(1, store_threshold=2, max_tracker_size=1), 2, 2),
    pytest.param(Scope(setup(2, "arc"), 3, 1), marks=pytest.mark.slow),
    pytest.param(Scope(setup(1, tiers=1), 2, 1, in_flight=1), marks=pytest.mark.slow),
]


@pytest.mark.parametrize("scope", RENAMED, ids=str)
def test_what_is_left_out_is_the_same_under_other_names(scope: Scope) -> None:
    reduced, unreduced = explored(scope), explored(scope, reduced=False)
    assert (unreduced.states, unreduced.transitions) == (reduced.all_states, reduced.all_transitions)
    assert reduced.states < unreduced.states


def naive(scope: Scope, kind: SubjectKind = BUILT_IN) -> tuple[int, int]:
    """States and transitions, found the slow way: by playing every path from the start, nothing copied or shared."""
    one = Exploration(kind, scope, kind.profile(scope.setup.policy), reduced=False)
    distinct = tuple(range(scope.num_keys))

    def played(path: tuple[Call, ...]) -> Session:
        session = play(kind, scope.setup, one.profile, path, scope.discipline)
        assert () == session.broken
        return session

    def name(session: Session) -> Any:
        seen = session.subject.snapshot(None)
        return one._identifier.of(session.judge.model, session.promises, scope.discipline, seen, None).name

    waiting = [scope.prelude]
    known = {name(played(scope.prelude))}
    transitions = 0
    while waiting:
        path = waiting.pop(0)
        here = played(path)
        for call in scope.calls(here.judge.model, distinct):
            if here.allows(call):
                transitions += 1
                there = name(played((*path, call)))
                if there not in known:
                    known.add(there)
                    waiting.append((*path, call))
    return len(known), transitions


@pytest.mark.parametrize(
    "scope",
    [
        Scope(setup(2), 3, 1),
        Scope(setup(1), 1, 2, CARELESS),
        Scope(setup(1, "arc"), 2, 1),
        Scope(setup(1, tiers=1), 1, 1, lifetimes=True),
    ],
    ids=str,
)
def test_copies_and_short_cuts_find_what_playing_every_path_finds(scope: Scope) -> None:
    quick = explored(scope, reduced=False)
    assert naive(scope) == (quick.states, quick.transitions)


def test_a_subject_that_cannot_be_copied_is_led_there_by_calls() -> None:
    class Locked(CPUOffloadingManager):
        def __init__(self, *given: Any) -> None:
            super().__init__(*given)
            self.stays_here = lambda: None

    assert counts(explored(TINY)) == counts(explored(TINY, kind_of_manager(Locked)))


def test_a_subject_without_an_inside_is_judged_by_its_answers() -> None:
    assert explored(TINY, kind_of(Blind)).states <= explored(TINY).states


# --- what is refuted ---


@pytest.mark.parametrize(
    ("mutant", "law", "calls_made"),
    [("slot-leaks-when-store-fails", "slots-conserved", 3), ("no-mark-when-unpinned", "evictable-iff-idle", 6)],
)
def test_a_defect_is_refuted_by_a_shortest_sequence_of_calls(mutant: str, law: str, calls_made: int) -> None:
    proof = refuted(subjects.load(f"mutant:{mutant}"))
    found = proof.counterexample
    assert found is not None
    assert (REFUTED, law, calls_made) == (proof.result.verdict, found.law, len(found.calls))
    lines = proof.result.detail.splitlines()
    assert f"{calls_made}. {found.calls[-1]}" in "\n".join(lines)
    assert any(line.startswith(f"{law}: ") for line in lines)
    assert any("ref_cnt {0: " in line for line in lines)


def test_a_refutation_is_a_trace_that_replays() -> None:
    kind = subjects.load("mutant:slot-leaks-when-store-fails")
    found = refuted(kind).counterexample
    assert found is not None
    trace = read(list(write(trace_of(kind, found, CONTRACT))))
    assert "slots-conserved" in [broken.law.id for broken in judge_recorded(trace, found.profile)]
    replayed = play(kind, setup_of(trace.head), found.profile, trace.calls)
    assert (len(found.calls), True) == (len(replayed.records), bool(replayed.broken))


def pinned_twice(ref_cnt: int | None) -> int | None:
    return None if ref_cnt is None else ref_cnt + 2


def forwards(order: LruEvictable, keys: Any) -> None:
    for key in keys:
        if key in order._evictable:
            order._evictable.move_to_end(key)


WRONG_MODELS: dict[str, tuple[Any, str, Any]] = {
    "a pin counts twice": (manager, "pin", pinned_twice),
    "a key that becomes idle goes first": (
        LruEvictable,
        "idle",
        lambda order, key: order._evictable.__setitem__(key, None) or order._evictable.move_to_end(key, last=False),
    ),
    "a touch walks forwards": (LruEvictable, "touched", forwards),
    "a touch is forgotten": (LruEvictable, "touched", lambda order, keys: None),
    "nothing is protected": (
        LruEvictable,
        "victims",
        lambda order, n, protected: list(order._evictable)[:n] if len(order._evictable) >= n else None,
    ),
    "a commit leaves the block pending": (manager, "commit_store", lambda ref_cnt: ref_cnt),
}


@pytest.mark.parametrize("wrong", WRONG_MODELS.values(), ids=WRONG_MODELS.keys())
def test_a_wrong_model_is_refuted_by_the_right_manager(
    wrong: tuple[Any, str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(*wrong)
    assert REFUTED == refuted(BUILT_IN).result.verdict


@pytest.mark.parametrize("profile", sorted(set(ORDERS) - {"lru-evictable", "any", "lru-ranked-request"}))
def test_another_order_is_refuted(profile: str) -> None:
    exploration = Exploration(BUILT_IN, SMALL, profile)
    broken = next(exploration.run())
    assert "evict-order" in [one.law.id for one in broken.broken]


def test_another_rule_of_admission_is_refuted() -> None:
    kind = evolve(BUILT_IN, admission="lookups")
    scope = Scope(setup(1, store_threshold=2, max_tracker_size=2), 2, 2)
    assert REFUTED == refuted(kind, scope).result.verdict


def test_what_a_subject_keeps_to_itself_shows_if_the_call_before_is_remembered() -> None:
    class Hides(CPUOffloadingManager):
        """After a load has ended, its record stays, as nobody can see."""

        ended = False

        def complete_load(self, keys: Any, req_context: Any) -> None:
            super().complete_load(keys, req_context)
            self.ended = self.ended or bool(keys)

        def prepare_load(self, keys: Any, req_context: Any) -> Any:
            if self.ended and keys:
                raise RuntimeError
            return super().prepare_load(keys, req_context)

    kind = kind_of_manager(Hides)
    assert EXHAUSTED == refuted(kind, Scope(setup(1), 2, 2)).result.verdict
    assert REFUTED == refuted(kind, Scope(setup(1), 2, 2, remembers=True)).result.verdict


# --- what is no proof ---


def test_out_of_time_is_inconclusive() -> None:
    proof = search(BUILT_IN, Lockstep("seeded", SMALL), max_seconds=0.0)
    assert (INCONCLUSIVE, True) == (proof.result.verdict, proof.result.detail.startswith("out of time after 1 states"))


def test_a_world_in_which_nothing_can_be_stored_is_inconclusive() -> None:
    class Refuses(CPUOffloadingManager):
        def prepare_store(self, keys: Any, req_context: Any) -> Any:
            raise RuntimeError

    scope = Scope(setup(1), 2, 0)
    result = refuted(kind_of_manager(Refuses), scope).result
    assert (REFUTED, INCONCLUSIVE) == (result.verdict, refuted(BUILT_IN, scope).result.verdict)


def test_what_does_not_happen_again_is_inconclusive() -> None:
    moods = [1]

    class Moody(CPUOffloadingManager):
        def complete_load(self, keys: Any, req_context: Any) -> None:
            super().complete_load(keys, req_context)
            self._num_evictable_cache_blocks += moods.pop() if moods else 0

    proof = refuted(kind_of_manager(Moody))
    assert (INCONCLUSIVE, None) == (proof.result.verdict, proof.counterexample)
    assert "held when the calls were played again" in proof.result.detail


def test_a_subject_that_cannot_be_built_is_inconclusive() -> None:
    result = search(BUILT_IN, Lockstep("seeded", Scope(setup(1, "no such policy"), 2, 1))).result
    assert (INCONCLUSIVE, True) == (result.verdict, "no such policy" in result.detail)


def test_a_budget_of_calls_cuts_a_search_short() -> None:
    exploration, budget = Exploration(BUILT_IN, SMALL, "lru-evictable"), Budget(max_calls=100)
    assert [] == list(exploration.run(budget))
    assert (100, False) == (budget.calls, exploration.complete)


def test_a_search_that_was_cut_short_goes_on_where_it_was() -> None:
    cut, whole = Exploration(BUILT_IN, SMALL, "lru-evictable"), Exploration(BUILT_IN, SMALL, "lru-evictable")
    assert [] == list(whole.run())
    rounds = 0
    while not cut.complete:
        assert [] == list(cut.run(Budget(max_calls=100)))
        rounds += 1
    counted = [(one.states, one.all_states, one.transitions, one.all_transitions) for one in (cut, whole)]
    assert counted[0] == counted[1]
    assert rounds >= whole.transitions // 100


# --- the whole ---


def test_the_built_in_manager_is_searched_to_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    small = tuple(one for one in QUICK if one.name in ("lockstep-lru-contract", "lockstep-threshold-careless"))
    monkeypatch.setattr("evictable.specs.exhaustive.locksteps.QUICK", small)
    results = list(prove(BUILT_IN))
    assert [(one.name, EXHAUSTED) for one in small] == [(one.theorem.name, one.verdict) for one in results]
    assert results[0].theorem.bound.startswith("all 1,216 states (93 up to renaming) of 4 keys and 3 slots, 1 request")


@pytest.mark.slow
@pytest.mark.parametrize("lockstep", QUICK, ids=lambda lockstep: lockstep.name)
def test_every_quick_scope_is_searched_to_the_end(lockstep: Lockstep) -> None:
    assert EXHAUSTED == search(BUILT_IN, lockstep).result.verdict


# --- copies ---


@pytest.mark.parametrize("tiers", [0, 2])
@pytest.mark.parametrize("profile", sorted(ORDERS))
def test_a_copied_model_goes_its_own_way(profile: str, tiers: int) -> None:
    model = reference(profile, 2, tiers=tiers)
    for call in (offer("r1", 0, 1), stored("r1", 0), Call(calls.PREPARE_LOAD, (0,), "r1")):
        model.perform(call)
    copy = copied(model)
    assert model == copy
    before = model.snapshot(None)
    copy.perform(stored("r1", 1))
    copy.perform(Call(calls.RESET_CACHE))
    assert (before, True) == (model.snapshot(None), model != copy)


def test_what_nobody_knows_how_to_copy_is_refused() -> None:
    with pytest.raises(TypeError, match="a state holds a count, of which it is not known how to copy it"):
        copied([itertools.count()])


def test_a_pressed_subject_lives_on_from_where_it_was() -> None:
    subject = BUILT_IN.make(setup(2, tiers=1))
    subject.perform(offer("r1", 0))
    press = Press()
    pressed = press.press(subject)
    assert pressed is not None
    subject.perform(stored("r1", 0))
    copies = [press.copy(pressed) for _ in range(2)]
    copies[0].perform(stored("r1", 0))
    shown = [one.snapshot(None).ref_cnt for one in (subject, *copies)]
    assert [{0: 1}, {0: 1}, {0: -1}] == shown


# --- as an engine of a search ---


def test_a_search_can_be_exhaustive() -> None:
    kind = subjects.load("mutant:touch-forgotten")
    found = Search(Task(kind, Setup(3), "lru-evictable", CONTRACT))
    found.run((EXHAUSTIVE,), 4000, None)
    finding = found.findings["evict-order"]
    assert (VIOLATES, 5, EXHAUSTIVE) == (found.verdict, len(finding.counterexample.calls), finding.engine)


def test_an_exhaustive_search_of_what_conforms_says_so() -> None:
    found = Search(Task(BUILT_IN, Setup(3), "lru-evictable", CONTRACT))
    found.run((EXHAUSTIVE,), 4000, None)
    assert (CONFORMS, 4000) == (found.verdict, found.steps)


@pytest.mark.parametrize("discipline", [CONTRACT, CARELESS])
@pytest.mark.parametrize(
    ("wanted", "profile", "vary_capacity"),
    [
        (Setup(3), "lru-evictable", True),
        (Setup(2), "lru-evictable", False),
        (Setup(3, "arc"), "arc", True),
        (Setup(3), "lru-ranked-request", True),
        (Setup(3, "mine"), "any", True),
        (Setup(3, store_threshold=3, max_tracker_size=2), "lru-evictable", True),
        (Setup(3, tiers=1), "lru-evictable", True),
    ],
)
def test_a_search_gets_scopes_of_its_own_set_up(
    wanted: Setup, profile: str, vary_capacity: bool, discipline: str
) -> None:
    scopes = scopes_for(BUILT_IN, wanted, profile, discipline, vary_capacity=vary_capacity, vary_tracker=False)
    assert scopes
    own = {evolve(scope.setup, capacity=0, events=True) for scope in scopes}
    assert {evolve(wanted, capacity=0, events=True)} == own
    assert {discipline} == {scope.discipline for scope in scopes}
    assert vary_capacity or {wanted.capacity} == {scope.setup.capacity for scope in scopes}
