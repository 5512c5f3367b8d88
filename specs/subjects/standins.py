"""Import the offload subtree of one vLLM tree, with stand-ins for everything around it.

The managers need a few small pure modules of their own tree and nothing else, but they import torch and half of
vLLM on the way. A finder serves the tree's own modules from its files and makes up the rest. The real `vllm` is
never imported: that takes long and touches the GPU.

One process holds one tree: vLLM loads policies late and by name, so that of two releases in one process the first
would silently get the classes of the second.
"""

from __future__ import annotations

import ast
import importlib
import sys
import typing
from abc import ABCMeta
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec, SourceFileLoader
from importlib.util import spec_from_file_location
from pathlib import Path
from types import FunctionType, ModuleType
from typing import Any

import attrs

from evictable.specs.errors import UsageError

_SUBTREE = "vllm.v1.kv_offload"
_STATS = "vllm.distributed.kv_transfer.kv_connector.v1.metrics"
_OFFLOADING_METRICS = "vllm.distributed.kv_transfer.kv_connector.v1.offloading.metrics"
_OFFLOADING_SCHEDULER = "vllm.distributed.kv_transfer.kv_connector.v1.offloading.scheduler"

# Pure modules outside the subtree that the managers rely on. (Hints, `vllm.v1.kv_hints`, are only passed through.)
_SERVED_TOO = (
    _OFFLOADING_METRICS,
    _OFFLOADING_SCHEDULER,
    "vllm.v1.metrics.cache_hit_source",
    "vllm.utils.math_utils",
)


@attrs.frozen
class VllmModules:
    """The modules of the loaded tree that a subject is built from."""

    root: Path
    base: ModuleType
    common: ModuleType
    manager: ModuleType
    policies_base: ModuleType
    lru: ModuleType
    arc: ModuleType
    metrics: ModuleType
    _finder: _Finder = attrs.field(repr=False, eq=False)

    @property
    def tiering(self) -> ModuleType:
        """The tiering manager's module, imported on first use.

        :raises UsageError: it cannot be imported.
        """
        return self._finder.load(f"{_SUBTREE}.tiering.manager")

    @property
    def scheduler(self) -> ModuleType:
        """The module of the connector's scheduler, imported on first use.

        :raises UsageError: it cannot be imported.
        """
        return self._finder.load(_OFFLOADING_SCHEDULER)


_loaded: VllmModules | None = None


def load(root: Path) -> VllmModules:
    """Import the offload subtree of the tree at `root`, the folder that holds `vllm/`.

    :raises UsageError: a module of the tree cannot be imported.
    :raises RuntimeError: this process holds another tree, or the real vllm.
    """
    global _loaded
    root = root.resolve()
    if _loaded is not None:
        if _loaded.root != root:
            raise RuntimeError(f"this process holds the tree {_loaded.root}; load {root} in another one")
        return _loaded
    if "vllm" in sys.modules:
        raise RuntimeError("vllm is already imported in this process; load a tree in another one")
    finder = _Finder(root)
    sys.meta_path.insert(0, finder)
    try:
        _loaded = VllmModules(
            root=root,
            base=finder.load(f"{_SUBTREE}.base"),
            common=finder.load(f"{_SUBTREE}.cpu.common"),
            manager=finder.load(f"{_SUBTREE}.cpu.manager"),
            policies_base=finder.load(f"{_SUBTREE}.cpu.policies.base"),
            lru=finder.load(f"{_SUBTREE}.cpu.policies.lru"),
            arc=finder.load(f"{_SUBTREE}.cpu.policies.arc"),
            metrics=finder.load(_OFFLOADING_METRICS),
            finder=finder,
        )
    except BaseException:
        sys.meta_path.remove(finder)
        _take_out("vllm")
        raise
    return _loaded


def loaded() -> VllmModules:
    """The tree that this process holds.

    :raises RuntimeError: it holds none.
    """
    if _loaded is None:
        raise RuntimeError("this process holds no tree: load one first")
    return _loaded


