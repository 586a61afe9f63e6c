"""What pods of a WarmPool say of themselves where its spec cannot be read.

Enters: its slots, pods that hold places for gangs, whether a node was launched for a pod. Leaves: what they ask of
NodePools and has no node yet, as other pools of these count it, and the places that are held. How many parts of a GPU a
unit is stands in the spec's shapes: each counts as a whole GPU, which is never too few.
"""

from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from autoscaler.adapters.kube.membership import OVER
from autoscaler.adapters.kube.pool_holder_pod import holder_seen
from autoscaler.adapters.kube.pool_objects import PlacedPod
from autoscaler.adapters.kube.pool_places import units_of
from autoscaler.core.pool.world import AskedOf, HolderSeen


@dataclass(frozen=True, slots=True)
class Left:
    """What there is of a WarmPool that cannot be read."""

    asked: tuple[AskedOf, ...]
    holders: tuple[HolderSeen, ...]


def left_of(
    slots: Iterable[PlacedPod], holders: Iterable[PlacedPod], label: str, launched: Callable[[PlacedPod], bool]
) -> Left:
    """The pods of one pool; `label` is of nodes, with the name of their NodePool."""
    holding = list(holders)
    gpus, nodes = Counter[str](), Counter[str]()
    for pod in (*slots, *holding):
        is_over = pod.metadata.deletion_timestamp is not None or pod.status.phase in OVER
        if not (is_over or pod.spec.node_name or launched(pod)):
            gpus[pod.spec.node_selector.get(label, "")] += units_of(pod, _resource(pod))
            nodes[pod.spec.node_selector.get(label, "")] += 1
    asked = tuple(AskedOf(name, float(gpus[name]), number) for name, number in sorted(nodes.items()))
    return Left(asked, tuple(holder_seen(pod, _resource(pod)) for pod in holding))


def _resource(pod: PlacedPod) -> str:
    """The extended resource that a pod of ours asks for: it is one."""
    named = (name for each in pod.spec.containers for name in (*each.resources.limits, *each.resources.requests))
    return next((name for name in named if "/" in name), "")
