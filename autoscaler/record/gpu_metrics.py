"""Metrics of the GPUs under a workload's pods, as their exporter shows them: they are told, and nothing is decided on
them, for an engine takes all memory at its start and a busy GPU says nothing of requests that wait.

Enters: what is known per workload. Leaves: families. A figure that one of its GPUs lacks has no value.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from autoscaler.record.families import OWNER, Family, Kind, Metric, owner


@dataclass(frozen=True, slots=True)
class GpuUse:
    """Of all GPUs of a workload's pods. None: not all of them were shown with it."""

    memory_used_bytes: float | None
    memory_free_bytes: float | None
    utilisation_ratio: float | None
    """Mean over the GPUs, 0..1."""


def _gauge(name: str, text: str) -> Metric:
    return Metric(f"headroom_gpu_{name}", Kind.GAUGE, text, OWNER)


_FIGURES: Final[Mapping[Metric, Callable[[GpuUse], float | None]]] = {
    _gauge("memory_used_bytes", "GPU memory that is taken, of all its GPUs."): lambda use: use.memory_used_bytes,
    _gauge("memory_free_bytes", "GPU memory that is left, of all its GPUs."): lambda use: use.memory_free_bytes,
    _gauge("utilisation_ratio", "How busy its GPUs are, on average."): lambda use: use.utilisation_ratio,
}

GPUS: Final = tuple(_FIGURES)
"""All of them."""


def gpu_families(uses: Mapping[str, GpuUse]) -> Iterator[Family]:
    """The families of all workloads whose GPUs an exporter shows."""
    for metric, figure in _FIGURES.items():
        known = ((owner(workload), figure(use)) for workload, use in uses.items())
        yield Family(metric, {labels: value for labels, value in known if value is not None})
