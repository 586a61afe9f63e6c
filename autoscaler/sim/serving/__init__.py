"""How ready replicas turn arrivals into completions: the seam between the plant and its serving models.

The plant owns replicas (orders, warm-ups, failures, bills); a serving model owns requests (queues, waits, counters).
Enters: which pods are ready, and one step of arrivals at a time. Leaves: what a metrics scrape would show, and the wait
of every request. A serving model knows nothing of desired counts, of warm-up, of money or of any policy.

`fluid` serves one FIFO queue at a fixed rate per replica; a request-level model plugs in behind the same Protocol and
takes its requests from the Traffic it was made with.
"""

from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import numpy as np
import numpy.typing as npt

from autoscaler.core.types import GatewayReading, LatencyReading, PodReading

FloatArray = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class ServingPod:
    """One ready replica: its name, unique over the run, and the instant from which it serves."""

    name: str
    ready_since_s: float


@dataclass(frozen=True, slots=True)
class Scrape:
    """What the workload's metrics pages show at one instant.

    `pods` are the ready pods in the plant's order. `gateway.requests_total` counts every arrival so far;
    `gateway.queued` never overlaps with the pods' `waiting`.
    """

    pods: tuple[PodReading, ...]
    gateway: GatewayReading
    latency: LatencyReading


@dataclass(frozen=True, slots=True)
class Waits:
    """The wait of all work that arrived, as segments in order of arrival; all arrays have shape (N,).

    A segment is `requests` requests that arrive evenly over [from_s, to_s]; their wait moves linearly from
    `wait_from_s` to `wait_to_s`. A single request is a segment of length 0 with both waits equal. Work that is still
    unserved when the run ends carries its wait so far, so it is late only if it is late already.
    """

    from_s: FloatArray
    to_s: FloatArray
    wait_from_s: FloatArray
    wait_to_s: FloatArray
    requests: FloatArray


class ServingModel(Protocol):
    """One workload's serving side. Calls come in time order: set_pods*, offer, (scrape), set_pods*, offer, … waits."""

    @property
    def waiting(self) -> float:
        """Requests that wait for service at the end of the last step, wherever they wait (pods and gateway)."""
        ...

    def set_pods(self, now_s: float, pods: tuple[ServingPod, ...]) -> None:
        """From `now_s` on exactly these pods serve. What a vanished pod had in its queue goes back to the queue."""
        ...

    def offer(self, now_s: float, dt_s: float, arrivals: float) -> float:
        """Move from now_s to now_s + dt_s while `arrivals` requests arrive (evenly, unless the model knows instants).

        Returns the work done in replica-seconds, 0 <= busy <= pods * dt_s: the `serving` part of the GPU bill.
        """
        ...

    def scrape(self, now_s: float) -> Scrape:
        """What the metrics show at `now_s`, which is the end of the last offered step (or 0 before the first)."""
        ...

    def waits(self, end_s: float) -> Waits:
        """Waits of all work offered so far; `end_s` is the end of the last step, the horizon of unserved work."""
        ...


@runtime_checkable
class Drainable(Protocol):
    """A serving model whose pods finish their requests after they vanish from `set_pods`, unless they crash."""

    @property
    def draining(self) -> int:
        """Vanished pods that still work on requests, and so still hold their GPUs."""
        ...

    def crash(self, now_s: float, names: tuple[str, ...]) -> None:
        """These pods, serving or draining, are lost at `now_s`: what they had starts over."""
        ...
