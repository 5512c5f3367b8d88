"""What a run has reached, as numbers: abstract states of the model after each call, and branches of the subject.

Each is hashed to one of `SIZE` bits, so that what a campaign knows of a place has a fixed size and travels with a
unit. Two of them may share a bit: then the second is not noticed, which costs a trace in the corpus and no finding.
"""

from __future__ import annotations

import base64
import sys
import sysconfig
import zlib
from collections.abc import Callable, Collection, Iterable
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

from attrs import define, field

import evictable.specs
from evictable.model.calls import Answer, Call, Key, Outcome, Raised
from evictable.model.exchanges import Exchange
from evictable.model.manager import Manager
from evictable.model.snapshot import Snapshot
from evictable.model.tiers import TieredManager
from evictable.specs.callers.disciplines import Promises
from evictable.specs.faults import Faults
from evictable.specs.judge import SMALL
from evictable.specs.subjects.base import Subject

SIZE = 1 << 16
FIRST_VICTIMS = 3
"""So many of the order of eviction are told apart by what they are used for."""
SAMPLED = 8
"""The branches of one in so many subjects are looked at: tracing lines is slow."""


@define
class Bits:
    """A set of features."""

    _bits: bytearray = field(factory=lambda: bytearray(SIZE // 8))

    def __contains__(self, feature: int) -> bool:
        return bool(self._bits[feature >> 3] >> (feature & 7) & 1)

    def __len__(self) -> int:
        return int.from_bytes(self._bits, "little").bit_count()

    def add(self, features: Iterable[int]) -> None:
        for feature in features:
            self._bits[feature >> 3] |= 1 << (feature & 7)

    def merge(self, other: Bits) -> int:
        """Take in ``other``; how many of its features were new."""
        before = len(self)
        self._bits = bytearray(one | another for one, another in zip(self._bits, other._bits, strict=True))
        return len(self) - before

    def text(self) -> str:
        return base64.b64encode(zlib.compress(bytes(self._bits))).decode()

    @classmethod
    def of(cls, text: str) -> Bits:
        """Raises `ValueError` for what `text` did not make."""
        try:
            bits = zlib.decompress(base64.b64decode(text, validate=True))
        except zlib.error as error:
            raise ValueError(f"no set of features: {error}") from error
        if len(bits) != SIZE // 8:
            raise ValueError(f"a set of features has {SIZE // 8} bytes, not {len(bits)}")
        return cls(bytearray(bits))


def feature_of(what: object) -> int:
    """The bit of something with a ``repr``: the same in every process."""
    return zlib.crc32(repr(what).encode()) % SIZE


def state_feature(before: str, call: Call, outcome: Outcome, model: Manager, promises: Promises) -> int:
    """A call, the one before it, what it came to, and in what kind of state it left the cache."""
    answer = outcome.type if isinstance(outcome, Raised) else type(outcome).__name__
    return feature_of((before, call.name, call.success, call.raises_in, answer, _abstract(model, promises)))


def _abstract(model: Manager, promises: Promises) -> tuple[Any, ...]:
    """The state without names: how many blocks are used how, what is given up next, what is under way."""
    counts = [0, 0, 0, 0]
    for ref_cnt in model.ref_cnt.values():
        counts[min(ref_cnt, 2) + 1] += 1
    jobs = (_few(len(model.jobs)), _few(len(model.results))) if isinstance(model, TieredManager) else ()
    return (
        *map(_few, counts),
        _few(model.capacity - len(model.ref_cnt)),
        _few(len(promises.stores)),
        _few(len(promises.loads)),
        bool(promises.stale_stores or promises.stale_loads),
        _few(len(promises.live)),
        _order(model) if model.capacity <= SMALL else (),
        jobs,
    )


def _order(model: Manager) -> tuple[Any, ...]:
    """Of a flat order, how its first victims are used; of one with several lists, how long each is."""
    state = model.order.state()
    if not isinstance(state, tuple):
        return ()
    if any(isinstance(part, tuple) for part in state):
        return tuple(_few(len(part)) for part in state if isinstance(part, tuple))
    return tuple(min(model.ref_cnt.get(key, -2), 2) for key in state[:FIRST_VICTIMS])


def _few(number: int) -> int:
    return min(number, 3)


# --- branches ---

_OURS = tuple(str(Path(evictable.specs.__file__).parent.parent / house) for house in ("model", "specs", "ci"))
_STANDARD = sysconfig.get_path("stdlib")
_LIBRARIES = ("attr", "attrs", "hypothesis")


@define
class Branches:
    """The steps from line to line that the subject's own code takes, of some of the subjects."""

    seen: set[int] = field(factory=set)
    _made: int = 0
    _known: dict[CodeType, int | None] = field(factory=dict)

    def over(self, subject: Subject) -> Subject:
        """``subject``, its branches noted if it is its turn."""
        self._made += 1
        return _Traced(self, subject) if self._made % SAMPLED == 1 else subject

    def enter(self, frame: FrameType, event: str, argument: Any) -> Any:
        """A trace function: follows the subject's frames line by line, and no other."""
        code = frame.f_code
        if code not in self._known:
            name = f"{Path(code.co_filename).name} {code.co_qualname}"
            self._known[code] = feature_of(name) if _is_of_subject(code.co_filename) else None
        of = self._known[code]
        return None if of is None else self._follow(of)

    def _follow(self, of: int) -> Callable[[FrameType, str, Any], Any]:
        last = 0

        def step(frame: FrameType, event: str, argument: Any) -> Any:
            nonlocal last
            if event == "line":
                line = frame.f_lineno - frame.f_code.co_firstlineno
                self.seen.add(hash((of, last, line)) % SIZE)  # of integers: the same in every process
                last = line
            return step

        return step


def _is_of_subject(file: str) -> bool:
    if file.startswith((*_OURS, "<attrs", "<frozen", "<string>")):
        return False
    if "site-packages" in file:
        return Path(file.partition("site-packages")[2]).parts[1:2] not in [(name,) for name in _LIBRARIES]
    return not file.startswith(_STANDARD)


class _Traced:
    def __init__(self, branches: Branches, subject: Subject) -> None:
        self._branches, self._subject = branches, subject

    def perform(self, call: Call) -> Answer:
        before = sys.gettrace()
        sys.settrace(self._branches.enter)
        try:
            return self._subject.perform(call)
        finally:
            sys.settrace(before)

    def snapshot(self, keys: Collection[Key] | None) -> Snapshot | None:
        return self._subject.snapshot(keys)

    def exchanges(self) -> tuple[Exchange, ...]:
        return self._subject.exchanges()

    @property
    def faults(self) -> Faults:
        return self._subject.faults
