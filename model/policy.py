"""What is right at policy level, for calls that match and for those that do not.

`POLICY_LAWS` are the laws of a single call, `MISMATCHES` the ways in which a call can fail to match, each with what the
built-in policies do about it, and `PolicyModel` is an executable policy over the orders of `evictable.model.orders`.
Sources: vLLM 0.24's `CachePolicy` (what it says of each method), PR #46216 for the marks.
"""

from __future__ import annotations

import copy
from collections.abc import Collection

from attrs import define, field, frozen

from evictable.model.calls import Key
from evictable.model.orders import Order
from evictable.model.policy_calls import (
    CHECKPOINT,
    CLEAR,
    EVICT,
    INSERT,
    MARK,
    ON_REQUEST_FINISHED,
    ON_STORE_MISS,
    REMOVE,
    REQUEST_HOOKS,
    RESTORE,
    SET_REF_CNT,
    TOUCH,
    UNMARK,
    Evicted,
    PolicyCall,
    PolicyState,
)

POLICY_LAWS: dict[str, str] = {
    "answer": "a call that matches does not raise; get finds the block inserted last, until it leaves; evict answers n",
    "legal-step": "a policy changes no ref_cnt",
    "evictable-iff-idle": "the evictable list holds exactly the resident keys with ref_cnt 0 that were marked so",
    "pinned-stays": "evict takes no block whose ref_cnt is not 0",
    "offer-protected": "evict takes no protected key",
    "no-false-refusal": "evict answers None only when fewer than n blocks are evictable and unprotected",
    "evict-order": "the victims are the first evictable unprotected keys in the declared order",
    "all-or-nothing": "a call that answers None or raises has changed nothing",
    "mismatch": "a call that does not match raises, or changes nothing, or does what is documented to be tolerated",
}


@frozen
class Mismatch:
    """One way not to match. ``None`` in place of a tolerance: the call is refused, with nothing changed."""

    name: str
    method: str
    sentence: str
    heeding: str | None
    """What a policy does that heeds marks."""
    ignoring: str | None
    """What one does that looks at every ``ref_cnt`` itself."""


_NOTHING = "nothing happens: marks are ignored"
MISMATCHES: dict[str, Mismatch] = {
    row.name: row
    for row in (
        Mismatch("insert-resident", INSERT, "the key is resident", None, None),
        Mismatch("insert-pinned", INSERT, "the block is pinned", *("it is resident and no victim",) * 2),
        Mismatch("remove-absent", REMOVE, "the key is absent", None, None),
        Mismatch("remove-marked", REMOVE, "the key is still marked", *("its mark goes with it",) * 2),
        Mismatch("remove-pinned", REMOVE, "the block is pinned", *("it leaves all the same",) * 2),
        Mismatch("mark-absent", MARK, "the key is absent", None, _NOTHING),
        Mismatch("mark-in-use", MARK, "the block is pinned or pending", None, _NOTHING),
        Mismatch("mark-marked", MARK, "the key is marked already", None, _NOTHING),
        Mismatch("unmark-absent", UNMARK, "the key is absent", None, _NOTHING),
        Mismatch("unmark-unmarked", UNMARK, "the key is not marked", None, _NOTHING),
        Mismatch(  # refused where that block would be a victim
            "evict-in-use", EVICT, "a block was put to use without a mark", None, "it is seen to be in use, and stays"
        ),
        Mismatch(
            "evict-unmarked", EVICT, "a block became idle without a mark", "it is passed over", "it is seen to be idle"
        ),
        Mismatch(
            "touch-unmarked",
            TOUCH,
            "a ref_cnt was changed without a mark",
            "the list decides what moves",
            "its ref_cnt decides",
        ),
        Mismatch("set-unmarked", SET_REF_CNT, "a mark is missing", *("the policy is not told",) * 2),
        Mismatch("restore-without", RESTORE, "there is no checkpoint since the last clear", None, None),
    )
}


class Refused(Exception):
    """The model does not carry out a call: the right thing is to raise."""