class _Finder(MetaPathFinder, Loader):
    """Serves one tree's modules under their own names, and stand-ins for what they import besides."""

    def __init__(self, root: Path) -> None:
        self._root = root
        # torch never decides anything here; the other two only if they are not installed.
        self._replaced = ("torch", *(name for name in ("numpy", "typing_extensions") if not _importable(name)))
        self._running = 0
        self._failed: tuple[str, Exception] | None = None

    def load(self, name: str) -> ModuleType:
        """Import a module of the tree.

        :raises UsageError: says which module failed, and why.
        """
        try:
            return importlib.import_module(name)
        except Exception as error:
            culprit = self._failed[0] if self._failed and self._failed[1] is error else name
            why = (str(error).splitlines() or [""])[0]
            raise UsageError(f"{self._root}: cannot import {culprit} ({type(error).__name__}: {why})") from error

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        top = name.partition(".")[0]
        if top == "vllm":
            if self.is_served(name):
                return self._spec_in_tree(name)
        elif not (self._running and top in self._replaced):
            return None
        return ModuleSpec(name, self, is_package=True)

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        return _StandIn(spec.name, self)

    def exec_module(self, module: ModuleType) -> None:
        vars(module).update(_FURNITURE.get(module.__name__, {}))

    def is_served(self, name: str) -> bool:
        """Whether the module comes from the tree. One that is missing there is then an error, not a stand-in."""
        return any(name == served or name.startswith(f"{served}.") for served in (_SUBTREE, *_SERVED_TOO))

    def source(self, name: str) -> Path | None:
        """The file of a module in the tree."""
        place = self._root.joinpath(*name.split("."))
        return next((f for f in (place / "__init__.py", place.with_name(f"{place.name}.py")) if f.is_file()), None)

    def _spec_in_tree(self, name: str) -> ModuleSpec | None:
        file = self.source(name)
        if file is not None:
            inside = [str(file.parent)] if file.name == "__init__.py" else None
            loader = _TreeLoader(name, str(file), self)
            return spec_from_file_location(name, file, loader=loader, submodule_search_locations=inside)
        folder = self._root.joinpath(*name.split("."))
        if folder.is_dir():
            spec = ModuleSpec(name, None, is_package=True)
            spec.submodule_search_locations = [str(folder)]
            return spec
        return None

    @contextmanager
    def running(self, name: str) -> Iterator[None]:
        """While a module of the tree runs, and only then, it sees stand-ins for torch and the like.

        Others in this process look into `sys.modules` to learn whether numpy or torch is there (Hypothesis and pytest
        do), and must neither find a stand-in nor lose the real one.
        """
        real = {} if self._running else _take_out(*self._replaced)
        self._running += 1
        try:
            yield
        except Exception as error:
            if self._failed is None or self._failed[1] is not error:
                self._failed = (name, error)  # the innermost module sees the error first
            raise
        finally:
            self._running -= 1
            if not self._running:
                _take_out(*self._replaced)
                sys.modules.update(real)


class _TreeLoader(SourceFileLoader):
    """Runs a module of the tree among the stand-ins, also one that is imported late, in the middle of a call."""

    def __init__(self, name: str, file: str, finder: _Finder) -> None:
        super().__init__(name, file)
        self._finder = finder

    def exec_module(self, module: ModuleType) -> None:
        with self._finder.running(module.__name__):
            super().exec_module(module)


class _StandIn(ModuleType):
    """A module that has every name: modules of the tree, literal constants of the file it stands for, or `Absent`."""

    def __init__(self, name: str, finder: _Finder) -> None:
        super().__init__(name)
        self._finder = finder
        self._constants: Mapping[str, Any] | None = None

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        full = f"{self.__name__}.{name}"
        value: Any
        if self._finder.is_served(full):
            value = importlib.import_module(full)
        else:
            if self._constants is None:
                self._constants = _literals(self._finder.source(self.__name__))
            value = self._constants[name] if name in self._constants else _absent(full)
        setattr(self, name, value)
        return value


