"""vLLM's own manager as a subject: a published release, the installed package or a source checkout."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from evictable.model.profiles import profile_of_release
from evictable.specs.errors import UsageError
from evictable.specs.subjects.base import Setup, Subject, SubjectKind
from evictable.specs.subjects.managers import ManagerSubject, constructor_arguments
from evictable.specs.subjects.standins import VllmModules, load

POLICIES = ("lru", "arc")


def from_tree(name: str, root: Path, release: str | None = None) -> SubjectKind:
    """The subject in the tree at ``root``, imported into this process, which may hold one tree only.

    Without a ``release`` the profile is derived from how the policy is built. Raises `UsageError` if the
    tree cannot be imported.
    """
    modules = load(root)
    factory = modules.manager.CPUOffloadingManager

    def make(setup: Setup) -> Subject:
        return ManagerSubject(_construct(name, factory, setup), modules.base.ReqContext)

    def profile(policy: str) -> str:
        if release is not None:
            return profile_of_release(policy, release)
        return _profile_by_structure(modules, policy, name)

    return SubjectKind(name, make, profile)


def _construct(name: str, factory: Any, setup: Setup) -> Any:
    arguments = constructor_arguments(factory, setup.capacity, setup.policy, setup.events)
    try:
        return factory(**arguments)
    except Exception as error:
        shown = ", ".join(f"{key}={value!r}" for key, value in arguments.items())
        raise UsageError(
            f"{name}: CPUOffloadingManager({shown}) raised {type(error).__name__}: {error}; "
            "does this tree have that policy?"
        ) from error


def _profile_by_structure(modules: VllmModules, policy: str, name: str) -> str:
    """A checkout has no reliable version, but each era of the LRU policy keeps other containers."""
    manager = _construct(name, modules.manager.CPUOffloadingManager, Setup(1, policy))
    held = vars(manager._policy)
    if policy != "lru":
        return "any"
    if "evictable_chunks" in held or "evictable_blocks" in held:
        return "lru-evictable"
    return "any" if "_ranks" in held else "lru-scan"
