"""What a manager measures: which metrics there are, and the samples that it hands out.

The names, and the form of the samples, are those of vLLM from 0.26 on (PR #45957), so that the same dashboards read
both. Nothing here knows Prometheus; `evictable.impl.prometheus` exports what this module declares.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any


class CPUOffloadingMetrics:
    """Names of what the manager itself measures. Usages are fractions of the capacity, 0 .. 1."""

    CPU_CACHE_USAGE_PERC = "vllm:kv_offload_cpu_cache_usage_perc"
    CPU_CACHE_WRITE_USAGE_PERC = "vllm:kv_offload_cpu_cache_write_usage_perc"
    CPU_CACHE_READ_USAGE_PERC = "vllm:kv_offload_cpu_cache_read_usage_perc"
    CPU_ALLOCATION_SIZE = "vllm:kv_offload_cpu_allocation_size"
    STORES_SKIPPED = "vllm:kv_offload_stores_skipped"
    # vLLM counts it one level up, in the scheduler that sees the refusal.
    ALLOCATION_FAILURE = "vllm:kv_offload_allocation_failure"


class LookupMetrics:
    """Names of what whoever asks the manager measures (`evictable.impl.lookup_delay`). Delays are in seconds."""

    LOOKUP_SYNC_DELAY = "vllm:kv_offload_lookup_sync_delay_seconds"
    LOOKUP_ASYNC_DELAY = "vllm:kv_offload_lookup_async_delay_seconds"


@dataclass(frozen=True)
class OffloadingMetricMetadata:
    """What a metric tells, and the names of the labels that its samples carry."""

    documentation: str
    labelnames: tuple[str, ...] = ()


@dataclass(frozen=True)
class OffloadingCounterMetadata(OffloadingMetricMetadata):
    """A sum that only grows."""


@dataclass(frozen=True)
class OffloadingGaugeMetadata(OffloadingMetricMetadata):
    """A level, of which the latest value counts."""

    # How prometheus-client merges the values of several processes. Each is the whole truth at its time.
    multiprocess_mode: str = "mostrecent"


@dataclass(frozen=True)
class OffloadingHistogramMetadata(OffloadingMetricMetadata):
    """A distribution; `buckets` are the upper bounds, ascending, or None for the exporter's own."""

    buckets: tuple[float, ...] | None = None


def build_metric_definitions(extra_config: Mapping[str, Any] | None = None) -> dict[str, OffloadingMetricMetadata]:
    """Every metric that this package fills, by name.

    `extra_config` may hold `store_threshold`, as in vLLM: stores are skipped, and counted, from 2 on.
    """
    definitions: dict[str, OffloadingMetricMetadata] = {
        CPUOffloadingMetrics.CPU_CACHE_USAGE_PERC: OffloadingGaugeMetadata(
            "Share of the CPU cache that stores and loads in flight hold; what is left can be had for a new store."
        ),
        CPUOffloadingMetrics.CPU_CACHE_WRITE_USAGE_PERC: OffloadingGaugeMetadata(
            "Share of the CPU cache that stores in flight hold."
        ),
        CPUOffloadingMetrics.CPU_CACHE_READ_USAGE_PERC: OffloadingGaugeMetadata(
            "Share of the CPU cache that loads in flight hold."
        ),
        CPUOffloadingMetrics.CPU_ALLOCATION_SIZE: OffloadingHistogramMetadata(
            "Blocks asked for by each store, also by those that were refused.",
            buckets=tuple(4.0**power for power in range(10)),
        ),
        CPUOffloadingMetrics.ALLOCATION_FAILURE: OffloadingCounterMetadata(
            "Stores that were refused because too few blocks could be had."
        ),
        LookupMetrics.LOOKUP_SYNC_DELAY: OffloadingHistogramMetadata(
            "Seconds that one lookup of a request's blocks took.",
            buckets=(1e-5, 5e-5, 1e-4, 5e-4, 1e-3, 5e-3, 0.01, 0.05, 0.1, 0.5, 1.0),
        ),
        LookupMetrics.LOOKUP_ASYNC_DELAY: OffloadingHistogramMetadata(
            "Seconds from a request's first lookup that had to be asked again to the answer, or to the request's end.",
            buckets=(1e-4, 5e-4, 1e-3, 5e-3, 0.01, 0.05, 0.1, 0.5, 1.0, 5.0, 10.0),
        ),
    }
    if int((extra_config or {}).get("store_threshold", 0)) >= 2:
        definitions[CPUOffloadingMetrics.STORES_SKIPPED] = OffloadingCounterMetadata(
            "Offered blocks that were not stored because they had not been offered often enough."
        )
    return definitions


