"""The subject above scripted tiers: how it is built, what it calls, and what it makes of the answers."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from seeded import DRAIN, RESET, STATS, announce, drain, load, lookup, offer, stored

from evictable.impl import CPUOffloadingManager, LookupResult, ReqContext
from evictable.impl.tiering.base import SecondaryTierManager
from evictable.model import calls
from evictable.model.calls import Call, Drained, Event, Gauges, Key, Loaded, Stored
from evictable.model.exchanges import Asked, Reserved
from evictable.specs.errors import UsageError
from evictable.specs.subjects.base import Setup
from evictable.specs.subjects.factory import from_factory
from evictable.specs.subjects.scripted import Script, scripted_tiers
from evictable.specs.subjects.tiers import TieredSubject, tiered_subject

END = Call(calls.ON_SCHEDULE_END)


class Primary(CPUOffloadingManager):
    def __init__(self, num_blocks: int, cache_policy: str = "lru", enable_events: bool = False, **memory: Any) -> None:
        super().__init__(num_blocks, cache_policy, enable_events)
        self.memory = memory

    def prepare_write(self, keys: Any, req_context: Any) -> Any:
        return self.prepare_store(keys, req_context)


class Tiny:
    """A manager that looks no further than its first tier, and promotes nothing before it is asked to load."""

    def __init__(self, primary_tier: Any, secondary_tiers: Any) -> None:
        self.primary_tier = primary_tier
        self.tiers = secondary_tiers
        self.ended: list[tuple[Any, ...]] = []
        self.after_step: Callable[[], object] = lambda: None

    def __getattr__(self, name: str) -> Any:
        return getattr(self.__dict__["primary_tier"], name)

    def lookup(self, key: bytes, req_context: Any) -> Any:
        found = self.primary_tier.lookup(key, req_context)
        return found if found is not LookupResult.MISS else self.tiers[0].lookup(key, req_context)

    def prepare_load(self, keys: Any, req_context: Any) -> Any:
        return self.primary_tier.prepare_write(keys, req_context).store_spec

    def on_schedule_end(self) -> None:
        self.ended.append(())
        self.after_step()


class Ending(Tiny):
    def on_schedule_end(self, context: Any) -> None:  # type: ignore[override]
        self.ended.append((context,))


class Plain(Tiny):
    """As to 0.24, it has one word for two things."""

    def lookup(self, key: bytes, req_context: Any) -> Any:
        words = {LookupResult.HIT: True, LookupResult.MISS: False}
        return words.get(super().lookup(key, req_context))


class Draining(Tiny):
    """As 0.22: taking events ends the step."""

    def __getattribute__(self, name: str) -> Any:
        if name == "on_schedule_end":
            raise AttributeError(name)
        return super().__getattribute__(name)

    def __getattr__(self, name: str) -> Any:
        if name == "on_schedule_end":
            raise AttributeError(name)
        return super().__getattr__(name)

    def take_events(self) -> Iterator[Any]:
        self.ended.append(())
        yield from self.primary_tier.take_events()


def subject_of(kind: type[Tiny] = Tiny, **options: Any) -> tuple[TieredSubject, Any]:
    script = Script(Setup(2, tiers=1), ReqContext)
    tiers = scripted_tiers(SecondaryTierManager, script, None)
    manager = kind(Primary(2, enable_events=True), tiers)
    return TieredSubject(manager, script, ReqContext, **options), manager


def fill(*keys: Key) -> Call:
    return Call(calls.FILL_TIER, keys, tier=0)


def delay(*keys: Key) -> Call:
    return Call(calls.DELAY_TIER, keys, tier=0)


def performed(subject: TieredSubject, *all_calls: Call) -> Any:
    """The answer to the last of the calls."""
    return [subject.perform(call) for call in all_calls][-1]


def test_exchanges_are_those_of_the_latest_call() -> None:
    subject, _ = subject_of()
    assert () == subject.exchanges()
    assert calls.HIT == performed(subject, announce("r"), fill(1), lookup("r", 1))
    assert (Asked(0, 1, calls.HIT),) == subject.exchanges()
    assert Loaded((0,)) == performed(subject, load("r", 1))
    assert (Reserved((1,), (0,)),) == subject.exchanges()
    subject.perform(END)
    assert () == subject.exchanges()


def test_it_looks_into_the_primary_tier() -> None:
    subject, _ = subject_of()
    assert Stored((1,), (0,), ()) == performed(subject, announce("r"), offer("r", 1))
    seen = subject.snapshot(None)
    assert seen is not None
    assert ({1: -1}, {1: 0}) == (seen.ref_cnt, seen.slots)


def test_a_delay_ends_with_the_step() -> None:
    subject, manager = subject_of()
    asked = (lookup("r", 1), lookup("r", 1))
    assert calls.RETRY == performed(subject, announce("r"), fill(1), delay(1), *asked)
    assert calls.HIT == performed(subject, END, lookup("r", 1))
    subject.perform(delay(1))
    manager.after_step = {}.popitem
    with pytest.raises(KeyError):
        subject.perform(END)
    assert calls.HIT == performed(subject, lookup("r", 1))


@pytest.mark.parametrize(
    ("kind", "given"), [(Tiny, ()), (Ending, (SimpleNamespace(new_req_ids=[], preempted_req_ids=()),))]
)
def test_the_end_of_a_step_has_a_context_where_it_takes_one(kind: type[Tiny], given: tuple[Any, ...]) -> None:
    subject, manager = subject_of(kind)
    assert performed(subject, END) is None
    assert [given] == manager.ended


@pytest.mark.parametrize(
    ("before", "key", "answer"),
    [
        ((), 1, calls.MISS),
        ((fill(1),), 1, calls.HIT),
        ((delay(1),), 1, calls.RETRY),
        ((offer("r", 1),), 1, calls.HIT_PENDING),
        ((offer("r", 1), stored("r", 1)), 1, calls.HIT),
    ],
)
def test_what_a_look_up_without_words_means(before: tuple[Call, ...], key: Key, answer: str) -> None:
    subject, _ = subject_of(Plain)
    assert answer == performed(subject, announce("r"), *before, lookup("r", key))


def test_events_that_the_end_of_a_step_has_drained_come_with_the_next_drain() -> None:
    subject, manager = subject_of(Draining)
    performed(subject, announce("r"), offer("r", 1, 2), stored("r", 1), END, stored("r", 2))
    assert 1 == len(manager.ended)
    seen = subject.snapshot(())
    assert seen is not None
    assert 2 == seen.num_events
    first, second = (Event(False, (key,), medium="CPU") for key in (1, 2))
    assert Drained((first,)) == performed(subject, drain(1))
    assert Drained((second,)) == performed(subject, DRAIN)
    assert Drained(()) == performed(subject, DRAIN)


def test_after_a_reset_nothing_is_in_flight() -> None:
    subject, manager = subject_of()
    flushed: list[int] = []
    manager.on_reset_flushed = lambda: flushed.append(1)
    assert performed(subject, announce("r"), offer("r", 1), RESET) is None
    assert [1] == flushed
    assert calls.MISS == performed(subject, lookup("r", 1))


def test_of_the_figures_only_the_usages_are_those_of_one_tier() -> None:
    subject, _ = subject_of()
    told = performed(subject, announce("r"), offer("r", 1), STATS)
    assert Gauges(usage=0.5, write_usage=0.5, read_usage=0.0) == told


def module(**other: Any) -> Any:
    given = {
        "CPUPrimaryTierOffloadingManager": Primary,
        "TieringOffloadingManager": Tiny,
        "SecondaryTierManager": SecondaryTierManager,
    }
    return SimpleNamespace(__name__="tiering", **{name: it for name, it in {**given, **other}.items() if it})


class WithView(Primary):
    def __init__(self, num_blocks: int, enable_events: bool = False, kv_memoryview: Any = None) -> None:
        super().__init__(num_blocks, "lru", enable_events, view=kv_memoryview)


class WithRegion(Primary):
    def __init__(self, num_blocks: int, mmap_region: Any, enable_events: bool = False) -> None:
        super().__init__(num_blocks, "lru", enable_events, view=mmap_region.create_kv_memoryview())


class Polling(Tiny):
    def __init__(self, primary_tier: Any, secondary_tiers: Any, enable_events: bool, tier_poll_interval_s: float):
        super().__init__(primary_tier, secondary_tiers)
        self.options = (enable_events, tier_poll_interval_s)


@pytest.mark.parametrize("primary", [WithView, WithRegion])
def test_all_tiers_see_the_memory_of_the_primary_one(primary: type[Primary]) -> None:
    tiering = module(CPUPrimaryTierOffloadingManager=primary)
    manager = tiered_subject("it", Setup(3, tiers=2), tiering, ReqContext)._manager
    view = manager.primary_tier.memory["view"]
    assert ((3, 1), (1, 1), 2) == (view.shape, view.strides, len(manager.tiers))
    assert all(tier.primary_kv_view is view for tier in manager.tiers)


def test_options_that_not_every_manager_has() -> None:
    subject = tiered_subject("it", Setup(3, tiers=1), module(TieringOffloadingManager=Polling), ReqContext)
    assert (True, 0) == subject._manager.options


@pytest.mark.parametrize(
    ("tiering", "setup", "message"),
    [
        (module(), Setup(2, tiers=1, store_threshold=2), "there is no store threshold above tiers; leave out"),
        (module(), Setup(2, "mine", tiers=1), r"Primary\(.*cache_policy='mine'.*\) raised ValueError"),
        (module(SecondaryTierManager=None), Setup(2, tiers=1), "its module tiering has no SecondaryTierManager"),
    ],
)
def test_what_cannot_be_built(tiering: Any, setup: Setup, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        tiered_subject("it", setup, tiering, ReqContext)


SOURCE = """
from test_tiered_subject import Primary, Tiny

