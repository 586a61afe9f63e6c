"""What queues may use and how they share, as frozen values in units of a shape and seconds.

Enters: nothing; a tree of BatchQueues compiles into these. Rules that join fields and queues are checked here, once,
for every way in: a tree that cannot be served is refused with the field, its value and the remedy.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Final

UNLIMITED: Final = 2**40
PER_DEVICE: Final = 1000
"""Thousandths of a device: what shares are counted in."""
"""Units; more than any cluster has, and far from where sums overflow."""

LEVELS: Final = ("rack", "island")
"""Topology levels above the node, coarse to fine; an island is one NVLink domain."""


class Order(Enum):
    """How a queue takes its own gangs."""

    FAIR = "fair"
    """A gang that does not fit lets the next one pass; shorter ones go first, within bounds (`backlog.PATIENCE`)."""
    STRICT = "strict"
    """The oldest gang blocks the others."""


@dataclass(frozen=True, slots=True)
class Shape:
    """One kind of GPU capacity: SKU class, capacity type, whole or slice."""

    name: str
    speed: float = 1.0
    """Work of one physical GPU beside the reference GPU's; shares count GPUs by it."""
    parts: int = 1
    """Units one physical GPU is divided into; 1 for whole GPUs."""
    shared: bool = False
    """Whether pods may ask for a share of one of its GPUs, and for models of it; quotas count it in thousandths."""

    @property
    def weight(self) -> float:
        """What one unit counts in shares, in reference GPUs."""
        return self.speed / self.parts

    @property
    def grain(self) -> int:
        """What one unit counts in quotas: 1, or 1,000 where shares of it are asked for."""
        return PER_DEVICE if self.shared else 1


@dataclass(frozen=True, slots=True)
class Quota:
    """What one queue may hold of one shape, its children included; units."""

    guaranteed: int = 0
    """What others give back when it is wanted. Of an inner queue: shared by its children, in all at least theirs."""
    limit: int = UNLIMITED
    """The most it may ever hold."""
    lendable: int = UNLIMITED
    """How much of what is guaranteed and idle others may use."""
    borrowable: int = UNLIMITED
    """How much it may use of what others leave idle."""


@dataclass(frozen=True, slots=True)
class QueueSpec:
    """One queue of the tree."""

    name: str
    parent: str | None = None
    """None for a queue at the top."""
    weight: float = 1.0
    """Its part of what is shared, beside its siblings'."""
    quotas: Mapping[str, Quota] = field(default_factory=dict)
    """By shape. A shape that is not named is not guaranteed, and may be borrowed."""
    order: Order = Order.FAIR
    min_runtime_s: float = 0.0
    """A gang that was admitted is left alone for this long: a lease."""
    grace_s: float = 60.0
    """How long a gang waits before what its queue is guaranteed, or its priority, is worth any cost to others.

    For a fair share beyond that, others give way only where less is lost than waiting costs.
    """
    reclaims: bool = True
    """Whether it makes others give way at all."""
    preempts_own: bool = True
    """Whether its gangs of higher priority make its own lower ones give way."""


@dataclass(frozen=True, slots=True)
class BatchParams:
    """Shapes, the tree, and how a cycle works. Raises ValueError naming field, value and remedy."""

    shapes: tuple[Shape, ...]
    queues: tuple[QueueSpec, ...]
    levels: tuple[str, ...] = LEVELS
    serving_priority: int = 0
    """Batch work has a priority below this one, or it is refused."""
    half_life_s: float = 24 * 3600.0
    """Of the used GPU-seconds that break ties; 24 h (papers on decayed fair share use hours to days)."""
    reserve_after_s: float = 30.0
    """How long a gang waits for room before it may hold a reservation (a guess)."""
    expected_s: float = 4 * 3600.0
    """How long a gang is taken to run while neither it nor its queue's past says (a guess)."""
    restart_s: float = 120.0
    """From an eviction to work again, where a gang does not say (a guess)."""
    stuck_s: float = 120.0
    """A gang that holds its GPUs still so long after its stop was written is not counted on (KAI: two minutes).

    One that was lent to has its notice besides: whoever lends waits for the checkpoint that was asked for.
    """
    max_evictions: int = 3
    """Of one gang, whatever for: from then on it gives way to guarantees and to serving only (a guess)."""
    max_admissions: int = 500
    """In one cycle, so that a cycle stays short; what is left is taken up by the next one at once."""
    max_searches: int = 8
    """Searches for victims that succeed, in one cycle."""

    def __post_init__(self) -> None:
        _need(bool(self.shapes), "shapes", "none", "name at least one")
        _unique([shape.name for shape in self.shapes], "shapes")
        for shape in self.shapes:
            of = f"shapes[{shape.name}]"
            _need(math.isfinite(shape.speed) and shape.speed > 0, f"{of}.speed", shape.speed, "give more than 0")
            _need(1 <= shape.parts <= 64, f"{of}.parts", shape.parts, "give 1 to 64")
            whole = shape.parts == 1 or not shape.shared
            _need(whole, f"{of}.shared", f"with {shape.parts} parts", "share whole GPUs only, or leave it out")
        _need(bool(self.queues), "queues", "none", "make at least one")
        _unique([queue.name for queue in self.queues], "queues")
        for name in ("half_life_s", "expected_s", "stuck_s"):
            value = getattr(self, name)
            _need(math.isfinite(value) and value > 0, name, value, "give more than 0 s")
        for name in ("max_evictions", "max_admissions", "max_searches"):
            _need(getattr(self, name) >= 1, name, getattr(self, name), "give 1 or more")
        known = {shape.name for shape in self.shapes}
        for queue in self.queues:
            _check_queue(queue, known)
        _check_tree(self.queues)
        for shape in self.shapes:
            _check_guarantees(self.queues, shape.name)


