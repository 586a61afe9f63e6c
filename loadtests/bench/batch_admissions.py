"""Jobs let in on a real API server, without pods: writes for each admission, and the rate beside a bare PATCH's.

Jobs of Kueue's baseline generator wait, suspended, in its queues; all fit. No Job controller runs, so that an admission
is nothing but what the controller writes. First as many other Jobs are let in by bare patches of `spec.suspend` out of
one process, at several numbers of patches at a time, of which the best counts. With `--backlog` and `--nodes` the
controller starts in front of so many more Jobs and nodes, and how long it takes to its first admission is told.
"""

import argparse
import asyncio
import json
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Coroutine, Sequence
from contextlib import ExitStack
from datetime import datetime
from pathlib import Path
from typing import Any, Final, TypeVar

from autoscaler.adapters.kube.api import KubeApi
from autoscaler.runtime.clock import WallClock
from autoscaler.sim.batch.generate import kueue_baseline
from autoscaler.sim.batch.work import Job
from loadtests.bench.machine import command, machine
from tests.cluster.batch_work import CLASS, GROUP, MERGE, SETTINGS, manifest, priority_class
from tests.cluster.conftest import CONFIG, install
from tests.cluster.controller import ACCOUNT, Controller
from tests.cluster.plane import Plane, audit_entries
from tests.cluster.processes import wait_for
from tests.cluster.scene import apply_file
from tests.real import parts

GPUS: Final = 64
"""Of a node; a unit of the generator's quotas is a GPU."""

SPARE: Final = 1.05
"""Nodes hold this much more than all Jobs ask for, and each queue may use all of it."""

AT_ONCE: Final = (4, 16, 48)
"""Bare patches at a time; the best counts."""

FAST: Final[dict[str, Any]] = {"qps": 5000, "burst": 10_000}
"""What the controller's client may ask for: neither rate is that of a limit."""

Item = TypeVar("Item")

TARGET: Final = {"writes_per_admission": 1.2, "of_the_bare_rate": 0.5, "first_admission_s": 15.0}
LONGEST_S: Final = 900.0
SPACE: Final = "work"
OTHERS: Final = "bare"
"""Namespaces of the Jobs that are admitted, and of those that are patched without a controller."""

ALL: Final = "all"
LATE: Final = "late"
"""The queue above all others, and the backlog's."""


def main(arguments: list[str]) -> int:
    """Measure and print one JSON object."""
    parser = argparse.ArgumentParser(prog="bench batch_admissions", description=__doc__)
    parser.add_argument("--jobs", type=int, default=2000, help="let in, and as many patched bare")
    parser.add_argument("--backlog", type=int, default=0, help="Jobs of two GPUs that wait besides at the start")
    parser.add_argument(
        "--nodes", type=int, default=0, help="nodes of eight GPUs besides, half of them for the backlog"
    )
    chosen = parser.parse_args(arguments)
    missing = parts.missing(parts.CONTROL_PLANE)
    if missing:
        print(f"bench batch_admissions: {missing}", file=sys.stderr)
        return 2
    with tempfile.TemporaryDirectory() as folder, ExitStack() as stack:
        plane = stack.enter_context(Plane(Path(folder), nodes=0))
        install(plane)
        apply_file(plane, CONFIG / "rbac" / "batch")
        plane.apply(priority_class(CLASS, -20))
        jobs = _jobs(chosen.jobs)
        bare = asyncio.run(_prepared(plane, jobs, chosen.backlog, chosen.nodes))
        found = _admitted(plane, len(jobs), stack)
    said = {"bench": "batch_admissions", "command": command("batch_admissions", arguments), "machine": machine()}
    scene = {"jobs": len(jobs), "gpus": sum(job.pods for job in jobs), "backlog": chosen.backlog, "nodes": chosen.nodes}
    rate = found["admissions_per_s"]
    print(json.dumps({
        **said, "targets": TARGET, "scene": scene, "bare_patches_per_s": bare, "admitted": found,
        "of_the_bare_rate": round(rate / max(bare.values()), 2),
    }, indent=1))  # fmt: skip
    return 0


