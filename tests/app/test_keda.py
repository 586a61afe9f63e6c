"""What KEDA is answered for a workload: from its claim, its mode and its last decision, or why there is no number."""

import math
from dataclasses import dataclass, field, replace
from typing import Any

import pytest

from autoscaler.adapters.keda.answers import Refusal, Refused, Served
from autoscaler.adapters.keda.pushes import Bells
from autoscaler.adapters.kube.scaling import Hpa, Target, TargetSpec, TargetStatus
from autoscaler.api.claims import Claim, Reject, Rejection, TargetRef, Way
from autoscaler.api.modes import Mode
from autoscaler.api.scaling_policy import ScalingPolicySpec
from autoscaler.api.trigger import Measure, Style
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
from autoscaler.runtime.actuator import Act, Outcome
from autoscaler.runtime.records import Feed, Stepped
from autoscaler.runtime.triggers import Cause
from tests.kube.test_hpas import hpa

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


def test_the_count_that_was_decided_is_told_with_what_stands() -> None:
    bench = Bench()
    bench.step(5, seen=3)
    assert bench.told() == Served(5, 3, 0)
    bench.known.stands = 4
    assert bench.told() == Served(5, 4, 0)


def test_calls_before_the_first_sync_are_unavailable() -> None:
    bench = Bench()
    bench.answers._synced = False
    assert bench.refusal()[0] is Refusal.NOT_READY
    assert not bench.answers.ready()


def test_a_replica_that_does_not_lead_says_who_does() -> None:
    bench = Bench()
    bench.step(5)
    bench.known.leading = False
    assert bench.refusal() == (Refusal.NOT_LEADING, "headroom-1 leads; this replica does not answer")
    assert not bench.answers.ready()


def test_a_scaledobject_that_nobody_has_seen_is_not_found() -> None:
    refusal, words = Bench().answers.served("prod", "other"), "no ScaledObject prod/other"
    assert isinstance(refusal, Refused)
    assert refusal.refusal is Refusal.UNKNOWN
    assert refusal.message.startswith(words)


@pytest.mark.parametrize(
    ("reject", "refusal"),
    [
        (Reject.INVALID, Refusal.INVALID),
        (Reject.OUTRANKED, Refusal.INVALID),
        (Reject.KIND_REFUSED, Refusal.INVALID),
        (Reject.NO_TARGET, Refusal.UNKNOWN),
    ],
)
def test_one_that_asks_in_vain_is_told_why(reject: Reject, refusal: Refusal) -> None:
    bench = Bench(Known(claims={}))
    why = Rejection("prod", "chat-so", False, "ScaledObject", "keda.sh/v1alpha1", "u", 1, reject, "metadata.x: unknown")
    bench.known.rejected[CHAT] = (why,)
    bench.answers.on_claim(CHAT)
    assert bench.refusal() == (refusal, "metadata.x: unknown")


def test_before_the_first_decision_there_is_no_number() -> None:
    assert Bench().refusal()[0] is Refusal.NOT_READY


def test_a_workload_whose_metrics_were_never_read_has_no_number() -> None:
    bench = Bench()
    bench.step(3, signals=NEVER)
    assert bench.refusal() == (
        Refusal.NOT_READY, "this leader has read no metric of prod/chat yet; `headroom doctor` says what is missing",
    )  # fmt: skip


def test_an_outage_of_metrics_is_held_then_refused_and_never_a_smaller_number() -> None:
    """Edge case 5, as KEDA sees it: ten minutes without metrics under load."""
    bench = Bench()
    bench.step(8, seen=8)
    begun_s = bench.clock.at_s
    told: list[int | Refusal] = []
    for second in range(0, 601, 5):
        bench.clock.at_s = begun_s + second
        state = "fresh" if second == 0 else "held" if second <= 15 else "unknown"
        bench.step(8, seen=8, signals=tuple((name, state, float(second)) for name in ("arrivals", "queue")))
        answer = bench.told()
        told.append(answer.replicas if isinstance(answer, Served) else answer.refusal)
        if isinstance(answer, Served):
            assert answer.held == (second > 0)
            assert answer.age_s == second
    assert told == [8] * 25 + [Refusal.NOT_READY] * 96


def test_one_signal_of_demand_that_is_read_is_enough() -> None:
    bench = Bench()
    bench.step(5, signals=(("arrivals", "unknown", 600.0), ("queue", "fresh", 0.0)))
    told = bench.told()
    assert isinstance(told, Served)
    assert not told.held


@pytest.mark.parametrize(("tick_s", "late_s"), [(5.0, 15.0), (60.0, 180.0)])
def test_a_decision_without_successor_is_nobodys_after_three_ticks(tick_s: float, late_s: float) -> None:
    bench = Bench(Known(claims={CHAT: claim(tick_s=tick_s)}))
    bench.step(5)
    bench.clock.at_s += late_s
    assert bench.number() == 5
    bench.clock.at_s += 0.1
    assert bench.refusal()[0] is Refusal.NOT_READY


