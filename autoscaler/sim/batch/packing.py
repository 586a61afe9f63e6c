"""Static packing: gangs of a weight each for the free GPUs of racks, and a linear program that no packing beats.

Enters: a seed and sizes, or values. Leaves: an instance, its bound, and what a set of admitted gangs is worth. A gang's
worth is its weight times its GPUs. The bound lets a gang be cut into parts, but puts no part of one that must be in one
rack where the whole would not fit, and counts slots: pods of 1, 2, 4 and 8 GPUs fit nodes just as the count says.
"""

from dataclasses import dataclass
from typing import Final

import numpy as np
from scipy.optimize import linprog
from scipy.sparse import csr_array

from autoscaler.errors import HeadroomError, InputError
from autoscaler.sim.batch.free import Free
from autoscaler.sim.batch.work import Job, racks

SIZES: Final = (1, 2, 4, 8)
NODE_GPUS: Final = 8


@dataclass(frozen=True, slots=True)
class Packed:
    """A gang to be packed."""

    name: str
    pods: int
    gpus: int
    """Of each pod: 1, 2, 4 or 8."""
    weight: int
    in_one_rack: bool

    @property
    def worth(self) -> int:
        """Weight times GPUs."""
        return self.weight * self.pods * self.gpus


@dataclass(frozen=True, slots=True)
class Instance:
    """Free GPUs of each node by rack, and gangs."""

    free: tuple[tuple[int, ...], ...]
    gangs: tuple[Packed, ...]

    @property
    def total_gpus(self) -> int:
        """GPUs, free or not."""
        return sum(len(rack) for rack in self.free) * NODE_GPUS

    def worth(self, names: frozenset[str]) -> int:
        """What some of the gangs are worth."""
        return sum(gang.worth for gang in self.gangs if gang.name in names)


def drawn(racks_count: int, seed: int, *, per_rack: int = 18, gangs_each: int = 20) -> Instance:
    """Racks with 27 % of the GPUs taken at random, and more gangs than fit: pods of 1 to 8 GPUs, 1 to 32 of them.

    Three in five must be in one rack; weights are 1 to 4.
    """
    if racks_count < 1 or per_rack < 1 or gangs_each < 1:
        raise InputError(f"packing: {racks_count} racks of {per_rack} nodes, {gangs_each} gangs each; give 1 or more")
    rng = np.random.default_rng(seed)
    taken = rng.random((racks_count, per_rack, NODE_GPUS)) < 0.27
    gangs = []
    for at in range(racks_count * gangs_each):
        pods, gpus = int(rng.choice((1, 2, 4, 8, 16, 32))), int(rng.choice(SIZES))
        in_one_rack = bool(rng.random() < 0.6) and pods * gpus <= per_rack * NODE_GPUS
        gangs.append(Packed(f"g{at}", pods, gpus, int(rng.integers(1, 5)), in_one_rack))
    return Instance(tuple(tuple((NODE_GPUS - rack.sum(axis=1)).tolist()) for rack in taken), tuple(gangs))


def bound(instance: Instance) -> float:
    """The most that any packing is worth. HeadroomError where the solver gives up.

    One column for each gang that must be in one rack and each rack that holds it, and for each other gang and each rack
    at all; one row for each rack and size, and one for each gang: no more than all of it.
    """
    slots = np.array([[sum(free // size for free in rack) for size in SIZES] for rack in instance.free])
    columns = [
        (gang, rack)
        for gang, each in enumerate(instance.gangs)
        for rack in range(len(instance.free))
        if not each.in_one_rack or _fits(each, slots[rack])
    ]
    if not columns:
        return 0.0
    rows, at, values = [], [], []
    for column, (gang, rack) in enumerate(columns):
        each = instance.gangs[gang]
        for number, size in enumerate(SIZES):
            if size <= each.gpus:
                rows.append(rack * len(SIZES) + number)
                at.append(column)
                values.append(each.pods * each.gpus / size)
        rows.append(slots.size + gang)
        at.append(column)
        values.append(1.0)
    shape = (slots.size + len(instance.gangs), len(columns))
    result = linprog(
        [-float(instance.gangs[gang].worth) for gang, _ in columns],
        A_ub=csr_array((values, (rows, at)), shape=shape),
        b_ub=np.concatenate((slots.ravel(), np.ones(len(instance.gangs)))),
        method="highs",
    )
    if result.status != 0:
        raise HeadroomError(f"the bound of a packing was not solved: {result.message}")
    return -float(result.fun)


def _fits(gang: Packed, slots: np.ndarray) -> bool:
    """Whether a rack holds the whole gang alone."""
    return all(
        slots[number] >= gang.pods * gang.gpus // size for number, size in enumerate(SIZES) if size <= gang.gpus
    )  # fmt: skip


def best_fit(instance: Instance) -> frozenset[str]:
    """The plain greedy rival: by weight, then size, onto the fullest nodes of the first rack that holds the gang."""
    nodes = racks(len(instance.free) * len(instance.free[0]), per_rack=len(instance.free[0]))
    width = len(instance.free[0])
    whole = Free(nodes)
    by_rack = [Free(nodes, range(rack * width, (rack + 1) * width)) for rack in range(len(instance.free))]
    for at, free in enumerate(free for rack in instance.free for free in rack):
        for each in (whole, by_rack[at // width]):
            each.take(((at, NODE_GPUS - free),))
    admitted = set()
    for gang in sorted(instance.gangs, key=lambda each: (-each.weight, -each.pods * each.gpus)):
        job = Job(gang.name, "", 0.0, gang.pods, gang.gpus, 1.0, 1.0)
        places = by_rack if gang.in_one_rack else [whole]
        spots = next((found for found in (each.fit(job) for each in places) if found is not None), None)
        if spots is None:
            continue
        admitted.add(gang.name)
        whole.take(spots)
        for spot in spots:
            by_rack[spot[0] // width].take((spot,))
    return frozenset(admitted)
