"""An arbitrary state of the model, and of a subject that stands for the same: what every proof starts from.

The real constructors make the objects; then their containers are exchanged for symbolic ones. What is assumed of an
arbitrary state is exactly what is shown of the state after every call: `laws` of the model, `agreement` between
subject and model.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from copy import copy
from types import ModuleType
from typing import Any

import z3
from attrs import define, field, frozen

from evictable.specs.proofs.containers import (
    Contents,
    SymbolicBag,
    SymbolicDict,
    SymbolicLog,
    SymbolicOrderedDict,
    count,
    has,
    place,
    size_of,
    value,
)
from evictable.specs.proofs.executor import Path, Term, current
from evictable.specs.proofs.values import KEY, REQUEST, SInt, SKey, SRequest, term_of

NUMBER, TRUTH = z3.IntSort(), z3.BoolSort()

# Names as a reader of a counterexample meets them.
CAPACITY = z3.Int("capacity")
RESIDENT = z3.Function("resident", KEY, TRUTH)
REF_CNT = z3.Function("ref_cnt", KEY, NUMBER)
SLOT_OF = z3.Function("slot", KEY, NUMBER)
TAKEN = z3.Function("taken", NUMBER, TRUTH)
HOLDER = z3.Function("holder", NUMBER, KEY)
IDLE = z3.Function("idle", KEY, TRUTH)
PLACE = z3.Function("place", KEY, NUMBER)
FIRST, END = z3.Ints("first end")
STORING = z3.Function("storing", KEY, TRUTH)
OWNER = z3.Function("owner", KEY, REQUEST)
LOADING = z3.Function("loading", REQUEST, KEY, TRUTH)
PINS = z3.Function("pins", REQUEST, KEY, NUMBER)
TOTAL_PINS = z3.Function("total_pins", KEY, NUMBER)
NUM_RESIDENT, NUM_IDLE, NUM_STORING, NUM_LOADS = z3.Ints("num_resident num_idle num_storing num_loads")

# Of a subject only.
GIVEN_BACK = z3.Function("given_back", NUMBER, NUMBER)
NUM_ALLOCATED = z3.Int("num_allocated")
WRITER = z3.Function("writer", KEY, REQUEST)
READS = z3.Function("reads", REQUEST, TRUTH)
NUM_READ = z3.Function("num_read", REQUEST, NUMBER)
NUM_READERS = z3.Int("num_readers")
MOVED = z3.Function("moved", KEY, NUMBER)
CLOCK = z3.Int("clock")
NOBODY = z3.Const("nobody", REQUEST)

CALLER, ANOTHER, ANY_REQUEST = REQUESTS = z3.Consts("caller another r", REQUEST)
"""The requests in play: who calls, some other, and any of which something is shown."""


@frozen
class Clause:
    """A statement about all terms of some sorts: one part of an invariant."""

    name: str
    sorts: tuple[str, ...]
    statement: Callable[..., Term]


# --- the model ----------------------------------------------------------------------------------------------------


@frozen
class ModelText:
    """The modules of the model that are run: the real ones, or with a seeded defect."""

    manager: ModuleType
    lru: ModuleType

    @property
    def modules(self) -> tuple[ModuleType, ...]:
        return (self.manager, self.lru)


class Facts:
    """Stands for the model's event ledger: the facts that a call adds to it, as an appended log."""

    def __init__(self) -> None:
        self.kept = True
        self.appended: list[tuple[bool, Any]] = []
        self.undrained = False

    def stored(self, keys: Any) -> None:
        self.appended += [(False, key) for key in keys]

    def removed(self, keys: Any) -> None:
        self.appended += [(True, key) for key in keys]

    def reset(self) -> None:
        self.kept = False
        self.appended.clear()


class SymbolicLoads(SymbolicDict):
    """The model's loads by (request, key), with the ghost of how many there are of a key over all requests."""

    def total_term(self, key: Term) -> Term:
        total = z3.IntVal(0) if self._contents.nothing else TOTAL_PINS(key)
        for entry in self.entries():
            now = term_of(entry.value) if entry.present else z3.IntVal(0)
            before = term_of(entry.first_value) if entry.was_present else z3.IntVal(0)
            total = total + z3.If(entry.terms[1] == key, now - before, 0)
        return total


