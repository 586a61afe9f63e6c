"""What KEDA is answered for one workload, with the books and the clock in a test's own hands."""

from dataclasses import dataclass, field
from typing import Any

from autoscaler.adapters.keda.answers import Refusal, Refused, Served
from autoscaler.adapters.keda.pushes import Bells
from autoscaler.adapters.kube.scaling import Hpa, Target
from autoscaler.api.claims import Claim, Rejection, TargetRef, Way
from autoscaler.api.modes import Mode
from autoscaler.api.scaling_policy import ScalingPolicySpec
from autoscaler.app.guard import Guard
from autoscaler.app.hpa import HpaPreviews
from autoscaler.app.keda import KedaAnswers
from autoscaler.core.params import Params
from autoscaler.core.reasons import Reason
from autoscaler.core.types import (
    Decision,
    GatewayReading,
    PodReading,
    Readings,
    ReplicaReading,
    StartingReplica,
    Verdict,
)
from autoscaler.core.view import View
from autoscaler.runtime.records import Stepped
from autoscaler.runtime.triggers import Cause

CHAT = "prod/chat"
KEY = ("prod", "chat-so")
FRESH = (("arrivals", "fresh", 0.0), ("queue", "fresh", 0.0))
NEVER = (("arrivals", "absent", None), ("queue", "absent", None))
HOLD_S = 120.0
IDLE = (PodReading("a", waiting=0.0, running=0.0),)


class Hands:
    """A clock that a test sets."""

    at_s = 1000.0

    def now(self) -> float:
        return self.at_s

    def monotonic(self) -> float:
        return self.at_s


def claim(**spec: Any) -> Claim:
    ref = TargetRef("apps", "v1", "deployments", "Deployment", "prod", "chat", "u1")
    return Claim(ref, ScalingPolicySpec(**spec), Way.SCALED_OBJECT, None, 1, scaled_object="chat-so")


@dataclass
class Known:
    """The books, as a test writes them."""

    claims: dict[str, Claim] = field(default_factory=lambda: {CHAT: claim()})
    rejected: dict[str, tuple[Rejection, ...]] = field(default_factory=dict)
    in_mode: Mode = Mode.ACTIVE
    stands: int | None = None
    cut_off: bool = False
    frozen: str | None = None
    leading: bool = True
    leader: str = "headroom-1"
    hpas: dict[tuple[str, str], Hpa] = field(default_factory=dict)
    targets: dict[str, Target] = field(default_factory=dict)

    def hpa(self, claim: Claim) -> Hpa | None:
        return self.hpas.get((claim.ref.namespace, claim.scaled_object or ""))

    def target(self, ref: TargetRef) -> Target | None:
        return self.targets.get(ref.workload)

    def knows_tolerance(self) -> bool:
        return True

    def claim(self, workload: str) -> Claim | None:
        return self.claims.get(workload)

    def rejections(self, workload: str) -> tuple[Rejection, ...]:
        return self.rejected.get(workload, ())

    def mode(self, claim: Claim) -> Mode:
        return self.in_mode

    def standing(self, ref: TargetRef) -> int | None:
        return self.stands

    def is_cut_off(self, ref: TargetRef) -> bool:
        return self.cut_off


@dataclass
class Bench:
    known: Known = field(default_factory=Known)
    clock: Hands = field(default_factory=Hands)
    bells: Bells = field(default_factory=Bells)

    def __post_init__(self) -> None:
        guard, tell = Guard(self.clock), self.bells.tell  # type: ignore[arg-type]
        previews = HpaPreviews(self.known, self.clock, guard, lambda claim, words: None)  # type: ignore[arg-type]
        self.answers = KedaAnswers(self.known, tell, self.clock, previews, guard=guard, hold_s=HOLD_S)  # type: ignore[arg-type]
        self.answers._synced = True
        self.answers.on_claim(CHAT)

    def step(
        self,
        replicas: int,
        *,
        seen: int = 3,
        signals: tuple[tuple[str, str, float | None], ...] = FRESH,
        pods: tuple[PodReading, ...] | None = IDLE,
        gateway: GatewayReading | None = None,
        starting: int | None = None,
    ) -> None:
        verdict = Verdict.HOLD if replicas == seen else Verdict.SCALE
        now_s = self.clock.at_s
        decision = Decision(CHAT, now_s, seen, replicas, verdict, Reason.FORECAST, (), now_s + 5)
        replicas_seen = ReplicaReading(seen, seen)
        if starting is not None:
            begun = tuple(StartingReplica(now_s - 60.0, f"p{n}") for n in range(starting))
            replicas_seen = ReplicaReading(seen, 0, begun)
        readings = Readings(now_s, replicas_seen, pods, gateway)
        view = View(
            CHAT, now_s, 12.0, 3.0, seen, 0, replicas, 4.0, "proven", 60.0, 90.0, 3, 19.0, 15.0, "last", 0.97, 0.96, (),
            (), 0.1, 0.0, signals, None,
        )  # fmt: skip
        self.answers.note(Stepped(decision, readings, view, Cause.DUE, Params()))

    def told(self) -> Served | Refused:
        return self.answers.served(*KEY)

    def number(self) -> int:
        told = self.told()
        assert isinstance(told, Served), told
        return told.replicas

    def refusal(self) -> tuple[Refusal, str]:
        told = self.told()
        assert isinstance(told, Refused), told
        return told.refusal, told.message
