"""The engines that show theorems, by name, each loaded when it is used: two of them need libraries of their own."""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from typing import Protocol

from evictable.specs.errors import UsageError
from evictable.specs.theorems import Result, Theorem

EXHAUSTIVE, Z3, CROSSHAIR = "exhaustive", "z3", "crosshair"


class Engine(Protocol):
    """What an engine offers: its theorems beforehand, and what comes of each, one after the other."""

    def theorems(self, subject: str, full: bool) -> tuple[Theorem, ...]: ...

    def prove(self, subject: str, full: bool) -> Iterator[Result]: ...


class _Exhaustive:
    def theorems(self, subject: str, full: bool) -> tuple[Theorem, ...]:
        from evictable.specs import exhaustive, subjects

        return exhaustive.theorems(full, tiers=subjects.load(subject).tiers)

    def prove(self, subject: str, full: bool) -> Iterator[Result]:
        from evictable.specs import exhaustive, subjects

        return exhaustive.prove(subjects.load(subject), full=full)


class _Z3:
    def theorems(self, subject: str, full: bool) -> tuple[Theorem, ...]:
        from evictable.specs.proofs import prove

        return prove.theorems(full, subject)

    def prove(self, subject: str, full: bool) -> Iterator[Result]:
        from evictable.specs.proofs import prove

        return prove.prove(subject, full=full)


class _CrossHair:
    def theorems(self, subject: str, full: bool) -> tuple[Theorem, ...]:
        from evictable.specs.contracts import run

        return run.theorems(full)

    def prove(self, subject: str, full: bool) -> Iterator[Result]:
        from evictable.specs.contracts import run

        return run.prove(None, full=full, processes=1)


_ENGINES: dict[str, Engine] = {EXHAUSTIVE: _Exhaustive(), Z3: _Z3(), CROSSHAIR: _CrossHair()}
_NEEDS = {Z3: "z3", CROSSHAIR: "crosshair"}


def engines_of(subject: str) -> tuple[str, ...]:
    """The engines that can say something of a subject.

    Contracts are written for the project's own code; the symbolic executor knows blocks as objects of a policy, not
    as places in lists.
    """
    from evictable.specs import subjects

    unfit = {CROSSHAIR} if subject != "impl" else set()
    if subjects.is_linked(subject):
        unfit.add(Z3)
    return tuple(name for name in _ENGINES if name not in unfit)


def load_engine(name: str) -> Engine:
    """An engine, ready to use. Raises `UsageError` if a library that it needs is not installed."""
    needed = _NEEDS.get(name)
    if needed is not None:
        try:
            importlib.import_module(needed)
        except ImportError as error:
            raise UsageError(f"the engine {name} needs {needed} ({error}); pip install 'evictable[prove]'") from error
    return _ENGINES[name]
