"""Containers of any size, for ordinary code: what they held at first is symbolic, what code does to them is recorded.

Each keeps the number of its elements as a ghost, which changes by one with each element; that is how counters are
compared with sets that nobody can count.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

import z3
from attrs import define, field

from evictable.specs.proofs.executor import Term, Unsupported, current
from evictable.specs.proofs.values import SInt, Symbolic, same, term_of, terms_of

MOST_ITERATED = 12
"""Elements that a loop may see of a symbolic container before the path is cut."""

_REQUIRED = object()
_NUMBER = z3.IntVal(0)


@define
class Contents:
    """What a container held at first: any number of keys."""

    has: Callable[..., Term]
    """Of the terms of a key."""
    value: Callable[..., Any]
    """What the code finds under a key that is there."""
    size: Term
    place: Callable[..., Term] = lambda *key: z3.IntVal(0)
    """Of an ordered container: keys with lower places come first."""
    first: Term = _NUMBER
    """No place is below it."""
    end: Term = _NUMBER
    """Every place is below it."""
    sort: Any = None
    """Of an ordered container: the sort of its keys."""
    wrap: Callable[[Term], Any] | None = None
    """Of an ordered container: a key from its term."""
    nothing: bool = False
    """There is no key at all, and so no value."""


def empty() -> Contents:
    return Contents(lambda *key: z3.BoolVal(False), lambda *key: None, z3.IntVal(0), nothing=True)


@define(eq=False)
class Entry:
    """A key that the code has met, as it is now, and as it was at first."""

    key: Any
    terms: tuple[Term, ...]
    present: bool
    value: Any = None
    place: Term = None
    changed: bool = False
    was_present: bool = field(init=False)
    first_value: Any = field(init=False)

    def __attrs_post_init__(self) -> None:
        self.was_present, self.first_value = self.present, self.value


class _Container:
    """Shared by all: anything not defined is named as unsupported, instead of being done wrong."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        raise Unsupported(f"{type(self).__name__} has no symbolic {name}()")

    def __len__(self) -> int:
        raise Unsupported(f"len() of a {type(self).__name__} as a plain number")

    def __eq__(self, other: object) -> Any:
        raise Unsupported(f"== of a {type(self).__name__}")

    __hash__ = None  # type: ignore[assignment]


class SymbolicDict(_Container):
    """A dict with any number of keys. It cannot be iterated over: nothing is known of its order."""

    def __init__(self, contents: Contents) -> None:
        self._contents = contents
        self._entries: list[Entry] = []
        self._size = contents.size
        self._version = 0

    # --- what the code under proof uses ---

    def __contains__(self, key: Any) -> bool:
        return self._entry(key).present

    def __getitem__(self, key: Any) -> Any:
        entry = self._entry(key)
        if not entry.present:
            raise KeyError(key)
        return entry.value

    def get(self, key: Any, default: Any = None) -> Any:
        entry = self._entry(key)
        return entry.value if entry.present else default

    def __setitem__(self, key: Any, value: Any) -> None:
        entry = self._entry(key)
        if not entry.present:
            self._enter(entry)
        entry.value, entry.changed = value, True

    def setdefault(self, key: Any, default: Any = None) -> Any:
        if key not in self:
            self[key] = default
        return self[key]

    def __delitem__(self, key: Any) -> None:
        entry = self._entry(key)
        if not entry.present:
            raise KeyError(key)
        entry.present, entry.changed = False, True
        self._size = self._size - 1
        self._version += 1

    def pop(self, key: Any, default: Any = _REQUIRED) -> Any:
        entry = self._entry(key)
        if not entry.present:
            if default is _REQUIRED:
                raise KeyError(key)
            return default
        value = entry.value
        del self[key]
        return value

    def update(self, others: Iterable[tuple[Any, Any]]) -> None:
        for key, value in others:
            self[key] = value

    def clear(self) -> None:
        self._contents = empty()
        self._entries.clear()
        self._size = self._contents.size
        self._version += 1

    def __bool__(self) -> bool:
        return current().decide(self._size >= 1)

    def __iter__(self) -> Iterator[Any]:
        raise Unsupported(f"iteration over a {type(self).__name__}, whose order is not known")

    # --- what the proof asks ---

    def size(self) -> Term:
        return self._size

    def has_term(self, *key: Term) -> Term:
        """Whether a key is there, as a term: nothing is decided."""
        return self._fold(key, self._contents.has(*key), lambda entry: z3.BoolVal(entry.present))

    def value_term(self, *key: Term, of: Callable[[Any], Term] = term_of, default: Term = _NUMBER) -> Term:
        """A number or the like that a key's value comes to, as a term; means nothing where the key is not there."""
        folded = default if self._contents.nothing else of(self._contents.value(*key))
        for entry in self._entries:  # the unchanged ones too: a value may have changed inside
            if entry.present:
                folded = z3.If(same(key, entry.terms), of(entry.value), folded)
        return folded

    def entries(self) -> list[Entry]:
        """The keys that the code has met since the last `clear`."""
        return self._entries

    def _fold(self, key: tuple[Term, ...], first: Term, now: Callable[[Entry], Term]) -> Term:
        folded = first
        for entry in self._entries:
            if entry.changed:
                folded = z3.If(same(key, entry.terms), now(entry), folded)
        return folded

    def _entry(self, key: Any) -> Entry:
        """The entry of a key, decided to be there or not."""
        path, terms = current(), terms_of(key)
        decide = path.decide
        for term in terms:
            path.join(term)
        for entry in self._entries:
            if decide(same(terms, entry.terms)):
                return entry
        contents = self._contents
        present = decide(contents.has(*terms))
        entry = Entry(key, terms, present, contents.value(*terms) if present else None, contents.place(*terms))
        self._entries.append(entry)
        return entry

    def _enter(self, entry: Entry) -> None:
        entry.present = entry.changed = True
        self._size = self._size + 1
        self._version += 1


