"""One adapter for every manager with the interface of vLLM's CPU offload manager.

What differs between releases is a table of names, probed on the live object rather than derived from a
version: a source checkout has no reliable one. Nothing of a subject is called here that could change it,
except by `ManagerSubject.perform`.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from itertools import chain
from operator import index
from typing import Any, ClassVar

from evictable.model import calls
from evictable.model.calls import Answer, Call, Drained, Event, Gauges, Key, Loaded, Stored
from evictable.model.exchanges import Exchange
from evictable.model.snapshot import Snapshot
from evictable.specs.errors import UsageError
from evictable.specs.faults import Faults
from evictable.specs.subjects.base import Setup
from evictable.specs.subjects.keys import KeyTable

# What a thing is called, newest name first. The first that the object has is taken.
_RESIDENT = ("chunks", "blocks")  # chunks from 0.30
_EVICTABLE = ("_evictable", "evictable_chunks", "evictable_blocks")  # a set beside a heap from 0.31; none before 0.24
_NUM_EVICTABLE = ("_num_evictable_cache_chunks", "_num_evictable_cache_blocks")  # from 0.24
_NUM_PENDING = ("_num_write_pending_chunks", "_num_write_pending_blocks")  # from 0.26
_NUM_HANDED_OUT = ("_num_allocated_chunks", "_num_allocated_blocks")
_CAPACITY = ("_num_chunks", "_num_blocks")
_BLOCK_ID = ("chunk_id", "block_id")

_LOOKUP_BEFORE_0_25 = {True: calls.HIT, False: calls.MISS, None: calls.HIT_PENDING}


class Lens:
    """Reads the inside of a manager with a single list of blocks or with ARC's two.

    Of an object that is built otherwise there is none: it is judged by its answers.
    """

    def __init__(self, manager: Any) -> None:
        self._manager = manager
        self._handed_out = _first(manager, _NUM_HANDED_OUT)
        self._all_free = bool(manager._free_list) and not getattr(manager, self._handed_out)
        """Its free list begins with every slot, instead of with those given back."""
        self._capacity = getattr(manager, _first(manager, _CAPACITY))
        self._num_evictable = _first(manager, _NUM_EVICTABLE, None)
        self._num_pending = _first(manager, _NUM_PENDING, None)
        self._is_arc = False
        self._resident: str | None = None
        self._evictable: str | None = None
        self._block_id: str | None = None
        self._find_lists()

    @property
    def _policy(self) -> Any:
        return self._manager._policy  # it may be another one after a reset

    @classmethod
    def on(cls, manager: Any) -> Lens | None:
        """A lens if the object's inside is one that is known, else ``None``."""
        try:
            lens = cls(manager)
            lens.look(KeyTable(), None)
        except (AttributeError, TypeError):
            return None
        return lens

    def _find_lists(self) -> None:
        self._is_arc = hasattr(self._policy, "t1") and hasattr(self._policy, "t2")
        if not self._is_arc:
            self._resident = _first(self._policy, _RESIDENT)
            self._evictable = _first(self._policy, _EVICTABLE, None)

    # What a monitor reads for itself, without a snapshot.

    @property
    def capacity(self) -> int:
        return int(self._capacity)

    @property
    def is_arc(self) -> bool:
        return self._is_arc

    @property
    def all_free(self) -> bool:
        return self._all_free

    @property
    def handed_out_name(self) -> str:
        return str(self._handed_out)

    @property
    def num_evictable_name(self) -> str | None:
        return None if self._num_evictable is None else str(self._num_evictable)

    @property
    def num_pending_name(self) -> str | None:
        return None if self._num_pending is None else str(self._num_pending)

    def block_id_name(self) -> str:
        """As the blocks that are there call it; of an empty cache any name will do."""
        held = next((block for table in self.resident_tables() for block in table.values()), None)
        return _BLOCK_ID[0] if held is None else str(_first(held, _BLOCK_ID))

    def resident_tables(self) -> tuple[Any, ...]:
        """Each maps keys to blocks; together they hold every resident one, once."""
        if self._is_arc:
            return self._policy.t1, self._policy.t2
        return (getattr(self._policy, self._resident),)  # type: ignore[arg-type]

    def num_resident(self) -> int:
        return sum(len(table) for table in self.resident_tables())

    def evictable_table(self) -> Any:
        """The container of the evictable keys, ``None`` if the policy keeps none."""
        return None if self._evictable is None else getattr(self._policy, self._evictable)

    def look(self, table: KeyTable, keys: Collection[Key] | None) -> Snapshot:
        blocks = self._blocks(table, keys)
        evictable = None if self._evictable is None else getattr(self._policy, self._evictable)
        if keys is None:
            found = dict(zip(table.decode_all(blocks), blocks.values(), strict=True))
            listed = None if evictable is None else table.decode_all(self._in_order(evictable))
        else:
            found, listed_set = {}, set()
            for key in keys:
                raw = table.encode(key)
                block = blocks.get(raw)
                if block is not None:
                    found[key] = block
                if evictable is not None and raw in evictable:
                    listed_set.add(key)
            listed = None if evictable is None else listed_set  # type: ignore[assignment]
        if self._block_id is None and found:
            self._block_id = _first(next(iter(found.values())), _BLOCK_ID)
        block_id = self._block_id or ""
        manager = self._manager
        free = manager._free_list
        handed_out = self._capacity if self._all_free else getattr(manager, self._handed_out)
        events = getattr(manager, "events", None)
        snapshot = Snapshot(
            ref_cnt={key: block.ref_cnt for key, block in found.items()},
            slots={key: getattr(block, block_id) for key, block in found.items()},
            evictable=listed,
            num_resident=self._num_resident(blocks, keys),
            num_evictable=None if self._num_evictable is None else getattr(manager, self._num_evictable),
            num_pending=None if self._num_pending is None else getattr(manager, self._num_pending),
            num_free=len(free) + self._capacity - handed_out,
            num_events=None if events is None else len(events),
        )
        if keys is None:
            snapshot.full = True
            snapshot.free = tuple(map(_slot, free))
            snapshot.handed_out = handed_out
            snapshot.order = self._order(blocks, evictable, table.decode_all)
            counts = getattr(manager, "counts", None)
            if counts is not None:
                snapshot.tracker = dict(zip(table.decode_all(counts), counts.values(), strict=True))
        return snapshot

    def _num_resident(self, blocks: Any, keys: Collection[Key] | None) -> int | None:
        return len(blocks)

    def _blocks(self, table: KeyTable, keys: Collection[Key] | None) -> Any:
        if self._is_arc:
            return _Both(self._policy.t1, self._policy.t2)
        return getattr(self._policy, self._resident)  # type: ignore[arg-type]

    def _in_order(self, evictable: Any) -> Any:
        ranks = getattr(self._policy, "_ranks", None)
        if ranks is None:
            return evictable
        return sorted(evictable, key=lambda raw: (1, ranks[raw], raw) if raw in ranks else (0, raw))

    def _order(self, blocks: Any, evictable: Any, decode_all: Callable[[Iterable[bytes]], tuple[Key, ...]]) -> Any:
        policy = self._policy
        if self._is_arc:
            return (*map(decode_all, (policy.t1, policy.t2, policy.b1, policy.b2)), policy.target_t1_size)
        ranks = getattr(policy, "_ranks", None)
        if ranks is not None:
            return decode_all(sorted(ranks, key=lambda raw: (ranks[raw], raw)))
        return decode_all(blocks if evictable is None else evictable)


