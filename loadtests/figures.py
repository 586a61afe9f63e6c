"""The figures of one instance: our run at its default against the frontiers of rivals swept in hindsight.

Enters: a case, its bounds, frontiers and our score. Leaves: a record for JSON that states wins and losses alike. Every
comparison is at the goal of 99 % in time: rivals at exactly the goal on their frontier, which is the cheaper side of
their nearest setting, ours as it ran.
"""

import shlex
from collections.abc import Mapping

from autoscaler.sim.instance import Instance
from autoscaler.sim.score import Reference, Score
from autoscaler.sim.sweep import GOAL, Frontier, Point
from loadtests.cases import Case

PERFECT = "perfect"
"""Knows the arrivals: the other end of the gap, and no rival."""
CONSTANT = "static"
RESTLESS = "kpa"
ON_OFF_GOAL = 0.95
"""Share in time asked of traffic that comes and goes faster than any warm-up."""
_HOUR_S = 3600.0
Record = dict[str, object]


def figures(
    case: Case, instance: Instance, bounds: Reference, frontiers: Mapping[str, Frontier], ours: Score
) -> Record:
    """All figures of one instance."""
    d2_hours = (bounds.d2_s or 0.0) / _HOUR_S
    command = shlex.join(["python3", "dev.py", "headroom", "simulate", *case.arguments, "--policy", "headroom"])
    record: Record = {
        "kind": case.kind, "label": case.label, "day": case.day, "warmup_s": case.warmup_s, "seed": case.seed,
        "capacity_rps": instance.spec.capacity_rps, "d1_gpu_hours": (bounds.d1_s or 0.0) / _HOUR_S,
        "d2_gpu_hours": d2_hours, "headroom": ours.as_json(command),
        "rivals": {name: _rival(frontier, d2_hours) for name, frontier in frontiers.items()},
    }  # fmt: skip
    record["compared"] = _compared(frontiers, ours, d2_hours)
    if instance.traffic.onsets_s:
        record["settled"] = _settled(frontiers, ours)
    if case.kind == "on-off":
        constant = frontiers[CONSTANT]
        record["constant_hours"] = {
            "at_95": constant.hours_at(ON_OFF_GOAL),
            "at_ours": constant.hours_at(ours.attainment),
        }
    return record


def _rival(frontier: Frontier, d2_hours: float) -> Record:
    cheapest, hours = frontier.cheapest(), frontier.hours_at()
    return {
        "best_attainment": max(point.score.attainment for point in frontier.points),
        "cheapest": None if cheapest is None else _point(cheapest),
        "ratio_d2_at_goal": None if hours is None else hours / d2_hours,
        "closest": _point(_closest(frontier)),
    }


def _point(point: Point) -> Record:
    score = point.score
    return {
        "knob": list(point.knob), "attainment": score.attainment, "gpu_hours": score.gpu_hours.total,
        "ratio_d2": score.ratio_d2, "direction_changes_per_day": score.direction_changes_per_day,
        "starts_per_day": score.starts_per_day, "recovery_s": score.recovery_s,
    }  # fmt: skip


def _closest(frontier: Frontier) -> Point:
    """The cheapest setting that reaches the goal, else the one with the most in time."""
    return frontier.cheapest() or max(frontier.points, key=lambda point: point.score.attainment)


def best_rival(frontiers: Mapping[str, Frontier], *, settled: bool = False) -> tuple[str, float] | None:
    """The rival with the fewest GPU-hours at exactly the goal, and those; None where none reaches it."""
    hours = {name: frontier.hours_at(settled=settled) for name, frontier in frontiers.items() if name != PERFECT}
    reached = {name: value for name, value in hours.items() if value is not None}
    return min(reached.items(), key=lambda item: item[1]) if reached else None


def _compared(frontiers: Mapping[str, Frontier], ours: Score, d2_hours: float) -> Record:
    best, perfect, mine = best_rival(frontiers), frontiers[PERFECT].hours_at(), ours.gpu_hours.total
    restless = _closest(frontiers[RESTLESS]).score.direction_changes_per_day
    closed: float | None = None
    if best is not None and perfect is not None and best[1] > perfect and ours.attainment >= GOAL:
        closed = (best[1] - mine) / (best[1] - perfect)
    return {
        "best_rival": None if best is None else best[0],
        "best_rival_ratio_d2": None if best is None else best[1] / d2_hours,
        "perfect_ratio_d2": None if perfect is None else perfect / d2_hours,
        "gap_closed": closed,
        "flips_per_day": ours.direction_changes_per_day,
        "kpa_flips_per_day": restless,
        "hours_over_best_rival": None if best is None else mine / best[1] - 1.0,
    }


def _settled(frontiers: Mapping[str, Frontier], ours: Score) -> Record:
    """The view without 2 warm-ups + 60 s after each onset, and recoveries among settings that reach the goal there."""
    best = best_rival(frontiers, settled=True)
    recoveries = {
        name: point.score.recovery_s
        for name, frontier in frontiers.items()
        if name not in {PERFECT, CONSTANT} and (point := frontier.cheapest(settled=True)) is not None
    }
    known = {name: value for name, value in recoveries.items() if value is not None}
    fastest = min(known.items(), key=lambda item: item[1]) if known else None
    return {
        "attainment": ours.settled.attainment,
        "gpu_hours": ours.settled.gpu_hours.total,
        "best_rival": None if best is None else best[0],
        "best_rival_gpu_hours": None if best is None else best[1],
        "hours_over_best_rival": None if best is None else ours.settled.gpu_hours.total / best[1] - 1.0,
        "recovery_s": ours.recovery_s,
        "fastest_rival": None if fastest is None else fastest[0],
        "fastest_rival_recovery_s": None if fastest is None else fastest[1],
    }
