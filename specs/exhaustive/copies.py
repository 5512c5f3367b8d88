"""Copies of a state, fast: a state is entered once for each call that leaves it.

Of the model's part, what cannot change is shared, and nothing is referred to from two places, so that no record is
kept of what was copied before. Of a subject nothing is known: it is pickled, as far as it can be.
"""

from __future__ import annotations

import io
import pickle
import sys
import threading
from collections import Counter, OrderedDict, deque
from collections.abc import Callable
from functools import cache
from typing import Any, TypeVar

import attrs

from evictable.specs.watch import Watch

_T = TypeVar("_T")


def copied(thing: _T) -> _T:
    """A copy that shares nothing with ``thing`` that could change: of builtin containers and `attrs` classes.

    Raises `TypeError` for anything else: a copy that shares what changes would spoil the search.
    """
    copy: _T = _copier(type(thing))(thing)
    return copy


def _same(thing: Any) -> Any:
    return thing


def _of_list(things: Any) -> Any:
    return type(things)([copied(one) for one in things])


def _of_map(things: Any) -> Any:
    copy = things.copy()
    if not _PLAIN.issuperset(map(type, things.values())):
        for key, value in things.items():
            copy[key] = copied(value)
    return copy


def _of_counter(things: Any) -> Any:
    new: Counter[Any] = Counter.__new__(Counter)
    dict.update(new, things)  # its own constructor, and so its copy, counts one by one
    return new


def _of_attrs(kind: type) -> Callable[[Any], Any]:
    """Every field is set by its own line: a loop over names costs more than what it copies."""
    lines = ["def copy(thing):", " new = make(kind)"]
    for attribute in attrs.fields(kind):
        lines += [
            f" value = thing.{attribute.name}",
            " of = type(value)",
            f" new.{attribute.name} = value if of in plain else (copiers.get(of) or copier(of))(value)",
        ]
    names: dict[str, Any] = {
        "make": object.__new__,
        "kind": kind,
        "plain": _PLAIN,
        "copiers": _COPIERS,
        "copier": _copier,
    }
    exec("\n".join([*lines, " return new"]), names)
    copy: Callable[[Any], Any] = names["copy"]
    return copy


_PLAIN: frozenset[type] = frozenset({int, float, str, bool, bytes, type(None), tuple, frozenset})
"""What cannot change. A tuple holds nothing else, anywhere in a state."""
_COPIERS: dict[type, Callable[[Any], Any]] = {
    **dict.fromkeys(_PLAIN, _same),
    set: set.copy,
    Counter: _of_counter,
    list: _of_list,
    deque: _of_list,
    dict: _of_map,
    OrderedDict: _of_map,
}


def _copier(kind: type) -> Callable[[Any], Any]:
    known = _COPIERS.get(kind)
    if known is None:
        if not attrs.has(kind):
            raise TypeError(f"a state holds a {kind.__name__}, of which it is not known how to copy it")
        # Only what is frozen has a hash.
        known = _COPIERS[kind] = _same if kind.__hash__ is not None else _of_attrs(kind)
    return known


class Press:
    """Makes copies of the states of one subject. They share memory, the watch over their calls, locks, and classes
    that nobody can import.

    No byte of the memory is moved here, and no lock is held between calls, so that neither belongs to the state.
    """

    def __init__(self) -> None:
        self._shared: list[Any] = []

    def press(self, subject: Any) -> bytes | None:
        """A copy, to be brought to life by `copy`; ``None`` if there can be none, of threads and locks for example."""
        file = io.BytesIO()
        try:
            _Pickler(file, self._shared).dump(subject)
            self.copy(file.getvalue())
        except Exception:  # a subject may raise whatever it likes
            return None
        return file.getvalue()

    def copy(self, pressed: bytes) -> Any:
        """The subject as it was when it was pressed."""
        if not self._shared:
            return pickle.loads(pressed)
        unpickler = pickle.Unpickler(io.BytesIO(pressed))
        unpickler.persistent_load = self._shared.__getitem__  # type: ignore[method-assign]
        return unpickler.load()


_LOCKS = (type(threading.Lock()), type(threading.RLock()))


class _Pickler(pickle.Pickler):
    def __init__(self, file: Any, shared: list[Any]) -> None:
        super().__init__(file, pickle.HIGHEST_PROTOCOL)
        self._shared = shared

    def persistent_id(self, thing: Any) -> int | None:
        if not (
            isinstance(thing, (memoryview, Watch, *_LOCKS)) or (isinstance(thing, type) and not _importable(thing))
        ):
            return None
        for place, known in enumerate(self._shared):
            if known is thing:
                return place
        self._shared.append(thing)
        return len(self._shared) - 1


@cache
def _importable(kind: type) -> bool:
    found: Any = sys.modules.get(kind.__module__)
    for part in kind.__qualname__.split("."):
        found = getattr(found, part, None)
    return found is kind
