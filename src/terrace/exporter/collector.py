# SPDX-License-Identifier: GPL-2.0
"""A page of metrics in the hands of prometheus_client, which writes the text."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, InfoMetricFamily
from prometheus_client.exposition import choose_encoder
from prometheus_client.registry import Collector

from terrace.exporter.table import Family, Page

_Prometheus = CounterMetricFamily | GaugeMetricFamily | InfoMetricFamily


class Look(Collector):
    """Asks ``look`` for a page, once for each scrape."""

    def __init__(self, look: Callable[[], Page]) -> None:
        self._look = look

    def collect(self) -> Iterator[_Prometheus]:
        """The families of a new page."""
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
    """A registry with this collector alone: nothing of the exporter's own process."""
    own = CollectorRegistry()
    own.register(Look(look))
    return own


def as_text(look: Callable[[], Page]) -> bytes:
    """One look in the text format that the textfile collector and promtool read."""
    return bytes(generate_latest(registry(look)))


def as_accepted(look: Callable[[], Page], accept: str) -> tuple[bytes, str]:
    """One look in the format that an Accept header prefers, and the value of Content-Type."""
    encode, content_type = choose_encoder(accept)
    return bytes(encode(registry(look))), content_type
