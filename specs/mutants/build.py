"""A private copy of `evictable.impl` with one edit.

The copy is imported under a name of its own, so that any number of mutants and the real package live in one
process without sharing a class.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Sequence
from importlib.abc import ExecutionLoader, MetaPathFinder
from importlib.machinery import ModuleSpec
from importlib.util import find_spec
from types import ModuleType

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
        # It stays, because a module of the copy may import another one late, in the middle of a call.
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
    spec = _spec_of(f"{_ORIGINAL}.{module}" if module else _ORIGINAL)
    assert isinstance(spec.loader, ExecutionLoader)
    source = spec.loader.get_source(spec.name)
    assert source is not None
    return source


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


class _Copier(MetaPathFinder, ExecutionLoader):
    """Imports the modules of `evictable.impl` as those of the package ``name``."""

    def __init__(self, name: str, mutant: Mutant) -> None:
        self._name = name
        self._mutant = mutant

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if name != self._name and not name.startswith(f"{self._name}."):
            return None
        return ModuleSpec(name, self, origin=self.get_filename(name), is_package=self.is_package(name))

    def is_package(self, name: str) -> bool:
        return _spec_of(self._original(name)).submodule_search_locations is not None

    def get_filename(self, name: str) -> str:
        # Not the real file: a traceback must show the lines of the copy.
        return f"mutant:{self._mutant.name}/{name[len(self._name) + 1 :] or '__init__'}"

    def get_source(self, name: str) -> str:
        module = name[len(self._name) + 1 :]
        source = edited_source(self._mutant) if module == self._mutant.module else source_of(module)
        return source.replace(_ORIGINAL, self._name)

    def _original(self, name: str) -> str:
        return _ORIGINAL + name[len(self._name) :]


def _spec_of(name: str) -> ModuleSpec:
    spec = find_spec(_PLUGGED_IN.get(name, name))
    if spec is None:
        raise ModuleNotFoundError(f"No module named {name!r}", name=name)
    return spec
