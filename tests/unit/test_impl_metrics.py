"""Samples and their aggregation, what the manager fills in, and the delays of lookups."""

from __future__ import annotations

import pickle
from typing import Any

import pytest

from evictable.impl import (
    CPUOffloadingManager,
    CPUOffloadingMetrics,
    LookupDelays,
    LookupMetrics,
    OffloadingConnectorStats,
    OffloadingCounterMetadata,
    OffloadingGaugeMetadata,
    OffloadingHistogramMetadata,
    OffloadKey,
    ReqContext,
    build_metric_definitions,
)

A, B, C, D = (OffloadKey(bytes([n])) for n in range(4))
R1, R2 = ReqContext("r1"), ReqContext("r2")


def stats_with(counter: float = 0, gauge: float = 0, observed: tuple[float, ...] = ()) -> OffloadingConnectorStats:
    stats = OffloadingConnectorStats()
    stats.increase_counter("c", counter)
    stats.set_gauge("g", gauge)
    for value in observed:
        stats.observe_histogram("h", value)
    return stats


def values(stats: OffloadingConnectorStats) -> dict[str, Any]:
    """Of metrics without labels."""
    return {name: samples[()] for name, samples in stats.data["data"].items()}


# Samples


def test_samples_describe_themselves_by_type_and_label_values() -> None:
    stats = OffloadingConnectorStats()
    stats.increase_counter("c", 2, ("x",))
    stats.increase_counter("c", labelvalues=("x",))
    stats.increase_counter("c", labelvalues=("y",))
    stats.set_gauge("g", 0.5)
    stats.observe_histogram("h", 7)
    expected = {
        "types": {"c": "counter", "g": "gauge", "h": "histogram"},
        "data": {"c": {("x",): 3, ("y",): 1}, "g": {(): 0.5}, "h": {(): [7]}},
    }
    assert expected == stats.data


def test_stats_that_crossed_a_process_border_are_the_same() -> None:
    stats = stats_with(1, 2, (3,))
    assert stats == pickle.loads(pickle.dumps(stats))


def test_stats_made_from_samples_keep_them() -> None:
    stats = stats_with(1)
    assert stats == OffloadingConnectorStats(stats.data)


def test_a_reset_empties_the_stats_but_not_what_was_handed_out() -> None:
    stats = stats_with(counter=1)
    handed_out = stats.data
    stats.reset()
    assert (True, 1) == (stats.is_empty(), handed_out["data"]["c"][()])


def test_stats_with_a_sample_are_not_empty() -> None:
    assert stats_with().is_empty() is False


def test_aggregation_adds_counters_replaces_gauges_and_appends_observations() -> None:
    stats = stats_with(1, 0.1, (1, 2))
    assert stats is stats.aggregate(stats_with(2, 0.2, (3,)))
    assert {"c": 3, "g": 0.2, "h": [1, 2, 3]} == values(stats)


def test_aggregation_goes_by_label_values() -> None:
    stats, other = OffloadingConnectorStats(), OffloadingConnectorStats()
    stats.increase_counter("c", 1, ("x",))
    other.increase_counter("c", 2, ("x",))
    other.increase_counter("c", 4, ("y",))
    assert {("x",): 3, ("y",): 4} == stats.aggregate(other).data["data"]["c"]


def test_aggregated_stats_share_no_list() -> None:
    other = stats_with(observed=(1,))
    stats = OffloadingConnectorStats().aggregate(other)
    stats.observe_histogram("h", 2)
    assert [1] == values(other)["h"]


@pytest.mark.parametrize("types", [{"g": "gauge", "c": "gauge"}, {"g": "gauge"}, {"g": "gauge", "c": "meter"}])
def test_samples_of_another_type_are_refused_as_a_whole(types: dict[str, str]) -> None:
    stats = stats_with(counter=1, gauge=0.5)
    other = OffloadingConnectorStats({"types": types, "data": {"g": {(): 0.7}, "c": {(): 1}}})
    with pytest.raises(ValueError, match="samples of c cannot be added"):
        stats.aggregate(other)
    assert {"c": 1, "g": 0.5} == values(stats)


def test_a_metric_has_one_type() -> None:
    with pytest.raises(ValueError, match="c is a counter, not a gauge"):
        stats_with().set_gauge("c", 1)


def test_a_counter_never_shrinks() -> None:
    with pytest.raises(ValueError, match="a counter never shrinks"):
        stats_with().increase_counter("c", -1)


def test_reduction_gives_numbers_and_of_a_histogram_count_and_sum() -> None:
    stats = stats_with(1, 0.5, (3, 4))
    stats.increase_counter("c", 9, ("x",))
    assert {"c": 1, "c:('x',)": 9, "g": 0.5, "h_count": 2, "h_sum": 7} == stats.reduce()


# Definitions


def test_every_sample_of_a_manager_is_declared_with_its_type() -> None:
    manager = CPUOffloadingManager(1, store_threshold=2)
    manager.prepare_store([A], R1)
    manager.prepare_store([A], R1)
    kinds = {
        OffloadingCounterMetadata: "counter",
        OffloadingGaugeMetadata: "gauge",
        OffloadingHistogramMetadata: "histogram",
    }
    declared = {name: kinds[type(metric)] for name, metric in build_metric_definitions({"store_threshold": 2}).items()}
    lookups = {LookupMetrics.LOOKUP_SYNC_DELAY, LookupMetrics.LOOKUP_ASYNC_DELAY}
    expected = {name: kind for name, kind in declared.items() if name not in lookups}
    assert expected == manager.get_stats().data["types"]


