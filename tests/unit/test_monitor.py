"""The monitor on a live manager: silent while all is right, and heard within the call that makes a defect visible."""

from __future__ import annotations

import logging
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from evictable.impl import CPUOffloadingManager, ReqContext
from evictable.impl.errors import KeyNotResident, MismatchedMark
from evictable.model import trace as traces
from evictable.specs.counterexamples import judge_recorded
from evictable.specs.errors import UsageError
from evictable.specs.monitor import LEVELS, Violation, watch
from evictable.specs.monitor.plugin import read_settings

REQUEST = ReqContext("r1")


def keys(*numbers: int) -> list[bytes]:
    return [number.to_bytes(8, "big") + bytes(4) for number in numbers]


def manager(capacity: int = 4, policy: str = "lru") -> Any:
    return CPUOffloadingManager(capacity, policy, enable_events=True)


def store(live: Any, *numbers: int, request: ReqContext = REQUEST) -> None:
    stored = live.prepare_store(keys(*numbers), request)
    live.complete_store(stored.keys_to_store, request)


def everything(live: Any) -> list[Any]:
    """Every call, refusals and misuse included; what they come to."""
    told: list[Any] = []
    live.on_new_request(REQUEST)
    store(live, 0, 1, 2)
    told.append(live.lookup(keys(0)[0], REQUEST).name)
    told.append(list(live.prepare_load(keys(0, 1), REQUEST).block_ids))
    live.prepare_load(keys(0), REQUEST)
    live.touch(keys(0, 9), REQUEST)
    told.append(live.prepare_store(keys(3, 4, 5, 6), REQUEST))
    with pytest.raises(KeyNotResident):
        live.prepare_load(keys(0, 9), REQUEST)
    live.complete_load(keys(0), REQUEST)
    live.complete_load(keys(0, 1), REQUEST)
    told.append(live.prepare_store(keys(5, 1, 6), REQUEST).evicted_keys)
    live.complete_store(keys(5), REQUEST, False)
    live.complete_store(keys(6), REQUEST, success=True)
    live.on_request_finished(REQUEST)
    live.reset_cache()
    store(live, 7)
    return told


@pytest.mark.parametrize("policy", ["lru", "arc"])
@pytest.mark.parametrize("level", LEVELS)
def test_nothing_is_heard_while_all_is_right(level: str, policy: str) -> None:
    live = manager(policy=policy)
    with watch(live, level=level) as monitor:
        assert everything(manager(policy=policy)) == everything(live)
    assert ([], None) == (monitor.violations, monitor.failure)


def test_closing_gives_the_methods_back() -> None:
    live = manager()
    monitor = watch(live)
    assert "prepare_store" in vars(live)
    monitor.close()
    assert "prepare_store" not in vars(live)


def leaks_a_pin(live: Any) -> None:
    act = live.prepare_load

    def prepare_load(wanted: Any, context: Any) -> Any:
        answer = act(wanted, context)
        live._policy.get(wanted[0]).ref_cnt += 1
        return answer

    live.prepare_load = prepare_load


def forgets_to_list(live: Any) -> None:
    act = live.complete_store

    def complete_store(wanted: Any, context: Any, success: bool = True) -> None:
        act(wanted, context, success)
        live._policy.evictable_blocks.pop(wanted[0])

    live.complete_store = complete_store


def miscounts(live: Any) -> None:
    act = live.complete_store

    def complete_store(wanted: Any, context: Any, success: bool = True) -> None:
        act(wanted, context, success)
        live._num_evictable_cache_blocks += 1

    live.complete_store = complete_store


def answers_another_slot(live: Any) -> None:
    act = live.prepare_load

    def prepare_load(wanted: Any, context: Any) -> Any:
        answer = act(wanted, context)
        answer.block_ids[0] ^= 1
        return answer

    live.prepare_load = prepare_load


def misplaces(live: Any) -> None:
    act = live.prepare_store

    def prepare_store(wanted: Any, context: Any) -> Any:
        answer = act(wanted, context)
        live._policy.get(wanted[-1]).block_id += 1
        return answer

    live.prepare_store = prepare_store


Patch = Callable[[Any], None]
FOUND: list[tuple[Patch, str, str, str]] = [
    (miscounts, "counters", "counters-agree", "complete_store"),
    (miscounts, "readback", "counters-agree", "complete_store"),
    (leaks_a_pin, "touched", "legal-step", "prepare_load"),
    (answers_another_slot, "touched", "answer", "prepare_load"),
    (misplaces, "touched", "slots-conserved", "prepare_store"),
    (forgets_to_list, "readback", "evictable-iff-idle", "complete_store"),
]


