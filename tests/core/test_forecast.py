"""Forecasts: calibrated on noise, adaptive, scored against last value, and evaluated exactly as they were fitted."""

import math
from functools import cache

import numpy as np
import pytest

from autoscaler.core.columns import F64, I64
from autoscaler.core.forecast import conformal, features, forecaster, onset, pending, recurring, scoring
from autoscaler.core.forecast.conformal import ConformalColumns
from autoscaler.core.forecast.forecaster import Forecaster, Round
from autoscaler.core.forecast.models import Model
from autoscaler.core.forecast.onset import OnsetColumns
from autoscaler.core.forecast.pending import Made, PendingColumns
from autoscaler.core.forecast.scoring import ScoreColumns
from autoscaler.core.observe import history
from autoscaler.core.observe.history import HistoryColumns
from autoscaler.core.params import BIN_S

MODELS = len(Model)
ROW = np.array([0])


def one(value: float) -> F64:
    return np.array([value])


class Line:
    """The forecast stage over several rows at once, fed one bin of arrivals after the other."""

    def __init__(self, rows: int, *, horizon_bins: int = 12, level: float = 0.9) -> None:
        self.rows = np.arange(rows)
        self.stage, self.history = Forecaster.allocate(rows), HistoryColumns.allocate(rows)
        self.horizon, self.level = np.full(rows, horizon_bins), np.full(rows, level)
        self.bins = 0
        for row in self.rows.tolist():
            conformal.reset(self.stage.conformal, row)

    def feed(self, arrivals: F64) -> None:
        """Close one bin with these arrivals, one per row."""
        self.bins += 1
        now_s = np.full(len(self.rows), BIN_S * self.bins)
        ten = np.full(len(self.rows), BIN_S)
        short = np.full(len(self.rows), np.nan)
        history.absorb(self.history, self.rows, now_s, arrivals=arrivals, span_s=ten, slack_s=ten, stays_s=short)
        count, cover_s = history.recent(self.history, self.rows, features.LOOKBACK_BINS)
        need = history.recent_needs(self.history, self.rows, features.LOOKBACK_BINS)
        minute = history.envelope(count[:, :6], cover_s[:, :6], ten)
        head = self.history.head[self.rows]
        made = Round(
            now_s=now_s, head=head, count=count, cover_s=cover_s, need_rps=need, minute_need=minute,
            stays_s=short, horizon_bins=self.horizon, habit=recurring.look(need, BIN_S * self.horizon, short),
            least_ratio=np.ones(len(self.rows)), level=self.level,
        )  # fmt: skip
        forecaster.advance(self.stage, self.rows, made, {})
        self.minute_rps = minute

    @property
    def upper_rps(self) -> F64:
        return self.stage.out.upper_rps

    @property
    def median_rps(self) -> F64:
        return self.stage.out.median_rps


# calibration
@pytest.mark.parametrize("level", [0.8, 0.95])
def test_bounds_cover_what_they_promise_on_noise(level: float) -> None:
    """24 rows of Poisson noise around loads of 4 to 100 requests/s: the mean coverage is the level."""
    rng, line = np.random.default_rng(7), Line(24, level=level)
    rates = np.geomspace(4.0, 100.0, 24)
    for _ in range(500):
        line.feed(rng.poisson(rates * BIN_S).astype(np.float64))
    share = forecaster.coverage(line.stage, line.rows)
    assert level - 0.04 <= share.mean() <= min(0.995, level + 0.08)


def test_a_bound_is_no_wider_than_the_noise_needs() -> None:
    """Arrivals of 1000 ± 3 % a bin: the 95th percentile of the need is within a quarter of the mean, in the end."""
    rng, line = np.random.default_rng(8), Line(8, level=0.95)
    for _ in range(500):
        line.feed(rng.poisson(1000.0, 8).astype(np.float64))
    assert (line.upper_rps >= 97.0).all()
    assert line.upper_rps.mean() <= 125.0


