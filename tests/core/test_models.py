"""Fitted models: evaluated in the core exactly as scikit-learn does, asked for in time, trained without the future."""

from dataclasses import replace

import numpy as np
import pytest
from sklearn.ensemble import HistGradientBoostingRegressor
from sklearn.linear_model import Ridge
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from autoscaler.core import engine
from autoscaler.core.columns import F64
from autoscaler.core.forecast import features, models, training
from autoscaler.core.forecast.models import HoltColumns
from autoscaler.core.forecast.training import FitRequest
from autoscaler.core.params import BIN_S, Params
from autoscaler.fitting import fit
from tests.core.toy import NAME, Story, Toy

ROW = np.array([0])


# models as they were fitted
def random_features(rows: int, seed: int) -> F64:
    drawn: F64 = np.random.default_rng(seed).gamma(2.0, 0.5, (rows, len(features.NAMES)))
    return drawn


@pytest.mark.parametrize("seed", range(3))
def test_trees_in_the_core_predict_what_scikit_learn_predicts(seed: int) -> None:
    rng, x = np.random.default_rng(seed), random_features(600, seed)
    y = 3.0 + x[:, 0] + np.abs(x[:, 1] - x[:, 2]) + rng.standard_normal(600) * 0.1
    boosted = HistGradientBoostingRegressor(
        loss="quantile", quantile=0.8, max_iter=30, max_depth=fit.TREE_DEPTH, early_stopping=False, random_state=seed
    ).fit(x, y)
    unseen = random_features(200, seed + 100)
    trees = fit._arrays(boosted)
    mine = models.trees_ahead([trees] * 200, unseen, np.full(200, 2.5))
    assert mine == pytest.approx(2.5 * boosted.predict(unseen), rel=1e-12)


@pytest.mark.parametrize("seed", range(3))
def test_ridge_in_the_core_predicts_what_scikit_learn_predicts(seed: int) -> None:
    rng, x = np.random.default_rng(seed), random_features(400, seed)
    y = 5.0 + x @ rng.standard_normal(x.shape[1]) * 0.2
    made = fit.fit(FitRequest(NAME, 12, x, y, 60.0))
    theirs = make_pipeline(StandardScaler(), Ridge(alpha=fit.RIDGE_PENALTY)).fit(x, y)
    unseen = random_features(100, seed + 100)
    mine = [models.ridge_ahead(made, row, 3.0) for row in unseen]
    assert mine == pytest.approx(3.0 * np.maximum(theirs.predict(unseen), 0.0), rel=1e-9)


def test_no_model_forecasts_less_than_nought() -> None:
    made = fit.fit(FitRequest(NAME, 12, random_features(200, 1), np.zeros(200), 60.0))
    falling = replace(made, intercept=-50.0)
    assert models.ridge_ahead(falling, random_features(1, 2)[0], 3.0) == 0.0


def test_trees_of_many_rows_say_what_each_says_alone_to_the_last_bit() -> None:
    """Three ensembles of other sizes, one of them lent to every third row: a replay steps them in other company, and
    what was put together for the rows before is not taken for rows that got others' models."""
    rng, x = np.random.default_rng(5), random_features(600, 5)
    made = [fit.fit(FitRequest(NAME, 12, x, 5.0 + x[:, n] * rng.gamma(2.0, 1.0, 600), 60.0)).trees for n in range(2)]
    assert made[0] is not None
    assert made[1] is not None
    short = replace(
        made[1], **{name: getattr(made[1], name)[:7] for name in ("feature", "threshold", "left", "right", "value")}
    )
    unseen, reference = random_features(50, 6), rng.gamma(2.0, 3.0, 50)
    for first in (0, 1, 1):
        trees = [(made[0], made[1], short)[(first + n) % 3] for n in range(50)]
        together = models.trees_ahead(trees, unseen, reference), models.trees_ahead(trees, unseen, reference)
        alone = [models.trees_ahead([trees[n]], unseen[n : n + 1], reference[n : n + 1])[0] for n in range(50)]
        assert [each.tolist() for each in together] == [alone, alone]
        assert len(set(alone)) > 40


