"""`watch`: a live manager's methods replaced by ones that judge, and what happens when a law is broken."""

from __future__ import annotations

import logging
import shlex
import time
from collections import deque
from collections.abc import Callable, Collection
from contextlib import suppress
from inspect import getattr_static
from itertools import count
from pathlib import Path
from typing import Any

from attrs import define, evolve, field, frozen

from evictable.model import calls
from evictable.model import trace as traces
from evictable.model.breach import Breach
from evictable.model.laws import LAW_BY_ID
from evictable.specs.errors import UsageError
from evictable.specs.monitor.dump import state_now, trace_of_notes
from evictable.specs.monitor.inside import COUNTERS, LEVELS, READBACK, TOUCHED, Inside
from evictable.specs.monitor.shadow import Shadow
from evictable.specs.monitor.watching import Method, Note
from evictable.specs.monitor.wrappers import wrappers

LOGGER = logging.getLogger("evictable.monitor")
LAST = {COUNTERS: 32, TOUCHED: 256, READBACK: 256}
"""Calls that are kept for the trace, lookups not counted: they change nothing. What is kept costs, being kept."""
MOST_SHOWN = 20_000
"""Blocks up to which a trace ends with the whole state."""

_numbers = count(1)


@frozen
class Violation:
    """A law that a call of the live manager broke."""

    law: str
    sentence: str
    expected: str
    observed: str
    call: str
    """The name of the call that made it visible; empty if it was there when the monitor began."""
    trace: traces.Trace
    path: Path | None = None
    """Where the trace was written, if it was."""

    def __str__(self) -> str:
        where = f" in {self.call}" if self.call else ""
        return f"{self.law} broken{where}: expected {self.expected}; observed {self.observed}"


def watch(
    manager: Any,
    *,
    level: str = TOUCHED,
    last: int | None = None,
    on_violation: Callable[[Violation], None] | None = None,
    log: logging.Logger | None = LOGGER,
    prometheus: Any = None,
    dump_dir: Path | str | None = None,
    subject: str | None = None,
    ignore: Collection[str] = (),
    most: int = 1,
) -> Monitor:
    """Judge every call of ``manager`` from now on, while it runs. Callers keep to its lock, as they do without.

    ``level``: ``counters`` holds counters and sizes of answers against each other, of all calls but touches;
    ``touched`` follows every block and compares answers and the ref counts of the keys that a call touches;
    ``readback`` also their membership in the evictable set. Blocks that are there already are read first. Order, owners
    and events are not judged.

    On a broken law, and within the call that made it visible: a line to ``log``, the counter
    ``evictable_violations_total`` in ``prometheus`` (a registry of prometheus-client, or ``True`` for its default one),
    a trace of the ``last`` calls in ``dump_dir``, which `evictable shrink` takes, and ``on_violation``; what that
    raises goes through to the caller. After the ``most``-th the manager is left alone; before it the monitor reads
    the state anew, in time proportional to the blocks. Laws in ``ignore`` (their ids) are followed up by that alone.
    ``subject`` is the manager's name in the trace, by default found by its class.

    Raises `UsageError` for an unknown level or law, and if the manager's inside is not one that is known.
    """
    if level not in LEVELS:
        raise UsageError(f"unknown level {level!r}; known: {', '.join(LEVELS)}")
    unknown = [law for law in ignore if law not in LAW_BY_ID]
    if unknown:
        raise UsageError(f"unknown law {unknown[0]!r} to ignore; known: {', '.join(LAW_BY_ID)}")
    last = LAST[level] if last is None else last
    if last < 1 or most < 1:
        raise UsageError("last and most are at least 1")
    monitor = Monitor(
        manager,
        level,
        deque(maxlen=last),
        on_violation,
        log,
        None if prometheus is None or prometheus is False else _counter(prometheus),
        None if dump_dir is None else Path(dump_dir),
        subject or _name_of(manager),
        frozenset(ignore),
        most,
    )
    monitor._begin()
    return monitor


