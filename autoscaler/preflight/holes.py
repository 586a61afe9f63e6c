"""Where a signal is not known: stretches of steps on a window's grid, each with its reason.

Enters: values with NaN, and the holes whose reasons are known already. Leaves: holes for the rest, few enough to read.
"""

from collections.abc import Iterable
from itertools import pairwise
from typing import Final

import numpy as np

from autoscaler.adapters.prometheus.archive import Loss
from autoscaler.adapters.prometheus.questions import Window
from autoscaler.core.columns import F64, Bools
from autoscaler.preflight.history import Gap, Hole

MOST_HOLES: Final = 100
"""Of one signal; where a series comes and goes all the time, near ones are told as one."""


def impossible(values: F64, window: Window) -> tuple[Hole, ...]:
    """Where a share is above 1."""
    return tuple(
        Hole(from_s, until_s, Gap.REFUSED, "a share above 1 cannot be; if it is percent, say so with --metric")
        for from_s, until_s in runs(np.nan_to_num(values) > 1.0 + 1e-9, window)
    )


def unexplained(values: F64, known: Iterable[Hole], window: Window) -> list[Hole]:
    """Holes for the steps that are NaN for none of the known reasons."""
    missing = np.isnan(values)
    for hole in known:
        missing[within(hole, window)] = False
    text = "no sample: no replica ran, or none was scraped"
    holes = []
    for from_s, until_s in _joined(runs(missing, window)):
        steps = round((until_s - from_s) / window.step_s)
        first = round((from_s - window.start_s) / window.step_s)
        gone = int(missing[first : first + steps].sum())
        share = "" if gone == steps else f" ({gone} of {steps} steps)"
        holes.append(Hole(from_s, until_s, Gap.NOT_RECORDED, text + share))
    return holes


def _joined(found: list[tuple[float, float]]) -> list[tuple[float, float]]:
    """At most `MOST_HOLES` stretches that hold all runs; the widest gaps between them remain."""
    if len(found) <= MOST_HOLES:
        return found
    between = np.array([later[0] - earlier[1] for earlier, later in pairwise(found)])
    cuts = np.sort(np.argpartition(between, -(MOST_HOLES - 1))[-(MOST_HOLES - 1) :]) + 1
    firsts, ends = [0, *cuts], [*cuts, len(found)]
    return [(found[first][0], found[end - 1][1]) for first, end in zip(firsts, ends, strict=True)]


def runs(missing: Bools, window: Window) -> list[tuple[float, float]]:
    """The stretches [from_s, until_s) of steps that are marked."""
    edges = np.flatnonzero(np.diff(np.concatenate(([0], missing.astype(np.int8), [0]))))
    return [
        (float(window.start_s + first * window.step_s), float(window.start_s + end * window.step_s))
        for first, end in edges.reshape(-1, 2)
    ]


def within(hole: Hole, window: Window) -> slice:
    """The steps that a hole touches."""
    first = int(np.floor((hole.from_s - window.start_s) / window.step_s))
    end = int(np.ceil((hole.until_s - window.start_s) / window.step_s))
    return slice(max(0, first), max(0, end))


def of_loss(loss: Loss, window: Window) -> Hole:
    """A part that was not answered, as far as it lies in the window."""
    from_s, until_s = max(loss.from_s, window.start_s), min(loss.until_s, window.end_s)
    return Hole(float(from_s), float(until_s), Gap(loss.trouble.value), loss.text)
