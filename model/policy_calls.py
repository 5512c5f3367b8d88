"""The vocabulary at policy level: what the owner of the blocks can do to a cache policy.

A policy is handed blocks; their ``ref_cnt`` is its caller's. So a run is a sequence of the policy's own methods and of
changes of a ``ref_cnt`` in between, which nobody tells the policy but by a mark.
"""

from __future__ import annotations

from attrs import frozen

from evictable.model.calls import Key, Raised

INSERT = "insert"
REMOVE = "remove"
TOUCH = "touch"
EVICT = "evict"
CLEAR = "clear"
MARK = "mark_evictable"
UNMARK = "mark_non_evictable"
SET_REF_CNT = "set_ref_cnt"
CHECKPOINT = "checkpoint"
RESTORE = "restore"
"""The order goes back to what it was at the latest checkpoint."""

ON_STORE_MISS = "on_store_miss"
ON_REQUEST_FINISHED = "on_request_finished"
"""Of policies whose order depends on requests: an offer of absent keys, and a request that has reused all the keys."""

REQUEST_HOOKS = (ON_STORE_MISS, ON_REQUEST_FINISHED)
NAMES = (INSERT, REMOVE, TOUCH, EVICT, CLEAR, MARK, UNMARK, SET_REF_CNT, CHECKPOINT, RESTORE, *REQUEST_HOOKS)
OF_ONE_KEY = frozenset({INSERT, REMOVE, MARK, UNMARK, SET_REF_CNT})
OF_KEYS = frozenset({TOUCH, *REQUEST_HOOKS})
WITH_REF_CNT = frozenset({INSERT, SET_REF_CNT})


@frozen
class PolicyCall:
    """A call of a policy's method, or with `SET_REF_CNT` a change of a resident block behind its back.

    ``get`` is not among them: after every call all keys are looked up.
    """

    name: str
    keys: tuple[Key, ...] = ()
    """Touched, protected from an eviction, or the one key of the call."""
    n: int = 0
    """Of an eviction: how many blocks."""
    ref_cnt: int = 0
    """Of the block that is inserted, or that a block's is set to."""
    again: bool = False
    """Insert the very block that the key had last, as one does who takes an eviction back; else a new one."""

    @property
    def key(self) -> Key:
        return self.keys[0]

    def __str__(self) -> str:
        if self.name == EVICT:
            return f"evict({self.n}, protected={list(self.keys)})"
        if self.name == SET_REF_CNT:
            return f"ref_cnt of {self.key} = {self.ref_cnt}"
        if self.name == INSERT:
            return f"insert({self.key}, ref_cnt={self.ref_cnt}{', the same block' if self.again else ''})"
        if self.name in OF_ONE_KEY:
            return f"{self.name}({self.key})"
        return f"{self.name}({list(self.keys)})" if self.name in OF_KEYS else f"{self.name}()"


@frozen
class Evicted:
    """Keys given up, each with the number of its block: the first block inserted is 1."""

    blocks: tuple[tuple[Key, int], ...]

    @property
    def keys(self) -> tuple[Key, ...]:
        return tuple(key for key, _ in self.blocks)

    def __str__(self) -> str:
        return f"gives up {list(self.keys)}"


PolicyOutcome = Evicted | Raised | None


@frozen
class PolicyState:
    """What can be seen of a policy between two calls."""

    blocks: dict[Key, tuple[int, int]]
    """What ``get`` finds: number and ``ref_cnt`` of each key's block."""
    listed: tuple[Key, ...] | None = None
    """The list of evictable keys, in order; ``None`` where there is none to be seen."""
    order: object = None
    """Everything that decides who goes next; ``None`` where it cannot be seen."""
