"""What the controller says of an HPA from one pull to the next: its pace, its memory, and settings that swallow."""

from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any

import msgspec
import pytest

from autoscaler.adapters.kube.hpa_fields import HpaStatus
from autoscaler.adapters.kube.scaling import Hpa, Target, TargetMeta, TargetSpec, TargetStatus
from autoscaler.api.claims import Claim, TargetRef, Way
from autoscaler.api.scaling_policy import ScalingPolicySpec
from autoscaler.app.guard import Guard
from autoscaler.app.hpa import HpaPreviews
from autoscaler.record.hpa import HpaPreview

CHAT = "prod/chat"
REPLICAS = "headroom-replicas"
START_S = 1_800_000_000.0
AT_ONCE = {"stabilizationWindowSeconds": 0, "policies": [{"type": "Pods", "value": 100, "periodSeconds": 15}]}
EXACT = {"scaleUp": AT_ONCE | {"tolerance": "0"}, "scaleDown": AT_ONCE | {"tolerance": "0"}}
SLOW = {"scaleUp": {"policies": [{"type": "Pods", "value": 4, "periodSeconds": 60}], "tolerance": "0"}}


def claim(**spec: Any) -> Claim:
    ref = TargetRef("apps", "v1", "deployments", "Deployment", "prod", "chat", "u1")
    bounds = {"min_replicas": 1, "max_replicas": 40} | spec
    return Claim(ref, ScalingPolicySpec(**bounds), Way.SCALED_OBJECT, None, 1, scaled_object="chat")


def hpa(
    behavior: dict[str, Any] | None = None, *, most: int = 40, uid: str = "h1", metric: str = f"s0-{REPLICAS}"
) -> Hpa:
    target = {"type": "AverageValue", "averageValue": "1"}
    content = {
        "metadata": {"name": "keda-hpa-chat", "namespace": "prod", "uid": uid},
        "spec": {
            "minReplicas": 1, "maxReplicas": most, "behavior": behavior,
            "metrics": [{"type": "External", "external": {"metric": {"name": metric}, "target": target}}],
        },
    }  # fmt: skip
    return msgspec.json.decode(msgspec.json.encode(content), type=Hpa)


@dataclass
class Bench:
    """A cluster with one HPA and its target, an HPA's pulls, and what is said of them; the clock is the test's."""

    made: Hpa | None = field(default_factory=hpa)
    replicas: int = 1
    at_s: float = START_S
    held: list[str] = field(default_factory=list)
    claim: Claim = field(default_factory=claim)
    tolerance: bool = True

    def __post_init__(self) -> None:
        guard = Guard(self)  # type: ignore[arg-type]
        self.previews = HpaPreviews(self, self, guard, lambda _, words: self.held.append(words))  # type: ignore[arg-type]

    def now(self) -> float:
        return self.at_s

    def monotonic(self) -> float:
        return self.at_s - START_S

    def hpa(self, claim: Claim) -> Hpa | None:
        return self.made

    def target(self, ref: TargetRef) -> Target | None:
        return Target(TargetMeta("chat", "prod"), TargetSpec(self.replicas), TargetStatus(self.replicas))

    def knows_tolerance(self) -> bool:
        return self.tolerance

    def pull(self, value: int, *, after_s: float = 0.0, follows: bool = True) -> int:
        """HPA pulls a number `after_s` from the last one and, unless it cannot, scales; the count previewed."""
        self.at_s += after_s
        self.previews.told(self.claim, REPLICAS, value)
        count, _ = self.previews.figures()[CHAT]
        if follows and count != self.replicas and self.made is not None:
            scaled = datetime.fromtimestamp(int(self.at_s), UTC)
            status = HpaStatus(scaled, current_replicas=self.replicas, desired_replicas=count)
            self.made = Hpa(self.made.metadata, self.made.spec, status)
            self.replicas = count
        return count

    def preview(self, lead_s: float = 600.0) -> HpaPreview:
        found = self.previews.preview(self.claim, lead_s)
        assert found is not None
        return found


def test_one_more_than_twenty_is_never_followed_and_said_once() -> None:
    bench = Bench(replicas=20)
    assert [bench.pull(21, after_s=15) for _ in range(4)] == [20] * 4
    assert len(bench.held) == 1
    assert "told 21, it keeps 20 now: the change is within its tolerance; it stays at 20" in bench.held[0]
    told = bench.preview()
    assert (told.replicas, told.follows_s, told.limits) == (20, None, ("TOLERANCE",))
    assert told.remarks[0].startswith("HPA's tolerance of 10 %: at 40 replicas it ignores a change of up to 4;")
    assert '"tolerance":"0"' in (told.behavior or "")


