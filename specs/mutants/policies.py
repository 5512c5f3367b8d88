"""Mutants of eviction orders, as data: of ARC, and of a lazy heap that is plugged into the built-in manager."""

from __future__ import annotations

from evictable.specs.mutants.mutant import LAZY_HEAP, Mutant


def _of_arc(
    name: str, kind: str, sentence: str, old: str, new: str, laws: tuple[str, ...] = ("evict-order",)
) -> Mutant:
    return Mutant(name, sentence, "policies.arc", old, new, laws, kind=kind, policy="arc")


def _of_heap(name: str, kind: str, sentence: str, old: str, new: str, laws: tuple[str, ...]) -> Mutant:
    return Mutant(name, sentence, LAZY_HEAP, old, new, laws, kind=kind)


MUTANTS_OF_POLICIES: tuple[Mutant, ...] = (
    # --- ARC ---
    _of_arc(
        name="arc-second-use-forgotten",
        kind="order",
        sentence="a block that is used again stays in T1",
        old="self._append(self.t2 if again else self.t1, key, block)",
        new="self._append(self.t1, key, block)",
    ),
    _of_arc(
        name="arc-pending-counts-as-used-again",
        kind="pending-misread",
        sentence="a touch of a block that is still being stored counts as a second use",
        old="again = block.ref_cnt >= 0 or key in self.t2",
        new="again = block.ref_cnt >= -1 or key in self.t2",
    ),
    _of_arc(
        name="arc-gives-from-t1-above-the-target-only",
        kind="boundary",
        sentence="T1 gives only while it is larger than its target, not when it is as large",
        old="if t1_size >= target else",
        new="if t1_size > target else",
    ),
    _of_arc(
        name="arc-size-of-t1-before-the-eviction",
        kind="miscounted",
        sentence="of several victims each is chosen as if T1 still had the others",
        old="t1_size -= 1",
        new="pass",
    ),
    _of_arc(
        name="arc-without-fallback",
        kind="refusal",
        sentence="an eviction fails when the list whose turn it is has no idle block",
        old="next(first, None) or next(second, None)",
        new="next(first, None)",
        laws=("no-false-refusal",),
    ),
    _of_arc(
        name="arc-target-stands-still",
        kind="order",
        sentence="a ghost that is touched moves no target",
        old="self.target_t1_size = min(self.target_t1_size + gain, float(self.cache_capacity))",
        new="pass",
    ),
    _of_arc(
        name="arc-ghosts-survive-reset",
        kind="forgetful-reset",
        sentence="after a reset a key counts as one that was evicted too early",
        old="for part in self._parts:\n            part.clear()\n        self._moved.clear()",
        new="for part in self._parts[:2]:\n            part.clear()",
    ),
    _of_arc(
        name="arc-target-survives-reset",
        kind="forgetful-reset",
        sentence="after a reset T1 keeps the share that it had",
        old="self._moved.clear()\n        self.target_t1_size = 0.0",
        new="self._moved.clear()",
    ),
    # --- a lazy heap, plugged in ---
    _of_heap(
        name="heap-stale-after-touch",
        kind="stale-heap",
        sentence="the entry from before a touch is taken for the current one",
        old="if self._ranks.get(key) != rank:",
        new="if key not in self._evictable:",
        laws=("evict-order",),
    ),
    _of_heap(
        name="heap-stale-while-pinned",
        kind="stale-heap",
        sentence="the entry of a block that is being read is taken for current",
        old="if self._ranks.get(key) != rank:",
        new="if key not in self.blocks:",
        laws=("answer",),
    ),
    _of_heap(
        name="heap-survives-reset",
        kind="stale-heap",
        sentence="ranks begin anew at a reset, and entries from before it are taken for those of what is stored now",
        old="self._heap.clear()",
        new="pass",
        laws=("answer",),
    ),
    _of_heap(
        name="heap-loses-what-it-spares",
        kind="stale-heap",
        sentence="an entry that comes up while its key is protected is not put back",
        old="for entry in spared if enough else spared + victims:",
        new="for entry in [] if enough else victims:",
        laws=("no-false-refusal",),
    ),
)
