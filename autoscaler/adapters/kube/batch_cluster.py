"""Everything of a cluster that batch admission rests on, followed by informers.

Enters: a client, the administrator's shapes and labels. Leaves: BatchQueues, pieces of work, what changed of them since
it was last asked, and nodes and pods as the core takes them; a call whenever something changed. It decides nothing and
writes nothing.
"""

import asyncio
import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from functools import partial
from types import MappingProxyType
from typing import Any, Final

from autoscaler.adapters.kube.api import KubeApi
from autoscaler.adapters.kube.batch_classes import displaces, priority
from autoscaler.adapters.kube.batch_holds import Holds
from autoscaler.adapters.kube.batch_jobsets import JOBSET
from autoscaler.adapters.kube.batch_kinds import KINDS
from autoscaler.adapters.kube.batch_kueue import PATHS, Claims, Workload
from autoscaler.adapters.kube.batch_nodes import BatchNode, node_parts, with_held
from autoscaler.adapters.kube.batch_objects import BatchQueueObject, QueuedPod, WorkPod
from autoscaler.adapters.kube.batch_pod_groups import QueuedPods
from autoscaler.adapters.kube.batch_pods import PlacedWork, WorkPods
from autoscaler.adapters.kube.batch_runtime_sight import TrainJobs
from autoscaler.adapters.kube.batch_runtimes import TrainJob
from autoscaler.adapters.kube.batch_scope import BatchScope, Seen
from autoscaler.adapters.kube.batch_trainer import TRAINJOB
from autoscaler.adapters.kube.batch_work import Work, gang_name
from autoscaler.adapters.kube.informer import Change, Informer, InformerTimes, Resource
from autoscaler.adapters.kube.pods import Node
from autoscaler.adapters.kube.pool_objects import PriorityClass
from autoscaler.adapters.kube.pool_slots import holds_for, is_ours
from autoscaler.adapters.kube.retry import BackoffBounds
from autoscaler.adapters.kube.scope import GROUP, VERSION
from autoscaler.api.batch_work import QUEUE
from autoscaler.core.batch.estate import NodeSeen
from autoscaler.core.batch.owners import Owner, PodSeen
from autoscaler.ports import Clock

LOOK_S: Final = 0.02
"""Between two looks whether everything is listed."""

BELIEVED_S: Final = 5.0
"""What was read is believed for so long after the server stopped answering."""

QUIET_S: Final = 10.0
"""A watch of pods that told nothing for so long may hang, which is known only after 75 s."""

TIMES: Final = InformerTimes(backoff=BackoffBounds(cap_s=4.0))
SELDOM: Final = InformerTimes(absent_s=15.0, backoff=BackoffBounds(cap_s=15.0))
"""Of what a cluster need not have, or let be read: whether it has it meanwhile."""

STAY: Final = ", and those that were read before stay what they were then"


