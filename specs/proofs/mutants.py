"""Seeded defects that the proofs must refute: those of the registry, and edits of the model itself."""

from __future__ import annotations

import inspect
import sys
from types import ModuleType

from attrs import field, frozen

from evictable.model import lifecycle, manager
from evictable.model.orders import lru_evictable
from evictable.specs.errors import UsageError
from evictable.specs.proofs.state import ModelText


@frozen
class ModelMutant:
    """A known defect: one edit of one module of `evictable.model`."""

    name: str
    sentence: str
    module: ModuleType
    old: str
    """Occurs exactly once in that module's source."""
    new: str
    theorem: str
    """What refutes it,"""
    size: int = 1
    """at batches of this size and not of a smaller one."""


@frozen
class Refuted:
    """A mutant of the registry, and what refutes it."""

    mutant: str
    theorem: str
    size: int = field(default=1)
    """The smallest batch at which it does."""


OF_IMPL: tuple[Refuted, ...] = (
    Refuted("one-slot-too-many", "begins-as-the-model"),
    Refuted("victims-stay-listed", "evict-takes-the-first"),
    Refuted("victims-stay-resident", "evict-takes-the-first"),
    Refuted("policy-ignores-protected", "evict-takes-the-first"),
    Refuted("hit-while-pending", "lookup-refines-model"),
    Refuted("pending-while-pinned", "lookup-refines-model"),
    Refuted("lookup-touches", "lookup-refines-model"),
    Refuted("mark-at-insert", "prepare-store-refines-model"),
    Refuted("counter-forgets-evictions", "prepare-store-refines-model"),
    Refuted("refuses-an-exact-fit", "prepare-store-refines-model"),
    Refuted("evicts-from-the-other-end", "prepare-store-refines-model"),
    Refuted("no-event-at-eviction", "prepare-store-refines-model"),
    Refuted("nothing-protected", "prepare-store-refines-model", 2),
    Refuted("pending-protected-twice", "prepare-store-refines-model", 2),
    Refuted("refusal-touches", "prepare-store-refines-model", 3),
    Refuted("no-mark-when-stored", "complete-store-refines-model"),
    Refuted("failure-taken-for-success", "complete-store-refines-model"),
    Refuted("slot-freed-twice", "complete-store-refines-model"),
    Refuted("stored-backwards", "complete-store-refines-model", 2),
    Refuted("no-unmark-when-pinned", "load-refines-model"),
    Refuted("counter-counts-pinned", "load-refines-model"),
    Refuted("second-reader-not-counted", "load-refines-model"),
    Refuted("pinned-once-per-call", "load-refines-model", 2),
    Refuted("load-slots-sorted", "load-refines-model", 2),
    Refuted("no-mark-when-unpinned", "unload-refines-model"),
    Refuted("unpinned-once-per-call", "unload-refines-model", 2),
    Refuted("unpinned-backwards", "unload-refines-model", 2),
    Refuted("touch-forgotten", "touch-refines-model"),
    Refuted("touch-to-the-front", "touch-refines-model"),
    Refuted("touch-forwards", "touch-refines-model", 2),
    Refuted("list-survives-reset", "reset-refines-model"),
    Refuted("loads-survive-reset", "reset-refines-model"),
    Refuted("free-list-survives-reset", "reset-refines-model"),
    Refuted("usage-counts-evictable", "usage-refines-model"),
    Refuted("announcement-forgets-loads", "announcement-refines-model"),
    Refuted("finish-forgets-loads", "finish-refines-model"),
    Refuted("repeated-key-stored-twice", "repeated-offer-counts-once", 2),
    Refuted("events-survive-reset", "reset-drops-undrained-events"),
    Refuted("pending-load-accepted", "careless-load-changes-nothing"),
    Refuted("load-pins-before-it-checks", "careless-load-changes-nothing", 2),
    Refuted("load-completed-too-often", "careless-unload-changes-nothing", 2),
    Refuted("foreign-store-completion-accepted", "careless-complete-store-changes-nothing"),
    Refuted("store-completed-again", "careless-complete-store-changes-nothing"),
)