class SymbolicOrderedDict(SymbolicDict):
    """An OrderedDict with any number of keys, each at a place of its own.

    A loop over it meets, one by one, a key that is there and whose place is the lowest of those that it has not met.
    """

    def __init__(self, contents: Contents) -> None:
        super().__init__(contents)
        self._first = contents.first
        self._end = contents.end

    def clear(self) -> None:
        wrap, sort = self._contents.wrap, self._contents.sort
        super().clear()
        self._contents.wrap, self._contents.sort = wrap, sort

    def move_to_end(self, key: Any, last: bool = True) -> None:
        entry = self._entry(key)
        if not entry.present:
            raise KeyError(key)
        entry.changed = True
        self._version += 1
        if last:
            entry.place, self._end = self._end, self._end + 1
        else:
            entry.place = self._first = self._first - 1

    def popitem(self, last: bool = True) -> tuple[Any, Any]:
        for key in reversed(self) if last else self:
            return key, self.pop(key)
        raise KeyError("dictionary is empty")

    def __iter__(self) -> Iterator[Any]:
        return self._walk(forwards=True)

    def __reversed__(self) -> Iterator[Any]:
        return self._walk(forwards=False)

    def keys(self) -> SymbolicOrderedDict:
        return self

    def items(self) -> Iterator[tuple[Any, Any]]:
        return ((key, self[key]) for key in self)

    def values(self) -> Iterator[Any]:
        return (self[key] for key in self)

    def place_term(self, key: Term) -> Term:
        """Means nothing where the key is not there."""
        return self._fold((key,), self._contents.place(key), lambda entry: entry.place)

    def ends(self) -> tuple[Term, Term]:
        """All places are from the first of these numbers on, and below the second."""
        return self._first, self._end

    def _enter(self, entry: Entry) -> None:
        super()._enter(entry)
        entry.place, self._end = self._end, self._end + 1

    def _walk(self, forwards: bool) -> Iterator[Any]:
        path = current()
        wrap, sort, version = self._contents.wrap, self._contents.sort, self._version
        assert wrap is not None
        # As terms in `probe`, because the statements below are about what is there now. Two loops over what is the
        # same set in the same order meet the same keys.
        probe = z3.Const("probe", sort)
        members, places = self.has_term(probe), self.place_term(probe)
        known = (members.get_id(), places.get_id(), forwards)
        _, _, met = path.notes.setdefault(known, (members, places, []))
        number = 0
        while path.decide(self._size - number >= 1):
            if number == MOST_ITERATED:
                path.cut(f"a loop over a {type(self).__name__} may go beyond {MOST_ITERATED} elements")
            if number == len(met):
                following = path.fresh("first" if forwards else "last", sort)
                earlier = tuple(met)
                met.append(following)
                path.assume(z3.substitute(members, (probe, following)))
                path.assume(z3.And(*(following != other for other in earlier)))
                path.for_all((str(sort),), _none_before(members, places, probe, following, earlier, forwards))
                path.join(following)
            yield wrap(met[number])
            if version != self._version:
                raise RuntimeError("OrderedDict mutated during iteration")
            number += 1