class _AbsentType(ABCMeta):
    """The type of absent classes. It is an ABCMeta so that an abstract class can inherit from an absent one."""

    def __getattr__(cls, name: str) -> Any:
        # Classes of the tree that inherit from an absent one keep ordinary attributes.
        if name.startswith("_") or not cls.__dict__.get("_is_absent"):
            raise AttributeError(name)
        return _absent(f"{cls.__module__}.{cls.__name__}.{name}")

    def __bool__(cls) -> bool:
        return not cls.__dict__.get("_is_absent")

    def __call__(cls, *args: Any, **kwargs: Any) -> Any:
        if cls.__dict__.get("_is_absent") and _decorates(args, kwargs):
            return args[0]
        return super().__call__(*args, **kwargs)


class Absent(metaclass=_AbsentType):
    """Stands for whatever is not there: a false value, a base class, a decorator that changes nothing."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        pass

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_") or not type(self).__dict__.get("_is_absent"):
            raise AttributeError(name)
        return Absent._of(f"{type(self).__module__}.{type(self).__name__}.{name}")

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return args[0] if _decorates(args, kwargs) else self

    def __bool__(self) -> bool:
        return not type(self).__dict__.get("_is_absent")

    def __class_getitem__(cls, item: Any) -> Any:
        return cls

    @staticmethod
    def _of(full: str) -> Any:
        return _absent(full)()


def _absent(full: str) -> Any:
    module, _, name = full.rpartition(".")
    return _AbsentType(name, (Absent,), {"__module__": module, "_is_absent": True})


def _decorates(args: Sequence[Any], kwargs: Mapping[str, Any]) -> bool:
    return len(args) == 1 and not kwargs and isinstance(args[0], FunctionType)


@dataclass
class KVConnectorStats:
    """What `get_stats()` answers with inherits from this class, and keeps everything in `data`."""

    data: dict[str, Any] = field(default_factory=dict)


class _Silent:
    """A logger that says nothing: a fuzzer makes thousands of refusals that are worth a warning to a server."""

    def __getattr__(self, name: str) -> Callable[..., None]:
        return self._say_nothing

    @staticmethod
    def _say_nothing(*args: object, **kwargs: object) -> None:
        pass


class _Array(list[Any]):
    """As much of a one-dimensional numpy array as block ids need."""

    def __init__(self, values: Sequence[Any] = (), dtype: object = None) -> None:
        super().__init__(values)

    def tolist(self) -> list[Any]:
        return list(self)


def _override(method: Any, /) -> Any:
    return method


_FURNITURE: Mapping[str, Mapping[str, Any]] = {
    "vllm.logger": {"init_logger": lambda name: _Silent()},
    _STATS: {"KVConnectorStats": KVConnectorStats},
    "numpy": {"array": _Array, "asarray": _Array, "ndarray": _Array},
    "typing_extensions": {**{name: getattr(typing, name) for name in typing.__all__}, "override": _override},
}


def _literals(file: Path | None) -> Mapping[str, Any]:
    """The constants that a file spells out, without running it: a medium is called what the tree calls it."""
    constants: dict[str, Any] = {}
    if file is not None:
        for statement in ast.parse(file.read_bytes()).body:
            match statement:
                case (
                    ast.Assign(targets=[ast.Name(id=name)], value=value)
                    | ast.AnnAssign(target=ast.Name(id=name), value=ast.expr() as value)
                ):
                    try:
                        constants[name] = ast.literal_eval(value)
                    except (ValueError, TypeError):
                        continue
    return constants


def _importable(name: str) -> bool:
    try:
        importlib.import_module(name)
    except ImportError:
        return False
    return True


def _take_out(*tops: str) -> dict[str, ModuleType]:
    """Remove these packages, with all their modules, from the modules that imports see."""
    names = [name for name in sys.modules if name.partition(".")[0] in tops]
    return {name: sys.modules.pop(name) for name in names}