@define
class PolicyModel:
    """A policy under its caller: whose blocks they are, how the caller set them, and what was marked.

    Three things may be at variance here, and only here: a block's ``ref_cnt``, the mark it has, and the list that an
    order keeps. An order that heeds marks keeps its list by them, another by the ``ref_cnt``.
    """

    order: Order
    blocks: dict[Key, int] = field(factory=dict)
    """The number of each resident key's block."""
    ref_cnt: dict[Key, int] = field(factory=dict)
    marked: set[Key] = field(factory=set)
    """As the caller last told: by an insert of an idle block, or a mark that was not refused."""
    made: int = 0
    """Blocks that were made so far, for an insert each."""
    last: dict[Key, int] = field(factory=dict)
    """The block that each key had last."""
    checkpoint: tuple[dict[Key, int], dict[Key, int], set[Key], Order] | None = None
    requests: int = 0
    touched: bool = False
    """Since the checkpoint."""

    @property
    def owed(self) -> set[Key]:
        """Keys whose mark is not what their ``ref_cnt`` demands."""
        return {key for key, count in self.ref_cnt.items() if (count == 0) != (key in self.marked)}

    # --- what matches ---

    def mismatch(self, call: PolicyCall) -> Mismatch | None:
        """How ``call`` fails to match, the gravest way first; ``None`` if it matches."""
        name = _FINDERS[call.name](self, call) if call.name in _FINDERS else None
        return None if name is None else MISMATCHES[name]

    def refuses(self, call: PolicyCall) -> bool:
        """Whether the right thing is to raise."""
        mismatch = self.mismatch(call)
        if mismatch is None or self.tolerance(mismatch) is not None:
            return False
        return call.name != EVICT or not self.in_use().isdisjoint(self.victims(call.n, call.keys) or ())

    def tolerance(self, mismatch: Mismatch) -> str | None:
        return mismatch.heeding if self.order.heeds_marks else mismatch.ignoring

    def careful(self, call: PolicyCall) -> bool:
        """Whether a caller may make ``call`` whose marks all match: those that are owed come before all else."""
        if self.mismatch(call) is not None or (self.owed and call.name not in (MARK, UNMARK, SET_REF_CNT)):
            return False
        return call.name != SET_REF_CNT or (self.ref_cnt[call.key], call.ref_cnt) in _STEPS_OF_REF_CNT

    def possible(self, call: PolicyCall) -> bool:
        """Whether anything is said of ``call``: not of a ref_cnt without a block, nor of an order restored when more
        than the order is not as it was."""
        if call.name == SET_REF_CNT:
            return call.key in self.blocks and call.ref_cnt != self.ref_cnt[call.key]
        if call.name in REQUEST_HOOKS:
            absent = call.name != ON_STORE_MISS or not any(key in self.blocks for key in call.keys)
            return self.order.by_request and absent
        if call.name == INSERT and call.again:
            return call.key in self.last and call.key not in self.blocks
        if call.name == RESTORE and self.checkpoint is not None:
            return not self.touched and self.checkpoint[:3] == (self.blocks, self.ref_cnt, self.marked)
        return True

    # --- what it does ---

    def perform(self, call: PolicyCall, hint: object = None) -> Evicted | None:
        """Carry out ``call`` as the built-in policies do. Raises `Refused` for what they refuse.

        ``hint`` is what another policy answered: where the order prescribes no victims, legal ones are taken from it.
        """
        if call.name == INSERT and not call.again:
            self.made += 1
        if self.refuses(call):
            mismatch = self.mismatch(call)
            raise Refused("" if mismatch is None else mismatch.sentence)
        if call.name == EVICT:
            return self._evict(call, hint)
        operation = _OPERATIONS.get(call.name)
        if operation is not None:
            operation(self, call)
        return None

    def victims(self, n: int, protected: Collection[Key]) -> list[Key] | None:
        return self.order.victims(n, protected)

    def in_use(self) -> set[Key]:
        """Keys that the order takes for idle although they are in use."""
        return {key for key, count in self.ref_cnt.items() if count != 0 and self.order.is_idle(key)}

    def may_go(self, keys: Collection[Key], protected: Collection[Key]) -> bool:
        """Whether these may be the victims where no order is declared."""
        return len(set(keys)) == len(keys) and all(self.ref_cnt.get(key) == 0 and key not in protected for key in keys)

    def state(self) -> PolicyState:
        listed = tuple(self.order.idle_keys()) if self.order.heeds_marks else None
        blocks = {key: (number, self.ref_cnt[key]) for key, number in self.blocks.items()}
        return PolicyState(blocks, listed, self.order.state() if self.order.exact else None)

    def identity(self) -> object:
        """Equal for two states that behave alike for ever, checkpoints left aside."""
        idle = tuple(self.order.idle_keys())
        return frozenset(self.ref_cnt.items()), frozenset(self.marked), idle, self.order.state()

    def _evict(self, call: PolicyCall, hint: object) -> Evicted | None:
        victims = self.victims(call.n, call.keys)
        free = isinstance(hint, Evicted) and not self.order.exact and len(hint.keys) == call.n
        if isinstance(hint, Evicted) and free and self.may_go(hint.keys, call.keys):
            victims = list(hint.keys)
        if victims is None:
            return None
        evicted = Evicted(tuple((key, self.blocks[key]) for key in victims))
        self.order.evicted(victims)
        for key in victims:
            self._forget(key)
        return evicted

    def _insert(self, call: PolicyCall) -> None:
        key = call.key
        number = self.last[key] if call.again else self.made
        self.blocks[key] = self.last[key] = number
        self.ref_cnt[key] = call.ref_cnt
        self.order.inserted(key)
        if call.ref_cnt >= 0:
            self.order.idle(key)
        if call.ref_cnt > 0:
            self.order.busy(key)
        if call.ref_cnt == 0:
            self.marked.add(key)

    def _remove(self, call: PolicyCall) -> None:
        self.order.removed(call.key)
        self._forget(call.key)

    def _forget(self, key: Key) -> None:
        del self.blocks[key], self.ref_cnt[key]
        self.marked.discard(key)

    def _touch(self, call: PolicyCall) -> None:
        self.touched = True
        self.order.touched(call.keys)

    def _store_missed(self, call: PolicyCall) -> None:
        self.touched = True
        self.order.offered(self._new_request(), call.keys, call.keys, ())

    def _request_finished(self, call: PolicyCall) -> None:
        self.touched = True
        request = self._new_request()
        self.order.loaded(request, call.keys)
        self.order.finished(request)

    def _new_request(self) -> str:
        self.requests += 1
        request = f"r{self.requests}"
        self.order.announced(request)
        return request

    def _clear(self, call: PolicyCall) -> None:
        self.order.cleared()
        self.blocks.clear()
        self.ref_cnt.clear()
        self.marked.clear()
        self.checkpoint = None

    def _mark(self, call: PolicyCall) -> None:
        if call.key in self.blocks and self.ref_cnt[call.key] == 0:
            self.marked.add(call.key)
        if self.order.heeds_marks:
            self.order.idle(call.key)

    def _unmark(self, call: PolicyCall) -> None:
        self.marked.discard(call.key)
        if self.order.heeds_marks:
            self.order.busy(call.key)

    def _set(self, call: PolicyCall) -> None:
        before, self.ref_cnt[call.key] = self.ref_cnt[call.key], call.ref_cnt
        if self.order.heeds_marks:
            return
        if before != 0:
            self.order.idle(call.key)
        if call.ref_cnt != 0:
            self.order.busy(call.key)

    def _checkpoint(self, call: PolicyCall) -> None:
        self.checkpoint = (dict(self.blocks), dict(self.ref_cnt), set(self.marked), copy.deepcopy(self.order))
        self.touched = False

    def _restore(self, call: PolicyCall) -> None:
        if self.checkpoint is not None:
            self.order = copy.deepcopy(self.checkpoint[3])


