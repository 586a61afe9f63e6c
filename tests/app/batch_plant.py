"""A cluster in memory behind the real reading of it: Jobs, nodes and pods are objects as the API server shows them."""

import asyncio
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, cast

import msgspec

from autoscaler.adapters.kube.answers import Answer, KubeError
from autoscaler.adapters.kube.api import KubeApi
from autoscaler.adapters.kube.batch_aliases import Aliases
from autoscaler.adapters.kube.batch_cluster import BatchCluster
from autoscaler.adapters.kube.batch_objects import Job, WorkPod
from autoscaler.adapters.kube.batch_scope import MOST, BatchScope
from autoscaler.adapters.kube.batch_widths import note
from autoscaler.adapters.kube.batch_work import Work, of_job
from autoscaler.adapters.kube.meta import Meta
from autoscaler.adapters.kube.pods import Node
from autoscaler.adapters.kube.pool_objects import PriorityClass
from autoscaler.api.batch_queue import BatchQueueSpec, ShapeQuota
from autoscaler.api.batch_tree import QueueSeen, compile_shapes, tree_of
from autoscaler.api.shapes import Shape
from autoscaler.app.batch_books import Books
from autoscaler.app.batch_untaken import in_any_case
from autoscaler.app.guard import Guard
from autoscaler.app.loan_desk import LoanDesk
from autoscaler.core.batch.params import BatchParams
from autoscaler.ports import Fault
from autoscaler.runtime.clock import ScaledClock

SHAPES = {"h100": Shape(sku="h100")}
TEAM = {"team": ("ns",)}
START_S = 1_700_000_000.0


