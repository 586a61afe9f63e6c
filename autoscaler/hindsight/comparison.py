"""What a what-if came to for one workload, as values: decisions that differ, both bills, the optimum beside them.

Enters: a replay that is over. Leaves: frozen values for text, JSON and pages. Nothing is computed again where they are
shown.
"""

from dataclasses import dataclass
from typing import Final

from autoscaler.hindsight.optimum import Optimum, optimum
from autoscaler.hindsight.timeline import Stretch
from autoscaler.hindsight.whatif import Turned, WhatIf
from autoscaler.record.estimate import Account, Doubt, Estimate

STRETCHES: Final = 12
"""The largest differences between the worlds are told, so many of them."""


@dataclass(frozen=True, slots=True)
class Setting:
    """One world: its account, the starts it ordered, and its bill over the optimum's."""

    account: Account
    starts: int
    attainment_ratio: float | None
    """Requests that were in time over all of them; None where none came."""
    ratio_d2: float | None


@dataclass(frozen=True, slots=True)
class Comparison:
    """One workload under both settings."""

    workload: str
    decisions: int
    differ: int
    first: Turned | None
    reasons: tuple[tuple[str, str, int], ...]
    """Recorded reason, reason in its place, how often; the most frequent first."""
    happened: Estimate | None
    """What happened, and the model's error on it; its `ours` is the world as recorded."""
    as_is: Setting | None
    other: Setting | None
    observed_ratio_d2: float | None
    optimum: Optimum | None
    stretches: tuple[Stretch, ...]
    why_not: str | None
    """Why no world could run, or what stands against believing them."""


def compare(whatif: WhatIf, workload: str) -> Comparison:
    """The comparison of one workload. Raises HeadroomError where the bound cannot be solved."""
    told = whatif.told[workload]
    reasons = tuple((*pair, count) for pair, count in told.reasons.most_common())
    estimates, warmup_s = whatif.estimates(workload), whatif.warmup_s(workload)
    if estimates is None or warmup_s is None or not told.timeline.at_s:
        why_not = "no world could run: arrivals, queue or what one replica carries were never known together"
        return Comparison(
            workload, told.decisions, told.differ, told.first, reasons, None, None, None, None, None, (), why_not
        )
    first, second = estimates
    best = optimum(
        told.timeline, warmup_s=warmup_s, slack_s=second.slack_s, max_replicas=max(1, whatif.max_replicas(workload))
    )
    stretches = sorted(told.timeline.stretches(), key=lambda s: -abs(s.replica_hours))[:STRETCHES]
    return Comparison(
        workload=workload, decisions=told.decisions, differ=told.differ, first=told.first, reasons=reasons,
        happened=first, as_is=_setting(first, best), other=_setting(second, best),
        observed_ratio_d2=_ratio(first.observed, best), optimum=best,
        stretches=tuple(sorted(stretches, key=lambda s: s.from_s)),
        why_not=None if first.doubt is None else Doubt[first.doubt].value,
    )  # fmt: skip


def _setting(estimate: Estimate, best: Optimum | None) -> Setting:
    attainment = in_time_ratio(estimate.ours, estimate.requests)
    return Setting(estimate.ours, estimate.starts, attainment, _ratio(estimate.ours, best))


def in_time_ratio(account: Account, requests: float) -> float | None:
    """Of `requests`, the share that was not late; None where none came."""
    return 1.0 - account.late / requests if requests > 0 else None


def _ratio(account: Account, best: Optimum | None) -> float | None:
    return account.held_hours / best.held_hours if best is not None and best.held_hours > 0 else None
