"""Faults: what a manager calls raises, before it acts, at its k-th use during one call.

Struck is what the manager calls from outside: methods of its policy, its event queue, its slot allocator. A fault
strikes once a call, so that what the manager then calls to take its steps back is spared. Nothing of the manager's
own text is changed: for the length of a call its collaborators are exchanged for others that pass everything on.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

from attrs import define, field

from evictable.model.calls import EVENTS_APPEND, MANAGER_FAULTS, SLOTS_ALLOCATE, SLOTS_FREE, SLOTS_RECORD, Call

# What a manager calls them, newest name first (0.30 renamed blocks).
_ALLOCATE = ("_allocate_chunks", "_allocate_blocks")
_FREE = ("_free_chunk", "_free_block", "_free_blocks")
_RECORDS = ("ChunkStatus", "BlockStatus")

_POLICY = "policy."


class InjectedFault(RuntimeError):
    """Raised in a collaborator's place. Where memory is asked for it is `MemoryError` instead."""


@define
class Faults:
    """Makes the collaborators of one live manager raise.

    ``hosts`` are the objects that have them: a manager, or a primary tier and the manager above it. A manager that
    keeps its policy and its events elsewhere than vLLM's (``_policy``, ``events``) has nothing to strike.
    """

    hosts: tuple[Any, ...]
    uses: Counter[str] = field(factory=Counter)
    """How often the latest armed call used each place, up to the fault."""
    struck: bool = False
    """Whether the fault of the latest armed call struck: the place was used often enough."""
    _call: Call | None = None
    _inside: bool = False

    @property
    def places(self) -> tuple[str, ...]:
        """The places that can be struck, of `evictable.model.calls.MANAGER_FAULTS`."""
        return tuple(place for place in MANAGER_FAULTS if any(_has(host, place) for host in self.hosts))

    @property
    def restores_order(self) -> bool:
        """Whether the policy can be put back to where it was: without, a failed call may have moved its own keys."""
        policies = [host._policy for host in self.hosts if hasattr(host, "_policy")]
        return all(hasattr(one, "checkpoint") and hasattr(one, "restore") for one in policies)

    @contextmanager
    def armed(self, call: Call) -> Iterator[None]:
        """Let ``call.raises_in`` raise at its ``call.at``-th use, from 1, while the context lasts."""
        self._call, self.struck = call, False
        self.uses.clear()
        with ExitStack() as stack:
            for host in self.hosts:
                for exchange in (self._policy, self._events, self._slots):
                    stack.enter_context(exchange(host))
            yield

    def _use(self, place: str) -> None:
        if self.struck:
            return  # what is called now takes steps back
        self.uses[place] += 1
        call = self._call
        if call is not None and place == call.raises_in and self.uses[place] == call.at:
            self.struck = True
            kind = MemoryError if place in (SLOTS_ALLOCATE, SLOTS_RECORD) else InjectedFault
            raise kind(f"{place} raises at use {call.at}, as the caller wants it")

    def _before(self, place: str, act: Callable[..., Any]) -> Callable[..., Any]:
        def called(*arguments: Any, **named: Any) -> Any:
            self._use(place)
            return act(*arguments, **named)

        return called

    def _from_outside(self, place: str, act: Callable[..., Any]) -> Callable[..., Any]:
        """As `_before`, but what a policy asks of itself is no use of it."""

        def called(*arguments: Any, **named: Any) -> Any:
            if self._inside:
                return act(*arguments, **named)
            self._use(place)
            self._inside = True
            try:
                return act(*arguments, **named)
            finally:
                self._inside = False

        return called

    @contextmanager
    def _policy(self, host: Any) -> Iterator[None]:
        policy = getattr(host, "_policy", None)
        with ExitStack() as stack:
            for names, name, method, place in _methods_of(policy, host):
                stack.enter_context(_exchanged(names, name, self._from_outside(place, method)))
            if policy is not None and not _has_room(policy) and "_policy" in _own(host):
                standin = _passing(policy, self._from_outside)
                stack.enter_context(_exchanged(_own(host), "_policy", standin))
            yield

    @contextmanager
    def _events(self, host: Any) -> Iterator[None]:
        """A list or a deque cannot be made to raise: another takes its place, and gives back what it holds."""
        queue: Any = _own(host).get("events")
        if not hasattr(queue, "append"):
            yield
        elif type(queue) not in (list, deque):
            with _exchanged(_own(queue), "append", self._before(EVENTS_APPEND, queue.append)):
                yield
        else:
            kind = type(queue)
            append = self._before(EVENTS_APPEND, kind.append)
            more = (queue.maxlen,) if isinstance(queue, deque) else ()
            standin = type("Queue", (kind,), {"append": lambda self, event: append(self, event)})(queue, *more)
            host.events = standin
            try:
                yield
            finally:
                if host.events is standin:  # else the manager has begun another one
                    queue.clear()
                    queue.extend(standin)
                    host.events = queue

    @contextmanager
    def _slots(self, host: Any) -> Iterator[None]:
        found: list[tuple[dict[str, Any], str, str]] = [(_own(host), name, place) for place, name in _allocator(host)]
        if (records := _records_of(host)) is not None:
            found.append((*records, SLOTS_RECORD))
        with ExitStack() as stack:
            for names, name, place in found:
                act = getattr(host, name) if place != SLOTS_RECORD else names[name]
                stack.enter_context(_exchanged(names, name, self._before(place, act)))
            yield


