"""A private copy of `evictable.impl` with one edit.

The copy is imported under a name of its own, so that any number of mutants and the real package live in one
process without sharing a class.
"""

from __future__ import annotations

import importlib
import sys
from types import ModuleType

from evictable.specs.copying import Copier, text_of
from evictable.specs.errors import UsageError
from evictable.specs.mutants.mutant import LAZY_HEAP, Mutant

_ORIGINAL = "evictable.impl"
_PLUGGED_IN = {f"{_ORIGINAL}.{LAZY_HEAP}": "evictable.specs.mutants.lazy_heap"}
"""Modules that a copy has besides, and where their text is."""


def build(mutant: Mutant) -> ModuleType:
    """The package `evictable.impl` with the mutant's edit, the same object each time.

    Raises `UsageError` if the text to be edited does not occur exactly once.
    """
    edited_source(mutant)
    name = f"evictable_mutant_{mutant.name.replace('-', '_')}"
    if name not in sys.modules:
        sys.meta_path.append(_Copier(name, mutant))
        if mutant.module == LAZY_HEAP:
            _host_the_heap(name)
    return importlib.import_module(name)


def _host_the_heap(name: str) -> None:
    """Let the copy's "lru" be the lazy heap."""
    policies = importlib.import_module(f"{name}.policies.factory").CACHE_POLICIES
    policies["lru"] = importlib.import_module(f"{name}.{LAZY_HEAP}").LazyHeapPolicy


def source_of(module: str) -> str:
    """The source of a module of `evictable.impl`, named within that package: ``policies.lru``; or of `LAZY_HEAP`."""
    return text_of(_named(module))


def edited_source(mutant: Mutant) -> str:
    """The source of the module that the mutant edits, edited. Raises `UsageError` as `build` does."""
    source = source_of(mutant.module)
    times = source.count(mutant.old)
    if times != 1:
        raise UsageError(
            f"mutant:{mutant.name}: the text that it replaces occurs {times} times in {_ORIGINAL}.{mutant.module}; "
            "bring the mutant up to date with the source"
        )
    return source.replace(mutant.old, mutant.new)


class _Copier(Copier):
    """Copies the modules of `evictable.impl`, and what is plugged into it."""

    def __init__(self, name: str, mutant: Mutant) -> None:
        super().__init__(name, f"mutant:{mutant.name}")
        self._mutant = mutant

    def original(self, within: str) -> str:
        return _named(within)

    def text(self, within: str) -> str:
        source = edited_source(self._mutant) if within == self._mutant.module else source_of(within)
        return source.replace(_ORIGINAL, self.root)


def _named(module: str) -> str:
    name = f"{_ORIGINAL}.{module}" if module else _ORIGINAL
    return _PLUGGED_IN.get(name, name)
