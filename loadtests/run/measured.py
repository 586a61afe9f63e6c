"""What a run is judged by, the same for what was measured and what was predicted.

Enters: when requests were due and when each had its first token, and replicas over time. Leaves: `Figures`. It knows
neither where they came from nor how they are shown.
"""

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from statistics import median, median_low

import numpy as np
import numpy.typing as npt

FloatArray = npt.NDArray[np.float64]
_HOUR_S = 3600.0
PERCENTILES = (50, 90, 99)


@dataclass(frozen=True, slots=True)
class GpuHours:
    """GPU-hours that were held: ordered and not ready, working, and the rest."""

    warming: float
    serving: float
    """In which an engine ran steps."""
    idle: float
    """Ready without work, or told to go and not gone."""

    @property
    def total(self) -> float:
        """All three."""
        return self.warming + self.serving + self.idle


@dataclass(frozen=True, slots=True)
class Figures:
    """One run."""

    requests: int
    attainment_ratio: float
    """Share of the requests whose first token came within the objective; a failed request is none of them. NaN where no
    request is known, in a record None."""
    recovery_s: float | None
    """From the onset to the instant at which the last late request was due; 0 where none was late, None without an
    onset."""
    ttft_s: dict[str, float | None]
    """Percentiles over the requests that got a token."""
    gpu_hours: GpuHours
    most_replicas: int
    """The highest count that was asked for."""
    last_replicas: int

    def as_json(self) -> dict[str, object]:
        """For a record; totals beside their parts."""
        hours = {**asdict(self.gpu_hours), "total": self.gpu_hours.total}
        share = self.attainment_ratio if self.requests else None
        return {**asdict(self), "attainment_ratio": share, "gpu_hours": hours}


def figures(
    *, due_s: FloatArray, ttft_s: FloatArray, objective_s: float, onset_s: float | None, hours: GpuHours,
    desired: npt.NDArray[np.int64],
) -> Figures:  # fmt: skip
    """The figures of requests that were due at `due_s` and had their first token `ttft_s` later, NaN for never; both of
    shape (N,)."""
    late = ~(ttft_s <= objective_s)
    known = ttft_s[~np.isnan(ttft_s)]
    return Figures(
        requests=due_s.size,
        attainment_ratio=1.0 - float(late.mean()) if late.size else math.nan,
        recovery_s=None if onset_s is None else _recovery_s(due_s[late], onset_s),
        ttft_s={f"p{q}": float(np.percentile(known, q)) if known.size else None for q in PERCENTILES},
        gpu_hours=hours,
        most_replicas=int(desired.max(initial=0)),
        last_replicas=int(desired[-1]) if desired.size else 0,
    )


def middle(runs: Sequence[Figures]) -> Figures:
    """For each figure its median over several runs of the same requests; together no run need have them. None where a
    run has none. GPU-hours are those of one run, the lower of two that are in the middle by their total: medians of
    their parts would add up to what lies between the runs of one more replica and of one less, or beside all of them.
    """
    hours = sorted((run.gpu_hours for run in runs), key=lambda each: each.total)
    return Figures(
        requests=runs[0].requests,
        attainment_ratio=median(run.attainment_ratio for run in runs),
        recovery_s=_median([run.recovery_s for run in runs]),
        ttft_s={name: _median([run.ttft_s[name] for run in runs]) for name in runs[0].ttft_s},
        gpu_hours=hours[(len(hours) - 1) // 2],
        most_replicas=median_low(run.most_replicas for run in runs),
        last_replicas=median_low(run.last_replicas for run in runs),
    )


def _median(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return median(known) if len(known) == len(values) else None


def _recovery_s(late_due_s: FloatArray, onset_s: float) -> float:
    after = late_due_s[late_due_s >= onset_s]
    return float(after.max() - onset_s) if after.size else 0.0


def gpu_hours(warming_s: float, held_s: float, busy_s: float, gpus: int) -> GpuHours:
    """Of replica-seconds: before readiness, from readiness to the end, and those of the latter in which steps ran."""
    factor = gpus / _HOUR_S
    return GpuHours(warming_s * factor, busy_s * factor, max(0.0, held_s - busy_s) * factor)
