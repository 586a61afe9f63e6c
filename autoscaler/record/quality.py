"""How good a workload's forecast is: what each model loses against last value, and whether its bounds hold as meant.

Enters: the core's live view. Leaves: scores, the model in force and why, and an alarm where chance does not explain
what is seen. Forecasts of neighbouring instants fail together, so a band rests on as many of them as do not overlap.
"""

import math
from dataclasses import dataclass
from enum import Enum
from functools import lru_cache
from typing import Final

from autoscaler.core.params import BIN_S
from autoscaler.core.view import View
from autoscaler.record.catalog import WORDS
from autoscaler.record.explain import number

LAST: Final = "last"
TAIL: Final = 0.005
"""Chance of an alarm on each side of the band when the bounds are as good as they should be."""

LEAST_SCORED: Final = 10.0
"""Forecasts that do not overlap before a band is worth anything."""

MINUTE_S: Final = 60.0
"""What is forecast is a minute's need: two forecasts nearer than this speak of the same load."""


class Drift(Enum):
    """What is wrong with a forecast; the value is a sentence for the person who reads it."""

    MISSES = "bounds fail more often than chance explains"
    IDLE = "bounds hold more often than chance explains: more is kept ready than was asked for"
    LOSING = "no model beats last value: all others are switched off"


@dataclass(frozen=True, slots=True)
class ModelScore:
    """One model. `loss_ratio` is its pinball loss over last value's, of three hours; below 1 it wins."""

    model: str
    """Its code."""
    words: str
    loss_ratio: float | None
    state: str
    """leads, off, tried, or untried (no forecast of it was scored)."""


@dataclass(frozen=True, slots=True)
class Quality:
    """The forecast of one workload as it stands. None means not scored yet."""

    models: tuple[ModelScore, ...]
    leading: str
    coverage_ratio: float | None
    """Share of the bounds that held."""
    asked_ratio: float | None
    """Share of the bounds that were meant to hold."""
    scored: float
    """Forecasts behind the two that do not overlap."""
    band: tuple[float, float] | None
    """Where the coverage lies by chance, in 99 of 100 cases."""
    drift: str | None
    """A code of `Drift`."""
    text: str


def quality_of(view: View, ahead_s: float) -> Quality:
    """The quality of a workload's forecast, which looks `ahead_s` ahead."""
    models = tuple(
        ModelScore(model, WORDS.get(model, model), ratio, _state(view, model, ratio))
        for model, ratio in view.skill_ratio
    )
    scored = view.scored_bins * BIN_S / max(MINUTE_S, ahead_s)
    band = None
    if view.asked_ratio is not None and scored >= LEAST_SCORED:
        band = binomial_band(int(scored), round(view.asked_ratio, 3))
    drift = _drift(view, models, band)
    return Quality(
        models, view.forecast_model, view.coverage_ratio, view.asked_ratio, scored, band,
        None if drift is None else drift.name, _text(view, models, drift),
    )  # fmt: skip


@lru_cache(maxsize=4096)
def binomial_band(count: int, share: float) -> tuple[float, float]:
    """The least and the most of `count` that hold, as shares, where each holds with chance `share`.

    Fewer, or more, come about with a chance of at most `TAIL` each.
    """
    if share >= 1.0:
        return 1.0, 1.0
    chances = [_chance(held, count, share) for held in range(count + 1)]
    return _first_beyond(chances) / count, 1.0 - _first_beyond(chances[::-1]) / count


def _first_beyond(chances: list[float]) -> int:
    """How many of the first outcomes are together no likelier than `TAIL`."""
    total = 0.0
    for index, chance in enumerate(chances):
        total += chance
        if total > TAIL:
            return index
    return len(chances) - 1


def _chance(held: int, count: int, share: float) -> float:
    if share <= 0.0:
        return float(held == 0)
    ways = math.lgamma(count + 1) - math.lgamma(held + 1) - math.lgamma(count - held + 1)
    return math.exp(ways + held * math.log(share) + (count - held) * math.log1p(-share))


def _state(view: View, model: str, ratio: float | None) -> str:
    if model in view.switched_off:
        return "off"
    if model == view.forecast_model:
        return "leads"
    return "untried" if ratio is None else "tried"


def _drift(view: View, models: tuple[ModelScore, ...], band: tuple[float, float] | None) -> Drift | None:
    if band is not None and view.coverage_ratio is not None:
        if view.coverage_ratio < band[0] - 1e-9:
            return Drift.MISSES
        if view.coverage_ratio > band[1] + 1e-9:
            return Drift.IDLE
    scored = [m for m in models if m.model != LAST and m.loss_ratio is not None]
    return Drift.LOSING if scored and all(m.state == "off" for m in scored) else None


def _text(view: View, models: tuple[ModelScore, ...], drift: Drift | None) -> str:
    leads = WORDS.get(view.forecast_model, view.forecast_model)
    ratio = dict(view.skill_ratio).get(view.forecast_model)
    why = "nothing was scored yet"
    if view.forecast_model == LAST:
        why = "no other model beats it" if any(m.loss_ratio is not None for m in models) else why
    elif ratio is not None:
        why = f"its loss is {number(ratio)} of last value's"
    off = [f"{m.words} ({number(m.loss_ratio)})" for m in models if m.state == "off" and m.loss_ratio is not None]
    said = f"{leads[0].upper()}{leads[1:]} leads: {why}"
    if drift is Drift.LOSING:
        return f"{said}, and all others are switched off{': ' if off else ''}{', '.join(off)}"
    said += f"; switched off: {', '.join(off)}" if off else ""
    return said if drift is None else f"{said}. {drift.value[0].upper()}{drift.value[1:]}"
