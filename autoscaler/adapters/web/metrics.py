"""The controller's metrics as a page for Prometheus, text or OpenMetrics as the reader asks, written by its library.

Enters: families of the catalogue. Leaves: bytes and their content type. The process's own memory, CPU time and open
files are beside them, under the names that every Prometheus client uses. A page of 1,000 workloads is some 44,000 lines
(3.4 MB) and takes 0.35 s to write: the families are made of frozen values, so that another thread may write them.
"""

from collections.abc import Callable, Iterable, Iterator
from itertools import accumulate
from typing import Final

from prometheus_client import CollectorRegistry, ProcessCollector
from prometheus_client.exposition import choose_encoder
from prometheus_client.metrics_core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily
from prometheus_client.metrics_core import Metric as Written
from prometheus_client.registry import Collector

from autoscaler.record.families import Family, Kind
from autoscaler.record.tally import BOUNDS_S, Lags

_WRITERS: Final[dict[Kind, type[CounterMetricFamily | GaugeMetricFamily]]] = {
    Kind.COUNTER: CounterMetricFamily,
    Kind.GAUGE: GaugeMetricFamily,
}


class _Families(Collector):
    """Writes each family as it is asked for, so that only one is held in the library's form."""

    def __init__(self, families: Iterable[Family]) -> None:
        self._families = families

    def collect(self) -> Iterator[Written]:
        """The families in their order."""
        return map(_written, self._families)

    def describe(self) -> Iterable[Written]:
        """Nothing ahead of time."""
        return ()


def exposition(families: Iterable[Family], accept: str) -> tuple[bytes, str]:
    """The page and its content type for a reader with this ``Accept`` header."""
    registry = CollectorRegistry(auto_describe=False)
    ProcessCollector(registry=registry)
    registry.register(_Families(families))
    write: Callable[[CollectorRegistry], bytes]
    write, content_type = choose_encoder(accept)
    return write(registry), content_type


def _written(family: Family) -> Written:
    metric = family.metric
    if metric.kind is Kind.HISTOGRAM:
        histogram = HistogramMetricFamily(metric.name, metric.text, labels=metric.labels)
        for labels, value in family.values.items():
            assert isinstance(value, Lags)
            histogram.add_metric(labels, _buckets(value), value.sum_s)
        return histogram
    written = _WRITERS[metric.kind](metric.name, metric.text, labels=metric.labels)
    for labels, value in family.values.items():
        assert not isinstance(value, Lags)
        written.add_metric(labels, value)
    return written


def _buckets(lags: Lags) -> list[tuple[str, float]]:
    bounds = (*(str(bound) for bound in BOUNDS_S), "+Inf")
    return list(zip(bounds, accumulate(lags.counts), strict=True))