def test_a_cluster_without_tolerances_is_not_told_to_set_one() -> None:
    bench = Bench(replicas=20, tolerance=False)
    bench.pull(21)
    assert "tolerance" not in (bench.preview().behavior or "")


def test_growth_by_the_default_policies_is_paced_and_nothing_is_said_of_it() -> None:
    bench = Bench(hpa({"scaleUp": {"selectPolicy": "Max"}}))
    assert bench.pull(40, follows=False) == 5
    told = bench.preview()
    assert told.text.startswith(
        "HPA keda-hpa-chat: told 40, it sets 5 now: its scaleUp policies allow no more at a time; 40 in about 45 s"
    )
    assert (told.follows_s, told.limits) == (45.0, ("UP_POLICIES",))
    assert bench.held == []


def test_what_hpa_added_itself_uses_its_policy_up_and_what_others_added_does_not() -> None:
    bench = Bench(hpa(SLOW), replicas=2)
    assert bench.pull(20) == 6
    assert bench.pull(20, after_s=15) == 6
    bench.replicas = 10
    assert bench.pull(20, after_s=15, follows=False) == 10
    assert bench.pull(20, after_s=31) == 14

    other = Bench(hpa(SLOW), replicas=2)
    other.pull(2)
    other.replicas = 6
    assert other.pull(20, after_s=15) == 10


def test_a_scaling_counts_once_however_often_the_hpa_is_seen_with_it() -> None:
    eight = {"scaleUp": {"policies": [{"type": "Pods", "value": 8, "periodSeconds": 60}], "tolerance": "0"}}
    bench = Bench(hpa(eight), replicas=2)
    assert bench.pull(6) == 6
    assert bench.pull(6, after_s=15) == 6
    assert bench.pull(20, after_s=15) == 10


def test_a_scaling_that_was_written_down_long_ago_counts_from_then() -> None:
    bench = Bench(hpa(SLOW), replicas=2)
    bench.pull(2)
    assert bench.made is not None
    status = HpaStatus(datetime.fromtimestamp(bench.at_s + 100, UTC), current_replicas=2, desired_replicas=6)
    bench.made, bench.replicas = Hpa(bench.made.metadata, bench.made.spec, status), 6
    assert bench.pull(20, after_s=150, follows=False) == 6
    assert bench.pull(20, after_s=11) == 10


def test_the_way_down_waits_for_what_was_told_before_to_grow_old() -> None:
    bench = Bench(replicas=20)
    for _ in range(21):
        bench.pull(20, after_s=15)
    assert bench.pull(4, after_s=15) == 20
    told = bench.preview()
    assert (told.limits, told.follows_s) == (("DOWN_WINDOW",), 300.0)
    assert "more was asked for within its scaleDown window; 4 in about 5 min" in told.text
    counts = [bench.pull(4, after_s=15) for _ in range(20)]
    assert counts.index(4) == 19


def test_what_hpa_remembers_from_before_this_process_led_is_said_to_be_unknown() -> None:
    bench = Bench(replicas=20)
    bench.pull(20)
    assert "what it remembers from before is not known for 5 min more" in bench.preview().text
    for _ in range(21):
        bench.pull(20, after_s=15)
    assert "remembers" not in bench.preview().text


def test_an_hpa_that_was_made_anew_remembers_nothing() -> None:
    bench = Bench(hpa(SLOW), replicas=2)
    assert bench.pull(20) == 6
    assert bench.pull(20, after_s=15) == 6
    bench.made = hpa(SLOW, uid="h2")
    assert bench.pull(20, after_s=15) == 10


@pytest.mark.parametrize(
    "made", [None, hpa(metric="s1-composite-metric"), hpa({"scaleUp": {"selectPolicy": "Odd"}})],
    ids=["no-hpa", "a-formula-of-kedas", "not-of-today"],
)  # fmt: skip
def test_without_an_hpa_that_asks_for_our_number_nothing_is_said(made: Hpa | None) -> None:
    bench = Bench(made, replicas=3)
    bench.previews.told(bench.claim, REPLICAS, 5)
    assert bench.previews.figures() == {}
    assert bench.previews.preview(bench.claim, 60.0) is None


def test_pulls_within_a_second_are_one_evaluation_so_that_whoever_asks_often_fills_no_memory() -> None:
    bench = Bench(replicas=20)
    bench.pull(20)
    for turn in range(500):
        bench.pull(30 + turn % 2, after_s=0.01, follows=False)
    known = bench.previews._known[CHAT]
    assert len(known.memory.recommendations or ()) <= 7
    assert bench.previews.figures()[CHAT][0] > 20


