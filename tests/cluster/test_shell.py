"""Commands, metrics and page of a live controller on a real API server: seen, explained, paused, examined."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families as parse_text

from autoscaler.record.metrics import CATALOGUE
from autoscaler.record.past_metrics import METRICS as PAST
from tests.cluster.controller import NAMESPACE, Controller
from tests.cluster.engines import Engines
from tests.cluster.plane import ADMIN, Plane
from tests.cluster.processes import wait_for
from tests.cluster.scene import QUEUE
from tests.cluster.service import Service

pytestmark = [pytest.mark.real, pytest.mark.needs("control-plane"), pytest.mark.timeout(240)]

NOT_YET = {
    "headroom_acts_total", "headroom_capacity_rps", "headroom_desired_gpus", "headroom_forecast_coverage_ratio",
    "headroom_notes_total", "headroom_overload_admissible_rps", "headroom_overload_deficit_replicas",
    "headroom_overload_retry_after_seconds", "headroom_overload_shed_ratio", "headroom_overloaded",
    "headroom_replica_capacity_rps", "headroom_snapshot_age_seconds", "headroom_wanted_replicas",
}  # fmt: skip
"""Metrics without a value in the first seconds: nothing was scaled or learnt yet, and no replica follows."""


class Shell:
    """`headroom` in a shell with the administrator's kubeconfig."""

    def __init__(self, plane: Plane) -> None:
        self.kubeconfig: Path = plane.kubeconfig("shell", ADMIN)
        self.env = {key: value for key, value in os.environ.items() if not key.startswith("HEADROOM_")}

    def run(self, *arguments: str) -> tuple[int, str]:
        """The exit code of a command, and its output."""
        command = [sys.executable, "-m", "autoscaler", *arguments]
        done = subprocess.run(command, env=self.env, capture_output=True, text=True, check=False, timeout=60)
        return done.returncode, done.stdout + done.stderr

    def asking(self, *arguments: str) -> tuple[int, str]:
        """The same for commands that ask the cluster."""
        return self.run(*arguments, "--kubeconfig", str(self.kubeconfig))


@pytest.fixture
def shell(plane: Plane) -> Shell:
    return Shell(plane)


@pytest.fixture
def busy(plane: Plane, namespace: str, engines: Engines) -> Iterator[tuple[Service, Controller]]:
    """A workload of two replicas that serve a quiet load, under a controller that leads."""
    service = Service(plane, engines, namespace, "chat", replicas=2, max_replicas="6")
    ips = service.wait_ready(2)
    engines.of_all(ips, running=2.0, rps=2.0)
    with Controller(plane, f"shell-{namespace}", watch_namespaces=[namespace]) as controller:
        controller.wait_leading()
        wait_for(lambda: len(controller.decisions()) > 3, 30, "decisions")
        yield service, controller
        assert controller.stop() == 0


def test_what_runs_is_seen_in_metrics_status_explanation_and_doctor(
    busy: tuple[Service, Controller], shell: Shell
) -> None:
    service, controller = busy
    families = {family.name: family for family in parse_text(controller.get("/metrics"))}
    absent = tuple(f"headroom_{of}_" for of in ("http", "keda", "hpa", "pool", "gpu", "batch"))  # it has none of these
    names = {metric.name for metric in CATALOGUE if not metric.name.startswith(absent)}
    past = {metric.name for metric in PAST}
    assert {name for name in names - past if name.removesuffix("_total") not in families} <= NOT_YET
    desired = families["headroom_desired_replicas"].samples
    assert [(s.labels, s.value) for s in desired] == [({"namespace": service.namespace, "workload": "chat"}, 2.0)]
    assert families["headroom_leader"].samples[0].value == 1
    assert sum(s.value for s in families["headroom_api_requests"].samples) > 5
    assert controller.get("/healthz")["status"] == "ok"
    assert controller.get("/readyz") == {"status": "ok", "why": []}
    _see(shell, service, controller)
    _examine(shell)


def _see(shell: Shell, service: Service, controller: Controller) -> None:
    code, text = shell.run("status", "--server", controller.url)
    (row,) = (line for line in text.splitlines() if line.startswith(f"{service.workload} "))
    assert (code, row.split()[1]) == (0, "Active")
    code, text = shell.run("explain", service.workload, "--server", controller.url)
    assert (code, text.splitlines()[0].split()[2]) == (0, service.workload)
    assert "mode: Active (Deployment, by annotation)" in text


