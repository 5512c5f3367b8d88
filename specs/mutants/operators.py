"""Operators on syntax trees: every small edit of a module that might be a bug."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from attrs import frozen


@frozen
class Edit:
    """One node of a tree in another form."""

    operator: str
    function: str
    """Where it is, as a dotted name within the module."""
    line: int
    old: str
    """The node as it is; of a statement with a body, its first line."""
    new: str
    source: str
    """The whole module, edited."""


_COMPARISONS: dict[type[ast.cmpop], tuple[type[ast.cmpop], ...]] = {
    ast.Lt: (ast.LtE, ast.GtE),
    ast.LtE: (ast.Lt, ast.Gt),
    ast.Gt: (ast.GtE, ast.LtE),
    ast.GtE: (ast.Gt, ast.Lt),
    ast.Eq: (ast.NotEq,),
    ast.NotEq: (ast.Eq,),
    ast.Is: (ast.IsNot,),
    ast.IsNot: (ast.Is,),
    ast.In: (ast.NotIn,),
    ast.NotIn: (ast.In,),
}
_ARITHMETIC: dict[type[ast.operator], type[ast.operator]] = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.Div,
    ast.Div: ast.Mult,
}
_CALLS = {"min": "max", "max": "min", "popleft": "pop", "pop": "get", "append": "extend", "extend": "append"}
_IDENTITIES = ("reversed", "sorted", "list", "set", "dict", "int", "float", "islice")
"""Called with something, the call is left out."""
_SIMPLE = (ast.Expr, ast.Assign, ast.AugAssign, ast.Delete, ast.Raise, ast.Return, ast.Break, ast.Continue)
_FORBIDDEN = (ast.Import, ast.ImportFrom, ast.AnnAssign)


ROUNDS = 10_000
"""Rounds of one loop after which it counts as endless: many times what any loop in a small world takes."""


def edits(source: str) -> Iterator[Edit]:
    """Every edit of one node, in the order of the source. Imports, annotations and texts are left alone.

    In what is made of them a ``while`` raises after `ROUNDS`: a loop without end is an answer that never comes, and
    is to be noticed as such, not by a time-out.
    """
    tree = ast.fix_missing_locations(_Bounded().visit(ast.parse(source)))
    for path, node in list(_walk(tree, ())):
        for operator, new in _variants(node, path):
            _put(tree, path, new)
            edited = ast.unparse(tree)
            _put(tree, path, node)
            yield Edit(operator, _function(tree, path), node.lineno, _text(node), _text(new), edited)


class _Bounded(ast.NodeTransformer):
    def visit_While(self, node: ast.While) -> ast.AST:
        self.generic_visit(node)
        leave = ast.If(ast.UnaryOp(ast.Not(), node.test), [ast.Break()], [])
        rounds, endless = ast.parse(f"range({ROUNDS})\nraise RuntimeError('a loop without end')").body
        assert isinstance(rounds, ast.Expr)
        loop = ast.For(ast.Name("_", ast.Store()), rounds.value, [leave, *node.body], [endless])
        for added in (rounds.value, endless):
            vars(added)["added"] = True
        return ast.copy_location(loop, node)


_Path = tuple[tuple[str, int | None], ...]
"""From the module down: the field, and the place in it if it is a list."""


def _walk(node: ast.AST, path: _Path) -> Iterator[tuple[_Path, ast.stmt | ast.expr]]:
    for name, value in ast.iter_fields(node):
        if name in ("annotation", "returns", "decorator_list", "bases", "keywords" if path == () else ""):
            continue
        for place, child in enumerate(value) if isinstance(value, list) else ((None, value),):
            if not isinstance(child, ast.AST) or hasattr(child, "added"):
                continue
            if isinstance(child, _FORBIDDEN):
                if isinstance(child, ast.AnnAssign) and child.value is not None:
                    yield from _below(child.value, (*path, (name, place), ("value", None)))
                continue
            yield from _below(child, (*path, (name, place)))


def _below(child: ast.AST, path: _Path) -> Iterator[tuple[_Path, ast.stmt | ast.expr]]:
    if isinstance(child, ast.stmt | ast.expr):
        yield path, child
    yield from _walk(child, path)


def _variants(node: ast.stmt | ast.expr, path: _Path) -> Iterator[tuple[str, ast.stmt | ast.expr]]:
    if isinstance(node, ast.expr):
        yield from _of_expression(node)
    elif isinstance(node, _SIMPLE) and any(name == "body" for name, _ in path[1:]):  # within a function or a class
        if not (isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)):  # a text
            yield "delete", ast.Pass()
        if isinstance(node, ast.Return) and not (node.value is None or _is_none(node.value)):
            yield "return", ast.Return(ast.Constant(None))
    if isinstance(node, ast.Break):
        yield "loop", ast.Continue()
    if isinstance(node, ast.Continue):
        yield "loop", ast.Break()
    if isinstance(node, ast.AugAssign) and type(node.op) in _ARITHMETIC:
        yield "arithmetic", ast.AugAssign(node.target, _ARITHMETIC[type(node.op)](), node.value)
    if isinstance(node, ast.If):
        for value in (True, False):
            yield "branch", ast.If(ast.Constant(value), node.body, node.orelse)


def _of_expression(node: ast.expr) -> Iterator[tuple[str, ast.expr]]:
    if isinstance(node, ast.Compare) and len(node.ops) == 1:
        for op in _COMPARISONS[type(node.ops[0])]:
            yield "comparison", ast.Compare(node.left, [op()], node.comparators)
    elif isinstance(node, ast.BoolOp):
        other = ast.Or() if isinstance(node.op, ast.And) else ast.And()
        yield "boolean", ast.BoolOp(other, node.values)
        for place in range(len(node.values)):
            rest = node.values[:place] + node.values[place + 1 :]
            yield "boolean", rest[0] if len(rest) == 1 else ast.BoolOp(node.op, rest)
    elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not | ast.USub):
        yield "unary", node.operand
    elif isinstance(node, ast.BinOp) and type(node.op) in _ARITHMETIC:
        yield "arithmetic", ast.BinOp(node.left, _ARITHMETIC[type(node.op)](), node.right)
    elif isinstance(node, ast.IfExp):
        yield "branch", ast.IfExp(node.test, node.orelse, node.body)
    elif isinstance(node, ast.Constant):
        yield from _of_constant(node.value)
    elif isinstance(node, ast.Call):
        yield from _of_call(node)
    elif isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Slice):
        yield "slice", node.value


def _of_constant(value: object) -> Iterator[tuple[str, ast.expr]]:
    if isinstance(value, bool):
        yield "constant", ast.Constant(not value)
    elif isinstance(value, int | float):
        yield "constant", ast.Constant(value + 1)
        yield "constant", ast.Constant(value - 1)


def _of_call(node: ast.Call) -> Iterator[tuple[str, ast.expr]]:
    name = node.func.id if isinstance(node.func, ast.Name) else getattr(node.func, "attr", "")
    if name in _IDENTITIES and isinstance(node.func, ast.Name) and node.args:
        yield "call", node.args[0]
    if name in _CALLS:
        func: ast.expr = (
            ast.Name(_CALLS[name], ast.Load())
            if isinstance(node.func, ast.Name)
            else ast.Attribute(node.func.value, _CALLS[name], ast.Load())  # type: ignore[attr-defined]
        )
        yield "call", ast.Call(func, node.args, node.keywords)


def _is_none(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and node.value is None


def _put(tree: ast.AST, path: _Path, new: ast.AST) -> None:
    parent: ast.AST = tree
    for name, place in path[:-1]:
        value = getattr(parent, name)
        parent = value if place is None else value[place]
    name, place = path[-1]
    if place is None:
        setattr(parent, name, new)
    else:
        getattr(parent, name)[place] = new


def _function(tree: ast.AST, path: _Path) -> str:
    names, node = [], tree
    for name, place in path:
        value = getattr(node, name)
        node = value if place is None else value[place]
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            names.append(node.name)
    return ".".join(names)


def _text(node: ast.AST) -> str:
    return ast.unparse(node).splitlines()[0]
