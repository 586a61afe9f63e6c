"""Fit ridge and quantile trees for one request and return them as arrays."""

import numpy as np
from sklearn.ensemble import HistGradientBoostingRegressor
from sklearn.linear_model import Ridge

from autoscaler.core.forecast.models import FittedModel, Trees
from autoscaler.core.forecast.training import FitRequest

RIDGE_PENALTY = 3.0
"""Penalty on standardised features; the features are strongly collinear (nested windows)."""

TREES = 40
TREE_DEPTH = 3
LEARNING_RATE = 0.1
LEVEL = 0.8
"""The trees learn an upper quantile: calibration shifts it, its shape says when the spread is wide."""


def fit(request: FitRequest) -> FittedModel:
    """Return both models for `request`, deterministic in its arrays.

    Raises ValueError (from scikit-learn) when the arrays are not finite.
    """
    mean, scale = request.x.mean(axis=0), request.x.std(axis=0)
    scale = np.where(scale > 1e-9, scale, 1.0)
    ridge = Ridge(alpha=RIDGE_PENALTY).fit((request.x - mean) / scale, request.y)
    coefficients = np.asarray(ridge.coef_, dtype=np.float64) / scale
    boosted = HistGradientBoostingRegressor(
        loss="quantile",
        quantile=LEVEL,
        max_iter=TREES,
        max_depth=TREE_DEPTH,
        learning_rate=LEARNING_RATE,
        min_samples_leaf=20,
        early_stopping=False,
        random_state=0,
    ).fit(request.x, request.y)
    return FittedModel(
        in_force_at_s=request.in_force_at_s,
        horizon_bins=request.horizon_bins,
        coefficients=coefficients,
        intercept=float(ridge.intercept_ - mean @ coefficients),
        trees=_arrays(boosted),
        rows=len(request.y),
    )


def _arrays(model: HistGradientBoostingRegressor) -> Trees:
    """Copy the fitted nodes; padded to one width, leaves pointing at themselves."""
    nodes = [stage[0].nodes for stage in model._predictors]
    width = max(len(n) for n in nodes)
    shape = (len(nodes), width)
    feature, left = np.zeros(shape, dtype=np.int32), np.tile(np.arange(width, dtype=np.int32), (len(nodes), 1))
    right, threshold, value = left.copy(), np.zeros(shape), np.zeros(shape)
    for row, tree in enumerate(nodes):
        size, inner = len(tree), ~tree["is_leaf"].astype(bool)
        feature[row, :size] = np.where(inner, tree["feature_idx"], 0)
        threshold[row, :size] = np.where(inner, tree["num_threshold"], 0.0)
        left[row, :size] = np.where(inner, tree["left"], np.arange(size))
        right[row, :size] = np.where(inner, tree["right"], np.arange(size))
        value[row, :size] = np.where(inner, 0.0, tree["value"])
    baseline = float(np.asarray(model._baseline_prediction).ravel()[0])
    return Trees(feature, threshold, left, right, value, baseline, TREE_DEPTH)
