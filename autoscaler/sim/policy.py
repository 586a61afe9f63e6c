"""What a scaling policy is to the simulator: readings in, a desired number of replicas out.

The product's own core, its ablations and every rival stand behind this one Protocol. A policy sees only what a scrape
shows at its ticks; the simulator owns time and calls it at multiples of `tick_s` from second 0 on.
"""

from typing import Protocol, runtime_checkable

from autoscaler.core.types import Readings


class Policy(Protocol):
    """One policy for one workload and one run; it may keep state between ticks."""

    @property
    def name(self) -> str:
        """The name it is asked for by and printed under."""
        ...

    @property
    def tick_s(self) -> float:
        """Seconds between two decisions, > 0."""
        ...

    def decide(self, readings: Readings) -> int:
        """The number of replicas wanted from now on, >= 0; the plant clips it to its own maximum."""
        ...


@runtime_checkable
class Forecasting(Protocol):
    """A policy that also publishes how often its upper forecast held."""

    @property
    def coverage(self) -> float | None:
        """Share of scored forecasts whose upper bound was not exceeded, 0..1; None before the first was scored."""
        ...