class _Both:
    """ARC's T1 and T2 as one mapping, without a copy."""

    def __init__(self, first: Any, second: Any) -> None:
        self._parts = (first, second)

    def get(self, raw: bytes) -> Any:
        first, second = self._parts
        block = first.get(raw)
        return block if block is not None else second.get(raw)

    def __iter__(self) -> Iterator[Any]:
        return chain(*self._parts)

    def values(self) -> Any:
        return chain(self._parts[0].values(), self._parts[1].values())

    def __len__(self) -> int:
        return len(self._parts[0]) + len(self._parts[1])


class GetLens(Lens):
    """For a policy of which nothing is known but its methods: resident is what its ``get`` finds.

    Its lists are not read, whatever they are called: they need not mean what vLLM's mean. Which blocks it takes for
    evictable shows in whom it gives up. The manager's slots and counters are read as ever.
    """

    def _find_lists(self) -> None:
        pass

    def _blocks(self, table: KeyTable, keys: Collection[Key] | None) -> Any:
        raws = table.known if keys is None else [table.encode(key) for key in keys]
        return {raw: block for raw in raws if (block := self._get(raw)) is not None}

    def _num_resident(self, blocks: Any, keys: Collection[Key] | None) -> int | None:
        return None if keys is not None else len(blocks)

    def _order(self, blocks: Any, evictable: Any, decode_all: Callable[[Iterable[bytes]], tuple[Key, ...]]) -> Any:
        return None

    def _get(self, raw: bytes) -> Any:
        try:
            return self._policy.get(raw)
        except Exception:
            return None  # the manager meets it, too, in a call


