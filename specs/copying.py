"""Private copies of packages, with edits: imported under a name of their own, so that they share no class with the real
ones and any number of them live in one process.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from importlib.abc import ExecutionLoader, MetaPathFinder
from importlib.machinery import ModuleSpec
from importlib.util import find_spec
from types import ModuleType


def spec_of(name: str) -> ModuleSpec:
    """Raises ModuleNotFoundError."""
    spec = find_spec(name)
    if spec is None:
        raise ModuleNotFoundError(f"No module named {name!r}", name=name)
    return spec


def text_of(name: str) -> str:
    """The source of a module. Raises ModuleNotFoundError."""
    spec = spec_of(name)
    assert isinstance(spec.loader, ExecutionLoader)
    source = spec.loader.get_source(spec.name)
    assert source is not None
    return source


class Copier(MetaPathFinder, ExecutionLoader):
    """Imports modules of the package ``root``, which are copies of others.

    It stays in `sys.meta_path`, because a module of the copy may import another one late, in the middle of a call.
    """

    def __init__(self, root: str, label: str) -> None:
        """``label`` stands for the package in tracebacks, which show lines of the copy, not of the real file."""
        self.root = root
        self.label = label

    @abstractmethod
    def original(self, within: str) -> str | None:
        """The module that one is a copy of, named within the package ("" for itself); None above all that is copied."""

    @abstractmethod
    def text(self, within: str) -> str:
        """The source of a module that is a copy, edited."""

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if name != self.root and not name.startswith(f"{self.root}."):
            return None
        return ModuleSpec(name, self, origin=self.get_filename(name), is_package=self.is_package(name))

    def is_package(self, name: str) -> bool:
        original = self.original(self._within(name))
        return original is None or spec_of(original).submodule_search_locations is not None

    def get_filename(self, name: str) -> str:
        return f"{self.label}/{self._within(name) or '__init__'}"

    def get_source(self, name: str) -> str:
        within = self._within(name)
        return "" if self.original(within) is None else self.text(within)

    def _within(self, name: str) -> str:
        return name[len(self.root) + 1 :]
