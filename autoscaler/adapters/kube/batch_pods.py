"""Which pods are where, and whose: what every node holds beside gangs, and what every gang holds where.

Enters: changes of all pods. Leaves: for each gang the pods that are bound, and whether any pod of it is there still;
for each node what other pods take, and which pods are to be bound. Kept as pods change, so that a look does not walk
over all pods of the cluster. A pod counts from when it is bound until it has ended; one that is told to end counts
until it is gone.
"""

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Final

from autoscaler.adapters.kube.batch_amounts import PodAsks, pod_asks
from autoscaler.adapters.kube.batch_jobsets import JOBSET, JOBSET_NAME
from autoscaler.adapters.kube.batch_objects import WorkPod
from autoscaler.adapters.kube.batch_pod_groups import pod_gang
from autoscaler.adapters.kube.batch_training import GROUP, KINDS
from autoscaler.adapters.kube.batch_work import gang_name
from autoscaler.adapters.kube.informer import Change
from autoscaler.adapters.kube.membership import OVER
from autoscaler.adapters.kube.meta import Meta


@dataclass(frozen=True, slots=True)
class PlacedWork:
    """A pod: whose it is, where it is bound ("" while it is not), what it asks for, whether it has ended."""

    key: str
    gang: str | None
    node: str
    asks: PodAsks
    meta: Meta
    is_over: bool
    selector: Mapping[str, str] | None = None
    """The labels of the nodes that it may be bound to, while it is not bound."""
    is_gated: bool = False
    """Whether the scheduler leaves it alone still."""


NONE: Final[Mapping[str, PlacedWork]] = MappingProxyType({})


class WorkPods:
    """The books. `changes` grows with all that a look would see differently."""

    def __init__(self) -> None:
        self.changes = 0
        self._owner: dict[str, str] = {}
        """Gangs whose pods count as another's, which controls them."""
        self._all: dict[str, PlacedWork] = {}
        self._of_gang: dict[str, dict[str, PlacedWork]] = defaultdict(dict)
        self._on_node: dict[str, dict[str, PlacedWork]] = defaultdict(dict)
        self._over: dict[str, dict[str, PlacedWork]] = defaultdict(dict)
        self._wanting: dict[str, dict[str, PlacedWork]] = defaultdict(dict)
        """By extended resource that they ask for, pods that the scheduler is to bind."""

    def note(self, change: Change[WorkPod]) -> bool:
        """A pod came, changed or went; whether that is anything to look at."""
        old, new = self._all.pop(change.key, None), None if change.new is None else self._placed(change.key, change.new)
        if old is not None:
            self._drop(old)
        if new is not None:
            self._all[change.key] = new
            self._put(new)
        if _facts(old) == _facts(new):
            return False
        self.changes += 1
        return True

    def _put(self, pod: PlacedWork) -> None:
        for group, key in self._groups(pod):
            group[key][pod.key] = pod

    def _drop(self, pod: PlacedWork) -> None:
        for group, key in self._groups(pod):
            del group[key][pod.key]
            if not group[key]:
                del group[key]

    def _groups(self, pod: PlacedWork) -> Iterator[tuple[dict[str, dict[str, PlacedWork]], str]]:
        """Where a pod is written down."""
        if pod.gang is not None:
            yield self._over if pod.is_over else self._of_gang, pod.gang
        if pod.node and not pod.is_over:
            yield self._on_node, pod.node
        if not (pod.node or pod.is_over or pod.is_gated):
            yield from ((self._wanting, resource) for resource in pod.asks.units)

    def owned(self, gang: str, owner: str | None) -> bool:
        """The pods of a gang are those of another one that controls it, or (None) its own; whether that is news.

        Who makes a gang of another may be heard of after its pods.
        """
        was = self._owner.get(gang, gang)
        if was == (owner or gang):
            return False
        pods = [pod for here in (self._of_gang, self._over) for pod in here.get(was, NONE).values()]
        if owner is None:
            del self._owner[gang]
        else:
            self._owner[gang] = owner
        for pod in [pod for pod in pods if gang_of(pod.meta) == gang]:
            self._drop(pod)
            self._all[pod.key] = moved = replace(pod, gang=owner or gang)
            self._put(moved)
        self.changes += 1
        return True

    def disowned(self, is_there: Callable[[str], bool]) -> None:
        """Forget who controls gangs that are not there any more, once they have no pods."""
        gone = [gang for gang, owner in self._owner.items() if not is_there(gang) and not self.of_gang(owner)]
        for gang in gone:
            del self._owner[gang]

    def _placed(self, key: str, pod: WorkPod) -> PlacedWork:
        over, gang = pod.status.phase in OVER, gang_of(pod.metadata)
        whose = None if gang is None else self._owner.get(gang, gang)
        asks, is_gated = pod_asks(pod.spec), bool(pod.spec.scheduling_gates)
        return PlacedWork(
            key, whose, pod.spec.node_name, asks, pod.metadata, over, pod.spec.node_selector, is_gated=is_gated
        )

    def of_gang(self, gang: str) -> Mapping[str, PlacedWork]:
        """A gang's pods that are not over, bound or not."""
        return self._of_gang.get(gang, NONE)

    def over(self, gang: str, since_s: float) -> Iterator[PodAsks]:
        """What those pods of a gang asked for that were made since an instant, and have run and ended."""
        for pod in self._over.get(gang, NONE).values():
            made = pod.meta.creation_timestamp
            if made is not None and made.timestamp() >= since_s:
                yield pod.asks

    def gangs(self) -> tuple[str, ...]:
        """Whoever may be a gang and has a pod that is not over."""
        return tuple(self._of_gang)

    def on_node(self, node: str) -> Iterator[PlacedWork]:
        """What is bound to a node."""
        return iter(self._on_node.get(node, NONE).values())

    def wanting(self, resource: str) -> Iterator[PlacedWork]:
        """Pods that ask for a resource and that the scheduler is to bind."""
        return iter(self._wanting.get(resource, NONE).values())


def gang_of(meta: Meta) -> str | None:
    """The gang that a pod may be of, by who controls it or let it in; None for a pod of nobody who makes gangs."""
    mine = pod_gang(meta)
    if mine is not None:
        return mine
    owner = next((each for each in meta.owner_references if each.controller), None)
    if owner is None:
        return None
    if owner.kind in KINDS and owner.api_version.startswith(f"{GROUP}/"):
        return gang_name(owner.kind, meta.namespace, owner.name)
    if owner.kind != "Job":
        return None
    jobset = meta.labels.get(JOBSET_NAME, "")
    if jobset and owner.name.startswith(f"{jobset}-"):
        return gang_name(JOBSET, meta.namespace, jobset)
    return gang_name("Job", meta.namespace, owner.name)


def _facts(pod: PlacedWork | None) -> object:
    return None if pod is None else (pod.gang, pod.node, pod.asks, pod.meta.uid, pod.is_over, pod.is_gated)
