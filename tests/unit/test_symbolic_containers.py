"""The containers of the proofs against Python's own: the same operations, the same answers."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import islice
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

z3 = pytest.importorskip("z3")

from evictable.specs.proofs import containers  # noqa: E402
from evictable.specs.proofs.containers import (  # noqa: E402
    Contents,
    SymbolicBag,
    SymbolicDict,
    SymbolicLog,
    SymbolicOrderedDict,
    empty,
)
from evictable.specs.proofs.executor import Path, Unsupported  # noqa: E402
from evictable.specs.proofs.state import symbolic_len, symbolic_range  # noqa: E402
from evictable.specs.proofs.values import SInt  # noqa: E402

UNIVERSE = range(6)
keys = st.sampled_from(UNIVERSE)
held = st.dictionaries(keys, st.integers(0, 9))


@contextmanager
def one_way() -> Iterator[Path]:
    """A path on which every key is known, so that it never forks."""
    with Path() as path:
        for key in UNIVERSE:
            path.join(z3.IntVal(key))
        yield path
    assert [] == path.alternatives
    assert [] == path.obstacles


def contents(real: dict[int, int]) -> Contents:
    """The same keys, values and order, as terms."""
    real = dict(real)  # as it is now
    order = {key: place for place, key in enumerate(real)}

    def choose(table: dict[int, int], key: Any) -> Any:
        folded = z3.IntVal(-1)
        for one, number in table.items():
            folded = z3.If(key == one, z3.IntVal(number), folded)
        return folded

    return Contents(
        lambda key: z3.Or([z3.BoolVal(False), *(key == one for one in real)]),
        lambda key: SInt(choose(real, key)),
        z3.IntVal(len(real)),
        lambda key: choose(order, key),
        z3.IntVal(0),
        z3.IntVal(len(real)),
        z3.IntSort(),
        SInt,
    )


def plain(value: Any) -> Any:
    """A symbolic value that can be only one number, as that number."""
    if isinstance(value, SInt):
        return int(value)
    if isinstance(value, (list, tuple)):
        return type(value)(plain(one) for one in value)
    return value


def outcome(act: Callable[[], Any]) -> Any:
    try:
        return plain(act())
    except (KeyError, IndexError) as error:
        return type(error)


Operation = Callable[[Any], Any]


def put(key: int, value: int) -> Operation:
    return lambda table: table.__setitem__(key, value)


OF_DICT: dict[str, Callable[[int, int], Operation]] = {
    "in": lambda key, value: lambda table: key in table,
    "[]": lambda key, value: lambda table: table[key],
    "get": lambda key, value: lambda table: table.get(key),
    "get or": lambda key, value: lambda table: table.get(key, value),
    "[]=": put,
    "del": lambda key, value: lambda table: table.__delitem__(key),
    "pop": lambda key, value: lambda table: table.pop(key),
    "pop or": lambda key, value: lambda table: table.pop(key, value),
    "setdefault": lambda key, value: lambda table: table.setdefault(key, value),
    "update": lambda key, value: lambda table: table.update([(key, value), (key - 1, value)]),
    "clear": lambda key, value: lambda table: table.clear(),
    "bool": lambda key, value: lambda table: bool(table),
    "len": lambda key, value: lambda table: symbolic_len(table),
}
OF_ORDERED_DICT = OF_DICT | {
    "to the end": lambda key, value: lambda table: table.move_to_end(key),
    "to the front": lambda key, value: lambda table: table.move_to_end(key, last=False),
    "popitem": lambda key, value: lambda table: table.popitem(),
    "pop first": lambda key, value: lambda table: table.popitem(last=False),
    "all": lambda key, value: lambda table: [one for one in table],  # noqa: C416 - list() would ask for the length
    "backwards": lambda key, value: lambda table: [one for one in reversed(table)],  # noqa: C416
    "items": lambda key, value: lambda table: list(table.items()),
    "some others": lambda key, value: lambda table: list(islice((one for one in table if one != key), 2)),
}


def sequences(operations: dict[str, Any]) -> Any:
    return st.lists(st.tuples(st.sampled_from(sorted(operations)), keys, st.integers(0, 9)), max_size=12)


def compare(operations: dict[str, Any], real: Any, symbolic: Any, steps: list[tuple[str, int, int]]) -> None:
    for name, key, value in steps:
        act = operations[name](key, value)
        expected, seen = outcome(lambda act=act: act(real)), outcome(lambda act=act: act(symbolic))
        assert (name, expected) == (name, seen)


def only_value(path: Path, term: Any) -> Any:
    """What a term comes to on a path, on which it can be nothing else."""
    assert z3.sat == path.solver.check()
    found = path.solver.model().eval(term, model_completion=True)
    assert z3.unsat == path.solver.check(term != found)
    return z3.is_true(found) if z3.is_bool(found) else found.as_long()


def is_true(term: Any) -> bool:
    return bool(z3.is_true(z3.simplify(term)))


def number(term: Any) -> int:
    return int(z3.simplify(term).as_long())


@given(held, sequences(OF_DICT))
def test_a_dict_answers_as_a_dict(real: dict[int, int], steps: list[tuple[str, int, int]]) -> None:
    with one_way():
        symbolic = SymbolicDict(contents(real))
        compare(OF_DICT, real, symbolic, steps)
        assert real == {
            key: number(symbolic.value_term(z3.IntVal(key)))
            for key in range(-1, 7)
            if is_true(symbolic.has_term(z3.IntVal(key)))
        }
        assert len(real) == number(symbolic.size())


@given(held, sequences(OF_ORDERED_DICT))
def test_an_ordered_dict_answers_as_an_ordered_dict(first: dict[int, int], steps: list[tuple[str, int, int]]) -> None:
    real = OrderedDict(first)
    with one_way() as path:
        path.join(z3.IntVal(-1))  # `update` names it
        symbolic = SymbolicOrderedDict(contents(real))
        compare(OF_ORDERED_DICT, real, symbolic, steps)
        terms = {key: z3.IntVal(key) for key in range(-1, 7)}
        present = [key for key, term in terms.items() if only_value(path, symbolic.has_term(term))]
        places = {key: only_value(path, symbolic.place_term(terms[key])) for key in present}
        assert list(real) == sorted(present, key=places.__getitem__)
        assert list(real.values()) == [only_value(path, symbolic.value_term(terms[key])) for key in real]
        first_place, end = (only_value(path, term) for term in symbolic.ends())
        assert all(first_place <= place < end for place in places.values())
        assert len(real) == only_value(path, symbolic.size())


@given(
    st.lists(keys, max_size=4),
    st.lists(st.one_of(keys, st.sampled_from(["pop", "clear", "len", "bool", "extend"])), max_size=8),
)
def test_a_bag_of_slots_allows_what_a_list_does(real: list[int], steps: list[Any]) -> None:
    with Path() as path:
        first = list(real)
        symbolic = SymbolicBag(
            lambda slot: z3.Sum([z3.IntVal(0), *(z3.If(slot == one, 1, 0) for one in first)]), z3.IntVal(len(first))
        )
        for step in steps:
            if step == "pop":
                seen, expected = _pop(path, symbolic, real[-1] if real else None), outcome(real.pop)
            elif step == "clear":
                expected, seen = real.clear(), symbolic.clear()
            elif step == "len":
                expected, seen = len(real), plain(symbolic_len(symbolic))
            elif step == "bool":
                expected, seen = bool(real), bool(symbolic)
            elif step == "extend":
                expected, seen = real.extend([1, 1]), symbolic.extend([1, 1])
            else:
                expected, seen = real.append(step), symbolic.append(step)
            assert (step, expected) == (step, seen)
        assert z3.unsat == path.solver.check(
            z3.Or([symbolic.count_term(z3.IntVal(slot)) != real.count(slot) for slot in UNIVERSE])
        )
        assert len(real) == number(symbolic.size())
    assert [] == path.obstacles


def _pop(path: Path, bag: SymbolicBag, last: int | None) -> Any:
    """What a bag pops can be what the list pops; from there on, it is."""
    try:
        slot = bag.pop()
    except IndexError as error:
        return type(error)
    assert z3.sat == path.solver.check(slot.term == last)
    path.assume(slot.term == last)
    return plain(slot)


def test_a_bag_never_pops_what_it_does_not_hold() -> None:
    with Path() as path:
        bag = SymbolicBag(lambda slot: z3.If(slot == 3, 1, 0), z3.IntVal(1))
        slot = bag.pop()
        assert z3.unsat == path.solver.check(slot.term != 3)


@given(st.lists(st.tuples(keys, keys), max_size=6), keys)
def test_an_entry_that_changes_inside_is_seen(steps: list[tuple[int, int]], key: int) -> None:
    """A row of a table of tables, and a record in a table, are changed without the table being told."""
    with one_way():
        table = SymbolicDict(Contents(lambda one: z3.BoolVal(True), lambda one: {0: 1}, z3.IntVal(6)))
        real: dict[int, dict[int, int]] = {one: {0: 1} for one in UNIVERSE}
        for one, inner in steps:
            table[one][inner] = one
            real[one][inner] = one
        assert len(real[key]) == number(table.value_term(z3.IntVal(key), of=lambda row: z3.IntVal(len(row))))


@given(held)
def test_questions_take_ordinary_containers_too(real: dict[int, int]) -> None:
    symbolic, ordinary = SymbolicOrderedDict(contents(real)), OrderedDict(real)
    for key in map(z3.IntVal, UNIVERSE):
        assert is_true(containers.has(symbolic, key) == containers.has(ordinary, key))
        if is_true(containers.has(ordinary, key)):
            assert is_true(containers.value(symbolic, key) == containers.value(ordinary, key))
            assert is_true(containers.place(symbolic, key) == containers.place(ordinary, key))
    assert is_true(containers.size_of(symbolic) == containers.size_of(ordinary))


@given(st.lists(keys))
def test_the_count_in_a_free_list_takes_an_ordinary_one_too(slots: list[int]) -> None:
    assert [slots.count(slot) for slot in UNIVERSE] == [
        number(containers.count(slots, z3.IntVal(slot))) for slot in UNIVERSE
    ]


@given(st.integers(0, 5), st.integers(0, 5))
def test_a_range_is_a_range(start: int, stop: int) -> None:
    with one_way():
        assert list(range(start, stop)) == plain(list(symbolic_range(SInt(z3.IntVal(start)), SInt(z3.IntVal(stop)))))
        assert list(range(stop)) == plain(list(symbolic_range(SInt(z3.IntVal(stop)))))
        assert list(range(start, stop)) == list(symbolic_range(start, stop))


@given(st.integers(-1, 5), st.integers(-1, 5))
def test_numbers_are_numbers(one: int, other: int) -> None:
    with one_way():
        left, right = SInt(z3.IntVal(one)), SInt(z3.IntVal(other))
        assert [one + other, one - other, one * other, -one] == plain_sums(left, right)
        assert [one < other, one <= other, one > other, one >= other, one == other, one != other] == [
            bool(truth)
            for truth in (left < right, left <= right, left > right, left >= right, left == right, left != right)
        ]
        assert [min(one, 3), max(one, other), bool(one)] == [plain(min(left, 3)), plain(max(left, right)), bool(left)]


def plain_sums(left: SInt, right: SInt) -> list[int]:
    return [number(value.term) for value in (left + right, left - right, left * right, -left)]


@pytest.mark.parametrize(
    "use",
    [
        lambda table, bag, log: len(table),
        lambda table, bag, log: [key for key in table],  # noqa: C416
        lambda table, bag, log: table.items(),
        lambda table, bag, log: table == {},
        lambda table, bag, log: [slot for slot in bag],  # noqa: C416
        lambda table, bag, log: bag[0],
        lambda table, bag, log: bag.remove(0),
        lambda table, bag, log: bag.__delitem__(0),
        lambda table, bag, log: [event for event in log],  # noqa: C416
        lambda table, bag, log: log.pop(),
        lambda table, bag, log: bool(log),
    ],
)
def test_what_is_not_known_is_named_and_remembered(use: Callable[[Any, Any, Any], Any]) -> None:
    with Path() as path:
        table, bag = SymbolicDict(empty()), SymbolicBag(lambda slot: z3.IntVal(0), z3.IntVal(0))
        with pytest.raises(Unsupported) as raised:
            use(table, bag, SymbolicLog())
    assert [True] == [obstacle.startswith(str(raised.value)) for obstacle in path.obstacles]


def test_a_log_keeps_what_is_appended_and_forgets_what_was() -> None:
    log = SymbolicLog()
    log.append("first")
    log.append("second")
    assert "second" == log.pop()
    assert (["first"], True) == (log.appended, log.kept)
    log.clear()
    assert ([], False) == (log.appended, log.kept)


def test_a_list_that_changes_under_a_loop_is_told() -> None:
    with one_way():
        symbolic = SymbolicOrderedDict(contents({1: 0, 2: 0}))
        loop = iter(symbolic)
        symbolic.move_to_end(next(loop))
        with pytest.raises(RuntimeError, match="mutated during iteration"):
            next(loop)
