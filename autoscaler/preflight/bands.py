"""The bands a demand moves in: floor, usual level, upper band, highest sustained level, peak, and the hours of a day.

Enters: a demand and the cold start. Leaves: an `Answer` for each. The bands are levels sustained over one cold start;
only the peak is of a single step, and it is what nobody should provision for.
"""

from dataclasses import dataclass

import numpy as np

from autoscaler.core.columns import F64
from autoscaler.preflight.answers import Answer, CannotTell, Measured, Why, Window
from autoscaler.preflight.offered import Demand
from autoscaler.preflight.sustained import (
    DAY_S,
    FLOOR_SHARE,
    HIGH_SHARE,
    LEAST_DAYS,
    USUAL_SHARE,
    ByHour,
    Sustained,
    by_hour,
    held,
    held_interval,
    sustain,
)

LEAST_WINDOWS = 10
"""Cold starts' worth of known history below which a level held 95 % of the time has no meaning."""

_SHARES = (FLOOR_SHARE, USUAL_SHARE, HIGH_SHARE)


@dataclass(frozen=True, slots=True)
class Bands:
    """Levels of one demand in `unit`, sustained over `width_s`; `peak` alone is of one step."""

    unit: str
    width_s: float
    floor: Answer
    usual: Answer
    high: Answer
    highest: Answer
    peak: Answer
    hours: ByHour | CannotTell


def bands(demand: Demand, *, step_s: float, cold_start_s: float, stream: np.random.Generator) -> Bands:
    """The bands of `demand`; each level says why where the record is too short or too full of holes."""
    found = sustain(demand.values, start_s=demand.window.from_s, step_s=step_s, cold_start_s=cold_start_s)
    known = found.known
    peak = _peak(demand)
    refusal = _refused(found, known, step_s)
    if refusal is not None:
        return Bands(demand.unit, found.width_s, refusal, refusal, refusal, refusal, peak, refusal)
    ends = held_interval(found, _SHARES, stream)
    unknown_s = (found.levels.size - known.size) * step_s
    window = Window(demand.window.from_s, demand.window.until_s, unknown_s)

    def level(index: int) -> Measured:
        share = _SHARES[index]
        low, high = (None, None) if ends is None else (float(end) for end in ends[index])
        how = f"reached or exceeded {100 * share:.0f} % of the time by {demand.how}, in windows of one cold start"
        return Measured(held(known, share), demand.unit, window, known.size, "windows", how, low, high)

    how = f"highest of all windows of one cold start of {demand.how}"
    highest = Measured(float(known.max()), demand.unit, window, known.size, "windows", how)
    return Bands(
        demand.unit, found.width_s, level(0), level(1), level(2), highest, peak, _hours(found, known, step_s, stream)
    )


def _peak(demand: Demand) -> Measured:
    known = demand.values[np.isfinite(demand.values)]
    how = f"highest single step of {demand.how}"
    return Measured(float(known.max()), demand.unit, demand.window, known.size, "steps", how)


def _refused(found: Sustained, known: F64, step_s: float) -> CannotTell | None:
    span_s, least_s = found.levels.size * step_s, LEAST_WINDOWS * found.width_s
    if span_s < least_s:
        text = f"the record covers {span_s + found.width_s - step_s:g} s; {least_s:g} s, ten cold starts, are the least"
        return CannotTell(Why.TOO_SHORT, text, "a longer window")
    if known.size * step_s < least_s or 2 * known.size < found.levels.size:
        share = 100 * known.size / found.levels.size
        text = f"only {share:.0f} % of the windows of one cold start are free of holes"
        return CannotTell(Why.TOO_MANY_HOLES, text, "a record with fewer holes")
    return None


def _hours(found: Sustained, known: F64, step_s: float, stream: np.random.Generator) -> ByHour | CannotTell:
    days = known.size * step_s / DAY_S
    if days < LEAST_DAYS:
        text = f"{days:.2g} days of known history do not tell one hour of the day from another"
        return CannotTell(Why.TOO_SHORT, text, f"{LEAST_DAYS:.0f} days, better two weeks")
    return by_hour(found, stream)


def dispersion(demand: Demand, *, step_s: float, scale_s: float) -> Answer:
    """How much more requests clump than independent ones, over windows of `scale_s`: 1 is chance, 10 is bursty.

    The index of dispersion for counts, variance over mean (Cox and Lewis, The Statistical Analysis of Series of
    Events, 1966), with the variance from neighbouring windows, 0.5 * mean (N[i+1] - N[i])^2 (von Neumann,
    Annals of Mathematical Statistics 12, 1941), so that the slow rise and fall of a day is no clumping.
    """
    width = max(1, round(scale_s / step_s))
    whole = demand.values[: demand.values.size // width * width].reshape(-1, width)
    counts = whole.sum(axis=1) / demand.per_request  # NaN where any step is unknown
    steps = np.diff(counts)
    steps = steps[np.isfinite(steps)]
    mean = float(np.nanmean(counts)) if np.isfinite(counts).any() else 0.0
    if np.isfinite(counts).any() and mean <= 0:
        return CannotTell(Why.NO_LOAD, "no request came in the whole record", "a window with requests in it")
    if steps.size < 2 * LEAST_WINDOWS:
        text = (
            f"{steps.size} pairs of neighbouring windows of {width * step_s:g} s are too few to tell bursts from chance"
        )
        return CannotTell(Why.TOO_SHORT, text, "a longer window")
    index = 0.5 * float(np.mean(steps**2)) / mean
    reach = 1.645 * 0.5 * float(np.std(steps**2, ddof=1)) / mean / np.sqrt(steps.size)
    how = f"variance over mean of requests in neighbouring windows of {width * step_s:g} s"
    low, high = max(0.0, index - reach), index + reach
    return Measured(index, "times chance", demand.window, steps.size, "pairs of windows", how, low, high)
