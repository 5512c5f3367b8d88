"""Symbolic keys, requests, numbers and truth values, for ordinary code.

They hash alike, so that ordinary dicts and sets ask `==` of them, and an `==` whose outcome is used forks the path.
"""

from __future__ import annotations

from typing import Any

import z3

from evictable.specs.proofs.executor import Term, current

KEY = z3.DeclareSort("Key")
REQUEST = z3.DeclareSort("Request")
SLOT = z3.IntSort()

MOST_VALUES = 12
"""So many values of a number are tried where Python wants a plain one."""


class Symbolic:
    """A value that is a z3 term."""

    __slots__ = ("term",)

    def __init__(self, term: Term) -> None:
        self.term = term

    def __hash__(self) -> int:
        return 0

    def __repr__(self) -> str:
        return str(self.term)

    def __eq__(self, other: object) -> Any:
        return SBool(self.term == term_of(other)) if _alike(self, other) else NotImplemented

    def __ne__(self, other: object) -> Any:
        return SBool(self.term != term_of(other)) if _alike(self, other) else NotImplemented


class SKey(Symbolic):
    """A key."""

    __slots__ = ()


class SRequest(Symbolic):
    """The id of a request."""

    __slots__ = ()


class SBool(Symbolic):
    __slots__ = ()

    def __bool__(self) -> bool:
        return current().decide(self.term)

    def __mul__(self, other: Any) -> Any:
        return SInt(z3.If(self.term, 1, 0)) * other

    __rmul__ = __mul__


class SInt(Symbolic):
    """A whole number of any size."""

    __slots__ = ()

    def __bool__(self) -> bool:
        return current().decide(self.term != 0)

    def __index__(self) -> int:
        """Where Python wants a plain number, the path forks over its values, as far as there are few."""
        only = z3.simplify(self.term)
        if isinstance(only, z3.IntNumRef):
            return int(only.as_long())
        for value in range(-1, MOST_VALUES):
            if current().decide(self.term == value):
                return value
        current().cut(f"a number may have more than {MOST_VALUES} values where Python wants a plain one: {self}")
        raise AssertionError

    __int__ = __index__

    def __add__(self, other: Any) -> SInt:
        return SInt(self.term + term_of(other))

    __radd__ = __add__

    def __sub__(self, other: Any) -> SInt:
        return SInt(self.term - term_of(other))

    def __rsub__(self, other: Any) -> SInt:
        return SInt(term_of(other) - self.term)

    def __mul__(self, other: Any) -> SInt:
        if not isinstance(other, (int, SInt, SBool)):
            return NotImplemented  # a list or the like, so many times
        return SInt(self.term * term_of(other))

    __rmul__ = __mul__

    def __truediv__(self, other: Any) -> SFraction:
        return SFraction(self.term, term_of(other))

    def __neg__(self) -> SInt:
        return SInt(-self.term)

    def __lt__(self, other: Any) -> SBool:
        return SBool(self.term < term_of(other))

    def __le__(self, other: Any) -> SBool:
        return SBool(self.term <= term_of(other))

    def __gt__(self, other: Any) -> SBool:
        return SBool(self.term > term_of(other))

    def __ge__(self, other: Any) -> SBool:
        return SBool(self.term >= term_of(other))


class SFraction:
    """One number over another. Such fractions are compared part by part."""

    __slots__ = ("over", "under")

    def __init__(self, over: Term, under: Term) -> None:
        self.over = over
        self.under = under

    def __sub__(self, other: SFraction) -> SFraction:
        if not isinstance(other, SFraction) or not self.under.eq(other.under):
            return NotImplemented
        return SFraction(self.over - other.over, self.under)

    def __lt__(self, other: float) -> SBool:
        if isinstance(other, SFraction) or other != 0 or not current().decide(self.under > 0):
            return NotImplemented
        return SBool(self.over < 0)

    def __repr__(self) -> str:
        return f"{self.over} / {self.under}"


def term_of(value: Any) -> Term:
    """The term of a symbolic value, or of a plain number or truth value."""
    if isinstance(value, Symbolic):
        return z3.If(value.term, z3.IntVal(1), z3.IntVal(0)) if isinstance(value, SBool) else value.term
    if isinstance(value, (bool, int)):
        return z3.IntVal(int(value))
    raise TypeError(f"{value!r} has no symbolic counterpart")


def terms_of(key: Any) -> tuple[Term, ...]:
    """The terms of what a container is asked for: a symbolic value, a number, or a tuple of such."""
    return tuple(map(term_of, key)) if isinstance(key, tuple) else (term_of(key),)


def same(these: tuple[Term, ...], those: tuple[Term, ...]) -> Term:
    pairs = [one == other for one, other in zip(these, those, strict=True)]
    return pairs[0] if len(pairs) == 1 else z3.And(*pairs)


def _alike(value: Symbolic, other: object) -> bool:
    if isinstance(value, (SInt, SBool)):
        return isinstance(other, (int, SInt, SBool))
    return type(value) is type(other)
