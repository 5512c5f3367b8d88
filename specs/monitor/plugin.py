"""The monitor in a running vLLM server: a general plug-in, turned on by the environment.

vLLM calls `register` in each of its processes (entry point group ``vllm.general_plugins``). Without
``EVICTABLE_MONITOR`` it does nothing. With it, every CPU offload manager that a ``CPUOffloadingSpec`` makes from then
on is watched; the managers above tiers are not, which reach around their primary tier's methods.

``EVICTABLE_MONITOR``            ``counters``, ``touched`` or ``readback``
``EVICTABLE_MONITOR_LAST``       calls in a trace, as `watch`
``EVICTABLE_MONITOR_DIR``        where traces are written; default: ``evictable-traces`` in the temporary folder
``EVICTABLE_MONITOR_PROMETHEUS`` ``1``: count in prometheus-client's default registry
``EVICTABLE_MONITOR_IGNORE``     laws not to report, separated by commas
"""

from __future__ import annotations

import importlib
import os
import tempfile
from collections.abc import Mapping
from functools import wraps
from pathlib import Path
from typing import Any

from evictable.specs.errors import UsageError

SPEC_MODULE, SPEC = "vllm.v1.kv_offload.cpu.spec", "CPUOffloadingSpec"
MANAGER_MODULE, MANAGER = "vllm.v1.kv_offload.cpu.manager", "CPUOffloadingManager"


def register() -> None:
    """What vLLM calls. A setting that makes no sense is logged, and nothing is watched: the server goes on."""
    from evictable.specs.monitor.monitor import LOGGER

    if not os.environ.get("EVICTABLE_MONITOR"):
        return
    try:
        settings = read_settings(os.environ)
        patch(getattr(importlib.import_module(SPEC_MODULE), SPEC), settings)
    except (UsageError, ImportError, AttributeError) as error:
        LOGGER.warning("evictable: no manager is watched: %s", error)


def read_settings(environment: Mapping[str, str]) -> dict[str, Any]:
    """The arguments of `watch`. Raises `UsageError`."""
    from evictable.specs.monitor.inside import LEVELS

    level = environment["EVICTABLE_MONITOR"]
    if level not in LEVELS:
        raise UsageError(f"EVICTABLE_MONITOR is {level!r}; known: {', '.join(LEVELS)}")
    last = environment.get("EVICTABLE_MONITOR_LAST")
    if last is not None and not (last.isdecimal() and int(last) > 0):
        raise UsageError(f"EVICTABLE_MONITOR_LAST is {last!r}; give a number of calls, at least 1")
    folder = environment.get("EVICTABLE_MONITOR_DIR") or str(Path(tempfile.gettempdir(), "evictable-traces"))
    return {
        "level": level,
        "last": None if last is None else int(last),
        "dump_dir": folder,
        "prometheus": environment.get("EVICTABLE_MONITOR_PROMETHEUS") == "1" or None,
        "ignore": tuple(law for law in environment.get("EVICTABLE_MONITOR_IGNORE", "").split(",") if law),
    }


def patch(spec: Any, settings: Mapping[str, Any]) -> None:
    """Let ``spec.get_manager`` put a monitor on the manager that it makes, once."""
    made_before = spec.get_manager
    if getattr(made_before, "watches", False):
        return  # vLLM may load its plug-ins more than once

    @wraps(made_before)
    def get_manager(self: Any) -> Any:
        manager = made_before(self)
        attach(manager, settings)
        return manager

    get_manager.watches = True  # type: ignore[attr-defined]
    spec.get_manager = get_manager


def attach(manager: Any, settings: Mapping[str, Any]) -> None:
    """Watch ``manager``, if it is the plain CPU offload manager and nobody watches it yet."""
    from evictable.specs.monitor.monitor import LOGGER, watch

    if type(manager).__name__ != MANAGER or type(manager).__module__ != MANAGER_MODULE:
        return
    if getattr(manager, "_evictable_monitor", None) is not None:
        return
    try:
        manager._evictable_monitor = watch(manager, **settings)
        LOGGER.info("evictable: watching %s at level %s", type(manager).__name__, settings["level"])
    except UsageError as error:
        LOGGER.warning("evictable: the manager is not watched: %s", error)
