"""One round of forecasting for the rows whose history gained a bin: score, learn, forecast, bound."""

import math
from dataclasses import dataclass

import numpy as np

from autoscaler.core.columns import F64, I64, Bools, Columns, column, filled, some
from autoscaler.core.forecast import conformal, features, models, pending, recurring, scoring, steady
from autoscaler.core.forecast.models import FittedModel, HoltColumns, Model, Trees
from autoscaler.core.params import BIN_S

SCALE_FLOOR = 0.3
"""The scale of a score is at least this share of the recent rate, or scores explode after near-zero load."""

UNREST_BINS = 360.0
"""The usual error is a mean over an hour: shorter and longer ones gave looser bounds on eight ServeGen days."""

STAY_S = 60.0
"""What stays for longer than this minute has its need over its stay (`observe.history`)."""

LEAST_RPS = 1e-6
"""Below one request in twelve days there is no load to forecast, only the tail of a smoothed one."""

UNREST_MOST = 1.0
SHOCK_RATIO = 2.0
"""A truth beyond twice the forecast is a shock: no margin would have covered it, and it must not become one."""

WAKE_BINS = 12
"""Forecasts made until the level has followed a step (`models.LEVEL` spans two minutes) miss by the same event: for so
long at most it is itself surprised, and for so long afterwards the bounds still are."""

UNREST_MIX = (0.3, 0.08, 0.01)
"""Share and size of a fixed error in the scale, and an error always added, relative to the load: a calm hour is no
promise. Together with the measured error they cut the pinball loss at 95 % by 5-20 % (600 s ahead)."""


@dataclass(slots=True)
class ForecastColumns(Columns):
    """What the last round said, in requests/s: the bound in force, the median, and which model weighs most."""

    upper_rps: F64 = column(keep=True)
    median_rps: F64 = column(keep=True)
    steady_rps: F64 = column(later=True)
    """The bound without its jitter, before what a young workload must allow for; it settles within a lead time."""
    level: F64 = column()
    unrest_ratio: F64 = column(keep=True)
    """Usual relative error of the level over the last hour."""
    leading: I64 = column(fill=0, dtype=np.int64)
    at_s: F64 = column()
    recurring: Bools = column(fill=False, dtype=np.bool_)
    """Bursts come back faster than a replica starts: the bound is what they need."""
    wake: I64 = column(fill=0, dtype=np.int64)
    """Scores to come that still belong to the last shock; no forecast outlives a restart, so it is not kept."""
    spared: F64 = column(fill=0, keep=True)
    """Scores that counted as part of one step, forgotten as the histogram forgets."""


@dataclass(frozen=True, slots=True)
class Round:
    """Inputs of one round, arrays of shape (B,) or (B, bins) newest first."""

    now_s: F64
    head: I64
    """Number of the open bin."""
    count: F64
    cover_s: F64
    need_rps: F64
    minute_need: F64
    """Envelope over the newest complete minute."""
    stays_s: F64
    """How long a request is in an engine, NaN where that is not long; of more than a minute needs are means over it."""
    horizon_bins: I64
    level: F64
    """The quantile level asked for, 0..1."""
    habit: recurring.Habit
    """Bursts that come back: what they need is the bound."""
    least_ratio: F64
    """Any other bound is at least this many times the median."""


@dataclass(slots=True)
class Forecaster:
    """All columns of the forecast stage."""

    out: ForecastColumns
    holt: HoltColumns
    pending: pending.PendingColumns
    conformal: conformal.ConformalColumns
    scores: scoring.ScoreColumns

    @classmethod
    def allocate(cls, rows: int) -> "Forecaster":
        """Return columns for `rows` rows."""
        return cls(
            ForecastColumns.allocate(rows),
            HoltColumns.allocate(rows),
            pending.PendingColumns.allocate(rows),
            conformal.ConformalColumns.allocate(rows),
            scoring.ScoreColumns.allocate(rows),
        )

    def groups(self) -> dict[str, Columns]:
        """Return the column groups by name."""
        return {
            "forecast": self.out,
            "holt": self.holt,
            "pending": self.pending,
            "conformal": self.conformal,
            "scores": self.scores,
        }