def test_a_block_that_has_moved_is_heard_when_it_is_touched_among_others() -> None:
    live = manager()
    store(live, 0, 1)
    monitor = watch(live)
    one, other = map(live._policy.get, keys(0, 1))
    one.block_id, other.block_id = other.block_id, one.block_id
    live.touch(keys(0, 1), REQUEST)
    assert [("slots-conserved", "touch")] == [(found.law, found.call) for found in monitor.violations]


def test_counters_report_after_a_completion_too_many() -> None:
    live = manager(8)
    store(live, 0)
    live.complete_store = lambda wanted, context, success=True: None  # takes any key
    monitor = watch(live, level="counters")
    live.complete_store(keys(9), REQUEST)
    live.prepare_store(keys(9), REQUEST)
    live._num_evictable_cache_blocks += 1
    live.prepare_store(keys(8), REQUEST)
    assert (["counters-agree"], None) == ([found.law for found in monitor.violations], monitor.failure)


def test_a_store_that_is_miscounted_is_dumped_after_a_full_ring() -> None:
    live = manager(8)
    act = live.prepare_store

    def prepare_store(wanted: Any, context: Any) -> Any:
        live._num_evictable_cache_blocks += len(wanted) - 1
        return act(wanted, context)

    live.prepare_store = prepare_store
    monitor = watch(live, level="counters", last=4)
    for number in range(20):
        store(live, number)
    live.prepare_store(keys(100, 101), REQUEST)
    assert (1, None) == (len(monitor.violations), monitor.failure)
    assert 4 <= len(monitor.violations[0].trace.entries)


@pytest.mark.parametrize("several", [(0,), (0, 1)], ids=["one key", "two keys"])
@pytest.mark.parametrize(("patch", "level", "law", "call"), FOUND)
def test_a_defect_is_heard_within_its_call(
    patch: Patch, level: str, law: str, call: str, several: tuple[int, ...]
) -> None:
    live = manager()
    patch(live)
    heard: list[tuple[str, str, str]] = []
    made = "nothing"
    watch(live, level=level, on_violation=lambda found: heard.append((made, found.call, found.law)))
    made = "prepare_store"
    live.prepare_store(keys(*several), REQUEST)
    made = "complete_store"
    live.complete_store(keys(*several), REQUEST)
    made = "prepare_load"
    with suppress(MismatchedMark):  # what comes of it
        live.prepare_load(keys(*several), REQUEST)
    assert [(call, call, law)] == heard


def test_the_levels_differ() -> None:
    for level, number in (("counters", 0), ("touched", 0), ("readback", 1)):
        live = manager()
        forgets_to_list(live)
        monitor = watch(live, level=level)
        store(live, 0)
        assert number == len(monitor.violations)


def test_it_begins_in_the_middle_of_a_life() -> None:
    live = manager()
    store(live, 0, 1)
    live.prepare_load(keys(1), REQUEST)
    live.prepare_store(keys(2), REQUEST)
    monitor = watch(live, level="readback")
    live.complete_store(keys(2), REQUEST)
    live.complete_load(keys(1), REQUEST)
    assert [] == monitor.violations
    trace = monitor.trace()
    assert {"before", "r1"} == {call.request for call in trace.calls}
    assert () == judge_recorded(trace, "any")


def test_the_latest_calls_can_be_replayed() -> None:
    live = manager(8)
    monitor = watch(live, level="readback", last=5)
    for number in range(40):
        store(live, number, request=ReqContext(f"r{number}"))
    trace = monitor.trace()
    pairs = [(call.name, call.request) for call in trace.calls[-5:]]
    stores = [(name, f"r{number}") for number in (37, 38, 39) for name in ("prepare_store", "complete_store")]
    assert stores[1:] == pairs
    assert () == judge_recorded(trace, "any")


def test_what_is_wrong_already_is_told_at_once() -> None:
    live = manager()
    store(live, 0)
    live._num_evictable_cache_blocks = 7
    assert ["counters-agree"] == [found.law for found in watch(live).violations]


@pytest.mark.parametrize("slot", [0, 9], ids=["another's", "none of the pool's"])
def test_slots_that_contradict_each_other_are_told_and_cannot_be_followed(slot: int) -> None:
    live = manager()
    store(live, 0, 1)
    live._policy.get(keys(1)[0]).block_id = slot
    monitor = watch(live, most=2)
    (found,) = monitor.violations
    assert ("slots-conserved", "", False) == (found.law, found.call, monitor.watching)
    assert "its slots cannot be followed" in str(monitor.failure)


