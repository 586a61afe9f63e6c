"""What becomes of a number that KEDA was told: each HPA's own evaluation, repeated beside it.

Enters: every number that is told, with the HPA and the target as they stood at that instant. Leaves: previews for
`explain` and `doctor`, figures for the metrics, and word where an HPA will not follow. HPA's pulls and KEDA's polls
look alike from here, so each counts as an evaluation. Of what HPA remembers only that is known which happened since
this process leads; a scaling is read off the HPA's own status, for a target is scaled by others too.
"""

import math
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Final, Protocol

from autoscaler.adapters.kube.hpas import Asking, asking, scaled_to_zero
from autoscaler.adapters.kube.scaling import Hpa, Target
from autoscaler.api.claims import Claim, TargetRef
from autoscaler.core.hpa.counts import Seen
from autoscaler.core.hpa.limits import longest_s
from autoscaler.core.hpa.memory import Memory, scaled
from autoscaler.core.hpa.preview import Outcome, ahead, evaluate
from autoscaler.core.hpa.spec import Autoscaler, windows_s
from autoscaler.errors import InputError
from autoscaler.ports import Clock
from autoscaler.record.hpa import (
    HpaPreview,
    follows_s,
    limit_codes,
    preview_text,
    recommended_json,
    swallows,
)

KEPT_PULLS: Final = 100_000
"""Told and not settled yet; the driver's steps settle them many times a second."""

SAME_EVALUATION_S: Final = 3.0
"""Between a number that is told and the instant that HPA writes down for the scaling it led to, whole seconds."""

APART_S: Final = 1.0
"""Pulls of one workload that are closer are one evaluation; so what is remembered of it is bounded, whoever asks."""

OLD_S: Final = 300.0
"""A number that nobody asked for since is nothing to preview: KEDA is paused, or gone."""


class Sight(Protocol):
    """What is followed of the cluster; asked from the thread that answers KEDA too."""

    def hpa(self, claim: Claim) -> Hpa | None:
        """The HPA that KEDA keeps for a claim's ScaledObject."""
        ...

    def target(self, ref: TargetRef) -> Target | None:
        """The target as it was last seen."""
        ...

    def knows_tolerance(self) -> bool:
        """Whether the cluster's HPAs may have a tolerance of their own."""
        ...


@dataclass(frozen=True, slots=True)
class _Pull:
    """A number that was told, and what HPA saw when it asked."""

    claim: Claim
    metric: str
    value: int
    at_s: float
    """Monotonic."""
    now_s: float
    hpa: Hpa | None
    target: Target | None


@dataclass(frozen=True, slots=True)
class _Known:
    """What is known of one HPA after a pull."""

    uid: str
    since_s: float
    pull: _Pull
    asking: Asking
    seen: Seen
    memory: Memory
    outcome: Outcome
    last_scale: datetime | None


