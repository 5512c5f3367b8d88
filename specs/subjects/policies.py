"""A cache policy by itself, behind the calls of `evictable.model.policy_calls`.

What differs between releases (``insert`` and ``touch`` with or without a request, marks or none) is read off the live
object. Its inside is read as that of a manager is, by `Lens`.
"""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Callable, Iterable
from types import SimpleNamespace
from typing import Any

from attrs import frozen

from evictable.model.calls import Key, Raised
from evictable.model.policy_calls import (
    CHECKPOINT,
    CLEAR,
    EVICT,
    INSERT,
    MARK,
    NAMES,
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
    PolicyOutcome,
    PolicyState,
)
from evictable.specs.errors import UsageError
from evictable.specs.subjects.keys import KeyTable
from evictable.specs.subjects.managers import Lens

REQUIRED = ("get", "insert", "remove", "touch", "evict", "clear")
_NOT_INSERTED = -1
"""In place of the number of a block that the policy was never given."""


@frozen
class PolicyKind:
    """A policy class that can be constructed as often as the engines need."""

    name: str
    """The subject, as on the command line."""
    make: Callable[[int], PolicySubject]
    """Takes the capacity. Raises `UsageError` if there can be no such instance."""
    profile: str
    documented: bool = False
    """What it does with calls that do not match is documented, and judged by that: `MISMATCHES`."""


class PolicySubject:
    """A live policy, and the blocks that were made for it."""

    def __init__(self, policy: Any, new_block: Callable[[int], Any], context: Any) -> None:
        """``new_block`` takes a slot; ``context`` is the request that every call is made for."""
        self._policy = policy
        self._new_block = new_block
        self._context = context
        self._table = KeyTable()
        self._made = 0
        self._numbers: dict[int, int] = {}
        self._kept: list[Any] = []  # an id means nothing once its object is gone
        self._last: dict[Key, Any] = {}
        self._token: Any = None
        under = SimpleNamespace(_policy=policy, _free_list=[], _num_allocated_blocks=0, _num_blocks=0)
        self._lens = Lens.on(under)
        self._insert_takes_request = _num_positional(policy.insert) >= 3  # from 0.33
        self._touch_takes_request = _num_positional(policy.touch) >= 2  # from 0.26
        self._perform: dict[str, Callable[[PolicyCall], PolicyOutcome]] = {
            INSERT: self._insert,
            REMOVE: lambda call: policy.remove(self._raw(call.key)),
            TOUCH: self._touch,
            EVICT: self._evict,
            CLEAR: lambda call: policy.clear(),
            ON_STORE_MISS: lambda call: policy.on_store_miss(self._table.fresh_all(call.keys), context),
            ON_REQUEST_FINISHED: self._request_finished,
            MARK: self._mark,
            UNMARK: self._mark,
            SET_REF_CNT: self._set_ref_cnt,
            CHECKPOINT: self._checkpoint,
            RESTORE: lambda call: policy.restore(self._token),
        }

    @property
    def inside(self) -> bool:
        """Whether its lists can be seen."""
        return self._lens is not None

    @property
    def offers(self) -> tuple[str, ...]:
        """The calls that it knows. Marks always: a policy without them ignores them."""
        optional = (CHECKPOINT, RESTORE, *REQUEST_HOOKS)  # the hooks from 0.31
        return tuple(name for name in NAMES if name not in optional or callable(getattr(self._policy, name, None)))

    def perform(self, call: PolicyCall) -> PolicyOutcome:
        """Make the call. What the policy raises is an outcome, too."""
        try:
            return self._perform[call.name](call)
        except Exception as error:
            return Raised(type(error).__name__, str(error))

    def look(self, keys: Iterable[Key]) -> PolicyState:
        """What ``get`` finds of ``keys``, and the lists where they can be seen."""
        found = {key: self._policy.get(self._raw(key)) for key in keys}
        blocks = {key: (self._number(block), block.ref_cnt) for key, block in found.items() if block is not None}
        if self._lens is None:
            return PolicyState(blocks)
        try:
            shown = self._lens.look(self._table, None)
        except (AttributeError, TypeError):  # its inside is another than it seemed when it was empty
            self._lens = None
            return PolicyState(blocks)
        listed = None if shown.evictable is None else tuple(shown.evictable)
        return PolicyState(blocks, listed, shown.order)

    def _raw(self, key: Key) -> bytes:
        return self._table.fresh(key)

    def _number(self, block: Any) -> int:
        return self._numbers.get(id(block), _NOT_INSERTED)

    def _insert(self, call: PolicyCall) -> None:
        if call.again:
            block = self._last[call.key]
        else:
            self._made += 1
            block = self._new_block(self._made)
            self._numbers[id(block)] = self._made
            self._kept.append(block)
        block.ref_cnt = call.ref_cnt
        request = (self._context,) if self._insert_takes_request else ()
        self._policy.insert(self._raw(call.key), block, *request)
        self._last[call.key] = block

    def _touch(self, call: PolicyCall) -> None:
        request = (self._context,) if self._touch_takes_request else ()
        self._policy.touch(self._table.fresh_all(call.keys), *request)

    def _request_finished(self, call: PolicyCall) -> None:
        keys = self._table.fresh_all(call.keys)
        self._policy.on_request_finished([keys], set(), set(keys), self._context)

    def _evict(self, call: PolicyCall) -> Evicted | None:
        answer = self._policy.evict(call.n, set(self._table.fresh_all(call.keys)))
        if answer is None:
            return None
        return Evicted(tuple((self._table.decode(raw), self._number(block)) for raw, block in answer))

    def _mark(self, call: PolicyCall) -> None:
        mark = getattr(self._policy, call.name, None)  # from 0.24
        if mark is not None:
            mark(self._raw(call.key))

    def _set_ref_cnt(self, call: PolicyCall) -> None:
        self._last[call.key].ref_cnt = call.ref_cnt

    def _checkpoint(self, call: PolicyCall) -> None:
        self._token = self._policy.checkpoint()