_STEPS_OF_REF_CNT = ((-1, 0), (1, 0), (0, 1), (1, 2), (2, 1))
"""Of a careful caller: a store or a last load completes, a load begins, another begins or completes."""


def _insert(model: PolicyModel, call: PolicyCall) -> str | None:
    if call.key in model.blocks:
        return "insert-resident"
    return "insert-pinned" if call.ref_cnt > 0 else None


def _remove(model: PolicyModel, call: PolicyCall) -> str | None:
    if call.key not in model.blocks:
        return "remove-absent"
    if call.key in model.marked:
        return "remove-marked"
    return "remove-pinned" if model.ref_cnt[call.key] > 0 else None


def _mark(model: PolicyModel, call: PolicyCall) -> str | None:
    if call.key not in model.blocks:
        return "mark-absent"
    if model.ref_cnt[call.key] != 0:
        return "mark-in-use"
    return "mark-marked" if call.key in model.marked else None


def _unmark(model: PolicyModel, call: PolicyCall) -> str | None:
    if call.key not in model.blocks:
        return "unmark-absent"
    return "unmark-unmarked" if call.key not in model.marked else None


def _evict(model: PolicyModel, call: PolicyCall) -> str | None:
    owed = model.owed.difference(call.keys)
    if not owed or not call.n:
        return None
    return "evict-in-use" if any(model.ref_cnt[key] != 0 for key in owed) else "evict-unmarked"


def _touch(model: PolicyModel, call: PolicyCall) -> str | None:
    return "touch-unmarked" if model.owed.intersection(call.keys) else None


def _set(model: PolicyModel, call: PolicyCall) -> str | None:
    put_to_use = call.ref_cnt != 0 and call.key in model.marked
    return "set-unmarked" if put_to_use else None


def _restore(model: PolicyModel, call: PolicyCall) -> str | None:
    return "restore-without" if model.checkpoint is None else None


_FINDERS = {
    INSERT: _insert,
    REMOVE: _remove,
    MARK: _mark,
    UNMARK: _unmark,
    EVICT: _evict,
    TOUCH: _touch,
    SET_REF_CNT: _set,
    RESTORE: _restore,
}
_OPERATIONS = {
    INSERT: PolicyModel._insert,
    REMOVE: PolicyModel._remove,
    TOUCH: PolicyModel._touch,
    ON_STORE_MISS: PolicyModel._store_missed,
    ON_REQUEST_FINISHED: PolicyModel._request_finished,
    CLEAR: PolicyModel._clear,
    MARK: PolicyModel._mark,
    UNMARK: PolicyModel._unmark,
    SET_REF_CNT: PolicyModel._set,
    CHECKPOINT: PolicyModel._checkpoint,
    RESTORE: PolicyModel._restore,
}
