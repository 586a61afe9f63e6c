"""The same fit, its libraries imported with the first request: they take a second, and most commands fit nothing."""

from autoscaler.core.forecast.models import FittedModel
from autoscaler.core.forecast.training import FitRequest


def fit(request: FitRequest) -> FittedModel:
    """Return both models for `request`, as `autoscaler.fitting.fit.fit` does."""
    from autoscaler.fitting import fit as fitting

    return fitting.fit(request)
