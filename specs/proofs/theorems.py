"""What is proved, as code: each theorem is a run from an arbitrary state, and what must hold at its end."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import lru_cache
from itertools import pairwise
from traceback import extract_tb
from typing import Any

import z3
from attrs import field, frozen

from evictable.model import calls
from evictable.model.calls import Call, Gauges, Loaded, Stored
from evictable.specs.proofs.containers import has, place, value
from evictable.specs.proofs.executor import Path, Term, Unsupported, forget_instances, place_in_code
from evictable.specs.proofs.state import (
    ANOTHER,
    ANY_REQUEST,
    CALLER,
    CAPACITY,
    IDLE,
    NUM_IDLE,
    NUM_RESIDENT,
    PLACE,
    REF_CNT,
    RESIDENT,
    SLOT_OF,
    Clause,
    ModelText,
    View,
    agreement,
    arbitrary_model,
    assume_finite_sets,
    laws,
    make_arbitrary,
    symbolic_builtins,
)
from evictable.specs.proofs.subjects import SubjectText
from evictable.specs.proofs.values import KEY, SBool, SFraction, SInt, SKey, SRequest, term_of
from evictable.specs.theorems import Theorem

ENGINE = "z3"

ANY_KEY, OTHER_KEY = z3.Consts("x y", KEY)
ANY_SLOT = z3.Int("slot")
SUCCESS = z3.Bool("success")

Goal = tuple[str, Term]
_ALWAYS = z3.BoolVal(True)


@frozen(eq=False)
class Texts:
    """The source that is run: the model, and the subject where a theorem has one."""

    model: ModelText
    subject: SubjectText | None = None


@frozen
class End:
    """How a run ended, and what must hold then."""

    goals: list[Goal]
    returned: bool = True
    """Whether what was called answered, instead of raising."""
    call: Call | None = None
    protected: int | None = None
    """So many of the first keys were protected: the policy alone was asked, as a manager would ask it at `call`."""
    shows_best: Term = _ALWAYS
    """In which states a counterexample is seen from outside, if it is in any."""
    events_kept: bool = True
    """Whether events from before the call still wait."""


Run = Callable[[Path, Texts, int], End | None]
"""From the path, the texts and the size of the batch. None: the path is not one that the theorem speaks of."""


@frozen
class Statement:
    """A theorem, and how it is tried."""

    name: str
    sentence: str
    run: Run
    batches: bool = True
    """Whether it is about batches; otherwise it is tried once."""
    call: str | None = None
    """The call that it is about."""
    may_refuse: bool = False
    """Whether it speaks of what may be refused on every path."""
    sizes: Callable[[bool], Sequence[int]] = field(default=lambda full: (0, 1, 2, 3) if full else (0, 1, 2))

    def tried(self, full: bool) -> Sequence[int]:
        return self.sizes(full) if self.batches else (1,)

    def theorem(self, full: bool) -> Theorem:
        bound = "any number of keys, slots and requests"
        if self.batches:
            bound += f", batches up to {max(self.tried(full))}"
        return Theorem(self.name, self.sentence, ENGINE, bound)


# --- the start ----------------------------------------------------------------------------------------------------


def _arbitrary(path: Path, texts: Texts) -> Any:
    """The model in a state of which the laws are assumed."""
    for clause in _assumed_laws(texts):
        path.for_all(clause.sorts, clause.statement, lasting=True)
    assume_finite_sets(path)
    path.join(CALLER)
    path.join(ANOTHER)
    return arbitrary_model(texts.model)


@lru_cache(maxsize=1)
def _assumed_laws(texts: Texts) -> list[Clause]:
    """Of a state that no code changes: terms that join late must be told of how it was at first."""
    forget_instances()  # of other texts
    return laws(arbitrary_model(texts.model))


@lru_cache(maxsize=1)
def _assumed_agreement(texts: Texts) -> list[Clause]:
    assert texts.subject is not None
    return agreement(_subject(texts.subject), arbitrary_model(texts.model))


def _subject(subject: SubjectText) -> View:
    """The subject in a state that stands for the model's."""
    view = subject.view(SRequest(CALLER))
    make_arbitrary(view, subject.block_class)
    return view


def _assume_agreement(path: Path, texts: Texts) -> None:
    for clause in _assumed_agreement(texts):
        path.for_all(clause.sorts, clause.statement, lasting=True)


