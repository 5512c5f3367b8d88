"""What a round of a trial answers with."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from attrs import field, frozen


@frozen
class Measured:
    """Numbers by name, in seconds unless the trial says otherwise."""

    numbers: Mapping[str, float]
    digest: str | None = None
    """Of the answers."""
    words: Mapping[str, str] = field(factory=dict)
    held: Any = None
    """What must live until the numbers were taken."""