class ManagerSubject:
    """A live manager behind the vocabulary of calls."""

    lens: type[Lens] = Lens
    methods: ClassVar[Mapping[str, str]] = {
        calls.LOOKUP: "_lookup",
        calls.PREPARE_STORE: "_prepare_store",
        calls.COMPLETE_STORE: "_complete_store",
        calls.PREPARE_LOAD: "_prepare_load",
        calls.COMPLETE_LOAD: "_complete_load",
        calls.TOUCH: "_touch",
        calls.ON_NEW_REQUEST: "_on_new_request",
        calls.ON_REQUEST_FINISHED: "_on_request_finished",
        calls.TAKE_EVENTS: "_take_events",
        calls.RESET_CACHE: "_reset_cache",
        calls.GET_STATS: "_get_stats",
    }
    """What makes each call. Of names, for a subject is copied once for each transition of an exhaustive search."""

    def __init__(self, manager: Any, request_context: Callable[[str], Any], *, events: bool = True) -> None:
        """``request_context`` makes the manager's own request object from a request's id.

        A manager without ``events`` is not asked for any.
        """
        self._manager = manager
        self._events = events
        self._made = 0
        self._tickets: dict[int, Any] = {}
        self._table = KeyTable()
        self._request_context = self.request_context = request_context
        self._requests: dict[str | None, Any] = {}
        self._lens = self.lens.on(manager)
        self._faults: Faults | None = None

    @property
    def faults(self) -> Faults:
        if self._faults is None:
            self._faults = Faults(self._fault_hosts())
        return self._faults

    def _fault_hosts(self) -> tuple[Any, ...]:
        return (self._manager,)

    @property
    def manager(self) -> Any:
        """The live manager."""
        return self._manager

    @property
    def lock(self) -> Any:
        """What its callers hold where there are several threads, from 0.33; ``None`` if it has none."""
        return getattr(self._manager, "lock", None)

    def perform(self, call: Call) -> Answer:
        make: Callable[[Call], Answer] = getattr(self, self.methods[call.name])
        if call.raises_in not in calls.MANAGER_FAULTS:
            return make(call)
        with self.faults.armed(call):
            return make(call)

    def exchanges(self) -> tuple[Exchange, ...]:
        return ()

    def snapshot(self, keys: Collection[Key] | None) -> Snapshot | None:
        if self._lens is None:
            return None
        try:
            return self._lens.look(self._table, keys)
        except (AttributeError, TypeError):  # its inside is another than it seemed when it was empty
            self._lens = None
            return None

    def _context(self, call: Call) -> Any:
        context = self._requests.get(call.request)
        if context is None:
            context = self._requests[call.request] = self._request_context(str(call.request))
        if call.positions is not None and hasattr(context, "set_offload_key_position"):
            for key, position in zip(call.keys, call.positions, strict=True):
                if position is not None:
                    context.set_offload_key_position(self._table.encode(key), position)
        return context

    def _batch(self, call: Call) -> list[bytes] | tuple[bytes, ...]:
        """The keys, now in a list and now in a tuple: a caller may use either."""
        self._made += 1
        keys = self._table.fresh_all(call.keys)
        return keys if self._made % 2 else tuple(keys)

    def _lookup(self, call: Call) -> Answer:
        found = self._manager.lookup(self._table.fresh(call.keys[0]), self._context(call))
        if found is None or isinstance(found, bool):
            return _LOOKUP_BEFORE_0_25[found]
        return str(found.name)

    def _prepare_store(self, call: Call) -> Answer:
        output = self._manager.prepare_store(self._batch(call), self._context(call))
        if output is None:
            return None
        self._keep_ticket(call, output.store_spec)
        decode_all = self._table.decode_all
        return Stored(
            decode_all(output.keys_to_store),
            _block_ids(output.store_spec),
            decode_all(output.evicted_keys),
        )

    def _complete_store(self, call: Call) -> Answer:
        self._manager.complete_store(self._batch(call), self._context(call), call.success, **self._ticket(call))
        return None

    def _prepare_load(self, call: Call) -> Answer:
        spec = self._manager.prepare_load(self._batch(call), self._context(call))
        self._keep_ticket(call, spec)
        return Loaded(_block_ids(spec))

    def _complete_load(self, call: Call) -> Answer:
        self._manager.complete_load(self._batch(call), self._context(call), **self._ticket(call))
        return None

    def _keep_ticket(self, call: Call, spec: Any) -> None:
        if call.ticket is not None:
            self._tickets[call.ticket] = getattr(spec, "ticket", None)

    def _ticket(self, call: Call) -> dict[str, Any]:
        """The argument, only where there is one: not every manager takes it."""
        ticket = None if call.ticket is None else self._tickets.get(call.ticket)
        return {} if ticket is None else {"ticket": ticket}

    def _touch(self, call: Call) -> Answer:
        self._manager.touch(self._batch(call), self._context(call))
        return None

    def _on_new_request(self, call: Call) -> Answer:
        # A request that is announced anew is a new object, as in the scheduler.
        self._requests.pop(call.request, None)
        context = self._context(call)
        hook = getattr(self._manager, "on_new_request", None)  # not in 0.22
        if hook is not None:
            hook(context)
        return None

    def _on_request_finished(self, call: Call) -> Answer:
        hook = getattr(self._manager, "on_request_finished", None)  # not in 0.22
        if hook is not None:
            hook(self._context(call))
        return None

    def _take_events(self, call: Call) -> Answer:
        taken = []
        if call.limit != 0 and self._events:
            for event in self._manager.take_events():
                taken.append(
                    Event(
                        removed=event.removed,
                        keys=self._table.decode_all(event.keys),
                        metadata_only=getattr(event, "metadata_only", False),  # from 0.33
                        medium=_plain(getattr(event, "medium", None)),
                        locality=_plain(getattr(event, "locality", None)),  # from 0.26
                    )
                )
                if len(taken) == call.limit:
                    break
        return Drained(tuple(taken))

    def _reset_cache(self, call: Call) -> Answer:
        self._manager.reset_cache()
        return None

    def _get_stats(self, call: Call) -> Answer:
        manager = self._manager
        hook = getattr(manager, "get_stats", None)  # from 0.24
        stats = hook() if hook is not None else None
        if stats is None:
            return Gauges()
        samples = _samples(stats.data)
        # A histogram without an observation, and a counter that stood still, may be left out of a report.
        sizes = () if hasattr(manager, "allocation_sizes_in_current_batch") else None  # from 0.26
        failures = 0 if hasattr(manager, "allocation_failures_in_current_batch") else None  # `impl` only
        return Gauges(
            usage=samples.get("cpu_cache_usage_perc"),
            write_usage=samples.get("cpu_cache_write_usage_perc"),
            read_usage=samples.get("cpu_cache_read_usage_perc"),
            stores_skipped=samples.get("stores_skipped"),
            allocation_sizes=sizes if sizes is None else tuple(samples.get("cpu_allocation_size", sizes)),
            allocation_failures=failures if failures is None else samples.get("allocation_failure", failures),
        )