def _keys(path: Path, size: int) -> tuple[SKey, ...]:
    keys = []
    for _ in range(size):
        term = path.fresh("key", KEY)
        path.join(term)
        keys.append(SKey(term))
    return tuple(keys)


def _call(path: Path, name: str, size: int) -> Call:
    if name in (calls.RESET_CACHE, calls.GET_STATS, calls.ON_NEW_REQUEST, calls.ON_REQUEST_FINISHED):
        size = 0
    return Call(
        name,
        _keys(path, size),  # type: ignore[arg-type]
        request=SRequest(CALLER),  # type: ignore[arg-type]
        success=SBool(SUCCESS) if name == calls.COMPLETE_STORE else True,  # type: ignore[arg-type]
    )


# --- the end ------------------------------------------------------------------------------------------------------


def _at_anything(path: Path, clauses: Sequence[Clause]) -> list[Goal]:
    """Each clause at terms of which nothing is known, so that it holds for all."""
    for term in (ANY_KEY, OTHER_KEY, ANY_REQUEST, ANY_SLOT):
        path.join(term)
    goals = []
    for clause in clauses:
        left = {"Key": [ANY_KEY, OTHER_KEY], "Request": [ANY_REQUEST], "Int": [ANY_SLOT]}
        goals.append((clause.name, clause.statement(*(left[sort].pop(0) for sort in clause.sorts))))
    return goals


def _members(keys: Sequence[Any], is_member: Callable[[Term], Term]) -> Term:
    """How many different keys of a batch are members."""
    terms = [term_of(key) for key in keys]
    counted = [z3.IntVal(0)]
    for number, term in enumerate(terms):
        counted.append(z3.If(z3.And(is_member(term), *(term != one for one in terms[:number])), 1, 0))
    return z3.Sum(counted)


def _all_different(terms: Sequence[Term]) -> Term:
    return z3.Distinct(*terms) if len(terms) > 1 else _ALWAYS


def _among(term: Term, keys: Sequence[Any]) -> Term:
    return z3.Or([z3.BoolVal(False), *(term == term_of(key) for key in keys)])


def _same_all(these: Sequence[Any], those: Sequence[Any]) -> Term:
    if len(these) != len(those):
        return z3.BoolVal(False)
    return z3.And([_ALWAYS, *(_same(one, other) for one, other in zip(these, those, strict=True))])


def _same(one: Any, other: Any) -> Term:
    if isinstance(one, SFraction) and isinstance(other, SFraction):
        return z3.And(one.over == other.over, one.under == other.under)
    if isinstance(one, (SFraction, float)) or isinstance(other, (SFraction, float)):
        return z3.BoolVal(type(one) is type(other) and one == other)
    return term_of(one) == term_of(other)


def _same_answer(answer: Any, expected: Any) -> list[Goal]:
    if isinstance(answer, Stored) and isinstance(expected, Stored):
        return [
            ("answer: keys to store", _same_all(answer.keys_to_store, expected.keys_to_store)),
            ("answer: block ids", _same_all(answer.block_ids, expected.block_ids)),
            ("answer: evicted keys", _same_all(answer.evicted_keys, expected.evicted_keys)),
        ]
    if isinstance(answer, Loaded) and isinstance(expected, Loaded):
        return [("answer: block ids", _same_all(answer.block_ids, expected.block_ids))]
    if isinstance(answer, Gauges) and isinstance(expected, Gauges):
        usages = [
            (getattr(answer, name), getattr(expected, name))
            for name in ("usage", "write_usage", "read_usage")
            if getattr(answer, name) is not None
        ]
        return [("answer: usages", z3.And([z3.BoolVal(bool(usages)), *(_same(one, other) for one, other in usages)]))]
    fits = (answer is None and expected is None) or (isinstance(answer, str) and answer == expected)
    return [(f"answer: {expected} is right, not {answer}", z3.BoolVal(fits))]


def _same_log(view: View, model: Any, forgotten: bool) -> list[Goal]:
    """The events and counts that the call has added. A reset may leave `forgotten` events to be told late."""
    manager = view.manager
    facts = [(event.removed, key) for event in manager.events.appended for key in event.keys]
    expected = model.events.appended
    kinds = [removed for removed, _ in facts] == [removed for removed, _ in expected]
    same = kinds and (forgotten or manager.events.kept == model.events.kept)
    told = _same_all([key for _, key in facts], [key for _, key in expected]) if same else z3.BoolVal(False)
    goals = [("events", told)]
    if hasattr(manager, "allocation_sizes_in_current_batch"):
        sizes = list(manager.allocation_sizes_in_current_batch)
        goals.append(("allocation sizes", z3.BoolVal(sizes == model.statistics.sizes)))
    if hasattr(manager, "allocation_failures_in_current_batch"):
        failures = manager.allocation_failures_in_current_batch
        goals.append(("allocation failures", z3.BoolVal(failures == model.statistics.failures)))
    return goals