@define
class Strikes:
    """Which calls reach which places, and at which uses a fault struck there, over one or many runs."""

    reached: Counter[tuple[str, str]] = field(factory=Counter)
    """Call and place -> the most uses that one call made of it."""
    struck: dict[tuple[str, str], Counter[int]] = field(factory=dict)
    """Call and place -> how often a fault struck at which use."""
    restores_order: bool = True
    """No policy was seen that cannot be put back to where it was."""

    def note(self, call: Call, faults: Faults) -> None:
        """``call`` has been made with ``faults`` armed."""
        self.restores_order = self.restores_order and faults.restores_order
        for place, uses in faults.uses.items():
            self.reached[call.name, place] = max(self.reached[call.name, place], uses)
        if faults.struck and call.raises_in is not None:
            self.struck.setdefault((call.name, call.raises_in), Counter())[call.at] += 1

    def add(self, other: Strikes) -> None:
        """Take in what another run came to."""
        self.restores_order = self.restores_order and other.restores_order
        for of, uses in other.reached.items():
            self.reached[of] = max(self.reached[of], uses)
        for of, struck in other.struck.items():
            self.struck.setdefault(of, Counter()).update(struck)

    def records(self) -> list[dict[str, object]]:
        """Rows of plain data: call, place, the most uses in one call, and how often a fault struck at which use."""
        return [
            {
                "call": call,
                "place": place,
                "uses": uses,
                "struck": dict(sorted(self.struck.get((call, place), {}).items())),
            }
            for (call, place), uses in sorted(self.reached.items())
        ]

    @property
    def missed(self) -> list[tuple[str, str]]:
        """Calls and the places that they reach, where nothing struck yet."""
        return sorted(of for of in self.reached if of not in self.struck)


class _Passing:
    """Stands for a policy that has no room for attributes: passes on what it is asked, unless the fault strikes."""

    def __init__(self, policy: Any, before: Callable[[str, Callable[..., Any]], Callable[..., Any]]) -> None:
        self._real = policy
        self._before = before

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._real, name)
        place = _POLICY + name
        return self._before(place, found) if place in MANAGER_FAULTS else found


_ASKED_OF_THE_CLASS = ("__len__", "__contains__", "__iter__", "__getitem__", "__bool__", "__eq__", "__hash__")


def _passing(policy: Any, before: Callable[[str, Callable[..., Any]], Callable[..., Any]]) -> Any:
    """A `_Passing` that has what is not asked of an object but of its class, too."""
    asked = {
        name: lambda self, *arguments, name=name: getattr(self._real, name)(*arguments)
        for name in _ASKED_OF_THE_CLASS
        if hasattr(policy, name)
    }
    return type("_Passing", (_Passing,), asked)(policy, before)


def _own(thing: Any) -> dict[str, Any]:
    """Its own attributes, to be exchanged; none of a thing without room for them."""
    try:
        found: dict[str, Any] = object.__getattribute__(thing, "__dict__")  # not what it may pass on of another's
    except AttributeError:
        return {}
    return found


def _has_room(thing: Any) -> bool:
    try:
        object.__getattribute__(thing, "__dict__")
    except AttributeError:
        return False
    return True


def _methods_of(policy: Any, host: Any) -> list[tuple[dict[str, Any], str, Any, str]]:
    """Where the manager finds the methods of its policy: on the policy, or bound and kept in attributes of its own."""
    if policy is None:
        return []
    known = [place.removeprefix(_POLICY) for place in MANAGER_FAULTS if place.startswith(_POLICY)]
    there = [name for name in known if _has_room(policy) and hasattr(policy, name)]
    kept = [
        (_own(host), name, method, _POLICY + method.__name__)
        for name, method in _own(host).items()
        if getattr(method, "__self__", None) is policy and getattr(method, "__name__", None) in known
    ]
    return [*((_own(policy), name, getattr(policy, name), _POLICY + name) for name in there), *kept]


@contextmanager
def _exchanged(names: Any, name: str, new: Any) -> Iterator[None]:
    """``name`` stands for ``new``, as long as the context lasts."""
    had, old = name in names, names.get(name)
    names[name] = new
    try:
        yield
    finally:
        if had:
            names[name] = old
        else:
            del names[name]


def _name(host: Any, names: tuple[str, ...]) -> str | None:
    return next((name for name in names if hasattr(host, name)), None)


def _allocator(host: Any) -> list[tuple[str, str]]:
    """Its methods that hand slots out and take them back: place and name."""
    found = ((SLOTS_ALLOCATE, _name(host, _ALLOCATE)), (SLOTS_FREE, _name(host, _FREE)))
    return [(place, name) for place, name in found if name is not None and _has_room(host)]


def _records_of(host: Any) -> tuple[dict[str, Any], str] | None:
    """Where the allocator finds the class of its block records: the globals of its module, and the name there."""
    allocate = getattr(host, _name(host, _ALLOCATE) or "", None)
    module: dict[str, Any] = getattr(allocate, "__globals__", {})
    name = next((name for name in _RECORDS if name in module), None)
    return None if name is None else (module, name)


def _has(host: Any, place: str) -> bool:
    if place.startswith(_POLICY):
        policy = getattr(host, "_policy", None)
        reached = _has_room(policy) or "_policy" in _own(host)
        return reached and hasattr(policy, place.removeprefix(_POLICY))
    if place == EVENTS_APPEND:
        queue = _own(host).get("events")
        return hasattr(queue, "append") and (type(queue) in (list, deque) or _has_room(queue))
    if place == SLOTS_RECORD:
        return _records_of(host) is not None
    return place in [known for known, _ in _allocator(host)]
