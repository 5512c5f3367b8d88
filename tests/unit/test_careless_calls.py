"""What a careless call may come to: a refusal that changes nothing, or the call without what was bad in it."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest
from seeded import (
    DRAIN,
    RESET,
    STATS,
    Puppet,
    announce,
    failed,
    finish,
    holding,
    judged,
    laws,
    load,
    loaded,
    lookup,
    offer,
    outcomes,
    stored,
    touch,
)

from evictable.model import calls
from evictable.model.calls import Answer, Call, Key, Loaded, Raised, Stored

PINNED = (*holding(1, 2), load("r1", 1))
STORING = (*holding(1), offer("r1", 2))


class Skips(Puppet):
    """Acts as if the bad keys had not been named."""

    def perform(self, call: Call) -> Answer:
        bad = self.model.misplaced(call)
        good = tuple(key for place, key in enumerate(call.keys) if place not in bad)
        return super().perform(call.with_keys(good))


class Unguarded(Puppet):
    """Does what it is told, block by block, and asks nothing."""

    def perform(self, call: Call) -> Answer:
        model, keys = self.model, call.keys
        if call.name == calls.PREPARE_STORE:
            new = [key for key in keys if key not in model.ref_cnt]
            slots = model._lowest_free(len(new))
            model.perform(call)
            model.slots.update(zip(new, slots, strict=True))
            return Stored(tuple(new), slots, ())
        if call.name == calls.PREPARE_LOAD:
            for key in keys:
                self._count(key, 1)
            return Loaded(tuple(model.slots[key] for key in keys))
        if call.name == calls.COMPLETE_LOAD:
            for key in keys:
                self._count(key, -1)
            return None
        if call.name == calls.COMPLETE_STORE:
            waiting = tuple(key for key in dict.fromkeys(keys) if model.ref_cnt.get(key) == -1)
            return super().perform(Call(call.name, waiting, model.stores.get(keys[0]), success=call.success))
        return super().perform(call)

    def _count(self, key: Key, by: int) -> None:
        model = self.model
        was = model.ref_cnt[key]
        model.ref_cnt[key] += by
        if was == 0:
            model.order.busy(key)
        if model.ref_cnt[key] == 0:
            model.order.idle(key)


MISPLACED = {
    "a key twice in an offer": ((*holding(1), offer("r1", 2, 2)), ["answer", "slots-conserved"]),
    "an absent key in a load": ((*holding(1), load("r2", 1, 9)), ["all-or-nothing"]),
    "a pending key in a load": ((*STORING, load("r2", 1, 2)), ["legal-step"]),
    "somebody else's store": ((*STORING, stored("r2", 2)), ["owner-completes"]),
    "somebody else's store, failed": ((*STORING, failed("r2", 2)), ["owner-completes"]),
    "somebody else's load": ((*PINNED, loaded("r2", 1)), ["owner-completes"]),
    "a store ended again": ((*holding(1), stored("r1", 1)), []),
    "a store ended twice in a call": ((*STORING, stored("r1", 2, 2)), []),
    "a store of nothing": ((*holding(1), stored("r1", 9)), []),
    "a load ended again": ((*PINNED, loaded("r1", 1), loaded("r1", 1)), ["owner-completes", "legal-step"]),
    "a load ended too often in a call": ((*PINNED, load("r2", 1), loaded("r1", 1, 1)), ["owner-completes"]),
    "a load of nothing": ((*PINNED, loaded("r1", 9)), []),
    "a store reported late": ((*STORING, RESET, announce("r9"), offer("r9", 2), stored("r1", 2)), ["owner-completes"]),
    "a load reported late": (
        (*PINNED, RESET, offer("r2", 1), stored("r2", 1), load("r2", 1), loaded("r1", 1)),
        ["owner-completes"],
    ),
}


@pytest.mark.parametrize(("sequence", "_"), MISPLACED.values(), ids=MISPLACED.keys())
def test_raising_with_nothing_changed_is_fine(sequence: Sequence[Call], _: list[str]) -> None:
    session = judged(Puppet, sequence)
    assert ((), Raised("ValueError")) == (session.broken, outcomes(session)[-1])


@pytest.mark.parametrize(("sequence", "_"), MISPLACED.values(), ids=MISPLACED.keys())
def test_acting_as_if_the_bad_keys_had_not_been_named_is_fine(sequence: Sequence[Call], _: list[str]) -> None:
    session = judged(Skips, sequence)
    assert ((), False) == (session.broken, isinstance(outcomes(session)[-1], Raised))


@pytest.mark.parametrize(("sequence", "broken"), MISPLACED.values(), ids=MISPLACED.keys())
def test_anything_else_is_not(sequence: Sequence[Call], broken: list[str]) -> None:
    session = judged(Unguarded, sequence)
    assert (len(sequence), set()) == (len(session.records), set(broken) - set(laws(session.broken)))
    assert bool(broken) == bool(session.broken)


class Refuses(Puppet):
    """Raises on the last call of a test, having changed what it is told to."""

    at = 0
    made = 0
    changing: Callable[[Puppet], None] = staticmethod(lambda puppet: None)

    def perform(self, call: Call) -> Answer:
        self.made += 1
        if self.made == self.at:
            self.changing(self)
            raise RuntimeError("no")
        return super().perform(call)


def refused(sequence: Sequence[Call], changing: Callable[[Puppet], None] = lambda puppet: None) -> list[str]:
    class RefusesLast(Refuses):
        at = len(sequence)

    RefusesLast.changing = staticmethod(changing)
    return laws(judged(RefusesLast, sequence).broken)


CARELESS_CALLS = {
    "an offer by nobody": (*holding(1), offer("r9", 2)),
    "an offer after the finish": (*holding(1), finish("r1"), offer("r1", 2)),
    "a request twice": (*holding(1), announce("r1")),
    "the name of a finished request": (*holding(1), finish("r1"), announce("r1")),
    "a second finish": (*holding(1), finish("r1"), finish("r1")),
    "a key twice in a load": (*holding(1), load("r1", 1, 1)),
    "a key twice in a touch": (*holding(1), touch("r1", 1, 1)),
    "a reset with a load in flight": (*PINNED, DRAIN, RESET),
    "a reset with events undrained": (*holding(1), RESET),
}
CAREFUL_CALLS = {
    "an offer": (*holding(1), offer("r1", 2)),
    "a load": (*holding(1), load("r2", 1)),
    "an end of a load": (*PINNED, finish("r1"), loaded("r1", 1)),
    "a lookup": (*holding(1), lookup("r2", 1)),
    "a request": (*holding(1), announce("r3")),
    "a reset": (*holding(1), DRAIN, RESET),
    "a drain": (*holding(1), DRAIN),
    "a look at the figures": (*holding(1), STATS),
}


@pytest.mark.parametrize("sequence", CARELESS_CALLS.values(), ids=CARELESS_CALLS.keys())
def test_a_careless_call_may_be_refused_or_carried_out(sequence: Sequence[Call]) -> None:
    assert ([], []) == (refused(sequence), laws(judged(Puppet, sequence).broken))


@pytest.mark.parametrize("sequence", CARELESS_CALLS.values(), ids=CARELESS_CALLS.keys())
def test_but_a_refusal_changes_nothing(sequence: Sequence[Call]) -> None:
    assert "all-or-nothing" in refused(sequence, lambda puppet: puppet.queue.clear() or puppet.model.reset_cache())


@pytest.mark.parametrize("sequence", CAREFUL_CALLS.values(), ids=CAREFUL_CALLS.keys())
def test_a_careful_call_must_not_be_refused(sequence: Sequence[Call]) -> None:
    assert "answer" in refused(sequence)


@pytest.mark.parametrize(
    ("call", "expected"),
    [
        (lookup("r2", 1), "HIT"),
        (offer("r2", 2, 3), "store [2, 3], evicting []"),
        (offer("r2", 2, 3, 4, 1), "None"),
        (load("r2", 1), "an answer: every key is named as it may be"),
    ],
    ids=str,
)
def test_a_refusal_is_told_with_what_is_right(call: Call, expected: str) -> None:
    class RefusesLast(Refuses):
        at = 5

    (first, *_) = [one for one in judged(RefusesLast, (*holding(1), call)).broken if one.law.id == "answer"]
    assert (expected, "raises RuntimeError: no") == (first.difference.expected, first.difference.observed)