# --- the model keeps its laws -------------------------------------------------------------------------------------


def _keeps_laws(name: str) -> Run:
    def run(path: Path, texts: Texts, size: int) -> End | None:
        model = _arbitrary(path, texts)
        path.assume(CAPACITY >= 1)
        call = _call(path, name, size)
        with symbolic_builtins(*texts.model.modules):
            if model.misplaced(call):
                return None
            with _any_free_slots(path, type(model)):
                answer = _attempt(path, lambda: model.perform(call))
        if isinstance(answer, Exception):
            return End([(f"answers, but raises {answer!r}", z3.BoolVal(False))], call=call)
        victims = answer.evicted_keys if isinstance(answer, Stored) else ()
        goals = _at_anything(path, laws(model))
        goals += _legal_steps(model, call, answer)
        if name == calls.PREPARE_STORE:
            goals += _room_decides(call, answer)
            goals += [("offer-protected", z3.Not(_among(term_of(victim), call.keys))) for victim in victims]
        if name == calls.LOOKUP:
            goals += _tells_the_state(call, answer)
        if name != calls.RESET_CACHE:
            unmoved = name == calls.LOOKUP or (name == calls.PREPARE_STORE and answer is None)
            goals += _others_stay(model, [*(() if unmoved else call.keys), *victims])
        return End(goals, call=call)

    return run


def _room_decides(call: Call, answer: Any) -> list[Goal]:
    """Refused if and only if the new keys outnumber free slots plus evictable keys outside the offer."""
    new = _members(call.keys, lambda key: z3.Not(RESIDENT(key)))
    room = CAPACITY - NUM_RESIDENT + NUM_IDLE - _members(call.keys, IDLE)
    return [("no-false-refusal", (new > room) == z3.BoolVal(answer is None))]


def _legal_steps(model: Any, call: Call, answer: Any) -> list[Goal]:
    """What becomes of any key is what the life cycle says of the call, once for each time that it is named."""
    there, ref = has(model.ref_cnt, ANY_KEY), value(model.ref_cnt, ANY_KEY)
    was_there, was = RESIDENT(ANY_KEY), REF_CNT(ANY_KEY)
    named = _among(ANY_KEY, call.keys)
    times = z3.Sum([z3.IntVal(0), *(z3.If(term_of(key) == ANY_KEY, 1, 0) for key in call.keys)])
    same = z3.And(there == was_there, z3.Implies(there, ref == was))
    step = same
    if call.name == calls.PREPARE_LOAD:
        step = z3.And(there == was_there, z3.Implies(there, ref == was + times))
    elif call.name == calls.COMPLETE_LOAD:
        step = z3.And(there == was_there, z3.Implies(there, ref == was - times))
    elif call.name == calls.COMPLETE_STORE:
        committed = z3.And(there, ref == 0)
        step = z3.If(named, z3.If(SUCCESS, committed, z3.Not(there)), same)
    elif call.name == calls.RESET_CACHE:
        step = z3.Not(there)
    elif isinstance(answer, Stored):
        begun = z3.And(there, ref == -1)
        evicted = z3.And(was_there, was == 0, z3.Not(there))
        step = z3.If(
            z3.And(named, z3.Not(was_there)), begun, z3.If(_among(ANY_KEY, answer.evicted_keys), evicted, same)
        )
    return [("legal-step", step)]


def _tells_the_state(call: Call, answer: Any) -> list[Goal]:
    key = term_of(call.keys[0])
    right = {
        calls.MISS: z3.Not(RESIDENT(key)),
        calls.HIT: z3.And(RESIDENT(key), REF_CNT(key) >= 0),
        calls.HIT_PENDING: z3.And(RESIDENT(key), REF_CNT(key) == -1),
    }
    return [("answer", right.get(answer, z3.BoolVal(False)))]