@define(eq=False, repr=False)
class Monitor:
    """Watches one manager until `close`; a context manager, too."""

    manager: Any
    level: str
    _notes: deque[Note]
    _on_violation: Callable[[Violation], None] | None
    _log: logging.Logger | None
    _counter: Any
    _dump_dir: Path | None
    _subject: str
    _ignore: frozenset[str]
    _most: int
    violations: list[Violation] = field(factory=list)
    failure: Exception | None = None
    """Why the monitor gave up by itself, if it did: a fault of its own, or another inside than it knows."""
    _inside: Inside = field(init=False)
    _shadow: Shadow = field(init=False)
    _installed: dict[str, Method] = field(factory=dict)
    _from_empty: bool = False

    def __repr__(self) -> str:
        state = "watching" if self.watching else "off"
        return f"<Monitor of {self._subject}: {state}, level {self.level}, {len(self.violations)} violations>"

    @property
    def watching(self) -> bool:
        return bool(self._installed)

    def close(self) -> None:
        """Give the manager its own methods back."""
        for name, method in self._installed.items():
            # Nor is its `__dict__` asked for here, see `_begin`; and a manager may guard its attributes.
            with suppress(AttributeError):
                if object.__getattribute__(self.manager, name) is method:  # else somebody has wrapped it since
                    object.__delattr__(self.manager, name)
        self._installed = {}

    def __enter__(self) -> Monitor:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def trace(self) -> traces.Trace:
        """The latest calls as a trace that begins with what rebuilds the state before them."""
        return self._trace(None)

    def _begin(self) -> None:
        threshold = getattr(self.manager, "store_threshold", 1)
        self._inside = Inside(self.manager)
        self._shadow = Shadow(self._inside, self.level == READBACK, max(threshold, 1))
        had = self._follow() or self._shadow.contradiction()
        made = wrappers(self.level, self._inside, self._shadow, self._note, self)
        for name in made:
            if hasattr(type(getattr_static(type(self.manager), name, None)), "__set__"):
                raise UsageError(f"{type(self.manager).__name__}: {name} cannot be replaced; make it a method")
        try:
            # One by one, and not into its `__dict__`: until somebody asks for that, CPython reads attributes faster.
            for name, method in made.items():
                object.__setattr__(self.manager, name, method)
        except AttributeError:
            raise UsageError(
                f"{type(self.manager).__name__}: its methods cannot be replaced; it has no __dict__"
            ) from None
        self._installed = made
        if had is not None:
            self._found(had, "", None)

    def _follow(self) -> Breach | None:
        """Begin from the manager's state as it is; what is wrong with its slots makes that impossible."""
        self._notes.clear()
        wrong = self._shadow.follow()
        self._from_empty = not self._shadow.slot
        return wrong

    @property
    def _note(self) -> Callable[[Note], None]:
        return self._notes.append

    # --- what the wrappers ask for ---

    def hesitate(self, name: str, keys: Any, context: Any, outcome: Any, success: bool = True) -> None:
        if not self._installed:
            return
        breach = None
        try:
            keys = tuple(keys)
            if name == calls.RESET_CACHE:
                breach = self._shadow.judge_reset() if self.level != COUNTERS else self._counted_anew()
            elif name in (calls.ON_NEW_REQUEST, calls.ON_REQUEST_FINISHED):
                breach = self._shadow.judge_idle(outcome)
                self._note((name, keys, context, None, None))
            elif self.level == COUNTERS:
                breach = self._shadow.judge_counters(name, keys, outcome, success)
                self._note((name, keys, context, outcome, success if name == calls.COMPLETE_STORE else None))
            else:
                breach, before = self._shadow.judge(name, keys, outcome, success)
                self._note((name, keys, context, outcome, (success, before)))
        except Exception as error:
            self.give_up(error)
        if breach is not None:
            self._found(breach, name, context)

    def hesitate_at_lookup(self, key: Any, context: Any, answer: Any) -> None:
        right = self._shadow.presence(key)
        told = getattr(answer, "name", None) or {True: calls.HIT, False: calls.MISS, None: calls.HIT_PENDING}.get(
            answer
        )
        if told != right and self._installed:
            self._note((calls.LOOKUP, (key,), context, answer, None))
            self._found(Breach("answer", right, str(told), (key,)), calls.LOOKUP, context)

    def give_up(self, error: Exception) -> None:
        self.failure = error
        self.close()
        if self._log is not None:
            self._log.warning("evictable: the monitor failed and is off: %s: %s", type(error).__name__, error)

    def _counted_anew(self) -> Breach | None:
        self._shadow.counts, self._shadow.storing, self._shadow.flying = (0, 0, 0), 0, 0
        return self._shadow.wrong_counters()

    # --- a broken law ---

    def _found(self, breach: Breach, call: str, context: Any) -> None:
        violation = None
        try:
            if breach.law not in self._ignore:
                violation = self._report(breach, call)
            if len(self.violations) >= self._most:
                self.close()
            elif (wrong := self._follow()) is not None:
                self.give_up(RuntimeError(f"its slots cannot be followed: {wrong.expected}; {wrong.observed}"))
        except Exception as error:
            if violation is None and self._log is not None:  # it was found all the same
                self._log.error(
                    "evictable: %s broken in %s: %s; %s", breach.law, call, breach.expected, breach.observed
                )
            self.give_up(error)
        if violation is not None and self._on_violation is not None:
            self._on_violation(violation)

    def _report(self, breach: Breach, call: str) -> Violation:
        found = Violation(
            breach.law, LAW_BY_ID[breach.law].sentence, breach.expected, breach.observed, call, self._trace(breach.law)
        )
        if self._counter is not None:
            self._counter.labels(law=found.law, level=self.level).inc()
        if self._dump_dir is not None:
            try:
                found = evolve(found, path=self._write(found))
            except OSError as error:
                if self._log is not None:
                    self._log.warning("evictable: %s: the trace cannot be written (%s)", self._dump_dir, error.strerror)
        self.violations.append(found)
        if self._log is not None:
            where = "" if found.path is None else f"; {self._advice(found.path)}"
            self._log.error("evictable: %s%s", found, where)
        return found

    def _advice(self, path: Path) -> str:
        command = shlex.join(["evictable", "shrink", str(path)])
        if not self._subject.startswith(("__main__:", "__mp_main__:")) and "<locals>" not in self._subject:
            return command
        name = self._subject.partition(":")[2]
        return (
            f"{command} --subject MODULE:FACTORY, what builds such a manager: {name} is out of reach of another process"
        )

    def _write(self, found: Violation) -> Path:
        assert self._dump_dir is not None
        self._dump_dir.mkdir(parents=True, exist_ok=True)
        path = self._dump_dir / f"{time.strftime('%Y%m%dT%H%M%S')}-{found.law}-{next(_numbers)}.jsonl"
        with path.open("w", encoding="utf-8", errors="backslashreplace") as file:
            file.writelines(f"{line}\n" for line in traces.write(found.trace))
        return path

    def _trace(self, law: str | None) -> traces.Trace:
        complete = self._from_empty and len(self._notes) < (self._notes.maxlen or 0)
        if self.level == COUNTERS or not self._notes:
            ref, slot = self._inside.state()
        else:
            ref, slot = self._shadow.blocks()
        trace = trace_of_notes(self._inside, self._subject, list(self._notes), ref, slot, law, complete=complete)
        if law is None or not trace.entries or self._inside.lens.num_resident() > MOST_SHOWN:
            return trace
        last = evolve(trace.entries[-1], state=state_now(self._inside, with_slots=self.level != COUNTERS))
        return evolve(trace, entries=(*trace.entries[:-1], last))


def _name_of(manager: Any) -> str:
    module = type(manager).__module__
    if module.startswith("vllm."):
        from importlib.metadata import PackageNotFoundError, version

        try:
            return f"vllm=={version('vllm').partition('+')[0]}"
        except PackageNotFoundError:
            return "vllm"
    return "impl" if module.startswith("evictable.impl") else f"{module}:{type(manager).__qualname__}"


_counters: dict[Any, Any] = {}


def _counter(registry: Any) -> Any:
    """The counter in that registry, one for all monitors."""
    try:
        from prometheus_client import REGISTRY, Counter
    except ImportError:
        raise UsageError("prometheus-client is not installed; pip install 'evictable[prometheus]'") from None
    registry = REGISTRY if registry is True else registry
    if registry not in _counters:
        _counters[registry] = Counter(
            "evictable_violations", "Laws that a watched manager broke", ("law", "level"), registry=registry
        )
    return _counters[registry]
