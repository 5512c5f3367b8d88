"""What the manager raises instead of acting on a call that it cannot carry out.

vLLM 0.24 guards the same places with `assert`, which `python -O` removes and which can fire when half of a
batch has been applied. Every error here is raised with the manager's state as it was before the call.
"""

from __future__ import annotations

from evictable.impl.base import OffloadKey


class OffloadError(Exception):
    """A call was refused and changed nothing.

    `call` is the name of the manager's method, `key` the first key that stands in the way (None where no
    single key does) and `request` the id of the request that called.
    """

    problem: str
    remedy: str

    def __init__(self, call: str, key: OffloadKey | None, request: str) -> None:
        super().__init__(call, key, request)
        self.call = call
        self.key = key
        self.request = request

    def __str__(self) -> str:
        subject = "" if self.key is None else f"key {self.key!r} "
        return f"{self.call} for request {self.request!r}: {subject}{self.problem}; {self.remedy}"


class KeyNotResident(OffloadError):
    """The key is not in the cache: never stored, evicted, given up after a failed store, or reset."""

    problem = "is not in the cache"
    remedy = "name only keys that lookup answers with HIT, or whose transfer this request has under way"


class NotReady(OffloadError):
    """The key's store is still in flight, so there is nothing to read yet."""

    problem = "is still being stored"
    remedy = "load it after complete_store; until then lookup answers HIT_PENDING"


class NotPinned(OffloadError):
    """A load completion names the key more often than the request has loads of it in flight."""

    problem = "has fewer loads in flight than this call completes"
    remedy = "name a key once for each time that prepare_load pinned it"


class StaleCompletion(OffloadError):
    """The request has no such transfer of the key in flight: completed before, or prepared by another request."""

    problem = "has no such transfer in flight for this request"
    remedy = "complete what the same request prepared, once, and drop reports of transfers older than a reset"


class PolicyError(OffloadError):
    """A cache policy broke its contract; the manager took the policy's answer back."""

    remedy = "mend the policy: evict(n, protected) answers exactly n idle blocks outside `protected`, or None"

    def __init__(self, call: str, key: OffloadKey | None, request: str, problem: str) -> None:
        super().__init__(call, key, request)
        self.args = (call, key, request, problem)
        self.problem = problem


class PolicyMisuse(Exception):
    """A call of a cache policy's method was refused and changed nothing: what it says of the key is not so.

    `method` is the policy's method and `key` the key that it named, or met. The caller is at fault, which is
    whoever owns the `ref_cnt`; when the policy is, the manager raises `PolicyError`.
    """

    def __init__(self, method: str, key: OffloadKey, problem: str, remedy: str) -> None:
        super().__init__(method, key, problem, remedy)
        self.method = method
        self.key = key
        self.problem = problem
        self.remedy = remedy

    def __str__(self) -> str:
        return f"{self.method}: key {self.key!r} {self.problem}; {self.remedy}"


class MismatchedMark(PolicyMisuse):
    """A mark that does not fit: of a key that is absent, in use, or marked so already."""