def constructor_arguments(factory: Callable[..., Any], setup: Setup, name: str) -> dict[str, Any]:
    """The arguments under the names that ``factory`` uses: ``num_chunks`` from 0.30, ``num_blocks`` before.

    Raises `UsageError` if it cannot be told what the setup wants.
    """
    parameters = parameters_of(factory)
    takes_any = takes_anything(parameters)
    size = next((one for one in ("num_chunks", "num_blocks", "capacity") if one in parameters), None)
    if size is None and not takes_any:
        raise UsageError(
            f"{name}: a manager factory takes num_blocks (or num_chunks), "
            "and where it has them cache_policy and enable_events"
        )
    arguments: dict[str, Any] = {size or "num_blocks": setup.capacity}
    wanted = {
        "cache_policy": (setup.policy, setup.policy != "lru", "--policy"),
        "enable_events": (setup.events, False, ""),
        "store_threshold": (setup.store_threshold, setup.store_threshold > 1, "--store-threshold"),
    }
    for argument, (value, needed, option) in wanted.items():
        if argument in parameters or takes_any:
            arguments[argument] = value
        elif needed:
            raise UsageError(f"{name}: takes no {argument}; leave out {option}, or give the factory the argument")
    if setup.store_threshold == 1:
        arguments.pop("store_threshold", None)  # the default; not every manager knows it
    elif "max_tracker_size" in parameters or takes_any:
        arguments["max_tracker_size"] = setup.max_tracker_size
    return arguments


