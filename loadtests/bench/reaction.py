"""From a pod's metrics page to its target's ``/scale``: the live controller on a real API server, on one core.

A thousand fake pods of a hundred Deployments are read once a second. Again and again one pod of a quiet workload shows
a queue; the delay runs from that instant to the API server's answer to the controller's patch, by its audit log. The
API server, KWOK and the pages run on whatever cores are left, so the CPU that others used stands beside the figures.
"""

import argparse
import json
import shutil
import sys
import tempfile
import time
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Any, Final

import numpy as np

from loadtests.bench.machine import command, machine
from tests.cluster.conftest import install
from tests.cluster.controller import Controller
from tests.cluster.engines import Engines
from tests.cluster.plane import Plane
from tests.cluster.processes import wait_for
from tests.cluster.service import Service
from tests.real import parts

NAMESPACE: Final = "load"
QUEUE: Final = 500.0
"""Requests. The workloads served nobody before, so that nothing is known of a replica and a queue counts at once."""
RUNNING: Final = 16.0
"""Requests in flight beside it: a queue before a pod that serves nobody is a broken pod and no demand."""
SETTLE_S: Final = 20.0
"""After the lead was taken: pages are read, every workload was stepped, first checkpoints are made."""


def main(arguments: list[str]) -> int:
    """Measure and print one JSON object."""
    parser = argparse.ArgumentParser(prog="bench reaction", description=__doc__)
    parser.add_argument("--workloads", type=int, default=100)
    parser.add_argument("--pods", type=int, default=10, help="per workload")
    parser.add_argument("--trials", type=int, default=60)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--core", type=int, default=0, help="the core the controller is kept to")
    chosen = parser.parse_args(arguments)
    missing = parts.missing(parts.CONTROL_PLANE)
    if missing:
        print(f"bench reaction: {missing}", file=sys.stderr)
        return 2
    with tempfile.TemporaryDirectory() as folder, Plane(Path(folder), nodes=8, gpus=0) as plane, Engines() as engines:
        figures = _measured(plane, engines, chosen)
    print(
        json.dumps(
            {"bench": "reaction", "command": command("reaction", arguments), "machine": machine(), **figures}, indent=1
        )
    )
    return 0


def _measured(plane: Plane, engines: Engines, chosen: argparse.Namespace) -> dict[str, Any]:
    install(plane)
    plane.kubectl("create", "namespace", NAMESPACE)
    say = f"{chosen.workloads} workloads of {chosen.pods} pods"
    print(f"starting {say}", file=sys.stderr)
    most, least = str(chosen.pods + 2), str(chosen.pods)  # without a least the quiet ones shrink after two minutes
    services = [
        Service(plane, engines, NAMESPACE, f"w-{index}", replicas=chosen.pods, min_replicas=least, max_replicas=most)
        for index in range(chosen.workloads)
    ]
    total = chosen.workloads * chosen.pods
    wait_for(lambda: len(_ready(plane)) == total, 600, say, every_s=2.0)
    by_workload = _ready_by_workload(plane)
    controller = Controller(plane, "bench", watch_namespaces=[NAMESPACE])
    if shutil.which("taskset"):
        controller.command = ["taskset", "-c", str(chosen.core), *controller.command]
    began = time.time()
    with controller:
        controller.wait_leading(60)
        wait_for(controller.decisions, 30, "the first decision")
        first_s = controller.decisions()[0]["now_s"] - began
        time.sleep(SETTLE_S)
        rng = np.random.default_rng(chosen.seed)
        begun = _cpu_s(controller.pid), time.monotonic()
        asked: dict[str, float] = {}
        for index in rng.permutation(len(services))[: chosen.trials]:
            service = services[index]
            pod = engines.of(by_workload[service.name][0])
            asked[service.name] = time.time()
            pod.running, pod.waiting = RUNNING, QUEUE
            wait_for(partial(_grown, service, chosen.pods), 20, f"growth of {service.name}", every_s=0.2)
            time.sleep(float(rng.uniform(0.0, 1.0)))
        used = (_cpu_s(controller.pid) - begun[0]) / (time.monotonic() - begun[1])
        rss = _rss_mib(controller.pid)
    answered = _answered(plane)  # read at the end: parsing the log takes the pages' server its turns
    delays = [answered[name] - at_s for name, at_s in asked.items()]
    return {
        "seed": chosen.seed,
        "pods": total,
        "trials": len(delays),
        "delay_s": {name: round(float(np.quantile(delays, q)), 3) for name, q in
                    (("p50", 0.5), ("p90", 0.9), ("p99", 0.99), ("max", 1.0))},
        "first_decision_s": round(first_s, 2),
        "controller_cores": round(used, 2),
        "controller_rss_mib": round(rss, 1),
    }  # fmt: skip


def _grown(service: Service, pods: int) -> bool:
    return service.replicas() > pods


def _ready(plane: Plane) -> list[dict[str, Any]]:
    pods = plane.call("GET", f"/api/v1/namespaces/{NAMESPACE}/pods", seconds=60)["items"]
    return [
        p for p in pods
        if any(c["type"] == "Ready" and c["status"] == "True" for c in p.get("status", {}).get("conditions", []))
    ]  # fmt: skip


def _ready_by_workload(plane: Plane) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for pod in _ready(plane):
        found.setdefault(pod["metadata"]["labels"]["app"], []).append(pod["status"]["podIP"])
    return found


def _answered(plane: Plane) -> dict[str, float]:
    """When the API server answered each workload's first patch, in seconds since 1970."""
    first: dict[str, float] = {}
    for entry in plane.audited(verb="patch", resource="deployments/scale"):
        if entry["responseStatus"]["code"] == 200:
            first.setdefault(entry["objectRef"]["name"], datetime.fromisoformat(entry["stageTimestamp"]).timestamp())
    return first


def _cpu_s(pid: int) -> float:
    """CPU seconds of a process so far, without its children."""
    parts_of = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(parts_of[11]) + int(parts_of[12])) / 100.0


def _rss_mib(pid: int) -> float:
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmRSS"):
            return int(line.split()[1]) / 1024.0
    raise AssertionError(f"no VmRSS of {pid}")
