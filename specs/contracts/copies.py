"""A private copy of the model, the built-in manager and the harnesses, with some edits.

The copy is imported under a name of its own, so that it shares no class with the real packages; which of the three
an edit is in makes no difference to who uses it.
"""

from __future__ import annotations

import importlib
import re
import sys
from collections.abc import Sequence
from types import ModuleType

from attrs import frozen

from evictable.specs.copying import Copier, text_of
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
        sys.meta_path.append(_Copier(root, edits))
    elif there[0].edits != tuple(edits):
        raise ValueError(f"the copy {name!r} has other edits")
    return importlib.import_module(f"{root}.{module}")


def source_of(module: str) -> str:
    """The source of a module within `evictable`."""
    return text_of(f"evictable.{module}")


def edited(edit: Edit) -> str:
    """The source of the module that the edit is in, edited. Raises `UsageError` as `copy_of` does."""
    source = source_of(edit.module)
    times = source.count(edit.old)
    if times != 1:
        raise UsageError(
            f"the text {edit.old!r} occurs {times} times in evictable.{edit.module}; bring the edit up to date"
        )
    return source.replace(edit.old, edit.new)


class _Copier(Copier):
    """Copies modules of `evictable`, named as within it."""

    def __init__(self, root: str, edits: Sequence[Edit]) -> None:
        super().__init__(root, root)
        self.edits = tuple(edits)
        self._edits = {edit.module: edit for edit in edits}

    def original(self, within: str) -> str | None:
        name = f"evictable.{within}"
        is_copied = any(name == package or name.startswith(f"{package}.") for package in _COPIED)
        return name if is_copied else None

    def text(self, within: str) -> str:
        source = edited(self._edits[within]) if within in self._edits else source_of(within)
        return _NAMED.sub(f"{self.root}.", source)
