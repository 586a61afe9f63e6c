"""What preflight writes is applied to a real API server as it is, and decides without acting."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from autoscaler.preflight.batch_queues import batch_queues
from autoscaler.preflight.given import Given
from autoscaler.preflight.gpu_jobs import JobHistory
from autoscaler.preflight.growth import Growth
from autoscaler.preflight.history import Fact
from autoscaler.preflight.job_study import queues_of
from autoscaler.preflight.policies import policies
from autoscaler.preflight.study import study
from autoscaler.preflight.warm_pools import warm_pools
from tests.cluster.plane import Plane
from tests.preflight.builders import DAY, GONE, HOUR, history, track, wave

pytestmark = [pytest.mark.real, pytest.mark.needs("control-plane")]


def stored(plane: Plane, namespace: str) -> dict[str, dict[str, Any]]:
    items = json.loads(plane.kubectl("get", "hsp", "--namespace", namespace, "--output", "json"))["items"]
    return {item["metadata"]["name"]: item["spec"] for item in items}


def test_the_policies_of_a_fleet_are_taken_with_nothing_dropped(plane: Plane, namespace: str, tmp_path: Path) -> None:
    made = [
        history(7 * DAY, workload=f"{namespace}/wave", running=track(wave(7, low=10.0, high=50.0)),
                facts={Fact.KIND: "StatefulSet", Fact.DEADLINE_S: "2.5"}),
        history(HOUR, workload=f"{namespace}/Short_Record: {{x}}"),
        history(7 * DAY, workload=f"{namespace}/huge", running=track(np.full(7 * DAY, 1e9))),
        history(7 * DAY, workload=f"{namespace}/blank", running=GONE, duration=GONE, cold_start=GONE,
                gpus_per_replica=None),
        history(7 * DAY, workload=f"{namespace}/null", cold_start=GONE),
    ]  # fmt: skip
    given = Given(slots=8.0, cold_start_s=0.25)
    file = tmp_path / "policies.yaml"
    file.write_text(policies([study(one, given)[0] for one in made], command="headroom preflight"))
    plane.kubectl("apply", "--validate=strict", "-f", file)
    kept = stored(plane, namespace)
    assert set(kept) == {"wave", "short-record-x", "huge", "blank", "null"}
    assert {spec["mode"] for spec in kept.values()} == {"Shadow"}
    waved = kept["wave"]
    assert (waved["minReplicas"], waved["maxReplicas"], waved["warmupPriorS"], waved["slo"]) == (
        2,
        9,
        180,
        {"waitS": 2.5},
    )
    assert waved["targetRef"] == {"apiVersion": "apps/v1", "kind": "StatefulSet", "name": "wave"}
    assert (kept["huge"]["minReplicas"], kept["huge"]["maxReplicas"]) == (100_000, 100_000)
    assert (kept["blank"]["maxReplicas"], kept["blank"]["warmupPriorS"]) == (100, 0.25), (
        "the default, and what was given"
    )


def test_the_warm_pools_of_a_fleet_are_taken_with_nothing_dropped(plane: Plane, tmp_path: Path) -> None:
    """A week of one shape, and an hour of another whose name needs changing."""
    grown = Growth()
    surges = np.where(np.arange(7 * DAY) % DAY < HOUR, 80.0, 16.0)
    for one in (
        history(7 * DAY, workload="prod/chat", running=track(surges), facts={Fact.SHAPE: "Preflight H100"}),
        history(HOUR, workload="prod/Code_{x}", facts={Fact.SHAPE: "preflight: l4"}, gpus_per_replica=1.0),
    ):
        grown.add(*study(one, Given(slots=8.0)))
    file = tmp_path / "pools.yaml"
    file.write_text(warm_pools(grown.finish(), command="headroom preflight"))
    try:
        plane.kubectl("apply", "--validate=strict", "-f", file)
        items = json.loads(plane.kubectl("get", "warmpools", "--output", "json"))["items"]
    finally:
        plane.kubectl("delete", "--ignore-not-found", "-f", file)
    kept = {item["metadata"]["name"]: item["spec"] for item in items}
    chat, code = kept["warm-preflight-h100-2"], kept["warm-preflight-l4-1"]
    assert (chat["backend"], chat["minSlots"], chat["maxSlots"], chat["leadPriorS"]) == ("observe", 0, 11, 180)
    assert chat["tiers"] == [{"name": "preflight-h100", "shape": "preflight-h100", "nodePoolRef": "preflight-h100"}]
    assert (code["slot"]["count"], code["maxSlots"]) == (1, 10), "the default: an hour says nothing"


def test_the_queues_of_namespaces_are_taken_with_nothing_dropped(plane: Plane, tmp_path: Path) -> None:
    """A week of Jobs in one namespace, and an hour of them in another."""
    made = [
        JobHistory(f"preflight-{name}", 0.0, 300.0, np.full(looks, 8.0), np.full(looks, 2.0), GONE)
        for name, looks in (("week", 7 * 288), ("hour", 12))
    ]
    file = tmp_path / "queues.yaml"
    file.write_text(batch_queues(queues_of(tuple(made)), command="headroom preflight"))
    try:
        plane.kubectl("apply", "--validate=strict", "-f", file)
        items = json.loads(plane.kubectl("get", "batchqueues", "--output", "json"))["items"]
    finally:
        plane.kubectl("delete", "--ignore-not-found", "-f", file)
    kept = {item["metadata"]["name"]: item["spec"] for item in items}
    week, hour = kept["preflight-week"], kept["preflight-hour"]
    assert week["namespaces"] == ["preflight-week"]
    assert week["quotas"] == [{"shape": "gpu", "guaranteed": 8, "limit": 13}]
    assert hour["quotas"] == [{"shape": "gpu", "guaranteed": 0}], "the default: an hour says nothing"