class BatchCluster:
    """The informers and what follows from them. `run` once; `changed` is called in the event loop and must not wait."""

    def __init__(self, api: KubeApi, clock: Clock, scope: BatchScope, changed: Callable[[], None]) -> None:
        self._api = api
        self._clock = clock
        self._scope = scope
        self._changed = changed
        self.pods = WorkPods()
        self.queues_version = 0
        """Grows with every change of a queue."""
        self._nodes_version = 0
        self._works: dict[str, Work] = {}
        self.works: Mapping[str, Work] = MappingProxyType(self._works)
        """Work by name, live: what is in a queue, and what others manage."""
        self._touched: dict[str, None] = {}
        self._parts: dict[str, tuple[BatchNode, ...]] = {}
        root = f"/apis/{GROUP}/{VERSION}"
        self._queues: Informer[BatchQueueObject] = self._follow(f"{root}/batchqueues", BatchQueueObject, self._on_queue)
        self._kinds: dict[str, Informer[Any]] = {
            name: self._follow(kind.path, kind.form, partial(self.on_work, name), TIMES if kind.is_needed else SELDOM)
            for name, kind in KINDS.items()
        }
        self._queued = QueuedPods()
        self._queued_pods: Informer[QueuedPod] = Informer(
            api, Resource("/api/v1/pods", QueuedPod, label_selector=QUEUE), clock, self._on_queued, times=TIMES
        )
        self._claims = Claims()
        self._kueue: dict[str, Informer[Workload]] = {
            path: self._follow(path, Workload, partial(self._on_workload, path), SELDOM) for path in PATHS
        }
        self._holds = Holds(api, clock, changed, _believed, SELDOM)
        jobs, jobsets = self._kinds[TRAINJOB], self._kinds[JOBSET]
        self.trainjobs = TrainJobs(api, clock, SELDOM, jobs=jobs, jobsets=jobsets, pods=self.pods, again=self._reread)
        self._unsure = ("", "")
        """Why pods are not held to nodes, and whose they are is not known, as was last asked."""
        self._pods: Informer[WorkPod] = self._follow("/api/v1/pods", WorkPod, self._on_pod)
        self._pods_asked = -1
        """How many lists of pods were complete when one more was asked for: while that is on its way none is."""
        self._nodes: Informer[Node] = self._follow("/api/v1/nodes", Node, self._on_node)
        self._classes: Informer[PriorityClass] = self._follow(
            "/apis/scheduling.k8s.io/v1/priorityclasses", PriorityClass, self._on_class
        )

    @property
    def queues(self) -> Mapping[str, BatchQueueObject]:
        """The BatchQueues by name, live."""
        return self._queues.items

    async def run(self) -> None:
        """Follow everything until cancelled."""
        async with asyncio.TaskGroup() as group:
            for informer in (*self._needed(), *self._welcome()):
                group.create_task(informer.run(), name="batch informer")

    async def wait_synced(self) -> None:
        """Return once everything was listed, or is known not to be served, or may not be read."""
        await self._wait(lambda informer: informer.synced)

    async def relist(self) -> None:
        """Read everything anew, and return when what is held is what the server had after this call."""
        lists = {informer: informer.lists for informer in (*self._needed(), *self._welcome())}
        for informer in lists:
            if not informer.absent:
                informer.relist()
        await self._wait(lambda informer: informer.absent or informer.lists > lists[informer])

    def hears_pods(self) -> bool:
        """Whether pods were heard of just now, so that who is not shown is not there; else they are listed anew."""
        if self._pods.staleness_s() <= QUIET_S:
            return True
        if self._pods_asked < self._pods.lists:
            self._pods_asked = self._pods.lists
            self._pods.relist()
        return False

    def problems(self) -> tuple[str, ...]:
        """What is not known now, and why: without it nothing is admitted."""
        return (*(_problem(informer) for informer in self._needed() if not _believed(informer)), *self._somewhere())

    def _somewhere(self) -> Iterator[str]:
        """Pods that cannot be read and may hold anything anywhere; one whose node was read before is still there."""
        known = self._pods.items
        lost = sorted(key for key in self._pods.unread if key not in known or not known[key].spec.node_name)
        if lost:
            others = f"; and {len(lost) - 1} more" if len(lost) > 1 else ""
            yield f"GET {self._pods.path}: {lost[0]} cannot be read: {self._pods.unread[lost[0]].why}{others}"

    def unread(self) -> tuple[str, ...]:
        """The kinds of work that cannot be read now, and the objects that cannot, each with why: others are admitted.

        A kind that the cluster does not have, or that we never had a right to, is none: nobody means us to follow it.
        An object stays what it was when it could be read last; a node takes nobody meanwhile.
        """
        kinds = {name: one for name, one in self._kinds.items() if not KINDS[name].is_needed}
        kinds["Queued pod"] = self._queued_pods
        silent = {
            one: f"{name}s are not followed{STAY if one.items else ''}: {_problem(one)}"
            for name, one in kinds.items()
            if not one.absent and not _believed(one) and (one.items or not one.denied)
        }
        read = [one for one in (*self._needed(), *kinds.values()) if one is not self._pods and one not in silent]
        return (*silent.values(), *(_problem(one) for one in read if one.unread))

    def unheld(self) -> str:
        """Why the policy is not in force by which pods are held to the nodes that their annotation names; empty where
        it is."""
        return self._holds.doubt()

    def sees_policy(self) -> bool:
        """Whether that is known as of now: nothing that rests on it is started meanwhile."""
        return self._holds.is_seen()

    def priority(self, name: str) -> int | None:
        """The value of a PriorityClass; of the default one for an empty name, 0 where there is none; else None."""
        return priority(self._classes.items, name)

    def displaces_slots(self, name: str) -> bool:
        """Whether the scheduler makes room for pods of a PriorityClass by taking warm slots away."""
        return displaces(self._classes.items, self._scope.slot_class, name)

    @property
    def nodes_version(self) -> object:
        """Another one after every change of a node, and after one that could not be read."""
        return self._nodes_version, frozenset(self._nodes.unread)

    def shapes_of(self, node: str) -> tuple[str, ...]:
        """The shapes that a node offers."""
        return tuple(part.shape for part in self._parts.get(node, ()))

    def may_change(self, namespace: str) -> bool:
        """Whether work of a namespace may be let in and stopped."""
        return not self._scope.namespaces or namespace in self._scope.namespaces

    def has_node(self, node: str) -> bool:
        """Whether a node is there, with units of a shape or without."""
        return node in self._nodes.items or node in self._nodes.unread

    def hostnames(self, nodes: Iterable[str]) -> Mapping[str, str]:
        """By which label pods are held to each of these nodes; those that are gone are left out."""
        parts = {node: self._parts.get(node) for node in nodes}
        return {node: mine[0].hostname for node, mine in parts.items() if mine}

    def resource_of(self, shape: str) -> str:
        """The extended resource of a shape."""
        return self._scope.shapes[shape].resource

    @property
    def resources(self) -> frozenset[str]:
        """The extended resources of all shapes."""
        return frozenset(shape.resource for shape in self._scope.shapes.values())

    def touched(self) -> tuple[str, ...]:
        """The work that changed or went since this was last asked."""
        if self._unsure != (why := (self.unheld(), self.trainjobs.unfollowed())):
            self._unsure = why
            self._touched.update({name: None for name, work in self._works.items() if work.is_held_by_notes})
        for name in self._queued.due():
            self._gather(name)
        names = tuple(self._touched)
        self._touched.clear()
        return names

    def written(self, work: Work) -> None:
        """Hold what the server answered to a write of ours, unless something newer is held already."""
        held = self._works.get(work.name)
        if held is None or (held.ref.uid == work.ref.uid and held.generation < work.generation):
            self._works[work.name] = self._managed(work)
            self._touch(work.name)

    def pods_written(self, pods: Iterable[QueuedPod]) -> None:
        """Hold what the server answered to writes of ours to pods that are gangs."""
        for name in self._queued.answered(pods):
            self._gather(name)

    def seen(self, is_gang: Callable[[str], bool]) -> Seen:
        """Nodes and pods now; `is_gang` says of which gangs pods count as theirs."""
        parts: dict[tuple[str, str], BatchNode] = {}
        nodes, others = list[NodeSeen](), list[PodSeen]()
        for mine in self._parts.values():
            for part in mine:
                cpu, memory_gib = part.cpu, part.memory_gib
                for pod in self.pods.on_node(part.name):
                    if pod.gang is not None and is_gang(pod.gang):
                        continue
                    units = math.ceil(pod.asks.units.get(self._scope.shapes[part.shape].resource, 0.0))
                    whose = self._held_for(pod)
                    if whose is not None:  # it makes way for the gang, with what it asks for besides
                        others.append(PodSeen(part.name, part.shape, units, Owner.RESERVED, whose))
                        continue
                    cpu, memory_gib = cpu - pod.asks.cpu, memory_gib - pod.asks.memory_gib
                    if units:
                        others.append(PodSeen(part.name, part.shape, units, self._owner(pod)))
                parts[part.name, part.shape] = part
                nodes.append(
                    NodeSeen(
                        part.name, part.shape, part.units, part.domains, max(0.0, cpu), max(0.0, memory_gib),
                        cordoned=part.cordoned or part.name in self._nodes.unread, ready=part.ready,
                    )
                )  # fmt: skip
        return Seen(parts, tuple(nodes), tuple(others))

    def _held_for(self, pod: PlacedWork) -> str | None:
        """The gang that is there, and whose place a pod of ours holds."""
        gang, uid = holds_for(pod.meta, self._scope.slots) or ("", "")
        work = self._works.get(gang)
        return gang if work is not None and work.ref.uid == uid else None

    def _owner(self, pod: PlacedWork) -> Owner:
        if is_ours(pod.meta, self._scope.slots):
            return Owner.STANDBY
        return Owner.SERVING if self._scope.serves(pod.key) else Owner.FOREIGN

    def _touch(self, name: str) -> None:
        self._touched[name] = None
        self._changed()

    def _on_queue(self, change: Change[BatchQueueObject]) -> None:
        specs = [None if each is None else each.metadata.generation for each in (change.old, change.new)]
        if specs[0] != specs[1]:  # what changed else is a status, which we wrote
            self.queues_version += 1
            self._changed()

    def _on_class(self, _: Change[PriorityClass]) -> None:
        self._touched.update(dict.fromkeys(self._works))
        self._changed()

    def on_work(self, kind: str, change: Change[Any]) -> None:
        """An object of a kind of work came, changed or went."""
        name = gang_name(kind, *change.key.split("/", 1))
        if kind in {JOBSET, TRAINJOB} and self.trainjobs.follow_pods(change.key):
            self._changed()
        if kind == JOBSET:
            self.trainjobs.on_jobset(change)
        new = None if change.new is None else self._read(kind, change.new)
        held = self._works.get(name)
        if held is not None and new is not None and held.ref.uid == new.ref.uid and new.generation < held.generation:
            return  # older than what the server answered to us
        if new is not None:
            self._works[name] = self._managed(new)
        elif self._works.pop(name, None) is None:
            return
        self._touch(name)

    def _reread(self, key: str, found: TrainJob) -> None:
        self.on_work(TRAINJOB, Change(key, found, found))

    def _read(self, kind: str, found: Any) -> Work | None:
        """An object as a piece of work; of a TrainJob the sizes stand in its runtime."""
        now_s = self._clock.now()
        return self.trainjobs.read(found, now_s) if isinstance(found, TrainJob) else KINDS[kind].read(found, now_s)

    def _on_queued(self, change: Change[QueuedPod]) -> None:
        if self._queued.note(change):
            self._changed()

    def _gather(self, name: str) -> None:
        """Read the pods of one gang anew."""
        work = self._queued.work(name, self._clock.now())
        if work is not None:
            self._works[name] = work
        elif self._works.pop(name, None) is None:
            return
        self._touch(name)

    def _on_workload(self, path: str, change: Change[Workload]) -> None:
        whose = self._claims.note(path, change)
        if whose is None or whose[0] not in self._kinds:
            return
        kind, key = whose[0], f"{whose[1]}/{whose[2]}"
        found = self._kinds[kind].items.get(key)
        if found is not None:
            self.on_work(kind, Change(key, found, found))

    def _managed(self, work: Work) -> Work:
        """The work, as Kueue's where Kueue has taken it without a word in the object."""
        if work.manager or not self._claims.has(work.name, work.ref.uid):
            return work
        return replace(work, manager="Kueue")

    def _on_pod(self, change: Change[WorkPod]) -> None:
        known = self._queued.note_any(change)
        if self.pods.note(change) or known:
            self._changed()

    def _on_node(self, change: Change[Node]) -> None:
        made: tuple[BatchNode, ...] = ()
        if change.new is not None:
            made = node_parts(change.new, self._scope.shapes, self._scope.levels)
            made = with_held(made, self._parts.get(change.key, ()), self._held(change.key), self.resource_of)
        if made == self._parts.get(change.key, ()):
            return
        if made:
            self._parts[change.key] = made
        else:
            del self._parts[change.key]
        self._nodes_version += 1
        self._changed()

    def _held(self, node: str) -> Callable[[str], int]:
        """How many units of a resource pods hold on a node."""
        return lambda resource: sum(math.ceil(pod.asks.units.get(resource, 0.0)) for pod in self.pods.on_node(node))

    async def _wait(self, is_done: Callable[[Informer[Any]], bool]) -> None:
        """Wait for all that may be read; for what nothing rests on only as long as it would be believed."""
        until_s = self._clock.monotonic() + BELIEVED_S
        while any(not is_done(each) and not each.denied for each in self._needed()) or (
            self._clock.monotonic() < until_s and any(not is_done(each) and not each.denied for each in self._welcome())
        ):
            await self._clock.sleep_until(self._clock.monotonic() + LOOK_S)

    def _needed(self) -> Iterator[Informer[Any]]:
        """What nothing is admitted without."""
        yield from (self._queues, self._pods, self._nodes, self._classes)
        yield from (each for name, each in self._kinds.items() if KINDS[name].is_needed)

    def _welcome(self) -> Iterator[Informer[Any]]:
        """What a cluster need not have, or let be read."""
        yield from (self._holds.policies, self._holds.bindings)
        yield from self.trainjobs.informers()
        yield from self._kueue.values()
        yield self._queued_pods
        yield from (each for name, each in self._kinds.items() if not KINDS[name].is_needed)

    def _follow(
        self, path: str, kind: type[Any], heard: Callable[[Change[Any]], None], times: InformerTimes = TIMES
    ) -> Informer[Any]:
        return Informer(self._api, Resource(path, kind), self._clock, heard, times=times)


def _believed(informer: Informer[Any]) -> bool:
    """Whether what an informer holds is the truth of now, as far as can be known."""
    if informer.absent or informer.denied or not informer.synced:
        return False
    return informer.cut_off_s() <= BELIEVED_S and math.isfinite(informer.staleness_s())


def _problem(informer: Informer[Any]) -> str:
    return str(informer.error) if informer.error is not None else f"GET {informer.path}: not served, or not read yet"