class BatchPlant:
    """Nodes, pods and Jobs of the namespace `ns`; what the books order is done when a test says so."""

    def __init__(
        self,
        nodes: Mapping[str, int],
        *,
        desk: LoanDesk | None = None,
        slot_class: str = "",
        shapes: Mapping[str, Shape] = SHAPES,
        queues: Mapping[str, tuple[str, ...]] = TEAM,
        most: int = MOST,
        aliases: Sequence[str] = (),
        **quota: int,
    ) -> None:
        self.desk, self._shapes = desk, shapes
        self.now_s = START_S
        self.hears = True
        """Whether the watch of pods tells something all the time."""
        self.aliases = Aliases(aliases)
        scope = BatchScope(
            shapes, ("rack",), "slots", lambda pod: pod.startswith("ns/serving"), slot_class=slot_class, most=most,
            aliases=self.aliases,
        )  # fmt: skip
        self._clock = ScaledClock(origin_s=START_S)
        self.asked: list[str] = []
        """Objects that were asked for by their names."""
        self.silent = 0
        """So many of those are not answered."""
        self._brings: asyncio.Task[None] | None = None
        self.cluster = BatchCluster(cast(KubeApi, self), self._clock, scope, lambda: None)
        self._objects: dict[str, Any] = {}
        self._versions = 0
        self.classes(batch=-20)
        for name, gpus in nodes.items():
            self.node(name, gpus)
        quotas = tuple(ShapeQuota(shape=name, **quota) for name in shapes)
        specs = {name: BatchQueueSpec(quotas=quotas, namespaces=spaces) for name, spaces in queues.items()}
        self.tree = tree_of({name: QueueSeen(spec) for name, spec in specs.items()}, shapes)
        self.cluster.taken.share_by(self.tree.admits)
        self.books = self.begin()

    def classes(self, **values: int) -> None:
        """PriorityClasses come, or change."""
        for name, value in values.items():
            self.cluster._classes._cache.put(PriorityClass(Meta(name), value))

    def begin(self, saved: Mapping[str, Any] | None = None) -> Books:
        """Books written from the cluster alone."""
        self.cluster.touched()
        params = BatchParams(compile_shapes(self._shapes), self.tree.queues)
        self.books = Books(self.cluster, self._shapes, params, self.tree, Guard(self._clock), desk=self.desk)
        self.books.open(saved or {}, self.now_s)
        self.books.take(self.cluster.works, self.now_s)
        self.books.close(self.now_s)
        return self.books

    def look(self, after_s: float = 1.0) -> None:
        """Look and decide, a while later."""
        self.now_s += after_s
        self.hear()
        self.books.take_in(self.cluster.touched(), self.now_s)
        self.books.decide(self.now_s)
        self.cluster.taken.keep(in_any_case(self.books.room, self.books.plans))
        faults = self.books.room.contradictions()
        assert [words for words in faults if " holds " not in words] == [], "a gang that misses pods holds less"

    async def bring(self, for_s: float = 0.1) -> None:
        """Read anew for so long what its turn came for, and look again."""
        self.cluster.taken.settle()
        task = self._brings = self._brings or asyncio.create_task(self.cluster.taken.run())
        await asyncio.sleep(for_s)
        assert not task.done()
        self.look()

    async def request(self, method: str, path: str, *, query: Sequence[tuple[str, str]], timeout_s: float) -> Answer:
        """The API server: it knows Jobs by their names."""
        assert method == "GET"
        key = f"{path.split('/')[5]}/{dict(query)['fieldSelector'].removeprefix('metadata.name=')}"
        self.asked.append(key)
        if self.silent:
            self.silent -= 1
            raise KubeError(Fault.TIMEOUT, f"GET {path}: no answer")
        found = self._objects.get(f"job/{key.partition('/')[2]}")
        here = found is not None and found["metadata"]["namespace"] == key.partition("/")[0]
        return Answer(
            200, msgspec.json.encode({"metadata": {"resourceVersion": "1"}, "items": [found] if here else []}), {}
        )

    def hear(self) -> None:
        """The watch of pods tells something, unless it hangs."""
        if self.hears:
            self.cluster._pods._settle()

    def due(self) -> list[str]:
        """The Jobs that are to start now."""
        return [work.ref.name for work, _ in self.books.due_starts(self.now_s)]

    def start(self, *, heard: bool = True) -> list[str]:
        """Start what is due, as the writer would; the Jobs."""
        names = []
        for work, plan in list(self.books.due_starts(self.now_s)):
            names.append(work.ref.name)
            placement = msgspec.json.encode(plan).decode()
            found = self._objects[f"job/{work.ref.name}"]
            kept = found["metadata"].get("annotations", {})
            meta = {**found["metadata"], "annotations": {**kept, "headroom.dev/placement": placement}}
            meta["generation"] += 1
            started = datetime.fromtimestamp(self.now_s, UTC).isoformat()
            pods = {} if work.width is None else {"parallelism": sum(put.pods for put in plan)}
            if work.width is not None and (width := note(work.width, pods["parallelism"])) is not None:
                meta["annotations"]["headroom.dev/width"] = width
            begun = {
                "spec": {**found["spec"], **pods, "suspend": False},
                "status": {**found.get("status", {}), "startTime": started},
            }
            self._put_job({**found, "metadata": meta, **begun}, heard=heard)
        return names

    def stop(self) -> list[str]:
        """Stop what is to stop; the Jobs."""
        stops = [work for work, _ in self.books.due_stops()]
        for work in stops:
            self.edit(
                work.ref.name, suspend=True, **({} if work.width is None else {"parallelism": work.width.written})
            )
        return [work.ref.name for work in stops]

    def node(
        self, name: str, gpus: int, *, product: str = "H100", rack: str = "", others: Mapping[str, str] | None = None,
        made_s: float | None = None, ready: bool = True, labels: Mapping[str, str] | None = None, **spec: Any,
    ) -> None:  # fmt: skip
        """A node comes, or changes; `others` is what it offers besides, `made_s` when it was made, if it says so."""
        labels = {"kubernetes.io/hostname": name, **({"nvidia.com/gpu.product": product} if product else {})} | {
            **(labels or {})
        }
        labels |= {"rack": rack} if rack else {}
        status = {
            "allocatable": {"nvidia.com/gpu": str(gpus), "cpu": "64", "memory": "512Gi", **(others or {})},
            "conditions": [{"type": "Ready", "status": "True" if ready else "False"}],
        }
        meta: dict[str, Any] = {"name": name, "labels": labels, "uid": name}
        if made_s is not None:
            meta["creationTimestamp"] = datetime.fromtimestamp(made_s, UTC).isoformat()
        node = {"metadata": meta, "spec": spec, "status": status}
        self.cluster._nodes._cache.put(msgspec.convert(node, Node, strict=False))

    def job(
        self,
        name: str,
        pods: int = 1,
        gpus: int = 8,
        *,
        priority_class: str = "batch",
        queue: str = "team",
        **meta: Any,
    ) -> None:
        """A suspended Job comes."""
        self._put_job({
            "metadata": {
                "name": name, "namespace": "ns", "uid": name, "generation": 1, "labels": {"headroom.dev/queue": queue},
                "creationTimestamp": "2023-11-14T22:13:20Z", **meta,
            },
            "spec": {
                "suspend": True, "parallelism": pods, "completions": pods,
                "template": {"spec": {"priorityClassName": priority_class, "containers": [_box(gpus)]}},
            },
        })  # fmt: skip

    def edit(self, name: str, **spec: Any) -> None:
        """A Job is edited."""
        found = self._objects[f"job/{name}"]
        meta = {**found["metadata"], "generation": found["metadata"]["generation"] + 1}
        self._put_job({**found, "metadata": meta, "spec": {**found["spec"], **spec}})

    def template(self, name: str) -> dict[str, Any]:
        """The template of a Job's pods."""
        found: dict[str, Any] = self._objects[f"job/{name}"]["spec"]["template"]
        return found

    def annotate(self, name: str, annotations: Mapping[str, str]) -> None:
        """A Job gets more annotations."""
        found = self._objects[f"job/{name}"]
        meta = {**found["metadata"], "annotations": {**found["metadata"].get("annotations", {}), **annotations}}
        self._put_job({**found, "metadata": meta})

    def end(self, name: str) -> None:
        """A Job ends well."""
        found = self._objects[f"job/{name}"]
        self._put_job({**found, "status": {"conditions": [{"type": "Complete", "status": "True"}]}})

    def succeeded(self, name: str, pods: int) -> None:
        """So many pods of a Job have ended well, by its status."""
        found = self._objects[f"job/{name}"]
        self._put_job({**found, "status": {**found.get("status", {}), "succeeded": pods}})

    def pod(
        self, name: str, node: str = "", gpus: int = 8, job: str = "", phase: str = "Pending", *,
        namespace: str = "ns", labels: Mapping[str, str] | None = None, annotations: Mapping[str, str] | None = None,
        **more: Any,
    ) -> None:  # fmt: skip
        """A pod comes, is bound, or ends; `more` is of its spec."""
        owners = [{"kind": "Job", "name": job, "uid": job, "controller": True}] if job else []
        meta = {
            "name": name, "namespace": namespace, "uid": name, "ownerReferences": owners, "labels": dict(labels or {}),
            "annotations": dict(annotations or {}), "creationTimestamp": "2023-11-14T22:13:20Z",
        }  # fmt: skip
        spec = {"nodeName": node, "containers": [_box(gpus)], **more}
        found = {"metadata": meta, "spec": spec, "status": {"phase": phase}}
        self.cluster._pods._cache.put(msgspec.convert(found, WorkPod, strict=False))

    def gone(self, *names: str, namespace: str = "ns") -> None:
        """Pods are gone."""
        for name in names:
            self.cluster._pods._cache.drop(f"{namespace}/{name}")

    def delete(self, name: str) -> None:
        """A Job is gone."""
        found = self._objects.pop(f"job/{name}")
        self.cluster._kinds["Job"]._cache.drop(f"{found['metadata']['namespace']}/{name}")

    def work(self, name: str) -> Work:
        """A Job as it is read."""
        return self.cluster.works[f"job/ns/{name}"]

    def on_server(self, name: str) -> Work:
        """A Job as the server has it, whether it was heard of or not."""
        found = of_job(msgspec.convert(self._objects[f"job/{name}"], Job, strict=False), self.now_s)
        assert found is not None
        return found

    def lose(self, node: str) -> None:
        """A node is gone."""
        self.cluster._nodes._cache.drop(node)

    def free(self) -> dict[str, int]:
        """Free GPUs by node, by the books."""
        estate = self.books.room.ledger.estate
        return {node.name: int(free) for node, free in zip(estate.nodes, estate.free, strict=True)}

    def _put_job(self, found: dict[str, Any], *, heard: bool = True) -> None:
        self._versions += 1
        found["metadata"]["resourceVersion"] = str(self._versions)
        name = found["metadata"]["name"]
        self._objects[f"job/{name}"] = found
        if heard:
            self.cluster._kinds["Job"]._cache.put(msgspec.convert(found, Job, strict=False))


def _box(gpus: int) -> dict[str, Any]:
    return {"resources": {"limits": {"nvidia.com/gpu": str(gpus)} if gpus else {}}}
