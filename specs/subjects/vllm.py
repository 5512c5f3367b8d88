"""vLLM's own manager as a subject: a published release, the installed package or a source checkout."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

from evictable.model.profiles import admission_of_release, profile_of_release
from evictable.specs.errors import UsageError
from evictable.specs.subjects.base import Setup, Subject, SubjectKind
from evictable.specs.subjects.managers import ManagerSubject, constructor_arguments
from evictable.specs.subjects.schedulers import scheduling_of
from evictable.specs.subjects.standins import VllmModules, load
from evictable.specs.subjects.tiers import tiered_subject

POLICIES = ("lru", "arc")


def from_tree(name: str, root: Path, release: str | None = None) -> SubjectKind:
    """The subject in the tree at ``root``, imported into this process, which may hold one tree only.

    Without a ``release`` the profile is derived from how the policy is built. Raises `UsageError` if the
    tree cannot be imported.
    """
    modules = load(root)
    factory = modules.manager.CPUOffloadingManager

    def make(setup: Setup) -> Subject:
        if setup.tiers:
            step_context = getattr(modules.base, "ScheduleEndContext", SimpleNamespace)
            return tiered_subject(name, setup, modules.tiering, modules.base.ReqContext, step_context)
        return ManagerSubject(_construct(name, factory, setup), modules.base.ReqContext)

    def profile(policy: str) -> str:
        if release is not None:
            return profile_of_release(policy, release)
        return _profile_by_structure(modules, policy, name)

    if release is not None:
        admission = admission_of_release(release)
    else:
        admission = _admission_by_structure(factory)
    return SubjectKind(
        name,
        make,
        profile,
        admission,
        scheduling=lambda: scheduling_of(modules),
        request_level=hasattr(modules.base, "RequestOffloadingContext"),  # from 0.23
    )


def _construct(name: str, factory: Any, setup: Setup) -> Any:
    arguments = constructor_arguments(factory, setup, name)
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
    by_request = hasattr(manager, "_record_request_cache_access")
    if policy == "arc":
        if by_request:
            return "arc-request"
        # How it falls back shows only in what it does: three blocks, T1 below its target, T2 empty.
        return "arc" if _arc_falls_back(modules) else "arc-no-fallback"
    if "evictable_chunks" in held or "evictable_blocks" in held:
        return "lru-evictable"
    if "_ranks" not in held:
        return "lru-scan"
    return "lru-ranked-request" if hasattr(manager._policy, "_get_request_rank") else "lru-ranked"


def _arc_falls_back(modules: VllmModules) -> bool:
    policy = modules.arc.ARCCachePolicy(cache_capacity=3)
    status = getattr(modules.policies_base, "ChunkStatus", None) or modules.policies_base.BlockStatus
    block = status(0)
    block.ref_cnt = 0
    policy.t1[b"key"] = block
    policy.target_t1_size = 2.0
    return policy.evict(1, set()) is not None


def _admission_by_structure(factory: Any) -> str:
    if hasattr(factory, "_record_accesses"):
        return "new-keys" if hasattr(factory, "_record_request_cache_access") else "whole-offers"
    return "one-by-one" if hasattr(factory, "_record_access") else "lookups"
