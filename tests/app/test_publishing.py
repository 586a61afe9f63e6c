"""What becomes of a policy's status as policies are edited, change places, go and come back."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from autoscaler.adapters.web.hub import Hub
from autoscaler.api.claims import Claim, Doubt, Reject, Rejection, TargetRef, Way
from autoscaler.api.modes import Mode
from autoscaler.api.scaling_policy import ScalingPolicySpec, TargetReference
from autoscaler.app.guard import Guard
from autoscaler.app.publishing import Publisher
from autoscaler.app.shadowing import Shadowing
from autoscaler.core.state import Table
from autoscaler.record.board import Board
from autoscaler.record.status import Problem
from autoscaler.runtime.clock import ScaledClock
from autoscaler.runtime.records import Feed
from tests.record.test_board import step
from tests.runtime.fakes import Store

KEY = "prod/chat"
REF = TargetRef("apps", "v1", "deployments", "Deployment", "prod", "chat", "t1")
SPEC = ScalingPolicySpec(target_ref=TargetReference(name="chat"), mode=Mode.ACTIVE)


class Cluster:
    """What is known, and what was written: everything the publisher talks to."""

    frozen = None
    leading = True

    def __init__(self) -> None:
        self.policies: set[str] = set()
        self.claimed: Claim | None = None
        self.rejected: tuple[Rejection, ...] = ()
        self.written: list[tuple[str, int, str]] = []
        self.forgotten: list[str] = []
        self.told: list[str] = []

    def claim(self, workload: str) -> Claim | None:
        return self.claimed

    def rejections(self, workload: str) -> tuple[Rejection, ...]:
        return self.rejected

    def mode(self, claim: Claim) -> Mode:
        return Mode.ACTIVE

    def doubt(self, claim: Claim) -> Doubt | None:
        return None

    def podless(self, claim: Claim) -> Problem | None:
        return None

    def gpus(self, claim: Claim) -> int | None:
        return 1

    def policy_status(self, namespace: str, name: str) -> Mapping[str, Any] | None:
        return {} if name in self.policies else None

    def put(
        self, namespace: str, name: str, status: Mapping[str, Any], *, seen: Mapping[str, Any] | None = None
    ) -> None:
        ready = next(c["status"] for c in status["conditions"] if c["type"] == "Ready")
        self.written.append((name, status["observedGeneration"], ready))

    def forget(self, namespace: str, name: str) -> None:
        self.forgotten.append(name)

    def note(self, ref: TargetRef, kind_type: str, reason: str, message: str, *, aside: bool = False) -> None:
        self.told.append(f"{reason}, aside" if aside else reason)


def shadowing() -> Shadowing:
    clock = ScaledClock(1.0)
    return Shadowing(table=Table.empty(), store=Store(), clock=clock, leading=lambda: True, guard=Guard(clock))


class Scene:
    """A publisher over a cluster; `shows` is a change of the policies there are, the first of which claims."""

    def __init__(self) -> None:
        self.cluster = Cluster()
        self.publisher = Publisher(
            board=Board(), hub=Hub(), statuses=self.cluster, events=self.cluster, knowledge=self.cluster,
            clock=ScaledClock(1.0), guard=Guard(ScaledClock(1.0)), shadowing=shadowing(),
        )  # fmt: skip

    def shows(self, *policies: tuple[str, int]) -> None:
        self.cluster.policies = {name for name, _ in policies}
        claims = [Claim(REF, SPEC, Way.SCALING_POLICY, name, generation) for name, generation in policies]
        self.cluster.claimed = claims[0] if claims else None
        self.cluster.rejected = tuple(
            Rejection(
                "prod", name, True, "ScalingPolicy", "headroom.dev/v1alpha1", "u", generation, Reject.OUTRANKED, "x"
            )
            for name, generation in policies[1:]
        )
        self.publisher.on_claim(KEY)


async def test_an_edit_that_changes_no_figure_is_observed_all_the_same() -> None:
    scene = Scene()
    for generation in (1, 1, 2):
        scene.shows(("a", generation))
    assert scene.cluster.written == [("a", 1, "True"), ("a", 2, "True")]


async def test_a_policy_that_takes_over_from_another_is_told_that_it_did() -> None:
    scene = Scene()
    scene.shows(("a", 1), ("b", 1))
    scene.shows(("b", 1))
    assert scene.cluster.written == [("a", 1, "True"), ("b", 1, "False"), ("b", 1, "True")]
    assert scene.cluster.forgotten == ["a"]


async def test_who_asks_in_vain_is_told_so_after_all_else_that_is_told() -> None:
    scene = Scene()
    scene.shows(("a", 1), ("b", 1))
    assert scene.cluster.told == ["Outranked, aside"]


async def test_a_policy_made_anew_under_its_name_gets_a_status_of_its_own() -> None:
    scene = Scene()
    scene.shows(("a", 1))
    scene.shows()
    assert scene.cluster.forgotten == ["a"], "what the old object showed says nothing of the new one"
    scene.shows(("a", 1))
    assert scene.cluster.written == [("a", 1, "True")] * 2


async def test_a_forecast_that_drifts_is_an_event_once_and_its_recovery_another() -> None:
    """A thousand bounds that look 95 s ahead are 105 that do not overlap; 0.8 in the place of 0.95 is no chance."""
    scene, feed = Scene(), Feed(100)
    scene.shows(("a", 1))
    for now_s, coverage in ((100.0, 0.95), (105.0, 0.8), (110.0, 0.8), (115.0, 0.95)):
        made = step(now_s)
        seen = replace(made.view, coverage_ratio=coverage, asked_ratio=0.95, scored_bins=1000.0)
        feed.push(replace(made, view=seen))
    feed.close()
    await scene.publisher.run(feed)
    assert [reason for reason in scene.cluster.told if reason.startswith("Forecast")] == [
        "ForecastDrifted", "ForecastRecovered",
    ]  # fmt: skip
