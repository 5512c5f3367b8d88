"""The subjects whose source is run: the built-in manager, its mutants, and published releases."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable
from types import ModuleType
from typing import Any

from attrs import field, frozen

from evictable.model.calls import Answer, Call
from evictable.specs.proofs.state import NoProof, View
from evictable.specs.subjects.managers import ManagerSubject


@frozen
class SubjectText:
    """The modules of a subject that are run, unchanged, and how to construct it."""

    name: str
    modules: tuple[ModuleType, ...]
    construct: Callable[[Any], Any]
    """A manager of so many slots."""
    request_context: Callable[..., Any]
    block_class: Any
    exchanged: dict[str, Any] = field(factory=dict)
    """Globals of those modules that stand for what Python has only for plain numbers."""

    def view(self, request: Any, capacity: Any = 1) -> View:
        manager = self.construct(capacity)
        view = View.of(manager, self.block_class(0))
        # A manager's own adapter translates calls and answers, here with keys that need no translation.
        adapter = ManagerSubject(manager, lambda name: self.request_context(req_id=request))
        adapter._table = _AsTheyAre()  # type: ignore[assignment]
        view.adapter = adapter
        return view

    def perform(self, view: View, call: Call) -> Answer:
        answer: Answer = view.adapter.perform(call)
        return answer


class _AsTheyAre:
    """Keys as the subject knows them are the caller's own."""

    def encode(self, key: Any) -> Any:
        return key

    fresh = decode = encode

    def fresh_all(self, keys: Any) -> list[Any]:
        return list(keys)

    def decode_all(self, keys: Any) -> tuple[Any, ...]:
        return tuple(keys)


def load(name: str) -> SubjectText:
    """The text of a subject. Raises `NoProof` if there can be none, `UsageError` if it cannot be loaded."""
    if name == "impl":
        return of_package(name, "evictable.impl")
    if name.startswith("mutant:"):
        from evictable.specs.mutants import build, registry

        if registry.named(name.removeprefix("mutant:")).is_linked:
            raise NoProof(f"{name}: the proofs know blocks as objects of a policy, not as places in lists")
        return of_package(name, build.build(registry.named(name.removeprefix("mutant:"))).__name__)
    if name == "vllm" or name.startswith(("vllm==", "vllm:")):
        return _of_release(name)
    raise NoProof(f"{name}: proofs are of impl, its mutants and vLLM's manager, whose inside they know")


def of_package(name: str, package: str) -> SubjectText:
    """The built-in manager, or a copy of it."""
    impl = importlib.import_module(package)
    modules = tuple(sys.modules[f"{package}.{module}"] for module in ("manager", "pool", "policies.lru", "base"))
    return SubjectText(
        name,
        modules,
        lambda capacity: impl.CPUOffloadingManager(capacity, enable_events=True),
        impl.ReqContext,
        sys.modules[f"{package}.blocks"].BlockStatus,
        {"array": _list_of},
    )


def _of_release(name: str) -> SubjectText:
    from evictable.specs import subjects

    profile = subjects.load(name).profile("lru")
    if profile != "lru-evictable":
        raise NoProof(
            f"the order of {name} is {profile}; the proofs know lru-evictable, a list of the evictable blocks alone"
        )
    # Loaded by the subject: its own modules of that tree, among stand-ins for the rest.
    manager, lru, base, common, policies = (
        importlib.import_module(f"vllm.v1.kv_offload.{module}")
        for module in ("cpu.manager", "cpu.policies.lru", "base", "cpu.common", "cpu.policies.base")
    )
    real = getattr(policies, "ChunkStatus", None) or policies.BlockStatus
    block_class = without_c_fields(real)
    return SubjectText(
        name,
        (manager, lru, base, common),
        lambda capacity: manager.CPUOffloadingManager(capacity, enable_events=True),
        base.ReqContext,
        block_class,
        {real.__name__: block_class, "np": _Numpy()},
    )


def without_c_fields(structure: Any) -> Any:
    """A `ctypes.Structure` whose fields hold any object, and are not cut to so many bits; else it is unchanged."""

    def of_any_object(name: str) -> property:
        kept = f"_{name}_as_it_is"
        return property(lambda block: vars(block)[kept], lambda block, held: vars(block).__setitem__(kept, held))

    fields = {field[0]: of_any_object(field[0]) for field in getattr(structure, "_fields_", ())}
    return type(structure.__name__, (structure,), fields)


def _list_of(typecode: str, numbers: Any = ()) -> list[Any]:
    return list(numbers)


class _Numpy:
    """As much of numpy as block ids need: an array is a list, of whatever type its elements are."""

    ndarray = list

    @staticmethod
    def array(numbers: Any = (), dtype: object = None) -> list[Any]:
        return list(numbers)

    asarray = array

    def __getattr__(self, name: str) -> None:
        if not name.startswith(("int", "uint")):
            raise AttributeError(f"numpy.{name} has no symbolic counterpart")