def _examine(shell: Shell) -> None:
    """The leader itself cannot be asked here: an API server passes no question on to a loopback address."""
    found = {row["check"]: row for row in json.loads(shell.asking("doctor", "--json")[1])}
    assert {name for name, row in found.items() if row["state"] == "fail"} == {"controller"}, found
    assert "may do all" in found["rights"]["words"]
    code, text = shell.asking("doctor", "--service-account", "nobody", "--json")
    denied = [row["words"] for row in json.loads(text) if row["check"] == "rights"]
    who = f"system:serviceaccount:{NAMESPACE}:nobody"
    assert (code, f"{who} may change no replica counts: whatever is Active will be refused" in denied) == (1, True)
    assert f"{who} may not list apps/deployments, needed to see what may be scaled" in denied


def test_a_pause_holds_the_count_and_a_resume_lets_it_go_again(
    busy: tuple[Service, Controller], engines: Engines, shell: Shell
) -> None:
    service, controller = busy
    code, text = shell.asking("pause", service.workload, "--out")
    assert (code, "PausedScaleOut" in text) == (0, True), text
    wait_for(lambda: _mode(controller, service) == "PausedScaleOut", 10, "the mode to be read")
    engines.of_all(service.ips(), **QUEUE)
    wait_for(lambda: any(d["verdict"] == "SCALE" for d in controller.decisions()), 20, "a decision to scale")
    assert service.replicas() == 2
    code, text = shell.asking("pause", service.workload, "--resume")
    assert (code, text) == (0, f"{service.workload}: the default mode again, by Deployment chat\n")
    wait_for(lambda: service.replicas() > 2, 10, "growth")


def test_a_policy_is_paused_and_resumed_within_the_rules_of_its_schema(
    plane: Plane, namespace: str, shell: Shell
) -> None:
    spec = {"targetRef": {"name": "chat"}, "maxReplicas": 6, "mode": "Shadow"}
    manifest = {
        "apiVersion": "headroom.dev/v1alpha1", "kind": "ScalingPolicy",
        "metadata": {"name": "chat-policy", "namespace": namespace}, "spec": spec,
    }  # fmt: skip
    plane.apply(manifest)
    path = f"/apis/headroom.dev/v1alpha1/namespaces/{namespace}/scalingpolicies/chat-policy"
    before = plane.call("GET", path)["spec"]
    code, text = shell.asking("pause", f"{namespace}/chat", "--for", "2h")
    assert code == 0, text
    paused = plane.call("GET", path)["spec"]
    assert (paused["mode"], paused["modeAfter"]) == ("Paused", "Shadow")
    code, text = shell.asking("pause", f"{namespace}/chat", "--resume")
    assert (code, text) == (0, f"{namespace}/chat: Shadow again, by ScalingPolicy chat-policy\n")
    assert plane.call("GET", path)["spec"] == before


def test_a_freeze_stops_everything_and_is_told_everywhere(
    busy: tuple[Service, Controller], engines: Engines, shell: Shell
) -> None:
    service, controller = busy
    try:
        assert shell.asking("pause", "--cluster", "--reason", "incident 7")[0] == 0
        wait_for(lambda: controller.get("/api/status")["replica"]["frozen"], 10, "the freeze to be seen")
        assert "FROZEN" in shell.run("status", "--server", controller.url)[1]
        engines.of_all(service.ips(), **QUEUE)
        wait_for(lambda: any(d["verdict"] == "SCALE" for d in controller.decisions()), 20, "a decision to scale")
        assert service.replicas() == 2
        _, text = shell.asking("doctor")
        assert "everything is frozen: incident 7" in text
    finally:
        assert shell.asking("pause", "--cluster", "--resume")[0] == 0
    wait_for(lambda: service.replicas() > 2, 10, "growth once nothing is frozen")


def _mode(controller: Controller, service: Service) -> str:
    rows = controller.get("/api/status")["workloads"]
    return next((row["about"]["mode"] for row in rows if row["workload"] == service.workload), "")