class HpaPreviews:
    """Previews of all workloads that KEDA asks about. `hold` is called where an HPA will not follow, with why."""

    def __init__(self, sight: Sight, clock: Clock, hold: Callable[[Claim, str], None]) -> None:
        self._sight = sight
        self._clock = clock
        self._hold = hold
        self._pulls: deque[_Pull] = deque(maxlen=KEPT_PULLS)
        self._known: dict[str, _Known] = {}

    def told(self, claim: Claim, metric: str, value: int) -> None:
        """A number was told; called from the thread that answers KEDA, where nothing is computed."""
        now = self._clock
        sight = self._sight
        self._pulls.append(
            _Pull(claim, metric, value, now.monotonic(), now.now(), sight.hpa(claim), sight.target(claim.ref))
        )

    def forget(self, workload: str) -> None:
        """A workload that KEDA asks about no more."""
        self.settle()
        self._known.pop(workload, None)

    def settle(self) -> None:
        """Evaluate what was told since."""
        while self._pulls:
            self._settle(self._pulls.popleft())

    def preview(self, claim: Claim, lead_s: float) -> HpaPreview | None:
        """What the claim's HPA makes of the last number at its next evaluation; None where there is nothing to say.

        `lead_s` is how long a start takes.
        """
        self.settle()
        known, now_s = self._known.get(claim.ref.workload), self._clock.monotonic()
        if known is None or now_s - known.pull.at_s > OLD_S:
            return None
        fresh = _read(self._sight.hpa(claim), self._sight.target(claim.ref), known.pull.metric)
        if fresh is None:
            return None
        hpa, asked, seen = fresh
        autoscaler, values = asked.autoscaler, [known.pull.value * 1000]
        told = _replicas(autoscaler, known.pull.value)
        outcome, _ = evaluate(autoscaler, seen, values, known.memory, now_s)
        followed = outcome.replicas == told
        steps = [] if followed else list(ahead(autoscaler, seen, values, known.memory, now_s))
        unknown_s = max(0.0, known.since_s + _horizon_s(autoscaler) - now_s)
        tolerance = self._sight.knows_tolerance()
        return HpaPreview(
            name=hpa.metadata.name,
            told=told,
            current=outcome.current,
            replicas=outcome.replicas,
            follows_s=follows_s(told, outcome, steps),
            limits=limit_codes(outcome, told),
            text=preview_text(hpa.metadata.name, told, outcome, steps, others=asked.others, unknown_s=unknown_s),
            remarks=tuple(
                swallows(autoscaler, least=claim.spec.min_replicas, most=claim.spec.max_replicas, lead_s=lead_s)
            ),
            behavior=recommended_json(autoscaler, tolerance=tolerance),
        )

    def figures(self) -> Mapping[str, tuple[int, tuple[str, ...]]]:
        """By workload the count that its HPA makes of the last number, and what keeps it from that number."""
        self.settle()
        fresh_s = self._clock.monotonic() - OLD_S
        return {
            workload: (known.outcome.replicas, limit_codes(known.outcome, _told(known)))
            for workload, known in self._known.items()
            if known.pull.at_s > fresh_s
        }

    def _settle(self, pull: _Pull) -> None:
        workload = pull.claim.ref.workload
        before = self._known.get(workload)
        if before is not None and pull.at_s - before.pull.at_s < APART_S:
            return
        fresh = _read(pull.hpa, pull.target, pull.metric)
        if fresh is None:
            self._known.pop(workload, None)
            return
        hpa, asked, seen = fresh
        autoscaler, last = asked.autoscaler, hpa.status.last_scale_time
        if before is not None and before.uid == hpa.metadata.uid:
            memory, since_s = _after_scaling(before, hpa, seen, pull), before.since_s
        else:
            before, memory, since_s = None, Memory(), pull.at_s
        outcome, memory = evaluate(autoscaler, seen, [pull.value * 1000], memory, pull.at_s)
        known = _Known(hpa.metadata.uid, since_s, pull, asked, seen, memory, outcome, last)
        self._known[workload] = known
        self._tell(before, known)

    def _tell(self, before: _Known | None, known: _Known) -> None:
        """Say it once where a number will never be followed while it is told."""
        told = _told(known)
        codes = limit_codes(known.outcome, told)
        if not codes or (before is not None and limit_codes(before.outcome, _told(before)) == codes):
            return
        autoscaler, values = known.asking.autoscaler, [known.pull.value * 1000]
        steps = list(ahead(autoscaler, known.seen, values, known.memory, known.pull.at_s))
        if known.seen.spec_replicas > 0 and follows_s(told, known.outcome, steps) is None:
            name = "" if known.pull.hpa is None else known.pull.hpa.metadata.name
            others = known.asking.others
            words = preview_text(name, told, known.outcome, steps, others=others, unknown_s=0.0)
            self._hold(known.pull.claim, words)


def _read(hpa: Hpa | None, target: Target | None, metric: str) -> tuple[Hpa, Asking, Seen] | None:
    """An HPA that asks for our metric, and what it sees of its target."""
    if hpa is None or target is None or target.spec.replicas is None:
        return None
    try:
        asked = asking(hpa, metric)
    except InputError:
        return None
    if asked is None:
        return None
    seen = Seen(target.spec.replicas, target.status.replicas or 0, scaled_to_zero=scaled_to_zero(hpa))
    return hpa, asked, seen


def _after_scaling(known: _Known, hpa: Hpa, seen: Seen, pull: _Pull) -> Memory:
    """The memory with what HPA has scaled since the last pull."""
    last = hpa.status.last_scale_time
    if last is None or last == known.last_scale:
        return known.memory
    before, after = hpa.status.current_replicas, hpa.status.desired_replicas
    if before == after:
        before, after = known.outcome.current, seen.spec_replicas
    age_s = max(0.0, pull.now_s - last.timestamp())
    gap_s = pull.at_s - known.pull.at_s
    # The evaluation that scaled had just been told a number; its own instant is known to the second only.
    at_s = known.pull.at_s if abs(gap_s - age_s) <= SAME_EVALUATION_S else pull.at_s - age_s
    return scaled(known.memory, known.asking.autoscaler.behavior, before, after, at_s)


def _told(known: _Known) -> int:
    return _replicas(known.asking.autoscaler, known.pull.value)


def _replicas(autoscaler: Autoscaler, value: int) -> int:
    """The count that a number comes to."""
    metric = autoscaler.metrics[0]
    assert metric is not None, "the first metric is ours"
    return math.ceil(value * 1000 / metric.target_milli)


def _horizon_s(autoscaler: Autoscaler) -> float:
    """How far back an HPA remembers."""
    behavior = autoscaler.behavior
    periods = (0,) if behavior is None else (longest_s(behavior.up), longest_s(behavior.down))
    return float(max(*windows_s(autoscaler), *periods))