def test_a_number_that_nobody_asks_for_any_more_is_not_previewed() -> None:
    bench = Bench(replicas=3)
    bench.pull(5)
    bench.at_s += 301
    assert bench.previews.figures() == {}
    assert bench.previews.preview(bench.claim, 60.0) is None


def test_a_workload_that_is_let_go_is_forgotten_with_what_was_just_told() -> None:
    bench = Bench(replicas=3)
    bench.previews.told(bench.claim, REPLICAS, 5)
    bench.previews.forget(CHAT)
    assert bench.previews.figures() == {}


def test_the_recommended_behavior_is_followed_at_once_and_leaves_nothing_to_say() -> None:
    bench = Bench(hpa(EXACT), replicas=5)
    for number in (19, 20, 21, 3, 40, 1):
        assert bench.pull(number, after_s=15) == number
        told = bench.preview()
        assert (told.limits, told.follows_s, told.remarks, told.behavior) == ((), 0.0, (), None)
    assert bench.held == []


def test_at_zero_hpa_rests_and_keda_is_the_one_to_wake_it() -> None:
    bench = Bench(hpa(EXACT), replicas=0)
    assert bench.pull(3) == 0
    assert "at zero it rests, and KEDA wakes the target" in bench.preview().text
    assert bench.held == []


def test_an_hpa_with_other_bounds_than_the_policys_says_so() -> None:
    bench = Bench(hpa(EXACT, most=8), replicas=8, claim=claim(max_replicas=12))
    bench.pull(12)
    told = bench.preview()
    assert told.limits == ("MAX",)
    assert "HPA's maxReplicas is 8, below the policy's 12: more is never set" in told.remarks
    assert len(bench.held) == 1


def test_a_number_of_demand_is_divided_by_what_a_replica_carries() -> None:
    tens = hpa(EXACT, metric="s0-headroom-demand")
    external = tens.spec.metrics[0].external
    assert external is not None
    carries = msgspec.structs.replace(external, target=msgspec.structs.replace(external.target, average_value="8"))
    metrics = (msgspec.structs.replace(tens.spec.metrics[0], external=carries),)
    bench = Bench(msgspec.structs.replace(tens, spec=msgspec.structs.replace(tens.spec, metrics=metrics)), replicas=2)
    bench.previews.told(bench.claim, "headroom-demand", 37)
    assert bench.previews.figures() == {CHAT: (5, ())}
    assert bench.preview().told == 5


def test_the_claim_of_another_workload_is_another_matter() -> None:
    bench = Bench(replicas=3)
    bench.pull(5)
    other = replace(bench.claim, ref=replace(bench.claim.ref, name="code"))
    assert bench.previews.preview(other, 60.0) is None


class Half(Bench):
    """The same, where whatever is seen of chat's HPA makes our own code fail until it is mended."""

    mended = False

    def hpa(self, claim: Claim) -> Hpa | None:
        assert self.made is not None
        if self.mended or claim.ref.name != "chat":
            return self.made
        return msgspec.structs.replace(self.made, spec=msgspec.structs.replace(self.made.spec, metrics=(None,)))


def test_a_bug_that_one_hpa_provokes_costs_its_own_preview_and_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    bench = Half(hpa(EXACT), replicas=3)
    other = replace(bench.claim, ref=replace(bench.claim.ref, name="code"))
    bench.previews.told(bench.claim, REPLICAS, 5)
    bench.previews.told(other, REPLICAS, 7)
    assert bench.previews.figures() == {"prod/code": (7, ())}
    assert bench.previews.preview(bench.claim, 60.0) is None
    assert bench.previews.preview(other, 60.0) is not None
    words = bench.previews.problem(CHAT)
    assert words is not None
    assert words.startswith("what its HPA will do cannot be told, which is a bug: AttributeError")
    assert bench.previews.problem("prod/code") is None
    assert "the preview of the HPA of prod/chat" in capsys.readouterr().out

    bench.mended = True
    assert bench.pull(5, after_s=15) == 5
    assert bench.preview().told == 5
    assert bench.previews.problem(CHAT) is None


def test_a_bug_that_only_looking_ahead_meets_is_told_in_its_place() -> None:
    bench = Half(hpa(EXACT), replicas=3)
    bench.mended = True
    bench.pull(5)
    bench.mended = False
    assert bench.previews.preview(bench.claim, 60.0) is None
    assert "AttributeError" in (bench.previews.problem(CHAT) or "")