def parameters_of(factory: Callable[..., Any]) -> Mapping[str, inspect.Parameter]:
    """What ``factory`` takes; nothing if that cannot be told."""
    try:
        return inspect.signature(factory).parameters
    except (TypeError, ValueError):
        return {}


def takes_anything(parameters: Mapping[str, inspect.Parameter]) -> bool:
    return any(parameter.kind is inspect.Parameter.VAR_KEYWORD for parameter in parameters.values())


_REQUIRED = object()


def _first(thing: Any, names: tuple[str, ...], default: Any = _REQUIRED) -> Any:
    for name in names:
        if hasattr(thing, name):
            return name
    if default is _REQUIRED:
        raise AttributeError(f"{type(thing).__name__} has none of {names}")
    return default


def _block_ids(spec: Any) -> tuple[int, ...]:
    # An array counts fastest by `tolist`, and gives plain integers.
    block_ids = spec.block_ids
    return tuple(block_ids.tolist() if hasattr(block_ids, "tolist") else block_ids)


def _slot(value: Any) -> int:
    """A number; -1, which no slot has, for what is none: a manager's mistake is not to stop who looks at it."""
    try:
        return index(value)
    except TypeError:
        return -1


def _plain(value: Any) -> str | None:
    """A string, or the value of an enumeration (from 0.27)."""
    return value if value is None or isinstance(value, str) else str(value.value)


def _samples(data: Any) -> dict[str, Any]:
    """Each metric's last part to its value, its only label set's where it has any (0.24 and later)."""
    samples = data.get("data", data)
    return {
        str(name).removeprefix("vllm:kv_offload_"): next(iter(value.values()), None)
        if isinstance(value, dict)
        else value
        for name, value in samples.items()
    }
