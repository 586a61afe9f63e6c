"""The servers that `bench keda` calls, each in a process of its own: a bare echo, and ours over many ScaledObjects.

usage: python -m loadtests.bench.keda_server echo | ours OBJECTS STEPPING

It prints its port and its memory before it knew a ScaledObject; for each line on standard input it prints a figure of
itself, until that ends.
"""

import asyncio
import json
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import grpc
import msgspec

from autoscaler.adapters.keda import externalscaler_pb2 as pb
from autoscaler.adapters.keda.beside import Beside
from autoscaler.adapters.keda.counts import Counts
from autoscaler.adapters.keda.server import SERVICE, Listen
from autoscaler.adapters.kube.discovery import Discovery
from autoscaler.adapters.kube.scaling import Hpa, ScaledObject, Target, TargetMeta, TargetSpec
from autoscaler.api.claims import Claim, Kind, Rejection, TargetRef
from autoscaler.api.modes import Mode
from autoscaler.app import garbage
from autoscaler.app.guard import Guard
from autoscaler.app.hpa import HpaPreviews
from autoscaler.app.keda import KedaAnswers
from autoscaler.core.params import Params
from autoscaler.runtime.clock import WallClock
from autoscaler.runtime.records import Feed, Stepped
from autoscaler.runtime.supervisor import Ports, Runtime
from autoscaler.runtime.target import Target as Driven
from loadtests.bench.core_step import PODS
from loadtests.bench.loop_lag import Memory, Replicas
from loadtests.bench.machine import rss_mib

ADDRESS = "headroom-keda.headroom-system:8090"
NAMESPACE = "team"
DEPLOYMENT = Kind("apps", "v1", "deployments", "Deployment")
TICK_S = 5.0
STANDING = Target(spec=TargetSpec(2))


def metadata() -> dict[str, str]:
    """A trigger as people write it; a long tick keeps the answers that are given once from growing too old."""
    return {"scalerAddress": ADDRESS, "enableTLS": "true", "sloTtftS": "2", "tickS": "300"}


def scaled_object(number: int) -> ScaledObject:
    """One as the API server sends it."""
    content = {
        "metadata": {
            "name": f"service-{number}", "namespace": NAMESPACE, "uid": f"uid-{number}", "resourceVersion": str(number),
            "generation": 1, "labels": {"scaledobject.keda.sh/name": f"service-{number}"},
        },
        "spec": {
            "scaleTargetRef": {"name": f"service-{number}"}, "minReplicaCount": 1, "maxReplicaCount": PODS,
            "triggers": [{"type": "external-push", "metadata": metadata()}],
        },
    }  # fmt: skip
    return msgspec.json.decode(msgspec.json.encode(content), type=ScaledObject)


def hpa(number: int) -> Hpa:
    """The one that KEDA keeps for it, as the API server sends it."""
    name = f"service-{number}"
    target = {"type": "AverageValue", "averageValue": "1"}
    metric = {"metric": {"name": "s0-headroom-replicas"}, "target": target}
    content = {
        "metadata": {
            "name": f"keda-hpa-{name}", "namespace": NAMESPACE, "uid": f"h-{number}",
            "ownerReferences": [{"apiVersion": "keda.sh/v1alpha1", "kind": "ScaledObject", "name": name, "uid": "u"}],
        },
        "spec": {
            "scaleTargetRef": {"kind": "Deployment", "name": name}, "minReplicas": 1, "maxReplicas": PODS,
            "metrics": [{"type": "External", "external": metric}],
        },
    }  # fmt: skip
    return msgspec.json.decode(msgspec.json.encode(content), type=Hpa)


