"""What KEDA is answered: claims by ScaledObject, and the last decision of each, with a word when there is none.

Enters: claims, modes, the driver's steps. Leaves: an external scaler's `Answers`. In a mode that does not act, and
while everything is frozen, the number is what stands already, so that KEDA leaves it alone. A decision that was made
blind is told for a while as what it is, a held one; then nothing is told, and KEDA's own fallback has its turn.
"""

import math
from collections.abc import Callable, Iterable
from dataclasses import replace
from functools import partial
from typing import Final, Protocol

from autoscaler.adapters.keda.answers import Refusal, Refused, Served
from autoscaler.api.claims import Claim, Reject, Rejection, TargetRef
from autoscaler.api.modes import Mode
from autoscaler.app.guard import Guard
from autoscaler.app.hpa import HpaPreviews
from autoscaler.app.keda_step import Step, step_of
from autoscaler.ports import Clock
from autoscaler.runtime.actuator import Act, Outcome
from autoscaler.runtime.isolation import Bug
from autoscaler.runtime.records import Entry, Feed, Stepped

LATE_TICKS: Final = 3.0
LATE_MIN_S: Final = 15.0
"""A decision whose successor is so late is nobody's any more: as long as the core holds a reading."""


class Books(Protocol):
    """What is known of workloads besides their steps."""

    def claim(self, workload: str) -> Claim | None:
        """The claim in force."""
        ...

    def rejections(self, workload: str) -> Iterable[Rejection]:
        """Who asks for the workload in vain."""
        ...

    def mode(self, claim: Claim) -> Mode:
        """The mode in force."""
        ...

    def standing(self, ref: TargetRef) -> int | None:
        """The target's count as it was last seen; None where it does not say."""
        ...

    def is_cut_off(self, ref: TargetRef) -> bool:
        """Whether that was too long ago to be the count of now."""
        ...

    @property
    def frozen(self) -> str | None:
        """Why nothing is acted upon, None while it is."""
        ...

    @property
    def leading(self) -> bool:
        """Whether this process may speak for the controller."""
        ...

    @property
    def leader(self) -> str:
        """Who else leads; empty while nobody does."""
        ...


