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
from typing import Any, Final

from autoscaler.adapters.kube.api import KubeApi
from autoscaler.adapters.kube.batch_classes import displaces, priority
from autoscaler.adapters.kube.batch_holds import Holds
from autoscaler.adapters.kube.batch_intake import GATHERED
from autoscaler.adapters.kube.batch_jobsets import JOBSET
from autoscaler.adapters.kube.batch_kinds import KINDS
from autoscaler.adapters.kube.batch_kueue import PATHS, LastingClaims, Owned, Workload
from autoscaler.adapters.kube.batch_objects import BatchQueueObject, QueuedPod, WorkPod
from autoscaler.adapters.kube.batch_pod_groups import QueuedPods
from autoscaler.adapters.kube.batch_pods import WorkPods
from autoscaler.adapters.kube.batch_runtime_sight import TrainJobs
from autoscaler.adapters.kube.batch_runtimes import TrainJob
from autoscaler.adapters.kube.batch_scope import BatchScope, Seen
from autoscaler.adapters.kube.batch_seen import SeenNodes
from autoscaler.adapters.kube.batch_taken import TakenWork
from autoscaler.adapters.kube.batch_trainer import TRAINJOB
from autoscaler.adapters.kube.batch_work import Work, gang_name
from autoscaler.adapters.kube.informer import Change, Informer, InformerTimes, Resource
from autoscaler.adapters.kube.meta import Thin
from autoscaler.adapters.kube.pods import Node
from autoscaler.adapters.kube.pool_objects import PriorityClass
from autoscaler.adapters.kube.retry import BackoffBounds
from autoscaler.adapters.kube.scope import GROUP, VERSION
from autoscaler.api.batch_work import QUEUE
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
        self.taken = TakenWork(
            scope.most, clock, changed=changed, priority=self._turn, let_go=self._let_go, bring=self._bring,
            is_queue=lambda queue: queue in self.queues,
        )  # fmt: skip
        self.works = self.taken.all
        """Work by name, live: what is in a queue, and what others manage, as far as it is taken in."""
        self._places = SeenNodes(scope, self.pods, self._uid_of)
        root = f"/apis/{GROUP}/{VERSION}"
        self._queues: Informer[BatchQueueObject] = self._follow(f"{root}/batchqueues", BatchQueueObject, self._on_queue)
        self._kinds: dict[str, Informer[Any]] = {
            name: self._follow(kind.path, kind.form, partial(self.on_work, name), TIMES if kind.is_needed else SELDOM)
            for name, kind in KINDS.items()
        }
        self._objects = {name.lower(): informer for name, informer in self._kinds.items()}
        """The same by the kind as names of gangs spell it."""
        self._queued = QueuedPods()
        self._queued_pods: Informer[QueuedPod] = Informer(
            api, Resource("/api/v1/pods", QueuedPod, label_selector=QUEUE), clock, self._on_queued, times=TIMES
        )
        self._claims = LastingClaims(clock, self._read_anew)
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
            group.create_task(self.taken.run(), name="batch objects")
            group.create_task(self._claims.run(), name="batch claims")

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
        until_s = self._clock.monotonic() + BELIEVED_S
        while self.taken.lacks_kept() and self._clock.monotonic() < until_s:
            await self._clock.sleep_until(self._clock.monotonic() + LOOK_S)

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

    def _turn(self, name: str) -> int | None:
        """The priority by which work of a class has its turn; None for one with which it is refused."""
        value = self.priority(name)
        return None if value is None or value >= self._scope.serving_priority else value

    def displaces_slots(self, name: str) -> bool:
        """Whether the scheduler makes room for pods of a PriorityClass by taking warm slots away."""
        return displaces(self._classes.items, self._scope.slot_class, name)

    @property
    def nodes_version(self) -> object:
        """Another one after every change of a node, and after one that could not be read."""
        return self._places.version, frozenset(self._nodes.unread)

    def shapes_of(self, node: str) -> tuple[str, ...]:
        """The shapes that a node offers."""
        return self._places.shapes_of(node)

    def may_change(self, namespace: str) -> bool:
        """Whether work of a namespace may be let in and stopped."""
        return not self._scope.namespaces or namespace in self._scope.namespaces

    def has_node(self, node: str) -> bool:
        """Whether a node is there, with units of a shape or without."""
        return node in self._nodes.items or node in self._nodes.unread

    def hostnames(self, nodes: Iterable[str]) -> Mapping[str, str]:
        """By which label pods are held to each of these nodes; those that are gone are left out."""
        return self._places.hostnames(nodes)

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
            for name in [name for name, work in self.works.items() if work.is_held_by_notes]:
                self.taken.touch(name)
        self._gather_due()
        return self.taken.touched()

    def written(self, work: Work) -> None:
        """Hold what the server answered to a write of ours, unless something newer is held already."""
        held = self.works.get(work.name)
        if held is None or (held.ref.uid == work.ref.uid and held.generation < work.generation):
            self.taken.put(self._managed(work))

    def pods_written(self, pods: Iterable[QueuedPod]) -> None:
        """Hold what the server answered to writes of ours to pods that are gangs."""
        for name in self._queued.answered(pods):
            self._gather(name)

    def seen(self, is_gang: Callable[[str], bool], now_s: float) -> Seen:
        """Nodes and pods now; `is_gang` says of which gangs pods count as theirs."""
        return self._places.seen(self._nodes, is_gang, now_s)

    def is_over(self, now_s: float) -> bool:
        """Whether that is another by now, though nothing was heard."""
        return self._places.is_over(now_s)

    def _uid_of(self, gang: str) -> str | None:
        work = self.works.get(gang)
        return None if work is None else work.ref.uid

    def _on_queue(self, change: Change[BatchQueueObject]) -> None:
        specs = [None if each is None else each.metadata.generation for each in (change.old, change.new)]
        if specs[0] != specs[1]:  # what changed else is a status, which we wrote
            self.queues_version += 1
            self._changed()
        self.taken.remember(change.key, () if change.new is None else change.new.kept_for())

    def _on_class(self, change: Change[PriorityClass]) -> None:
        is_default = any(each is not None and each.global_default for each in (change.old, change.new))
        names = {change.key, ""} if is_default else {change.key}
        self.taken.touch_of(None if change.key == self._scope.slot_class else names)

    def on_work(self, kind: str, change: Change[Any]) -> None:
        """An object of a kind of work came, changed or went."""
        if change.new is not None and isinstance(change.new.metadata, Thin):
            return  # what it says is not known: it is read anew when its turn comes
        name = gang_name(kind, *change.key.split("/", 1))
        if kind in {JOBSET, TRAINJOB} and self.trainjobs.follow_pods(change.key):
            self._changed()
        if kind == JOBSET:
            self.trainjobs.on_jobset(change)
        new = None if change.new is None else self._read(kind, change.new)
        held = self.works.get(name)
        if held is not None and new is not None and held.ref.uid == new.ref.uid and new.generation < held.generation:
            return  # older than what the server answered to us
        if new is not None:
            new = self._managed(new)
            if held is None and self._has_kueue() and self._claims.may_come(new):
                return  # whoever starts what Kueue takes a moment later has it stopped again
            self.taken.put(new)
        else:
            self.taken.drop(name)
        if (new is None and kind not in {JOBSET, TRAINJOB}) or (new is not None and new.ended):
            self._let_go(name)  # it tells nothing any more; a JobSet that is nobody's gang tells of a TrainJob

    def _let_go(self, name: str) -> None:
        """Hold as little as can be of an object."""
        kind, _, key = name.partition("/")
        if (informer := self._objects.get(kind)) is not None:
            informer.thin(key)

    async def _bring(self, name: str) -> bool:
        """Read an object anew of which as little is held; False where that has to be tried again."""
        kind, _, key = name.partition("/")
        if (informer := self._objects.get(kind)) is not None:
            return await informer.restore(key)
        self._gather(name)
        return True

    def _reread(self, key: str, found: TrainJob) -> None:
        self.on_work(TRAINJOB, Change(key, found, found))

    def _read(self, kind: str, found: Any) -> Work | None:
        """An object as a piece of work; of a TrainJob the sizes stand in its runtime."""
        now_s, meant = self._clock.now(), self._scope.aliases.read(found)
        return self.trainjobs.read(meant, now_s) if isinstance(meant, TrainJob) else KINDS[kind].read(meant, now_s)

    def _on_queued(self, change: Change[QueuedPod]) -> None:
        if self._queued.note(change):
            self._heard_of_pods()

    def _heard_of_pods(self) -> None:
        """Gangs of pods are to be read anew, at the next look; where nobody looks, as while another leads, once there
        are many: their names would be kept for as long as that."""
        if self._queued.dues >= GATHERED:
            self._gather_due()
        self._changed()

    def _gather_due(self) -> None:
        for name in self._queued.due():
            self._gather(name)

    def _gather(self, name: str) -> None:
        """Read the pods of one gang anew."""
        work = self._queued.work(name, self._clock.now())
        if work is not None:
            self.taken.put(work)
        else:
            self.taken.drop(name)

    def _on_workload(self, path: str, change: Change[Workload]) -> None:
        whose = self._claims.note(path, change)
        if whose is not None:
            self._read_anew(whose)

    def _read_anew(self, whose: Owned) -> None:
        kind, key = whose.kind, f"{whose.namespace}/{whose.name}"
        found = self._kinds[kind].items.get(key) if kind in self._kinds else None
        if found is not None:
            self.on_work(kind, Change(key, found, found))

    def _has_kueue(self) -> bool:
        """Whether the cluster knows Kueue's Workloads, as far as we may see."""
        return any(each.synced and not (each.absent or each.denied) for each in self._kueue.values())

    def _managed(self, work: Work) -> Work:
        """The work, as Kueue's where Kueue has taken it without a word in the object."""
        if work.manager or not self._claims.has(work.name, work.ref.uid):
            return work
        return replace(work, manager="Kueue")

    def _on_pod(self, change: Change[WorkPod]) -> None:
        if self._queued.note_any(change):
            self._heard_of_pods()
        if self.pods.note(change):
            self._changed()

    def _on_node(self, change: Change[Node]) -> None:
        if self._places.note(change, self._clock.now()):
            self._changed()

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
