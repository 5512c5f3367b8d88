"""Generated mutants that nobody could notice, as data: which, and why.

An entry is a claim: a mutant that is listed here and refuted after all does not count as equivalent, and one that no
operator makes any more fails a test.
"""

from __future__ import annotations

_MANAGER, _POOL = "manager:CPUOffloadingManager", "pool:SlotPool"
_LRU, _ARC = "policies.lru:LRUCachePolicy", "policies.arc:ARCCachePolicy"

EQUIVALENT: tuple[tuple[str, tuple[str, ...]], ...] = (
    (
        "a copy of a list or a tuple holds the same keys",
        (
            f"{_MANAGER}.prepare_load: branch: if not isinstance(keys, (list, tuple)): -> if True:",
            f"{_MANAGER}.complete_load: branch: if not isinstance(keys, (list, tuple)): -> if True:",
            f"{_MANAGER}.prepare_store: branch: if not isinstance(keys, (list, tuple)): -> if True:",
            f"{_MANAGER}.complete_store: branch: if not isinstance(keys, (list, tuple)): -> if True:",
        ),
    ),
    (
        "the two are equally long by construction: `strict` only says so",
        (
            f"{_MANAGER}.complete_load: constant: True -> False",
            f"{_MANAGER}.complete_load: constant: True -> False #2",
            f"{_MANAGER}._begin_store: constant: True -> False",
        ),
    ),
    (
        "read only where there is an admission tracker, and set anew there before",
        (
            f"{_MANAGER}.prepare_store: delete: num_skipped = 0 -> pass",
            f"{_MANAGER}.prepare_store: constant: 0 -> 1 #3",
            f"{_MANAGER}.prepare_store: constant: 0 -> -1 #3",
        ),
    ),
    (
        "a store of nothing needs no eviction, takes no slot, inserts and announces nothing, and answers the same",
        (f"{_MANAGER}.prepare_store: branch: if not new: -> if False:",),
    ),
    (
        "the reused slots are put back first, behind those that were free before; all behind them is cut off next",
        (f"{_MANAGER}._begin_store: slice: blocks[self._num_allocated_blocks - num_allocated:] -> blocks",),
    ),
    (
        "completing nothing announces, marks, removes and counts nothing",
        (
            f"{_MANAGER}.complete_store: branch: if not pending: -> if False:",
            f"{_MANAGER}.complete_store: delete: return -> pass",
        ),
    ),
    (
        "a ticket covers each key of a store once: whether none or less than none is left, it covers it no more",
        (f"{_MANAGER}.complete_store: constant: 1 -> 2",),
    ),
    (
        "without slots nothing is in use, and nothing divided by anything is nothing",
        (f"{_POOL}.get_stats: constant: 1 -> 2",),
    ),
    (
        "of no keys none is marked; that a checkpoint is taken beforehand changes nothing that a call depends on",
        (
            f"{_MANAGER}._mark: branch: if not keys: -> if False:",
            f"{_MANAGER}._mark: delete: return -> pass",
        ),
    ),
    (
        "the order is restored afterwards; where a policy cannot, that of the call's own keys is excepted",
        (f"{_MANAGER}._mark: call: reversed(marked) -> marked",),
    ),
    (
        "counting keys that are all different again counts each once, in the same order",
        (
            "pool:count_by_last_occurrence: branch: if len(counts) < len(keys): -> if True:",
            "pool:count_by_last_occurrence: comparison: len(counts) < len(keys) -> len(counts) <= len(keys)",
        ),
    ),
    (
        "of the numbers that tell when a key was last moved only which is larger counts",
        (
            f"{_ARC}.__init__: constant: 0 -> 1",
            f"{_ARC}.__init__: constant: 0 -> -1",
            f"{_ARC}._append: constant: 1 -> 2",
            f"{_LRU}.__init__: constant: 0 -> 1",
            f"{_LRU}.__init__: constant: 0 -> -1",
            f"{_LRU}.insert: constant: 1 -> 2",
            f"{_LRU}.touch: constant: 1 -> 2",
            f"{_LRU}.mark_evictable: constant: 1 -> 2",
        ),
    ),
    (
        "what T2 gives while T1 is below its target leaves T1 below it; and T1 that had its turn and no idle block to "
        "give has none later, whatever its size",
        (f"{_ARC}.evict: branch: if victim[1] is self.b1: -> if True:",),
    ),
    (
        "a block came into T2 when it was ready, and what is ready is never stored again",
        (f"{_ARC}.touch: boolean: block.ref_cnt >= 0 or key in self.t2 -> block.ref_cnt >= 0",),
    ),
    (
        "a second restore of the same checkpoint puts the keys where they stood then, noted once or twice",
        (f"{_ARC}.restore: delete: notes.places.clear() -> pass",),
    ),
    (
        "a whole number and the same one as a float compare alike and add up alike",
        (f"{_ARC}._touch_ghost: call: float(self.cache_capacity) -> self.cache_capacity",),
    ),
    (
        "no key is in two of the lists, so that looking on finds nothing",
        (
            f"{_ARC}._leave: delete: break -> pass",
            f"{_ARC}._leave: loop: break -> continue",
        ),
    ),
    (
        "an object with a dictionary takes more memory and does the same",
        ("policies.arc:_Notes: delete: __slots__ = ('places', 'target') -> pass",),
    ),
    (
        "no key is in an empty set: what is left out is nothing",
        (f"{_LRU}.evict: branch: if protected: -> if True:",),
    ),
)
"""An argument, and the places (see `evictable.specs.mutants.generated.Generated.place`) for which it holds."""


def arguments_by_place() -> dict[str, str]:
    """Place -> the argument why an edit there changes nothing."""
    return {place: argument for argument, places in EQUIVALENT for place in places}
