"""What one demo is to play, and its outcome as JSON.

Enters: what the command's options say. Leaves: a plan, or an InputError naming the option; after the demo, a document.
"""

import json
from dataclasses import asdict, replace
from typing import Final

from autoscaler.cli.playing import Outcome, Plan
from autoscaler.core.params import Params, Slo
from autoscaler.errors import InputError
from autoscaler.sim.instance import Cluster, Instance, load_traffic, make_instance
from autoscaler.sim.plant import Span

SHOWN: Final = ("chat-diurnal", "spike-train")
"""What is played when nothing is asked for: a day's rhythm, and spikes that end before a replica could serve."""
CLUSTER: Final = Cluster(warmup_s=120.0, warmup_p90_s=160.0)
_SHORTEST_S: Final = 600.0
"""Data seconds: less than a few warm-ups shows nothing and compares nothing."""


def make_plan(
    trace: str | None, workload: str | None, *, speed: float, wall_s: float, seed: int, cut_s: float = 0.0
) -> Plan:
    """What is to be played, without a page. InputError for figures that cannot be used."""
    for name, value in (("--speed", speed), ("--for", wall_s)):
        if not 0 < value < float("inf"):
            raise InputError(f"{name} {value:g}: give a positive number")
    if speed * wall_s < _SHORTEST_S:
        raise InputError(
            f"--speed {speed:g} for {wall_s:g} s plays {speed * wall_s:g} s of data; give more of either, so that at "
            f"least {_SHORTEST_S:g} s are played"
        )
    if not 0 <= cut_s < speed * wall_s / 2:
        raise InputError(
            f"--cut-metrics {cut_s:g}: give seconds of data, less than half of the {speed * wall_s:g} played"
        )
    named = SHOWN if trace is None and workload is None else (workload,)
    instances: dict[str, Instance] = {}
    for choice in named:
        instance = make_instance(load_traffic(trace, choice, seed=seed), CLUSTER, seed=seed)
        cut = _cut(instance, speed * wall_s, cut_s if not instances else 0.0)
        instances[f"demo/{cut.traffic.name}"] = cut
    most = max(instance.traffic.duration_s for instance in instances.values())
    params = {
        name: Params(max_replicas=i.spec.max_replicas, slo=Slo(wait_s=i.spec.slo_wait_s))
        for name, i in instances.items()
    }
    return Plan(instances, params, speed, min(wall_s, most / speed), port=None, browser=False)


def _cut(instance: Instance, length_s: float, cut_s: float) -> Instance:
    """The first `length_s` of the traffic, with an outage of the metrics that everyone on this traffic meets."""
    traffic = instance.traffic
    steps = min(traffic.arrivals.size, max(1, round(length_s / traffic.step_s)))
    end_s = steps * traffic.step_s
    outages: tuple[Span, ...] = ((end_s / 2, end_s / 2 + cut_s),) if cut_s > 0 else ()
    return replace(instance, traffic=traffic.window(0.0, end_s), spec=replace(instance.spec, outages=outages))


def summary(plan: Plan, outcome: Outcome, command: str) -> str:
    """The outcome as JSON: per workload its table, how much was seen and decided, and the last frame."""
    workloads = {
        results.workload: {
            **asdict(results),
            "traffic": plan.instances[results.workload].traffic.source,
            "decisions": outcome.decisions[results.workload],
            "decisions_that_scaled": outcome.moves[results.workload],
            "last_frame": None if (last := outcome.last.get(results.workload)) is None else asdict(last),
        }
        for results in outcome.results
    }
    fields = {
        "command": command,
        "speed": plan.speed,
        "interrupted": outcome.interrupted,
        "late_ratio": outcome.late_ratio,
        "warnings": outcome.warnings(plan),
        "workloads": workloads,
    }
    return json.dumps(fields, indent=2, allow_nan=False) + "\n"