def without(num_blocks, enable_events):
    return Primary(num_blocks)

def with_tiers(num_blocks, enable_events, secondary_tiers):
    return Tiny(Primary(num_blocks, enable_events=enable_events), secondary_tiers)

def swallowing(num_blocks, **more):
    return Primary(num_blocks)
"""


@pytest.fixture
def my_tiers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    (tmp_path / "my_tiers.py").write_text(SOURCE)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    yield
    sys.modules.pop("my_tiers", None)


@pytest.mark.usefixtures("my_tiers")
def test_a_factory_is_given_tiers() -> None:
    subject = from_factory("my_tiers:with_tiers").make(Setup(2, tiers=1))
    for call in (announce("r"), fill(1)):
        subject.perform(call)
    assert calls.HIT == subject.perform(lookup("r", 1))
    assert (Asked(0, 1, calls.HIT),) == subject.exchanges()


@pytest.mark.usefixtures("my_tiers")
@pytest.mark.parametrize(
    ("factory", "threshold", "message"),
    [
        ("without", 1, "takes no secondary_tiers; leave out --tiers, or give the factory the argument"),
        ("swallowing", 1, r"what it returns \(Primary\) has no method primary_tier\.prepare_write;"),
        ("swallowing", 2, "there is no store threshold above tiers"),
    ],
)
def test_a_factory_that_is_not_for_tiers(factory: str, threshold: int, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        from_factory(f"my_tiers:{factory}").make(Setup(2, tiers=1, store_threshold=threshold))
