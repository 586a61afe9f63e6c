"""Nodes that are on their way: there as objects, and never of use yet.

Enters: nodes as they come, change and go, with the parts that they have. Leaves: the parts that they will have, each
with when it is expected; what nodes of a shape take is learnt from those that were seen to come. A node is on its way
while it is young, was never seen usable, and nothing says that it will take no pods; what it lacks yet is taken from
others of its instance type, or from a label that counts its GPUs. What cannot be known of it is not assumed.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from autoscaler.adapters.kube.batch_nodes import (
    GKE_REPLICAS,
    GKE_SLICE,
    HOSTNAME,
    KEEPING_OFF,
    SKU_LABELS,
    BatchNode,
    node_part,
    ready_condition,
)
from autoscaler.adapters.kube.informer import Change
from autoscaler.adapters.kube.pods import Node
from autoscaler.adapters.kube.pool_nodes import GATES, INSTANCE_TYPE, LEAVING, MIG, REPLICAS
from autoscaler.adapters.kube.pool_slots import epoch_s
from autoscaler.api.shapes import Shape
from autoscaler.core.batch.boots import OLDEST_S, Boots, Due
from autoscaler.core.pool.params import Sharing

COUNTS: Final = ("nvidia.com/gpu.count", "karpenter.k8s.aws/instance-gpu-count", "karpenter.azure.com/sku-gpu-count")
"""Labels that say how many whole GPUs a node has."""

BOOTING: Final = (
    *GATES,
    "node.kubernetes.io/not-ready",
    "node.kubernetes.io/network-unavailable",
    "node.cilium.io/agent-not-ready",
    "ebs.csi.aws.com/agent-not-ready",
    "efs.csi.aws.com/agent-not-ready",
)
"""How the keys of taints begin that go once a node has started."""

LATE: Final = frozenset({*SKU_LABELS, REPLICAS})
"""Labels that say what a node's units are, and that may come only after them."""

DIVIDES: Final = (GKE_SLICE, GKE_REPLICAS)
"""Those that a node has from the beginning, or never."""

YOUNG_S: Final = 60.0
"""Who hears of a node so soon after it was made has seen all of its coming (a guess: hardly one is of use sooner)."""

TURN_S: Final = 15.0
"""Pods that wait for a node are bound to it so soon once it can be used: the scheduler tries a pod again after ten
seconds at the latest (podMaxBackoffSeconds)."""


_Kind = tuple[str, ...]
"""A resource, an instance type, and how the GPUs are divided by the labels that are there from the beginning."""


@dataclass(slots=True)
class _Kin:
    """What nodes of one kind have."""

    most: BatchNode
    """The one with the most units: one with fewer has a GPU that fails."""
    labels: dict[str, str] = field(default_factory=dict)
    shape: tuple[object, ...] = ()
    differ: bool = False
    """Whether they are not all alike, so that another one of their kind is not known by them."""

    def add(self, part: BatchNode, shape: tuple[object, ...]) -> None:
        """One more; `shape` is what all of them have to have in common, whatever is paid for each."""
        self.most = part if part.units > self.most.units else self.most
        self.differ |= bool(self.shape) and self.shape != shape
        self.shape = shape
        for key in LATE:
            if (by := part.labels.get(key)) is not None:
                self.differ |= self.labels.setdefault(key, by) != by


@dataclass(frozen=True, slots=True)
class _Coming:
    node: Node
    made_s: float
    seen_s: float
    """Since when it has been heard of."""
    parts: tuple[BatchNode, ...]
    """Those that it has already."""


