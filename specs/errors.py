"""What goes wrong outside the subject under test: bad input, a subject that cannot be loaded, laws with a hole."""

from __future__ import annotations

from typing import Any


class UsageError(Exception):
    """The command cannot do what was asked; the message is one line and names the remedy (exit code 2)."""


class LawlessDifference(Exception):
    """Subject and model differ and every law holds: a hole in the laws, so that there is no verdict (exit code 3)."""

    where: str = ""
    """Which call or line it was, where somebody counts them."""
    setup: Any = None
    made: tuple[Any, ...] = ()
    """The calls so far, and the `Setup` of the subject, where somebody keeps them."""

    @property
    def line(self) -> str:
        """For a person, in one line."""
        what = " ".join(str(self).split())
        return f"{self.where}{': ' if self.where else ''}no law says what is wrong, report this to evictable: {what}"
