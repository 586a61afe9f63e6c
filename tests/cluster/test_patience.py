"""What only minutes show: pods that never become ready, a lowered maximum, an edit that is respected, a refused zero.

All begin together under one controller, and each is then waited for.
"""

import time
from collections.abc import Iterator
from typing import Final

import pytest

from tests.cluster.plane import Plane
from tests.cluster.processes import wait_for
from tests.cluster.scene import FLOOD, Scene
from tests.cluster.service import Service

pytestmark = [
    pytest.mark.real,
    pytest.mark.slow,
    pytest.mark.needs("control-plane"),
    pytest.mark.timeout(300),
]

PRIOR_S: Final = 5.0
"""Expected warm-up of the pods that never become ready; unmeasured, a start keeps its credit for six times as long."""

HOLD_S: Final = 120.0
"""The stabilisation, and how long a first edit is respected."""


class Begun:
    """The scene and its workloads, each harmed already."""

    def __init__(self, scene: Scene) -> None:
        self.scene = scene
        self.edited, ips = scene.serve("edited", max_replicas="6")
        scene.engines.of_all(ips, **FLOOD)
        wait_for(lambda: self.edited.replicas() == 6, 30, "the policy's maximum")
        self.edited.edit(3)
        self.edited_s = time.time()
        wait_for(lambda: scene.condition(self.edited, "Active") == ("False", "Edited"), 20, "a word about the edit")
        scene.engines.of_all(self.edited.wait_ready(3), **FLOOD)  # whichever three the ReplicaSet kept

        prior = f"{PRIOR_S:g}"
        self.late, ips = scene.serve("late", 1, stages={"hold": "ready"}, max_replicas="8", warmup_prior_s=prior)
        scene.engines.of_all(ips, **FLOOD)

        self.idle, ips = scene.serve("idle", 1, min_replicas="0", idle_after_s="5")
        scene.engines.of_all(ips, running=0.0, rps=0.0)

        self.lowered, _ = scene.serve("lowered", 8, min_replicas="1", max_replicas="8")
        self.lowered.annotate(max_replicas="3")


@pytest.fixture(scope="module")
def begun(plane: Plane) -> Iterator[Begun]:
    with Scene.begin(plane, "patience") as scene:
        yield Begun(scene)


def test_a_maximum_lowered_below_the_count_is_reached_at_pace(begun: Begun) -> None:
    wait_for(lambda: begun.lowered.replicas() == 3, 120, "the new maximum", every_s=1.0)
    assert begun.lowered.counts() == [(8, 4), (4, 3)], "at most half a minute"
    told = [line for line in begun.scene.decided(begun.lowered) if line["verdict"] == "SCALE"]
    assert {line["reason"] for line in told} == {"MAX"}


def test_pods_that_never_become_ready_lose_their_credit_and_are_ordered_again_within_the_maximum(begun: Begun) -> None:
    late, scene = begun.late, begun.scene
    wait_for(lambda: "LATE_START" in _reasons(scene, late), 90, "starts that are late", every_s=1.0)
    wait_for(lambda: late.replicas() == 8, 60, "the maximum", every_s=1.0)
    wait_for(lambda: scene.condition(late, "ScalingLimited") == ("True", "LateStart"), 20, "a word about the starts")
    assert late.replicas() == 8
    assert not late.shrinks()


def test_scaling_to_zero_without_a_signal_that_lives_there_is_refused_with_the_remedy(begun: Begun) -> None:
    idle, scene = begun.idle, begun.scene
    wait_for(lambda: "ZERO_REFUSED" in _reasons(scene, idle), HOLD_S + 60, "the refusal", every_s=1.0)
    wait_for(lambda: scene.condition(idle, "ScalingLimited") == ("True", "ZeroRefused"), 20, "a word about it")
    assert "it stays at 1; name a gateway, or ask for 1" in scene.explained(idle)
    assert idle.counts() == []


def test_an_edit_is_respected_for_two_minutes_and_then_worked_on_from(begun: Begun) -> None:
    edited = begun.edited
    wait_for(lambda: edited.replicas() > 3, HOLD_S + 60, "growth after the hold", every_s=1.0)
    wait_for(lambda: begun.scene.acts(edited)[-1]["outcome"] == "applied", 5, "the record of it")
    applied = [act for act in begun.scene.acts(edited) if act["outcome"] == "applied"]
    assert applied[-1]["now_s"] - begun.edited_s >= HOLD_S
    assert applied[-1]["seen_replicas"] == 3
    wait_for(lambda: begun.scene.condition(edited, "Active")[0] == "True", 20, "no more word of it")


def _reasons(scene: Scene, service: Service) -> set[str]:
    return {step["reason"] for line in scene.decided(service) for step in line["trace"]}
