"""What prometheus-client shows of the declared metrics."""

from __future__ import annotations

import sys
from typing import Any

import pytest
from prometheus_client import CollectorRegistry

from evictable.impl import (
    CPUOffloadingManager,
    CPUOffloadingMetrics,
    OffloadingConnectorStats,
    OffloadingCounterMetadata,
    OffloadingGaugeMetadata,
    OffloadingHistogramMetadata,
    OffloadingMetricMetadata,
    OffloadKey,
    PrometheusExporter,
    ReqContext,
    build_metric_definitions,
)

DEFINITIONS: dict[str, OffloadingMetricMetadata] = {
    "c": OffloadingCounterMetadata("A counter.", ("tier",)),
    "g": OffloadingGaugeMetadata("A gauge."),
    "h": OffloadingHistogramMetadata("A histogram.", buckets=(1, 2)),
    "d": OffloadingHistogramMetadata("A histogram with the exporter's own buckets."),
}


def samples(types: dict[str, str], data: dict[str, Any]) -> OffloadingConnectorStats:
    return OffloadingConnectorStats({"types": types, "data": data})


def test_counters_add_up_gauges_are_replaced_and_observations_fall_into_buckets() -> None:
    registry = CollectorRegistry()
    exporter = PrometheusExporter(DEFINITIONS, registry)
    for _ in range(2):
        stats = OffloadingConnectorStats()
        stats.increase_counter("c", 2, ("cpu",))
        stats.set_gauge("g", 0.5)
        stats.observe_histogram("h", 1)
        stats.observe_histogram("h", 3)
        exporter.observe(stats)
    value = registry.get_sample_value
    assert (4, 0.5, 2, 2, 4, 8) == (
        value("c_total", {"tier": "cpu"}),
        value("g"),
        value("h_bucket", {"le": "1.0"}),
        value("h_bucket", {"le": "2.0"}),
        value("h_count"),
        value("h_sum"),
    )


def test_every_series_carries_the_exporters_labels_first() -> None:
    registry = CollectorRegistry()
    exporter = PrometheusExporter(DEFINITIONS, registry, {"engine": "0"})
    exporter.observe(samples({"c": "counter", "g": "gauge"}, {"c": {("cpu",): 1}, "g": {(): 2}}))
    assert (1, 2) == (
        registry.get_sample_value("c_total", {"engine": "0", "tier": "cpu"}),
        registry.get_sample_value("g", {"engine": "0"}),
    )


def test_the_published_names_are_kept() -> None:
    registry = CollectorRegistry()
    exporter = PrometheusExporter(build_metric_definitions({"store_threshold": 2}), registry)
    manager = CPUOffloadingManager(4, store_threshold=2)
    manager.prepare_store([OffloadKey(b"key")], ReqContext("r1"))
    exporter.observe(manager.get_stats())
    assert (1, 0) == (
        registry.get_sample_value(CPUOffloadingMetrics.STORES_SKIPPED + "_total"),
        registry.get_sample_value(CPUOffloadingMetrics.CPU_CACHE_USAGE_PERC),
    )


def test_without_a_registry_it_is_the_process_own() -> None:
    from prometheus_client import REGISTRY

    exporter = PrometheusExporter({"evictable_test_gauge": OffloadingGaugeMetadata("A gauge.")})
    exporter.observe(samples({"evictable_test_gauge": "gauge"}, {"evictable_test_gauge": {(): 3}}))
    assert 3 == REGISTRY.get_sample_value("evictable_test_gauge")


@pytest.mark.parametrize(
    ("name", "kind", "series", "message"),
    [
        ("x", "gauge", {(): 1}, "x is not declared"),
        ("c", "gauge", {("cpu",): 1}, "c is declared as a counter"),
        ("c", "counter", {(): 1}, "c has 1 labels, and a sample has 0"),
    ],
)
def test_samples_that_do_not_fit_are_refused_as_a_whole(
    name: str, kind: str, series: dict[tuple[str, ...], float], message: str
) -> None:
    registry = CollectorRegistry()
    exporter = PrometheusExporter(DEFINITIONS, registry)
    with pytest.raises(ValueError, match=message):
        exporter.observe(samples({"g": "gauge", name: kind}, {"g": {(): 1}, name: series}))
    assert 0 == registry.get_sample_value("g")


def test_a_name_that_is_taken_leaves_nothing_registered() -> None:
    registry = CollectorRegistry()
    PrometheusExporter({"d": DEFINITIONS["d"]}, registry)
    with pytest.raises(ValueError, match="Duplicated"):
        PrometheusExporter(DEFINITIONS, registry)
    assert ["d"] == [metric.name for metric in registry.collect()]


def test_a_metric_of_no_kind_is_refused() -> None:
    with pytest.raises(ValueError, match="neither a counter nor a gauge nor a histogram"):
        PrometheusExporter({"m": OffloadingMetricMetadata("A metric.")}, CollectorRegistry())


def test_without_the_package_one_line_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "prometheus_client", None)
    with pytest.raises(ImportError) as raised:
        PrometheusExporter(DEFINITIONS)
    assert "prometheus-client is missing; pip install 'evictable[prometheus]'" == str(raised.value)
