"""The mutants, as data: which defect, by which edit, and which law a search must report for it.

Only defects that a caller can notice are here. Not here, because no law is broken by them: a slot taken from the
other end of the free list, an early refusal left to the policy, a key named twice in a store's completion and
counted once.
"""

from __future__ import annotations

from difflib import get_close_matches

from evictable.specs.callers.disciplines import CARELESS
from evictable.specs.errors import UsageError
from evictable.specs.mutants.hostile import MUTANTS_OF_FAULTS
from evictable.specs.mutants.linked import MUTANTS_OF_LINKS
from evictable.specs.mutants.locks import MUTANTS_OF_LOCKS
from evictable.specs.mutants.marks import MUTANTS_OF_MARKS
from evictable.specs.mutants.mutant import Mutant
from evictable.specs.mutants.policies import MUTANTS_OF_POLICIES
from evictable.specs.mutants.tiering import MUTANTS_OF_TIERS

_MUTANTS_OF_ONE_TIER: tuple[Mutant, ...] = (
    # --- marks ---
    Mutant(
        name="no-mark-when-stored",
        kind="missed-step",
        sentence="a block does not join the evictable list when its store completes",
        module="manager",
        old="self._mark_evictable(pending)",
        new="pass",
        laws=("evictable-iff-idle", "drains"),
    ),
    Mutant(
        name="no-mark-when-unpinned",
        kind="missed-step",
        sentence="a block does not come back to the evictable list when its last load completes",
        module="manager",
        old="self._mark_evictable(idle)",
        new="pass",
        laws=("evictable-iff-idle", "drains"),
    ),
    Mutant(
        name="no-unmark-when-pinned",
        kind="missed-step",
        sentence="a block stays in the evictable list while a load reads it",
        module="manager",
        old="self._mark_non_evictable(idle)",
        new="pass",
        laws=("evictable-iff-idle",),
    ),
    Mutant(
        name="mark-at-every-unpin",
        kind="boundary",
        sentence="a block joins the evictable list when any of its loads completes, not only the last",
        module="manager",
        old="if count == block.ref_cnt:",
        new="if count <= block.ref_cnt:",
        laws=("answer",),  # the policy refuses the mark
    ),
    Mutant(
        name="mark-at-insert",
        kind="missed-step",
        sentence="a block joins the evictable list as soon as its store begins",
        module="policies.lru",
        old="if block.ref_cnt == 0:",
        new="if block.ref_cnt <= 0:",
        laws=("evictable-iff-idle",),
    ),
    Mutant(
        name="victims-stay-listed",
        kind="missed-step",
        sentence="an evicted block stays in the evictable list",
        module="policies.lru",
        old="for key in victims:\n            self._leave(key)",
        new="pass",
        laws=("evictable-iff-idle",),
    ),
    Mutant(
        name="list-survives-reset",
        kind="forgetful-reset",
        sentence="a reset forgets the blocks but not the evictable list",
        module="policies.lru",
        old="self.evictable_blocks.clear()",
        new="pass",
        laws=("evictable-iff-idle",),
    ),
    Mutant(
        name="unmarked-after-the-pin",
        kind="late-membership",
        sentence="a load pins its blocks first, and then takes those out of the evictable list that are idle: none",
        module="manager",
        old=(
            "self._mark_non_evictable(idle)\n"
            "\n"
            "        self._num_evictable_cache_blocks -= len(idle)\n"
            "        for block in blocks:\n"
            "            block.ref_cnt += 1"
        ),
        new=(
            "for block in blocks:\n"
            "            block.ref_cnt += 1\n"
            "        self._mark_non_evictable([key for key in idle if get(key).ref_cnt == 0])\n"
            "        self._num_evictable_cache_blocks -= len(idle)"
        ),
        laws=("evictable-iff-idle",),
    ),
    Mutant(
        name="marked-before-the-unpin",
        kind="late-membership",
        sentence="a load's completion looks for idle blocks before it unpins them, and finds none",
        module="manager",
        old="if count == block.ref_cnt:",
        new="if block.ref_cnt == 0:",
        laws=("evictable-iff-idle", "counters-agree", "drains"),
    ),
    # --- ref_cnt ---
    Mutant(
        name="ready-at-once",
        kind="pending-misread",
        sentence="a new block counts as ready while its store is in flight",
        module="blocks",
        old="self.ref_cnt = -1",
        new="self.ref_cnt = 0",
        laws=("legal-step", "counters-agree"),
    ),
    Mutant(
        name="pending-below-the-floor",
        kind="missed-step",
        sentence="a store in flight is marked with -2",
        module="blocks",
        old="self.ref_cnt = -1",
        new="self.ref_cnt = -2",
        laws=("ref-floor", "counters-agree", "legal-step"),
    ),
    Mutant(
        name="pinned-when-stored",
        kind="missed-step",
        sentence="a stored block starts with a pin that nobody gives back",
        module="manager",
        old="block.ref_cnt = 0",
        new="block.ref_cnt = 1",
        laws=("answer",),  # the policy refuses the mark
    ),
    Mutant(
        name="second-reader-not-counted",
        kind="missed-step",
        sentence="a load of a block that another load reads already is not counted",
        module="manager",
        old="block.ref_cnt += 1",
        new="block.ref_cnt = 1",
        laws=("legal-step",),
    ),
    Mutant(
        name="pinned-once-per-call",
        kind="duplicate",
        sentence="a key named twice in a load is pinned once",
        module="manager",
        old="for block in blocks:\n            block.ref_cnt += 1",
        new="for block in set(blocks):\n            block.ref_cnt += 1",
        laws=("legal-step",),
        discipline=CARELESS,
    ),
    Mutant(
        name="unpinned-once-per-call",
        kind="duplicate",
        sentence="a key named twice in a load's completion is unpinned once",
        module="manager",
        old="block.ref_cnt -= count",
        new="block.ref_cnt -= 1",
        laws=("legal-step", "evictable-iff-idle", "counters-agree", "drains"),
        discipline=CARELESS,
    ),
    Mutant(
        name="load-recorded-once-per-call",
        kind="duplicate",
        sentence="a key named twice in a load is pinned twice, but only one completion is accepted",
        module="manager",
        old="loads[key] = loads.get(key, 0) + 1",
        new="loads[key] = 1",
        laws=("answer",),
        discipline=CARELESS,
    ),
    Mutant(
        name="failure-taken-for-success",
        kind="missed-step",
        sentence="a failed store leaves a readable block",
        module="manager",
        old="if success:",
        new="if pending:",
        laws=("legal-step",),
    ),
    Mutant(
        name="unpinned-twice",
        kind="double-unpin",
        sentence="a load's completion unpins a block twice if somebody else reads it, too",
        module="manager",
        old="block.ref_cnt -= count",
        new="block.ref_cnt -= min(2 * count, block.ref_cnt)",
        laws=("legal-step", "evictable-iff-idle", "counters-agree"),
    ),
    Mutant(
        name="pending-read-as-a-miss",
        kind="pending-misread",
        sentence="a lookup says MISS while the store is in flight",
        module="manager",
        old="block = self._policy.get(key)\n        if block is None:\n            return LookupResult.MISS",
        new=(
            "block = self._policy.get(key)\n"
            "        if block is None or block.ref_cnt < 0:\n"
            "            return LookupResult.MISS"
        ),
        laws=("answer",),
    ),
    Mutant(
        name="pending-stored-again",
        kind="pending-misread",
        sentence="an offer stores a key again whose store is in flight",
        module="manager",
        old="if block is None:\n                new.append(key)",
        new="if block is None or block.ref_cnt < 0:\n                new.append(key)",
        laws=("answer", "slots-conserved"),
    ),
    # --- counters ---
    Mutant(
        name="counter-forgets-stores",
        kind="miscounted",
        sentence="the evictable counter does not grow when a store completes",
        module="manager",
        old="self._num_evictable_cache_blocks += len(pending)",
        new="pass",
        laws=("counters-agree",),
    ),
    Mutant(
        name="counter-forgets-pins",
        kind="miscounted",
        sentence="the evictable counter does not shrink when a load pins idle blocks",
        module="manager",
        old="self._num_evictable_cache_blocks -= len(idle)",
        new="pass",
        laws=("counters-agree",),
    ),
    Mutant(
        name="counter-counts-pinned",
        kind="miscounted",
        sentence="the evictable counter shrinks for every block that a load names, pinned ones too",
        module="manager",
        old="self._num_evictable_cache_blocks -= len(idle)",
        new="self._num_evictable_cache_blocks -= len(blocks)",
        laws=("counters-agree",),
    ),
    Mutant(
        name="counter-forgets-unpins",
        kind="miscounted",
        sentence="the evictable counter does not grow when a load completes",
        module="manager",
        old="self._num_evictable_cache_blocks += len(idle)",
        new="pass",
        laws=("counters-agree",),
    ),
    Mutant(
        name="counter-counts-unpins-twice",
        kind="miscounted",
        sentence="the evictable counter grows twice when a load completes",
        module="manager",
        old="self._num_evictable_cache_blocks += len(idle)",
        new="self._num_evictable_cache_blocks += 2 * len(idle)",
        laws=("counters-agree",),
    ),
    Mutant(
        name="counter-forgets-evictions",
        kind="miscounted",
        sentence="the evictable counter does not shrink when blocks are evicted",
        module="manager",
        old="self._num_evictable_cache_blocks -= len(victims)",
        new="pass",
        laws=("counters-agree",),
    ),
    Mutant(
        name="counter-survives-reset",
        kind="forgetful-reset",
        sentence="a reset does not set the evictable counter back",
        module="pool",
        old="self._num_evictable_cache_blocks = 0\n",
        new="pass\n",
        laws=("counters-agree",),
    ),
    Mutant(
        name="pending-forgets-begun-stores",
        kind="miscounted",
        sentence="the write-pending counter does not grow when stores begin",
        module="manager",
        old="self._num_write_pending_blocks += len(new)",
        new="pass",
        laws=("counters-agree",),
    ),
    Mutant(
        name="pending-forgets-failed-stores",
        kind="error-path",
        sentence="the write-pending counter shrinks for stores that succeed, not for those that fail",
        module="manager",
        old="self._num_write_pending_blocks -= len(pending)",
        new="self._num_write_pending_blocks -= len(pending) * success",
        laws=("counters-agree",),
    ),
    Mutant(
        name="pending-survives-reset",
        kind="forgetful-reset",
        sentence="a reset with stores in flight does not set the write-pending counter back",
        module="pool",
        old="self._num_write_pending_blocks = 0\n",
        new="pass\n",
        laws=("counters-agree",),
        discipline=CARELESS,
    ),
    Mutant(
        name="usage-counts-evictable",
        kind="miscounted",
        sentence="the usage gauge counts evictable blocks as used",
        module="pool",
        old="- len(self._free_list) - self._num_evictable_cache_blocks",
        new="- len(self._free_list)",
        laws=("counters-agree",),
    ),
    Mutant(
        name="usage-counts-free",
        kind="miscounted",
        sentence="the usage gauge counts slots that were given back as used",
        module="pool",
        old="- len(self._free_list) - self._num_evictable_cache_blocks",
        new="- self._num_evictable_cache_blocks",
        laws=("counters-agree",),
    ),
    Mutant(
        name="write-usage-counts-pinned",
        kind="miscounted",
        sentence="the gauge of slots being written counts those that are read, too",
        module="pool",
        old="num_written = self._num_write_pending_blocks",
        new="num_written = num_in_use",
        laws=("counters-agree",),
    ),
    Mutant(
        name="refusals-not-counted",
        kind="miscounted",
        sentence="the counter of refused offers stands still",
        module="manager",
        old="self.allocation_failures_in_current_batch += 1",
        new="pass",
        laws=("counters-agree",),
    ),
    Mutant(
        name="sizes-told-again",
        kind="miscounted",
        sentence="the sizes of allocations are reported again by every later report",
        module="pool",
        old="self.allocation_sizes_in_current_batch.clear()",
        new="pass",
        laws=("counters-agree",),
    ),
    # --- slots ---
    Mutant(
        name="slot-leaks-when-store-fails",
        kind="error-path",
        sentence="a failed store does not give its slot back",
        module="manager",
        old="self._free_blocks(pending.values())",
        new="pass",
        laws=("slots-conserved", "drains"),
    ),
    Mutant(
        name="slot-leaks-at-eviction",
        kind="slots",
        sentence="an evicted block does not give its slot back",
        module="manager",
        old="self._free_blocks(victims.values())",
        new="pass",
        laws=("answer", "slots-conserved", "all-or-nothing", "progress"),
    ),
    Mutant(
        name="victims-stay-resident",
        kind="missed-step",
        sentence="an evicted block stays in the cache, although its slot has gone to another",
        module="policies.lru",
        old="pop = self.blocks.pop",
        new="pop = self.blocks.get",
        laws=("capacity", "evictable-iff-idle", "counters-agree", "slots-conserved", "answer"),
    ),
    Mutant(
        name="slot-freed-twice",
        kind="double-unpin",
        sentence="a failed store gives its slot back twice",
        module="manager",
        old="self._free_blocks(pending.values())",
        new="self._free_blocks([*pending.values(), *pending.values()])",
        laws=("slots-conserved",),
    ),
    Mutant(
        name="slot-stays-free",
        kind="slots",
        sentence="a slot that is taken from the free list stays in it",
        module="manager",
        old="pop = self._free_list.pop",
        new="pop = list(self._free_list).pop",
        laws=("slots-conserved",),
    ),
    Mutant(
        name="slot-beyond-the-pool",
        kind="boundary",
        sentence="fresh slots are handed out past the end of the pool",
        module="manager",
        old="end = min(first + len(keys), self._num_blocks)",
        new="end = first + len(keys)",
        laws=("answer",),
    ),
    Mutant(
        name="one-slot-too-many",
        kind="boundary",
        sentence="the pool has one slot more than it was given",
        module="pool",
        old="self._num_blocks = num_blocks",
        new="self._num_blocks = num_blocks + 1",
        laws=("slots-conserved",),
    ),
    Mutant(
        name="free-list-survives-reset",
        kind="forgetful-reset",
        sentence="a reset hands out all slots afresh, but keeps the list of those given back",
        module="pool",
        old="self._free_list.clear()",
        new="pass",
        laws=("slots-conserved",),
    ),
    Mutant(
        name="handed-out-survives-reset",
        kind="forgetful-reset",
        sentence="after a reset the slots that were in use are neither free nor fresh",
        module="pool",
        old="self._num_allocated_blocks = 0\n        self._free_list.clear()",
        new="self._free_list.clear()",
        laws=("slots-conserved",),
    ),
    Mutant(
        name="load-slots-sorted",
        kind="slots",
        sentence="a load gets its slots in ascending order, not in the order of its keys",
        module="manager",
        old='self._get_load_store_spec(blocks, Ticket("complete_load"',
        new='self._get_load_store_spec(sorted(blocks, key=lambda block: block.block_id), Ticket("complete_load"',
        laws=("answer",),
    ),
    # --- making room ---
    Mutant(
        name="nothing-protected",
        kind="protection",
        sentence="keys of the offer that are resident may be evicted for it",
        module="manager",
        old="protected = set(resident)",
        new="protected = set()",
        laws=("offer-protected", "evict-order"),
    ),
    Mutant(
        name="only-new-keys-protected",
        kind="protection",
        sentence="only the new keys of an offer are protected, which are not there yet",
        module="manager",
        old="protected = set(resident)",
        new="protected = set(new)",
        laws=("offer-protected", "evict-order"),
    ),
    Mutant(
        name="policy-ignores-protected",
        kind="protection",
        sentence="the policy does not look at the keys that it must not evict",
        module="policies.lru",
        old="if protected:",
        new="if not protected:",
        laws=("answer",),
    ),
    Mutant(
        name="evicts-one-too-many",
        kind="boundary",
        sentence="a store evicts one block more than it needs",
        module="manager",
        old="num_to_evict = len(new) - self._get_num_free_blocks()",
        new="num_to_evict = len(new) - self._get_num_free_blocks() + 1",
        laws=("evict-order", "no-false-refusal", "progress"),
    ),
    Mutant(
        name="resident-keys-need-room",
        kind="refusal",
        sentence="room is made for every key of an offer, resident ones too",
        module="manager",
        old="num_to_evict = len(new) - self._get_num_free_blocks()",
        new="num_to_evict = len(new) + len(resident) - self._get_num_free_blocks()",
        laws=("no-false-refusal", "evict-order"),
    ),
    Mutant(
        name="free-list-forgotten",
        kind="slots",
        sentence="slots that were given back do not count as free, so that blocks are evicted instead",
        module="pool",
        old="return len(self._free_list) + self._num_blocks - self._num_allocated_blocks",
        new="return self._num_blocks - self._num_allocated_blocks",
        laws=("no-false-refusal", "evict-order", "progress"),
    ),
    Mutant(
        name="victims-not-told",
        kind="answer",
        sentence="the answer does not name the evicted keys",
        module="manager",
        old="return PrepareStoreOutput(new, spec, list(victims))",
        new="return PrepareStoreOutput(new, spec, [])",
        laws=("evict-order", "answer"),
    ),
    Mutant(
        name="resident-keys-stored-again",
        kind="answer",
        sentence="the answer names every key of the offer as one to store",
        module="manager",
        old="return PrepareStoreOutput(new, spec, list(victims))",
        new="return PrepareStoreOutput(new + resident, spec, list(victims))",
        laws=("answer",),
    ),
    Mutant(
        name="repeated-key-stored-twice",
        kind="duplicate",
        sentence="a key named twice in an offer gets two slots",
        module="manager",
        old="for key in dict.fromkeys(keys):",
        new="for key in keys:",
        laws=("no-false-refusal", "counters-agree"),  # the policy refuses the second block
        discipline=CARELESS,
    ),
    # --- the order ---
    Mutant(
        name="evicts-from-the-other-end",
        kind="order",
        sentence="the most recently used block goes first",
        module="policies.lru",
        old="candidates: Iterable[OffloadKey] = self.evictable_blocks",
        new="candidates: Iterable[OffloadKey] = reversed(self.evictable_blocks)",
        laws=("evict-order",),
    ),
    Mutant(
        name="touch-forgotten",
        kind="order",
        sentence="a touch changes nothing",
        module="manager",
        old="self._policy.touch(keys)",
        new="pass",
        laws=("evict-order",),
    ),
    Mutant(
        name="touch-forwards",
        kind="order",
        sentence="a touch walks its keys forwards, so that the head of a prefix goes before its tail",
        module="policies.lru",
        old="in reversed(list(keys)) if key in evictable",
        new="in list(keys) if key in evictable",
        laws=("evict-order",),
    ),
    Mutant(
        name="touch-to-the-front",
        kind="order",
        sentence="a touched block goes to the front of the list",
        module="policies.lru",
        old="evictable[key] = clock\n            evictable.move_to_end(key)",
        new="evictable[key] = clock\n            evictable.move_to_end(key, last=False)",
        laws=("evict-order",),
    ),
    Mutant(
        name="touch-lists-pinned",
        kind="missed-step",
        sentence="a touch puts pinned and pending blocks into the evictable list",
        module="policies.lru",
        old="in reversed(list(keys)) if key in evictable",
        new="in reversed(list(keys)) if key in self.blocks",
        laws=("evictable-iff-idle",),
    ),
    Mutant(
        name="lookup-touches",
        kind="order",
        sentence="a lookup counts as a use",
        module="manager",
        old="block = self._policy.get(key)\n        if block is None:\n            return LookupResult.MISS",
        new=(
            "block = self._policy.get(key)\n"
            "        self._policy.touch([key])\n"
            "        if block is None:\n"
            "            return LookupResult.MISS"
        ),
        laws=("evict-order",),
    ),
    Mutant(
        name="offer-touches",
        kind="order",
        sentence="an offer counts as a use of those of its keys that are resident",
        module="manager",
        old="self._num_write_pending_blocks += len(new)",
        new="self._num_write_pending_blocks += len(new)\n        policy.touch(resident)",
        laws=("evict-order",),
    ),
    Mutant(
        name="stored-backwards",
        kind="order",
        sentence="the keys of one completed store join the list backwards",
        module="manager",
        old="self._mark_evictable(pending)",
        new="self._mark_evictable(list(reversed(pending)))",
        laws=("evict-order",),
    ),
    Mutant(
        name="unpinned-backwards",
        kind="order",
        sentence="the keys of one completed load join the list backwards",
        module="manager",
        old="self._mark_evictable(idle)",
        new="self._mark_evictable(idle[::-1])",
        laws=("evict-order",),
    ),
    # --- refusals ---
    Mutant(
        name="refuses-an-exact-fit",
        kind="boundary",
        sentence="an offer that needs every evictable block is refused",
        module="manager",
        old="if num_to_evict > self._num_evictable_cache_blocks - num_idle:",
        new="if num_to_evict >= self._num_evictable_cache_blocks - num_idle:",
        laws=("no-false-refusal", "progress"),
    ),
    Mutant(
        name="pending-protected-twice",
        kind="pending-misread",
        sentence="pending keys of an offer count as evictable ones that are protected: refused although there is room",
        module="manager",
        old="if block.ref_cnt == 0:\n                    num_idle += 1",
        new="if block.ref_cnt <= 0:\n                    num_idle += 1",
        laws=("no-false-refusal",),
    ),
    Mutant(
        name="refusal-evicts",
        kind="refusal",
        sentence="an offer evicts what there is before it is refused",
        module="manager",
        old="return None\n\n        num_allocated",
        new=(
            "policy.evict(self._num_evictable_cache_blocks - num_idle, set(resident))\n"
            "            return None\n"
            "\n"
            "        num_allocated"
        ),
        laws=("all-or-nothing", "counters-agree", "slots-conserved"),
    ),
    Mutant(
        name="refusal-touches",
        kind="refusal",
        sentence="an offer that is refused moves its resident keys",
        module="manager",
        old="return None\n\n        num_allocated",
        new="policy.touch(resident)\n            return None\n\n        num_allocated",
        laws=("all-or-nothing",),
    ),
    # --- what a careful manager does not accept ---
    Mutant(
        name="pending-load-accepted",
        kind="pending-misread",
        sentence="a block can be loaded while it is being stored",
        module="manager",
        old="if block.ref_cnt < 0:\n                raise NotReady(",
        new="if block.ref_cnt < -1:\n                raise NotReady(",
        laws=("legal-step", "evictable-iff-idle", "counters-agree", "answer"),
        discipline=CARELESS,
    ),
    Mutant(
        name="load-pins-before-it-checks",
        kind="error-path",
        sentence="a load that raises for an absent key has pinned the keys before it",
        module="manager",
        old='raise KeyNotResident("prepare_load", key, req_id)',
        new=(
            "for earlier in blocks:\n"
            "                    earlier.ref_cnt += 1\n"
            '                raise KeyNotResident("prepare_load", key, req_id)'
        ),
        laws=("all-or-nothing", "evictable-iff-idle", "counters-agree"),
        discipline=CARELESS,
    ),
    Mutant(
        name="foreign-store-completion-accepted",
        kind="generation",
        sentence="any request can complete a store",
        module="manager",
        old="or block.writer != req_id or ",
        new="or ",
        laws=("owner-completes", "pinned-stays"),
        discipline=CARELESS,
    ),
    Mutant(
        name="store-completed-again",
        kind="double-unpin",
        sentence="a store can be completed, or given up, after it was completed",
        module="manager",
        old="if block.ref_cnt >= 0 or block.writer",
        new="if block.writer",
        laws=("counters-agree", "legal-step", "owner-completes"),
        discipline=CARELESS,
    ),
    Mutant(
        name="own-store-not-known",
        kind="owner",
        sentence="the writer of a block is forgotten, so that nobody can complete the store",
        module="manager",
        old="block.writer = req_id",
        new="pass",
        laws=("answer",),
    ),
    Mutant(
        name="foreign-load-completion-accepted",
        kind="owner",
        sentence="a request that loads nothing can complete the loads of another",
        module="manager",
        old="loads = self._loads.get(req_id, {})",
        new=(
            "if self._loads and req_id not in self._loads:\n"
            "            req_id = next(iter(self._loads))\n"
            "        loads = self._loads.get(req_id, {})"
        ),
        laws=("owner-completes",),
        discipline=CARELESS,
    ),
    Mutant(
        name="load-completed-again",
        kind="double-unpin",
        sentence="the record of a load is kept when it completes, so that it can be completed again",
        module="manager",
        old="if loads[key] == count:\n                del loads[key]",
        new="if loads[key] == count:\n                pass",
        laws=("owner-completes", "evictable-iff-idle", "counters-agree", "legal-step", "drains"),
        discipline=CARELESS,
    ),
    Mutant(
        name="load-completed-too-often",
        kind="boundary",
        sentence="a load's completion may name a key more often than it was loaded",
        module="manager",
        old="if count > in_flight:",
        new="if not in_flight:",
        laws=("owner-completes", "counters-agree", "legal-step", "drains"),
        discipline=CARELESS,
    ),
    Mutant(
        name="loads-survive-reset",
        kind="generation",
        sentence="a load from before a reset can be completed on a block stored after it",
        module="manager",
        old="self._loads.clear()",
        new="pass",
        laws=("owner-completes", "evictable-iff-idle", "counters-agree", "ref-floor", "legal-step", "drains"),
        discipline=CARELESS,
    ),
    Mutant(
        name="finish-forgets-loads",
        kind="requests",
        sentence="a request that finishes can no longer complete its loads in flight",
        module="pool",
        old="def on_request_finished(self, req_context: ReqContext) -> None:",
        new=(
            "def on_request_finished(self, req_context: ReqContext) -> None:\n"
            "        self._loads.pop(req_context.req_id, None)"
        ),
        laws=("answer",),
    ),
    Mutant(
        name="finish-aborts-stores",
        kind="early-reuse",
        sentence="a request that finishes gives up its stores in flight, and their slots while they are written to",
        module="pool",
        old="def on_request_finished(self, req_context: ReqContext) -> None:",
        new=(
            "def on_request_finished(self, req_context: ReqContext) -> None:\n"
            "        pending = {key: block for key, block in self._policy.blocks.items() if block.ref_cnt < 0}\n"
            "        own = {key: block for key, block in pending.items() if block.writer == req_context.req_id}\n"
            "        self._abort_store(own)\n"
            "        self._num_write_pending_blocks -= len(own)"
        ),
        laws=("pinned-stays", "legal-step"),
    ),
    Mutant(
        name="announcement-forgets-loads",
        kind="requests",
        sentence="a request that is announced again can no longer complete its loads in flight",
        module="pool",
        old="return RequestOffloadingContext()",
        new="self._loads.pop(req_context.req_id, None)\n        return RequestOffloadingContext()",
        laws=("answer",),
        discipline=CARELESS,
    ),
    Mutant(
        name="reset-put-off",
        kind="forgetful-reset",
        sentence="a reset while loads are in flight does nothing and says nothing",
        module="manager",
        old="self._policy.clear()",
        new="if self._loads:\n            return\n        self._policy.clear()",
        laws=("legal-step",),
        discipline=CARELESS,
    ),
    # --- answers ---
    Mutant(
        name="hit-while-pending",
        kind="pending-misread",
        sentence="a lookup says HIT while the store is in flight",
        module="manager",
        old="LookupResult.HIT if block.ref_cnt >= 0 else",
        new="LookupResult.HIT if block.ref_cnt >= -1 else",
        laws=("answer",),
    ),
    Mutant(
        name="pending-while-pinned",
        kind="boundary",
        sentence="a lookup says HIT_PENDING while somebody reads the block",
        module="manager",
        old="LookupResult.HIT if block.ref_cnt >= 0 else",
        new="LookupResult.HIT if block.ref_cnt == 0 else",
        laws=("answer",),
    ),
    Mutant(
        name="pinned-while-offered",
        kind="refusal",
        sentence="an offer is refused while one of its keys is being read",
        module="manager",
        old="if not new:",
        new=(
            "if new and any(block.ref_cnt > 0 for block in map(get, resident)):\n"
            "            return None\n"
            "        if not new:"
        ),
        laws=("no-false-refusal", "counters-agree"),
    ),
    # --- events ---
    Mutant(
        name="no-event-when-stored",
        kind="events",
        sentence="nothing is announced when a store completes",
        module="manager",
        old="self._announce(pending, removed=False)",
        new="pass",
        laws=("events-once", "events-replay"),
    ),
    Mutant(
        name="no-event-at-eviction",
        kind="events",
        sentence="nothing is announced when blocks are evicted",
        module="manager",
        old="self._announce(victims, removed=True)",
        new="pass",
        laws=("events-once", "events-replay"),
    ),
    Mutant(
        name="eviction-announced-as-store",
        kind="events",
        sentence="an eviction is announced as if the blocks had been stored",
        module="manager",
        old="self._announce(victims, removed=True)",
        new="self._announce(victims, removed=False)",
        laws=("events-once", "events-replay"),
    ),
    Mutant(
        name="failed-store-announced",
        kind="events",
        sentence="a store that fails is announced as if it had succeeded",
        module="manager",
        old="self._free_blocks(pending.values())",
        new="self._free_blocks(pending.values())\n            self._announce(pending, removed=False)",
        laws=("events-once", "events-replay"),
    ),
    Mutant(
        name="failed-store-announced-as-removed",
        kind="events",
        sentence="a store that fails is announced as a removal of keys that were never announced",
        module="manager",
        old="self._free_blocks(pending.values())",
        new="self._free_blocks(pending.values())\n            self._announce(pending, removed=True)",
        laws=("events-once",),
    ),
    Mutant(
        name="events-newest-first",
        kind="events",
        sentence="events are delivered newest first",
        module="pool",
        old="yield self.events.popleft()",
        new="yield self.events.pop()",
        laws=("events-once", "events-replay"),
    ),
    Mutant(
        name="one-event-a-drain",
        kind="events",
        sentence="a drain ends after one event",
        module="pool",
        old="while self.events:",
        new="if self.events:",
        laws=("events-once", "events-replay"),
    ),
    Mutant(
        name="events-delivered-twice",
        kind="clear-after-yield",
        sentence="a drain that is dropped half way delivers again, next time, what it had delivered",
        module="pool",
        old="while self.events:\n            yield self.events.popleft()",
        new="if self.events:\n            yield from self.events\n            self.events.clear()",
        laws=("events-once",),
        discipline=CARELESS,
    ),
    Mutant(
        name="events-lost",
        kind="events",
        sentence="a drain that is dropped half way loses what it had not delivered",
        module="pool",
        old="while self.events:\n            yield self.events.popleft()",
        new=(
            "if self.events:\n"
            "            waiting = list(self.events)\n"
            "            self.events.clear()\n"
            "            yield from waiting"
        ),
        laws=("events-once", "events-replay"),
        discipline=CARELESS,
    ),
    Mutant(
        name="events-survive-reset",
        kind="forgetful-reset",
        sentence="events from before a reset are delivered to the consumer that started anew",
        module="pool",
        old="self.events.clear()",
        new="pass",
        laws=("events-replay",),
        discipline=CARELESS,
    ),
)

MUTANTS = (*_MUTANTS_OF_ONE_TIER, *MUTANTS_OF_POLICIES, *MUTANTS_OF_FAULTS, *MUTANTS_OF_TIERS, *MUTANTS_OF_LINKS)
_others: dict[str, Mutant] = {}
"""Known in this process only."""


def add(mutant: Mutant) -> None:
    """Make a mutant known in this process that is not in the registry. Raises `UsageError` if its name is taken."""
    if _others.setdefault(mutant.name, mutant) != mutant or any(mutant.name == one.name for one in MUTANTS):
        raise UsageError(f"there is another mutant {mutant.name!r}; give this one a name of its own")


def named(name: str) -> Mutant:
    """The mutant of that name. Raises `UsageError` if there is none."""
    for mutant in (*MUTANTS, *MUTANTS_OF_LOCKS, *MUTANTS_OF_MARKS, *_others.values()):
        if mutant.name == name:
            return mutant
    near = get_close_matches(name, [mutant.name for mutant in MUTANTS], 3) or [mutant.name for mutant in MUTANTS[:3]]
    raise UsageError(f"unknown mutant {name!r}; such as {', '.join(near)}; evictable mutants hunts all {len(MUTANTS)}")
