"""What a run is judged by: requests in time, GPU-hours and their split, restlessness, recovery, and ratios to bounds.

Enters: a Run and the bounds of its instance, in replica-hours. Leaves: a Score, which writes itself as the JSON object
of one policy. One replica holds one GPU. `settled` is the same view of a run with what follows every unforeseeable
onset left out: no policy can beat one warm-up there, so it measures the rest.
"""

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass

import numpy as np
import numpy.typing as npt

from autoscaler.sim.plant import Timeline
from autoscaler.sim.serving import FloatArray, Waits
from autoscaler.sim.simulate import Run

BoolArray = npt.NDArray[np.bool_]
_HOUR_S = 3600.0
_DAY_S = 86400.0
_WAIT_TOLERANCE_S = 1e-7
CALM_S = 60.0
"""How long waits must stay within the objective to call a recovery final; also the tail left out after an onset."""


@dataclass(frozen=True, slots=True)
class GpuHours:
    """GPU-hours held: busy, ordered and not ready, and the rest (ready without work, or draining)."""

    serving: float
    warming: float
    idle: float

    @property
    def total(self) -> float:
        """All three: what is paid for."""
        return self.serving + self.warming + self.idle


@dataclass(frozen=True, slots=True)
class Settled:
    """The run with [onset, onset + 2 mean warm-ups + 60 s) left out for every onset."""

    attainment: float
    gpu_hours: GpuHours
    ratio_d2: float | None
    """GPU-hours outside over D2's schedule outside: one yardstick for all policies, not itself a bound."""
    left_out_s: float


@dataclass(frozen=True, slots=True)
class Score:
    """All figures of one run. Ratios are None where no bound was asked for; coverage where nothing was forecast."""

    policy: str
    attainment: float
    """Share of requests that waited at most the objective, 0..1; 1 when none arrived."""
    gpu_hours: GpuHours
    ratio_d1: float | None
    ratio_d2: float | None
    direction_changes_per_day: float
    """Turns of the desired count (up then down, or down then up), per day."""
    starts_per_day: float
    recovery_s: float | None
    """The longest recovery over all onsets; None where the traffic states none. See `recovery_s`."""
    coverage: float | None
    seed: int
    settled: Settled

    def as_json(self, command: str) -> dict[str, object]:
        """The object of one policy in the report; `command` is what reproduces it."""
        record = asdict(self)
        del record["policy"]
        return {**record, "command": command}


@dataclass(frozen=True, slots=True)
class Reference:
    """The bounds of one instance in replica-seconds, and D2's schedule as replica-seconds per simulated step."""

    d1_s: float | None = None
    d2_s: float | None = None
    d2_per_step_s: FloatArray | None = None


def score(run: Run, reference: Reference | None = None) -> Score:
    """Judge a run against its own objective and the bounds of its instance."""
    bounds = reference if reference is not None else Reference()
    timeline, slo_s = run.timeline, run.spec.slo_wait_s
    days = run.duration_s / _DAY_S
    hours = gpu_hours(timeline)
    return Score(
        policy=run.policy,
        attainment=attainment(run.waits, slo_s),
        gpu_hours=hours,
        ratio_d1=_ratio(hours.total * _HOUR_S, bounds.d1_s),
        ratio_d2=_ratio(hours.total * _HOUR_S, bounds.d2_s),
        direction_changes_per_day=direction_changes(timeline.desired) / days,
        starts_per_day=timeline.starts / days,
        recovery_s=recovery_s(run),
        coverage=run.coverage,
        seed=run.spec.seed,
        settled=_settled(run, bounds),
    )


def attainment(waits: Waits, slo_s: float, kept: BoolArray | None = None) -> float:
    """Share of requests that wait at most `slo_s`, segments cut exactly where the wait crosses it.

    `kept`, shape (N,), restricts the view to some segments. A wait within 1e-7 s of the objective is in time.
    """
    first, last, requests = waits.wait_from_s, waits.wait_to_s, waits.requests
    if kept is not None:
        first, last, requests = first[kept], last[kept], requests[kept]
    total = float(requests.sum())
    if total <= 0:
        return 1.0
    low, high = np.minimum(first, last), np.maximum(first, last)
    limit_s = slo_s + _WAIT_TOLERANCE_S
    share = np.where(high <= limit_s, 1.0, np.clip((limit_s - low) / np.where(high > low, high - low, 1.0), 0.0, 1.0))
    share = np.where(low > limit_s, 0.0, share)
    return float((share * requests).sum()) / total


