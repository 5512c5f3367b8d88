"""What makes a confirmation worth something: rules that the contracts keep."""

from __future__ import annotations

import ast
import importlib
import inspect
import io
import itertools
import pkgutil
import random
import sys
import tokenize
from collections.abc import Callable, Iterator
from types import FrameType
from typing import Any

import pytest

import evictable.impl
import evictable.model
from evictable.specs.contracts import harnesses
from evictable.specs.contracts.copies import Edit, copy_of, edited, source_of
from evictable.specs.contracts.registry import CONTRACTS, Contract, named
from evictable.specs.contracts.run import theorems
from evictable.specs.contracts.story import arguments_of, play
from evictable.specs.errors import UsageError

every_contract = pytest.mark.parametrize("contract", CONTRACTS, ids=lambda contract: contract.name)

HARNESS_MODULES = [info.name for info in pkgutil.iter_modules(harnesses.__path__)]
TRIED: dict[str, tuple[Any, ...]] = {
    "int": (-2, -1, 0, 1, 2, 3, 4, 16),
    "bool": (False, True),
    "str": ("", "a", "{", "1", "x"),
}


def functions_in(source: str) -> Iterator[ast.FunctionDef]:
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.FunctionDef):
            yield node


def has_contract(function: ast.FunctionDef) -> bool:
    lines = (ast.get_docstring(function) or "").splitlines()
    return any(line.strip().startswith(("pre:", "post:", "pre[", "post[", "inv:")) for line in lines)


def contracted(module: str) -> list[str]:
    return [function.name for function in functions_in(source_of(module)) if has_contract(function)]


def modules_of(package: Any) -> list[str]:
    walked = pkgutil.walk_packages(package.__path__, f"{package.__name__}.")
    return [info.name.removeprefix("evictable.") for info in walked]


def harness(contract: Contract) -> Callable[..., bool]:
    module = importlib.import_module(f"evictable.specs.contracts.harnesses.{contract.module}")
    function: Callable[..., bool] = getattr(module, contract.function)
    return function


def precondition(function: Callable[..., bool]) -> str:
    lines = (inspect.getdoc(function) or "").splitlines()
    found = [line.strip().removeprefix("pre:").strip() for line in lines if line.strip().startswith("pre:")]
    return " and ".join(f"({one})" for one in found) or "True"


def walked(function: Callable[..., bool], arguments: tuple[Any, ...]) -> tuple[tuple[str, int], ...]:
    """The lines that a call goes through, its own and those of what it calls."""
    lines: list[tuple[str, int]] = []

    def trace(frame: FrameType, event: str, _: Any) -> Any:
        if event == "line":
            lines.append((frame.f_code.co_name, frame.f_lineno))
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        function(*arguments)
    finally:
        sys.settrace(before)
    return tuple(lines)


def inputs_branched_on(function: Callable[..., bool]) -> set[str]:
    """Parameters that by themselves decide which lines are walked, as far as 60 inputs and their neighbours tell."""
    kinds = {name: str(kind.annotation) for name, kind in inspect.signature(function).parameters.items()}
    allowed = compile(precondition(function), "pre", "eval")

    def may_be(arguments: tuple[Any, ...]) -> bool:
        return bool(eval(allowed, function.__globals__, dict(zip(kinds, arguments, strict=True))))

    every = list(itertools.product(*(TRIED[kind] for kind in kinds.values())))
    random.Random(5).shuffle(every)
    found: set[str] = set()
    for arguments in itertools.islice(filter(may_be, every), 60):
        for place, (name, kind) in enumerate(kinds.items()):
            if name in found:
                continue
            path = walked(function, arguments)
            others = ((*arguments[:place], value, *arguments[place + 1 :]) for value in TRIED[kind])
            if any(walked(function, other) != path for other in filter(may_be, others)):
                found.add(name)
    return found


def tokens(source: str) -> list[str]:
    return [token.string for token in tokenize.generate_tokens(io.StringIO(source).readline)]


def test_the_registry_names_every_harness_once() -> None:
    there = [(module, name) for module in HARNESS_MODULES for name in contracted(f"specs.contracts.harnesses.{module}")]
    assert sorted(there) == sorted((contract.module, contract.function) for contract in CONTRACTS)


