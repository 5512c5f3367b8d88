"""Export to Prometheus, through the optional package prometheus-client."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from evictable.impl.metrics import (
    OffloadingConnectorStats,
    OffloadingCounterMetadata,
    OffloadingGaugeMetadata,
    OffloadingHistogramMetadata,
    OffloadingMetricMetadata,
)

if TYPE_CHECKING:
    from prometheus_client import CollectorRegistry


class PrometheusExporter:
    """Registers declared metrics in a registry, and feeds samples into them.

    `definitions` are those of `build_metric_definitions`. Every series carries `labels` before the metric's own:
    for example the model and the engine. Names are kept, except that prometheus-client shows a counter with
    `_total` after its name.

    Raises ImportError without prometheus-client, and ValueError, with nothing registered, if the registry has a metric
    of the same name.
    """

    def __init__(
        self,
        definitions: Mapping[str, OffloadingMetricMetadata],
        registry: CollectorRegistry | None = None,
        labels: Mapping[str, str] | None = None,
    ) -> None:
        """`registry` None is the process' own."""
        try:
            import prometheus_client
        except ImportError as error:
            raise ImportError("prometheus-client is missing; pip install 'evictable[prometheus]'") from error
        registry = prometheus_client.REGISTRY if registry is None else registry
        labels = labels or {}
        self._labelvalues = tuple(labels.values())
        self._metrics: dict[str, tuple[str, int, Any]] = {}
        try:
            for name, metadata in definitions.items():
                kind, options = _kind_and_options(metadata)
                metric = getattr(prometheus_client, kind)(
                    name,
                    metadata.documentation,
                    labelnames=(*labels, *metadata.labelnames),
                    registry=registry,
                    **options,
                )
                self._metrics[name] = (kind.lower(), len(metadata.labelnames), metric)
        except BaseException:
            for _, _, metric in self._metrics.values():
                registry.unregister(metric)
            raise

    def observe(self, stats: OffloadingConnectorStats) -> None:
        """Feed the samples of one interval.

        Raises ValueError, with nothing fed, for a metric that was not declared, or whose samples have another type or
        another number of labels.
        """
        types, values = stats.data["types"], stats.data["data"]
        for name, samples in values.items():
            if name not in self._metrics:
                raise ValueError(f"{name} is not declared; name it in the definitions given to the exporter")
            kind, num_labels, _ = self._metrics[name]
            if types.get(name) != kind:
                raise ValueError(f"{name} is declared as a {kind}, and its samples are those of a {types.get(name)}")
            for labelvalues in samples:
                if len(labelvalues) != num_labels:
                    raise ValueError(f"{name} has {num_labels} labels, and a sample has {len(labelvalues)}")
        for name, samples in values.items():
            kind, _, metric = self._metrics[name]
            for labelvalues, value in samples.items():
                _FEED[kind](self._series(metric, labelvalues), value)

    def _series(self, metric: Any, labelvalues: tuple[str, ...]) -> Any:
        all_values = (*self._labelvalues, *labelvalues)
        return metric.labels(*all_values) if all_values else metric


def _kind_and_options(metadata: OffloadingMetricMetadata) -> tuple[str, dict[str, Any]]:
    """The name of prometheus-client's class, and what it takes beyond a name, a text and labels."""
    match metadata:
        case OffloadingCounterMetadata():
            return "Counter", {}
        case OffloadingGaugeMetadata(multiprocess_mode=mode):
            return "Gauge", {"multiprocess_mode": mode}
        case OffloadingHistogramMetadata(buckets=buckets):
            return "Histogram", {} if buckets is None else {"buckets": buckets}
        case _:
            raise ValueError(f"{metadata!r} is neither a counter nor a gauge nor a histogram")


def _observe_all(histogram: Any, values: list[float]) -> None:
    for value in values:
        histogram.observe(value)


_FEED = {
    "counter": lambda series, value: series.inc(value),
    "gauge": lambda series, value: series.set(value),
    "histogram": _observe_all,
}
