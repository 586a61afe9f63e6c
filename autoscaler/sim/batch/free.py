"""Free GPUs of the nodes, as rivals keep them: how many slots of a size there are, and the tightest nodes for a gang.

Enters: nodes and what is taken or given back. Leaves: spots of a whole gang by best fit, or None with nothing changed.
"""

from collections.abc import Sequence

from autoscaler.core.batch.estate import NodeSeen
from autoscaler.sim.batch.plant import Spots
from autoscaler.sim.batch.work import Job


class Free:
    """Free GPUs of some nodes; `only` names those that count, all of them without it."""

    def __init__(self, nodes: Sequence[NodeSeen], only: Sequence[int] | None = None) -> None:
        self.free = [node.units for node in nodes]
        self._shape = [node.shape for node in nodes]
        most = max(self.free)
        self._levels: dict[str, list[dict[int, None]]] = {}
        for at in range(len(nodes)) if only is None else only:
            levels = self._levels.setdefault(self._shape[at], [{} for _ in range(most + 1)])
            levels[self.free[at]][at] = None

    def slots(self, shape: str, gpus: int) -> int:
        """Pods of so many GPUs that there is room for."""
        levels = self._levels.get(shape, [])
        return sum(len(levels[free]) * (free // gpus) for free in range(gpus, len(levels)))

    def fit(self, job: Job) -> Spots | None:
        """Where a gang would go, the fullest nodes first; exact for equal pods. Nothing is taken."""
        if self.slots(job.shape, job.gpus) < job.pods:
            return None
        left, spots = job.pods, []
        levels = self._levels[job.shape]
        for free in range(job.gpus, len(levels)):
            for node in levels[free]:
                pods = min(left, free // job.gpus)
                spots.append((node, pods * job.gpus))
                left -= pods
                if not left:
                    return tuple(spots)
        raise AssertionError("the count admitted a gang that has no room")

    def take(self, spots: Spots, sign: int = 1) -> None:
        """Take GPUs; give them back with sign -1."""
        for node, gpus in spots:
            levels = self._levels[self._shape[node]]
            del levels[self.free[node]][node]
            self.free[node] -= sign * gpus
            levels[self.free[node]][node] = None
