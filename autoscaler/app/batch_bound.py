"""What the bound pods of gangs hold, in units of the shapes of their nodes, and what gangs ask for.

Enters: pods and work as they are followed. Leaves: figures of one gang, found anew each time. It knows no bookings, and
not who is to be where.
"""

from dataclasses import dataclass

from autoscaler.adapters.kube.batch_amounts import PodAsks
from autoscaler.adapters.kube.batch_cluster import BatchCluster


@dataclass(slots=True)
class Held:
    """What the bound pods of a gang hold on one node."""

    units: int = 0
    cpu: float = 0.0
    memory_gib: float = 0.0
    pods: int = 0


class BoundPods:
    """The bound pods of all gangs of one cluster."""

    def __init__(self, cluster: BatchCluster) -> None:
        self._cluster = cluster

    def come(self, name: str) -> int:
        """Pods of a gang that are bound to a node that is there, with GPUs or without."""
        return sum(self._cluster.has_node(pod.node) for pod in self._cluster.pods.of_gang(name).values())

    def lacks(self, name: str) -> bool:
        """Whether a pod that asks for units is bound to no node that is there; nobody places the others."""
        pods = self._cluster.pods.of_gang(name).values()
        return any(not self._cluster.has_node(pod.node) and self.any_units(pod.asks) for pod in pods)

    def of(self, name: str) -> dict[tuple[str, str], Held]:
        """What the bound pods of a gang hold, by node and shape."""
        out: dict[tuple[str, str], Held] = {}
        for pod in self._cluster.pods.of_gang(name).values():
            for shape in self._cluster.shapes_of(pod.node) if pod.node else ():
                units = self.units(pod.asks, shape)
                if units:
                    held = out.setdefault((pod.node, shape), Held())
                    held.units += units
                    held.cpu += pod.asks.cpu
                    held.memory_gib += pod.asks.memory_gib
                    held.pods += 1
        return out

    def any_units(self, asks: PodAsks) -> int:
        """What is asked for of the resources of all shapes."""
        return int(sum(asks.units.get(name, 0.0) for name in self._cluster.resources))

    def units(self, asks: PodAsks, shape: str) -> int:
        """What is asked for of the resource of one shape."""
        return int(asks.units.get(self._cluster.resource_of(shape), 0.0))

    def asked(self, name: str) -> int:
        """Units that a gang asks for, as its object says."""
        return sum(self.any_units(each.asks) * each.pods for each in self._cluster.works[name].sets)
