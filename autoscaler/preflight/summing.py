"""Demands added up on one grid, while some of them are unknown here and there.

Enters: demands one at a time, in any order. Leaves: their sum. A moment is known while workloads that carry 95 % of the
mean demand are; what the others would have added is scaled up for, so that a hole in one of 200 is no hole in the sum,
and no dip either.
"""

import numpy as np

from autoscaler.core.columns import F64
from autoscaler.preflight.answers import CannotTell, Why, Window
from autoscaler.preflight.offered import LEAST_KNOWN_RATIO, Demand

KNOWN_SHARE = 0.95
_REMEDY = "records over the same window"


class Joint:
    """The growing sum of demands of one unit."""

    def __init__(self, unit: str) -> None:
        self.unit = unit
        self.step_s = 0.0
        self.names: list[str] = []
        self._first = 0
        self._total = self._weight = self._chance = np.empty(0)
        self._whole = 0.0

    def add(self, name: str, values: F64, *, start_s: float, step_s: float, per_request: float) -> None:
        """Add a demand (steps,), NaN where it is unknown.

        One on another grid, or over another time than all before it, cannot be added and is left out of `names`: a
        trace that counts from its own beginning has no moment in common with a cluster's past.
        """
        begin = round(start_s / step_s)
        end = begin + values.size
        apart = end <= self._first or begin >= self._first + self._total.size
        if self.names and (step_s != self.step_s or apart):
            return
        self.step_s = step_s
        self.names.append(name)
        self._reach(begin, end)
        known = np.isfinite(values)
        mean = float(values[known].mean()) if known.any() else 0.0
        part = slice(begin - self._first, begin - self._first + values.size)
        self._total[part] += np.where(known, values, 0.0)
        self._weight[part] += np.where(known, mean, 0.0)
        self._chance[part] += np.where(known, values * per_request, 0.0)
        self._whole += mean

    def _reach(self, begin: int, end: int) -> None:
        if not self._total.size:
            self._first = begin
        before = max(0, self._first - begin)
        after = max(0, end - (self._first + self._total.size))
        if before or after:
            self._total, self._weight, self._chance = (
                np.pad(column, (before, after)) for column in (self._total, self._weight, self._chance)
            )
            self._first -= before

    def demand(self) -> Demand | CannotTell:
        """The sum. `per_request` is that of the workloads, weighted by their share of the demand, so that the sum's
        chance variation is the sum of theirs."""
        if self._whole <= 0:
            return CannotTell(Why.NO_LOAD, "nothing was asked of any workload", "a window with requests in it")
        enough = self._weight >= KNOWN_SHARE * self._whole
        # Before the last of them began and after the first of them ended there is no sum, and that is no hole in it.
        ends = np.flatnonzero(enough)
        if not ends.size:
            return CannotTell(Why.TOO_MANY_HOLES, "the workloads are never known together", _REMEDY)
        part = slice(int(ends[0]), int(ends[-1]) + 1)
        enough, total, weight = enough[part], self._total[part], self._weight[part]
        share = float(enough.mean())
        if share < LEAST_KNOWN_RATIO:
            text = f"the workloads are known together for {100 * share:.0f} % of the window only"
            return CannotTell(Why.TOO_MANY_HOLES, text, _REMEDY)
        values = np.where(enough, total * self._whole / np.where(enough, weight, 1.0), np.nan)
        start_s = (self._first + part.start) * self.step_s
        unknown_s = float((~enough).sum()) * self.step_s
        window = Window(start_s, start_s + values.size * self.step_s, unknown_s)
        per_request = float(self._chance.sum() / self._total.sum())
        return Demand(values, self.unit, per_request, window, f"the sum of {len(self.names)} workloads")
