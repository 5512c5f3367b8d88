"""Anybody's manager, or anybody's cache policy in the built-in one: ``package.module:factory``."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from evictable.impl import ReqContext
from evictable.impl.tiering.base import SecondaryTierManager
from evictable.specs.errors import UsageError
from evictable.specs.subjects.base import Setup, Subject, SubjectKind
from evictable.specs.subjects.hosts import in_builtin, is_policy
from evictable.specs.subjects.managers import ManagerSubject, constructor_arguments, parameters_of, takes_anything
from evictable.specs.subjects.scripted import Script, scripted_tiers
from evictable.specs.subjects.tiers import TieredSubject, refuse_threshold

REQUIRED = (
    "lookup",
    "prepare_store",
    "complete_store",
    "prepare_load",
    "complete_load",
    "touch",
    "take_events",
    "reset_cache",
)
"""What a manager must have. ``on_new_request``, ``on_request_finished`` and ``get_stats`` are called where they are."""
WITH_TIERS = ("on_schedule_end", "primary_tier.prepare_write")
"""What one above tiers must have besides: what a step ends with, and where promotions are seen."""


def from_factory(name: str) -> SubjectKind:
    """The subject that the named callable constructs. The working directory is importable.

    The callable takes ``num_blocks`` (or ``num_chunks``) and, if it has them, ``cache_policy``, ``enable_events``
    and ``secondary_tiers``. A class that is a cache policy by what it has is hosted in the built-in manager. Raises
    `UsageError` if it cannot be imported, and when it raises.
    """
    factory = found_by(name)
    if is_policy(factory):
        return in_builtin(name, factory)
    return of_callable(name, factory, name.partition(":")[2])


def of_callable(name: str, factory: Callable[..., Any], attribute: str) -> SubjectKind:
    """The subject that ``factory`` constructs, as in `from_factory`; messages call it ``attribute``."""

    def make(setup: Setup) -> Subject:
        arguments = constructor_arguments(factory, setup, name)
        script = None
        if setup.tiers:
            if not ("secondary_tiers" in parameters or takes_anything(parameters)):
                raise UsageError(
                    f"{name}: takes no secondary_tiers; leave out --tiers, or give the factory the argument, "
                    "a list of evictable.impl.tiering.SecondaryTierManager"
                )
            refuse_threshold(name, setup)
            script = Script(setup, ReqContext)
            arguments["secondary_tiers"] = scripted_tiers(SecondaryTierManager, script, None)
        try:
            manager = factory(**arguments)
        except Exception as error:
            shown = ", ".join(f"{key}={value!r}" for key, value in arguments.items())
            raise UsageError(
                f"{name}: {attribute}({shown}) raised {type(error).__name__}: {_one_line(error)}"
            ) from error
        required = REQUIRED if script is None else REQUIRED + WITH_TIERS
        missing = [method for method in required if not callable(_found_in(manager, method))]
        if missing:
            raise UsageError(
                f"{name}: what it returns ({type(manager).__name__}) has no method {', '.join(missing)}; "
                "a subject has the methods of vLLM's OffloadingManager"
            )
        if script is not None:
            return TieredSubject(manager, script, ReqContext, events=events)
        return ManagerSubject(manager, ReqContext, events=events)

    parameters = parameters_of(factory)
    events = "enable_events" in parameters or takes_anything(parameters)
    return SubjectKind(name, make, lambda policy: "any", events=events)


def found_by(name: str) -> Any:
    """What ``package.module:name`` names, which can be called. Raises `UsageError`."""
    module_name, _, attribute = name.partition(":")
    if module_name in ("__main__", "__mp_main__"):
        raise UsageError(
            f"{name}: what a script defines itself cannot be imported by another process; put a factory of it into a "
            "module and name that with --subject MODULE:FACTORY"
        )
    here = str(Path.cwd())
    if here not in sys.path:
        sys.path.insert(0, here)
    try:
        found: Any = importlib.import_module(module_name)
    except Exception as error:
        raise UsageError(
            f"{name}: importing {module_name} raised {type(error).__name__}: {_one_line(error)}; "
            "the working directory and PYTHONPATH are searched"
        ) from error
    for part in attribute.split("."):
        if not hasattr(found, part):
            raise UsageError(f"{name}: {module_name} has no {attribute}; name a manager factory that it defines")
        found = getattr(found, part)
    if not callable(found):
        raise UsageError(f"{name}: {attribute} cannot be called; name a manager class or a function that returns one")
    return found


def _found_in(manager: Any, path: str) -> Any:
    for part in path.split("."):
        manager = getattr(manager, part, None)
    return manager


def _one_line(error: BaseException) -> str:
    return " ".join(str(error).split())
