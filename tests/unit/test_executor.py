"""The symbolic executor: every way is taken that can be, and what it cannot do is never taken for a proof."""

from __future__ import annotations

from typing import Any

import pytest

z3 = pytest.importorskip("z3")

from evictable.specs.proofs import executor  # noqa: E402
from evictable.specs.proofs.executor import (  # noqa: E402
    CONTRADICTION,
    Path,
    Unsupported,
    current,
    explore,
)
from evictable.specs.proofs.values import KEY, SBool, SInt, SKey  # noqa: E402

n, m = z3.Ints("n m")


def answers(run: Any) -> list[Any]:
    return [answer for path, answer in explore(run) if not path.obstacles]


def test_every_way_is_taken_once() -> None:
    def run(path: Path) -> str:
        number = SInt(n)
        if number < 0:
            return "negative"
        return "zero" if number == 0 else "positive"

    assert ["negative", "positive", "zero"] == sorted(answers(run))


def test_a_way_that_cannot_be_is_not_taken() -> None:
    def run(path: Path) -> bool:
        path.assume(n > 2)
        return bool(SInt(n) > 1)

    assert [True] == answers(run)


def test_what_is_decided_stays_decided() -> None:
    def run(path: Path) -> tuple[bool, bool, bool]:
        small = SInt(n) < 3
        return bool(small), bool(SInt(n) < 3), bool(SInt(n) >= 3)

    assert [(False, False, True), (True, True, False)] == sorted(answers(run))


def test_keys_in_ordinary_sets_and_dicts_fork() -> None:
    def run(path: Path) -> tuple[int, int, bool]:
        first, second = SKey(z3.Const("first", KEY)), SKey(z3.Const("second", KEY))
        return len({first, second}), len(dict.fromkeys([first, second])), first in [second]

    assert [(1, 1, True), (2, 2, False)] == sorted(answers(run))


def test_a_plain_number_forks_over_few_values() -> None:
    def run(path: Path) -> str:
        path.assume(z3.And(n >= 1, n <= 3))
        return "x" * SInt(n)

    assert ["x", "xx", "xxx"] == sorted(answers(run))


def test_a_plain_number_with_many_values_is_an_obstacle() -> None:
    def run(path: Path) -> list[int]:
        return [0] * int(SInt(n))

    met = [path.obstacles for path, _ in explore(run)]
    assert 1 == sum(bool(obstacles) for obstacles in met)


def test_a_path_without_end_is_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(executor, "MOST_DECISIONS", 20)

    def run(path: Path) -> int:
        steps = 0
        while SInt(n) > steps:
            steps += 1
        return steps

    longest, _ = max(explore(run), key=lambda one: len(one[0].facts))
    assert ["a path needs more than 20 decisions"] == longest.obstacles


def test_an_end_that_code_swallows_is_remembered() -> None:
    def run(path: Path) -> str:
        try:
            path.cut("too far")
        except BaseException:
            return "went on"
        return ""

    assert [(["too far"], "went on")] == [(path.obstacles, answer) for path, answer in explore(run)]


def test_an_unsupported_construct_is_named_with_its_place() -> None:
    def run(path: Path) -> None:
        raise Unsupported("a spell")

    ((path, _),) = explore(run)
    assert 1 == len(path.obstacles)
    assert path.obstacles[0].startswith("a spell (unit/test_executor.py:")


def test_contradictory_assumptions_are_an_obstacle() -> None:
    def run(path: Path) -> bool:
        path.assume(n > 2)
        path.assume(n < 2)
        return bool(SBool(m > 0))

    assert [[CONTRADICTION]] == [path.obstacles for path, _ in explore(run)]


def test_a_universal_statement_holds_of_early_and_late_terms() -> None:
    positive = z3.Function("positive", KEY, z3.BoolSort())
    early, late = z3.Consts("early late", KEY)
    with Path() as path:
        path.join(early)
        path.for_all(("Key",), lambda key: positive(key))
        path.for_all(("Key", "Key"), lambda one, other: z3.Implies(one != other, positive(one) != positive(other)))
        path.join(late)
        assert z3.unsat == path.solver.check(z3.Not(positive(early)))
        assert z3.unsat == path.solver.check(z3.Not(positive(late)))
        assert z3.unsat == path.solver.check(early != late)


def test_a_statement_of_all_terms_grows_with_them() -> None:
    size = z3.Int("size")
    with Path() as path:
        path.whenever("Key", lambda *keys: size >= len(keys))
        for name in ("a", "b", "c", "a"):
            path.join(z3.Const(name, KEY))
        assert z3.unsat == path.solver.check(size < 3)
        assert z3.sat == path.solver.check(size == 3)


def test_paths_do_not_see_each_other() -> None:
    with Path() as outer:
        with Path() as inner:
            assert current() is inner
        assert current() is outer