def advance(stage: Forecaster, rows: I64, inputs: Round, fitted: dict[int, FittedModel]) -> None:
    """Score what is due, then forecast each row's need over the minute after its horizon."""
    _score(stage, rows, inputs)
    newest = np.where(inputs.cover_s[:, 0] > 0, inputs.count[:, 0] / np.maximum(inputs.cover_s[:, 0], 1e-9), np.nan)
    # Of requests that stay for minutes a bin tells chance: its level is that of a stay.
    newest = np.where(inputs.stays_s > STAY_S, inputs.minute_need, newest)
    models.holt_step(stage.holt, rows, newest)
    habit = inputs.habit
    base, reference = _bases(stage, rows, inputs, fitted)
    base[habit.over, Model.PEAK] = np.nan
    common = _scale(stage, rows, base, reference, inputs.horizon_bins)
    level = conformal.adapted(stage.conformal, rows, inputs.level)
    upper_score, middle_score = conformal.quantiles(stage.conformal, rows, level, np.full(len(rows), 0.5))
    bounds = base + upper_score * common[:, None]
    middle = base + middle_score * common[:, None]
    weight = scoring.weights(stage.scores, rows, np.isfinite(bounds))
    upper = np.maximum(filled(np.where(weight > 0, weight * bounds, 0.0)).sum(axis=1), 0.0)
    recurs = np.isfinite(habit.need_rps)
    before = stage.out.steady_rps[rows]
    upper = np.where(recurs, habit.need_rps, steady.follow(before, upper, inputs.horizon_bins))
    known = np.isfinite(bounds[:, Model.LAST])
    stage.out.steady_rps[rows] = np.where(known, upper, before)
    median = np.maximum(filled(np.where(weight > 0, weight * middle, 0.0)).sum(axis=1), 0.0)
    # Of bursts that come back the middle of no model says anything: while one lasts it is the burst.
    median = np.where(recurs, np.minimum(median, upper), median)
    held = np.where(recurs, upper, np.maximum(upper, inputs.least_ratio * median))
    stage.out.upper_rps[rows] = np.where(known, held, stage.out.upper_rps[rows])
    stage.out.median_rps[rows] = np.where(known, median, stage.out.median_rps[rows])
    stage.out.recurring[rows] = recurs
    stage.out.level[rows] = np.where(recurs, recurring.LEVEL, level)
    stage.out.leading[rows] = np.where(recurs, Model.PEAK.value, weight.argmax(axis=1))
    stage.out.at_s[rows] = inputs.now_s
    ahead = np.minimum(inputs.horizon_bins, pending.MAX_HORIZON_BINS)
    made = pending.Made(inputs.head + ahead, base, common, bounds, upper, inputs.level)
    pending.put(stage.pending, rows, made)


def coverage(stage: Forecaster, rows: I64) -> F64:
    """Return the share of recent bounds that held, NaN before any was scored; shape (B,)."""
    scored = stage.conformal.scored[rows]
    return np.where(scored > 0, stage.conformal.covered[rows] / np.maximum(scored, 1e-9), np.nan)


def asked(stage: Forecaster, rows: I64) -> F64:
    """Return the share of the same bounds that were meant to hold, NaN before any was scored; shape (B,)."""
    scored, levels = stage.conformal.scored[rows], stage.conformal.asked[rows]
    return np.where((scored > 0) & (levels > 0), levels / np.maximum(scored, 1e-9), np.nan)


