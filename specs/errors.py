"""What goes wrong outside the subject under test: bad input, a subject that cannot be loaded."""

from __future__ import annotations


class UsageError(Exception):
    """The command cannot do what was asked; the message is one line and names the remedy (exit code 2)."""
