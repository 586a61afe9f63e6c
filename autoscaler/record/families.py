"""What a metric is: a name, a kind, labels, and its values by label values; without the library that exposes them."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Final

from autoscaler.record.tally import Lags

Value = float | Lags
Labels = tuple[str, ...]


class Kind(Enum):
    """How a value behaves: counters only grow until a restart, gauges move, histograms count durations by size."""

    COUNTER = "counter"
    GAUGE = "gauge"
    HISTOGRAM = "histogram"


@dataclass(frozen=True, slots=True)
class Metric:
    """One metric: its full name, what it says, and the names of its labels. Units are in the name."""

    name: str
    kind: Kind
    text: str
    labels: Labels = ()


@dataclass(frozen=True, slots=True)
class Family:
    """A metric with its values by label values, in the order of the metric's labels."""

    metric: Metric
    values: Mapping[Labels, Value]


OWNER: Final = ("namespace", "workload")
"""The labels of whatever belongs to a workload."""


def owner(workload: str) -> tuple[str, str]:
    """The labels of a workload: its namespace and its name."""
    namespace, _, name = workload.rpartition("/")
    return namespace, name