def test_the_highest_of_some_minutes_of_a_bound_ten_minutes_ahead_is_hardly_above_it() -> None:
    """Poisson noise around 20 requests/s: replicas are held for what the bound was within 150 s."""
    rng, line, bounds = np.random.default_rng(1), Line(16, horizon_bins=60, level=0.95), []
    for i in range(600):
        line.feed(rng.poisson(200.0, 16).astype(np.float64))
        if i >= 300:
            bounds.append(line.upper_rps.copy())
    above = np.lib.stride_tricks.sliding_window_view(bounds, 15, axis=0).max(axis=-1) - np.array(bounds)[14:]
    assert above.mean() < 0.3
    assert forecaster.coverage(line.stage, line.rows).mean() >= 0.93


def test_more_noise_makes_a_higher_bound() -> None:
    rng, line = np.random.default_rng(9), Line(30, level=0.95)
    spread = np.repeat([0.02, 0.2, 0.6], 10)
    for _ in range(300):
        line.feed(np.maximum(0.0, 500.0 * (1.0 + spread * rng.standard_normal(30))))
    calm, lively, wild = line.upper_rps.reshape(3, 10).mean(axis=1)
    assert calm < lively < wild


def test_coverage_comes_back_after_the_noise_has_tripled() -> None:
    rng, line = np.random.default_rng(10), Line(16, level=0.9)
    for i in range(700):
        spread = 0.05 if i < 300 else 0.15
        line.feed(np.maximum(0.0, 300.0 * (1.0 + spread * rng.standard_normal(16))))
        if i == 400:
            line.stage.conformal.covered[:] = line.stage.conformal.scored[:] = 0.0
    assert forecaster.coverage(line.stage, line.rows).mean() >= 0.87


def stepped_line() -> Line:
    """Half an hour at 4 requests/s, then twelve minutes at 40."""
    line = Line(1, level=0.95)
    for i in range(250):
        line.feed(one(40.0 if i < 180 else 400.0))
    return line


def test_the_median_of_a_load_that_stepped_and_stands_still_is_that_load() -> None:
    assert stepped_line().median_rps[0] == pytest.approx(40.0, rel=0.15)


def test_the_bound_of_a_load_that_stepped_and_stands_still_is_near_that_load() -> None:
    assert stepped_line().upper_rps[0] <= 2.0 * 40.0


@pytest.mark.parametrize("factor", [3.0, 10.0])
def test_a_step_is_one_event_and_widens_the_bound_of_what_follows_by_a_third_at_most(factor: float) -> None:
    """Half an hour after a step that all forecasts of ten minutes missed, at a level of 98.9 %, by Poisson noise."""
    rng, line = np.random.default_rng(3), Line(12, horizon_bins=60, level=0.989)
    for _ in range(540):
        line.feed(rng.poisson(100.0, 12).astype(np.float64))
    before = line.upper_rps.mean() / 10.0
    for _ in range(180):
        line.feed(rng.poisson(100.0 * factor, 12).astype(np.float64))
    assert before <= 1.3
    assert line.upper_rps.mean() / (10.0 * factor) <= 4.0 / 3.0 * before


RETURNING = {
    "a minute in ten": (60, 6, 60, 0.989),
    "five minutes in twenty-five": (150, 30, 60, 0.989),
    "a minute in ten, seen three minutes ahead": (60, 6, 18, 0.92),
}
"""Every how many bins, for how many, how many bins ahead, at which level."""

ALIKE = 4
"""Rows of one kind, each of its own noise."""


