"""Overload: what gateways should know while bounds or lead times leave too little capacity.

Formulas: admissible rate is what ready and credited replicas serve; the shed fraction is what exceeds it of the
expected load; retry-after is when the next start is expected to serve, else one lead time.
"""

from dataclasses import dataclass

from autoscaler.core.reasons import Reason

LASTS_TICKS = 2.0
"""The signal expires after two ticks: a gateway must not shed on yesterday's word."""


@dataclass(frozen=True, slots=True)
class Overload:
    """One workload's overload signal, valid until `expires_s` (sample time)."""

    deficit_replicas: int
    """Replicas wanted beyond what the bounds allow, or beyond what is ready."""
    admissible_rps: float
    shed_ratio: float
    """Share of the expected load that exceeds the admissible rate, 0..1."""
    wait_s: float
    retry_after_s: float
    expires_s: float


BINDING = frozenset({Reason.MAX, Reason.QUOTA, Reason.BUDGET, Reason.EVENT_CEILING, Reason.BACK_OFF, Reason.RATE_UP})
"""Bounds that can leave demand unserved."""


def signal(
    *,
    now_s: float,
    tick_s: float,
    wanted: int,
    replicas: int,
    serving: float,
    starting_ages_s: tuple[float, ...],
    lead_s: float,
    rps: float,
    load_rps: float,
    queue: float,
    slack_s: float,
) -> Overload | None:
    """Return the signal, or ``None`` while demand fits; every figure must be finite, rates in requests/s."""
    wait_s = queue / (rps * serving) if rps * serving > 0 else (lead_s if queue > 0 else 0.0)
    deficit = max(wanted - replicas, 0)
    if deficit == 0 and wait_s <= slack_s:
        return None
    admissible = rps * serving
    shed = max(0.0, 1.0 - admissible / load_rps) if load_rps > 0 else 0.0
    remaining = [max(lead_s - age, tick_s) for age in starting_ages_s]
    missing = max(deficit, wanted - int(serving))
    return Overload(
        deficit_replicas=missing,
        admissible_rps=admissible,
        shed_ratio=shed,
        wait_s=wait_s,
        retry_after_s=min(remaining, default=lead_s),
        expires_s=now_s + LASTS_TICKS * tick_s,
    )
