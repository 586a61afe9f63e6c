"""The figures of one workload as a frozen value, for pages, metrics and people. Reading them changes nothing."""

from dataclasses import dataclass

import numpy as np

from autoscaler.core.capacity.throughput import Term
from autoscaler.core.forecast import forecaster, scoring
from autoscaler.core.forecast.models import Model
from autoscaler.core.observe.freshness import SIGNALS
from autoscaler.core.scale import overload
from autoscaler.core.scale.overload import Overload
from autoscaler.core.state import Table


@dataclass(frozen=True, slots=True)
class View:
    """One workload after its last step. Rates in requests/s; ``None`` where not known."""

    workload: str
    now_s: float
    load_rps: float | None
    queue: float | None
    ready: int
    starting: int
    desired: int
    replica_rps: float | None
    replica_limit: str
    warmup_p50_s: float
    warmup_p90_s: float
    warmup_samples: int
    forecast_rps: float | None
    median_rps: float | None
    forecast_model: str
    coverage_ratio: float | None
    level_ratio: float | None
    skill_ratio: tuple[tuple[str, float | None], ...]
    """Each model's loss over last value's: below 1 it wins."""
    switched_off: tuple[str, ...]
    budget_burn_ratio: float
    late_ratio: float
    signals: tuple[tuple[str, str, float | None], ...]
    """(signal, fresh | held | unknown | absent, age in seconds)."""
    overload: Overload | None
    asked_ratio: float | None = None
    """The share of the bounds behind `coverage_ratio` that were meant to hold."""
    scored_bins: float = 0.0
    """How many bounds stand behind it, older ones counting less."""


def view(table: Table, name: str) -> View | None:
    """Return the figures of a workload, ``None`` before its first step; raise KeyError for an unknown one."""
    row = table.rows[name]
    seen = table.track(row).seen
    if seen is None:
        return None
    track, rows = table.track(row), np.array([row])
    stage = table.forecaster
    skill = scoring.skill(stage.scores, rows)[0]
    return View(
        workload=name,
        now_s=seen.now_s,
        load_rps=_finite(seen.load_rps),
        queue=_finite(seen.queue),
        ready=seen.ready,
        starting=len(seen.starting_ages_s),
        desired=seen.desired,
        replica_rps=_finite(seen.rps),
        replica_limit=Term(seen.term).name.lower(),
        warmup_p50_s=seen.lead50_s,
        warmup_p90_s=seen.lead90_s,
        warmup_samples=len(track.lead.samples_s),
        forecast_rps=_finite(stage.out.upper_rps[row]),
        median_rps=_finite(stage.out.median_rps[row]),
        forecast_model=Model(int(stage.out.leading[row])).name.lower(),
        coverage_ratio=_finite(forecaster.coverage(stage, rows)[0]),
        level_ratio=_finite(stage.out.level[row]),
        asked_ratio=_finite(forecaster.asked(stage, rows)[0]),
        scored_bins=float(stage.conformal.scored[row]),
        skill_ratio=tuple((model.name.lower(), _finite(skill[model])) for model in Model),
        switched_off=tuple(model.name.lower() for model in Model if stage.scores.off[row, model]),
        budget_burn_ratio=seen.burn,
        late_ratio=seen.late_share,
        signals=tuple(
            (signal, track.fresh.state(signal, seen.now_s, track.params.tick_s).value, ages.get(signal))
            for ages in (track.fresh.ages_s(seen.now_s),)
            for signal in SIGNALS
        ),
        overload=_overload(table, row),
    )


def _overload(table: Table, row: int) -> Overload | None:
    track = table.track(row)
    seen = track.seen
    if seen is None or not (np.isfinite(seen.rps) and np.isfinite(seen.load_rps) and np.isfinite(seen.queue)):
        return None
    return overload.signal(
        now_s=seen.now_s,
        tick_s=track.params.tick_s,
        wanted=seen.wanted,
        replicas=seen.replicas,
        serving=seen.serving,
        starting_ages_s=seen.starting_ages_s,
        lead_s=seen.lead50_s,
        rps=seen.rps,
        load_rps=max(seen.load_rps, 0.0),
        queue=seen.queue,
        slack_s=float(table.policy.slack_s[row]),
    )


def _finite(value: float) -> float | None:
    number = float(value)
    return number if np.isfinite(number) else None
