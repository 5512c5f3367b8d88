"""From z3's counterexample to calls: the state it speaks of, built by calls, and the call that goes wrong.

z3 knows of a few keys and of the sizes of the rest, and the hand-made instances of the invariant may be too few for
its state to be a possible one. So the calls are run, on ordinary containers: on the subject under the judge, on the
model under its own laws. What running does not confirm is not a refutation.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import z3
from attrs import define, field, frozen

from evictable.model import calls
from evictable.model.calls import Call, Key, describe
from evictable.model.manager import Manager
from evictable.model.orders.lru_evictable import LruEvictable
from evictable.model.snapshot import Snapshot
from evictable.specs import subjects
from evictable.specs.callers.disciplines import CARELESS
from evictable.specs.counterexamples import trace_of
from evictable.specs.errors import LawlessDifference
from evictable.specs.proofs.executor import Path, Term
from evictable.specs.proofs.state import (
    CAPACITY,
    IDLE,
    LOADING,
    NUM_ALLOCATED,
    NUM_IDLE,
    NUM_RESIDENT,
    NUM_STORING,
    OWNER,
    PINS,
    PLACE,
    REF_CNT,
    REQUESTS,
    RESIDENT,
    SLOT_OF,
    ModelText,
    laws,
)
from evictable.specs.proofs.theorems import End
from evictable.specs.proofs.values import SBool, term_of
from evictable.specs.session import Session
from evictable.specs.shrink import Shrinker
from evictable.specs.subjects.base import Setup, SubjectKind

MOST_SLOTS = 64
"""A counterexample that needs a larger cache is not built."""

_SMALL = (1, 2, 3, 4, 6, 8)


def smallest(path: Path, shows_best: Term) -> Any:
    """A model of what the path's solver was just found to allow, with few slots and few pins if there is one."""
    any_size = path.solver.model()
    for wanted, most in itertools.product((shows_best, z3.BoolVal(True)), _SMALL):
        path.solver.push()
        path.solver.add(wanted, most >= CAPACITY, *(REF_CNT(key) <= 2 for key in path.terms("Key")))
        found = path.solver.model() if path.solver.check() == z3.sat else None
        path.solver.pop()
        if found is not None:
            return found
    return any_size


@frozen
class Known:
    """One key of z3's state."""

    key: Key
    ref_cnt: int | None
    slot: int
    place: int
    owner: str
    loads: dict[str, int]


@define
class Scene:
    """The state that z3 speaks of, in plain values, and the call that is made in it."""

    capacity: int
    allocated: int
    keys: list[Known]
    call: Call | None
    num_idle: int
    num_pending: int
    num_resident: int
    requests: list[str] = field(factory=list)
    protected: tuple[Key, ...] | None = None
    """Of a policy that was asked for as many victims, with these keys protected."""

    def build(self, *, undrained: bool = False) -> Iterator[Call]:
        """Calls that lead to it, from an empty cache. Keys of which z3 knows only that there are so many are added.

        With `undrained`, there are events that were not drained, for which one key more may be stored.
        """
        resident = [known for known in self.keys if known.ref_cnt is not None]
        idle = [known for known in resident if known.ref_cnt == 0]
        pending = [known for known in resident if known.ref_cnt == -1]
        pinned = [known for known in resident if known.ref_cnt is not None and known.ref_cnt > 0]
        names = itertools.count(len(self.keys) + 1)
        late = max((known.place for known in idle), default=0) + 1
        idle += [Known(next(names), 0, _LATE, late, _OTHERS, {}) for _ in range(self.num_idle - len(idle))]
        pending += [Known(next(names), -1, _LATE, 0, _OTHERS, {}) for _ in range(self.num_pending - len(pending))]
        num_pinned = self.num_resident - self.num_idle - self.num_pending
        pinned += [Known(next(names), 1, _LATE, 0, _OTHERS, {}) for _ in range(num_pinned - len(pinned))]
        spare = [next(names) for _ in range(self.allocated - self.num_resident)]

        for request in dict.fromkeys([*self.requests, _OTHERS]):
            yield Call(calls.ON_NEW_REQUEST, request=request)
        for known in sorted((*pinned, *idle, *pending), key=lambda one: one.slot):
            yield Call(calls.PREPARE_STORE, (known.key,), known.owner)
        for key in spare:
            yield Call(calls.PREPARE_STORE, (key,), _OTHERS)
        for key in spare:
            yield Call(calls.COMPLETE_STORE, (key,), _OTHERS, success=False)
        for known in pinned:
            yield Call(calls.COMPLETE_STORE, (known.key,), known.owner)
            assert known.ref_cnt is not None
            others = known.ref_cnt - sum(known.loads.values())
            for request, number in (*known.loads.items(), (_OTHERS, others)):
                if number:
                    yield Call(calls.PREPARE_LOAD, (known.key,) * number, request)
        for known in sorted(idle, key=lambda one: one.place):
            yield Call(calls.COMPLETE_STORE, (known.key,), known.owner)
        if not undrained:
            yield Call(calls.TAKE_EVENTS)
        elif not self.num_resident:
            told_late = next(names)  # so that something waits to be told
            yield Call(calls.PREPARE_STORE, (told_late,), _OTHERS)
            yield Call(calls.COMPLETE_STORE, (told_late,), _OTHERS)
        if self.call is not None:
            yield self.call

    def afterwards(self) -> Iterator[tuple[Call, ...]]:
        """Calls that bring to light what went wrong inside, one way or another."""
        keys = [known.key for known in self.keys]
        yield (Call(calls.TAKE_EVENTS), Call(calls.GET_STATS), *(Call(calls.LOOKUP, (key,), _OTHERS) for key in keys))
        # In which order blocks go.
        first = len(self.keys) + self.capacity + 10
        yield tuple(Call(calls.PREPARE_STORE, (first + number,), _OTHERS) for number in range(self.capacity))
        # Which transfers are still, or again, to be completed.
        yield tuple(Call(calls.COMPLETE_LOAD, (key,), request) for request in self.requests for key in keys)
        yield tuple(Call(calls.COMPLETE_STORE, (key,), request) for request in self.requests for key in keys)
        for key in keys:
            yield (
                Call(calls.PREPARE_STORE, (key,), _OTHERS),
                Call(calls.COMPLETE_STORE, (key,), _OTHERS),
                Call(calls.PREPARE_LOAD, (key,), _OTHERS),
                *(Call(calls.COMPLETE_LOAD, (key,), request) for request in self.requests),
            )

    def __str__(self) -> str:
        lines = [f"a cache of {self.capacity} slots, {self.allocated} of them used so far"]
        for known in self.keys:
            if known.ref_cnt is None:
                lines.append(f"key {known.key}: absent")
                continue
            of = f" by {known.owner}" if known.ref_cnt == -1 else ""
            loads = "".join(f", {number} loads by {request}" for request, number in known.loads.items())
            lines.append(f"key {known.key}: ref_cnt {known.ref_cnt}{of}{loads}")
        lines.append(f"resident {self.num_resident}, idle {self.num_idle}, pending {self.num_pending}")
        return "; ".join(lines) + f"; then {self.call}"


