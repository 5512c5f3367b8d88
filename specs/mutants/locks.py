"""Mutants that only threads notice: `evictable schedules mutant:NAME` finds them, `evictable check` cannot."""

from __future__ import annotations

from evictable.specs.mutants.mutant import Mutant

MUTANTS_OF_LOCKS: tuple[Mutant, ...] = (
    Mutant(
        name="a-lock-each",
        sentence="everybody who asks for the lock gets another one",
        module="pool",
        old="return self._lock",
        new="return threading.Lock()",
        laws=(),
        needs_threads=True,
    ),
    Mutant(
        name="lock-that-lets-in",
        sentence="the lock lets two threads in at a time",
        module="pool",
        old="self._lock = threading.Lock()",
        new="self._lock = threading.BoundedSemaphore(2)",
        laws=(),
        needs_threads=True,
    ),
)
