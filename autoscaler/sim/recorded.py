"""The product's core in the simulator, keeping its audit lines, as the other driver of the same core does.

Enters: readings at every look. Leaves: counts for the plant and the audit lines of every step. With `contradicts` a
workload is also stepped between its ticks when a reading contradicts its last decision; the rule is the caller's,
because it belongs to the live driver and the two never meet. A patch that fails leaves the target's count as it was.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, field

from autoscaler.core.params import Params
from autoscaler.core.types import Decision, Readings
from autoscaler.record.audit import step_lines
from autoscaler.sim.headroom import HeadroomPolicy
from autoscaler.sim.plant import Span

_CLOCK_TOLERANCE_S = 1e-6


@dataclass(slots=True)
class RecordedPolicy:
    """One workload under the product's core. `look_s` is how often readings are looked at, the plant's step say."""

    params: Params
    look_s: float
    contradicts: Callable[[Decision, Readings, Readings], bool] | None = None
    """Given the last decision, the readings it was made from, and the readings now."""
    refusals: tuple[Span, ...] = ()
    """Spans [from_s, to_s) in which the target refuses patches."""
    name: str = "headroom"
    lines: list[bytes] = field(default_factory=list)
    """The audit stream, in order."""
    _core: HeadroomPolicy = field(init=False)
    _last: tuple[Decision, Readings] | None = None

    def __post_init__(self) -> None:
        self._core = HeadroomPolicy(self.params)

    @property
    def tick_s(self) -> float:
        """Seconds between two looks."""
        return self.look_s

    @property
    def coverage(self) -> float | None:
        """Share of recent bounds that held."""
        return self._core.coverage

    @property
    def due_s(self) -> float:
        """When the next tick is over; minus infinity before the first decision."""
        return -math.inf if self._last is None else self._last[0].next_due_s

    def decide(self, readings: Readings) -> int:
        """The count on the target from now on: a new decision's, where one is made and its patch is not refused."""
        return self.look(readings, due=readings.now_s >= self.due_s - _CLOCK_TOLERANCE_S)

    def look(self, readings: Readings, *, due: bool) -> int:
        """As `decide`, for readings that may be older than the look: `due` says whether the tick is over."""
        desired = readings.replicas.desired
        if not (due or self._contradicted(readings)):
            return desired
        replicas = self._core.decide(readings)
        decision = self._core.last
        assert decision is not None
        self._last = decision, readings
        self.lines += step_lines(decision, self.params, readings)
        refused = any(from_s <= readings.now_s < to_s for from_s, to_s in self.refusals)
        return desired if refused else replicas

    def _contradicted(self, readings: Readings) -> bool:
        if self._last is None or self.contradicts is None:
            return False
        decision, then = self._last
        return self.contradicts(decision, then, readings)
