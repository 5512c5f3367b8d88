"""A manager of tiers as a subject: its primary tier is looked into, the tiers below it are scripted."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection, Iterator, Mapping
from types import SimpleNamespace
from typing import Any, ClassVar

from evictable.model import calls
from evictable.model.calls import Answer, Call, Gauges, Key
from evictable.model.exchanges import Asked, Exchange
from evictable.model.snapshot import Snapshot
from evictable.specs.errors import UsageError
from evictable.specs.subjects.base import Setup
from evictable.specs.subjects.managers import Lens, ManagerSubject, constructor_arguments, parameters_of
from evictable.specs.subjects.scripted import Script, scripted_tiers


class TieredSubject(ManagerSubject):
    """A live manager of tiers behind the vocabulary of calls."""

    methods: ClassVar[Mapping[str, str]] = {
        **ManagerSubject.methods,
        calls.ON_SCHEDULE_END: "_on_schedule_end",
        calls.FILL_TIER: "_fill_tier",
        calls.DELAY_TIER: "_delay_tier",
        calls.FINISH_JOB: "_finish_job",
        calls.PEER_LOOKUP: "_peer_lookup",
    }

    def __init__(
        self,
        manager: Any,
        script: Script,
        request_context: Callable[[str], Any],
        *,
        step_context: Callable[..., Any] = SimpleNamespace,
        events: bool = True,
    ) -> None:
        """``manager`` was built on the tiers of ``script``, and has a ``primary_tier`` to look into.

        ``step_context`` makes the object that `on_schedule_end` is given where it takes one, from 0.25.
        """
        self._hosts = (manager.primary_tier, manager)
        if not hasattr(manager, "on_schedule_end"):
            manager = _StepsByDraining(manager)
        super().__init__(manager, request_context, events=events)
        self._script = script
        self._table = script.table
        self._lens = Lens.on(manager.primary_tier)
        self._step_context = step_context if parameters_of(manager.on_schedule_end) else None
        script.watch(manager.primary_tier)

    def perform(self, call: Call) -> Answer:
        self._script.begin(call)
        return super().perform(call)

    def _fill_tier(self, call: Call) -> Answer:
        return self._script.fill(call)

    def _delay_tier(self, call: Call) -> Answer:
        return self._script.delay(call)

    def _finish_job(self, call: Call) -> Answer:
        return self._script.finish(call)

    def _peer_lookup(self, call: Call) -> Answer:
        return self._script.ask(call)

    def _fault_hosts(self) -> tuple[Any, ...]:
        return self._hosts

    def exchanges(self) -> tuple[Exchange, ...]:
        return tuple(self._script.log)

    def snapshot(self, keys: Collection[Key] | None) -> Snapshot | None:
        seen = super().snapshot(keys)
        if seen is not None and seen.num_events is not None and isinstance(self._manager, _StepsByDraining):
            seen.num_events += len(self._manager.taken)
        return seen

    def _lookup(self, call: Call) -> Answer:
        found = self._manager.lookup(self._table.fresh(call.keys[0]), self._context(call))
        if found is None:
            # To 0.24 one word for two things: the primary tier writes it, or a tier below is at it.
            asked = any(isinstance(exchange, Asked) for exchange in self._script.log)
            return calls.RETRY if asked else calls.HIT_PENDING
        if isinstance(found, bool):
            return calls.HIT if found else calls.MISS
        return str(found.name)

    def _on_schedule_end(self, call: Call) -> Answer:
        try:
            if self._step_context is None:
                self._manager.on_schedule_end()
            else:
                self._manager.on_schedule_end(self._step_context(new_req_ids=[], preempted_req_ids=()))
        finally:
            self._script.end_step()
        return None

    def _reset_cache(self, call: Call) -> Answer:
        self._manager.reset_cache()
        flushed = getattr(self._manager, "on_reset_flushed", None)  # from 0.33, when no transfer is in flight
        if flushed is not None:
            flushed()
        return None

    def _get_stats(self, call: Call) -> Answer:
        # The usages are the primary tier's. What it counts of offers, it counts of promotions too.
        told = super()._get_stats(call)
        if not isinstance(told, Gauges):
            return told
        return Gauges(usage=told.usage, write_usage=told.write_usage, read_usage=told.read_usage)


class _StepsByDraining:
    """The manager of 0.22: draining its events is what ends a step, so that the end of a step drains them."""

    def __init__(self, manager: Any) -> None:
        self._manager = manager
        self.taken: deque[Any] = deque()
        """Events that the end of a step has taken, and nobody else yet."""

    def __getattr__(self, name: str) -> Any:
        return getattr(self._manager, name)

    def on_schedule_end(self) -> None:
        for event in self._manager.take_events():
            self.taken.append(event)

    def take_events(self) -> Iterator[Any]:
        while self.taken:
            yield self.taken.popleft()
        yield from self._manager.take_events()


def tiered_subject(
    name: str,
    setup: Setup,
    tiering: Any,
    request_context: Callable[[str], Any],
    step_context: Callable[..., Any] = SimpleNamespace,
) -> TieredSubject:
    """The manager of the module ``tiering`` over its own primary tier and ``setup.tiers`` scripted ones.

    Raises `UsageError` if there can be no such manager.
    """
    refuse_threshold(name, setup)
    primary_class = _named(name, tiering, "CPUPrimaryTierOffloadingManager")
    script = Script(setup, request_context)
    view = memoryview(bytearray(setup.capacity)).cast("B", (setup.capacity, 1))
    arguments = constructor_arguments(primary_class, setup, name)
    parameters = parameters_of(primary_class)
    if "mmap_region" in parameters:
        arguments["mmap_region"] = _Region(view)
    if "kv_memoryview" in parameters:
        arguments["kv_memoryview"] = view
    primary = _built(name, primary_class, **arguments)
    manager_class = _named(name, tiering, "TieringOffloadingManager")
    tiers = scripted_tiers(_named(name, tiering, "SecondaryTierManager"), script, view)
    # Events of the manager's own to 0.25; a thread that polls tiers between steps from 0.33, which 0 disables.
    more = {"enable_events": setup.events, "tier_poll_interval_s": 0.0}
    known = parameters_of(manager_class)
    arguments = {option: value for option, value in more.items() if option in known}
    manager = _built(name, manager_class, primary, tiers, **arguments)
    return TieredSubject(manager, script, request_context, step_context=step_context)


def refuse_threshold(name: str, setup: Setup) -> None:
    """Raises `UsageError` for a store threshold: no primary tier has one."""
    if setup.store_threshold > 1:
        raise UsageError(f"{name}: there is no store threshold above tiers; leave out --store-threshold or --tiers")


class _Region:
    """Stands for the memory that a release's primary tier shares with its workers."""

    def __init__(self, view: memoryview) -> None:
        self._view = view

    def create_kv_memoryview(self) -> memoryview:
        return self._view

    def cleanup(self) -> None:
        pass


def _named(name: str, module: Any, attribute: str) -> Any:
    found = getattr(module, attribute, None)
    if found is None:
        raise UsageError(f"{name}: its module {module.__name__} has no {attribute}; leave out --tiers")
    return found


def _built(name: str, factory: Any, *collaborators: Any, **arguments: Any) -> Any:
    try:
        return factory(*collaborators, **arguments)
    except Exception as error:
        shown = ", ".join(f"{key}={value!r}" for key, value in arguments.items() if isinstance(value, (str, int)))
        raise UsageError(
            f"{name}: {factory.__name__}(..., {shown}) raised {type(error).__name__}: {error}; "
            "does it have that policy, and tiers?"
        ) from error
