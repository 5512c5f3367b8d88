"""Reading a live manager fast: its counters in one expression, its blocks and its evictable keys in bulk."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from functools import partial
from operator import attrgetter
from typing import Any

from attrs import define, field

from evictable.specs.errors import UsageError
from evictable.specs.subjects.managers import Lens

COUNTERS, TOUCHED, READBACK = "counters", "touched", "readback"
LEVELS = (COUNTERS, TOUCHED, READBACK)

Counts = tuple[int, int, int]
"""Evictable blocks, slots in use, pending blocks; what the manager does not count is always 0."""


@define
class Inside:
    """The parts of a manager's inside that a monitor reads. Raises `UsageError` if they are not as known."""

    manager: Any
    lens: Lens = field(init=False)
    counters: Callable[[], Counts] = field(init=False)
    counts_idle: bool = field(init=False)
    counts_pending: bool = field(init=False)
    block: Callable[[Any], Any] = field(init=False)
    """The block of a key, or ``None``."""
    blocks: Callable[[Collection[Any]], Iterable[Any]] = field(init=False)
    """The block of each key, in order; ``None`` where there is none."""
    none_resident: Callable[[Collection[Any]], bool] = field(init=False)
    has_list: bool = field(init=False)
    """Whether the policy keeps its evictable keys in a container of their own."""
    is_listed: Callable[[Any], bool] = field(init=False)
    none_listed: Callable[[Collection[Any]], bool] = field(init=False)
    ref_cnt: Callable[[Any], int] = attrgetter("ref_cnt")

    def __attrs_post_init__(self) -> None:
        lens = Lens.on(self.manager)
        if lens is None:
            raise UsageError(
                f"{type(self.manager).__name__}: its inside is not built like that of vLLM's CPU offload manager; "
                "watch one that is, as evictable.impl.CPUOffloadingManager (with tiers, their primary_tier)"
            )
        self.lens = lens
        self.counts_idle = lens.num_evictable_name is not None
        self.counts_pending = lens.num_pending_name is not None
        self.counters = self._counters()
        self.bind()

    @property
    def capacity(self) -> int:
        return self.lens.capacity

    @property
    def policy(self) -> str:
        return "arc" if self.lens.is_arc else "lru"

    def bind(self) -> None:
        """Take hold of the containers, anew if the policy has other ones by now."""
        tables = self.lens.resident_tables()
        first = tables[0].get
        if len(tables) == 1:
            self.block = first
            self.blocks = partial(map, first)
            self.none_resident = tables[0].keys().isdisjoint
        else:
            second, (one, other) = tables[1].get, (tables[0].keys().isdisjoint, tables[1].keys().isdisjoint)
            self.block = lambda key: first(key) or second(key)
            self.blocks = lambda keys: [first(key) or second(key) for key in keys]
            self.none_resident = lambda keys: one(keys) and other(keys)
        listed = self.lens.evictable_table()
        self.has_list = listed is not None
        table: Any = () if listed is None else listed
        self.is_listed = table.__contains__
        self.none_listed = (
            table if isinstance(table, set) else table.keys() if hasattr(table, "keys") else set()
        ).isdisjoint

    def state(self) -> tuple[dict[Any, int], dict[Any, int]]:
        """The ref count and the slot of every resident key."""
        slot = attrgetter(self.lens.block_id_name())
        held: Mapping[Any, Any] = {key: block for table in self.lens.resident_tables() for key, block in table.items()}
        return {key: block.ref_cnt for key, block in held.items()}, {key: slot(block) for key, block in held.items()}

    def _counters(self) -> Callable[[], Counts]:
        # Compiled for the names that this release uses: a lookup of each by name would cost as much as a short call.
        lens = self.lens
        idle = "0" if lens.num_evictable_name is None else f"manager.{lens.num_evictable_name}"
        pending = "0" if lens.num_pending_name is None else f"manager.{lens.num_pending_name}"
        out = lens.capacity if lens.all_free else f"manager.{lens.handed_out_name}"
        text = f"lambda: ({idle}, {out} - len(manager._free_list), {pending})"
        made: Callable[[], Counts] = eval(text, {"manager": self.manager, "len": len})
        return made