class Known:
    """Books over a Discovery that has heard of `count` targets and their ScaledObjects; this process leads."""

    frozen: str | None = None
    leading = True
    leader = ""

    def __init__(self, count: int) -> None:
        self.discovery = Discovery((DEPLOYMENT,), frozenset({ADDRESS}))
        self.claims: dict[str, Claim] = {}
        self.objects: dict[str, ScaledObject] = {}
        self.hpas: dict[str, Hpa] = {}
        for number in range(count):
            found = scaled_object(number)
            key = found.metadata.key
            self.objects[key] = found
            self.hpas[key] = hpa(number)
            self.discovery.target(DEPLOYMENT, key, Target(TargetMeta(f"service-{number}", NAMESPACE, f"t-{number}")))
            self.discovery.scaled_object(key, found)
            claim = self.discovery.resolve(key).claim
            assert claim is not None
            self.claims[key] = claim

    def claim(self, workload: str) -> Claim | None:
        """The claim in force."""
        return self.claims.get(workload)

    def rejections(self, workload: str) -> tuple[Rejection, ...]:
        """Nobody asks in vain."""
        return ()

    def mode(self, claim: Claim) -> Mode:
        """Every workload is acted upon."""
        return Mode.ACTIVE

    def standing(self, ref: TargetRef) -> int | None:
        """What a step saw stands."""
        return None

    def is_cut_off(self, ref: TargetRef) -> bool:
        """Nothing is cut off."""
        return False

    def hpa(self, claim: Claim) -> Hpa | None:
        """The HPA that KEDA keeps for a claim."""
        return self.hpas.get(claim.ref.workload)

    def target(self, ref: TargetRef) -> Target | None:
        """Every target stands at two."""
        return STANDING

    def knows_tolerance(self) -> bool:
        """As on a cluster of today."""
        return True


async def echo() -> None:
    """Answer every call with its own bytes: what gRPC and asyncio cost by themselves."""

    async def same(request: bytes, _context: Any) -> bytes:
        return request

    server = grpc.aio.server()
    methods: dict[str, grpc.RpcMethodHandler[bytes, bytes]] = {"GetMetrics": grpc.unary_unary_rpc_method_handler(same)}
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(SERVICE, methods),))
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    print(json.dumps({"port": port}), flush=True)
    await _asked(dict)
    await server.stop(0)


async def ours(objects: int, stepping: int) -> None:
    """Serve `objects` ScaledObjects, of which `stepping` are stepped every five seconds and the others once."""
    clock, counts = WallClock(), Counts()
    server = Beside(clock, counts)
    before_mib = rss_mib()
    known = Known(objects)
    guard = Guard(clock)
    previews = HpaPreviews(known, clock, guard, lambda _claim, _words: None)
    answers = KedaAnswers(known, server.tell, clock, previews, guard=guard, hold_s=3600.0)
    for workload in known.claims:
        answers.on_claim(workload)
    memory = Memory(clock)
    runtime = Runtime(Ports(clock, memory, Replicas(clock), memory, memory, memory, memory, memory))
    for workload in list(known.claims)[:stepping]:
        runtime.put(Driven(workload, Params(tick_s=TICK_S, max_replicas=PODS), told=True))
    stop = asyncio.Event()
    async with garbage.rarely(clock), asyncio.TaskGroup() as group:
        with runtime.recorder.feed(10 * stepping) as feed:
            running = group.create_task(runtime.run(stop))
            first = await _stepped(feed, stepping, answers)
            for workload in list(known.claims)[stepping:]:
                answers.note(_moved(first, workload))
            listening = group.create_task(answers.run(feed))
            async with server.serving(Listen("127.0.0.1", 0, None), answers) as port:
                print(json.dumps({"port": port, "before_mib": round(before_mib, 1)}), flush=True)
                await _asked(lambda: {"rss_mib": round(rss_mib(), 1), "streams": counts.streams})
            stop.set()
            await running
            listening.cancel()


async def _stepped(feed: Feed, stepping: int, answers: KedaAnswers) -> Stepped:
    """A step, once all have had their first."""
    seen: set[str] = set()
    async for entry in feed:
        answers.note(entry)
        if isinstance(entry, Stepped):
            seen.add(entry.decision.workload)
            if len(seen) == stepping:
                return entry
    raise AssertionError("the driver ended")


def _moved(step: Stepped, workload: str) -> Stepped:
    """The same step of another workload."""
    return replace(step, decision=replace(step.decision, workload=workload))


async def _asked(figures: Callable[[], dict[str, Any]]) -> None:
    """Print figures for each line on standard input, until it ends."""
    while await asyncio.to_thread(sys.stdin.readline):
        print(json.dumps(figures() | {"cpu_s": time.process_time()}), flush=True)


def query(number: int) -> pb.GetMetricsRequest:
    """The call for one ScaledObject's value."""
    return pb.GetMetricsRequest(scaledObjectRef=ref(number), metricName="headroom-replicas")


def ref(number: int) -> pb.ScaledObjectRef:
    """One ScaledObject, as KEDA names it."""
    return pb.ScaledObjectRef(namespace=NAMESPACE, name=f"service-{number}", scalerMetadata=metadata())


if __name__ == "__main__":
    if sys.argv[1] == "echo":
        asyncio.run(echo())
    else:
        asyncio.run(ours(int(sys.argv[2]), int(sys.argv[3])))
