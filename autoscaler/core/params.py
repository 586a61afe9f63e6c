"""Frozen parameters of one workload, in SI units and fractions, and the constants of the control law.

A policy's own numbers (bounds, SLO, tick, prior) come from its owner. All others are one default for every workload:
nothing in here is meant to be tuned per workload, and each default states where it comes from.
"""

import math
from dataclasses import dataclass
from enum import Enum

BIN_S = 10.0
"""Width of a history bin. Readings come every 5-10 s, so finer bins would only hold interpolation."""

NO_BIN = -(2**53)
"""Number of a bin that there is not: before every instant. Time may have any origin, so -1 is a bin."""

HISTORY_BINS = 2160
"""Fine history kept per workload: 6 h of bins, enough to fit and to look an hour back at every training point."""


@dataclass(frozen=True, slots=True)
class Slo:
    """The latency objective. Exactly one of the three is the binding one; the others stay ``None``."""

    wait_s: float | None = None
    ttft_s: float | None = None
    tpot_s: float | None = None

    def queue_slack_s(self) -> float:
        """How long a request may queue before it misses: the wait itself, half of a TTFT (the other half is prefill,
        a guess), and nothing for a token-time objective, which queueing does not touch (one second, a guess)."""
        if self.wait_s is not None:
            return self.wait_s
        return 0.5 * self.ttft_s if self.ttft_s is not None else 1.0


class Feature(Enum):
    """A term of the control law that can be left out, to measure what it is worth."""

    FORECAST = "forecast"
    BACKLOG = "backlog"
    CREDIT = "credit"
    CEILING = "ceiling"
    GATE = "gate"
    HOLD = "hold"
    BUDGET = "budget"
    LEARNED = "learned"
    """Fitted models (ridge, trees); the others need no fit."""


@dataclass(frozen=True, slots=True)
class KnownEvent:
    """A time window in which a floor or a ceiling is wanted, in the caller's time origin."""

    from_s: float
    to_s: float
    floor: int | None = None
    ceiling: int | None = None


@dataclass(frozen=True, slots=True)
class Params:
    """What one workload is allowed and aims for.

    Raises ValueError on construction when a field is out of range, naming field, value and legal range.
    """

    min_replicas: int = 1
    max_replicas: int = 100
    slo: Slo = Slo(wait_s=10.0)
    tick_s: float = 5.0
    warmup_prior_s: float | None = None
    target_ratio: float = 0.99
    """Share of requests that shall meet the SLO."""
    idle_after_s: float = 900.0
    """Residency limit: with no work for this long, GPUs are released if the floor allows. Three times HPA's window."""
    events: tuple[KnownEvent, ...] = ()
    without: frozenset[Feature] = frozenset()
    """Terms left out (ablations); empty in all real use."""

    def __post_init__(self) -> None:
        def need(condition: bool, name: str, value: object, legal: str) -> None:
            if not condition:
                raise ValueError(f"policy.{name}: {value!r} is out of range; it must be {legal}")

        need(self.min_replicas >= 0, "min_replicas", self.min_replicas, "0 or more")
        need(1 <= self.max_replicas <= 100_000, "max_replicas", self.max_replicas, "1..100000")
        if self.min_replicas > self.max_replicas:
            raise ValueError(
                f"policy.min_replicas: {self.min_replicas} is above policy.max_replicas: {self.max_replicas}; "
                "lower the minimum or raise the maximum"
            )
        chosen = [
            (name, value)
            for name, value in (
                ("wait_s", self.slo.wait_s), ("ttft_s", self.slo.ttft_s), ("tpot_s", self.slo.tpot_s)
            )
            if value is not None
        ]  # fmt: skip
        need(len(chosen) >= 1, "slo", None, "one of wait_s, ttft_s, tpot_s")
        for name, value in chosen:
            need(math.isfinite(value) and 0 < value <= 3600, f"slo.{name}", value, "above 0 and at most 3600 s")
        need(math.isfinite(self.tick_s) and 0.2 <= self.tick_s <= 300, "tick_s", self.tick_s, "0.2..300 s")
        if (prior := self.warmup_prior_s) is not None:
            need(math.isfinite(prior) and 0 < prior <= 7200, "warmup_prior_s", prior, "above 0 and at most 7200 s")
        need(0.5 <= self.target_ratio < 1, "target_ratio", self.target_ratio, "0.5 up to (not including) 1")
        need(math.isfinite(self.idle_after_s) and self.idle_after_s > 0, "idle_after_s", self.idle_after_s, "above 0 s")
        for index, event in enumerate(self.events):
            need(event.from_s < event.to_s, f"events[{index}]", (event.from_s, event.to_s), "a window that ends later")