class Bursts:
    """Bursts of three times the load that come back after an hour and a half of Poisson noise around 10 requests/s."""

    def __init__(self) -> None:
        kinds = tuple(RETURNING.values())
        draws = [np.random.default_rng(3) for _ in kinds]
        self.line = Line(ALIKE * len(kinds))
        self.line.horizon = np.repeat([ahead for _, _, ahead, _ in kinds], ALIKE)
        self.line.level = np.repeat([level for *_, level in kinds], ALIKE)
        self.minutes: list[F64] = []
        self.bounds: list[F64] = []
        for i in range(1440):
            mean = [300.0 if i >= 540 and i % every < bins else 100.0 for every, bins, _, _ in kinds]
            came = [rng.poisson(rate, ALIKE).astype(np.float64) for rng, rate in zip(draws, mean, strict=True)]
            self.line.feed(np.concatenate(came))
            self.minutes.append(self.line.minute_rps)
            self.bounds.append(self.line.upper_rps.copy())

    def held(self, name: str) -> F64:
        """The share of rows whose bound held, bin by bin, told from outside: it is of the minute it looks ahead to."""
        rows = self.rows(name)
        ahead = int(self.line.horizon[rows[0]]) + 6
        pairs = zip(self.minutes[ahead:], self.bounds[:-ahead], strict=True)
        return np.array([(truth[rows] <= bound[rows]).mean() for truth, bound in pairs])

    def rows(self, name: str) -> I64:
        """The rows of a kind."""
        return ALIKE * list(RETURNING).index(name) + np.arange(ALIKE)


returning = cache(Bursts)


@pytest.mark.parametrize("name", RETURNING)
def test_a_bound_learns_to_cover_bursts_that_come_back(name: str) -> None:
    """One step is an event; the burst that follows the last one by minutes is the load. The last hour."""
    assert returning().held(name)[-360:].mean() >= RETURNING[name][-1] - 0.015


@pytest.mark.parametrize("name", RETURNING)
def test_the_coverage_that_is_told_leaves_no_miss_out(name: str) -> None:
    """Four hours, forgotten over six, with the bursts that nobody could foresee."""
    held, rows = returning().held(name), returning().rows(name)
    weight = np.exp(np.arange(len(held)) * BIN_S / conformal.MEMORY_S)
    told = forecaster.coverage(returning().line.stage, rows).mean()
    assert told == pytest.approx(np.average(held, weights=weight), abs=0.005)


def test_rows_of_other_horizons_and_loads_are_forecast_as_each_alone_whatever_their_order() -> None:
    """A step, bursts, a load that ends, and one that stepped while it was not measured, at three horizons."""
    rng, bins = np.random.default_rng(4), 300
    loads = rng.poisson(np.full((bins, 4), 100.0)).astype(np.float64)
    loads[150:, 0] *= 5.0
    loads[:, 1] *= np.where(np.arange(bins) % 24 < 6, 6.0, 1.0)
    loads[60:, 2] = 0.0
    loads[100:140, 3] = np.nan
    loads[140:, 3] *= 4.0
    horizons = np.array([7, 18, 60, 60])

    def bounds(rows: list[int]) -> F64:
        line = Line(len(rows), level=0.95)
        line.horizon = horizons[rows]
        for i in range(bins):
            line.feed(loads[i, rows])
        return line.upper_rps

    together = bounds([0, 1, 2, 3])
    assert np.isfinite(together).all()
    assert bounds([3, 1, 0, 2])[[2, 1, 3, 0]].tolist() == together.tolist()
    assert [bounds([row])[0] for row in range(4)] == together.tolist()


def test_a_load_of_nought_is_forecast_as_nought_and_never_as_nan() -> None:
    line = Line(1)
    for i in range(420):
        line.feed(one(100.0 if i < 30 else 0.0))
        assert not line.upper_rps[0] < 0
    assert np.isfinite([line.upper_rps[0], line.median_rps[0]]).all()
    assert line.upper_rps[0] <= 1.0


# the adaptive level
def shifted(hits: float, level: float = 0.95, bins: int = 400) -> float:
    """The level asked for after this many bins, of which the share `hits` was covered."""
    columns = ConformalColumns.allocate(1)
    conformal.reset(columns, 0)
    for i in range(bins):
        misses = [math.floor((i + k) * (1.0 - hits) + 1e-9) for k in (0, 1)]
        covered = float(misses[0] == misses[1])
        conformal.learn(columns, ROW, np.zeros((1, MODELS)), one(covered), one(level))
    return float(conformal.adapted(columns, ROW, one(level))[0])


def test_misses_raise_the_level_and_hits_lower_it() -> None:
    assert shifted(0.5) > shifted(0.9) > 0.95 > shifted(1.0)