def _others_stay(model: Any, named: Sequence[Any]) -> list[Goal]:
    """Keys that are neither named nor evicted keep their slots, and their places among each other."""
    evictable = model.order._evictable
    slot = z3.Implies(RESIDENT(ANY_KEY), value(model.slots, ANY_KEY) == SLOT_OF(ANY_KEY))
    order = (place(evictable, ANY_KEY) < place(evictable, OTHER_KEY)) == (PLACE(ANY_KEY) < PLACE(OTHER_KEY))
    spared = z3.Not(_among(ANY_KEY, named))
    both = z3.And(spared, z3.Not(_among(OTHER_KEY, named)), IDLE(ANY_KEY), IDLE(OTHER_KEY))
    return [
        ("others keep their slots", z3.Implies(spared, slot)),
        ("others keep their order", z3.Implies(both, order)),
    ]


@contextmanager
def _any_free_slots(path: Path, manager_class: Any) -> Iterator[None]:
    """While it lasts, the model takes any free slots instead of searching for the lowest ones."""

    def any_free(manager: Any, number: int) -> tuple[Any, ...]:
        chosen: list[Any] = []
        for _ in range(number):
            if not manager.num_free - len(chosen) >= 1:
                raise LookupError("no free slot is left")
            slot = path.fresh("free", z3.IntSort())
            path.join(slot)
            path.assume(z3.And(slot >= 0, slot < CAPACITY, z3.Not(has(manager.holders, slot))))
            path.assume(z3.And([_ALWAYS, *(slot != term_of(other) for other in chosen)]))
            chosen.append(SInt(slot))
        return tuple(chosen)

    real = manager_class._lowest_free
    manager_class._lowest_free = any_free
    try:
        yield
    finally:
        manager_class._lowest_free = real


# --- the subject does what the model does -------------------------------------------------------------------------


def _refines(name: str) -> Run:
    """Of a careful caller: same answer, and afterwards the subject's inside stands for the model's state."""

    def run(path: Path, texts: Texts, size: int) -> End | None:
        return _both(path, texts, name, size, careless=False)

    return run


def _withstands(name: str) -> Run:
    """Of a careless caller: it raises with nothing changed, or does what the model does without the bad keys."""

    def run(path: Path, texts: Texts, size: int) -> End | None:
        return _both(path, texts, name, size, careless=True)

    return run


def _both(path: Path, texts: Texts, name: str, size: int, *, careless: bool) -> End | None:
    subject = texts.subject
    assert subject is not None
    model = _arbitrary(path, texts)
    _assume_agreement(path, texts)
    path.assume(CAPACITY >= 1)
    view = _subject(subject)
    call = _call(path, name, size)
    with symbolic_builtins(*texts.model.modules, *subject.modules, **subject.exchanged):
        misplaced = model.misplaced(call)
        if bool(misplaced) != careless:
            return None
        good = call.with_keys(tuple(key for place, key in enumerate(call.keys) if place not in misplaced))
        beside = view.beside_the_state()
        answer = _attempt(path, lambda: subject.perform(view, call))
        if changed := view.beside_the_state().keys() ^ beside.keys() or _changed(beside, view.beside_the_state()):
            path.cut(f"the call changes {', '.join(sorted(changed))}, of which the proof knows nothing")
        raised = isinstance(answer, Exception)
        goals: list[Goal] = []
        if raised and not careless:
            goals = [(f"it answers, but raises {answer!r}", z3.BoolVal(False))]
        elif not raised:
            hint = answer if isinstance(answer, Stored) else None
            with _any_free_slots(path, type(model)):
                expected = _attempt(path, lambda: model.perform(good, hint))
            goals = _same_answer(answer, expected)
        goals += _at_anything(path, agreement(view, model))
        if name != calls.GET_STATS:
            goals += _same_log(view, model, forgotten=name == calls.RESET_CACHE)
    kept = view.manager.events is not None and view.manager.events.kept
    return End(goals, returned=not raised, call=call, events_kept=kept)


def _changed(before: dict[str, Any], after: dict[str, Any]) -> set[str]:
    return {name for name, value in after.items() if value is not before[name] and value != before[name]}


def _drops_events(path: Path, texts: Texts, size: int) -> End | None:
    end = _both(path, texts, calls.RESET_CACHE, size, careless=False)
    if end is not None:
        end.goals.append(("undrained events are dropped", z3.BoolVal(not end.events_kept)))
    return end


_MEANINGLESS = (TypeError, AttributeError, NotImplementedError, RecursionError, OverflowError)


def _attempt(path: Path, act: Callable[[], Any]) -> Any:
    """What `act` answers, or the exception that it raises."""
    try:
        return act()
    except Unsupported:
        raise
    except Exception as error:
        if isinstance(error, _MEANINGLESS):
            path.obstacles.append(f"{type(error).__name__}: {error} ({place_in_code(extract_tb(error.__traceback__))})")
        return error