def gpu_hours(timeline: Timeline, kept: BoolArray | None = None) -> GpuHours:
    """GPU-hours held over the run, or over the steps in `kept`, shape (steps,)."""
    mask = kept if kept is not None else np.ones(timeline.ready.size, dtype=np.bool_)
    held = float((timeline.ready[mask] + timeline.draining[mask]).sum()) * timeline.step_s
    busy = float(timeline.busy[mask].sum())
    warming = float(timeline.warming[mask].sum()) * timeline.step_s
    return GpuHours(busy / _HOUR_S, warming / _HOUR_S, max(0.0, held - busy) / _HOUR_S)


def direction_changes(desired: npt.NDArray[np.int64]) -> int:
    """How often a move of the desired count goes against the move before it."""
    moves = np.sign(np.diff(desired))
    moves = moves[moves != 0]
    return int(np.count_nonzero(moves[1:] != moves[:-1]))


def recovery_s(run: Run) -> float | None:
    """The longest time from an onset until arriving requests wait at most the objective again, for 60 s and more.

    0 for an onset that makes nobody late within its 2 warm-ups + 60 s. A run that ends before the waits have been fine
    for 60 s counts to its end, so the figure is then a lower bound. None without onsets.
    """
    if not run.traffic.onsets_s:
        return None
    starts, ends = _late_spans(run.waits, run.spec.slo_wait_s)
    return max(_recovery(onset, starts, ends, run) for onset in run.traffic.onsets_s)


def settle_spans(run: Run) -> tuple[tuple[float, float], ...]:
    """What `settled` leaves out: [onset, onset + 2 mean warm-ups + 60 s) of every onset."""
    span_s = 2.0 * run.spec.warmup.mean_s + CALM_S
    return tuple((onset, onset + span_s) for onset in run.traffic.onsets_s)


def _recovery(onset_s: float, starts: FloatArray, ends: FloatArray, run: Run) -> float:
    first = int(np.searchsorted(ends, onset_s, side="right"))
    if first == starts.size or starts[first] >= onset_s + 2.0 * run.spec.warmup.mean_s + CALM_S:
        return 0.0
    calm = np.append(starts[first + 1 :], math.inf) - ends[first:] >= CALM_S
    end_s = float(ends[first + int(np.argmax(calm))])
    return (run.duration_s if end_s + CALM_S > run.duration_s else end_s) - onset_s


def _late_spans(waits: Waits, slo_s: float) -> tuple[FloatArray, FloatArray]:
    """Spans of arrival time whose requests are late, in order: (starts, ends)."""
    limit_s = slo_s + _WAIT_TOLERANCE_S
    first, last = waits.wait_from_s, waits.wait_to_s
    late = np.maximum(first, last) > limit_s
    first, last, from_s, to_s = first[late], last[late], waits.from_s[late], waits.to_s[late]
    change = np.where(last == first, 1.0, last - first)
    cross_s = from_s + np.clip((limit_s - first) / change, 0.0, 1.0) * (to_s - from_s)
    return np.where(first > limit_s, from_s, cross_s), np.where(last > limit_s, to_s, cross_s)


def _settled(run: Run, bounds: Reference) -> Settled:
    spans, timeline = settle_spans(run), run.timeline
    steps_s = (np.arange(timeline.ready.size) + 0.5) * timeline.step_s
    kept = _outside(steps_s, spans)
    # A segment lies within one step, so its middle decides for it.
    kept_waits = _outside((run.waits.from_s + run.waits.to_s) / 2.0, spans)
    hours = gpu_hours(timeline, kept)
    yardstick = None if bounds.d2_per_step_s is None else float(bounds.d2_per_step_s[kept].sum())
    return Settled(
        attainment(run.waits, run.spec.slo_wait_s, kept_waits),
        hours,
        _ratio(hours.total * _HOUR_S, yardstick),
        float(np.count_nonzero(~kept)) * timeline.step_s,
    )


def _outside(at_s: npt.NDArray[np.floating], spans: Sequence[tuple[float, float]]) -> BoolArray:
    kept = np.ones(at_s.size, dtype=np.bool_)
    for from_s, to_s in spans:
        kept &= (at_s < from_s) | (at_s >= to_s)
    return kept


def _ratio(held_s: float, bound_s: float | None) -> float | None:
    return held_s / bound_s if bound_s is not None and bound_s > 0 else None
