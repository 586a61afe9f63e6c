"""Pods that ask for shares of a GPU or for whole ones, on nodes of several models: best fit, and a bound.

Enters: the pods and nodes of a packing trace, a seed. Leaves: the part of all GPUs that is allocated, 0..1, once pods
have come that ask for all of them. Times are not used; who fits nowhere is passed over. Pods without a GPU and nodes
without one are left out.
"""

from collections import Counter
from collections.abc import Sequence
from typing import Final

import numpy as np
from scipy.optimize import linprog
from scipy.sparse import csr_array

from autoscaler.errors import HeadroomError, InputError
from autoscaler.sim.batch.files import Host, Pod

PARTS: Final = 1000
"""Parts of a GPU that shares are counted in."""

SLOTS: Final = (2, 4, 8)
"""Whole GPUs on one node that the bound counts by slots."""


def drawn(pods: Sequence[Pod], hosts: Sequence[Host], seed: int) -> tuple[Pod, ...]:
    """Pods drawn with replacement until they ask for as many GPUs as there are (after FGD, USENIX ATC 2023)."""
    asking = [pod for pod in pods if pod.gpus > 0]
    if not asking or not hosts:
        raise InputError(f"shares: {len(asking)} pods with a GPU, {len(hosts)} nodes; give 1 or more")
    rng = np.random.default_rng(seed)
    missing, out = float(sum(host.gpus for host in hosts)), list[Pod]()
    while missing > 0:
        out.append(asking[int(rng.integers(len(asking)))])
        missing -= out[-1].gpus
    return tuple(out)


def whole(pods: Sequence[Pod]) -> tuple[Pod, ...]:
    """Those that ask for whole GPUs of any model."""
    return tuple(pod for pod in pods if pod.gpus >= 1 and not pod.models)


def best_fit(pods: Sequence[Pod], hosts: Sequence[Host]) -> float:
    """The plain rival: each onto the node that has least left then, a share onto the fullest GPU that holds it.

    What is left is the sum of its free GPUs, cores and memory, each beside the most that a node has.
    """
    most = np.array([max(h.gpus for h in hosts) * PARTS, max(h.cpu for h in hosts), max(h.memory_gib for h in hosts)])
    left = np.array([(host.gpus * PARTS, host.cpu, host.memory_gib) for host in hosts], dtype=np.float64)
    cards = np.zeros((len(hosts), max(host.gpus for host in hosts)), dtype=np.int64)
    for at, host in enumerate(hosts):
        cards[at, : host.gpus] = PARTS
    models = np.array([host.model for host in hosts])
    allocated = 0.0
    for pod in pods:
        wanted = np.array([round(pod.gpus * PARTS), pod.cpu, pod.memory_gib])
        able = (left >= wanted).all(axis=1)
        if pod.models:
            able &= np.isin(models, list(pod.models))
        if pod.gpus < 1:
            able &= cards.max(axis=1) >= wanted[0]
        else:
            able &= (cards == PARTS).sum(axis=1) >= pod.gpus
        found = np.flatnonzero(able)
        if not found.size:
            continue
        node = int(found[np.argmin((left[found] / most).sum(axis=1))])
        row = cards[node]
        if pod.gpus < 1:
            row[np.argmin(np.where(row >= wanted[0], row, PARTS + 1))] -= int(wanted[0])
        else:
            row[np.flatnonzero(row == PARTS)[: int(pod.gpus)]] = 0
        left[node] -= wanted
        allocated += pod.gpus
    return allocated / sum(host.gpus for host in hosts)


def bound(pods: Sequence[Pod], hosts: Sequence[Host]) -> float:
    """The most that any packing allocates. HeadroomError where the solver gives up.

    Equal nodes are one, equal pods may be cut; a pod of whole GPUs takes whole slots of each size, and two shares
    above a half never one GPU.
    """
    kinds = Counter((host.model, host.gpus, host.cpu, host.memory_gib) for host in hosts)
    asked = Counter((pod.gpus, pod.models, pod.cpu, pod.memory_gib) for pod in pods)
    columns = [
        (pod, kind)
        for pod, (gpus, models, cpu, memory_gib) in enumerate(asked)
        for kind, (model, there, cores, memory) in enumerate(kinds)
        if gpus <= there and cpu <= cores and memory_gib <= memory and (not models or model in models)
    ]
    if not columns:
        return 0.0
    sizes = len(SLOTS) + 4
    limits = [_offered(*kind[1:], count) for kind, count in kinds.items()]
    rows, at, values = list[int](), list[int](), list[float]()
    classes = list(asked)
    for column, (pod, kind) in enumerate(columns):
        gpus, _, cpu, memory_gib = classes[pod]
        for number, value in enumerate(_taken(gpus, cpu, memory_gib)):
            if value:
                rows.append(kind * sizes + number)
                at.append(column)
                values.append(value)
        rows.append(len(kinds) * sizes + pod)
        at.append(column)
        values.append(1.0)
    result = linprog(
        [-classes[pod][0] for pod, _ in columns],
        A_ub=csr_array((values, (rows, at)), shape=(len(kinds) * sizes + len(asked), len(columns))),
        b_ub=np.concatenate((np.array(limits).ravel(), np.array(list(asked.values()), dtype=np.float64))),
        method="highs",
    )
    if result.status != 0:
        raise HeadroomError(f"the bound of openb's pods was not solved: {result.message}")
    return -float(result.fun) / sum(host.gpus for host in hosts)


def _taken(gpus: float, cpu: float, memory_gib: float) -> tuple[float, ...]:
    """What a pod takes of a node: GPUs, GPUs that no other such takes, slots, cores, memory."""
    alone = gpus if gpus >= 1 else float(gpus > 0.5)
    return gpus, alone, *(float(gpus // size) for size in SLOTS), cpu, memory_gib


def _offered(gpus: int, cpu: float, memory_gib: float, count: int) -> tuple[float, ...]:
    """What some equal nodes have of each."""
    return tuple(count * each for each in (gpus, gpus, *(gpus // size for size in SLOTS), cpu, memory_gib))
