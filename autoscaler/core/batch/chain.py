"""Whether pods fit onto nodes, decided by counting.

Sizes that divide each other (1, 2, 4, 8, …) fit exactly when, for each size s, the nodes have as many whole slots of s
as the pods of that size and above ask for: every node offers floor(free / s), every pod of t >= s takes t / s. Placing
the largest first succeeds on any node that has a slot, because it takes the same number of slots of each smaller size
everywhere. For other sizes the same count, with floor(t / s), is necessary and not sufficient.
"""

from collections.abc import Iterable, Sequence

import numpy as np

from autoscaler.core.columns import I64


def chain(largest: int) -> tuple[int, ...]:
    """The powers of two up to the most units of a node."""
    return tuple(1 << at for at in range(max(1, largest).bit_length()))


def slots(free: I64, sizes: Sequence[int]) -> I64:
    """Slots by size that nodes with these free units offer; shape (nodes, sizes)."""
    return np.asarray(free[:, None] // np.asarray(sizes, dtype=np.int64)[None, :], dtype=np.int64)


def needed(pods: Iterable[tuple[int, int]], sizes: Sequence[int]) -> I64:
    """Slots by size that pods, as (units, count), take; shape (sizes,)."""
    return np.array([sum(count * (units // size) for units, count in pods) for size in sizes], dtype=np.int64)


def exact(units: int) -> bool:
    """Whether the count decides for pods of this size, and not only refutes."""
    return units & (units - 1) == 0


def orders(mix: dict[int, float], most: int, sizes: Iterable[int]) -> dict[int, tuple[int, ...]]:
    """For a pod of each size, in which order to try nodes by their free units.

    First where the expected fragment grows least, then the tightest. The fragment of a node with f free units is the
    mean of f mod s over the sizes s of the mix, weighted by how many units each asks for (after FGD, USENIX ATC 2023,
    for whole units); so whole nodes are left to those who need them.
    """
    total = sum(mix.values())
    levels = np.arange(most + 1)
    fragment = np.zeros(most + 1)
    for size, weight in sorted(mix.items()):
        fragment += weight / total * (levels % size)
    out: dict[int, tuple[int, ...]] = {}
    for size in sizes:
        growth = np.round(fragment[: most + 1 - size] - fragment[size:], 9) if size <= most else np.zeros(0)
        out[size] = tuple((np.argsort(growth, kind="stable") + size).tolist())
    return out
