"""Which pods are where: slots by pool, and what each node has on it.

Enters: changes of all pods. Leaves: the slots of a pool, and per node the units of a resource that pods ask for, pods
that are nobody's slot and no daemon's, and whether the GPU operator has validated it. Kept as pods change, so that a
look does not walk over every pod of the cluster.
"""

from collections.abc import Iterable, Iterator
from typing import Final

from autoscaler.adapters.kube.informer import Change
from autoscaler.adapters.kube.membership import OVER
from autoscaler.adapters.kube.meta import quantity
from autoscaler.adapters.kube.pool_nodes import OnNode
from autoscaler.adapters.kube.pool_objects import PlacedPod
from autoscaler.adapters.kube.pool_slots import POOL, holds_for, is_slot, owned_by, pool_of
from autoscaler.errors import InputError

VALIDATOR: Final = "nvidia-operator-validator"
"""The label `app` of the pods with which the GPU operator validates a node."""

MIRROR: Final = "kubernetes.io/config.mirror"
"""An annotation of pods that a node runs by itself."""


EMPTY: Final = OnNode()
"""What is on a node without pods; one object, so that who compares by identity sees no change."""

Books = dict[str, dict[str, PlacedPod]]
"""Pods by their key, by what they are looked up by; without keys that have no pod."""


class Places:
    """The books; `namespace` is where slots are."""

    def __init__(self, namespace: str) -> None:
        self._namespace = namespace
        self._slots: Books = {}
        self._holders: Books = {}
        """By WarmPool: pods that hold places for gangs."""
        self._strange: dict[str, str] = {}
        """Names, by key, of pods where slots are that are neither slots nor hold a place."""
        self._on_node: Books = {}
        self._counted: dict[str, dict[tuple[str, str], OnNode]] = {}
        """By node with pods: what was counted of (resource, pool), until a pod on the node changes."""

    def note(self, change: Change[PlacedPod]) -> None:
        """A pod came, changed or went."""
        for pod in (change.old, change.new):
            if pod is not None and pod.spec.node_name:
                _drop(self._on_node, pod.spec.node_name, change.key)
                self._counted.pop(pod.spec.node_name, None)
        if change.old is not None:
            _drop(self._slots, pool_of(change.old) or "", change.key)
            _drop(self._holders, change.old.metadata.labels.get(POOL, ""), change.key)
            self._strange.pop(change.key, None)
        new = change.new
        if new is None:
            return
        if new.spec.node_name and new.status.phase not in OVER:
            self._on_node.setdefault(new.spec.node_name, {})[change.key] = new
        pool = pool_of(new)
        if pool is not None and new.metadata.namespace == self._namespace:
            self._slots.setdefault(pool, {})[change.key] = new
        elif holds_for(new.metadata, self._namespace) is not None:
            self._holders.setdefault(new.metadata.labels[POOL], {})[change.key] = new
        elif new.metadata.namespace == self._namespace:
            self._strange[change.key] = new.metadata.name

    def slots(self, pool: str, uid: str) -> Iterator[PlacedPod]:
        """The slots that the WarmPool of this name and uid owns."""
        return (pod for pod in self._slots.get(pool, {}).values() if owned_by(pod, uid))

    def taken(self, pool: str, uid: str) -> frozenset[str]:
        """Names of pods where slots are that are not of the WarmPool of this name and uid, as far as its slots may be
        called like them: pods that an earlier one of the name left, and such as are nobody's slots."""
        left = (pod.metadata.name for pod in self._slots.get(pool, {}).values() if not owned_by(pod, uid))
        return frozenset((*left, *self._strange.values()))

    def holders(self, pool: str, uid: str) -> Iterator[PlacedPod]:
        """The pods that hold places for gangs and that the WarmPool of this name and uid owns."""
        return (pod for pod in self._holders.get(pool, {}).values() if owned_by(pod, uid))

    def on_node(self, node: str, resource: str, pool: str) -> OnNode:
        """What is on a node, as a WarmPool sees it: another one's slots are foreign to it."""
        pods = self._on_node.get(node)
        if pods is None:
            return EMPTY
        counted = self._counted.setdefault(node, {})
        found = counted.get((resource, pool))
        if found is None:
            found = counted[resource, pool] = self._count(pods.values(), resource, pool)
        return found

    def _count(self, pods: Iterable[PlacedPod], resource: str, pool: str) -> OnNode:
        units, foreign, validated = 0, 0, False
        for pod in pods:
            units += units_of(pod, resource)
            foreign += is_foreign(pod, self._namespace, pool)
            if pod.metadata.labels.get("app") == VALIDATOR:
                validated = validated or any(c.type == "Ready" and c.status == "True" for c in pod.status.conditions)
        return OnNode(units, foreign, validated)


def _drop(books: Books, name: str, key: str) -> None:
    """Take a pod out, and what it was looked up by with the last one."""
    pods = books.get(name, {})
    pods.pop(key, None)
    if not pods:
        books.pop(name, None)


def is_foreign(pod: PlacedPod, namespace: str, pool: str) -> bool:
    """Whether a pod is neither a slot of this pool nor bound to its node."""
    if is_slot(pod.metadata, namespace) and pod.metadata.labels[POOL] == pool:
        return False
    if MIRROR in pod.metadata.annotations:
        return False
    return not any(owner.controller and owner.kind in {"DaemonSet", "Node"} for owner in pod.metadata.owner_references)


def units_of(pod: PlacedPod, resource: str) -> int:
    """Units of a resource that a pod asks for."""
    total = 0.0
    for container in pod.spec.containers:
        amount = container.resources.limits.get(resource, container.resources.requests.get(resource))
        if amount is not None:
            try:
                total += quantity(amount)
            except InputError:
                continue  # the API server lets no such pod in; a custom one counts as nothing
    return int(total)