class KedaAnswers:
    """Answers for the ScaledObjects that ask us. `tell` rings whoever waits for news of one.

    `served` and `ready` may be called from another thread than the rest: what they read is replaced as a whole.
    """

    def __init__(
        self,
        books: Books,
        tell: Callable[[str, str], None],
        clock: Clock,
        previews: HpaPreviews,
        *,
        guard: Guard,
        hold_s: float,
    ) -> None:
        self.previews = previews
        self._books = books
        self._tell = tell
        self._clock = clock
        self._guard = guard
        self._hold_s = hold_s
        self._synced = False
        self._steps: dict[str, Step] = {}
        self._asking: dict[tuple[str, str], tuple[str, Rejection | None]] = {}
        """ScaledObject -> the workload that it aims at, and why it is asked for in vain."""
        self._askers: dict[str, set[tuple[str, str]]] = {}
        """Workload -> the ScaledObjects that aim at it."""

    def ready(self) -> bool:
        """Whether this replica leads and knows its cluster."""
        return self._synced and self._books.leading

    def on_claim(self, workload: str) -> None:
        """The claim on a workload, or who asks for it in vain, changed."""
        gone = self._askers.pop(workload, set())
        claim = self._books.claim(workload)
        asking: dict[tuple[str, str], tuple[str, Rejection | None]] = {
            (refused.namespace, refused.name): (workload, refused)
            for refused in self._books.rejections(workload)
            if refused.kind == "ScaledObject"
        }
        if claim is not None and claim.scaled_object is not None:
            asking[claim.ref.namespace, claim.scaled_object] = (workload, None)
        else:
            self._steps.pop(workload, None)
            self.previews.forget(workload)
        if asking:
            self._askers[workload] = set(asking)
        self._asking.update(asking)
        for key in gone - asking.keys():
            if self._asking[key][0] == workload:  # else it aims at another one by now
                del self._asking[key]
        for key in asking:
            self._tell(*key)

    async def run(self, feed: Feed) -> None:
        """Take steps from the feed until it ends. Begin it once the cluster is known."""
        self._synced = True
        async for entry in feed:
            self._guard.run("what KEDA is told", partial(self.note, entry))
            self.previews.settle()

    def note(self, entry: Entry) -> None:
        """Take an entry of the driver's record."""
        if isinstance(entry, Act):
            self._limit(entry)
        if not isinstance(entry, Stepped):
            return
        decision = entry.decision
        claim = self._books.claim(decision.workload)
        if claim is None or claim.scaled_object is None:
            return
        gateway = claim.spec.gateway is not None
        self._steps[decision.workload] = step_of(entry, self._clock.monotonic(), gateway=gateway)
        self._tell(claim.ref.namespace, claim.scaled_object)

    def _limit(self, act: Act) -> None:
        """Tell no more than what stands where limits were lowered between a decision and its act."""
        step = self._steps.get(act.workload)
        if step is not None and act.outcome is Outcome.LIMITED and act.replicas == step.replicas:
            self._steps[act.workload] = replace(step, replicas=min(step.replicas, act.seen_replicas))

    def told(self, namespace: str, name: str, metric: str, value: int) -> None:
        """A number was told: its HPA's preview begins with it, and may cost the answer nothing."""
        concerned = f"the preview of the HPA of {namespace}/{name}"
        self._guard.run(concerned, partial(self._preview, namespace, name, metric, value))

    def _preview(self, namespace: str, name: str, metric: str, value: int) -> None:
        workload, refused = self._asking.get((namespace, name), ("", None))
        claim = self._books.claim(workload) if refused is None else None
        if claim is not None:
            self.previews.told(claim, metric, value)

    def served(self, namespace: str, name: str) -> Served | Refused:
        """The number for a ScaledObject; a bug on the way to it is a refusal of this one, with its words."""
        concerned = f"{namespace}/{name}"
        told = self._guard.attempt(f"the answer for {concerned}", partial(self._served, namespace, name))
        if isinstance(told, Bug):
            return Refused(Refusal.NOT_READY, f"{concerned} cannot be answered for, which is a bug: {told.message}")
        return told

    def _served(self, namespace: str, name: str) -> Served | Refused:
        if not self._books.leading:
            return Refused(Refusal.NOT_LEADING, f"{self._books.leader or 'nobody'} leads; this replica does not answer")
        if not self._synced:
            return Refused(Refusal.NOT_READY, "the cluster is not known yet; ask again in some seconds")
        found = self._asking.get((namespace, name))
        if found is None:
            return Refused(
                Refusal.UNKNOWN, f"no ScaledObject {namespace}/{name} with a trigger that points here is known"
            )
        workload, refused = found
        if refused is not None:
            missing = refused.reject is Reject.NO_TARGET
            return Refused(Refusal.UNKNOWN if missing else Refusal.INVALID, refused.message)
        claim, step = self._books.claim(workload), self._steps.get(workload)
        if claim is None or step is None:
            return Refused(Refusal.NOT_READY, f"{workload} has not been decided on yet; ask again in some seconds")
        return self._told(claim, step)

    def _told(self, claim: Claim, step: Step) -> Served | Refused:
        workload, age_s = claim.ref.workload, self._clock.monotonic() - step.at_s
        if age_s > max(LATE_MIN_S, LATE_TICKS * claim.spec.tick_s):
            return Refused(Refusal.NOT_READY, f"the last decision on {workload} is {age_s:.0f} s old")
        if math.isinf(step.blind_s):
            words = f"this leader has read no metric of {workload} yet; `headroom doctor` says what is missing"
            return Refused(Refusal.NOT_READY, words)
        blind_s = step.blind_s + age_s if step.blind_s else 0.0
        if blind_s > self._hold_s:
            words = f"the metrics of {workload} could not be read for {blind_s:.0f} s"
            return Refused(Refusal.NOT_READY, words)
        standing = self._books.standing(claim.ref)
        if standing is None:
            standing = step.seen
        mode = Mode.PAUSED if self._books.frozen is not None else self._books.mode(claim)
        acts = mode.allows(standing, step.replicas)
        if not acts and self._books.is_cut_off(claim.ref):
            return Refused(Refusal.NOT_READY, f"how many replicas of {workload} stand cannot be read now")
        replicas, demand = (step.replicas, step.demand) if acts else (standing, None)
        return Served(replicas, standing, demand, max(age_s, blind_s), held=blind_s > 0)
