"""Where metrics come from when pods are not enough: other versions' names, Prometheus, a gateway in front of no pod."""

import signal
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Final
from uuid import uuid4

import pytest

from tests.cluster.engines import Engines
from tests.cluster.plane import Plane
from tests.cluster.processes import wait_for
from tests.cluster.prometheus import Prometheus
from tests.cluster.scene import FLOOD, QUIET, WITHIN_S, Scene
from tests.cluster.service import Service

pytestmark = [pytest.mark.real, pytest.mark.needs("control-plane", "prometheus"), pytest.mark.timeout(300)]

CLOSED_PORT: Final = "9"
"""Nothing listens there: as from a controller that network policies keep from the pods."""

PICKER: Final = """\
# TYPE llm_d_epp_flow_control_queue_size gauge
llm_d_epp_flow_control_queue_size{{inference_pool="{pool}"}} {queued}
# TYPE llm_d_epp_request_total counter
llm_d_epp_request_total{{model_name="m"}} {sent}
"""


class Sources:
    """A scene with a Prometheus and a gateway, both named in the controller's settings."""

    def __init__(self, scene: Scene, prometheus: Prometheus, edge: str) -> None:
        self.scene, self.prometheus, self.edge = scene, prometheus, edge

    def behind_prometheus(self, name: str, mode: str = "Active") -> tuple[Service, list[str]]:
        """A workload of two replicas that only Prometheus can read."""
        service, ips = self.scene.serve(
            name, read=False, max_replicas="6", prometheus="main", metrics_port=CLOSED_PORT, mode=mode
        )
        self.scrape(service)
        wait_for(lambda: "SignalsFresh=True" in self.scene.explained(service), 40, "fresh signals by Prometheus")
        return service, ips

    def scrape(self, service: Service) -> None:
        """Have Prometheus scrape the pods of one workload, as they are now."""
        pods = {pod["metadata"]["name"]: pod["status"]["podIP"] for pod in service.pods()}
        self.prometheus.scrape(service.namespace, pods, self.scene.engines.port)

    def picker(self, pool: str) -> Callable[[float, float], None]:
        """An endpoint picker in front of a pool; call it with the requests that wait in it and those sent on."""
        pod = Service(self.scene.plane, self.scene.engines, self.edge, "epp", asks=False)
        (ip,) = pod.wait_ready(1)

        def shows(queued: float, sent: float) -> None:
            self.scene.engines.of(ip).page = PICKER.format(pool=pool, queued=queued, sent=sent).encode()

        return shows


@pytest.fixture(scope="module")
def sources(plane: Plane, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sources]:
    edge = f"edge-{uuid4().hex[:8]}"
    plane.kubectl("create", "namespace", edge)
    folder: Path = tmp_path_factory.mktemp("prometheus")
    with ExitStack() as stack:
        prometheus, engines = stack.enter_context(Prometheus(folder)), stack.enter_context(Engines())
        gateway = {"namespace": edge, "selector": "app=epp", "port": engines.port}
        gateways = {"edge": gateway, "two": gateway | {"selector": "pools=two"}}
        endpoint = {"url": prometheus.url}
        scene = stack.enter_context(
            Scene.begin(plane, "sources", engines=engines, prometheus={"main": endpoint}, gateways=gateways)
        )
        prometheus.wait_ready()
        yield Sources(scene, prometheus, edge)
    plane.kubectl("delete", "namespace", edge, "--wait=false")


def test_pods_of_two_versions_are_read_each_by_its_own_names(sources: Sources) -> None:
    scene = sources.scene
    service, (old, _new) = scene.serve("versions", max_replicas="6")
    figures = scene.engines.of(old)
    for waiting in (0.0, 300.0):
        figures.waiting, figures.page = waiting, None
        figures.page = figures.text(figures.since_s).replace(b"kv_cache_usage_perc", b"gpu_cache_usage_perc")
        scene.decide_anew(service)
        assert scene.condition(service, "SignalsFresh") == ("True", "Fresh")
        assert scene.row(service)["about"]["missing"] == [], "what only newer versions tell is not missed"
    wait_for(lambda: service.replicas() > 2, 20, "growth for what waits in the old one")
    for pod in service.ips():
        scene.engines.of(pod).page = b"fork:num_requests_waiting 300\n"
    wait_for(lambda: scene.condition(service, "SignalsFresh")[0] == "False", 20, "a word about names nobody knows")
    assert "none of vllm:num_requests_waiting_by_reason, vllm:num_requests_waiting" in scene.explained(service)


@pytest.mark.parametrize("fault", ["killed", "frozen"])
def test_a_burst_while_prometheus_is_down_is_served_once_it_is_back(sources: Sources, fault: str) -> None:
    scene, prometheus = sources.scene, sources.prometheus
    service, ips = sources.behind_prometheus(fault)
    if fault == "killed":
        prometheus.kill()
    else:
        prometheus.signal(signal.SIGSTOP)
    scene.engines.of_all(ips, **FLOOD)
    wait_for(lambda: scene.condition(service, "SignalsFresh")[0] == "False", 30, "a word about missing signals")
    wait_for(lambda: "problem: prometheus main: " in scene.explained(service), 10, "a word about Prometheus")
    time.sleep(10)
    assert service.counts() == []
    if fault == "killed":
        prometheus.start()
    else:
        prometheus.signal(signal.SIGCONT)
    prometheus.wait_ready()
    wait_for(lambda: service.replicas() > 2, WITHIN_S, "growth once Prometheus is back")
    wait_for(lambda: "problem: prometheus main: " not in scene.explained(service), 10, "no more word of it")
    assert not service.shrinks()


