"""The shortest way from the vocabulary of calls to a live manager: keys are its own bytes, and nothing is judged."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from attrs import define, field, frozen

from evictable.model import calls
from evictable.model.calls import Call, Outcome, Stored
from evictable.specs.bench.loads import Context


@define
class Performer:
    """Makes each call on ``manager``; ``note`` hears of every answer."""

    manager: Any
    context: Context
    note: Callable[[Any], None] | None = None
    _requests: dict[str | None, Any] = field(factory=dict)
    _ways: dict[str, Callable[[Call, Any], Any]] = field(init=False)

    def __attrs_post_init__(self) -> None:
        manager = self.manager
        finish = getattr(manager, "on_request_finished", lambda request: None)
        self._ways = {
            calls.LOOKUP: lambda call, request: manager.lookup(call.keys[0], request),
            calls.TOUCH: lambda call, request: manager.touch(call.keys, request),
            calls.PREPARE_LOAD: lambda call, request: manager.prepare_load(call.keys, request),
            calls.COMPLETE_LOAD: lambda call, request: manager.complete_load(call.keys, request),
            calls.PREPARE_STORE: lambda call, request: manager.prepare_store(call.keys, request),
            calls.COMPLETE_STORE: lambda call, request: manager.complete_store(call.keys, request),
            calls.ON_NEW_REQUEST: lambda call, request: manager.on_new_request(request),
            calls.ON_REQUEST_FINISHED: lambda call, request: finish(request),
        }

    def __call__(self, call: Call) -> Outcome:
        request = self._requests.get(call.request)
        if request is None:
            request = self._requests[call.request] = self.context(str(call.request))
        answer = self._ways[call.name](call, request)
        if self.note is not None:
            self.note(answer)
        if call.name == calls.LOOKUP:
            return calls.HIT if answer is True or getattr(answer, "name", None) == calls.HIT else calls.MISS
        if call.name == calls.PREPARE_STORE and answer is not None:
            return Stored(tuple(answer.keys_to_store), (), tuple(answer.evicted_keys))
        return None


@frozen
class Echo:
    """A manager that repeats the answers of another, call by call."""

    answer: Callable[[], Any]

    def lookup(self, key: bytes, request: Any) -> Any:
        return self.answer()

    def _of_keys(self, keys: Any, request: Any) -> Any:
        return self.answer()

    touch = prepare_load = complete_load = prepare_store = complete_store = _of_keys

    def on_new_request(self, request: Any) -> Any:
        return self.answer()

    on_request_finished = on_new_request
