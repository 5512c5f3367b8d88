"""A subject under the judge in the place of a manager, so that a load is judged before it is timed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from attrs import define, field, frozen

from evictable.model import calls
from evictable.model.calls import Answer, Call, Key, Raised, Stored
from evictable.specs.judge import Broken, Judge
from evictable.specs.session import model_of, outcome_of
from evictable.specs.subjects.base import Setup, SubjectKind


class NotAsExpected(Exception):
    """A law was broken under the load."""


@define
class JudgedRequest:
    """Takes positions as a manager's own request does."""

    id: str
    positions: dict[bytes, int] = field(factory=dict)

    def set_offload_key_position(self, key: bytes, position: int) -> None:
        self.positions[key] = position


@frozen
class JudgedStore:
    keys_to_store: list[bytes]
    evicted_keys: list[bytes]


@define
class JudgedManager:
    """Makes each call of a load on a subject and has it judged. Raises `NotAsExpected` at the first broken law."""

    kind: SubjectKind
    setup: Setup
    profile: str
    calls: int = 0
    """Made so far."""
    _numbers: dict[bytes, int] = field(factory=dict)
    _keys: list[bytes] = field(factory=list)
    _requests: int = 0
    _subject: Any = field(init=False)
    _judge: Judge = field(init=False)

    def __attrs_post_init__(self) -> None:
        self._subject = self.kind.make(self.setup)
        self._judge = Judge(model_of(self.setup, self.profile, self.kind.admission), self._subject.snapshot)

    def request(self, identity: str) -> JudgedRequest:
        """Each is another one, whatever it is called: the model knows requests by their names."""
        self._requests += 1
        return JudgedRequest(f"{identity}-{self._requests}")

    def on_new_request(self, request: JudgedRequest) -> None:
        self._perform(Call(calls.ON_NEW_REQUEST, request=request.id))

    def on_request_finished(self, request: JudgedRequest) -> None:
        self._perform(Call(calls.ON_REQUEST_FINISHED, request=request.id))

    def lookup(self, key: bytes, request: JudgedRequest) -> Any:
        return self._perform(self._call(calls.LOOKUP, (key,), request))

    def touch(self, keys: Sequence[bytes], request: JudgedRequest) -> None:
        self._perform(self._call(calls.TOUCH, keys, request))

    def prepare_load(self, keys: Sequence[bytes], request: JudgedRequest) -> None:
        self._perform(self._call(calls.PREPARE_LOAD, keys, request))

    def complete_load(self, keys: Sequence[bytes], request: JudgedRequest) -> None:
        self._perform(self._call(calls.COMPLETE_LOAD, keys, request))

    def prepare_store(self, keys: Sequence[bytes], request: JudgedRequest) -> JudgedStore | None:
        stored = self._perform(self._call(calls.PREPARE_STORE, keys, request))
        if not isinstance(stored, Stored):
            return None
        return JudgedStore(self._bytes_of(stored.keys_to_store), self._bytes_of(stored.evicted_keys))

    def complete_store(self, keys: Sequence[bytes], request: JudgedRequest) -> None:
        self._perform(self._call(calls.COMPLETE_STORE, keys, request))

    def _bytes_of(self, keys: Sequence[Key]) -> list[bytes]:
        return [self._keys[key] for key in keys]  # type: ignore[index]  # only integers were ever named

    def _number(self, key: bytes) -> int:
        number = self._numbers.get(key)
        if number is None:
            number = self._numbers[key] = len(self._keys)
            self._keys.append(key)
        return number

    def _call(self, name: str, keys: Sequence[bytes], request: JudgedRequest) -> Call:
        positions = tuple([request.positions.get(key) for key in keys]) if request.positions else None
        return Call(name, tuple(map(self._number, keys)), request.id, positions=positions)

    def _perform(self, call: Call) -> Answer:
        outcome = outcome_of(self._subject, call)
        self.calls += 1
        broken = self._judge.observe(call, outcome)
        if broken or isinstance(outcome, Raised):
            raise NotAsExpected(_told(call, outcome, broken))
        return outcome


def _told(call: Call, outcome: Any, broken: tuple[Broken, ...]) -> str:
    what = f"breaks {broken[0].law.id}" if broken else f"raised {outcome.type}"
    return f"{call.name} of {len(call.keys)} keys {what}"