def arbitrary_model(text: ModelText) -> Any:
    """The model in an arbitrary state. Nothing is assumed of it yet."""
    order = text.lru.LruEvictable()
    order._evictable = SymbolicOrderedDict(_idle_keys(lambda key: None))
    manager = text.manager.Manager(SInt(CAPACITY), order)
    number = _numbers
    manager.ref_cnt = SymbolicDict(Contents(RESIDENT, number(REF_CNT), NUM_RESIDENT))
    manager.slots = SymbolicDict(Contents(RESIDENT, number(SLOT_OF), NUM_RESIDENT))
    manager.holders = SymbolicDict(Contents(TAKEN, lambda slot: SKey(HOLDER(slot)), NUM_RESIDENT))
    manager.stores = SymbolicDict(Contents(STORING, lambda key: SRequest(OWNER(key)), NUM_STORING))
    manager.loads = SymbolicLoads(Contents(LOADING, number(PINS), NUM_LOADS))
    manager.num_pending = SInt(NUM_STORING)
    manager.events = Facts()
    return manager


def laws(model: Any) -> list[Clause]:
    """The invariant of the model, under the ids of the laws where they are laws."""
    ref_cnt, slots, holders = model.ref_cnt, model.slots, model.holders
    stores, loads, evictable = model.stores, model.loads, model.order._evictable
    capacity, num_pending = term_of(model.capacity), term_of(model.num_pending)

    def ref(key: Term) -> Term:
        return value(ref_cnt, key)

    def is_resident_with(key: Term, condition: Term) -> Term:
        return z3.And(has(ref_cnt, key), condition)

    def slot_is_held(key: Term) -> Term:
        slot = value(slots, key)
        held = z3.And(has(holders, slot), value(holders, slot, default=key) == key, 0 <= slot, slot < capacity)
        return z3.And(has(slots, key) == has(ref_cnt, key), z3.Implies(has(ref_cnt, key), held))

    def holder_is_there(slot: Term) -> Term:
        key = value(holders, slot, default=_ANY_KEY if isinstance(holders, SymbolicDict) else z3.IntVal(-1))
        there = z3.And(has(slots, key), value(slots, key) == slot, 0 <= slot, slot < capacity)
        return z3.Implies(has(holders, slot), there)

    sizes = [size_of(ref_cnt) == size_of(slots), size_of(slots) == size_of(holders)]
    first, end = _ends(evictable)
    return [
        Clause("ref-floor", ("Key",), lambda key: z3.Implies(has(ref_cnt, key), ref(key) >= -1)),
        Clause("evictable-iff-idle", ("Key",), lambda key: has(evictable, key) == is_resident_with(key, ref(key) == 0)),
        Clause("slots-conserved", ("Key",), slot_is_held),
        Clause("slots-conserved", ("Int",), holder_is_there),
        Clause("capacity", (), lambda: z3.And(0 <= size_of(ref_cnt), size_of(ref_cnt) <= capacity, *sizes)),
        Clause("counters-agree", (), lambda: z3.And(num_pending == size_of(stores), size_of(evictable) >= 0)),
        Clause("pending-has-owner", ("Key",), lambda key: has(stores, key) == is_resident_with(key, ref(key) == -1)),
        Clause(
            "pins-are-loads",
            ("Request", "Key"),
            lambda request, key: z3.Implies(
                has(loads, request, key), z3.And(value(loads, request, key) >= 1, has(ref_cnt, key))
            ),
        ),
        Clause(
            "pins-are-loads",
            ("Key",),
            lambda key: total_pins(loads, key) == z3.If(is_resident_with(key, ref(key) > 0), ref(key), 0),
        ),
        Clause("one-order", (), lambda: first <= end),
        Clause(
            "one-order",
            ("Key",),
            lambda key: z3.Implies(
                has(evictable, key), z3.And(first <= place(evictable, key), place(evictable, key) < end)
            ),
        ),
        Clause(
            "one-order",
            ("Key", "Key"),
            lambda key, other: z3.Implies(
                z3.And(has(evictable, key), has(evictable, other), key != other),
                place(evictable, key) != place(evictable, other),
            ),
        ),
    ]


def total_pins(loads: Any, key: Term) -> Term:
    if isinstance(loads, SymbolicLoads):
        return loads.total_term(key)
    return z3.Sum([z3.IntVal(0), *(z3.If(term_of(one[1]) == key, term_of(held), 0) for one, held in loads.items())])


def assume_finite_sets(path: Path) -> None:
    """What is true of the sizes and sums of any finite sets, of the ones that an arbitrary state consists of."""
    path.assume(_at_least_the_keys_in_play())
    path.whenever("Key", _at_least_the_keys_in_play)
    path.for_all(("Key",), _no_negative_total, lasting=True)
    path.for_all(("Request", "Key"), _at_least_one_request, lasting=True)
    path.for_all(("Request", "Request", "Key"), _at_least_two_requests, lasting=True)
    path.for_all(("Request",), _nobody_calls, lasting=True)


