"""Cold starts measured on a real API server, and GPUs shared between tiers under a budget."""

import re

import pytest

from tests.cluster.controller import Controller
from tests.cluster.engines import Engines
from tests.cluster.plane import Plane
from tests.cluster.processes import wait_for
from tests.cluster.service import Service

pytestmark = [pytest.mark.real, pytest.mark.needs("control-plane"), pytest.mark.timeout(240)]


def test_the_injected_stages_of_a_start_are_recovered_and_outlive_a_restart(
    plane: Plane, namespace: str, engines: Engines
) -> None:
    """Every pod takes 4 s to its process and 6 s more to readiness: inputs of the test, told to the nodes."""
    service = Service(
        plane, engines, namespace, "chat", min_replicas="6", stages={"start-after": "4s", "ready-after": "6s"}, gpus=3
    )  # three GPUs: a shape that no other test of this control plane starts
    service.wait_ready(1, 40)
    with Controller(plane, "measures", watch_namespaces=[namespace]) as first:
        first.wait_leading()
        wait_for(lambda: service.replicas() == 6, 30, "the policy's minimum")
        service.wait_ready(6, 60)
        wait_for(lambda: _ready_s(first, service) is not None, 20, "measured stages")
        found = _ready_s(first, service)
        assert found is not None
        assert found == pytest.approx((10.0, 6.0), abs=2.5), "seconds to ready in all, and from process to ready"
        policy = first.get("/api/status")["workloads"][0]
        assert policy["about"]["problems"] == []
        found = _ready_s(first, service)
        assert first.stop() == 0, "what was measured in the last minute is kept at the end"
    with Controller(plane, "remembers", watch_namespaces=[namespace]) as second:
        second.wait_leading()
        wait_for(lambda: _ready_s(second, service) == found, 20, "the same measurements after a restart")


def test_a_budget_goes_to_the_critical_first_and_says_so(plane: Plane, namespace: str, engines: Engines) -> None:
    """Eight GPUs, two services of one GPU a replica: minimums of seven and of four."""
    critical = Service(plane, engines, namespace, "critical", gpus=1, tier="critical", min_replicas="7")
    spare = Service(plane, engines, namespace, "spare", gpus=1, tier="scavenger", min_replicas="4")
    critical.wait_ready(1)
    spare.wait_ready(1)
    with Controller(
        plane, "budget", watch_namespaces=[namespace], budgets={"namespaces": {namespace: 8}}
    ) as controller:
        controller.wait_leading()
        most = 0

        def settled() -> bool:
            nonlocal most
            most = max(most, critical.replicas() + spare.replicas())
            return critical.replicas() == 7

        wait_for(settled, 60, "seven of eight GPUs for the critical one", every_s=0.2)
        assert most <= 8, "the budget is never exceeded"
        assert spare.replicas() == 1
        words = f"namespace {namespace} has 8 GPUs"
        path = f"/api/explain/{spare.workload}"
        wait_for(lambda: words in controller.get(path)["text"], 20, "the budget in words")
        assert spare.replicas() == 1


def _ready_s(controller: Controller, service: Service) -> tuple[float, float] | None:
    """Seconds to ready in all, and from process to ready, as the explanation has them."""
    text = controller.get(f"/api/explain/{service.workload}")["text"]
    told = re.search(r"a replica, .*?: ready after ([\d.]+) s, .*, [3-9] starts; .*ready ([\d.]+) s", text)
    return None if told is None else (float(told[1]), float(told[2]))
