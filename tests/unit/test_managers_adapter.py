"""One adapter for every era of the manager: what it asks, what it makes of the answers, what it can see."""

from __future__ import annotations

from collections import OrderedDict
from types import SimpleNamespace
from typing import Any

import pytest
from attrs import evolve
from seeded import DRAIN, RESET, STATS, announce, drain, failed, finish, load, loaded, lookup, offer, stored, touch

from evictable.impl import CPUOffloadingManager, LookupResult, ReqContext
from evictable.model.calls import Call, Drained, Event, Gauges, Loaded, Stored, key_bytes
from evictable.model.snapshot import Snapshot
from evictable.specs.errors import UsageError
from evictable.specs.subjects.base import Setup
from evictable.specs.subjects.builtin import BUILT_IN
from evictable.specs.subjects.managers import ManagerSubject, constructor_arguments


class Recorder:
    """Any manager: remembers how it was called and answers as it was told."""

    def __init__(self, **answers: Any) -> None:
        self.answers = answers
        self.calls: list[tuple[str, tuple[Any, ...]]] = []

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_") or (name not in self.answers and name in ("on_new_request", "get_stats", "events")):
            raise AttributeError(name)

        def method(*arguments: Any) -> Any:
            self.calls.append((name, arguments))
            return self.answers.get(name)

        return method


class Request:
    def __init__(self, req_id: str) -> None:
        self.req_id = req_id
        self.positions: dict[bytes, int] = {}

    def set_offload_key_position(self, key: bytes, position: int) -> None:
        self.positions[key] = position


def subject_of(**answers: Any) -> tuple[ManagerSubject, Recorder]:
    recorder = Recorder(**answers)
    return ManagerSubject(recorder, Request), recorder


RAW = {key: key_bytes(key) for key in (1, 2)}
SPEC = SimpleNamespace(block_ids=[4, 5])


@pytest.mark.parametrize(
    ("call", "name", "arguments"),
    [
        (lookup("r", 1), "lookup", (RAW[1],)),
        (offer("r", 1, 2), "prepare_store", ([RAW[1], RAW[2]],)),
        (load("r", 2), "prepare_load", ([RAW[2]],)),
        (loaded("r", 2, 1), "complete_load", ([RAW[2], RAW[1]],)),
        (touch("r", 1), "touch", ([RAW[1]],)),
        (finish("r"), "on_request_finished", ()),
    ],
    ids=str,
)
def test_how_the_manager_is_called(call: Call, name: str, arguments: tuple[Any, ...]) -> None:
    subject, recorder = subject_of(lookup=True, prepare_load=SPEC)
    subject.perform(call)
    ((called, (*positional, context)),) = recorder.calls
    assert (name, arguments, "r") == (called, tuple(positional), context.req_id)


@pytest.mark.parametrize(("call", "success"), [(stored("r", 1), True), (failed("r", 1), False)])
def test_whether_a_store_succeeded_is_passed_on(call: Call, success: bool) -> None:
    subject, recorder = subject_of()
    subject.perform(call)
    ((_, (keys, context, passed)),) = recorder.calls
    assert ([RAW[1]], "r", success) == (keys, context.req_id, passed)


def test_calls_of_nobody() -> None:
    subject, recorder = subject_of(take_events=())
    assert (None, Drained(())) == (subject.perform(RESET), subject.perform(DRAIN))
    assert [("reset_cache", ()), ("take_events", ())] == recorder.calls


@pytest.mark.parametrize(
    ("found", "answer"),
    [
        (True, "HIT"),
        (False, "MISS"),
        (None, "HIT_PENDING"),
        *((result, result.name) for result in LookupResult),
    ],
)
def test_what_a_lookup_found(found: Any, answer: str) -> None:
    assert answer == subject_of(lookup=found)[0].perform(lookup("r", 1))


class Array(list[int]):
    def tolist(self) -> list[int]:
        return list(self)