def _at_least_the_keys_in_play(*keys: Term) -> Term:
    # With every key that joins, one term more of the same sum: what the earlier ones come to is known already.
    def members(is_member: Callable[[Term], Term]) -> Term:
        counted = [z3.IntVal(0)]
        for number, key in enumerate(keys):
            new = z3.And(is_member(key), *(key != other for other in keys[:number]))
            counted.append(z3.If(new, 1, 0))
        return z3.Sum(counted)

    def reads_of(request: Term) -> Callable[[Term], Term]:
        return lambda key: LOADING(request, key)

    pinned = NUM_RESIDENT - NUM_IDLE - NUM_STORING
    return z3.And(
        NUM_IDLE >= members(IDLE),
        NUM_STORING >= members(STORING),
        pinned >= members(lambda key: z3.And(RESIDENT(key), REF_CNT(key) > 0)),
        *(NUM_READ(one) >= members(reads_of(one)) for one in REQUESTS),
    )


def _pins(request: Term, key: Term) -> Term:
    return z3.If(LOADING(request, key), PINS(request, key), 0)


def _no_negative_total(key: Term) -> Term:
    return TOTAL_PINS(key) >= 0


def _at_least_one_request(request: Term, key: Term) -> Term:
    return TOTAL_PINS(key) >= _pins(request, key)


def _at_least_two_requests(one: Term, other: Term, key: Term) -> Term:
    return z3.Implies(one != other, TOTAL_PINS(key) >= _pins(one, key) + _pins(other, key))


def _nobody_calls(request: Term) -> Term:
    return request != NOBODY


# --- a subject ----------------------------------------------------------------------------------------------------


class NoProof(Exception):
    """The subject is built otherwise than these proofs know; says how."""


@define
class View:
    """The inside of a subject, by the names that it has."""

    manager: Any
    policy: Any
    resident: str
    evictable: str
    block_id: str
    num_blocks: str
    num_allocated: str
    num_evictable: str | None
    num_pending: str | None
    has_writer: bool
    has_loads: bool
    has_clock: bool
    adapter: Any = field(default=None)
    """Translates calls and answers."""

    @classmethod
    def of(cls, manager: Any, block: Any) -> View:
        """Raises `NoProof` if the order is not kept in a list of the evictable blocks."""
        policy = manager._policy
        kept = vars(policy)
        resident = _named(policy, "chunks", "blocks")
        evictable = _named(policy, "evictable_chunks", "evictable_blocks")
        if resident is None or evictable is None:
            names = ", ".join(sorted(kept))
            raise NoProof(f"{type(policy).__name__} keeps {names}: not a table of blocks and a list of evictable ones")
        allocated = _named(manager, "_num_allocated_chunks", "_num_allocated_blocks")
        blocks = _named(manager, "_num_chunks", "_num_blocks")
        block_id = _named(block, "chunk_id", "block_id")
        if allocated is None or blocks is None or block_id is None or not hasattr(manager, "_free_list"):
            raise NoProof(f"{type(manager).__name__} keeps its slots otherwise: {', '.join(sorted(vars(manager)))}")
        return cls(
            manager,
            policy,
            resident,
            evictable,
            block_id,
            blocks,
            allocated,
            _named(manager, "_num_evictable_cache_chunks", "_num_evictable_cache_blocks"),
            _named(manager, "_num_write_pending_chunks", "_num_write_pending_blocks"),
            hasattr(block, "writer"),
            hasattr(manager, "_loads"),
            hasattr(policy, "_clock"),
        )

    @property
    def blocks(self) -> Any:
        return getattr(self.policy, self.resident)

    @property
    def listed(self) -> Any:
        return getattr(self.policy, self.evictable)

    def number(self, name: str) -> Term:
        return term_of(getattr(self.manager, name))

    def beside_the_state(self) -> dict[str, Any]:
        """Attributes that the arbitrary state leaves as the constructor makes them: no call may change them.

        Otherwise there would be states that the proof does not start from.
        """
        known = {
            self.num_blocks,
            self.num_allocated,
            self.num_evictable,
            self.num_pending,
            *("_policy", "_order", "_free_list", "_loads", "events"),
            *("allocation_sizes_in_current_batch", "allocation_failures_in_current_batch"),
            "_era",  # only tickets are compared with it, and no call carries one
        }
        of_policy = {self.resident, self.evictable, "_clock", "_departed"}
        beside = {name: one for name, one in vars(self.manager).items() if name not in known}
        beside |= {f"policy.{name}": one for name, one in vars(self.policy).items() if name not in of_policy}
        return {name: copy(one) if isinstance(one, (list, dict, set, deque)) else one for name, one in beside.items()}


