"""One instance of the contest: a traffic and the cluster it meets.

Enters: the name of a trace or of a built-in workload, and what an operator knows of the cluster. Leaves: a Traffic and
a PlantSpec. Nothing runs here, and no policy is known.
"""

from dataclasses import dataclass

from autoscaler.errors import InputError
from autoscaler.sim.choices import MAX_REPLICAS, REPLICAS_AT_PEAK
from autoscaler.sim.plant import PlantSpec
from autoscaler.sim.traces.reader import read_selection
from autoscaler.sim.traces.selection import split_trace
from autoscaler.sim.traffic import Traffic
from autoscaler.sim.warmup import Warmup
from autoscaler.sim.workloads import named_workload


@dataclass(frozen=True, slots=True)
class Instance:
    """A traffic, the cluster that serves it, and how the capacity of one replica came about, in words."""

    traffic: Traffic
    spec: PlantSpec
    capacity_source: str


@dataclass(frozen=True, slots=True)
class Cluster:
    """What an operator states of the cluster; None takes the default."""

    warmup_s: float
    warmup_p90_s: float | None = None
    slo_wait_s: float = 10.0
    capacity_rps: float | None = None
    replicas_at_peak: float = REPLICAS_AT_PEAK
    max_replicas: int = MAX_REPLICAS
    failed_start_ratio: float = 0.0


def load_traffic(trace: str | None, workload: str | None, *, seed: int, with_requests: bool = False) -> Traffic:
    """The traffic of `FILE#selection` or of a built-in workload. InputError unless exactly one of the two is given."""
    if (trace is None) == (workload is None):
        raise InputError("give either --trace FILE or --workload NAME, and not both")
    if workload is not None:
        return named_workload(workload, seed)
    path, selection = split_trace(str(trace), seed=seed)
    return read_selection(path, selection, with_requests=with_requests)


def make_instance(traffic: Traffic, cluster: Cluster, *, seed: int) -> Instance:
    """The traffic before a fluid plant; one replica does what the cluster or the traffic states, else its share of the
    busiest minute. InputError where a figure cannot be used."""
    if not cluster.replicas_at_peak > 0:
        raise InputError(f"replicas at peak: {cluster.replicas_at_peak} cannot be used; it must be a positive number")
    if cluster.capacity_rps is not None:
        capacity_rps, source = cluster.capacity_rps, "given"
    elif traffic.capacity_rps is not None:
        capacity_rps, source = traffic.capacity_rps, "stated by the traffic"
    elif traffic.total == 0:
        raise InputError(f"{traffic.name}: it has no request, so the capacity of a replica must be given")
    else:
        capacity_rps = traffic.peak_minute_rps / cluster.replicas_at_peak
        source = f"busiest minute / {cluster.replicas_at_peak:g}"
    spec = PlantSpec(
        capacity_rps=capacity_rps,
        warmup=Warmup(cluster.warmup_s, cluster.warmup_p90_s),
        slo_wait_s=cluster.slo_wait_s,
        max_replicas=cluster.max_replicas,
        failed_start_ratio=cluster.failed_start_ratio,
        seed=seed,
    )
    return Instance(traffic, spec, source)
