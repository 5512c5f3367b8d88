"""Exhaustive lockstep: every reachable state of a small world, every call, on model and subject."""

from evictable.specs.exhaustive.locksteps import prove, theorems

__all__ = ["prove", "theorems"]
