"""The whole controller behind KEDA: from a pod's metrics page through our answer, KEDA and HPA to the count.

HPA pulls every 2 s here and KEDA polls every 2 s, instead of 15 s and 30 s.
"""

import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import pytest

from tests.cluster.conftest import install
from tests.cluster.controller import ACCOUNT, Controller
from tests.cluster.engines import Engines
from tests.cluster.keda import Keda, scaled_object
from tests.cluster.leader_service import LeaderService
from tests.cluster.plane import Plane
from tests.cluster.processes import free_port, wait_for
from tests.cluster.service import Service

pytestmark = [pytest.mark.real, pytest.mark.needs("keda"), pytest.mark.timeout(240)]

QUEUE = {"waiting": 300.0, "running": 8.0, "rps": 5.0}
"""On each pod. It asks for the maximum before and after it is learned what a replica carries: late or not, KEDA is told
the same."""
CALM = {"waiting": 0.0, "running": 2.0, "rps": 5.0}
COLD_S = 20.0
MOST = 4
"""The ScaledObjects' maximum, well below what the load asks for."""


@pytest.fixture(scope="module")
def keda(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Keda]:
    """One control plane with KEDA and Headroom's own objects for all tests of this file."""
    flags = ("--horizontal-pod-autoscaler-sync-period=2s",)
    with Plane(tmp_path_factory.mktemp("plane"), aggregates=True, manager_flags=flags) as plane:
        install(plane)
        with Keda(plane) as started:
            yield started


@pytest.fixture
def plane(keda: Keda) -> Plane:
    return keda.plane


class Replicas:
    """The controller's replicas, reached by KEDA through the Service that selects the leader's label."""

    def __init__(self, plane: Plane, namespace: str, **settings: Any) -> None:
        self.plane, self.namespace = plane, namespace
        self._ports = {name: free_port() for name in ("headroom-0", "headroom-1")}
        self.service = LeaderService(plane, self._ports)
        self._keda = {"enabled": True, "plaintext": True, "host": "127.0.0.1", "addresses": [self.service.address]}
        self._settings = settings

    def start(self, name: str, **keda: Any) -> Controller:
        """One replica, started; end it by its block or `kill`."""
        given = self._keda | {"port": self._ports[name]} | keda
        return Controller(self.plane, name, watch_namespaces=[self.namespace], keda=given, **self._settings)


@pytest.fixture
def replicas(plane: Plane, namespace: str) -> Iterator[Replicas]:
    made = Replicas(plane, namespace)
    with made.service:
        yield made


@contextmanager
def watched(service: Service) -> Iterator[list[int]]:
    """Every count that the target has had within the block, looked at ten times a second."""
    seen, ended = [service.replicas()], threading.Event()

    def look() -> None:
        while not ended.wait(0.1):
            count = service.replicas()
            if count != seen[-1]:
                seen.append(count)

    looking = threading.Thread(target=look, name="watch")
    looking.start()
    try:
        yield seen
    finally:
        ended.set()
        looking.join()


def made(keda: Keda, engines: Engines, replicas: Replicas, count: int, **options: Any) -> tuple[Service, list[str]]:
    """A workload with `count` ready pods and a ScaledObject for it, and its pods' addresses."""
    service = Service(keda.plane, engines, replicas.namespace, "chat", replicas=count, asks=False)
    ips = service.wait_ready(count)
    engines.of_all(ips, **CALM)
    bounds = {"minReplicaCount": 1, "maxReplicaCount": MOST}
    keda.plane.apply(scaled_object(replicas.namespace, "chat", replicas.service.address, **(bounds | options)))
    return service, ips


def patched_by_us(plane: Plane, namespace: str) -> list[Any]:
    found = plane.audited(verb="patch", resource="deployments/scale", user=ACCOUNT)
    return [entry for entry in found if entry["objectRef"]["namespace"] == namespace]


def test_requests_that_wait_are_scaled_for_by_keda_and_never_by_us(
    keda: Keda, engines: Engines, replicas: Replicas
) -> None:
    service, ips = made(keda, engines, replicas, 2, push=True)
    with replicas.start("headroom-0") as controller:
        controller.wait_leading()
        wait_for(lambda: keda.value(replicas.namespace, "chat") == 2, 30, "KEDA to be told what stands")
        assert service.replicas() == 2, "nothing waits, so nothing grows"
        engines.of_all(ips, **QUEUE)
        wait_for(lambda: service.replicas() == MOST, 60, "the ScaledObject's maximum")
        status = controller.get("/api/status")["workloads"][0]
        metrics = controller.get("/metrics")
        assert controller.stop() == 0
    assert patched_by_us(keda.plane, replicas.namespace) == []
    assert (status["about"]["way"], status["about"]["policy"]) == ("ScaledObject", "chat")
    assert "headroom_keda_plaintext 1.0" in metrics
    assert 'headroom_keda_calls_total{code="OK",method="GetMetrics"}' in metrics
    assert {line["outcome"] for line in controller.journal() if line["kind"] == "act"} <= {"told to KEDA, which acts"}


def test_in_shadow_keda_is_told_what_stands_and_changes_nothing(
    keda: Keda, engines: Engines, replicas: Replicas
) -> None:
    service, ips = made(keda, engines, replicas, 2, metadata={"mode": "Shadow"})
    with replicas.start("headroom-0") as controller:
        controller.wait_leading()
        engines.of_all(ips, **QUEUE)
        wait_for(lambda: any(d["verdict"] == "SCALE" for d in controller.decisions()), 30, "a decision to scale")
        wait_for(lambda: keda.value(replicas.namespace, "chat") == 2, 30, "KEDA to be told what stands")
        time.sleep(6)
        assert service.replicas() == 2


