"""Locks whose waiting the baton sees: a thread that waited in a real one would keep the baton for ever."""

from __future__ import annotations

from typing import Any

from attrs import define

from evictable.specs.schedules.baton import Baton


@define
class Watched:
    """Stands for a lock, the real one, and holds it: whether it excludes anybody is what is tried. Used once.

    Taking it is no point of its own: the thread has done nothing yet, and could have been begun later instead.
    """

    lock: Any
    baton: Baton

    def __enter__(self) -> None:
        if not hasattr(self.lock, "acquire"):
            self.lock.__enter__()  # a null context, for example: nobody waits in it
            return
        while not self.lock.acquire(blocking=False):
            self.baton.wait_for(self.lock, "waiting for the lock")

    def __exit__(self, *error: object) -> None:
        if not hasattr(self.lock, "acquire"):
            self.lock.__exit__(*error)
            return
        self.lock.release()
        self.baton.freed(self.lock)
