"""Our own placement on a static packing: all gangs in one queue, the worthier first, then the larger.

Enters: an instance. Leaves: the gangs that one round of cycles admits. What is taken is somebody else's pods.
"""

from autoscaler.core.batch.cycle import Cycles
from autoscaler.core.batch.estate import NodeSeen
from autoscaler.core.batch.gangs import Form, Gang, PodSet, Topology
from autoscaler.core.batch.owners import PodSeen
from autoscaler.core.batch.params import BatchParams, QueueSpec, Shape
from autoscaler.core.batch.room import Room
from autoscaler.sim.batch.packing import NODE_GPUS, Instance

SHAPE = "gpu"


def ours(instance: Instance) -> frozenset[str]:
    """The gangs that are admitted."""
    room = Room(BatchParams((Shape(SHAPE),), (QueueSpec("all"),)))
    nodes, pods = [], []
    for rack, row in enumerate(instance.free):
        for at, free in enumerate(row):
            name = f"n{rack}-{at}"
            nodes.append(NodeSeen(name, SHAPE, NODE_GPUS, (f"r{rack}", name)))
            if free < NODE_GPUS:
                pods.append(PodSeen(name, SHAPE, NODE_GPUS - free))
    room.see(nodes, pods, 0.0)
    most = max((gang.weight for gang in instance.gangs), default=0)
    for gang in sorted(instance.gangs, key=lambda each: -each.pods * each.gpus):
        form = Form((PodSet(gang.pods, gang.gpus, SHAPE),), Topology("rack" if gang.in_one_rack else None))
        refused = room.submit(Gang(gang.name, "all", form, 0.0, gang.weight - most - 1), 0.0)
        assert refused is None, refused
    cycles = Cycles(room)
    admitted: set[str] = set()
    while True:
        done = cycles.cycle(0.0)
        admitted.update(each.gang for each in done.admitted)
        if not done.more:
            return frozenset(admitted)
