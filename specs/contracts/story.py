"""A counterexample, played with plain numbers and told as calls and states."""

from __future__ import annotations

import ast
import sys
from collections.abc import Callable, Mapping
from types import FrameType
from typing import Any

from attrs import frozen

from evictable.specs.contracts.caches import view_of_impl, view_of_model

_SHOWN = 200
"""Characters of one value, at most."""


@frozen
class Story:
    """What happened when a harness was called for once without CrossHair."""

    failed: bool
    """It answered false, or it raised."""
    text: str


def arguments_of(function: Callable[..., bool], call: str) -> dict[str, Any] | None:
    """The arguments in ``call``, an expression such as ``name(1, b=2)``; ``None`` if they are not plain values."""
    try:
        tree = ast.parse(call, mode="eval").body
        assert isinstance(tree, ast.Call)
        names = function.__code__.co_varnames[: function.__code__.co_argcount]
        values = dict(zip(names, map(ast.literal_eval, tree.args), strict=False))
        return values | {str(named.arg): ast.literal_eval(named.value) for named in tree.keywords}
    except (SyntaxError, ValueError, AssertionError):
        return None


def play(function: Callable[..., bool], arguments: dict[str, Any]) -> Story:
    """Call ``function``, and tell each call that it makes into the model and the built-in manager.

    After a call stand the states that it changed; at the end, the variables of the harness.
    """
    code = function.__code__
    lines = [f"{function.__name__}({', '.join(f'{name}={value!r}' for name, value in arguments.items())})"]
    told: list[tuple[FrameType, int]] = []  # calls that have not come back, and their line
    states: dict[str, str] = {}
    ended: dict[str, Any] = {}

    def tell_states(variables: Mapping[str, Any]) -> None:
        for name, value in variables.items():
            state = _state(value)
            if state is not None and states.get(name) != state:
                states[name] = state
                lines.append(f"    {name}: {state}")

    def tell(frame: FrameType, event: str, value: Any) -> None:
        caller = frame.f_back
        if event == "call" and caller is not None and caller.f_code is code and _is_under_test(frame):
            tell_states(caller.f_locals)
            given = ", ".join(
                f"{name}={_shown(frame.f_locals[name])}"
                for name in frame.f_code.co_varnames[: frame.f_code.co_argcount]
                if name not in ("self", "cls")
            )
            told.append((frame, len(lines)))
            lines.append(f"  {frame.f_code.co_name}({given})")
        elif event == "return" and told and frame is told[-1][0]:
            lines[told.pop()[1]] += f" -> {_shown(value)}"
            if caller is not None:
                tell_states(caller.f_locals)
        elif event == "return" and frame.f_code is code:
            ended.update(frame.f_locals)

    before = sys.getprofile()
    sys.setprofile(tell)
    try:
        result = function(**arguments)
        outcome = f"answers {result!r}"
        failed = not result
    except Exception as error:
        outcome = f"raises {type(error).__name__}: {error}"
        failed = True
    finally:
        sys.setprofile(before)
    lines += [
        f"  {name} = {_shown(value)}"
        for name, value in ended.items()
        if name not in arguments and _state(value) is None
    ]
    return Story(failed, "\n".join([*lines, outcome]))


def _is_under_test(frame: FrameType) -> bool:
    """The real packages or a copy of them, but neither the harness's helpers nor what makes the first state."""
    parts = str(frame.f_globals.get("__name__", "")).split(".")
    return parts[1:2] in (["model"], ["impl"]) and not frame.f_code.co_name.startswith("_")


def _state(value: Any) -> str | None:
    """A cache, a policy or a table in words, of whichever copy its class is; ``None`` for anything else."""
    kind = type(value).__name__
    if kind == "Manager":
        parts = view_of_model(value)
    elif kind == "CPUOffloadingManager":
        parts = view_of_impl(value)
    elif kind in _STATE_OF:
        return ", ".join(f"{name} {_plain(getattr(value, name))}" for name in _STATE_OF[kind])
    else:
        return None
    blocks, idle, num_idle, num_pending, num_free, loads, stores = parts
    held = ", ".join(f"{key}: ref_cnt {count} in slot {slot}" for key, count, slot in blocks)
    pins = ", ".join(f"{count} of {key} by {who}" for who, key, count in loads)
    counters = f"{num_idle} evictable, {num_pending} pending, {num_free} free"
    written = ", ".join(f"{key} by {who}" for key, who in stores)
    in_flight = f"loads: {pins or 'none'}; stores: {written or 'none'}"
    return f"{held or 'no blocks'}; evictable {idle}; counters: {counters}; {in_flight}"


_STATE_OF = {
    "LRUCachePolicy": ("blocks", "evictable_blocks"),
    "ARCCachePolicy": ("t1", "t2", "b1", "b2", "target_t1_size"),
    "Admission": ("counts",),
    "AdmissionTracker": ("counts",),
}


def _plain(value: Any) -> Any:
    return dict(value) if hasattr(value, "items") else value


def _shown(value: Any) -> str:
    # Those that say more in words than in fields.
    text = str(value) if type(value).__name__ in ("Call", "Stored", "Loaded", "Difference") else repr(value)
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]} ..."
