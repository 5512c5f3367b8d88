"""What a monitor knows of the manager that it watches, and the exact judgement where the fast one hesitates.

The state is the slot of every resident key, and the owner and the ref count of every slot. In a large cache it is the
look-up of a key that costs, so where the manager's own block of a key has been read, its slot leads to the rest. Order,
events, and who began a transfer are not kept: whose completion it
is, who is evicted first and what is announced is for the full judge, over the trace that the monitor writes.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from operator import attrgetter
from typing import Any

from attrs import define, field

from evictable.model import calls
from evictable.model.breach import Breach
from evictable.model.lifecycle import IDLE, PENDING
from evictable.specs.monitor.inside import Counts, Inside

Before = dict[Any, tuple[int | None, int | None]]
"""The ref count and the slot that keys had; ``None`` for one that was absent."""


@define
class Shadow:
    """The state of a manager as it should be."""

    inside: Inside
    membership: bool
    """Whether the evictable set is compared, too."""
    threshold: int = 1
    slot: dict[Any, int] = field(factory=dict)
    owner: list[Any] = field(factory=list)
    """The key in each slot, or ``None``."""
    ref: list[int | None] = field(factory=list)
    """By slot; ``None`` where no block is."""
    counts: Counts = (0, 0, 0)
    storing: int = 0
    """Keys whose stores are in flight, and below loads; for the level at which nothing else is followed."""
    flying: int = 0

    def follow(self) -> Breach | None:
        """Take the state from the manager, in time proportional to its blocks.

        Answers what is wrong with its slots, if anything is: such a state cannot be followed.
        """
        self.inside.bind()
        ref, slot = self.inside.state()
        self._empty()
        astray = [key for key, its in slot.items() if not 0 <= its < self.inside.capacity]
        if astray:
            range_ = f"slots from 0 to {self.inside.capacity - 1}"
            return Breach("slots-conserved", range_, f"{slot[astray[0]]}", tuple(astray[:1]))
        if len(set(slot.values())) != len(slot):
            return Breach(
                "slots-conserved", "a slot of its own for every block", f"{len(slot)} in {len(set(slot.values()))}"
            )
        for key, its in slot.items():
            self._put(key, its, ref[key])
        self.counts = self._counted()
        values = list(ref.values())
        self.storing, self.flying = values.count(PENDING), sum(one for one in values if one > IDLE)
        return None

    def contradiction(self) -> Breach | None:
        """What is wrong with the state itself, when it was taken from the manager."""
        below = [key for key, its in self.slot.items() if self._at(its) < PENDING]
        if below:
            return Breach("ref-floor", "no ref_cnt below -1", f"{self.ref_cnt(below[0])}", tuple(below[:1]))
        return self.wrong_counters() or (self._wrong_listing(list(self.slot)) if self.membership else None)

    def ref_cnt(self, key: Any) -> int | None:
        """Of a key; ``None`` if it is absent."""
        its = self.slot.get(key)
        return None if its is None else self.ref[its]

    def blocks(self) -> tuple[dict[Any, int], dict[Any, int]]:
        """The ref count and the slot of every resident key."""
        return {key: self._at(its) for key, its in self.slot.items()}, dict(self.slot)

    def _empty(self) -> None:
        self.slot.clear()
        for kept in (self.owner, self.ref):
            kept[:] = [None] * self.inside.capacity

    def _put(self, key: Any, its: int, ref_cnt: int) -> None:
        self.slot[key], self.owner[its], self.ref[its] = its, key, ref_cnt

    def _drop(self, key: Any) -> None:
        its = self.slot.pop(key)
        self.owner[its] = self.ref[its] = None

    def _at(self, its: int) -> int:
        ref_cnt = self.ref[its]
        assert ref_cnt is not None
        return ref_cnt

    # --- the exact judgement ---

    def judge(self, name: str, keys: Sequence[Any], outcome: Any, success: bool) -> tuple[Breach | None, Before]:
        """What ``name(keys)`` broke, having come to ``outcome`` (an exception if it raised); and what was before.

        If nothing is broken the state has followed.
        """
        self.inside.bind()
        raised = isinstance(outcome, BaseException)
        evicted: list[Any] = (
            [] if raised or outcome is None or name != calls.PREPARE_STORE else list(outcome.evicted_keys)
        )
        before: Before = {key: (self.ref_cnt(key), self.slot.get(key)) for key in (*keys, *evicted)}
        if raised or name == calls.TOUCH or (name == calls.PREPARE_STORE and outcome is None):
            return self._unchanged(name, keys, outcome), before
        breach = {
            calls.PREPARE_STORE: self._store,
            calls.COMPLETE_STORE: self._stored,
            calls.PREPARE_LOAD: self._load,
            calls.COMPLETE_LOAD: self._loaded,
        }[name](keys, outcome, success)
        self.counts = self._counted()
        return breach or self._wrong_inside(tuple(before), "legal-step"), before

    def judge_idle(self, was: Counts) -> Breach | None:
        """After a call that is not about blocks: ``was`` is what was counted before it."""
        now = self.inside.counters()
        self.counts = now
        names = "{} evictable, {} slots in use, {} pending"
        return Breach("legal-step", "no block changes: " + names.format(*was), names.format(*now))

    def judge_counters(self, name: str, keys: Sequence[Any], outcome: Any, success: bool) -> Breach | None:
        """The same by the counters alone, between which and the keys there is some play: a key may be misplaced."""
        was, now = self.counts, self.inside.counters()
        self.counts = now
        number, idles, pends = len(keys), int(self.inside.counts_idle), int(self.inside.counts_pending)
        idle, used, pending = (after - before for before, after in zip(was, now, strict=True))
        law, most = "counters-agree", ""
        if (
            isinstance(outcome, BaseException)
            or name == calls.TOUCH
            or (name == calls.PREPARE_STORE and outcome is None)
        ):
            right, law = was == now, "legal-step" if name == calls.TOUCH else "all-or-nothing"
        elif name == calls.PREPARE_STORE:
            new, gone = len(outcome.keys_to_store), len(outcome.evicted_keys)
            most = f" with {new} stored, {gone} evicted"
            self.storing += new
            if len(outcome.store_spec.block_ids) != new:
                return Breach("answer", f"{new} block ids", f"{len(outcome.store_spec.block_ids)}", tuple(keys))
            right = (idle, used, pending) == (-gone * idles, new - gone, new * pends)
            law = law if used == new - gone else "slots-conserved"
        elif name == calls.COMPLETE_STORE:
            ended = idle if success and idles else -used if not success else -pending
            self.storing -= ended
            right = 0 <= ended <= number and (idle, used, pending) == (
                (ended * idles, 0, -ended * pends) if success else (0, -ended, -ended * pends)
            )
        elif name == calls.PREPARE_LOAD:
            right = len(outcome.block_ids) == number and -number <= idle <= 0 == used == pending
            self.flying += number
        else:
            self.flying -= number
            pinned = now[1] - now[0] - self.storing
            right = 0 <= idle <= number and used == pending == 0 and (not idles or 0 <= pinned <= self.flying)
            most = f", {max(self.flying, 0)} loads and {self.storing} stores being in flight then,"
        if right:
            return None
        names = "{} evictable, {} slots in use, {} pending"
        return Breach(law, f"what {name} of {number} keys{most} makes of " + names.format(*was), names.format(*now))

    def judge_reset(self) -> Breach | None:
        """After ``reset_cache``: nothing is left."""
        self.inside.bind()
        self._empty()
        self.counts, self.storing, self.flying = (0, 0, 0), 0, 0
        left = sum(len(table) for table in self.inside.lens.resident_tables())
        if left:
            return Breach("legal-step", "no resident block after a reset", f"{left}")
        return self.wrong_counters()

    def presence(self, key: Any) -> str:
        ref_cnt = self.ref_cnt(key)
        return calls.MISS if ref_cnt is None else calls.HIT if ref_cnt >= IDLE else calls.HIT_PENDING

    def _unchanged(self, name: str, keys: Sequence[Any], outcome: Any) -> Breach | None:
        if name == calls.PREPARE_STORE and outcome is None and self.threshold < 2:
            new = sum(key not in self.slot for key in dict.fromkeys(keys))
            own = sum(self.ref_cnt(key) == IDLE for key in dict.fromkeys(keys))
            room = self.inside.capacity - len(self.slot) + self._idle() - own
            if new <= room:
                return Breach(
                    "no-false-refusal", f"room for {new} new keys: {room} free or evictable", "None", tuple(keys)
                )
        return self._wrong_inside(tuple(dict.fromkeys(keys)), "legal-step" if name == calls.TOUCH else "all-or-nothing")

    def _store(self, keys: Sequence[Any], outcome: Any, success: bool) -> Breach | None:
        ref, slot = self.ref, self.slot
        new, evicted = list(outcome.keys_to_store), list(outcome.evicted_keys)
        wanted = [key for key in dict.fromkeys(keys) if key not in slot]
        if new != wanted and (self.threshold < 2 or not _is_part(new, wanted)):
            return Breach("answer", f"store {_shown(wanted)}", f"store {_shown(new)}", tuple(keys))
        offer = set(keys)
        for key in evicted:
            if key in offer:
                return Breach("offer-protected", "no key of the offer is evicted", f"{_shown([key])} is", (key,))
            if key not in slot:
                return Breach("answer", "evicts resident keys, each once", f"evicts {_shown([key])}", (key,))
            if ref[slot[key]] != IDLE:
                stays = f"{_shown([key])} stays, its ref_cnt is {self.ref_cnt(key)}"
                return Breach("pinned-stays", stays, "evicted", (key,))
            self._drop(key)
        need = max(0, len(slot) + len(evicted) + len(new) - self.inside.capacity)
        if len(evicted) != need:
            return Breach("evict-order", f"{need} evicted", f"{len(evicted)}", tuple(evicted))
        ids = _ids(outcome.store_spec)
        fresh = all(0 <= one < self.inside.capacity and ref[one] is None for one in ids)
        if len(ids) != len(new) or len(set(ids)) != len(ids) or not fresh:
            return Breach("answer", f"a fresh block id for each of {len(new)} keys", f"{ids}", tuple(new))
        for key, its in zip(new, ids, strict=True):
            self._put(key, its, PENDING)
        return None

    def _stored(self, keys: Sequence[Any], outcome: Any, success: bool) -> Breach | None:
        for key in keys:
            if self.ref_cnt(key) == PENDING:
                if success:
                    self.ref[self.slot[key]] = IDLE
                else:
                    self._drop(key)
        return None

    def _load(self, keys: Sequence[Any], outcome: Any, success: bool) -> Breach | None:
        ids = _ids(outcome)
        for key in keys:
            ref_cnt = self.ref_cnt(key)
            if ref_cnt is None or ref_cnt < IDLE:
                return Breach("answer", f"raises: {_shown([key])} is not ready", f"loads from {ids}", (key,))
            self.ref[self.slot[key]] = ref_cnt + 1
        wanted = [self.slot[key] for key in keys]
        return None if ids == wanted else Breach("answer", f"load from {wanted}", f"load from {ids}", tuple(keys))

    def _loaded(self, keys: Sequence[Any], outcome: Any, success: bool) -> Breach | None:
        for key in keys:
            ref_cnt = self.ref_cnt(key)
            if ref_cnt is not None and ref_cnt > IDLE:
                self.ref[self.slot[key]] = ref_cnt - 1
        return None

    # --- the manager's inside against it ---

    def _wrong_inside(self, keys: Collection[Any], law: str) -> Breach | None:
        slot_of = attrgetter(self.inside.lens.block_id_name())
        for key, block in zip(keys, self.inside.blocks(keys), strict=True):
            now = None if block is None else block.ref_cnt
            if now != self.ref_cnt(key):
                law = "ref-floor" if now is not None and now < PENDING else law
                return Breach(law, f"ref_cnt {self.ref_cnt(key)} of {_shown([key])}", f"{now}", (key,))
            if block is not None and (its := slot_of(block)) != self.slot[key]:
                return Breach("slots-conserved", f"{_shown([key])} in slot {self.slot[key]}", f"in slot {its}", (key,))
        return self.wrong_counters() or (self._wrong_listing(keys) if self.membership else None)

    def wrong_counters(self) -> Breach | None:
        expected, seen = self.counts, self.inside.counters()
        if expected == seen:
            return None
        law = "counters-agree" if expected[1] == seen[1] else "slots-conserved"
        names = "{} evictable, {} slots in use, {} pending"
        return Breach(law, names.format(*expected), names.format(*seen))

    def _wrong_listing(self, keys: Collection[Any]) -> Breach | None:
        is_listed = self.inside.is_listed
        for key in keys if self.inside.has_list else ():
            if is_listed(key) != (self.ref_cnt(key) == IDLE):
                seen = "evictable" if is_listed(key) else "not evictable"
                law = "evictable-iff-idle"
                return Breach(law, f"as ref_cnt {self.ref_cnt(key)} of {_shown([key])} says", seen, (key,))
        return None

    def _idle(self) -> int:
        return self.counts[0] if self.inside.counts_idle else self.ref.count(IDLE)

    def _counted(self) -> Counts:
        """The counters as the ref counts have it: over all blocks, which is for when something seems wrong."""
        idle = self.ref.count(IDLE) if self.inside.counts_idle else 0
        return idle, len(self.slot), self.ref.count(PENDING) if self.inside.counts_pending else 0


def _ids(spec: Any) -> list[int]:
    ids = spec.block_ids
    return list(ids.tolist() if hasattr(ids, "tolist") else ids)


def _is_part(part: Sequence[Any], whole: Sequence[Any]) -> bool:
    rest = iter(whole)
    return all(key in rest for key in part)


def _shown(keys: Sequence[Any]) -> str:
    names = [key.hex() if isinstance(key, bytes) else str(key) for key in keys[:8]]
    return "[" + ", ".join(names) + (", ..." if len(keys) > 8 else "") + "]"
