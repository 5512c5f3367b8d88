"""What is found, as plain data that crosses from one process to another."""

from __future__ import annotations

from typing import Any

from evictable.specs.judge import Broken


def broken_record(broken: Broken) -> dict[str, Any]:
    """A broken law as plain data."""
    return {
        "law": broken.law.id,
        "sentence": broken.law.sentence,
        "expected": broken.difference.expected,
        "observed": broken.difference.observed,
        "keys": list(broken.difference.keys),
    }