def _score(stage: Forecaster, rows: I64, inputs: Round) -> None:
    due = pending.take(stage.pending, rows, inputs.head - 6)
    if not len(due.at):
        return
    truth = inputs.minute_need[due.at]
    measured = np.isfinite(truth) & np.isfinite(due.scale_rps)
    if not some(measured):
        return
    at, truth = due.at[measured], truth[measured]
    mine = rows[at]
    base, scale, bounds = due.base_rps[measured], due.scale_rps[measured], due.bounds_rps[measured]
    upper, level = due.upper_rps[measured], due.level[measured]
    shock = truth[:, None] > SHOCK_RATIO * base
    surprised = shock[:, Model.LEVEL]
    spared, worth = _spared(stage, mine, surprised, inputs.horizon_bins[at])
    load = np.maximum(base[:, Model.LEVEL], 1e-9)
    error = np.minimum(np.abs(truth - base[:, Model.LEVEL]) / load, UNREST_MOST)
    pace = 2.0 / (UNREST_BINS + 1.0) * np.where(surprised, np.minimum(conformal.SHOCK_WEIGHT, worth), worth)
    old = stage.out.unrest_ratio[mine]
    stage.out.unrest_ratio[mine] = np.where(np.isfinite(error), old + (error - old) * pace, old)
    units = (truth[:, None] - base) / scale[:, None]
    held, steers = (truth <= upper).astype(np.float64), ~(surprised | spared)
    conformal.learn(stage.conformal, mine, units, held, level, shock=shock, worth=worth, steers=steers)
    loss = scoring.pinball(truth[:, None], bounds, level[:, None]) / scale[:, None]
    scoring.learn(stage.scores, mine, worth[:, None] * loss)


def _spared(stage: Forecaster, rows: I64, shock: Bools, horizon_bins: I64) -> tuple[Bools, F64]:
    """Return whether each score is spared as part of a step, and what it counts: the scores of a step as one together.

    A step spoils every forecast made in the lead time before it and in its wake. Counted one by one they outweigh hours
    of scores, and no model that loses afterwards can be told from one that wins. As many are spared as one step can
    spoil, and no more until those are forgotten: what comes back is no step, and the bound must learn to cover it.
    """
    out, most = stage.out, (horizon_bins + 2 * WAKE_BINS).astype(np.float64)
    left = out.wake[rows]
    out.wake[rows] = np.where(shock, WAKE_BINS, np.maximum(left - 1, 0))
    before = out.spared[rows] * np.exp(-BIN_S / conformal.MEMORY_S)
    spared = (shock | (left > 0)) & (before + 1.0 <= most)
    out.spared[rows] = before + spared
    return spared, np.where(spared, 1.0 / most, 1.0)


def _scale(stage: Forecaster, rows: I64, base: F64, reference: F64, horizon_bins: I64) -> F64:
    """The usual error in requests/s, NaN without any load."""
    unrest = stage.out.unrest_ratio[rows]
    # Before any score: errors grow with the root of the horizon, 8 % at one minute and 14 % at ten (ServeGen).
    unrest = np.where(np.isfinite(unrest), unrest, 0.05 * (1.0 + np.sqrt(horizon_bins / 18.0)))
    stage.out.unrest_ratio[rows] = unrest
    share, fixed, least = UNREST_MIX
    load = np.maximum(filled(base[:, Model.LEVEL]), SCALE_FLOOR * reference)
    return np.where(load > LEAST_RPS, load * (share * fixed + (1.0 - share) * unrest + least), np.nan)


def _bases(stage: Forecaster, rows: I64, inputs: Round, fitted: dict[int, FittedModel]) -> tuple[F64, F64]:
    built, reference = features.build(inputs.count, inputs.cover_s, inputs.need_rps)
    base = np.full((len(rows), len(Model)), np.nan)
    base[:, Model.LAST] = inputs.minute_need
    base[:, Model.LEVEL] = stage.holt.smooth[rows]
    base[:, Model.HOLT] = models.holt_ahead(stage.holt, rows, inputs.horizon_bins)
    base[:, Model.PEAK] = np.where(np.isfinite(inputs.need_rps), inputs.need_rps, 0.0).max(axis=1)
    grown: dict[int, Trees] = {}
    for position, (row, level_rps) in enumerate(zip(rows.tolist(), reference.tolist(), strict=True)):
        model = fitted.get(row)
        if model is None or math.isnan(level_rps):
            continue
        base[position, Model.RIDGE] = models.ridge_ahead(model, built[position], level_rps)
        if model.trees is not None:
            grown[position] = model.trees
    if grown:
        at = list(grown)
        base[at, Model.TREES] = models.trees_ahead(list(grown.values()), built[at], reference[at])
    base[:, Model.LAST] = np.where(np.isfinite(base[:, Model.LAST]), base[:, Model.LAST], base[:, Model.HOLT])
    return base, filled(reference)