@pytest.mark.parametrize("block_ids", [[4, 5], Array([4, 5])])
def test_what_was_prepared(block_ids: Any) -> None:
    spec = SimpleNamespace(block_ids=block_ids)
    output = SimpleNamespace(keys_to_store=[RAW[1]], store_spec=spec, evicted_keys=iter([RAW[2], b"\xfe"]))
    subject, _ = subject_of(prepare_store=output, prepare_load=spec)
    assert Stored((1,), (4, 5), (2, "fe")) == subject.perform(offer("r", 1, 2))
    assert Loaded((4, 5)) == subject.perform(load("r", 1, 2))


def test_a_refusal() -> None:
    assert None is subject_of(prepare_store=None)[0].perform(offer("r", 1))


def test_a_request_is_one_object_until_it_is_announced_anew() -> None:
    subject, recorder = subject_of(lookup=True, on_new_request=None)
    for call in (announce("r"), lookup("r", 1), announce("r"), lookup("r", 1), lookup("s", 1)):
        subject.perform(call)
    contexts = [arguments[-1] for _, arguments in recorder.calls]
    assert [0, 0, 1, 1, 2] == [list(dict.fromkeys(map(id, contexts))).index(id(one)) for one in contexts]


def test_a_manager_without_hooks_is_not_told_of_requests() -> None:
    class Bare:
        def take_events(self) -> tuple[()]:
            return ()

    subject = ManagerSubject(Bare(), Request)
    assert (None, None, Gauges()) == tuple(map(subject.perform, (announce("r"), finish("r"), STATS)))


def test_positions_are_told_where_a_request_can_hold_them() -> None:
    placed = evolve(touch("r", 1, 2), positions=(7, None))
    subject, recorder = subject_of()
    subject.perform(placed)
    assert {RAW[1]: 7} == recorder.calls[0][1][-1].positions
    assert None is ManagerSubject(Recorder(), ReqContext).perform(placed)


def event(*keys: int, removed: bool = False, **more: Any) -> SimpleNamespace:
    return SimpleNamespace(keys=[key_bytes(key) for key in keys], removed=removed, **more)


@pytest.mark.parametrize(("call", "taken"), [(DRAIN, 3), (drain(1), 1), (drain(2), 2), (drain(5), 3)])
def test_a_drain_is_dropped_where_it_is_told_to_be(call: Call, taken: int) -> None:
    events = iter([event(1, medium="CPU"), event(2, removed=True), event(1, metadata_only=True)])
    subject, _ = subject_of(take_events=events)
    subject.perform(touch("r", 1, 2))
    expected = (Event(False, (1,), medium="CPU"), Event(True, (2,)), Event(False, (1,), metadata_only=True))
    assert Drained(expected[:taken]) == subject.perform(call)
    assert 3 - taken == len(list(events))


def test_a_manager_without_events_is_not_asked_for_any() -> None:
    recorder = Recorder(take_events=[event(1)])
    subject = ManagerSubject(recorder, Request, events=False)
    assert ([Drained(())] * 2, []) == ([subject.perform(call) for call in (DRAIN, drain(1))], recorder.calls)


def test_a_drain_of_nothing_is_not_begun() -> None:
    subject, recorder = subject_of(take_events=())
    assert (Drained(()), []) == (subject.perform(drain(0)), recorder.calls)


@pytest.mark.parametrize(
    ("data", "gauges"),
    [
        (None, Gauges()),
        ({"vllm:kv_offload_cpu_cache_usage_perc": 0.5}, Gauges(usage=0.5)),
        (
            {"data": {"vllm:kv_offload_cpu_cache_write_usage_perc": {("a",): 0.25}, "x:cpu_cache_usage_perc": {}}},
            Gauges(write_usage=0.25),
        ),
        ({"vllm:kv_offload_cpu_cache_read_usage_perc": 1.0, "something": "else"}, Gauges(read_usage=1.0)),
    ],
)
def test_figures_of_every_era(data: Any, gauges: Gauges) -> None:
    stats = None if data is None else SimpleNamespace(data=data)
    usages = subject_of(get_stats=stats)[0].perform(STATS)
    assert isinstance(usages, Gauges)
    assert (gauges.usage, gauges.write_usage, gauges.read_usage) == (
        usages.usage,
        usages.write_usage,
        usages.read_usage,
    )