def _check_queue(queue: QueueSpec, shapes: set[str]) -> None:
    of = f"queues[{queue.name}]"
    _need(bool(queue.name), "queues.name", "empty", "name every queue")
    weighs = math.isfinite(queue.weight) and queue.weight > 0
    _need(weighs, f"{of}.weight", queue.weight, "give more than 0; a queue that shall only get the rest takes 0.001")
    for name in ("min_runtime_s", "grace_s"):
        value = getattr(queue, name)
        _need(math.isfinite(value) and value >= 0, f"{of}.{name}", value, "give 0 s or more")
    for shape, quota in queue.quotas.items():
        where = f"{of}.quotas[{shape}]"
        _need(shape in shapes, where, "unknown shape", f"name one of {', '.join(sorted(shapes))}, or add it to shapes")
        for name in ("guaranteed", "limit", "lendable", "borrowable"):
            value = getattr(quota, name)
            _need(0 <= value <= UNLIMITED, f"{where}.{name}", value, f"give 0 to {UNLIMITED} units")
        fits = quota.guaranteed <= quota.limit
        _need(
            fits, f"{where}.limit", f"{quota.limit} is below guaranteed {quota.guaranteed}", "raise it, or promise less"
        )


def _check_tree(queues: tuple[QueueSpec, ...]) -> None:
    parents = {queue.name: queue.parent for queue in queues}
    for queue in queues:
        known = queue.parent is None or queue.parent in parents
        _need(known, f"queues[{queue.name}].parent", repr(queue.parent), "make that queue, or leave the parent out")
    sound: set[str] = set()
    for queue in queues:
        path: list[str] = []
        at: str | None = queue.name
        while at is not None and at not in sound:
            circle = " -> ".join([*path[path.index(at) :], at]) if at in path else ""
            _need(not circle, f"queues[{at}].parent", f"the parents go in a circle: {circle}", "leave one parent out")
            path.append(at)
            at = parents[at]
        sound.update(path)


def _check_guarantees(queues: tuple[QueueSpec, ...], shape: str) -> None:
    """An inner queue that states a guarantee states at least its children's."""
    own = {queue.name: queue.quotas.get(shape, Quota()).guaranteed for queue in queues}
    stated = {queue.name for queue in queues if shape in queue.quotas}
    sums: dict[str, int] = {}
    for queue in queues:
        if queue.parent is not None:
            sums[queue.parent] = sums.get(queue.parent, 0) + own[queue.name]
    for name, total in sums.items():
        _need(
            name not in stated or total <= own[name],
            f"queues[{name}].quotas[{shape}].guaranteed",
            f"{own[name]} is less than the {total} of its children",
            "raise it, promise the children less, or leave the shape out of the parent",
        )


def _unique(names: list[str], field_name: str) -> None:
    seen: set[str] = set()
    for name in names:
        _need(name not in seen, field_name, f"{name!r} stands twice", "give each its own name")
        seen.add(name)


def _need(condition: bool, field_name: str, value: object, remedy: str) -> None:
    if not condition:
        raise ValueError(f"batch.{field_name}: {value}; {remedy}")
