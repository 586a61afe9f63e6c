"""Nodes as batch admission takes them, and whose what is on them is.

Enters: nodes as they come, change and go, the pods on them. Leaves: the parts of each node by shape, and one look at
nodes and at pods of nobody's gang. A node that cannot be read stays what it was, and takes nobody.
"""

import math
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from autoscaler.adapters.kube.batch_coming import ComingNodes
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
        self._coming = ComingNodes(scope.shapes, scope.levels)
        self._over_s = math.inf
        """Until when what was seen last holds, though nothing is heard."""
        self.version = 0
        """Grows with every change."""

    def shapes_of(self, node: str) -> tuple[str, ...]:
        """The shapes that a node offers."""
        return tuple(part.shape for part in self._parts.get(node, ()))

    def hostnames(self, nodes: Iterable[str]) -> Mapping[str, str]:
        """By which label pods are held to each of these nodes; those that are gone are left out."""
        parts = {node: self._parts.get(node) for node in nodes}
        return {node: mine[0].hostname for node, mine in parts.items() if mine}

    def note(self, change: Change[Node], now_s: float) -> bool:
        """A node came, changed or went; whether that says anything."""
        made: tuple[BatchNode, ...] = ()
        if change.new is not None:
            made = node_parts(change.new, self._scope.shapes, self._scope.levels)
            made = with_held(made, self._parts.get(change.key, ()), self._held(change.key), self._resource_of)
        is_news = self._coming.note(change, made, now_s)
        if made == self._parts.get(change.key, ()) and not is_news:
            return False
        if made:
            self._parts[change.key] = made
        else:
            self._parts.pop(change.key, None)
        self.version += 1
        return True

    def is_over(self, now_s: float) -> bool:
        """Whether what was seen last is another by now, though nothing was heard: a node is late."""
        return now_s >= self._over_s

    def seen(self, nodes: Informer[Any], is_gang: Callable[[str], bool], now_s: float) -> Seen:
        """Nodes and pods now; `is_gang` says of which gangs pods count as theirs."""
        coming = self._coming.parts(self._parts, self.version, now_s)
        dues = {(part.name, part.shape): (part, due) for part, due in coming if part.name not in nodes.unread}
        parts = {(part.name, part.shape): part for mine in self._parts.values() for part in mine}
        parts |= {at: part for at, (part, _) in dues.items()}
        others, serving = list[PodSeen](), Counter[tuple[str, str]]()
        left = {at: self._left(part, is_gang, others, serving) for at, part in parts.items()}
        due_s = {at: (due.at_s, due.late_s) for at, (_, due) in dues.items()}
        turns = self._turns(parts, due_s, is_gang, others, now_s)
        self._over_s = min([due.until_s for _, due in dues.values()] + list(turns.values()), default=math.inf)
        found = list[NodeSeen]()
        for at, part in parts.items():
            node_due_s, late_s = due_s.get(at, (turns.get(part.name), None))
            found.append(
                NodeSeen(
                    part.name, part.shape, part.units, part.domains, *left[at],
                    cordoned=part.cordoned or part.name in nodes.unread, ready=part.ready, due_s=node_due_s,
                    late_s=late_s,
                )
            )  # fmt: skip
        return Seen(parts, tuple(found), tuple(others), serving)

    def _left(
        self,
        part: BatchNode,
        is_gang: Callable[[str], bool],
        others: list[PodSeen],
        serving: Counter[tuple[str, str]],
    ) -> tuple[float, float, float, float]:
        """Cores and GiB that pods of nobody's gang leave of a node, and those that pods hold which serve; these pods
        are added to `others`, and the units of those that serve to `serving`."""
        cpu, memory_gib = part.cpu, part.memory_gib
        serving_cpu = serving_gib = 0.0
        for pod in self._pods.on_node(part.name):
            if pod.gang is not None and is_gang(pod.gang):
                continue
            units = _units(pod, self._resource_of(part.shape))
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
        return max(0.0, cpu), max(0.0, memory_gib), serving_cpu, serving_gib

    def _turns(
        self,
        parts: Mapping[tuple[str, str], BatchNode],
        due_s: Mapping[tuple[str, str], tuple[float, float]],
        is_gang: Callable[[str], bool],
        others: list[PodSeen],
        now_s: float,
    ) -> dict[str, float]:
        """What pods that wait take of nodes that come for them, added to `others`: the nodes that come first are taken
        first. Leaves those that can be used already and on which they have their turn, each with until when."""
        turns = self._coming.turns(now_s)
        here = [at for at, part in parts.items() if part.name in turns and part.ready and not part.cordoned]
        open_to = [parts[at] for at in (*sorted(here), *sorted(due_s, key=lambda at: (due_s[at], at)))]
        taken = list(self._taken(open_to, is_gang)) if open_to else []
        others += taken
        names = {pod.node for pod in taken}
        for name in [name for name in turns if name not in names]:
            self._coming.is_nobodys(name)
        return {name: until_s for name, until_s in turns.items() if name in names}

    def _taken(self, open_to: Sequence[BatchNode], is_gang: Callable[[str], bool]) -> Iterator[PodSeen]:
        """What pods of nobody's gang that wait for a node take of these, the largest first, each whole on the first one
        that has room for it and that its selector does not rule out."""
        left = [part.units - self._held(part.name)(self._resource_of(part.shape)) for part in open_to]
        for resource in sorted({self._resource_of(part.shape) for part in open_to}):
            pods = [pod for pod in self._pods.wanting(resource) if pod.gang is None or not is_gang(pod.gang)]
            where = [at for at, part in enumerate(open_to) if self._resource_of(part.shape) == resource]
            for pod in sorted(pods, key=lambda each: (-_units(each, resource), each.key)):
                units = _units(pod, resource)
                mine = (at for at in where if left[at] >= units and not _rules_out(pod, open_to[at]))
                at = next(mine, None)
                if at is not None:
                    left[at] -= units
                    where = where if left[at] else [each for each in where if each != at]
                    owner = Owner.FOREIGN if holds_for(pod.meta, self._scope.slots) is not None else self._owner(pod)
                    yield PodSeen(open_to[at].name, open_to[at].shape, units, owner)

    def _held(self, node: str) -> Callable[[str], int]:
        """How many units of a resource pods hold on a node."""
        return lambda resource: sum(_units(pod, resource) for pod in self._pods.on_node(node))

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


def _units(pod: PlacedWork, resource: str) -> int:
    return math.ceil(pod.asks.units.get(resource, 0.0))


def _rules_out(pod: PlacedWork, part: BatchNode) -> bool:
    """Whether a pod's selector names another value of a label than a node has; one that is missing may come yet."""
    return any(part.labels.get(key, by) != by for key, by in (pod.selector or {}).items())