OF_MODEL_TEXT: tuple[ModelMutant, ...] = (
    ModelMutant(
        "a-store-from-nowhere",
        "one store counts as in flight from the start",
        manager,
        "num_pending: int = 0",
        "num_pending: int = 1",
        "model-begins-lawful",
    ),
    ModelMutant(
        "protection-overlooked",
        "the order gives up protected keys",
        lru_evictable,
        "if key not in protected:",
        "if True:",
        "model-victims-first",
    ),
    ModelMutant(
        "too-few-victims",
        "the order answers with fewer victims than were asked for",
        lru_evictable,
        "return chosen if len(chosen) == n else None",
        "return chosen",
        "model-victims-first",
    ),
    ModelMutant(
        "lookup-is-a-use",
        "a lookup moves the key to the end",
        manager,
        "return self.presence(key)",
        "self.order.touched([key])\n        return self.presence(key)",
        "model-lookup-preserves-laws",
    ),
    ModelMutant(
        "exact-fit-refused",
        "an offer that needs every evictable block is refused",
        manager,
        "if need > available:",
        "if need >= available:",
        "model-prepare-store-preserves-laws",
    ),
    ModelMutant(
        "only-the-first-is-protected",
        "of an offer only the first key is protected",
        manager,
        "victims = self.order.victims(need, offer)",
        "victims = self.order.victims(need, frozenset(keys[:1]))",
        "model-prepare-store-preserves-laws",
        2,
    ),
    ModelMutant(
        "one-pending-an-offer",
        "an offer counts as one store in flight, however many keys it stores",
        manager,
        "self.num_pending += len(plan.new)",
        "self.num_pending += 1 if plan.new else 0",
        "model-prepare-store-preserves-laws",
        2,
    ),
    ModelMutant(
        "stored-but-not-idle",
        "a block does not join the evictable list when its store completes",
        manager,
        "self._set(key, commit_store(ref_cnt))\n                self.order.idle(key)",
        "self._set(key, commit_store(ref_cnt))",
        "model-complete-store-preserves-laws",
    ),
    ModelMutant(
        "committed-as-pinned",
        "a stored block starts with a pin",
        lifecycle,
        "return IDLE\n",
        "return IDLE + 1\n",
        "model-complete-store-preserves-laws",
    ),
    ModelMutant(
        "slot-stays-taken",
        "a block that leaves keeps its slot",
        manager,
        "del self.holders[self.slots.pop(key)]",
        "self.slots.pop(key)",
        "model-complete-store-preserves-laws",
    ),
    ModelMutant(
        "pinned-but-idle",
        "a block stays in the evictable list while a load reads it",
        manager,
        "self.order.busy(key)",
        "pass",
        "model-load-preserves-laws",
    ),
    ModelMutant(
        "pinned-twice",
        "a load pins a block twice",
        lifecycle,
        "return ref_cnt + 1",
        "return ref_cnt + 2",
        "model-load-preserves-laws",
    ),
    ModelMutant(
        "loads-recorded-once",
        "the second load of a key by the same request is not recorded",
        manager,
        "self.loads[owner, key] = self.loads.get((owner, key), 0) + 1",
        "self.loads[owner, key] = 1",
        "model-load-preserves-laws",
    ),
    ModelMutant(
        "idle-before-the-last",
        "a block joins the evictable list when any of its loads completes",
        manager,
        "if is_evictable(self.ref_cnt[key]):",
        "if True:",
        "model-unload-preserves-laws",
    ),
    ModelMutant(
        "touch-lists-all",
        "a touch puts any key into the evictable list",
        lru_evictable,
        "if key in self._evictable:\n                self._evictable.move_to_end(key)",
        "self._evictable[key] = None",
        "model-touch-preserves-laws",
    ),
    ModelMutant(
        "reset-keeps-the-list",
        "a reset forgets the blocks but not the evictable list",
        lru_evictable,
        "self._evictable.clear()",
        "pass",
        "model-reset-preserves-laws",
    ),
)

_MODULES = (lifecycle, lru_evictable, manager)
"""In the order in which they import each other."""


def mutated(mutant: ModelMutant) -> ModelText:
    """The model with the mutant's edit: copies of the modules that carry the life of a block, under other names.

    Raises `UsageError` if the text to be edited does not occur exactly once.
    """
    prefix = f"model_mutant_{mutant.name.replace('-', '_')}_"
    copies: dict[str, ModuleType] = {}
    for module in _MODULES:
        source = inspect.getsource(module)
        if module is mutant.module:
            times = source.count(mutant.old)
            if times != 1:
                raise UsageError(
                    f"{mutant.name}: the text that it replaces occurs {times} times in {module.__name__}; "
                    "bring the mutant up to date with the source"
                )
            source = source.replace(mutant.old, mutant.new)
        for name in copies:
            source = source.replace(f"from {name} import", f"from {copies[name].__name__} import")
        copies[module.__name__] = _copy(prefix + module.__name__.rpartition(".")[2], source)
    return ModelText(copies[manager.__name__], copies[lru_evictable.__name__])


def _copy(name: str, source: str) -> ModuleType:
    module = ModuleType(name)
    sys.modules[name] = module
    exec(compile(source, name, "exec"), vars(module))
    return module