def make_arbitrary(view: View, block_class: Callable[[Any], Any]) -> None:
    """Put a freshly constructed subject into an arbitrary state that stands for that of `arbitrary_model`."""
    manager, policy = view.manager, view.policy

    def block(key: Term) -> Any:
        made = block_class(SInt(SLOT_OF(key)))
        made.ref_cnt = SInt(REF_CNT(key))
        if view.has_writer:
            made.writer = SRequest(WRITER(key))
        return made

    def row(request: Term) -> Any:
        return SymbolicDict(
            Contents(lambda key: LOADING(request, key), lambda key: SInt(PINS(request, key)), NUM_READ(request))
        )

    setattr(policy, view.resident, SymbolicDict(Contents(RESIDENT, block, NUM_RESIDENT)))
    moved = _numbers(MOVED) if view.has_clock else lambda key: None
    setattr(policy, view.evictable, SymbolicOrderedDict(_idle_keys(moved)))
    if view.has_clock:
        policy._clock = SInt(CLOCK)
        policy._departed = {}  # of an earlier checkpoint: each call begins with one of its own
    setattr(manager, view.num_blocks, SInt(CAPACITY))
    setattr(manager, view.num_allocated, SInt(NUM_ALLOCATED))
    manager._free_list = SymbolicBag(GIVEN_BACK, NUM_ALLOCATED - NUM_RESIDENT)
    if view.num_evictable is not None:
        setattr(manager, view.num_evictable, SInt(NUM_IDLE))
    if view.num_pending is not None:
        setattr(manager, view.num_pending, SInt(NUM_STORING))
    if view.has_loads:
        manager._loads = SymbolicDict(Contents(READS, row, NUM_READERS))
    if manager.events is not None:
        manager.events = SymbolicLog()


def agreement(view: View, model: Any) -> list[Clause]:
    """When the subject's inside stands for the model's state."""
    blocks, listed, free = view.blocks, view.listed, view.manager._free_list
    ref_cnt, slots, holders, evictable = model.ref_cnt, model.slots, model.holders, model.order._evictable
    allocated, capacity = view.number(view.num_allocated), term_of(model.capacity)

    def of_block(name: str) -> Callable[[Any], Term]:
        return lambda block: term_of(getattr(block, name))

    def same_block(key: Term) -> Term:
        ref, block_id = value(blocks, key, of=of_block("ref_cnt")), value(blocks, key, of=of_block(view.block_id))
        return z3.And(
            has(blocks, key) == has(ref_cnt, key),
            z3.Implies(has(ref_cnt, key), z3.And(ref == value(ref_cnt, key), block_id == value(slots, key))),
        )

    def same_order(key: Term, other: Term) -> Term:
        return z3.Implies(
            z3.And(has(evictable, key), has(evictable, other)),
            (place(listed, key) < place(listed, other)) == (place(evictable, key) < place(evictable, other)),
        )

    def accounted_for(slot: Term) -> Term:
        spare = count(free, slot)
        return z3.And(
            z3.And(0 <= slot, slot < allocated) == z3.Or(has(holders, slot), spare >= 1),
            0 <= spare,
            spare <= 1,
            z3.Not(z3.And(has(holders, slot), spare >= 1)),
        )

    clauses = [
        Clause("ref_cnt and slots", ("Key",), same_block),
        Clause("evictable list", ("Key",), lambda key: has(listed, key) == has(evictable, key)),
        Clause("order", ("Key", "Key"), same_order),
        Clause("free slots", ("Int",), accounted_for),
        Clause(
            "number of free slots",
            (),
            lambda: z3.And(
                0 <= allocated,
                allocated <= capacity,
                view.number(view.num_blocks) == capacity,
                size_of(free) == allocated - size_of(holders),
                size_of(free) >= 0,
            ),
        ),
        Clause(
            "sizes of the containers",
            (),
            lambda: z3.And(size_of(blocks) == size_of(ref_cnt), size_of(listed) == size_of(evictable)),
        ),
    ]
    if view.num_evictable is not None:
        evictable_counter = view.num_evictable
        clauses.append(Clause("evictable counter", (), lambda: view.number(evictable_counter) == size_of(evictable)))
    if view.num_pending is not None:
        pending_counter = view.num_pending
        clauses.append(
            Clause("write-pending counter", (), lambda: view.number(pending_counter) == term_of(model.num_pending))
        )
    if view.has_writer:
        clauses.append(Clause("owner of a store", ("Key",), lambda key: _same_owner(blocks, model.stores, key)))
    if view.has_loads:
        clauses += _same_loads(view.manager._loads, model.loads)
    if view.has_clock:
        clauses += _times_rise(listed, term_of(view.policy._clock))
    return clauses