@pytest.mark.parametrize(
    ("mode", "up", "down"),
    [
        (Mode.ACTIVE, 9, 2),
        (Mode.SHADOW, 4, 4),
        (Mode.PAUSED, 4, 4),
        (Mode.PAUSED_SCALE_IN, 9, 4),
        (Mode.PAUSED_SCALE_OUT, 4, 2),
    ],
)
def test_a_mode_that_does_not_act_tells_what_stands_so_that_keda_leaves_it_alone(
    mode: Mode, up: int, down: int
) -> None:
    bench = Bench(Known(in_mode=mode, stands=4))
    bench.step(9, seen=4)
    assert bench.number() == up
    bench.step(2, seen=4)
    assert bench.number() == down


def test_while_everything_is_frozen_what_stands_is_told() -> None:
    bench = Bench(Known(stands=4, frozen="incident 7"))
    bench.step(9, seen=4)
    assert bench.number() == 4


@pytest.mark.parametrize("frozen", [None, "incident 7"], ids=["paused", "frozen"])
def test_what_stood_once_is_not_told_as_what_stands(frozen: str | None) -> None:
    """KEDA may have gone on from 4 towards 9 since: told 4, HPA would take away again what serves."""
    bench = Bench(Known(in_mode=Mode.PAUSED, stands=4, frozen=frozen, cut_off=True))
    bench.step(9, seen=4)
    assert bench.refusal() == (Refusal.NOT_READY, "how many replicas of prod/chat stand cannot be read now")
    bench.known.in_mode, bench.known.frozen = Mode.ACTIVE, None
    assert bench.number() == 9


def test_limits_that_were_lowered_after_a_decision_take_it_back() -> None:
    bench = Bench(Known(stands=3))
    bench.step(9, seen=3)
    bench.answers.note(Act(CHAT, bench.clock.at_s, bench.clock.at_s, 3, 9, Outcome.LIMITED))
    assert bench.number() == 3
    bench.step(5, seen=3)
    bench.answers.note(Act(CHAT, bench.clock.at_s, bench.clock.at_s, 3, 5, Outcome.TOLD))
    assert bench.number() == 5


@pytest.mark.parametrize("figure", [math.nan, math.inf, -math.inf, -1e18, 1e18], ids=str)
def test_a_pod_that_says_nonsense_never_becomes_a_number_of_nonsense(figure: float) -> None:
    """Edge case 1, kedacore/keda#7880 and #7475: KEDA reads NaN, infinity and what is negative as 0."""
    bench = Bench()
    bench.step(5, pods=(pod(figure, 1.0), pod(2.0, 1.0)))
    told = bench.told()
    assert isinstance(told, Served)
    assert told.replicas == 5
    for measure in (Measure(), Measure(Style.DEMAND, 8)):
        value = measure.value(told.replicas, told.demand)
        assert math.ceil(value / measure.per_replica) == 5


def pod(waiting: float | None, running: float | None) -> PodReading:
    return PodReading(f"p{waiting}{running}", waiting=waiting, running=running)


@pytest.mark.parametrize(
    ("pods", "queued", "gateway", "demand"),
    [
        pytest.param((pod(2, 8), pod(0, 5)), None, None, 15, id="pods alone"),
        pytest.param((pod(2, 8), pod(0, 5)), 4.0, "main", 19, id="with a gateway's queue"),
        pytest.param((pod(0.4, 8),), None, None, 9, id="rounded up to whole requests"),
        pytest.param((), None, None, None, id="no pod where three replicas stand"),
        pytest.param((pod(2, None),), None, None, None, id="a pod that does not say"),
        pytest.param((pod(1.7e308, 1.7e308),), None, None, None, id="a pod whose finite figures have no finite sum"),
        pytest.param(None, None, None, None, id="pods that could not be read"),
        pytest.param((pod(2, 8),), None, "main", None, id="a gateway that does not say"),
    ],
)
def test_demand_is_counted_whole_or_not_at_all(
    pods: tuple[PodReading, ...] | None, queued: float | None, gateway: str | None, demand: int | None
) -> None:
    bench = Bench(Known(claims={CHAT: claim(gateway=gateway)}))
    bench.step(3, pods=pods, gateway=None if queued is None else GatewayReading(queued))
    told = bench.told()
    assert isinstance(told, Served)
    assert told.demand == demand


