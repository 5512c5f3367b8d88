"""One contract through CrossHair's Python API. Its command line does not tell confirmed from not confirmed.

CrossHair also checks the contracts of whatever a function calls. That is switched off here: nothing that the
harnesses call has a contract (a test sees to it), looking for them takes three quarters of the time, and it is where
a path that fails can be dropped. With and without, the same paths are walked (a slow test compares them).
"""

from __future__ import annotations

import re
import time
from collections import Counter
from collections.abc import Callable
from contextlib import ExitStack
from typing import Any
from unittest.mock import patch

from attrs import frozen
from crosshair import core
from crosshair.core_and_libs import MessageType, analyze_function, run_checkables
from crosshair.enforce import EnforcedConditions
from crosshair.options import AnalysisKind, AnalysisOptionSet

CONFIRMED = MessageType.CONFIRMED.name
COUNTEREXAMPLES = (MessageType.POST_FAIL.name, MessageType.EXEC_ERR.name)
_CALLING = re.compile(r"when calling (?P<call>\w+\(.*?\))(?: \(which .*\))?$", re.DOTALL)


@frozen
class Examination:
    """What CrossHair says of one contract."""

    state: str
    """The name of a ``MessageType``; several, with commas, where it is not of one mind; ``""`` for nothing said."""
    message: str
    paths: int
    seconds: float
    call: str | None = None
    """The call that fails, as an expression."""


class _NoContractsInside(EnforcedConditions):  # type: ignore[no-untyped-call]
    """Looks for no contract in what a function calls."""

    def cached_wants_codeobj(self, codeobj: Any) -> bool:
        return False


def examine(function: Callable[..., bool], seconds: float, *, inside: bool = False) -> Examination:
    """CrossHair's verdict on ``function``, within so many seconds of processor time.

    ``inside`` leaves the contracts of called functions in force. A crash of CrossHair counts as a state of its own.
    """
    counts: Counter[str] = Counter()
    options = AnalysisOptionSet(
        analysis_kind=(AnalysisKind.PEP316,),
        per_condition_timeout=seconds,
        per_path_timeout=seconds,  # by default a path gets much less, and a slow one makes the verdict uncertain
        report_all=True,
        stats=counts,
    )
    start = time.perf_counter()
    try:
        with ExitStack() as stack:
            if not inside:
                stack.enter_context(patch.object(core, "EnforcedConditions", _NoContractsInside))
            messages = run_checkables(analyze_function(function, options))
    except Exception as error:
        return Examination(f"CRASH {type(error).__name__}", str(error), 0, time.perf_counter() - start)
    taken = time.perf_counter() - start
    state = ",".join(sorted({message.state.name for message in messages}))
    text = "; ".join(message.message for message in messages)
    calling = _CALLING.search(text) if state in COUNTEREXAMPLES else None
    return Examination(state, text, counts["num_paths"], taken, None if calling is None else calling["call"])
