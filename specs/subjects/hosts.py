"""Which manager hosts a stranger's cache policy: the built-in one, or that of a vLLM release."""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import ModuleType
from typing import Any

import evictable.impl
from evictable.impl.policies.base import CachePolicy
from evictable.model.calls import Call
from evictable.specs.errors import UsageError
from evictable.specs.subjects.base import Setup, Subject, SubjectKind
from evictable.specs.subjects.guests import Construct, guest_class
from evictable.specs.subjects.managers import GetLens, ManagerSubject, constructor_arguments, parameters_of

REQUIRED = ("get", "insert", "remove", "touch", "evict", "clear")
"""What a policy must have. Marks and hooks are called where they are."""
_MODULE = "evictable_guest"
"""Where a release from 0.27 finds the class, as its ``cache_policy_module_path``."""


def is_policy(found: Any) -> bool:
    """Whether a class is a cache policy rather than a manager, by what it has."""
    return (
        isinstance(found, type)
        and all(callable(getattr(found, name, None)) for name in ("evict", "insert"))
        and not hasattr(found, "prepare_store")
    )


def hosted_by(host: str, policy: str, name: str) -> SubjectKind:
    """The policy ``package.module:Name`` in the manager of ``host``, which is `impl` or a prepared vLLM.

    Raises `UsageError` if either cannot be loaded.
    """
    from evictable.specs import subjects
    from evictable.specs.subjects.factory import found_by

    above = subjects.load(host)  # first: the policy may import from the release that it is written for
    found = found_by(policy)
    if host == "impl":
        return in_builtin(name, found)
    return _in_release(name, found, above)


def in_builtin(name: str, found: Callable[..., Any]) -> SubjectKind:
    """The subject of policies that ``found`` constructs (it takes ``cache_capacity``) in the built-in manager."""
    guest = guest_class(CachePolicy, _constructor(name, found))

    def make(setup: Setup) -> Subject:
        _refuse(name, setup)
        manager = evictable.impl.CPUOffloadingManager(
            setup.capacity,
            cache_policy=guest,
            enable_events=setup.events,
            store_threshold=setup.store_threshold,
            max_tracker_size=setup.max_tracker_size,
        )
        return GuestSubject(manager, evictable.impl.ReqContext)

    return SubjectKind(name, make, profile=lambda policy: "any", tickets=True)


def _in_release(name: str, found: Callable[..., Any], above: SubjectKind) -> SubjectKind:
    from evictable.specs.subjects import standins

    modules = standins.loaded()
    factory = modules.manager.CPUOffloadingManager
    guest = guest_class(modules.policies_base.CachePolicy, _constructor(name, found))
    by_path = "cache_policy_module_path" in parameters_of(factory)  # from 0.27
    if by_path:
        module: Any = ModuleType(_MODULE)
        module.Guest = guest
        sys.modules[_MODULE] = module
        policy = {"cache_policy": "Guest", "cache_policy_module_path": _MODULE}
    else:
        modules.manager._CACHE_POLICIES["Guest"] = guest
        policy = {"cache_policy": "Guest"}

    def make(setup: Setup) -> Subject:
        _refuse(name, setup)
        manager = factory(**constructor_arguments(factory, setup, name) | policy)
        return GuestSubject(manager, modules.base.ReqContext)

    return SubjectKind(name, make, lambda policy: "any", above.admission)


class GuestSubject(ManagerSubject):
    """A manager with a stranger's policy: what it holds is what its ``get`` finds."""

    lens = GetLens

    def __init__(self, manager: Any, request_context: Callable[[str], Any]) -> None:
        super().__init__(manager, request_context)
        self._guest = manager._policy  # while faults are armed another stands there

    def _context(self, call: Call) -> Any:
        context = super()._context(call)
        self._guest.request = context
        return context


def _constructor(name: str, found: Callable[..., Any]) -> Construct:
    def construct(capacity: int) -> Any:
        try:
            policy = found(cache_capacity=capacity)
        except Exception as error:
            said = " ".join(str(error).split())
            raise UsageError(f"{name}: (cache_capacity={capacity}) raised {type(error).__name__}: {said}") from error
        missing = [method for method in REQUIRED if not callable(getattr(policy, method, None))]
        if missing:
            raise UsageError(
                f"{name}: has no method {', '.join(missing)}; a policy has the methods of vLLM's CachePolicy"
            )
        return policy

    return construct


def _refuse(name: str, setup: Setup) -> None:
    if setup.policy != "lru":
        raise UsageError(f"{name} is a policy itself: leave out --policy {setup.policy}")
    if setup.tiers:
        raise UsageError(f"{name}: a policy of yours is hosted without tiers: leave out --tiers")