@pytest.mark.parametrize(
    ("starting", "pods", "told"),
    [
        pytest.param(2, (), True, id="all that was ordered starts"),
        pytest.param(1, (), False, id="one is neither ready nor starting"),
        pytest.param(2, None, False, id="and pods could not be read"),
    ],
)
def test_a_warm_up_longer_than_values_are_held_is_no_fault(
    starting: int, pods: tuple[PodReading, ...] | None, told: bool
) -> None:
    """Woken by another trigger, without a gateway there is nothing to read: KEDA's fallback would order more."""
    bench = Bench()
    old = (("arrivals", "unknown", 2 * HOLD_S), ("queue", "unknown", 2 * HOLD_S))
    bench.step(2, seen=2, signals=old, pods=pods, starting=starting)
    found = bench.told()
    assert isinstance(found, Served) is told
    if isinstance(found, Served):
        assert (found.replicas, found.demand, found.held) == (2, None, False)


def test_a_scaledobject_that_goes_or_is_aimed_elsewhere_takes_its_answer_with_it() -> None:
    bench = Bench()
    bench.step(5)
    bench.known.claims[CHAT] = replace(claim(), scaled_object="renamed")
    bench.answers.on_claim(CHAT)
    assert bench.refusal()[0] is Refusal.UNKNOWN
    assert bench.answers.served("prod", "renamed") == Served(5, 3, 0)
    del bench.known.claims[CHAT]
    bench.answers.on_claim(CHAT)
    assert isinstance(bench.answers.served("prod", "renamed"), Refused)
    assert not bench.answers._steps
    assert not bench.answers._asking


@pytest.mark.parametrize("first", [CHAT, "prod/chat-b"], ids=["the old target is told of first", "the new one is"])
def test_a_scaledobject_that_changes_its_target_is_answered_for_the_new_one(first: str) -> None:
    bench, new = Bench(), "prod/chat-b"
    bench.step(5)
    bench.known.claims = {new: replace(claim(), ref=replace(claim().ref, name="chat-b"))}
    for workload in sorted((CHAT, new), key=lambda key: key != first):
        bench.answers.on_claim(workload)
    assert bench.refusal() == (Refusal.NOT_READY, "prod/chat-b has not been decided on yet; ask again in some seconds")
    del bench.known.claims[new]
    bench.answers.on_claim(new)
    assert bench.refusal()[0] is Refusal.UNKNOWN


def test_a_step_rings_whoever_waits_for_its_scaledobject() -> None:
    bench = Bench()
    with bench.bells.listening(*KEY) as bell, bench.bells.listening("prod", "other") as another:
        bench.step(5)
        assert (bell.is_set(), another.is_set()) == (True, False)


def test_workloads_that_keda_does_not_ask_for_are_not_kept() -> None:
    bench = Bench(Known(claims={CHAT: replace(claim(), way=Way.ANNOTATION, scaled_object=None)}))
    bench.step(5)
    assert not bench.answers._steps


async def test_a_bug_that_one_step_meets_keeps_no_other_back(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    bench, feed = Bench(), Feed(10)
    monkeypatch.setattr(bench.answers, "note", feed.push)
    bench.step(5, pods=(None,))  # type: ignore[arg-type] # a bug, whatever it was that let this come so far
    bench.step(7)
    monkeypatch.undo()
    feed.close()
    await bench.answers.run(feed)
    assert bench.number() == 7
    assert "AttributeError" in capsys.readouterr().out


def test_a_number_that_is_told_is_previewed_for_the_workload_behind_the_scaledobject() -> None:
    bench = Bench()
    target = Target(spec=TargetSpec(2), status=TargetStatus(2))
    bench.known.hpas = {KEY: hpa("keda-hpa-chat-so", "chat-so")}
    bench.known.targets = {CHAT: target}
    bench.answers.told(*KEY, "headroom-replicas", 5)
    bench.answers.told("prod", "stranger", "headroom-replicas", 9)
    assert bench.answers.previews.figures() == {CHAT: (4, ("UP_POLICIES",))}
    del bench.known.claims[CHAT]
    bench.answers.on_claim(CHAT)
    assert bench.answers.previews.figures() == {}


def test_a_preview_that_fails_at_once_costs_keda_no_answer(capsys: pytest.CaptureFixture[str]) -> None:
    bench = Bench()
    bench.step(5)
    bench.known.hpas = None  # type: ignore[assignment] # a bug, whatever it was that let this come so far
    bench.answers.told(*KEY, "headroom-replicas", 5)
    assert bench.number() == 5
    assert "the preview of the HPA of prod/chat-so" in capsys.readouterr().out


def test_a_bug_on_the_way_to_an_answer_refuses_that_one_in_words() -> None:
    bench = Bench()
    bench.step(5)
    bench.known.in_mode = None  # type: ignore[assignment] # a bug, whatever it was that let this come so far
    refusal, words = bench.refusal()
    assert refusal is Refusal.NOT_READY
    assert words.startswith("prod/chat-so cannot be answered for, which is a bug: AttributeError")