def test_the_series_of_a_pod_that_is_gone_are_nobodys_queue(sources: Sources) -> None:
    scene = sources.scene
    service, _ = sources.behind_prometheus("lingering", mode="Paused")
    gone, _ = pods = service.pods()
    named = {pod["metadata"]["name"] for pod in pods}
    name, ip = gone["metadata"]["name"], gone["status"]["podIP"]
    scene.engines.of(ip).waiting = 300.0
    wait_for(lambda: scene.row(service)["queue"] == 300.0, 30, "its queue")
    scene.plane.kubectl("-n", service.namespace, "delete", "pod", name)
    wait_for(lambda: len(service.ips()) == 2, 20, "the pod in its place")
    sources.scrape(service)  # before the other answers, who may have been given its address
    (new,) = {pod["metadata"]["name"] for pod in service.pods()} - named
    query = f'vllm:num_requests_waiting{{pod="{new}"}}'
    wait_for(lambda: sources.prometheus.value(query) is not None, 10, "its series")
    scene.engines.of_all(service.ips(), **QUIET)
    wait_for(lambda: scene.row(service)["queue"] == 0.0, 15, "no queue")
    told = sources.prometheus.value(f'max_over_time(vllm:num_requests_waiting{{pod="{name}"}}[30s])')
    assert told == 300.0, "Prometheus goes on telling of it within the time that is asked for"
    assert "SignalsFresh=True" in scene.explained(service)


def test_a_request_that_waits_at_the_gateway_wakes_a_workload_from_zero(sources: Sources) -> None:
    scene = sources.scene
    shows = sources.picker("sleeper")
    shows(0, 9)
    service = Service(
        scene.plane, scene.engines, scene.namespace, "sleeper", replicas=0, min_replicas="0", gateway="edge",
        max_replicas="6",
    )  # fmt: skip
    wait_for(lambda: len(scene.decided(service)) > 3, 60, "some decisions at zero")
    assert service.replicas() == 0
    seen = len(scene.decided(service))
    wait_for(lambda: len(scene.decided(service)) > seen, 15, "one more, after which nothing is due for a tick")
    waits_s = time.time()
    shows(12, 9)
    wait_for(lambda: service.replicas() > 0, 10, "the wake")
    wait_for(lambda: scene.acts(service), 10, "the word that it was done")
    act = scene.acts(service)[0]
    assert act["outcome"] == "applied"
    assert act["now_s"] - waits_s < 1.0 + 1.0 + 0.5, "from the request: a page's turn, the patch, a loaded machine's"
    assert act["now_s"] - act["decided_s"] < 1.0, "from the gateway's page to the patch"
    assert "WAKE" in {step["reason"] for line in scene.decided(service) for step in line["trace"]}


def test_the_queue_of_a_pool_of_the_same_name_elsewhere_wakes_nobody(sources: Sources) -> None:
    """One picker stands in front of pools of two namespaces and tells them apart by a label."""
    scene = sources.scene
    own, other = (
        PICKER.format(pool="namesake", queued=queued, sent=9).replace("{", f'{{namespace="{namespace}",')
        for namespace, queued in ((scene.namespace, 0), ("elsewhere", 30))
    )
    pod = Service(scene.plane, scene.engines, sources.edge, "epp-of-two", asks=False)
    (ip,) = pod.wait_ready(1)
    scene.engines.of(ip).page = f"{own}{other}".encode()
    scene.plane.kubectl("-n", sources.edge, "label", "pods", "-l", "app=epp-of-two", "pools=two")
    service = Service(
        scene.plane, scene.engines, scene.namespace, "namesake", replicas=0, min_replicas="0", gateway="two",
        max_replicas="6",
    )  # fmt: skip
    wait_for(lambda: len(scene.decided(service)) > 3, 60, "some decisions at zero")
    wait_for(lambda: scene.row(service)["queue"] == 0.0, 10, "sight of its own queue")
    assert service.counts() == []
    scene.engines.of(ip).page = f"{own.replace('} 0', '} 12')}{other}".encode()
    wait_for(lambda: service.replicas() > 0, 10, "the wake by its own")


@pytest.mark.slow
def test_a_workload_with_a_gateway_goes_to_zero_and_wakes_to_what_its_queue_needs(sources: Sources) -> None:
    scene = sources.scene
    shows = sources.picker("dozer")
    shows(0, 9)
    service, ips = scene.serve(
        "dozer", 1, min_replicas="0", gateway="edge", max_replicas="6", idle_after_s="5", warmup_prior_s="20"
    )
    scene.engines.of_all(ips, waiting=0.0, running=8.0, rps=5.0)
    time.sleep(40)
    scene.engines.of_all(ips, running=0.0, rps=0.0)
    wait_for(lambda: service.replicas() == 0, 200, "zero", every_s=1.0)
    shows(300, 9)
    wait_for(lambda: service.replicas() > 1, 10, "more than one at once")
    assert service.counts()[-1][0] == 0
