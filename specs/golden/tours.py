"""Paths through a small world that together make every call in every state of it, on the model alone.

States and calls are taken up to renaming of keys and requests, and what a caller has looked up is no part of a state:
keys are looked up where they are to be loaded and were not. The paths are greedy: whatever was not made yet here, else
the nearest state where something was not; none is claimed to be a shortest.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from typing import Any

from attrs import define, field, frozen

from evictable.model.calls import GET_STATS, LOOKUP, PREPARE_LOAD, TAKE_EVENTS, Answer, Call, Drained
from evictable.model.lifecycle import is_ready
from evictable.model.manager import Manager
from evictable.specs.callers.disciplines import Promises
from evictable.specs.exhaustive.copies import copied
from evictable.specs.exhaustive.scopes import Scope
from evictable.specs.exhaustive.states import Identifier, Identity
from evictable.specs.oracle import right_answer
from evictable.specs.session import model_of

LENGTH = 80
"""Calls after which a path is not gone on with."""

Shape = tuple[Any, ...]
"""A call up to renaming: the same for all states of a name."""


@frozen
class Made:
    """A call, what it came to, and the model after it."""

    call: Call
    answer: Answer
    model: Manager


@define
class _Place:
    """Where one stands: a state with its names."""

    scope: Scope
    model: Manager
    promises: Promises
    identifier: Identifier
    _identity: Identity | None = None

    @classmethod
    def at_the_start(cls, scope: Scope, profile: str) -> _Place:
        setup = scope.setup
        promises = Promises(events=setup.events)
        model = model_of(setup, profile, "new-keys")
        return cls(scope, model, promises, Identifier(scope.keys, scope.requests))

    @property
    def identity(self) -> Identity:
        if self._identity is None:
            self._identity = self.identifier.of(self.model, self.promises, self.scope.discipline, None, None)
        return self._identity

    @property
    def name(self) -> Any:
        return self.identity.name if self.scope.within(self.model, None) else None

    def calls(self) -> dict[Shape, Call]:
        """What may be called here. Statistics are no part of a state, so they are not asked for."""
        found: dict[Shape, Call] = {}
        for call in self.scope.calls(self.model, self.identity.classes):
            if call.name != GET_STATS and self.promises.breach(call, self.scope.discipline) is None:
                found.setdefault(self._shape(call), call)
        return found

    def make(self, call: Call) -> Answer:
        """As if everything had just been looked up."""
        answer = right_answer(self.model, call)
        if call.name == TAKE_EVENTS and isinstance(answer, Drained):
            self.model.events.delivered(answer.events, whole=True)
        else:
            self.model.perform(call, hint=answer)
        self.promises.observe(call, answer)
        self.promises.hits = {key for key, ref_cnt in self.model.ref_cnt.items() if is_ready(ref_cnt)}
        self._identity = None
        return answer

    def copy(self) -> _Place:
        return _Place(self.scope, copied(self.model), copied(self.promises), self.identifier)

    def _shape(self, call: Call) -> Shape:
        classes, places = self.identity.classes, self.identity.places
        named: dict[int, list[Any]] = {}
        keys = []
        for key in call.keys:
            of_class = named.setdefault(classes[self.scope.keys.index(key)], [])
            if key not in of_class:
                of_class.append(key)
            keys.append((classes[self.scope.keys.index(key)], of_class.index(key)))
        request = None if call.request is None else places[self.scope.requests.index(call.request)]
        return call.name, tuple(keys), request, call.success


@define
class _Path:
    """What is called from the start on, lookups that the caller owes included."""

    place: _Place
    caller: Promises = field(init=False)
    made: list[Made] = field(factory=list)

    def __attrs_post_init__(self) -> None:
        self.caller = copied(self.place.promises)

    def go(self, call: Call) -> None:
        if call.name == PREPARE_LOAD:
            for key in call.keys:
                if key not in self.caller.hits:
                    self._make(Call(LOOKUP, (key,), call.request))
        self._make(call)

    def _make(self, call: Call) -> None:
        answer = self.place.make(call)
        self.caller.observe(call, answer)
        self.made.append(Made(call, answer, copied(self.place.model)))


@define
class Tours:
    """All paths through one scope under one profile."""

    scope: Scope
    profile: str
    graph: dict[Any, dict[Shape, Any]] = field(factory=dict)
    """By state and call the state that it leads to; ``None`` for one that is outside."""

    def __attrs_post_init__(self) -> None:
        self._explore()

    @property
    def num_transitions(self) -> int:
        return sum(map(len, self.graph.values()))

    def paths(self) -> Iterator[list[Made]]:
        """Every transition is on at least one of them. Each begins with a fresh manager."""
        left = {name: dict.fromkeys(shapes) for name, shapes in self.graph.items()}
        while any(left.values()):
            yield self._path(left)

    def _explore(self) -> None:
        start = self._start()[0]
        queue = deque([start])
        self.graph[start.name] = {}
        while queue:
            place = queue.popleft()
            edges = self.graph[place.name]
            for shape, call in place.calls().items():
                then = place.copy()
                then.make(call)
                edges[shape] = name = then.name
                if name is not None and name not in self.graph:
                    self.graph[name] = {}
                    queue.append(then)

    def _start(self) -> tuple[_Place, _Path]:
        place = _Place.at_the_start(self.scope, self.profile)
        path = _Path(place)
        for call in self.scope.prelude:
            path.go(call)
        return place, path

    def _path(self, left: dict[Any, dict[Shape, None]]) -> list[Made]:
        place, path = self._start()
        while len(path.made) < LENGTH and place.name is not None and (way := self._next(place.name, left)):
            for shape in way:
                left[place.name].pop(shape, None)
                path.go(place.calls()[shape])
        return path.made

    def _next(self, name: Any, left: dict[Any, dict[Shape, None]]) -> list[Shape]:
        """The shortest way from a state to a call that was not made, that call included; empty if there is none."""
        came: dict[Any, tuple[Any, Shape] | None] = {name: None}
        queue = deque([name])
        while queue:
            here = queue.popleft()
            if left[here]:
                way = [self._best(here, left)]
                while (before := came[here]) is not None:
                    here, shape = before
                    way.append(shape)
                return way[::-1]
            for shape, then in self.graph[here].items():
                if then is not None and then not in came:
                    came[then] = here, shape
                    queue.append(then)
        return []

    def _best(self, name: Any, left: dict[Any, dict[Shape, None]]) -> Shape:
        """What changes nothing first, then what leads to where most is left; last what leads outside."""
        edges = self.graph[name]

        def worth(shape: Shape) -> tuple[bool, int]:
            then = edges[shape]
            return then == name, -1 if then is None else len(left[then])

        return max(left[name], key=worth)