_OTHERS = "others"
_LATE = 10**6
"""Slots are handed out in this order: the later ones, of which z3 knows nothing, after the others."""


def scene_of(path: Path, found: Any, end: End) -> Scene:
    """What z3's model says of the state before the call."""
    call = end.call

    def number(term: Term) -> int:
        return int(found.eval(term, model_completion=True).as_long())

    def holds(term: Term) -> bool:
        return bool(z3.is_true(found.eval(term, model_completion=True)))

    names: dict[str, Key] = {}

    def name(term: Term) -> Key:
        return names.setdefault(str(found.eval(term, model_completion=True)), len(names))

    requests: dict[str, str] = {}

    def request_name(term: Term) -> str:
        value = str(found.eval(term, model_completion=True))
        return requests.setdefault(value, f"r{len(requests) + 1}")

    called = None
    for request in REQUESTS:
        request_name(request)
    terms = [term_of(key) for key in call.keys] if call is not None else []
    for term in (*terms, *path.terms("Key")):
        name(term)
    if call is not None:
        success = call.success
        called = Call(
            call.name,
            tuple(name(term) for term in terms),
            None if call.name == calls.RESET_CACHE else request_name(REQUESTS[0]),
            success=holds(success.term) if isinstance(success, SBool) and call.name == calls.COMPLETE_STORE else True,
        )
    keys, seen = [], set()
    for term in (*terms, *path.terms("Key")):
        key = name(term)
        if key in seen:
            continue
        seen.add(key)
        loads: dict[str, int] = {}
        for request in REQUESTS:
            if holds(LOADING(request, term)):
                loads[request_name(request)] = number(PINS(request, term))
        ref_cnt = number(REF_CNT(term)) if holds(RESIDENT(term)) else None
        place = number(PLACE(term)) if holds(IDLE(term)) else 0
        owner = request_name(OWNER(term)) if ref_cnt == -1 else _OTHERS
        keys.append(Known(key, ref_cnt, number(SLOT_OF(term)), place, owner, loads))
    resident = number(NUM_RESIDENT)
    # A policy knows nothing of slots: it is asked when there is none left.
    capacity = max(resident, 1) if end.protected is not None else number(CAPACITY)
    allocated = max(resident, min(number(NUM_ALLOCATED), capacity))
    return Scene(
        capacity,
        allocated,
        keys,
        called,
        number(NUM_IDLE),
        number(NUM_STORING),
        resident,
        list(requests.values()),
        None if end.protected is None or called is None else called.keys[: end.protected],
    )


# --- of a subject -------------------------------------------------------------------------------------------------


