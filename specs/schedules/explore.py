"""Every schedule of some threads, those with the fewest preemptions first.

Depth-first over the decisions of the runs themselves (no state is kept): each run shows where it could have gone
another way, and each such place makes one more schedule. A preemption is a switch away from a thread that could run
on; bounding them is what CHESS does (Musuvathi and Qadeer, 2007), because few suffice for most races.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator

from attrs import define, field

from evictable.specs.schedules.baton import Baton, Schedule


@define
class Exploration:
    """All schedules with at most ``preemptions`` of them (``None``: all), each run once.

    ``play`` makes a fresh world, and runs its threads under the baton that it is given.
    """

    play: Callable[[Baton], None]
    grain: str
    preemptions: int | None = None
    schedules: int = 0
    points: int = 0
    """Decisions of the longest run."""
    _waiting: dict[int, deque[Schedule]] = field(factory=lambda: {0: deque([()])})

    @property
    def complete(self) -> bool:
        """Whether no schedule within the bound is left."""
        return not any(self._waiting.values())

    def runs(self) -> Iterator[tuple[Baton, int]]:
        """The runs, each with the number of its preemptions. Raises what `Baton.run` raises."""
        while not self.complete:
            used = min(number for number, waiting in self._waiting.items() if waiting)
            schedule = self._waiting[used].popleft()
            baton = Baton(schedule, self.grain)
            self.play(baton)
            self.schedules += 1
            self.points = max(self.points, len(baton.decisions))
            self._branch(schedule, baton, used)
            yield baton, used

    def _branch(self, schedule: Schedule, baton: Baton, used: int) -> None:
        """What differs from this run at one decision after those that were prescribed."""
        first = schedule[-1][0] + 1 if schedule else 0
        for number in range(first, len(baton.decisions)):
            decision = baton.decisions[number]
            cost = used + decision.preempts
            if self.preemptions is None or cost <= self.preemptions:
                waiting = self._waiting.setdefault(cost, deque())
                waiting.extend((*schedule, (number, other)) for other in decision.others)
