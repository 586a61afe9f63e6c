"""What a rival may know beyond the readings, and the sums all of them read off a scrape."""

from dataclasses import dataclass

from autoscaler.core.types import Readings
from autoscaler.sim.plant import PlantSpec, opening_replicas
from autoscaler.sim.traffic import Traffic

Knob = tuple[float, ...]
"""One setting of a rival's main knob, in the order of its `KNOB_NAMES`."""


@dataclass(frozen=True, slots=True)
class RivalView:
    """Facts an operator configures, and the future, which only `perfect` and `static` (sized in hindsight) touch."""

    capacity_rps: float
    slots: float
    """Requests one replica works on at once."""
    service_s: float
    slo_wait_s: float
    opening_replicas: int
    warmup_s: float
    """Mean warm-up in seconds."""
    traffic: Traffic


def view_of(traffic: Traffic, spec: PlantSpec) -> RivalView:
    """The view of one instance."""
    return RivalView(
        capacity_rps=spec.capacity_rps,
        slots=spec.slots,
        service_s=spec.service_s,
        slo_wait_s=spec.slo_wait_s,
        opening_replicas=opening_replicas(traffic, spec),
        warmup_s=spec.warmup.mean_s,
        traffic=traffic,
    )


def in_flight(readings: Readings) -> float | None:
    """Requests in service and waiting, in the pods and at the gateway; None where the scrape failed."""
    waiting = queued(readings)
    if waiting is None or readings.pods is None:
        return None
    return waiting + sum(pod.running or 0.0 for pod in readings.pods)


def queued(readings: Readings) -> float | None:
    """Requests waiting, in the pods and at the gateway; None where the scrape failed."""
    if readings.pods is None or readings.gateway is None:
        return None
    return (readings.gateway.queued or 0.0) + sum(pod.waiting or 0.0 for pod in readings.pods)
