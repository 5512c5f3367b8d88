"""Generated mutants that nobody could notice, as data: which, and why."""

from __future__ import annotations

EQUIVALENT: tuple[tuple[str, tuple[str, ...]], ...] = ()
"""An argument, and the places (see `evictable.specs.mutants.generated.Generated.place`) for which it holds."""


def arguments_by_place() -> dict[str, str]:
    """Place -> the argument why an edit there changes nothing."""
    return {place: argument for argument, places in EQUIVALENT for place in places}