COUNTER = "counter"
GAUGE = "gauge"
HISTOGRAM = "histogram"

_TYPES = "types"
_VALUES = "data"


@dataclass
class OffloadingConnectorStats:
    """Samples of one interval, in a form that survives serialization and describes itself.

    `data` is `{"types": {name: "counter" | "gauge" | "histogram"}, "data": {name: {label values: value}}}`. Label
    values are a tuple in the order of the metric's label names, `()` without labels. A counter's value is its
    increase, a gauge's the latest level, a histogram's the list of what was observed.
    """

    data: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if _VALUES not in self.data:
            self.reset()

    def reset(self) -> None:
        """Begin a new interval. Samples handed out before stay as they are."""
        self.data = {_TYPES: {}, _VALUES: {}}

    def is_empty(self) -> bool:
        return not self.data[_VALUES]

    def increase_counter(
        self, counter_name: str, counter_increase_value: float = 1, labelvalues: tuple[str, ...] = ()
    ) -> None:
        """Raises ValueError for a negative increase."""
        if counter_increase_value < 0:
            raise ValueError(f"{counter_name} cannot grow by {counter_increase_value}; a counter never shrinks")
        samples = self._samples(counter_name, COUNTER)
        samples[labelvalues] = samples.get(labelvalues, 0) + counter_increase_value

    def set_gauge(self, gauge_name: str, gauge_value: float, labelvalues: tuple[str, ...] = ()) -> None:
        self._samples(gauge_name, GAUGE)[labelvalues] = gauge_value

    def observe_histogram(self, histogram_name: str, histogram_value: float, labelvalues: tuple[str, ...] = ()) -> None:
        self._samples(histogram_name, HISTOGRAM).setdefault(labelvalues, []).append(histogram_value)

    def aggregate(self, other: OffloadingConnectorStats) -> OffloadingConnectorStats:
        """Take in the samples of a later interval: counters add up, gauges are replaced, observations are appended.

        Answers itself. Raises ValueError, with nothing taken in, for a metric that has another type there or none.
        """
        kinds = {name: other.data[_TYPES].get(name) for name in other.data[_VALUES]}
        for name, kind in kinds.items():
            mine = self.data[_TYPES].get(name, kind)
            if kind not in _TAKE_IN or kind != mine:
                raise ValueError(f"samples of {name} cannot be added: their type is {kind!r} there and {mine!r} here")
        for name, theirs in other.data[_VALUES].items():
            samples = self._samples(name, kinds[name])
            take_in = _TAKE_IN[kinds[name]]
            for labelvalues, value in theirs.items():
                samples[labelvalues] = take_in(samples.get(labelvalues), value)
        return self

    def reduce(self) -> dict[str, float]:
        """The interval in a few numbers, for a log line; a histogram as its count and its sum."""
        reduced: dict[str, float] = {}
        for name, samples in self.data[_VALUES].items():
            for labelvalues, value in samples.items():
                label = f"{name}:{labelvalues}" if labelvalues else name
                if isinstance(value, list):
                    reduced[f"{label}_count"] = len(value)
                    reduced[f"{label}_sum"] = sum(value)
                else:
                    reduced[label] = value
        return reduced

    def _samples(self, name: str, kind: str | None) -> dict[tuple[str, ...], Any]:
        known = self.data[_TYPES].setdefault(name, kind)
        if known != kind:
            raise ValueError(f"{name} is a {known}, not a {kind}")
        samples: dict[tuple[str, ...], Any] = self.data[_VALUES].setdefault(name, {})
        return samples


def _add(mine: float | None, theirs: float) -> float:
    return (mine or 0) + theirs


def _replace(mine: float | None, theirs: float) -> float:
    return theirs


def _append(mine: list[float] | None, theirs: list[float]) -> list[float]:
    if mine is None:
        return list(theirs)  # not the other's own list
    mine.extend(theirs)
    return mine


# How a sample takes in a later one; None stands for no sample yet.
_TAKE_IN: dict[str | None, Callable[[Any, Any], Any]] = {COUNTER: _add, GAUGE: _replace, HISTOGRAM: _append}