def test_a_level_that_holds_its_promise_stays() -> None:
    assert shifted(0.95) == pytest.approx(0.95, abs=0.01)


@pytest.mark.parametrize("hits", [0.0, 1.0])
@pytest.mark.parametrize("level", [0.6, 0.95, 0.998])
def test_the_level_stays_a_level_however_long_it_goes_on(hits: float, level: float) -> None:
    assert 0.5 <= shifted(hits, level, 3000) < 1.0


def test_a_round_without_truth_changes_no_level_and_no_coverage() -> None:
    columns = ConformalColumns.allocate(1)
    conformal.reset(columns, 0)
    conformal.learn(columns, ROW, np.full((1, MODELS), np.nan), one(np.nan), one(0.9))
    assert (columns.shift[0], columns.scored[0]) == (0.0, 0.0)


@pytest.mark.parametrize("level", [0.5, 0.8, 0.95])
def test_a_quantile_is_the_one_of_the_scores_that_were_learned(level: float) -> None:
    rng, columns = np.random.default_rng(3), ConformalColumns.allocate(1)
    conformal.reset(columns, 0)
    scores = rng.normal(0.1, 0.3, 4000) if conformal.EDGES[-1] < 20 else rng.normal(0.5, 1.5, 4000)
    for score in scores:
        conformal.learn(columns, ROW, np.full((1, MODELS), score), one(np.nan), one(0.9))
    learned = conformal.quantile(columns, ROW, one(level))[0]
    assert learned == pytest.approx(np.quantile(scores[-2160:], level), abs=0.12 * scores.std() + 0.05)


def test_quantiles_rise_with_the_level() -> None:
    columns = ConformalColumns.allocate(5)
    for row in range(5):
        conformal.reset(columns, row)
    values = conformal.quantile(columns, np.arange(5), np.array([0.1, 0.5, 0.9, 0.98, 0.999]))
    assert (np.diff(values, axis=0) > 0).all()


# scores
def test_pinball_loss_is_nought_when_right_and_dearer_on_the_side_the_level_says() -> None:
    loss = scoring.pinball(np.array([10.0, 12.0, 8.0]), np.full(3, 10.0), np.full(3, 0.9))
    assert loss == pytest.approx([0.0, 1.8, 0.2])


@pytest.mark.parametrize("level", [0.5, 0.9, 0.99])
def test_the_mean_pinball_loss_is_least_at_the_quantile(level: float) -> None:
    sample = np.random.default_rng(1).gamma(2.0, 5.0, 4000)
    bounds = np.quantile(sample, np.linspace(0.02, 0.998, 300))
    losses = [scoring.pinball(sample, np.full(4000, b), np.full(4000, level)).mean() for b in bounds]
    assert (sample <= bounds[int(np.argmin(losses))]).mean() == pytest.approx(level, abs=0.01)


def scored(*spans: tuple[int, float], model: Model = Model.HOLT) -> ScoreColumns:
    """Scores after spans of (bins, loss of one model); last value always loses 1."""
    columns = ScoreColumns.allocate(1)
    for bins, loss in spans:
        losses = np.full((1, MODELS), np.nan)
        losses[0, Model.LAST], losses[0, model] = 1.0, loss
        for _ in range(bins):
            scoring.learn(columns, ROW, losses)
    return columns


def weights(columns: ScoreColumns) -> F64:
    weighed: F64 = scoring.weights(columns, ROW, np.ones((1, MODELS), dtype=np.bool_))[0]
    return weighed


def test_a_model_that_loses_to_last_value_is_switched_off_and_weighs_nothing() -> None:
    columns = scored((200, 1.2))
    assert columns.off[0, Model.HOLT]
    assert weights(columns)[Model.HOLT] == 0.0
    assert weights(columns).sum() == pytest.approx(1.0)


def test_a_model_that_wins_again_is_switched_on() -> None:
    columns = scored((200, 1.2), (3000, 0.6))
    assert not columns.off[0, Model.HOLT]
    assert weights(columns)[Model.HOLT] > weights(columns)[Model.LAST]


