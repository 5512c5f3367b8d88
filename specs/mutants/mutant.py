"""What a mutant is."""

from __future__ import annotations

from attrs import frozen

from evictable.specs.callers.disciplines import CONTRACT

LAZY_HEAP = "policies.lazy_heap"
"""`evictable.specs.mutants.lazy_heap`, hosted by a copy of `evictable.impl` in place of its LRU."""


@frozen
class Mutant:
    """A known defect: one edit of one module of `evictable.impl`."""

    name: str
    sentence: str
    """What is wrong, in words."""
    module: str
    """Within `evictable.impl`: ``manager``, ``policies.lru``."""
    old: str
    """Occurs exactly once in that module's source."""
    new: str
    laws: tuple[str, ...]
    """What it breaks: any search reports the first of them, a long one the others too."""
    discipline: str = CONTRACT
    """The most careful caller that notices."""
    kind: str = "other"
    """What kind of bug it is an example of, see `evictable.specs.mutants.kinds`."""
    policy: str = "lru"
    tiers: int = 0
    """The fewest tiers below the manager with which anybody notices."""

    needs_threads: bool = False
    """Only two threads notice: `evictable schedules`."""

    @property
    def is_linked(self) -> bool:
        """Whether it is one of the manager on flat lists."""
        return self.module.startswith("linked.")

    @property
    def options(self) -> str:
        """How to tell `evictable check` to search where it is noticed; or which other command to give."""
        if self.needs_threads:
            return "evictable schedules"
        tiers = f" --tiers {self.tiers}" if self.tiers else ""
        return f"--policy {self.policy} --discipline {self.discipline}{tiers}"