def test_names_and_mutants_are_unique() -> None:
    assert len(CONTRACTS) == len({contract.name for contract in CONTRACTS})
    assert len(CONTRACTS) == len({contract.mutant for contract in CONTRACTS})


@pytest.mark.parametrize("package", [evictable.model, evictable.impl], ids=["model", "impl"])
def test_nothing_that_a_harness_calls_has_a_contract(package: Any) -> None:
    assert [] == [name for module in modules_of(package) for name in contracted(module)]


@pytest.mark.parametrize("module", HARNESS_MODULES)
def test_no_function_calls_a_harness(module: str) -> None:
    """No name in the module is that of one, and no module of harnesses imports another."""
    known = {contract.function for contract in CONTRACTS if contract.module == module}
    tree = ast.parse(source_of(f"specs.contracts.harnesses.{module}"))
    used = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}
    imported = [node for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)]
    assert set() == known & used
    assert [] == [node.module for node in imported if "contracts.harnesses" in str(node.module)]


@every_contract
def test_it_branches_on_two_inputs(contract: Contract) -> None:
    assert len(inputs_branched_on(harness(contract))) >= 2


@every_contract
def test_its_mutant_differs_by_one_token(contract: Contract) -> None:
    before, after = tokens(source_of(contract.mutant.module)), tokens(edited(contract.mutant))
    assert len(before) == len(after)
    assert 1 == sum(old != new for old, new in zip(before, after, strict=True))


def test_an_edit_that_no_longer_fits_is_told() -> None:
    with pytest.raises(UsageError, match=r"occurs 0 times in evictable\.model\.lifecycle; bring the edit up to date"):
        copy_of("model.lifecycle", "moved", [Edit("model.lifecycle", "no such text", "")])


def test_a_copy_shares_no_class_with_the_original() -> None:
    contract = named("refinement-load-of-two")
    copy = copy_of("specs.contracts.harnesses.refinement", "apart", [contract.mutant])
    assert "evictable_copy_apart.impl.errors" == copy.OffloadError.__module__
    assert copy is copy_of("specs.contracts.harnesses.refinement", "apart", [contract.mutant])
    with pytest.raises(ValueError, match="the copy 'apart' has other edits"):
        copy_of("specs.contracts.harnesses.refinement", "apart")


def test_theorems_are_those_that_are_decided() -> None:
    quick, every = theorems(), theorems(full=True)
    assert len(CONTRACTS) == len(every)
    assert set(quick) < set(every)
    assert {"crosshair"} == {theorem.engine for theorem in every}


@pytest.mark.parametrize(
    ("call", "expected"),
    [
        ("load_of_two(1, -2, i=0, j=2)", {"a": 1, "b": -2, "i": 0, "j": 2}),
        ("load_of_two(a=float('nan'))", None),
        ("load_of_two(", None),
    ],
)
def test_arguments_of_a_counterexample(call: str, expected: dict[str, Any] | None) -> None:
    assert expected == arguments_of(harness(named("refinement-load-of-two")), call)


def test_a_story_tells_calls_and_states() -> None:
    story = play(harness(named("refinement-load-of-two")), {"a": 0, "b": 1, "i": 0, "j": 1})
    assert not story.failed
    assert "  prepare_load(keys=(0, 1), req_context=ReqContext(req_id='me'" in story.text
    held = "0: ref_cnt 1 in slot 0, 1: ref_cnt 2 in slot 1"
    counters = "counters: 0 evictable, 0 pending, 0 free"
    assert f"    impl: {held}; evictable []; {counters}; loads: 1 of 0 by me, 2 of 1 by me; stores: none" in story.text
    assert story.text.endswith("answers True")


def test_a_story_of_what_raises_is_a_failure() -> None:
    story = play(harness(named("lifecycle-pins-and-unpins-cancel")), {"count": -1, "pinned_first": True})
    assert story.failed
    assert story.text.endswith("raises IllegalStep: pin of a block that is not ready, ref_cnt -1")