def test_a_model_that_was_not_tried_does_not_weigh_in() -> None:
    assert weights(scored((3, 0.1)))[Model.HOLT] == 0.0


def test_last_value_is_never_switched_off_and_stands_alone_when_all_else_is() -> None:
    columns = scored((200, 5.0))
    assert not columns.off[0, Model.LAST]
    present = np.zeros((1, MODELS), dtype=np.bool_)
    assert scoring.weights(columns, ROW, present)[0, Model.LAST] == 1.0


def test_between_the_two_thresholds_the_switch_stays_where_it_was() -> None:
    assert not scored((200, 1.0)).off[0, Model.HOLT]
    assert scored((60, 1.3), (1, 1.0)).off[0, Model.HOLT]


# bookkeeping
def test_a_forecast_is_scored_when_its_minute_is_complete_and_only_once() -> None:
    columns = PendingColumns.allocate(1)
    for target, value in ((20, 2.0), (21, 3.0), (22, 4.0)):
        base = np.full((1, MODELS), value)
        pending.put(columns, ROW, Made(np.array([target]), base, one(1.0), base, one(value), one(0.9)))
    assert not len(pending.take(columns, ROW, np.array([19])).at)
    due = pending.take(columns, ROW, np.array([21]))
    assert due.upper_rps.tolist() == [3.0]
    assert not len(pending.take(columns, ROW, np.array([21])).at)
    assert not len(pending.take(columns, ROW, np.array([20])).at), "an older one is dropped"
    assert pending.take(columns, ROW, np.array([22])).upper_rps.tolist() == [4.0]


# onset
def onset_after(rates: list[float], *, seed: int | None = None) -> list[bool]:
    """Whether an onset is under way after each bin; rates in requests per bin, with Poisson noise under a seed."""
    columns = OnsetColumns.allocate(1)
    past: list[float] = []
    told: list[bool] = []
    rng = np.random.default_rng(seed)
    for i, rate in enumerate(rates):
        came = float(rng.poisson(rate)) if seed is not None else rate
        level = float(np.mean(past[-30:])) / BIN_S if past else np.nan
        now_s = one(BIN_S * (i + 1))
        active, _ = onset.update(columns, ROW, now_s, arrivals=one(came), span_s=one(BIN_S), level=one(level))
        past.append(came)
        told.append(bool(active[0]))
    return told


@pytest.mark.parametrize(("factor", "within"), [(2.0, 4), (3.0, 2), (10.0, 1)])
def test_an_onset_is_told_within_bins(factor: float, within: int) -> None:
    told = onset_after([200.0] * 60 + [200.0 * factor] * 40)
    assert not any(told[:60])
    assert told[59 + within]


@pytest.mark.parametrize("rate", [2.0, 30.0, 300.0])
def test_noise_is_no_onset(rate: float) -> None:
    told = np.array([onset_after([rate] * 400, seed=seed) for seed in range(3)])
    assert told.mean() < 0.02


def test_an_onset_is_over_once_the_new_level_is_the_level() -> None:
    assert not onset_after([200.0] * 60 + [800.0] * 80)[-1]


def test_a_single_request_after_a_quiet_hour_is_no_onset() -> None:
    assert not any(onset_after([1.0] * 30 + [0.0] * 200 + [1.0] + [0.0] * 20))


def test_a_step_without_new_arrivals_changes_nothing_about_an_onset() -> None:
    told = []
    for repeats in (0, 1, 3):
        columns, rates = OnsetColumns.allocate(1), []
        for now_s in (10.0, 20.0, 30.0):
            for came, span_s in ((200.0, 10.0), *[(math.nan, 0.0)] * repeats):
                _, rate = onset.update(columns, ROW, one(now_s), arrivals=one(came), span_s=one(span_s), level=one(2.0))
            rates.append(float(rate[0]))
        told.append(rates)
    assert told[0] == [20.0, 20.0, 20.0]
    assert told == [told[0]] * 3
