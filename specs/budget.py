"""How long to search: by the clock, by calls, or both."""

from __future__ import annotations

import time

from attrs import define, field


@define
class Budget:
    """Runs out at the first of its bounds. A budget of calls alone makes a run repeatable."""

    max_calls: int | None = None
    max_seconds: float | None = None
    calls: int = 0
    _started: float = field(factory=time.monotonic)

    @property
    def seconds(self) -> float:
        return time.monotonic() - self._started

    @property
    def spent(self) -> bool:
        return (self.max_calls is not None and self.calls >= self.max_calls) or (
            self.max_seconds is not None and self.seconds >= self.max_seconds
        )
