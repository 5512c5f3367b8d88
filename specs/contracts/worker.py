"""Examines contracts in a process of its own: CrossHair patches what it runs in, and z3 can crash or hang.

Reads one JSON object a line: ``contract`` (a name), ``edits`` (each ``[module, old, new]``), ``copy`` (the name of
the copy that they make) and ``seconds``. Writes one for each: ``verdict``, ``seconds``, ``detail``.
Run as ``python -m evictable.specs.contracts.worker``.
"""

from __future__ import annotations

import importlib
import json
import sys
import time
import traceback
from collections.abc import Mapping
from typing import Any

from evictable.specs.contracts import crosshair
from evictable.specs.contracts.copies import Edit, copy_of
from evictable.specs.contracts.registry import named
from evictable.specs.contracts.story import arguments_of, play
from evictable.specs.theorems import CONFIRMED, INCONCLUSIVE, REFUTED


def examine(job: Mapping[str, Any]) -> dict[str, Any]:
    """The verdict on one contract. Only an exact confirmation confirms; only a failure that can be played refutes."""
    start = time.perf_counter()
    contract = named(job["contract"])
    edits = [Edit(*edit) for edit in job["edits"]]
    module = f"specs.contracts.harnesses.{contract.module}"
    found = copy_of(module, job["copy"], edits) if edits else importlib.import_module(f"evictable.{module}")
    function = getattr(found, contract.function)
    said = crosshair.examine(function, job["seconds"])
    verdict, detail = INCONCLUSIVE, f"{said.state or 'no condition was found'} after {said.paths} paths: {said.message}"
    if said.state == crosshair.CONFIRMED:
        verdict, detail = CONFIRMED, f"{said.paths} paths"
    elif said.call is not None:
        arguments = arguments_of(function, said.call)
        if arguments is not None:
            story = play(function, arguments)
            if story.failed:
                verdict, detail = REFUTED, story.text
            else:
                detail += "; it does not fail when it is played"
    return {"verdict": verdict, "seconds": time.perf_counter() - start, "detail": detail}


def main() -> None:
    out = sys.stdout
    sys.stdout = sys.stderr  # whatever else is printed must not mix with the answers
    for line in sys.stdin:
        try:
            answer = examine(json.loads(line))
        except Exception:
            answer = {"verdict": INCONCLUSIVE, "seconds": 0.0, "detail": traceback.format_exc()}
        out.write(json.dumps(answer) + "\n")
        out.flush()


if __name__ == "__main__":
    main()
