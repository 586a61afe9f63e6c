"""What becomes of a number that KEDA was told: each HPA's own evaluation, repeated beside it.

Enters: every number that is told, with the HPA and the target as they stood at that instant. Leaves: previews for
`explain` and `doctor`, figures for the metrics, and word where an HPA will not follow. HPA's pulls and KEDA's polls
look alike from here, so each counts as an evaluation. Of what HPA remembers only that is known which happened since
this process leads; a scaling is read off the HPA's own status, for a target is scaled by others too. A bug that one
workload's objects provoke costs that workload's preview, which says so, and nothing else.
"""

from collections import deque
from collections.abc import Callable, Mapping
from functools import partial
from typing import Final, Protocol, TypeVar

from autoscaler.adapters.kube.scaling import Hpa, Target
from autoscaler.api.claims import Claim, TargetRef
from autoscaler.app.guard import Guard
from autoscaler.app.hpa_pulls import Known, Pull, evaluated, horizon_s, read, replicas_for
from autoscaler.core.hpa.preview import ahead, evaluate
from autoscaler.ports import Clock
from autoscaler.record.hpa import HpaPreview, follows_s, limit_codes, preview_text, recommended_json, swallows
from autoscaler.runtime.isolation import Bug

T = TypeVar("T")

KEPT_PULLS: Final = 100_000
"""Told and not settled yet; the driver's steps settle them many times a second."""

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


class HpaPreviews:
    """Previews of all workloads that KEDA asks about. `hold` is called where an HPA will not follow, with why."""

    def __init__(self, sight: Sight, clock: Clock, guard: Guard, hold: Callable[[Claim, str], None]) -> None:
        self._sight = sight
        self._clock = clock
        self._guard = guard
        self._hold = hold
        self._bugs: dict[str, Bug] = {}
        """What the newest number of a workload met on its way to a preview."""
        self._pulls: deque[Pull] = deque(maxlen=KEPT_PULLS)
        self._known: dict[str, Known] = {}

    def told(self, claim: Claim, metric: str, value: int) -> None:
        """A number was told; called from the thread that answers KEDA, where nothing is computed."""
        now = self._clock
        sight = self._sight
        self._pulls.append(
            Pull(claim, metric, value, now.monotonic(), now.now(), sight.hpa(claim), sight.target(claim.ref))
        )

    def forget(self, workload: str) -> None:
        """A workload that KEDA asks about no more."""
        self.settle()
        self._known.pop(workload, None)
        self._bugs.pop(workload, None)

    def settle(self) -> None:
        """Evaluate what was told since."""
        while self._pulls:
            pull = self._pulls.popleft()
            self._attempt(pull.claim.ref.workload, partial(self._settle, pull))

    def problem(self, workload: str) -> str | None:
        """Why there is no preview where there should be one: a bug of ours, in words; None while there is none."""
        bug = self._bugs.get(workload)
        return None if bug is None else f"what its HPA will do cannot be told, which is a bug: {bug.message}"

    def preview(self, claim: Claim, lead_s: float) -> HpaPreview | None:
        """What the claim's HPA makes of the last number at its next evaluation; None where there is nothing to say.

        `lead_s` is how long a start takes.
        """
        self.settle()
        workload = claim.ref.workload
        return None if workload in self._bugs else self._attempt(workload, partial(self._preview, claim, lead_s))

    def _preview(self, claim: Claim, lead_s: float) -> HpaPreview | None:
        known, now_s = self._known.get(claim.ref.workload), self._clock.monotonic()
        if known is None or now_s - known.pull.at_s > OLD_S:
            return None
        fresh = read(self._sight.hpa(claim), self._sight.target(claim.ref), known.pull.metric)
        if fresh is None:
            return None
        hpa, asked, seen = fresh
        autoscaler, values = asked.autoscaler, [known.pull.value * 1000]
        told = replicas_for(autoscaler, known.pull.value)
        outcome, _ = evaluate(autoscaler, seen, values, known.memory, now_s)
        followed = outcome.replicas == told
        steps = [] if followed else list(ahead(autoscaler, seen, values, known.memory, now_s))
        unknown_s = max(0.0, known.since_s + horizon_s(autoscaler) - now_s)
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
            workload: (known.outcome.replicas, known.limits)
            for workload, known in self._known.items()
            if known.pull.at_s > fresh_s
        }

    def _attempt(self, workload: str, work: Callable[[], T]) -> T | None:
        """What `work` returns; None where it raised, and nothing more is known of the workload's HPA then."""
        result = self._guard.attempt(f"the preview of the HPA of {workload}", work)
        if not isinstance(result, Bug):
            return result
        self._known.pop(workload, None)
        self._bugs[workload] = result
        return None

    def _settle(self, pull: Pull) -> None:
        workload = pull.claim.ref.workload
        before = self._known.get(workload)
        if before is not None and pull.at_s - before.pull.at_s < APART_S:
            return
        known = evaluated(before, pull)
        self._bugs.pop(workload, None)
        if known is None:
            self._known.pop(workload, None)
            return
        self._known[workload] = known
        self._tell(before, known)

    def _tell(self, before: Known | None, known: Known) -> None:
        """Say it once where a number will never be followed while it is told."""
        if not known.limits or (before is not None and before.limits == known.limits):
            return
        autoscaler, values = known.asking.autoscaler, [known.pull.value * 1000]
        told = replicas_for(autoscaler, known.pull.value)
        steps = list(ahead(autoscaler, known.seen, values, known.memory, known.pull.at_s))
        if known.seen.spec_replicas > 0 and follows_s(told, known.outcome, steps) is None:
            name = "" if known.pull.hpa is None else known.pull.hpa.metadata.name
            others = known.asking.others
            words = preview_text(name, told, known.outcome, steps, others=others, unknown_s=0.0)
            self._hold(known.pull.claim, words)