def test_a_controller_that_is_killed_and_started_again_takes_nothing_away(
    keda: Keda, engines: Engines, replicas: Replicas
) -> None:
    service, ips = made(keda, engines, replicas, 2)
    with ExitStack() as stack:
        first = stack.enter_context(replicas.start("headroom-0"))
        first.wait_leading()
        engines.of_all(ips, **QUEUE)
        wait_for(lambda: service.replicas() == MOST, 60, "the maximum")
        with watched(service) as seen:
            first.kill()
            time.sleep(5)
            second = stack.enter_context(replicas.start("headroom-0"))
            second.wait_leading(40)
            wait_for(lambda: keda.value(replicas.namespace, "chat") is not None, 40, "an answer of the new process")
            time.sleep(6)
    assert seen == [MOST]


def test_another_replica_takes_over_without_a_dip_and_with_the_label(
    keda: Keda, engines: Engines, replicas: Replicas
) -> None:
    service, ips = made(keda, engines, replicas, 2, push=True)
    with ExitStack() as stack:
        first = stack.enter_context(replicas.start("headroom-0"))
        first.wait_leading()
        second = stack.enter_context(replicas.start("headroom-1"))
        engines.of_all(ips, **QUEUE)
        wait_for(lambda: service.replicas() == MOST, 60, "the maximum")
        assert replicas.service.selected() == ["headroom-0"]
        with watched(service) as seen:
            first.kill()
            second.wait_leading(COLD_S)
            wait_for(lambda: keda.value(replicas.namespace, "chat") is not None, 60, "the new leader's answer")
            assert replicas.service.selected() == ["headroom-1"]
            time.sleep(6)
        assert seen == [MOST]
        assert keda.value(replicas.namespace, "chat") == MOST


def test_a_leader_that_stops_hands_its_callers_over(keda: Keda, engines: Engines, replicas: Replicas) -> None:
    service, ips = made(keda, engines, replicas, 2, push=True)
    with ExitStack() as stack:
        first = stack.enter_context(replicas.start("headroom-0"))
        first.wait_leading()
        second = stack.enter_context(replicas.start("headroom-1"))
        wait_for(lambda: keda.value(replicas.namespace, "chat") == 2, 30, "the first leader's answer")
        with watched(service) as seen:
            assert first.stop() == 0
            second.wait_leading(10)
            wait_for(lambda: keda.value(replicas.namespace, "chat") is not None, 60, "the new leader's answer")
        assert seen == [2]
        engines.of_all(ips, **QUEUE)
        wait_for(lambda: service.replicas() == MOST, 60, "growth under the new leader")


def test_metrics_that_go_silent_under_load_shrink_nothing_and_end_in_a_refusal(
    keda: Keda, engines: Engines, replicas: Replicas
) -> None:
    service, ips = made(keda, engines, replicas, 2)
    with replicas.start("headroom-0", hold_s=20) as controller:
        controller.wait_leading()
        engines.of_all(ips, **QUEUE)
        wait_for(lambda: service.replicas() == MOST, 60, "the maximum")
        engines.of_all(service.wait_ready(MOST), silent=True)
        with watched(service) as seen:
            wait_for(lambda: keda.value(replicas.namespace, "chat") is None, 60, "the refusal")
            time.sleep(6)
        assert seen == [MOST]
        events = keda.plane.kubectl("-n", replicas.namespace, "get", "events")
        assert "could not be read for" in events
        engines.of_all(service.ips(), silent=False, **QUEUE)
        wait_for(lambda: keda.value(replicas.namespace, "chat") == MOST, 30, "answers again")


def test_an_hpa_that_will_not_follow_is_told_with_the_behavior_that_would(
    keda: Keda, engines: Engines, replicas: Replicas
) -> None:
    stuck = {"horizontalPodAutoscalerConfig": {"behavior": {"scaleUp": {"selectPolicy": "Disabled"}}}}
    service, ips = made(keda, engines, replicas, 2, advanced=stuck)
    limit = f'headroom_hpa_limit{{limit="UP_DISABLED",namespace="{replicas.namespace}",workload="chat"}} 1.0'
    words = "it keeps 2 now: its scaleUp is disabled; it stays at 2"
    with replicas.start("headroom-0") as controller:
        controller.wait_leading()
        engines.of_all(ips, **QUEUE)

        told: dict[str, Any] = {}

        def is_told() -> bool:
            told.update(controller.get(f"/api/explain/{replicas.namespace}/chat"))
            return limit in controller.get("/metrics") and words in told["text"]

        wait_for(is_told, 60, "the limit among the metrics and in the explanation", every_s=0.3)
        events = keda.plane.kubectl("-n", replicas.namespace, "get", "events", "--field-selector", "reason=HpaHolds")
        assert service.replicas() == 2
    assert words in events
    assert "HPA's scaleUp is disabled: more replicas are decided on and never set" in told["text"]
    assert '"tolerance":"0"' in told["about"]["hpa"]["behavior"]


def test_a_trigger_that_cannot_be_read_says_so_on_the_scaledobject(
    keda: Keda, engines: Engines, replicas: Replicas
) -> None:
    service, _ = made(keda, engines, replicas, 2, metadata={"sloWaits": "2"})
    with replicas.start("headroom-0") as controller:
        controller.wait_leading()

        def told() -> bool:
            events = keda.plane.kubectl("-n", replicas.namespace, "get", "events", "-o", "wide")
            ours = [line for line in events.splitlines() if "did you mean metadata.sloWaitS?" in line]
            return any("scaledobject/chat" in line and "headroom" in line for line in ours)

        wait_for(told, 40, "our event on the ScaledObject", every_s=0.5)
        assert service.replicas() == 2
