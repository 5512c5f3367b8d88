"""Whether a request that asks again and again is ever served.

A manager that answers "ask again" for ever does nothing wrong at any single step. But it is deterministic: if a
request asks for the same keys, nothing else happens in between, and at the end of a step everything is as it was at
the end of an earlier one, then the request is never served. That is judged, and nothing less.
"""

from __future__ import annotations

from collections.abc import Hashable, Set

from attrs import define, field

from evictable.model import calls
from evictable.model.calls import Call, Key


@define
class Patience:
    """Follows one request that is alone with the cache, step by step."""

    exercised: set[str] = field(factory=set)
    _asked: list[tuple[str | None, Key, str]] = field(factory=list)
    """The lookups of this step and their answers."""
    _quiet: bool = True
    """Nothing but lookups of one request in this step."""
    _seen: dict[Hashable, int] = field(factory=dict)
    """What the ends of the quiet steps so far looked like, and when."""
    _step: int = 0
    _of: tuple[str | None, frozenset[Key]] | None = None

    def looked_up(self, request: str | None, key: Key, answer: str) -> None:
        """A lookup of this step."""
        self._asked.append((request, key, answer))

    def served(self, request: str | None) -> bool:
        """The request loads something; whether it is the one that was followed while it waited."""
        self._quiet = False
        return self._of is not None and self._of[0] == request

    def disturbed(self) -> None:
        """Something else happened in this step."""
        self._quiet = False

    def disturbed_by(self, call: Call) -> None:
        """As `disturbed`, if ``call`` can make a difference to who is served."""
        if call.name not in (calls.TAKE_EVENTS, calls.GET_STATS):
            self._quiet = False

    def step_ends(
        self, within_reach: Set[Key], capacity: int, state: Hashable
    ) -> tuple[str | None, tuple[Key, ...], int] | None:
        """The request that goes round in circles, its keys, and how many steps a round takes; or ``None``.

        ``within_reach`` are the keys that are in some tier; ``state`` is all that decides what happens next.
        """
        asked, quiet = self._asked, self._quiet
        self._asked, self._quiet = [], True
        self.exercised = set()
        self._step += 1
        requests = {request for request, _, _ in asked}
        keys = tuple(dict.fromkeys(key for _, key, _ in asked))
        waits = any(answer != calls.HIT for _, _, answer in asked)
        fits = len(keys) <= capacity and set(keys) <= within_reach
        if not quiet or len(requests) != 1 or not waits or not fits:
            self._seen.clear()
            self._of = None
            if quiet and asked and not waits:
                self.exercised.add("tier-progress")
            return None
        (request,) = requests
        if self._of != (request, frozenset(keys)):
            self._seen.clear()
            self._of = (request, frozenset(keys))
        round_ = self._seen.get((tuple(asked), state))
        if round_ is not None:
            return request, keys, self._step - round_
        self._seen[tuple(asked), state] = self._step
        return None
