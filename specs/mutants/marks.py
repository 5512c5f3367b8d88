"""Mutants of the cache policies that show at policy level: mostly in what becomes of calls that do not match.

Their laws are those of `evictable.model.policy`, with the kind of mismatch. Most are out of the manager's reach, which
makes no such call.
"""

from __future__ import annotations

from typing import Any

from attrs import frozen

from evictable.specs.callers.disciplines import CARELESS, CONTRACT
from evictable.specs.mutants.mutant import Mutant


@frozen
class PolicyMutant(Mutant):
    """A defect that a search at policy level finds."""

    @property
    def options(self) -> str:
        return f"--level policy --policy {self.policy} --discipline {self.discipline}"


def _of(policy: str, discipline: str, name: str, sentence: str, old: str, new: str, law: str) -> PolicyMutant:
    more: dict[str, Any] = {"discipline": discipline, "policy": policy}
    return PolicyMutant(name, sentence, f"policies.{policy}", old, new, (law,), **more)


MUTANTS_OF_MARKS: tuple[PolicyMutant, ...] = (
    _of(
        "lru",
        CARELESS,
        "mark-of-an-absent-key",
        "an absent key can be marked, and is a victim that is not there",
        'raise _mismatched(key, "is not resident") from None',
        "in_use = False",
        "mismatch/mark-absent",
    ),
    _of(
        "lru",
        CARELESS,
        "mark-of-a-block-in-use",
        "a pinned or pending block can be marked, and is given up",
        "if in_use or key in self.evictable_blocks:",
        "if key in self.evictable_blocks:",
        "mismatch/mark-in-use",
    ),
    _of(
        "lru",
        CARELESS,
        "marked-twice",
        "a second mark is not refused, and spoils the times by which the order is restored",
        "if in_use or key in self.evictable_blocks:",
        "if in_use:",
        "mismatch/mark-marked",
    ),
    _of(
        "lru",
        CARELESS,
        "mark-acts-before-it-looks",
        "a mark that is refused has listed its key",
        "if in_use or key in self.evictable_blocks:",
        "listed = key in self.evictable_blocks\n        self.evictable_blocks[key] = 0\n        if in_use or listed:",
        "all-or-nothing/mark-in-use",
    ),
    _of(
        "lru",
        CARELESS,
        "unmark-ignored",
        "an unmark of a key that is not marked is passed over in silence",
        'raise MismatchedMark("mark_non_evictable", key, "is not listed as evictable", _REMEDY_FOR_UNMARK) from None',
        "return",
        "mismatch/unmark-absent",
    ),
    _of(
        "lru",
        CARELESS,
        "unmark-untyped",
        "an unmark of a key that is not marked raises a bare KeyError",
        'raise MismatchedMark("mark_non_evictable", key, "is not listed as evictable", _REMEDY_FOR_UNMARK) from None',
        "raise",
        "mismatch/unmark-absent",
    ),
    _of(
        "lru",
        CARELESS,
        "insert-over-a-block",
        "an insert of a resident key replaces its block, whose slot is lost",
        "raise already_resident(key)",
        "pass",
        "mismatch/insert-resident",
    ),
    _of(
        "lru",
        CARELESS,
        "insert-lists-the-pinned",
        "a block that is pinned when it is inserted is evictable",
        "if block.ref_cnt == 0:",
        "if block.ref_cnt >= 0:",
        "evictable-iff-idle/insert-pinned",
    ),
    _of(
        "lru",
        CARELESS,
        "mark-outlives-its-block",
        "a block that is removed without an unmark stays in the evictable list",
        "if key in self.evictable_blocks:\n            self._leave(key)",
        "pass",
        "evictable-iff-idle/remove-marked",
    ),
    _of(
        "lru",
        CARELESS,
        "victim-in-use",
        "an eviction does not look whether its victims are pinned",
        "if blocks[key].ref_cnt != 0:",
        "if blocks[key].ref_cnt < 0:",
        "mismatch/evict-in-use",
    ),
    _of(
        "lru",
        CARELESS,
        "eviction-refused-half-way",
        "an eviction that meets a block in use has moved it already",
        "if blocks[key].ref_cnt != 0:",
        "self.evictable_blocks.move_to_end(key)\n            if blocks[key].ref_cnt != 0:",
        "all-or-nothing/evict-in-use",
    ),
    _of(
        "lru",
        CONTRACT,
        "place-of-the-second-departure",
        "a key that left the list twice since the checkpoint is restored to where it stood in between",
        "self._departed.setdefault(key, moved)",
        "self._departed[key] = moved",
        "evict-order",
    ),
    _of(
        "arc",
        CARELESS,
        "arc-insert-over-a-block",
        "an insert of a resident key replaces its block, whose slot is lost",
        "raise already_resident(key)",
        "pass",
        "mismatch/insert-resident",
    ),
    _of(
        "arc",
        CARELESS,
        "arc-removes-the-absent",
        "a removal of an absent key is passed over in silence, and takes its ghost away",
        'raise not_resident("remove", key)',
        "pass",
        "mismatch/remove-absent",
    ),
    _of(
        "arc",
        CONTRACT,
        "arc-evicts-the-pinned",
        "an eviction passes over pending blocks only",
        "if block.ref_cnt == 0 and key not in protected",
        "if block.ref_cnt >= 0 and key not in protected",
        "pinned-stays",
    ),
    _of(
        "arc",
        CONTRACT,
        "arc-idle-is-pending",
        "a touch does not promote an idle block",
        "again = block.ref_cnt >= 0 or",
        "again = block.ref_cnt > 0 or",
        "evict-order",
    ),
)