@pytest.mark.parametrize("extra_config", [None, {}, {"store_threshold": 1}, {"store_threshold": "1"}])
def test_skipped_stores_are_declared_with_a_threshold_only(extra_config: dict[str, Any] | None) -> None:
    assert CPUOffloadingMetrics.STORES_SKIPPED not in build_metric_definitions(extra_config)


def test_declared_metrics_have_a_text_no_labels_and_ascending_buckets() -> None:
    for metric in build_metric_definitions({"store_threshold": 2}).values():
        assert metric.documentation.endswith(".")
        assert () == metric.labelnames
        if isinstance(metric, OffloadingHistogramMetadata):
            assert sorted(metric.buckets or ()) == list(metric.buckets or ())


# What the manager fills in


def test_usage_is_of_pinned_and_pending_blocks_and_splits_into_read_and_write() -> None:
    manager = CPUOffloadingManager(8)
    manager.prepare_store([A, B, C], R1)
    manager.complete_store([A, B], R1)
    manager.prepare_load([A, B], R2)
    manager.complete_load([B], R2)
    gauges = values(manager.get_stats())
    assert (2 / 8, 1 / 8, 1 / 8) == (
        gauges[CPUOffloadingMetrics.CPU_CACHE_USAGE_PERC],
        gauges[CPUOffloadingMetrics.CPU_CACHE_WRITE_USAGE_PERC],
        gauges[CPUOffloadingMetrics.CPU_CACHE_READ_USAGE_PERC],
    )


def test_allocations_are_observed_and_refusals_counted() -> None:
    manager = CPUOffloadingManager(2)
    manager.prepare_store([A, A], R1)
    manager.prepare_store([A, B, C], R1)
    manager.prepare_store([A], R1)
    counted = values(manager.get_stats())
    assert ([1, 2], 1) == (
        counted[CPUOffloadingMetrics.CPU_ALLOCATION_SIZE],
        counted[CPUOffloadingMetrics.ALLOCATION_FAILURE],
    )


def test_skipped_stores_are_counted() -> None:
    manager = CPUOffloadingManager(2, store_threshold=2)
    manager.prepare_store([A, B], R1)
    assert 2 == values(manager.get_stats())[CPUOffloadingMetrics.STORES_SKIPPED]


def test_counts_begin_anew_with_each_call() -> None:
    manager = CPUOffloadingManager(1, store_threshold=2)
    manager.prepare_store([A, B], R1)
    manager.prepare_store([A, B], R1)
    manager.get_stats()
    assert {
        CPUOffloadingMetrics.CPU_CACHE_USAGE_PERC: 0,
        CPUOffloadingMetrics.CPU_CACHE_WRITE_USAGE_PERC: 0,
        CPUOffloadingMetrics.CPU_CACHE_READ_USAGE_PERC: 0,
        CPUOffloadingMetrics.ALLOCATION_FAILURE: 0,
        CPUOffloadingMetrics.STORES_SKIPPED: 0,
    } == values(manager.get_stats())


def test_an_offer_that_raises_is_not_measured() -> None:
    manager = CPUOffloadingManager(1)
    manager._policy.insert = None  # type: ignore[method-assign, assignment]
    with pytest.raises(TypeError):
        manager.prepare_store([A], R1)
    assert CPUOffloadingMetrics.CPU_ALLOCATION_SIZE not in values(manager.get_stats())


# Lookups


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def delays(*rounds: tuple[str, float, float, bool], finish: tuple[str, float] | None = None) -> dict[str, Any]:
    """What is observed of rounds of lookups, each (request, start, end, deferred)."""
    clock = Clock()
    watch = LookupDelays(clock)
    for request, start, end, deferred in rounds:
        clock.now = start
        started = watch.start()
        clock.now = end
        watch.looked_up(request, started, deferred)
    if finish is not None:
        request, clock.now = finish
        watch.request_finished(request)
    observed = values(watch.get_stats())
    return {
        "sync": observed.get(LookupMetrics.LOOKUP_SYNC_DELAY),
        "async": observed.get(LookupMetrics.LOOKUP_ASYNC_DELAY),
    }


def test_each_round_of_lookups_is_timed() -> None:
    assert {"sync": [1, 2], "async": None} == delays(("r1", 0, 1, False), ("r1", 5, 7, False))


def test_a_request_waits_from_its_first_deferred_round_to_the_end_of_the_one_that_answers() -> None:
    rounds = [("r1", 1, 2, True), ("r2", 2, 3, False), ("r1", 3, 4, True), ("r1", 6, 7, False), ("r1", 8, 9, False)]
    assert {"sync": [1, 1, 1, 1, 1], "async": [6]} == delays(*rounds)


def test_a_request_that_ends_without_an_answer_has_waited_till_then() -> None:
    assert {"sync": [1], "async": [9]} == delays(("r1", 1, 2, True), finish=("r1", 10))


def test_a_request_that_never_waited_ends_unobserved() -> None:
    assert {"sync": [1], "async": None} == delays(("r1", 1, 2, False), finish=("r1", 10))


def test_observed_delays_are_handed_out_once() -> None:
    watch = LookupDelays(Clock())
    watch.looked_up("r1", watch.start(), deferred=False)
    watch.get_stats()
    assert watch.get_stats().is_empty()
