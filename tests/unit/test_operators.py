"""The edits that operators make of a text."""

from __future__ import annotations

import ast

import pytest

from evictable.specs.mutants.operators import ROUNDS, edits


def made(source: str) -> list[tuple[str, str]]:
    return [(edit.operator, edit.new) for edit in edits(source)]


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("a < b", [("comparison", "a <= b"), ("comparison", "a >= b")]),
        ("a is None", [("comparison", "a is not None")]),
        ("a and b", [("boolean", "a or b"), ("boolean", "b"), ("boolean", "a")]),
        ("not a", [("unary", "a")]),
        ("a + b", [("arithmetic", "a - b")]),
        ("a if b else c", [("branch", "c if b else a")]),
        ("f(0)", [("constant", "1"), ("constant", "-1")]),
        ("f(True)", [("constant", "False")]),
        ("min(a, b)", [("call", "max(a, b)")]),
        ("reversed(a)", [("call", "a")]),
        ("a[1:]", [("slice", "a"), ("constant", "2"), ("constant", "0")]),
        ("'text'", []),
        ("import a", []),
        ("a: int = b", []),
    ],
)
def test_each_operator(source: str, expected: list[tuple[str, str]]) -> None:
    assert expected == made(source)


def test_statements_of_functions_are_deleted() -> None:
    source = "def f(a):\n    'says'\n    a.b()\n    return a"
    assert [("delete", "pass"), ("delete", "pass"), ("return", "return None")] == made(source)


def test_a_condition_is_taken_and_not_taken() -> None:
    assert [("branch", "if True:"), ("branch", "if False:"), ("delete", "pass")] == made("if a:\n    b")


def test_an_edit_says_where_it_is_and_leaves_the_rest_as_it_was() -> None:
    source = "class C:\n\n    def f(self):\n        g()\n        return h()"
    (first, *_) = edits(source)
    assert ("C.f", 4, "g()") == (first.function, first.line, first.old)
    assert source.replace("g()", "pass") == first.source


def test_each_edit_is_another_text() -> None:
    source = "def f(a, n=1):\n    while a > n and a:\n        a -= n\n    return a or [a + 1]"
    texts = [edit.source for edit in edits(source)]
    assert len(texts) == len(set(texts))
    assert all(ast.dump(ast.parse(text)) != ast.dump(ast.parse(source)) for text in texts)


def run(text: str, *arguments: int) -> int:
    names: dict[str, object] = {}
    exec(text, names)
    found = names["f"](*arguments)  # type: ignore[operator]
    assert isinstance(found, int)
    return found


def test_a_loop_does_what_it_did_and_one_without_end_raises() -> None:
    source = "def f(a):\n    while a > 2:\n        a -= 1\n    return a + 0"
    by_text = {edit.new: edit.source for edit in edits(source)}
    assert 2 + 1 == run(by_text["1"].replace("a - 1", "a"), 5)
    with pytest.raises(RuntimeError, match="a loop without end"):
        run(by_text["a += 1"], ROUNDS)
