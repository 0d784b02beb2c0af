# SPDX-License-Identifier: GPL-2.0
"""A collector of prometheus_client, which formats a page of metrics."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, InfoMetricFamily
from prometheus_client.exposition import choose_encoder
from prometheus_client.registry import Collector

from terrace.exporter.table import Family, Page

_Prometheus = CounterMetricFamily | GaugeMetricFamily | InfoMetricFamily


class Look(Collector):
    """Calls ``look`` for a page, once per scrape."""

    def __init__(self, look: Callable[[], Page]) -> None:
        self._look = look

    def collect(self) -> Iterator[_Prometheus]:
        """Get the families of a new page."""
        for family in self._look().families.values():
            yield _convert(family)


def _convert(family: Family) -> _Prometheus:
    metric = family.metric
    if metric.kind == "info":
        info = InfoMetricFamily(metric.name.removesuffix("_info"), metric.help)
        for key in family.samples:
            info.add_metric([], dict(zip(metric.labels, key, strict=True)))
        return info
    kind = CounterMetricFamily if metric.kind == "counter" else GaugeMetricFamily
    plain = kind(metric.name, metric.help, labels=metric.labels)
    for key, value in family.samples.items():
        plain.add_metric(key, float(value))
    return plain


def registry(look: Callable[[], Page]) -> CollectorRegistry:
    """Create a registry with this collector alone, without metrics of the exporter's own process."""
    own = CollectorRegistry()
    own.register(Look(look))
    return own


def as_text(look: Callable[[], Page]) -> bytes:
    """Format a new page in the text format of the textfile collector and promtool."""
    return bytes(generate_latest(registry(look)))


def as_accepted(look: Callable[[], Page], accept: str) -> tuple[bytes, str]:
    """Format a new page in the format that an Accept header prefers; return it with its Content-Type."""
    encode, content_type = choose_encoder(accept)
    return bytes(encode(registry(look))), content_type