def _begins(path: Path, texts: Texts, size: int) -> End:
    """The constructors make a state in which the invariant holds."""
    path.assume(CAPACITY >= 1)
    text = texts.model
    model = text.manager.Manager(SInt(CAPACITY), text.lru.LruEvictable())
    clauses = laws(model)
    if texts.subject is not None:
        with symbolic_builtins(*texts.subject.modules, **texts.subject.exchanged):
            clauses = agreement(texts.subject.view(SRequest(CALLER), SInt(CAPACITY)), model)
    return End(_at_anything(path, clauses))


def _is_satisfiable(path: Path, texts: Texts, size: int) -> End:
    """There is a state with an idle, a pinned and a pending key in which everything that is assumed holds."""
    _arbitrary(path, texts)
    if texts.subject is not None:
        _assume_agreement(path, texts)
    idle, pinned, pending = (term_of(key) for key in _keys(path, 3))
    path.assume(z3.And(IDLE(idle), REF_CNT(pinned) == 2, RESIDENT(pinned), REF_CNT(pending) == -1, RESIDENT(pending)))
    return End([])


# --- the order ----------------------------------------------------------------------------------------------------


def _victims_are_first(path: Path, texts: Texts, size: int) -> End:
    """Of `evict(n, protected)`, with `n` keys asked for and as many protected ones, which may coincide."""
    model = _arbitrary(path, texts)
    subject = texts.subject
    view = None
    if subject is not None:
        _assume_agreement(path, texts)
        view = _subject(subject)
    asked = size
    protected = _keys(path, size)
    modules = (*texts.model.modules, *(subject.modules if subject else ()))
    with symbolic_builtins(*modules, **(subject.exchanged if subject else {})):
        shield = set(protected)
        if view is None:
            answer = _attempt(path, lambda: model.order.victims(asked, shield))
            victims = answer
        else:
            answer = _attempt(path, lambda: view.policy.evict(asked, shield))
            victims = [key for key, _ in answer] if isinstance(answer, list) else answer
        if isinstance(answer, Exception):
            return End([(f"it answers, but raises {answer!r}", z3.BoolVal(False))], returned=False)
        for term in (ANY_KEY, OTHER_KEY):
            path.join(term)
        eligible = NUM_IDLE - _members(protected, IDLE)
        goals = [("None if and only if too few are eligible", (eligible < asked) == z3.BoolVal(victims is None))]
        terms = [term_of(victim) for victim in victims or ()]
        if victims is not None:
            goals += [
                ("as many as asked for", z3.BoolVal(len(terms) == asked)),
                ("no victim twice", _all_different(terms)),
                ("victims are idle", z3.And([IDLE(term) for term in terms])),
                ("victims are not protected", z3.And([z3.Not(_among(term, protected)) for term in terms])),
                (
                    "victims come in order",
                    z3.And(
                        [
                            z3.BoolVal(True),
                            *(PLACE(one) < PLACE(other) for one, other in pairwise(terms)),
                        ]
                    ),
                ),
                (
                    "no other eligible key is before a victim",
                    z3.Implies(
                        z3.And(IDLE(ANY_KEY), z3.Not(_among(ANY_KEY, protected)), z3.Not(_among(ANY_KEY, victims))),
                        z3.And([PLACE(term) < PLACE(ANY_KEY) for term in terms]),
                    ),
                ),
            ]
        if view is not None:
            gone = _among(ANY_KEY, terms_as_keys(terms))
            stays = z3.And(RESIDENT(ANY_KEY), z3.Not(gone))
            blocks, listed = view.blocks, view.listed
            goals += [
                ("exactly the victims leave the cache", has(blocks, ANY_KEY) == stays),
                ("exactly the victims leave the list", has(listed, ANY_KEY) == z3.And(IDLE(ANY_KEY), z3.Not(gone))),
                (
                    "the others keep their order",
                    z3.Implies(
                        z3.And(has(listed, ANY_KEY), has(listed, OTHER_KEY)),
                        (place(listed, ANY_KEY) < place(listed, OTHER_KEY)) == (PLACE(ANY_KEY) < PLACE(OTHER_KEY)),
                    ),
                ),
                (
                    "ref_cnt and slots stay",
                    z3.Implies(
                        stays,
                        z3.And(
                            value(blocks, ANY_KEY, of=lambda block: term_of(block.ref_cnt)) == REF_CNT(ANY_KEY),
                            value(blocks, ANY_KEY, of=lambda block: term_of(getattr(block, view.block_id)))
                            == SLOT_OF(ANY_KEY),
                        ),
                    ),
                ),
            ]
    new = tuple(SKey(path.fresh("new", KEY)) for _ in range(asked))
    call = Call(calls.PREPARE_STORE, (*protected, *new))  # type: ignore[arg-type]
    # A manager that sees that there is too little room does not ask its policy.
    named = [term_of(key) for key in call.keys]
    fits = z3.And(eligible >= asked, _all_different(named), *(RESIDENT(term) for term in named[:size]))
    shown = z3.And(fits, *(z3.Not(RESIDENT(term)) for term in named[size:]))
    return End(goals, call=call, protected=size, shows_best=shown)


