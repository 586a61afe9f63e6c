"""Nodes as batch admission takes them, and whose what is on them is.

Enters: nodes as they come, change and go, the pods on them. Leaves: the parts of each node by shape, and one look at
nodes and at pods of nobody's gang. A node that cannot be read stays what it was, and takes nobody.
"""

import math
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from autoscaler.adapters.kube.batch_nodes import BatchNode, node_parts, with_held
from autoscaler.adapters.kube.batch_pods import PlacedWork, WorkPods
from autoscaler.adapters.kube.batch_scope import BatchScope, Seen
from autoscaler.adapters.kube.informer import Change, Informer
from autoscaler.adapters.kube.pods import Node
from autoscaler.adapters.kube.pool_slots import holds_for, is_ours
from autoscaler.core.batch.estate import NodeSeen
from autoscaler.core.batch.owners import Owner, PodSeen


class SeenNodes:
    """The nodes of one cluster; `uid_of` is the UID of the object of a gang that is there."""

    def __init__(self, scope: BatchScope, pods: WorkPods, uid_of: Callable[[str], str | None]) -> None:
        self._scope, self._pods, self._uid_of = scope, pods, uid_of
        self._parts: dict[str, tuple[BatchNode, ...]] = {}
        self.version = 0
        """Grows with every change."""

    def shapes_of(self, node: str) -> tuple[str, ...]:
        """The shapes that a node offers."""
        return tuple(part.shape for part in self._parts.get(node, ()))

    def hostnames(self, nodes: Iterable[str]) -> Mapping[str, str]:
        """By which label pods are held to each of these nodes; those that are gone are left out."""
        parts = {node: self._parts.get(node) for node in nodes}
        return {node: mine[0].hostname for node, mine in parts.items() if mine}

    def note(self, change: Change[Node]) -> bool:
        """A node came, changed or went; whether that says anything."""
        made: tuple[BatchNode, ...] = ()
        if change.new is not None:
            made = node_parts(change.new, self._scope.shapes, self._scope.levels)
            made = with_held(made, self._parts.get(change.key, ()), self._held(change.key), self._resource_of)
        if made == self._parts.get(change.key, ()):
            return False
        if made:
            self._parts[change.key] = made
        else:
            del self._parts[change.key]
        self.version += 1
        return True

    def seen(self, nodes: Informer[Any], is_gang: Callable[[str], bool]) -> Seen:
        """Nodes and pods now; `is_gang` says of which gangs pods count as theirs."""
        parts: dict[tuple[str, str], BatchNode] = {}
        found, others, serving = list[NodeSeen](), list[PodSeen](), Counter[tuple[str, str]]()
        for mine in self._parts.values():
            for part in mine:
                cpu, memory_gib = part.cpu, part.memory_gib
                serving_cpu = serving_gib = 0.0
                for pod in self._pods.on_node(part.name):
                    if pod.gang is not None and is_gang(pod.gang):
                        continue
                    units = math.ceil(pod.asks.units.get(self._scope.shapes[part.shape].resource, 0.0))
                    whose = self._held_for(pod)
                    if whose is not None:  # it makes way for the gang, with what it asks for besides
                        others.append(PodSeen(part.name, part.shape, units, Owner.RESERVED, whose))
                        continue
                    cpu, memory_gib = cpu - pod.asks.cpu, memory_gib - pod.asks.memory_gib
                    if units:
                        owner = self._owner(pod)
                        others.append(PodSeen(part.name, part.shape, units, owner))
                        if owner is Owner.SERVING:
                            serving[pod.meta.namespace, part.shape] += units
                            serving_cpu, serving_gib = serving_cpu + pod.asks.cpu, serving_gib + pod.asks.memory_gib
                parts[part.name, part.shape] = part
                found.append(
                    NodeSeen(
                        part.name, part.shape, part.units, part.domains, max(0.0, cpu), max(0.0, memory_gib),
                        serving_cpu, serving_gib,
                        cordoned=part.cordoned or part.name in nodes.unread, ready=part.ready,
                    )
                )  # fmt: skip
        return Seen(parts, tuple(found), tuple(others), serving)

    def _held(self, node: str) -> Callable[[str], int]:
        """How many units of a resource pods hold on a node."""
        return lambda resource: sum(math.ceil(pod.asks.units.get(resource, 0.0)) for pod in self._pods.on_node(node))

    def _resource_of(self, shape: str) -> str:
        return self._scope.shapes[shape].resource

    def _held_for(self, pod: PlacedWork) -> str | None:
        """The gang that is there, and whose place a pod of ours holds."""
        gang, uid = holds_for(pod.meta, self._scope.slots) or ("", "")
        return gang if gang and self._uid_of(gang) == uid else None

    def _owner(self, pod: PlacedWork) -> Owner:
        if is_ours(pod.meta, self._scope.slots):
            return Owner.STANDBY
        return Owner.SERVING if self._scope.serves(pod.key) else Owner.FOREIGN
