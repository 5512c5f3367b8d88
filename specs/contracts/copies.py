"""A private copy of the model, the built-in manager and the harnesses, with some edits.

The copy is imported under a name of its own, so that it shares no class with the real packages; which of the three
an edit is in makes no difference to who uses it.
"""

from __future__ import annotations

import importlib
import re
import sys
from collections.abc import Sequence
from importlib.abc import ExecutionLoader, MetaPathFinder
from importlib.machinery import ModuleSpec
from importlib.util import find_spec
from types import ModuleType

from attrs import frozen

from evictable.specs.errors import UsageError

_COPIED = ("evictable.model", "evictable.impl", "evictable.specs.contracts")
_NAMED = re.compile(r"\bevictable\.(?=(model|impl|specs\.contracts)\b)")


@frozen
class Edit:
    """One replacement in the source of one module."""

    module: str
    """Within `evictable`: ``model.lifecycle``, ``impl.policies.lru``."""
    old: str
    """Occurs exactly once in that source."""
    new: str


def copy_of(module: str, name: str, edits: Sequence[Edit] = ()) -> ModuleType:
    """``module`` (within `evictable`) of the copy called ``name``, the same object each time.

    Raises `UsageError` if the text of an edit does not occur exactly once, `ValueError` if that copy has other edits.
    """
    for edit in edits:
        edited(edit)
    root = f"evictable_copy_{re.sub(r'[^A-Za-z0-9]', '_', name)}"
    there = [finder for finder in sys.meta_path if isinstance(finder, _Copier) and finder.root == root]
    if not there:
        # It stays, because a module of the copy may import another one late, in the middle of a call.
        sys.meta_path.append(_Copier(root, edits))
    elif there[0].edits != tuple(edits):
        raise ValueError(f"the copy {name!r} has other edits")
    return importlib.import_module(f"{root}.{module}")


def source_of(module: str) -> str:
    """The source of a module within `evictable`."""
    name = f"evictable.{module}"
    spec = find_spec(name)
    if spec is None:
        raise ModuleNotFoundError(f"No module named {name!r}", name=name)
    assert isinstance(spec.loader, ExecutionLoader)
    source = spec.loader.get_source(name)
    assert source is not None
    return source


def edited(edit: Edit) -> str:
    """The source of the module that the edit is in, edited. Raises `UsageError` as `copy_of` does."""
    source = source_of(edit.module)
    times = source.count(edit.old)
    if times != 1:
        raise UsageError(
            f"the text {edit.old!r} occurs {times} times in evictable.{edit.module}; bring the edit up to date"
        )
    return source.replace(edit.old, edit.new)


class _Copier(MetaPathFinder, ExecutionLoader):
    """Imports modules of `evictable` as those of the package ``root``."""

    def __init__(self, root: str, edits: Sequence[Edit]) -> None:
        self.root = root
        self.edits = tuple(edits)
        self._edits = {edit.module: edit for edit in edits}

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if name != self.root and not name.startswith(f"{self.root}."):
            return None
        return ModuleSpec(name, self, origin=self.get_filename(name), is_package=self.is_package(name))

    def is_package(self, name: str) -> bool:
        if not self._is_copied(name):
            return True  # above the packages that are copied
        spec = find_spec(f"evictable.{self._within(name)}")
        if spec is None:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
        return spec.submodule_search_locations is not None

    def get_filename(self, name: str) -> str:
        # Not the real file: a traceback must show the lines of the copy.
        return f"{self.root}/{self._within(name)}"

    def get_source(self, name: str) -> str:
        if not self._is_copied(name):
            return ""
        module = self._within(name)
        source = edited(self._edits[module]) if module in self._edits else source_of(module)
        return _NAMED.sub(f"{self.root}.", source)

    def _within(self, name: str) -> str:
        return name[len(self.root) + 1 :]

    def _is_copied(self, name: str) -> bool:
        original = f"evictable.{self._within(name)}"
        return any(original == package or original.startswith(f"{package}.") for package in _COPIED)
