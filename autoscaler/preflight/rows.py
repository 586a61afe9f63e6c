"""The answers as named rows: the seven inputs that capacity rests on, what to provision for, what was not recorded.

Enters: a study. Leaves: (name, answer) pairs in a fixed order, so that every report has the same rows and a missing one
shows as such.
"""

from autoscaler.core.demand.peaks import CEILING
from autoscaler.preflight.answers import Answer, CannotTell, Measured
from autoscaler.preflight.study import WorkloadStudy, recommended_replicas
from autoscaler.record.explain import clock, duration

Row = tuple[str, Answer]


def inputs(study: WorkloadStudy) -> list[Row]:
    """The seven inputs: concurrency, queue, bursts, latency tolerance, mix, residency, durations."""
    bands, seen, waits = study.concurrency, study.bursts, study.waiting.waits
    return [
        ("1 Request concurrency, half of the time", bands if isinstance(bands, CannotTell) else bands.usual),
        ("1 Request concurrency, 5 % of the time", bands if isinstance(bands, CannotTell) else bands.high),
        ("2 Queue depth, p99", study.waiting.deepest),
        ("2 Time with a queue", study.waiting.queued),
        ("3 Surges", seen if isinstance(seen, CannotTell) else seen.per_day),
        ("3 Surges over before capacity", seen if isinstance(seen, CannotTell) else seen.over_before),
        ("3 Clumping of arrivals", study.dispersion),
        ("4 Wait that is allowed", study.waiting.allowed),
        ("4 Wait that was seen, p50", waits[0]),
        ("4 Wait that was seen, p90", waits[1]),
        ("4 Wait that was seen, p99", waits[2]),
        _mix(study),
        ("6 Computing while GPU memory is held", study.residency.computing),
        ("6 Held without any work", study.residency.idle_hours),
        ("6 KV cache in use, half of the time", study.residency.kv_used),
        ("6 KV cache in use, p95", study.residency.kv_peak),
        ("7 Request duration, p50", study.durations[0]),
        ("7 Request duration, p90", study.durations[1]),
        ("7 Request duration, p99", study.durations[2]),
    ]


def _mix(study: WorkloadStudy) -> Row:
    """A workload is wholly batch or wholly inference; mixtures are the cluster's."""
    work = study.waiting.work
    if isinstance(work, CannotTell):
        return "5 Batch or inference", work
    how = "by what the source names it, or by its priority class"
    return f"5 Demand that is {work}", Measured(1.0, "ratio", study.window, 0, "", how)


def plan(study: WorkloadStudy) -> list[Row]:
    """What to provision for: bands in requests and replicas, the ceiling, the window that counts, and today's waste."""
    bands, part = study.concurrency, study.provision
    if isinstance(bands, CannotTell):
        levels: list[Row] = [("Concurrency bands", bands)]
        if not isinstance(study.rate, CannotTell):
            rate = study.rate
            levels += [("Floor of arrivals", rate.floor), ("Highest sustained arrivals", rate.highest)]
    else:
        levels = [
            ("Floor", bands.floor),
            ("Floor in replicas", recommended_replicas(bands.floor, study.slots)),
            ("Upper band", bands.high),
            ("Upper band in replicas", recommended_replicas(bands.high, study.slots)),
            ("Known burst ceiling", bands.highest),
            (f"{CEILING:g} times that in replicas", recommended_replicas(bands.highest, study.slots, factor=CEILING)),
            ("Highest single step, not to be provisioned for", bands.peak),
        ]
    return [
        *levels,
        ("Sustained window: one cold start", study.cold_start),
        ("What one replica carries", study.slots),
        ("Queue tolerance: wait that is allowed", study.waiting.allowed),
        ("GPU-hours held", part.held),
        ("GPU-hours needed", part.needed),
        ("Held beyond need", part.wasted),
        ("Missing beneath need", part.short),
        ("What the excess costs", part.cost),
    ]


def unknowns(study: WorkloadStudy) -> list[str]:
    """Signals that are not there, and the holes of those that are, in words."""
    lines = [f"{_name(signal)}: {missing.text} ({missing.gap})" for signal, missing in study.missing.items()]
    for signal, holes in study.holes.items():
        unknown_s = sum(hole.until_s - hole.from_s for hole in holes)
        first = holes[0]
        more = f" and {len(holes) - 1} more" if len(holes) > 1 else ""
        lines.append(
            f"{_name(signal)}: unknown for {duration(unknown_s)} in all; from {clock(first.from_s)} for "
            f"{duration(first.until_s - first.from_s)}: {first.text} ({first.gap}){more}"
        )
    return lines


def _name(signal: str) -> str:
    return signal.removesuffix("_per_s").removesuffix("_ratio").replace("_", " ")
