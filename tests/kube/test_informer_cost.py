"""What following five thousand pods costs: CPU seconds, which neighbours on the machine do not change."""

import asyncio
import gc
import json
import time
from typing import Any

import pytest

from autoscaler.adapters.kube.informer import Change, Informer, Resource
from autoscaler.adapters.kube.objects import Pod
from autoscaler.adapters.kube.wire import Wire
from autoscaler.runtime.clock import WallClock
from tests.kube.clients import client, until
from tests.kube.fakeserver import PODS, Connection, FakeServer, Request, hang

PODS_COUNT, PAGE = 5000, 500


def body(number: int) -> bytes:
    """A pod of 6 KB, two thirds of it fields that nobody reads."""
    fields: dict[str, object] = {
        f"f:condition-{n}": {".": {}, "f:lastTransitionTime": {}, "f:status": {}} for n in range(60)
    }
    pod: dict[str, Any] = {
        "metadata": {
            "name": f"chat-{number:05}", "namespace": "prod", "uid": f"u{number}", "resourceVersion": f"{number}",
            "labels": {"app": "chat", "pod-template-hash": "7d9f"}, "creationTimestamp": "2026-11-21T10:00:00Z",
            "ownerReferences": [{"kind": "ReplicaSet", "name": "chat-7d9f", "uid": "u", "controller": True}],
            "managedFields": [{"manager": "kubelet", "fieldsV1": {"f:status": fields}}],
        },
        "spec": {
            "nodeName": "gpu-1", "terminationGracePeriodSeconds": 600,
            "containers": [{"name": "vllm", "ports": [{"containerPort": 8000}], "env": [{"name": "X" * 400}],
                            "resources": {"limits": {"nvidia.com/gpu": "1"}}}],
        },
        "status": {
            "phase": "Running", "podIP": "10.1.2.3",
            "conditions": [{"type": kind, "status": "True", "lastTransitionTime": "2026-11-21T10:00:00Z"}
                           for kind in ("PodScheduled", "Initialized", "ContainersReady", "Ready")],
            "containerStatuses": [{"name": "vllm", "ready": True, "imageID": "sha256:" + "a" * 64,
                                   "state": {"running": {"startedAt": "2026-11-21T10:00:00Z"}}}],
        },
    }  # fmt: skip
    return json.dumps(pod).encode()


@pytest.fixture(scope="module")
def pages() -> list[bytes]:
    """The list of all pods as an API server would cut it."""
    pods = [body(number) for number in range(PODS_COUNT)]
    return [
        b'{"metadata":{"resourceVersion":"7"%s},"items":[%s]}'
        % (b',"continue":"%d"' % (n + 1) if n + 1 < PODS_COUNT // PAGE else b"", b",".join(pods[n * PAGE :][:PAGE]))
        for n in range(PODS_COUNT // PAGE)
    ]


def test_decoding_five_thousand_pods_takes_less_than_a_tenth_of_a_second(pages: list[bytes]) -> None:
    wire = Wire(Resource(PODS, Pod))
    began_s = time.process_time()
    read = [wire.page(page) for page in pages]
    spent_s = time.process_time() - began_s
    assert sum(len(page.objects) for page in read) == PODS_COUNT
    assert spent_s < 0.1


async def test_listing_them_takes_little_and_never_holds_the_loop_for_long(pages: list[bytes]) -> None:
    async def serve(request: Request, connection: Connection) -> None:
        if request.watches:
            await hang(request, connection)
        await connection.answer(200, pages[int(request.query.get("continue", "0"))])

    changes: list[Change[Pod]] = []
    longest_s = 0.0
    async with FakeServer() as server, client(server.url) as api, asyncio.TaskGroup() as group:
        server.always = serve
        pods = Informer(api, Resource(PODS, Pod), WallClock(), changes.append)
        gc.freeze()  # else one collection of all that other tests left behind is counted as a hold
        began_s = turned_s = time.process_time()
        task = group.create_task(pods.run())
        while not pods.synced:
            await asyncio.sleep(0)
            longest_s, turned_s = max(longest_s, time.process_time() - turned_s), time.process_time()
        spent_s = time.process_time() - began_s
        gc.unfreeze()
        await until(lambda: server.count(watches=True))
        task.cancel()
    assert len(changes) == len(pods.items) == PODS_COUNT
    assert spent_s < 0.6
    assert longest_s < 0.1
