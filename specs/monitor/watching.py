"""What the parts of a monitor tell each other."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

Method = Callable[..., Any]
Note = tuple[str, Any, Any, Any, Any]


class Watcher(Protocol):
    """What takes over where a call is not plainly right."""

    def hesitate(self, name: str, keys: Any, context: Any, outcome: Any, success: bool = True) -> None:
        """Judge exactly what a call of keys came to, and note it."""

    def hesitate_at_lookup(self, key: Any, context: Any, answer: Any) -> None:
        """Likewise."""

    def give_up(self, error: Exception) -> None:
        """The monitor itself failed: the manager is watched no more."""