def confirm_on_subject(name: str, scene: Scene) -> str | None:
    """The shortest calls that go wrong, with the states; None if nothing goes wrong when it is run."""
    if scene.capacity > MOST_SLOTS:
        return None
    kind = subjects.load(name)
    profile = kind.profile("lru")
    setup = Setup(scene.capacity)
    try:
        broken = _broken_session(kind, setup, profile, scene)
        if broken is None:
            return None
        law = broken.broken[0].law.id
        shrinker = Shrinker(kind, profile, CARELESS, law, most_tries=600)
        found = shrinker.shrink(setup, [record.call for record in broken.records])
    except LawlessDifference:
        return None
    if found is None:
        return None
    trace = trace_of(kind, found, CARELESS)
    shown = [_line(entry.call, entry.outcome, entry.state) for entry in trace.entries]
    return "\n".join([f"capacity {found.setup.capacity}", *shown, str(found.difference_of())])


def _broken_session(kind: SubjectKind, setup: Setup, profile: str, scene: Scene) -> Session | None:
    """The first session, of those that bring it to light one way or another, in which a law breaks."""
    is_reset = scene.call is not None and scene.call.name == calls.RESET_CACHE
    for undrained, afterwards in itertools.product((False, True) if is_reset else (False,), scene.afterwards()):
        session = Session.begin(kind, setup, profile, CARELESS)
        for call in (*scene.build(undrained=undrained), *afterwards):
            if session.allows(call):
                session.step(call)
            if session.broken:
                return session
        session.finish()
        if session.broken:
            return session
    return None


def _line(call: Call, outcome: Any, state: Snapshot | None) -> str:
    line = f"  {call} -> {describe(outcome)}"
    if state is None:
        return line
    evictable = "" if state.evictable is None else f", evictable {list(state.evictable)}"
    return f"{line}   ref_cnt {dict(state.ref_cnt)}{evictable}, {state.num_free} free"


# --- of the model -------------------------------------------------------------------------------------------------


def confirm_on_model(text: ModelText, scene: Scene) -> str | None:
    """Run on ordinary containers, the text breaks a law, or does something else than the real model."""
    if scene.capacity > MOST_SLOTS:
        return None
    tried = text.manager.Manager(scene.capacity, text.lru.LruEvictable())
    real = Manager(scene.capacity, LruEvictable())
    lines = [f"capacity {scene.capacity}"]
    for call in (*scene.build(), *next(scene.afterwards())):
        if call is scene.call and scene.protected is not None:
            asked, protected = len(scene.protected), set(scene.protected)
            victims, first = tried.order.victims(asked, protected), real.order.victims(asked, protected)
            if victims != first:
                question = f"  victims({asked}, protected {sorted(protected, key=str)}) -> {victims}"
                return "\n".join([*lines, question, f"  expected  {first}", f"  observed  {victims}"])
        outcome, right = _run(tried, call), _run(real, call)
        state, expected = tried.snapshot(None), real.snapshot(None)
        if call.name != calls.ON_NEW_REQUEST:
            lines.append(_line(call, outcome, state))
        broken = _broken_laws(tried)
        if broken:
            return "\n".join([*lines, f"{', '.join(broken)} broken"])
        if isinstance(outcome, Exception) or repr(outcome) != repr(right):
            observed = repr(outcome) if isinstance(outcome, Exception) else describe(outcome)
            return "\n".join([*lines, f"  expected  {describe(right)}", f"  observed  {observed}"])
        if state != expected:
            return "\n".join([*lines, f"  expected  {_line(call, right, expected).strip()}"])
    return None


def _run(model: Any, call: Call) -> Any:
    try:
        return model.perform(call)
    except Exception as error:
        return error


def _broken_laws(model: Any) -> list[str]:
    """The clauses of the invariant that do not hold of a model with ordinary containers."""
    names: dict[Any, int] = {}

    def numbered(value: Any) -> Any:
        return value if isinstance(value, int) else names.setdefault(value, -len(names) - 1)

    class Plain:
        capacity = model.capacity
        num_pending = model.num_pending
        ref_cnt = model.ref_cnt
        slots = model.slots
        holders = model.holders
        order = model.order
        stores = {key: numbered(owner) for key, owner in model.stores.items()}  # noqa: RUF012
        loads = {(numbered(one), key): number for (one, key), number in model.loads.items()}  # noqa: RUF012

    keys = {*model.ref_cnt, *model.slots, *model.order._evictable, *model.stores, *(key for _, key in model.loads)}
    terms: dict[str, Sequence[Any]] = {
        "Key": [z3.IntVal(key) for key in keys],
        "Request": [z3.IntVal(one) for one, _ in Plain.loads],
        "Int": [z3.IntVal(slot) for slot in {*model.holders, *model.slots.values()}],
    }
    broken = []
    for clause in laws(Plain):
        at: Callable[..., Term] = clause.statement
        for values in itertools.product(*(terms[sort] for sort in clause.sorts)):
            if not z3.is_true(z3.simplify(at(*values))):
                broken.append(clause.name)
                break
    return list(dict.fromkeys(broken))