# --- the inside -----------------------------------------------------------------------------------


def era(policy: dict[str, Any], **manager: Any) -> ManagerSubject:
    """A manager of two slots, one of which was used and given back."""
    inside = {"_free_list": [1], "_num_allocated_blocks": 2, "_num_blocks": 3, "events": None} | manager
    return ManagerSubject(SimpleNamespace(_policy=SimpleNamespace(**policy), **inside), Request)


def blocks(**ref_cnts: int) -> OrderedDict[bytes, Any]:
    """By the last digit of the name: the key, and its slot."""
    return OrderedDict(
        (key_bytes(int(name[-1])), SimpleNamespace(block_id=int(name[-1]), ref_cnt=ref_cnt))
        for name, ref_cnt in ref_cnts.items()
    )


def raws(*keys: int) -> list[bytes]:
    return [key_bytes(key) for key in keys]


def seen(subject: ManagerSubject, keys: tuple[int, ...] | None = None) -> Snapshot:
    for key in (0, 2, 5):
        subject._table.encode(key)
    shown = subject.snapshot(keys)
    assert shown is not None
    return shown


def test_one_list_and_no_counters() -> None:
    shown = seen(era({"blocks": blocks(b2=1, b0=0)}))
    assert (
        Snapshot(
            {2: 1, 0: 0},
            {2: 2, 0: 0},
            None,
            num_resident=2,
            num_free=2,
            full=True,
            free=(1,),
            handed_out=2,
            order=(2, 0),
        )
        == shown
    )


def test_an_evictable_list_with_counters_and_events() -> None:
    subject = era(
        {"blocks": blocks(b2=1, b0=0), "evictable_blocks": OrderedDict.fromkeys(raws(0))},
        _num_evictable_cache_blocks=1,
        _num_write_pending_blocks=0,
        events=[1, 2],
    )
    shown = seen(subject)
    assert ((0,), 1, 0, 2, (0,)) == (
        shown.evictable,
        shown.num_evictable,
        shown.num_pending,
        shown.num_events,
        shown.order,
    )


def test_ranks_are_shown_lowest_first() -> None:
    ranks = dict(zip(raws(2, 0, 5), (7, 3, 3), strict=True))
    policy = {"chunks": blocks(b2=0, b0=0, b5=1), "_evictable": set(raws(2, 0)), "_ranks": ranks}
    shown = seen(era(policy))
    assert ((0, 2), (0, 5, 2)) == (shown.evictable, shown.order)


def test_a_listed_key_without_a_rank_is_shown_all_the_same() -> None:
    shown = seen(era({"chunks": blocks(b2=0), "_evictable": set(raws(2, 0)), "_ranks": dict.fromkeys(raws(2), 1)}))
    assert (0, 2) == shown.evictable


def test_the_two_lists_and_ghosts_of_arc() -> None:
    policy = {"t1": blocks(b2=0), "t2": blocks(b0=1), "b1": raws(5), "b2": [], "target_t1_size": 0.5}
    shown = seen(era(policy))
    assert ({2: 0, 0: 1}, None, ((2,), (0,), (5,), (), 0.5)) == (shown.ref_cnt, shown.evictable, shown.order)
    assert {0: 1} == seen(era(policy), (0, 5)).ref_cnt
    assert 2 == shown.num_resident


def test_chunks_are_blocks_under_another_name() -> None:
    chunk = SimpleNamespace(chunk_id=1, ref_cnt=0)
    subject = ManagerSubject(
        SimpleNamespace(
            _policy=SimpleNamespace(chunks={key_bytes(2): chunk}, evictable_chunks={key_bytes(2): None}),
            _free_list=[],
            _num_allocated_chunks=2,
            _num_chunks=2,
            _num_evictable_cache_chunks=1,
        ),
        Request,
    )
    shown = seen(subject, (2,))
    assert ({2: 1}, {2}, 1, 0) == (shown.slots, shown.evictable, shown.num_evictable, shown.num_free)