def test_log_counter_and_trace(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    prometheus = pytest.importorskip("prometheus_client")
    registry = prometheus.CollectorRegistry()
    live = manager()
    leaks_a_pin(live)
    monitor = watch(live, prometheus=registry, dump_dir=tmp_path / "traces")
    with caplog.at_level(logging.ERROR, "evictable.monitor"):
        store(live, 0)
        live.prepare_load(keys(0), REQUEST)
    (found,) = monitor.violations
    (line,) = caplog.messages
    assert line.startswith("evictable: legal-step broken in prepare_load: expected ref_cnt 1 ")
    assert line.endswith(f"evictable shrink {found.path}")
    labels = {"law": "legal-step", "level": "touched"}
    assert 1.0 == registry.get_sample_value("evictable_violations_total", labels)
    assert found.path is not None
    with found.path.open() as lines:
        trace = traces.read(lines)
    assert ("legal-step", "impl") == (trace.head.law, trace.head.subject)
    assert "legal-step" in [broken.law.id for broken in judge_recorded(trace, "any")]


def test_it_says_in_a_line_what_it_is() -> None:
    monitor = watch(manager())
    assert "<Monitor of impl: watching, level touched, 0 violations>" == str(monitor)
    monitor.close()
    assert "<Monitor of impl: off, level touched, 0 violations>" == repr(monitor)


def test_the_advice_for_what_a_script_defines(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    live = manager()
    leaks_a_pin(live)
    watch(live, dump_dir=tmp_path, subject="__main__:Mine")
    with caplog.at_level(logging.ERROR, "evictable.monitor"):
        store(live, 0)
        live.prepare_load(keys(0), REQUEST)
    remedy = " --subject MODULE:FACTORY, what builds such a manager: Mine is out of reach of another process"
    assert caplog.messages[0].endswith(remedy)


def test_after_the_last_one_the_manager_is_left_alone() -> None:
    live = manager()
    leaks_a_pin(live)
    monitor = watch(live, most=2)
    store(live, 0)
    for left in (True, False):
        live.prepare_load(keys(0), REQUEST)
        assert left is monitor.watching
    assert 2 == len(monitor.violations)


def test_a_known_law_can_be_ignored() -> None:
    live = manager()
    leaks_a_pin(live)
    monitor = watch(live, ignore=("legal-step",))
    store(live, 0)
    live.prepare_load(keys(0), REQUEST)
    assert [] == monitor.violations
    assert monitor.watching


def test_what_the_callback_raises_goes_through() -> None:
    def refuse(found: Violation) -> None:
        raise AssertionError(found.law)

    live = manager()
    leaks_a_pin(live)
    watch(live, on_violation=refuse)
    store(live, 0)
    with pytest.raises(AssertionError, match="legal-step"):
        live.prepare_load(keys(0), REQUEST)


def test_a_fault_of_its_own_does_not_reach_the_caller() -> None:
    live = manager()
    monitor = watch(live)
    live._free_list = None  # nothing that the calls below need
    live.touch(keys(0), REQUEST)
    assert isinstance(monitor.failure, TypeError)
    assert not monitor.watching


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"level": "all"}, "unknown level 'all'; known: counters, touched, readback"),
        ({"ignore": ("x",)}, "unknown law 'x' to ignore"),
        ({"last": 0}, "last and most are at least 1"),
    ],
)
def test_bad_arguments(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(UsageError, match=message.replace("(", ".")):
        watch(manager(), **arguments)


def test_a_manager_of_another_build_is_refused() -> None:
    with pytest.raises(UsageError, match="its inside is not built like that"):
        watch(object())


def test_settings_of_the_plug_in() -> None:
    settings = read_settings({"EVICTABLE_MONITOR": "counters", "EVICTABLE_MONITOR_DIR": "/t"})
    assert {"level": "counters", "last": None, "dump_dir": "/t", "prometheus": None, "ignore": ()} == settings
    for wrong in ({"EVICTABLE_MONITOR": "x"}, {"EVICTABLE_MONITOR": "counters", "EVICTABLE_MONITOR_LAST": "0"}):
        with pytest.raises(UsageError, match=r"known:|at least 1"):
            read_settings(wrong)


def test_a_manager_that_guards_its_attributes_gets_its_methods_back() -> None:
    class Guarded(CPUOffloadingManager):
        def __delattr__(self, name: str) -> None:
            raise RuntimeError(name)

    live = Guarded(4)
    watch(live).close()
    assert not {"prepare_store", "complete_load"} & set(vars(live))


def test_a_manager_with_a_property_for_a_method_is_left_as_it_was() -> None:
    class Odd(CPUOffloadingManager):
        @property
        def touch(self) -> Any:
            return lambda keys, context: None

    live = Odd(4)
    with pytest.raises(UsageError, match=r"^Odd: touch cannot be replaced; make it a method$"):
        watch(live)
    assert not {"prepare_store", "complete_load"} & set(vars(live))
