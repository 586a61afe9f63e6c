"""The parts of a cold start that pods themselves do not tell: the kubelet's word on the image, and the first token."""

import re
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any, Final

import pytest

from tests.cluster.plane import Plane
from tests.cluster.processes import wait_for
from tests.cluster.scene import QUIET, Scene
from tests.cluster.service import Service

pytestmark = [pytest.mark.real, pytest.mark.needs("control-plane"), pytest.mark.timeout(240)]

PULLED_S: Final = 3.0
"""From a node to the image being there: told by events, as the kubelet does."""

STARTED_S: Final = 6.0
READY_S: Final = 4.0
TOKEN_S: Final = 8.0
"""From readiness to the first token that a page shows."""

WHOLE_S: Final = 1.5
"""Kubernetes tells instants in whole seconds, and pages are read once a second."""


@pytest.fixture
def scene(plane: Plane) -> Iterator[Scene]:
    with Scene.begin(plane, "stages") as made:
        yield made


def test_pulls_and_first_tokens_are_measured_of_pods_that_start(scene: Scene) -> None:
    """Five GPUs a pod: a shape that no other test of this control plane starts."""
    stages = {"start-after": f"{STARTED_S:g}s", "ready-after": f"{READY_S:g}s"}
    service = Service(scene.plane, scene.engines, scene.namespace, "chat", stages=stages, gpus=5)
    told: set[str] = set()
    scene.engines.default.rps = 0.0
    wait_for(lambda: _tell_pulls(service, told) and len(service.ips()) == 1, 40, "the first pod", every_s=0.2)
    service.annotate(min_replicas="4")
    wait_for(lambda: _tell_pulls(service, told) == 4 and len(service.ips()) == 4, 60, "all pods", every_s=0.2)
    pods = service.pods()
    ready = max(_at(pod, "Ready") for pod in pods)
    wait_for(lambda: datetime.now(UTC) >= ready + timedelta(seconds=TOKEN_S), 30, "the instant of the first tokens")
    served = datetime.now(UTC)
    scene.engines.of_all(service.ips(), done=1.0, **QUIET)
    injected = {"pulled": PULLED_S, "started": STARTED_S - PULLED_S, "ready": READY_S, "serving": TOKEN_S}
    middle = {stage: sorted(_took_s(pod, served)[stage] for pod in pods)[1:3] for stage in injected}
    for stage, least in injected.items():
        assert middle[stage][0] >= least - WHOLE_S, f"{stage}: what was injected"

    def wrong() -> dict[str, float | None]:
        """Stages of which the explanation does not say what the middle ones of the pods took."""
        found = _stages(scene, service)
        told = {stage: found.get(stage) for stage in injected}
        return {
            stage: took
            for stage, took in told.items()
            if took is None or not middle[stage][0] - WHOLE_S <= took <= middle[stage][1] + WHOLE_S
        }

    # Pages are read one after the other: until the last is, the middle is that of fewer pods.
    wait_for(lambda: not wrong(), 30, f"what the middle ones of the pods took: {middle}")


def _tell_pulls(service: Service, told: set[str]) -> int:
    """Say of each pod on a node that its image is there; how many are told of."""
    for pod in service.pods():
        meta = pod["metadata"]
        placed = [
            c for c in pod["status"].get("conditions", ()) if c["type"] == "PodScheduled" and c["status"] == "True"
        ]
        if placed and meta["name"] not in told:
            told.add(meta["name"])
            at = datetime.fromisoformat(placed[0]["lastTransitionTime"]) + timedelta(seconds=PULLED_S)
            involved = {"kind": "Pod", "namespace": service.namespace, "name": meta["name"], "uid": meta["uid"]}
            event: dict[str, Any] = {
                "apiVersion": "v1", "kind": "Event", "reason": "Pulled", "type": "Normal", "involvedObject": involved,
                "metadata": {"name": f"{meta['name']}.pulled", "namespace": service.namespace},
                "message": 'Successfully pulled image "vllm:v1" in 3s', "source": {"component": "kubelet"},
                "firstTimestamp": f"{at:%Y-%m-%dT%H:%M:%SZ}", "lastTimestamp": f"{at:%Y-%m-%dT%H:%M:%SZ}", "count": 1,
            }  # fmt: skip
            service.plane.call("POST", f"/api/v1/namespaces/{service.namespace}/events", event)
    return len(told)


def _at(pod: dict[str, Any], condition: str) -> datetime:
    (found,) = (c for c in pod["status"]["conditions"] if c["type"] == condition)
    return datetime.fromisoformat(found["lastTransitionTime"])


def _took_s(pod: dict[str, Any], served: datetime) -> dict[str, float]:
    """Seconds in each stage, by the pod's own word, which a loaded machine makes late: a delay here is an input."""
    (container,) = pod["status"]["containerStatuses"]
    pulled = _at(pod, "PodScheduled") + timedelta(seconds=PULLED_S)
    started = datetime.fromisoformat(container["state"]["running"]["startedAt"])
    told = {"started": started - pulled, "ready": _at(pod, "Ready") - started, "serving": served - _at(pod, "Ready")}
    return {"pulled": PULLED_S} | {stage: took.total_seconds() for stage, took in told.items()}


def _stages(scene: Scene, service: Service) -> dict[str, float]:
    """The median of each stage in seconds, as the explanation of the workload has them; empty while it has none."""
    told = re.search(r"a replica, .*? [2-9] starts; medians: (.*)", scene.explained(service))
    return {name: float(s) for name, s in re.findall(r"(\w+) ([\d.]+) s", told[1])} if told else {}