def test_named_keys_are_looked_up_one_by_one() -> None:
    shown = seen(era({"blocks": blocks(b2=1, b0=0), "evictable_blocks": raws(0, 5)}), (0, 5))
    assert Snapshot({0: 0}, {0: 0}, {0, 5}, num_resident=2, num_free=2) == shown


@pytest.mark.parametrize(
    "manager", [object(), SimpleNamespace(_policy=None), SimpleNamespace(_policy=SimpleNamespace())]
)
def test_what_is_built_otherwise_shows_nothing(manager: Any) -> None:
    assert None is ManagerSubject(manager, Request).snapshot(None)


def test_a_look_changes_nothing() -> None:
    subject = BUILT_IN.make(Setup(3))
    for call in (announce("r"), offer("r", 1, 2), stored("r", 1)):
        subject.perform(call)
    assert subject.snapshot(None) == subject.snapshot(None)
    assert Drained((Event(False, (1,), medium="CPU"),)) == subject.perform(DRAIN)


# --- construction ---------------------------------------------------------------------------------


def newest(num_chunks: int, cache_policy: str, enable_events: bool, store_threshold: int, max_tracker_size: int) -> Any:
    """vLLM from 0.30."""


def small(capacity: int) -> Any:
    """As little as can be asked."""


def untracked(num_blocks: int, store_threshold: int) -> Any:
    """Has no table of counts to bound."""


def anything(**arguments: Any) -> Any:
    """Takes whatever comes."""


PLAIN = Setup(2, "arc", events=False)
TRACKING = Setup(2, store_threshold=3, max_tracker_size=9)
SIZE = "a manager factory takes num_blocks (or num_chunks), and where it has them cache_policy and enable_events"


@pytest.mark.parametrize(
    ("factory", "setup", "arguments"),
    [
        (newest, PLAIN, {"num_chunks": 2, "cache_policy": "arc", "enable_events": False}),
        (CPUOffloadingManager, PLAIN, {"num_blocks": 2, "cache_policy": "arc", "enable_events": False}),
        (small, Setup(2), {"capacity": 2}),
        (small, Setup(2, events=False), {"capacity": 2}),
        (anything, PLAIN, {"num_blocks": 2, "cache_policy": "arc", "enable_events": False}),
        (
            newest,
            TRACKING,
            {
                "num_chunks": 2,
                "cache_policy": "lru",
                "enable_events": True,
                "store_threshold": 3,
                "max_tracker_size": 9,
            },
        ),
        (untracked, TRACKING, {"num_blocks": 2, "store_threshold": 3}),
        (
            anything,
            TRACKING,
            {
                "num_blocks": 2,
                "cache_policy": "lru",
                "enable_events": True,
                "store_threshold": 3,
                "max_tracker_size": 9,
            },
        ),
    ],
)
def test_what_a_factory_is_given(factory: Any, setup: Setup, arguments: dict[str, Any]) -> None:
    assert arguments == constructor_arguments(factory, setup, "mine:make")


@pytest.mark.parametrize(
    ("factory", "setup", "message"),
    [
        (lambda: None, PLAIN, SIZE),
        (dict, PLAIN, SIZE),
        (small, PLAIN, "takes no cache_policy; leave out --policy, or give the factory the argument"),
        (untracked, PLAIN, "takes no cache_policy; leave out --policy, or give the factory the argument"),
        (small, TRACKING, "takes no store_threshold; leave out --store-threshold, or give the factory the argument"),
    ],
)
def test_what_is_no_factory(factory: Any, setup: Setup, message: str) -> None:
    with pytest.raises(UsageError) as raised:
        constructor_arguments(factory, setup, "mine:make")
    assert f"mine:make: {message}" == str(raised.value)


def test_what_is_no_slot_in_the_free_list_is_shown_as_none() -> None:
    manager = CPUOffloadingManager(2)
    manager._free_list.append(iter(()))  # type: ignore[arg-type]
    shown = ManagerSubject(manager, ReqContext).snapshot(None)
    assert shown is not None
    assert (-1,) == shown.free
