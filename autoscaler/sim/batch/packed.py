"""Our own placement on a static packing: all gangs in one queue, in the order of their worth or in that they came in.

Enters: an instance, or pods and nodes. Leaves: what one round of cycles admits. What is taken is somebody else's pods.
"""

from collections.abc import Sequence
from typing import Final

from autoscaler.core.batch.cycle import Cycles
from autoscaler.core.batch.estate import NodeSeen
from autoscaler.core.batch.gangs import Form, Gang, PodSet, Topology
from autoscaler.core.batch.owners import PodSeen
from autoscaler.core.batch.params import BatchParams, QueueSpec, Shape
from autoscaler.core.batch.room import Room
from autoscaler.errors import InputError
from autoscaler.sim.batch.files import Host, Pod
from autoscaler.sim.batch.packing import NODE_GPUS, Instance
from autoscaler.sim.batch.shares import PARTS

SHAPE = "gpu"
LOOK_EVERY: Final = 500
"""Pods that come between two looks at the nodes; a live driver looks every few seconds."""


def ours(instance: Instance) -> frozenset[str]:
    """The gangs that are admitted: the worthier first, then the larger."""
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
    return _admitted(room)


def whole_pods(pods: Sequence[Pod], hosts: Sequence[Host]) -> float:
    """The part of all GPUs that pods of whole GPUs of any model get, each tried in its turn.

    InputError for a pod that asks for a share, or for a model: a queue knows one kind of GPU in whole units.
    """
    for pod in pods:
        if pod.models or pod.gpus != int(pod.gpus):
            raise InputError(f"{pod.name}: a pod of {pod.gpus} GPUs, of {sorted(pod.models)}; give whole ones of any")
    room = Room(BatchParams((Shape(SHAPE),), (QueueSpec("all"),)))
    nodes = [
        NodeSeen(f"n{at}", SHAPE, host.gpus, cpu=host.cpu, memory_gib=host.memory_gib) for at, host in enumerate(hosts)
    ]
    room.see(nodes, (), 0.0)
    for at, pod in enumerate(pods):
        form = Form((PodSet(1, int(pod.gpus), SHAPE, pod.cpu, pod.memory_gib),))
        refused = room.submit(Gang(str(at), "all", form, float(at), -1), 0.0)
        assert refused is None, refused
    return sum(pods[int(name)].gpus for name in _admitted(room)) / sum(host.gpus for host in hosts)


def _admitted(room: Room) -> frozenset[str]:
    cycles = Cycles(room)
    admitted: set[str] = set()
    while True:
        done = cycles.cycle(0.0)
        admitted.update(each.gang for each in done.admitted)
        if not done.more:
            return frozenset(admitted)


def every_pod(pods: Sequence[Pod], hosts: Sequence[Host], look_every: int = LOOK_EVERY) -> float:
    """The part of all GPUs that pods get, shares and models included, as they come: who fits nowhere is passed over.

    What is to come is not known: kinds are scored by those that came before, as of the last look at the nodes.
    """
    room = Room(BatchParams((Shape(SHAPE, shared=True),), (QueueSpec("all"),)))
    nodes = [
        NodeSeen(f"n{at}", SHAPE, host.gpus, cpu=host.cpu, memory_gib=host.memory_gib, model=host.model)
        for at, host in enumerate(hosts)
    ]
    cycles, allocated = Cycles(room), 0.0
    for at, pod in enumerate(pods):
        if at % look_every == 0:
            room.see(nodes, (), float(at))
        share = round(pod.gpus * PARTS) if pod.gpus < 1 else 0
        units = 0 if share else int(pod.gpus)
        form = Form((PodSet(1, units, SHAPE, pod.cpu, pod.memory_gib, share, pod.models),))
        refused = room.submit(Gang(str(at), "all", form, float(at), -1), float(at))
        assert refused is None, refused
        if cycles.cycle(float(at)).admitted:
            allocated += pod.gpus
        else:
            room.cancel(str(at), float(at))
    return allocated / sum(host.gpus for host in hosts)