def _none_before(
    members: Term, places: Term, probe: Term, following: Term, earlier: tuple[Term, ...], forwards: bool
) -> Callable[[Term], Term]:
    """No other member that was not met earlier comes before `following`."""
    its = z3.substitute(places, (probe, following))

    def statement(key: Term) -> Term:
        other = z3.substitute(places, (probe, key))
        left = z3.And(z3.substitute(members, (probe, key)), *(key != one for one in earlier))
        return z3.Implies(left, its <= other if forwards else its >= other)

    return statement


class SymbolicBag(_Container):
    """A list of slots of which only the end is used, as a bag: which slot a `pop` gives is left open."""

    def __init__(self, count: Callable[[Term], Term], size: Term) -> None:
        self._count = count
        self._changes: list[tuple[Term, int]] = []
        self._size = size

    def append(self, slot: Any) -> None:
        self._changes.append((term_of(slot), 1))
        self._size = self._size + 1

    def extend(self, slots: Iterable[Any]) -> None:
        for slot in slots:
            self.append(slot)

    def pop(self) -> SInt:
        path = current()
        if not path.decide(self._size >= 1):
            raise IndexError("pop from empty list")
        slot = path.fresh("reused", z3.IntSort())
        path.join(slot)
        path.assume(self.count_term(slot) >= 1)
        self._changes.append((slot, -1))
        self._size = self._size - 1
        return SInt(slot)

    def clear(self) -> None:
        self._count = lambda slot: z3.IntVal(0)
        self._changes.clear()
        self._size = z3.IntVal(0)

    def __bool__(self) -> bool:
        return current().decide(self._size >= 1)

    def __iter__(self) -> Iterator[Any]:
        raise Unsupported("iteration over the free list, whose order is left open")

    def __getitem__(self, place: Any) -> Any:
        raise Unsupported("an element of the free list by its place, which is left open")

    def __delitem__(self, place: Any) -> None:
        raise Unsupported("deletion from the free list by place, which is left open")

    def size(self) -> Term:
        return self._size

    def count_term(self, slot: Term) -> Term:
        """How often a slot is in it."""
        count = self._count(slot)
        for other, change in self._changes:
            count = count + z3.If(slot == other, change, 0)
        return count


class SymbolicLog(_Container):
    """A queue of events: what it held at first is opaque, what is appended is kept."""

    def __init__(self) -> None:
        self.kept = True
        """Whether what it held at first is still there."""
        self.appended: list[Any] = []

    def append(self, event: Any) -> None:
        self.appended.append(event)

    def pop(self) -> Any:
        if self.appended:
            return self.appended.pop()
        raise Unsupported("pop() of an event from before the call")

    def clear(self) -> None:
        self.kept = False
        self.appended.clear()

    def __iter__(self) -> Iterator[Any]:
        raise Unsupported("iteration over events from before the call")


# --- questions that work on symbolic and on ordinary containers alike ---


def size_of(container: Any) -> Term:
    if isinstance(container, (SymbolicDict, SymbolicBag)):
        return container.size()
    return z3.IntVal(len(container))


def has(container: Any, *key: Term) -> Term:
    if isinstance(container, SymbolicDict):
        return container.has_term(*key)
    return z3.Or([z3.BoolVal(False), *(same(key, terms_of(one)) for one in container)])


def value(container: Any, *key: Term, of: Callable[[Any], Term] = term_of, default: Term = _NUMBER) -> Term:
    if isinstance(container, SymbolicDict):
        return container.value_term(*key, of=of, default=default)
    folded = default
    for one, held in container.items():
        folded = z3.If(same(key, terms_of(one)), of(held), folded)
    return folded


def place(container: Any, key: Term) -> Term:
    if isinstance(container, SymbolicOrderedDict):
        return container.place_term(key)
    folded = z3.IntVal(-1)
    for number, one in enumerate(container):
        folded = z3.If(same((key,), terms_of(one)), z3.IntVal(number), folded)
    return folded


def count(container: Any, slot: Term) -> Term:
    """How often a slot is in a free list."""
    if isinstance(container, SymbolicBag):
        return container.count_term(slot)
    return z3.Sum([z3.IntVal(0), *(z3.If(slot == term_of(one), 1, 0) for one in container)])


def is_symbolic(value: Any) -> bool:
    return isinstance(value, (_Container, Symbolic))
