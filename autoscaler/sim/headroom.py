"""The product's own core behind the simulator's policy seam, whole or with one term off."""

from dataclasses import dataclass, field

import numpy as np

from autoscaler.core import engine
from autoscaler.core.forecast import forecaster
from autoscaler.core.params import Params
from autoscaler.core.state import Table
from autoscaler.core.types import Decision, Readings
from autoscaler.fitting.late import fit

WORKLOAD = "sim/workload"


@dataclass(frozen=True, slots=True)
class Foreseen:
    """What was forecast for the highest load around `for_s`: its middle and its upper bound, in requests/s."""

    for_s: float
    median_rps: float
    upper_rps: float


@dataclass(slots=True)
class HeadroomPolicy:
    """One table with one workload; fits are made inline and take effect at their data time plus a fixed delay."""

    params: Params
    name: str = "headroom"
    table: Table = field(default_factory=lambda: Table.empty(1))
    last: Decision | None = None

    def __post_init__(self) -> None:
        self.table.put(WORKLOAD, self.params)

    @property
    def tick_s(self) -> float:
        """Seconds between two decisions."""
        return self.params.tick_s

    @property
    def coverage(self) -> float | None:
        """Share of recent bounds that held."""
        share = float(forecaster.coverage(self.table.forecaster, np.array([self.table.rows[WORKLOAD]]))[0])
        return share if np.isfinite(share) else None

    @property
    def foreseen(self) -> Foreseen | None:
        """The forecast in force, NaN where nothing is forecast yet; None before the first decision."""
        row = self.table.rows[WORKLOAD]
        seen, out = self.table.track(row).seen, self.table.forecaster.out
        if seen is None:
            return None
        for_s = seen.now_s + seen.lead90_s + self.params.tick_s
        return Foreseen(for_s, float(out.median_rps[row]), float(out.upper_rps[row]))

    def decide(self, readings: Readings) -> int:
        """Return the core's count for these readings."""
        result = engine.step(self.table, [(WORKLOAD, readings)])
        for request in result.fits:
            engine.install(self.table, request.workload, fit(request))
        self.last = result.decisions[0]
        return self.last.replicas