class ComingNodes:
    """The nodes of one cluster that are on their way; instants are epoch seconds."""

    def __init__(self, shapes: Mapping[str, Shape], levels: tuple[str, ...]) -> None:
        self._shapes, self._levels = shapes, levels
        self._boots = Boots()
        self._used: dict[str, str] = {}
        """Nodes that were seen usable, each with its uid."""
        self._coming: dict[str, _Coming] = {}
        self._kin_at: tuple[int, Mapping[_Kind, _Kin]] = (-1, {})
        """What nodes of the kinds of these have, as of a version of all nodes."""
        self._arrived: dict[str, float] = {}
        """Nodes that have just become usable, each with until when whose pods they came for has its turn."""

    def note(self, change: Change[Node], parts: Sequence[BatchNode], now_s: float) -> bool:
        """A node came, changed or went, and has these parts now; whether that says anything of what is on its way."""
        name, node, was = change.key, change.new, self._coming.pop(change.key, None)
        if node is None or (was is not None and was.node.metadata.uid != node.metadata.uid):
            self._used.pop(name, None)
            self._arrived.pop(name, None)
        if node is None:
            return was is not None
        made_s = epoch_s(node.metadata.creation_timestamp)
        usable = [part for part in parts if part.ready and not part.cordoned]
        if usable:
            self._learn(node, usable, made_s, now_s, was)
            return was is not None
        is_known = self._used.get(name) == node.metadata.uid
        if is_known or made_s is None or now_s >= made_s + OLDEST_S or not may_come(node, self._resources):
            return was is not None
        seen_s = now_s if was is None else was.seen_s
        new = self._coming[name] = _Coming(node, made_s, seen_s, tuple(replace(part, coming=True) for part in parts))
        return was is None or _facts(was) != _facts(new)

    def parts(
        self, known: Mapping[str, Sequence[BatchNode]], version: int, now_s: float
    ) -> Iterator[tuple[BatchNode, Due]]:
        """What is on its way, with when it is expected. `known` are the parts of all nodes that have some, and others
        where `version` is another one."""
        self._coming = {name: each for name, each in self._coming.items() if now_s < each.made_s + OLDEST_S}
        if self._kin_at[0] != version:
            self._kin_at = version, self._kin(known)
        for each in self._coming.values():
            for part in each.parts or self._guessed(each.node, self._kin_at[1]):
                due = self._boots.due(part.shape, each.made_s, now_s)
                if due is not None:
                    yield part, due

    def turns(self, now_s: float) -> Mapping[str, float]:
        """Nodes that can be used, and on which others' pods have their turn, each with until when."""
        self._arrived = {name: until_s for name, until_s in self._arrived.items() if now_s < until_s}
        return self._arrived

    def is_nobodys(self, name: str) -> None:
        """No pod of others waits for a node that can be used: whoever comes first gets it."""
        self._arrived.pop(name, None)

    @property
    def _resources(self) -> frozenset[str]:
        return frozenset(shape.resource for shape in self._shapes.values())

    def _learn(
        self, node: Node, usable: Sequence[BatchNode], made_s: float | None, now_s: float, was: _Coming | None
    ) -> None:
        """A node can be used: it came, or was there when it was first seen. One that was heard of late may have been of
        use before, and says nothing."""
        name, uid = node.metadata.name, node.metadata.uid
        is_news = self._used.get(name) != uid
        self._used[name] = uid
        if made_s is None or not is_news:
            return
        ready = ready_condition(node)
        ready_s = None if ready is None else epoch_s(ready.last_transition_time)
        for part in usable:
            if was is not None and was.seen_s <= made_s + YOUNG_S:
                self._boots.took(part.shape, now_s - made_s)
            elif was is None and ready_s is not None:
                self._boots.was_ready(part.shape, ready_s - made_s)
        if was is not None:
            self._arrived[name] = now_s + TURN_S

    def _kin(self, known: Mapping[str, Sequence[BatchNode]]) -> Mapping[_Kind, _Kin]:
        """What nodes that are not on their way have, by their kind, where one that is has to be known by them: there
        may be thousands of them, and a hundred that ask."""
        asked = {each.node.metadata.labels.get(INSTANCE_TYPE) for each in self._coming.values() if not each.parts}
        asked.discard(None)
        out: dict[_Kind, _Kin] = {}
        for name, parts in known.items() if asked else ():
            for part in parts if name not in self._coming else ():
                if part.labels.get(INSTANCE_TYPE) in asked:
                    shape = self._shapes[part.shape]
                    kin = out.setdefault((shape.resource, *_kind(part.labels)), _Kin(part))
                    kin.add(part, (shape.sku, shape.sharing, shape.parts))
        return out

    def _guessed(self, node: Node, kin: Mapping[_Kind, _Kin]) -> Iterator[BatchNode]:
        """The parts that a node will have which has none yet: those of others of its instance type, else what a label
        counts; none where they differ, or where its GPUs may be divided."""
        labels = node.metadata.labels
        kind, types = _kind(labels), {each[1] for each in kin}
        for resource in sorted(self._resources):
            mine = kin.get((resource, *kind))
            if mine is not None and not mine.differ:
                given = mine.labels | labels
                part = node_part(node, resource, mine.most.units, self._shapes, self._levels, labels=given)
                if part is not None:
                    cpu, memory_gib = part.cpu or mine.most.cpu, part.memory_gib or mine.most.memory_gib
                    yield replace(part, cpu=cpu, memory_gib=memory_gib, coming=True)
            elif kind[0] not in types:
                yield from self._as_counted(node, resource)

    def _as_counted(self, node: Node, resource: str) -> Iterator[BatchNode]:
        offers = [shape for shape in self._shapes.values() if shape.resource == resource]
        if resource.startswith(MIG) or any(shape.sharing is not Sharing.WHOLE for shape in offers):
            return
        counted = [
            text for label in COUNTS if (text := node.metadata.labels.get(label, "")).isascii() and text.isdecimal()
        ]
        if counted:
            part = node_part(node, resource, int(counted[0][:4]), self._shapes, self._levels)
            if part is not None:
                yield replace(part, coming=True)


def may_come(node: Node, resources: frozenset[str]) -> bool:
    """Whether nothing says of a node that it will take no pods: it is not cordoned, nobody takes it away, and all that
    keeps pods off it are taints that go once it has started, or those of `resources`, which gangs put up with."""
    meta = node.metadata
    if node.spec.unschedulable or meta.deletion_timestamp is not None or not meta.labels.get(HOSTNAME):
        return False
    return not any(
        taint.key.startswith(LEAVING)
        or (taint.effect in KEEPING_OFF and taint.key not in resources and not taint.key.startswith(BOOTING))
        for taint in node.spec.taints
    )


def _facts(coming: _Coming) -> object:
    """What of a node says what it will be."""
    return coming.made_s, coming.parts, coming.node.metadata.labels, coming.node.status.allocatable


def _kind(labels: Mapping[str, str]) -> _Kind:
    """The kind of a node with these labels, without a resource."""
    return labels.get(INSTANCE_TYPE, ""), *(labels.get(key, "") for key in DIVIDES)