def _same_owner(blocks: Any, stores: Any, key: Term) -> Term:
    def writer(block: Any) -> Term:
        return NOBODY if block.writer is None else term_of(block.writer)

    owner = value(stores, key, default=NOBODY)
    return z3.Implies(has(stores, key), value(blocks, key, of=writer, default=NOBODY) == owner)


def _same_loads(rows: Any, loads: Any) -> list[Clause]:
    def is_read(request: Term, key: Term) -> Term:
        inside = value(rows, request, of=lambda row: has(row, key), default=z3.BoolVal(False))
        return z3.And(has(rows, request), inside)

    def same(request: Term, key: Term) -> Term:
        pins = value(rows, request, of=lambda row: value(row, key))
        return z3.And(
            is_read(request, key) == has(loads, request, key),
            z3.Implies(has(loads, request, key), pins == value(loads, request, key)),
        )

    def none_empty(request: Term) -> Term:
        number = value(rows, request, of=size_of)
        return z3.Implies(has(rows, request), number >= 1)

    return [
        Clause("loads in flight", ("Request", "Key"), same),
        Clause("no empty table of loads", ("Request",), none_empty),
    ]


def _times_rise(listed: Any, clock: Term) -> list[Clause]:
    """Of `impl`: the times that it keeps in its list, which only taking back a failed call reads."""
    return [
        Clause("times in the list", ("Key",), lambda key: z3.Implies(has(listed, key), value(listed, key) <= clock)),
        Clause(
            "times in the list",
            ("Key", "Key"),
            lambda key, other: z3.Implies(
                z3.And(has(listed, key), has(listed, other), place(listed, key) < place(listed, other)),
                value(listed, key) < value(listed, other),
            ),
        ),
    ]


# --- running code on it -------------------------------------------------------------------------------------------


@contextmanager
def symbolic_builtins(*modules: ModuleType, **more: Any) -> Iterator[None]:
    """While it lasts, code of these modules has a `len` and a `range` that take what Python's own do not.

    They are put in as globals, which come before the built-in ones: the source is not touched. `more` are further
    globals to exchange, where a module has them.
    """
    before: list[tuple[ModuleType, str, Any]] = []
    for module in modules:
        exchanged = {"len": symbolic_len, "range": symbolic_range}
        exchanged |= {name: one for name, one in more.items() if name in vars(module)}
        for name, replacement in exchanged.items():
            before.append((module, name, vars(module).get(name, _ABSENT)))
            setattr(module, name, replacement)
    try:
        yield
    finally:
        for module, name, old in reversed(before):
            if old is _ABSENT:
                delattr(module, name)
            else:
                setattr(module, name, old)


def symbolic_len(container: Any) -> Any:
    if isinstance(container, (SymbolicDict, SymbolicBag)):
        return SInt(container.size())
    return len(container)


def symbolic_range(*bounds: Any) -> Any:
    if len(bounds) > 2 or not any(isinstance(bound, SInt) for bound in bounds):
        return range(*bounds)
    number, stop = bounds if len(bounds) == 2 else (0, bounds[0])

    def numbers() -> Iterator[Any]:
        step = 0
        while number + step < stop:
            if step > 16:
                current().cut("a range() may be longer than 16")
            yield number + step
            step += 1

    return numbers()


_ABSENT = object()
_ANY_KEY = z3.Const("any_key", KEY)


def _numbers(function: Any) -> Callable[..., SInt]:
    return lambda *terms: SInt(function(*terms))


def _idle_keys(held: Callable[[Term], Any]) -> Contents:
    return Contents(IDLE, held, NUM_IDLE, PLACE, FIRST, END, KEY, SKey)


def _ends(container: Any) -> tuple[Term, Term]:
    if isinstance(container, SymbolicOrderedDict):
        return container.ends()
    return z3.IntVal(0), z3.IntVal(len(container))


def _named(thing: Any, *names: str) -> str | None:
    return next((name for name in names if hasattr(thing, name)), None)
