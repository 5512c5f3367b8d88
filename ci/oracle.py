"""`evictable oracle`: calls on standard input, what is right on standard output."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable
from typing import IO

from evictable.model.trace import Head, TraceError
from evictable.specs.errors import UsageError
from evictable.specs.oracle import Stream


def run_oracle(head: Head | None, profile: str) -> int:
    """Answer every line as soon as it is there; 1 if a recorded answer broke a law, 3 if no law says how.

    Raises `UsageError` at the first line that cannot be read, after an answer that says so.
    """
    return answer_lines(Stream(head, profile), sys.stdin.buffer, sys.stdout)


def answer_lines(stream: Stream, lines: Iterable[bytes], out: IO[str]) -> int:
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            answer = stream.answer(number, line)
        except TraceError as error:
            _say(out, {"error": str(error)})
            raise UsageError(f"oracle: {error}") from error
        _say(out, answer)
    return 1 if stream.num_broken else 3 if stream.num_unexplained else 0


def _say(out: IO[str], answer: object) -> None:
    out.write(json.dumps(answer) + "\n")
    out.flush()