def _jobs(count: int) -> tuple[Job, ...]:
    """Of Kueue's baseline, in the order of their arrival, evenly out of all: every class has its part."""
    whole = kueue_baseline().jobs
    return whole[:: max(1, len(whole) // count)][:count]


async def _prepared(plane: Plane, jobs: Sequence[Job], backlog: int, nodes: int) -> dict[int, float]:
    """Make all objects; the bare patches a second by how many there were at a time."""
    config = plane.folder / "admin.kubeconfig"
    async with KubeApi.connect(
        kubeconfig=config, clock=WallClock(), qps=FAST["qps"], burst=FAST["burst"], at_once=max(AT_ONCE)
    ) as api:
        asked = sum(job.pods for job in jobs)
        for space in (SPACE, OTHERS):
            await _post(api, "/api/v1/namespaces", {"metadata": {"name": space}})
        large = [_node(f"large-{at}", GPUS) for at in range(-(-int(asked * SPARE) // GPUS))]
        small = [_node(f"small-{at}", 8) for at in range(nodes)]
        await _all(api, "/api/v1/nodes", large + small, 48)
        queues = [_queue(ALL, asked)] + [_queue(name, parent=ALL) for name in sorted({job.tenant for job in jobs})]
        for queue in [*queues, _queue(LATE, parent=ALL)]:
            await _post(api, f"{GROUP}/batchqueues", queue)
        path = "/apis/batch/v1/namespaces/{}/jobs"
        for space in (OTHERS, SPACE):
            await _all(api, path.format(space), [_job(space, job) for job in jobs], 48)
        more = [manifest(SPACE, f"late-{at}", LATE, 1, 2) for at in range(backlog)]
        await _all(api, path.format(SPACE), more, 48)
        return {
            at_once: round(await _patched(api, path.format(OTHERS), jobs[number :: len(AT_ONCE)], at_once), 1)
            for number, at_once in enumerate(AT_ONCE)
        }


async def _patched(api: KubeApi, path: str, jobs: Sequence[Job], at_once: int) -> float:
    body = json.dumps({"spec": {"suspend": False}}).encode()

    async def patch(job: Job) -> None:
        await api.request("PATCH", f"{path}/{job.name}", body=body, content_type=MERGE)

    began_s = time.monotonic()
    await _each(patch, jobs, at_once)
    return len(jobs) / (time.monotonic() - began_s)


async def _each(act: Callable[[Item], Coroutine[Any, Any, None]], items: Sequence[Item], at_once: int) -> None:
    left = iter(items)

    async def worker() -> None:
        for item in left:
            await act(item)

    async with asyncio.TaskGroup() as group:
        for _ in range(at_once):
            group.create_task(worker())


async def _all(api: KubeApi, path: str, bodies: Sequence[dict[str, Any]], at_once: int) -> None:
    await _each(lambda body: _post(api, path, body), bodies, at_once)


async def _post(api: KubeApi, path: str, body: dict[str, Any]) -> None:
    await api.request("POST", path, body=json.dumps(body).encode(), timeout_s=60.0)


def _job(space: str, job: Job) -> dict[str, Any]:
    """Suspended, with one pod of a GPU for each unit: gangs of several nodes keep others off those until their pods are
    bound, and there are none."""
    return manifest(space, job.name, job.tenant if space == SPACE else "nobodys", 1, job.pods * job.gpus)


def _queue(name: str, guaranteed: int = 0, parent: str = "") -> dict[str, Any]:
    """With no bound of its own, so that nothing waits for a quota; the one above all is the namespace's."""
    above = {"parent": parent} if parent else {"namespaces": [SPACE]}
    spec = {"quotas": [{"shape": "h100", "guaranteed": guaranteed}], "preemption": {"graceS": 0}, **above}
    return {"apiVersion": "headroom.dev/v1alpha1", "kind": "BatchQueue", "metadata": {"name": name}, "spec": spec}


def _node(name: str, gpus: int) -> dict[str, Any]:
    sizes = {"cpu": "256", "memory": "2Ti", "pods": "500", "nvidia.com/gpu": str(gpus)}
    labels = {"nvidia.com/gpu.product": "NVIDIA-H100-80GB-HBM3", "kubernetes.io/hostname": name}
    ready = {"type": "Ready", "status": "True", "reason": "KubeletReady"}
    status = {"allocatable": sizes, "capacity": sizes, "conditions": [ready]}
    return {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "labels": labels}, "status": status}


def _admitted(plane: Plane, count: int, stack: ExitStack) -> dict[str, Any]:
    """From the controller's start until so many Jobs were let in, a backlog's included, by the server's audit log."""
    since = plane.audit.stat().st_size
    began_s = time.time()
    controller = stack.enter_context(Controller(plane, **SETTINGS, kube={
        "kubeconfig": str(plane.folder / "headroom-0.kubeconfig"), **FAST}))  # fmt: skip
    done: list[float] = []

    def all_in() -> bool:
        done[:] = _instants(plane, since)
        return len(done) >= count

    try:
        wait_for(all_in, LONGEST_S, f"{count} admissions", every_s=2.0)
    except AssertionError as error:
        raise AssertionError(f"{error}: {len(done)}\n{controller.words()[-3000:]}") from None
    first_s, last_s = done[0], done[count - 1]
    writes = _writes(plane, since, last_s)
    return {
        "first_admission_s": round(first_s - began_s, 2),
        "took_s": round(last_s - first_s, 2),
        "admissions_per_s": round((count - 1) / (last_s - first_s), 1),
        "writes": dict(writes),
        "writes_per_admission": round(sum(n for what, n in writes.items() if not _aside(what)) / count, 3),
        "with_events_and_leases": round(sum(writes.values()) / count, 3),
    }


def _aside(what: str) -> bool:
    """Whether a write is a word to people or a sign of life."""
    return "events" in what or "leases" in what


def _instants(plane: Plane, since: int) -> list[float]:
    """When patches of Jobs were done, in order, in seconds since 1970."""
    return sorted(
        _at_s(entry) for entry in audit_entries(plane.audit, since)
        if entry["user"]["username"] == ACCOUNT and entry["verb"] == "patch"
        and entry["objectRef"]["resource"] == "jobs" and entry["responseStatus"]["code"] == 200
        and "dryRun" not in entry["requestURI"]
    )  # fmt: skip


def _writes(plane: Plane, since: int, until_s: float) -> Counter[str]:
    """What the controller wrote until then, refused writes included, by verb and resource."""
    return Counter(
        f"{entry['verb']} {'/'.join(p for p in (ref.get('resource'), ref.get('subresource')) if p)}"
        for entry in audit_entries(plane.audit, since)
        if entry["user"]["username"] == ACCOUNT and entry["verb"] in {"create", "update", "patch", "delete"}
        and "dryRun" not in entry["requestURI"] and _at_s(entry) <= until_s
        and "reviews" not in (ref := entry["objectRef"])["resource"]
    )  # fmt: skip


def _at_s(entry: dict[str, Any]) -> float:
    return datetime.fromisoformat(entry["stageTimestamp"]).timestamp()
