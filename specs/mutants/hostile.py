"""Mutants that show when something that the manager calls raises, and mutants of the tickets.

What is wrong is a way back that is left out, or taken too short: a call that raises has then changed something. And a
ticket that covers more than the one preparation that it stands for.
"""

from __future__ import annotations

from evictable.specs.callers.disciplines import CARELESS, HOSTILE
from evictable.specs.mutants.mutant import Mutant

_WAY_BACK = "error-path"
_TICKET = "generation"


def _hostile(name: str, sentence: str, old: str, new: str, *laws: str, module: str = "manager") -> Mutant:
    return Mutant(name, sentence, module, old, new, laws or ("all-or-nothing",), HOSTILE, _WAY_BACK)


def _ticket(name: str, sentence: str, module: str, old: str, new: str, law: str = "owner-completes") -> Mutant:
    return Mutant(name, sentence, module, old, new, (law,), CARELESS, _TICKET)


MUTANTS_OF_FAULTS: tuple[Mutant, ...] = (
    _hostile(
        "records-that-fail-keep-their-slots",
        "slots taken from the free list for records that cannot be made are not given back",
        "            self._free_list.extend(reversed(reused))\n            raise\n",
        "            raise\n",
    ),
    _hostile(
        "slots-given-back-backwards",
        "slots taken for records that cannot be made are given back in the wrong sequence",
        "self._free_list.extend(reversed(reused))",
        "self._free_list[:0] = reused",
        "slots-conserved",
    ),
    _hostile(
        "store-that-fails-keeps-what-it-inserted",
        "an insert that raises leaves the keys before it in the cache",
        "                if get(key) is not None:\n                    policy.remove(key)\n",
        "                pass\n",
    ),
    _hostile(
        "store-that-fails-loses-its-victims",
        "what was evicted for a store that then fails is not taken back",
        "            for key, block in victims.items():\n                if get(key) is None:\n",
        "            for key, block in victims.items():\n                if False:\n",
    ),
    _hostile(
        "store-that-fails-leaks-reused-slots",
        "reused slots of a store that fails are lost",
        "            self._free_blocks(reversed(reused))\n            del",
        "            del",
    ),
    _hostile(
        "store-that-fails-frees-victims-twice",
        "the slots of victims that are taken back stay in the free list",
        "            del self._free_list[num_free:]\n",
        "",
    ),
    _hostile(
        "store-that-fails-counts-fresh-slots",
        "fresh slots of a store that fails count as handed out",
        "            self._num_allocated_blocks = num_allocated\n",
        "",
    ),
    _hostile(
        "store-that-fails-moves-its-victims",
        "victims that are taken back go to the end of the order",
        "            self._num_allocated_blocks = num_allocated\n            self._restore_order(token)\n",
        "            self._num_allocated_blocks = num_allocated\n",
    ),
    _hostile(
        "mark-that-fails-leaves-the-count",
        "the counts stay lowered when a block cannot be marked evictable",
        "                block.ref_cnt += count\n            raise\n",
        "                pass\n            raise\n",
    ),
    _hostile(
        "mark-that-fails-leaves-the-store-ready",
        "a store whose block cannot be marked evictable is ready all the same",
        "                block.ref_cnt = -1\n            if self.events",
        "                pass\n            if self.events",
    ),
    _hostile(
        "mark-that-fails-is-announced",
        "a store whose block cannot be marked evictable has been announced",
        "                self.events.pop()\n",
        "                pass\n",
    ),
    _hostile(
        "marks-not-taken-back",
        "of several marks those before the one that raises stay",
        "            for key in reversed(marked):\n                unmark(key)\n",
        "",
    ),
    _hostile(
        "marks-taken-back-out-of-order",
        "marks that are taken back leave the keys elsewhere in the order",
        "                unmark(key)\n            self._restore_order(token)\n",
        "                unmark(key)\n",
    ),
    _hostile(
        "failed-store-half-removed",
        "of several keys of a store that failed those before the one that cannot be removed are gone",
        "                if policy.get(key) is None:\n                    policy.insert(key, block)\n"
        "            self._restore_order(token)\n",
        "                pass\n            self._restore_order(token)\n",
    ),
    _hostile(
        "pins-before-it-marks",
        "a load raises the counts before it takes the keys from the list, and not back",
        "        self._mark_non_evictable(idle)\n",
        "        for block in blocks:\n            block.ref_cnt += 1\n        self._mark_non_evictable(idle)\n"
        "        for block in blocks:\n            block.ref_cnt -= 1\n",
    ),
    _hostile(
        "forgets-blocks-before-it-clears",
        "a reset forgets counters and slots before the policy can refuse",
        "        self._policy.clear()\n        self._loads.clear()\n        self._forget_blocks()\n",
        "        self._forget_blocks()\n        self._policy.clear()\n        self._loads.clear()\n",
    ),
    _ticket(
        "ticket-not-looked-at",
        "any ticket will do",
        "pool",
        "        if uncovered is not None:\n",
        "        if False:\n",
    ),
    _ticket(
        "ticket-of-another-time",
        "a ticket from before a reset is as good as a new one",
        "tickets",
        "own = self._era is era and (",
        "own = (",
    ),
    _ticket(
        "ticket-of-another-request",
        "a ticket is good for whoever carries it, if that one has such a transfer too",
        "tickets",
        "own = self._era is era and (self.completion, self.request) == (completion, request)",
        "own = self._era is era and self.completion == completion",
    ),
    _ticket(
        "ticket-never-spent",
        "what a ticket covers can be completed again, if the request has begun it again",
        "tickets",
        "        self._count().subtract(counts)\n",
        "        pass\n",
    ),
    _ticket(
        "ticket-covers-any-number",
        "a key of a ticket may be named more often than it was prepared",
        "tickets",
        "if not own or left[key] < count)",
        "if not own or left[key] < 1)",
    ),
)