def load_policy(name: str, policy: str) -> PolicyKind:
    """Bring a prepared subject's policy into this process: ``lru`` or ``arc`` of a manager, or the class named.

    Raises `UsageError` if it cannot be loaded, or is no cache policy.
    """
    from evictable.specs.subjects import is_linked

    if is_linked(name):
        raise UsageError(f"{name}: it has no cache policy; leave out --level policy, or check impl")
    if name == "impl" or name.startswith("mutant:"):
        return _of_impl(name, policy)
    if name == "vllm" or name.startswith(("vllm==", "vllm:")):
        return _of_vllm(name, policy)
    if name.startswith("stdio:"):
        raise UsageError(f"{name}: a policy by itself cannot be called in another process; leave out --level policy")
    return _of_class(name)


def _of_impl(name: str, policy: str) -> PolicyKind:
    import evictable.impl

    package: Any = evictable.impl
    if name.startswith("mutant:"):
        from evictable.specs.mutants import build, registry

        package = build.build(registry.named(name.removeprefix("mutant:")))
    # By name, as the manager gets it: a mutant may host another policy under that.
    policy_class = importlib.import_module(f"{package.__name__}.policies").CACHE_POLICIES[policy]

    def make(capacity: int) -> PolicySubject:
        return PolicySubject(policy_class(cache_capacity=capacity), package.BlockStatus, package.ReqContext("r1"))

    return PolicyKind(name, make, {"lru": "lru-evictable", "arc": "arc"}[policy], documented=True)


def _of_vllm(name: str, policy: str) -> PolicyKind:
    from evictable.specs import subjects
    from evictable.specs.subjects import standins

    profile = subjects.load(name).profile(policy)  # which imports the tree, too
    modules = standins.loaded()
    policy_class = {"lru": modules.lru, "arc": modules.arc}[policy]
    constructor = {"lru": "LRUCachePolicy", "arc": "ARCCachePolicy"}[policy]
    # chunks from 0.30
    new_block = getattr(modules.policies_base, "ChunkStatus", None) or modules.policies_base.BlockStatus

    def make(capacity: int) -> PolicySubject:
        instance = getattr(policy_class, constructor)(cache_capacity=capacity)
        return PolicySubject(instance, new_block, modules.base.ReqContext(req_id="r1"))

    return PolicyKind(name, make, profile)


def _of_class(name: str) -> PolicyKind:
    from evictable.specs.subjects.factory import found_by

    return of_callable(name, found_by(name))


def of_callable(name: str, found: Callable[..., Any]) -> PolicyKind:
    """The policies that a class or function makes. Making one raises `UsageError` where it makes none."""
    from evictable.impl import BlockStatus, ReqContext

    def make(capacity: int) -> PolicySubject:
        try:
            policy = found(cache_capacity=capacity)
        except Exception as error:
            raise UsageError(
                f"{name}(cache_capacity={capacity}) raised {type(error).__name__}: {' '.join(str(error).split())}"
            ) from error
        missing = [method for method in REQUIRED if not callable(getattr(policy, method, None))]
        if missing:
            raise UsageError(
                f"{name}: has no method {', '.join(missing)}; at policy level a subject is a class with the methods "
                "of vLLM's CachePolicy, or name a manager without --level policy"
            )
        return PolicySubject(policy, BlockStatus, ReqContext("r1"))

    return PolicyKind(name, make, "any")


def _num_positional(method: Callable[..., Any]) -> int:
    """How many arguments a call by position may have; 0 if that cannot be told: no request is then handed over."""
    try:
        parameters = inspect.signature(method).parameters.values()
    except (TypeError, ValueError):
        return 0
    return sum(one.kind in (one.POSITIONAL_ONLY, one.POSITIONAL_OR_KEYWORD) for one in parameters)