def test_fits_are_the_same_for_the_same_arrays() -> None:
    x = random_features(250, 4)
    one_fit, other = (fit.fit(FitRequest(NAME, 12, x.copy(), x[:, 0].copy(), 60.0)) for _ in range(2))
    assert one_fit.coefficients.tobytes() == other.coefficients.tobytes()
    assert one_fit.trees is not None
    assert other.trees is not None
    assert one_fit.trees.value.tobytes() == other.trees.value.tobytes()


def test_holt_follows_a_ramp_and_damps_it() -> None:
    columns = HoltColumns.allocate(1)
    for i in range(300):
        models.holt_step(columns, ROW, np.array([10.0 + 0.1 * i]))
    near, far = (models.holt_ahead(columns, ROW, np.array([h]))[0] for h in (6, 60))
    assert 38.0 < near < far < 10.0 + 0.1 * 360, "it rises, but not as far as the ramp would"


# fits and when they take effect
def test_a_fit_is_asked_for_once_there_is_history_and_takes_effect_at_its_own_time() -> None:
    story = Story(Toy.of(4, lambda t: 6.0 + 2.0 * np.sin(t / 900.0), queue=60.0), Params(tick_s=30.0))
    asked: list[tuple[float, FitRequest]] = []
    while story.toy.now_s < 9000.0 and not asked:
        story.toy.advance(30.0)
        result = engine.step(story.table, [(NAME, story.toy.readings())])
        asked += [(story.toy.now_s, request) for request in result.fits]
    now_s, request = asked[0]
    assert request.x.shape == (len(request.y), len(features.NAMES))
    assert np.isfinite(request.x).all()
    assert request.in_force_at_s > now_s
    engine.install(story.table, NAME, fit.fit(request))
    in_force = []
    while story.toy.now_s < request.in_force_at_s + 30.0:
        story.toy.advance(10.0)
        assert engine.step(story.table, [(NAME, story.toy.readings())]).fits == (), "not asked twice"
        in_force.append((story.toy.now_s >= request.in_force_at_s, bool(story.table.fitted)))
    assert all(due == used for due, used in in_force)
    assert {due for due, _ in in_force} == {False, True}


def test_a_fit_whose_model_is_supplied_falls_due_and_is_not_returned() -> None:
    """So a replay that has the models remembers what the controller did, and makes no training set."""
    told = []
    for supplied in ((), (NAME,)):
        story = Story(Toy.of(4, 6.0, queue=60.0), Params(tick_s=30.0))
        fits = 0
        while story.toy.now_s < 9000.0:
            story.toy.advance(30.0)
            fits += len(engine.step(story.table, [(NAME, story.toy.readings())], supplied).fits)
        told.append((fits, story.table.track(story.table.rows[NAME]).fit_asked_s))
    (returned, asked_s), (withheld, noted_s) = told
    assert (returned, withheld) == (2, 0)
    assert asked_s == noted_s > 7000.0


def test_training_rows_do_not_know_what_came_after_them() -> None:
    rng = np.random.default_rng(5)
    count, cover_s = rng.poisson(50.0, 900).astype(np.float64), np.full(900, BIN_S)
    changed = count.copy()
    changed[600:] *= 7.0
    sets = []
    for arrivals in (count, changed):
        minute = np.lib.stride_tricks.sliding_window_view(arrivals, 6).sum(axis=1) / 60.0
        need = np.concatenate([np.full(5, np.nan), minute])
        made = training.training_set(arrivals, cover_s, need, minute, 12)
        assert made is not None
        sets.append(made)
    (x, y), (other_x, other_y) = sets
    same = (x == other_x).all(axis=1)
    assert same.sum() >= 150
    assert not same.all()
    assert same[: same.sum()].all(), "the early rows, without exception"
    assert (y[same] != other_y[same]).any(), "their targets do lie ahead"


def test_features_do_not_depend_on_the_size_of_the_service() -> None:
    rng = np.random.default_rng(6)
    count = rng.poisson(50.0, (4, features.LOOKBACK_BINS)).astype(np.float64)
    cover_s, need = np.full_like(count, BIN_S), count / BIN_S
    small, reference = features.build(count, cover_s, need)
    large, larger = features.build(1000.0 * count, cover_s, 1000.0 * need)
    assert large == pytest.approx(small)
    assert larger == pytest.approx(1000.0 * reference)