def terms_as_keys(terms: Sequence[Term]) -> list[SKey]:
    return [SKey(term) for term in terms]


# --- the lists ----------------------------------------------------------------------------------------------------

_MODEL_CALLS = (
    (calls.LOOKUP, "lookup", False),
    (calls.PREPARE_STORE, "prepare-store", True),
    (calls.COMPLETE_STORE, "complete-store", True),
    (calls.PREPARE_LOAD, "load", True),
    (calls.COMPLETE_LOAD, "unload", True),
    (calls.TOUCH, "touch", True),
    (calls.RESET_CACHE, "reset", False),
)

OF_MODEL: tuple[Statement, ...] = (
    Statement(
        "model-invariant-satisfiable",
        "the invariant holds in some state with an idle, a pinned and a pending key",
        _is_satisfiable,
        batches=False,
    ),
    Statement("model-begins-lawful", "the laws hold in the initial state", _begins, batches=False),
    Statement(
        "model-victims-first",
        "the order gives None if and only if too few unprotected evictable keys exist, otherwise the first of them",
        _victims_are_first,
    ),
    *(
        Statement(
            f"model-{name}-preserves-laws",
            f"{call} keeps every law of the state, takes only steps of the life cycle, and leaves other keys alone"
            + (
                "; refused if and only if there is no room; what a refusal leaves is what was"
                if call == calls.PREPARE_STORE
                else ""
            ),
            _keeps_laws(call),
            batches,
            call,
        )
        for call, name, batches in _MODEL_CALLS
    ),
)

OF_SUBJECT: tuple[Statement, ...] = (
    Statement(
        "invariant-satisfiable",
        "subject and model agree in some state with an idle, a pinned and a pending key",
        _is_satisfiable,
        batches=False,
    ),
    Statement("begins-as-the-model", "the initial state stands for the model's", _begins, batches=False),
    Statement(
        "evict-takes-the-first",
        "evict answers None, and changes nothing, if and only if too few unprotected evictable keys exist; "
        "otherwise the first of them leave, in order",
        _victims_are_first,
    ),
    *(
        Statement(
            f"{name}-refines-model",
            f"{call} answers and does what the model does, when no key is misplaced",
            _refines(call),
            batches,
            call,
        )
        for call, name, batches in (
            *_MODEL_CALLS,
            (calls.GET_STATS, "usage", False),
            (calls.ON_NEW_REQUEST, "announcement", False),
            (calls.ON_REQUEST_FINISHED, "finish", False),
        )
    ),
    Statement(
        "repeated-offer-counts-once",
        "prepare_store with a key named more than once does what the model does: it counts once",
        _withstands(calls.PREPARE_STORE),
        call=calls.PREPARE_STORE,
        sizes=lambda full: (2, 3) if full else (2,),
    ),
    Statement(
        "reset-drops-undrained-events",
        "reset_cache drops the events that were not drained: the consumer begins anew",
        _drops_events,
        batches=False,
        call=calls.RESET_CACHE,
    ),
    *(
        Statement(
            f"careless-{name}-changes-nothing",
            f"{call} with {what} raises and changes nothing, or acts as if that key had not been named",
            _withstands(call),
            True,
            call,
            may_refuse=True,
        )
        for call, name, what in (
            (calls.PREPARE_LOAD, "load", "an absent or pending key, among good ones or alone,"),
            (calls.COMPLETE_LOAD, "unload", "a key that the request is not loading, or not as often,"),
            (calls.COMPLETE_STORE, "complete-store", "a key that the request is not storing, or a repeated one,"),
        )
    ),
)
