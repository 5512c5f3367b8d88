"""Anybody's manager: ``package.module:factory``."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path
from typing import Any

from evictable.impl import ReqContext
from evictable.specs.errors import UsageError
from evictable.specs.subjects.base import Setup, Subject, SubjectKind
from evictable.specs.subjects.managers import ManagerSubject, constructor_arguments, parameters_of, takes_anything

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


def from_factory(name: str) -> SubjectKind:
    """The subject that the named callable constructs. The working directory is importable.

    The callable takes ``num_blocks`` (or ``num_chunks``) and, if it has them, ``cache_policy`` and
    ``enable_events``. Raises `UsageError` if it cannot be imported, and when it raises.
    """
    module_name, _, attribute = name.partition(":")
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
    factory = found

    def make(setup: Setup) -> Subject:
        arguments = constructor_arguments(factory, setup, name)
        try:
            manager = factory(**arguments)
        except Exception as error:
            shown = ", ".join(f"{key}={value!r}" for key, value in arguments.items())
            raise UsageError(
                f"{name}: {attribute}({shown}) raised {type(error).__name__}: {_one_line(error)}"
            ) from error
        missing = [method for method in REQUIRED if not callable(getattr(manager, method, None))]
        if missing:
            raise UsageError(
                f"{name}: what it returns ({type(manager).__name__}) has no method {', '.join(missing)}; "
                "a subject has the methods of vLLM's OffloadingManager"
            )
        return ManagerSubject(manager, ReqContext, events=events)

    parameters = parameters_of(factory)
    events = "enable_events" in parameters or takes_anything(parameters)
    return SubjectKind(name, make, lambda policy: "any", events=events)


def _one_line(error: BaseException) -> str:
    return " ".join(str(error).split())
