"""What a plant of nodes and warm slots is made of, and how long the stages of a start take.

Enters: nothing. Leaves: tiers, nodes and slots as the plant moves them on, the node that a replica got, and counts for
the score. The medians of the stages are inputs, published ones by default; they decide nothing here.
"""

from dataclasses import dataclass, field

import numpy as np

from autoscaler.core.pool.intents import CreateSlot
from autoscaler.core.pool.params import CapacityType


@dataclass(frozen=True, slots=True)
class Stages:
    """Medians of the stages in seconds and how much they vary; lognormal."""

    launch_s: float = 284.0
    register_s: float = 20.0
    gpu_s: float = 126.0
    image_s: float = 101.0
    weights_s: float = 62.0
    spread: float = 0.2
    again_s: float = 12.0
    """From the order to warm on a node that has it all."""

    def draw(self, rng: np.random.Generator) -> np.ndarray:
        """One start: five durations in seconds."""
        medians = np.array([self.launch_s, self.register_s, self.gpu_s, self.image_s, self.weights_s])
        return np.asarray(medians * np.exp(rng.normal(0.0, self.spread, medians.size)))


@dataclass(frozen=True, slots=True)
class PlantTier:
    """One NodePool: where it stands, when it has no capacity, and whether its GPUs ever come."""

    name: str
    sku: str
    capacity_type: CapacityType = CapacityType.ON_DEMAND
    zone: str = "a"
    out_s: tuple[tuple[float, float], ...] = ()
    """Windows in which no node can be had."""
    gpu_comes: bool = True


@dataclass(slots=True)
class Node:
    """One node from the launch of its claim on."""

    name: str
    tier: PlantTier
    created_s: float
    launched_s: float
    registered_s: float
    gpu_s: float
    holds: str | None = None
    """The slot or replica on it."""
    free_since_s: float = 0.0
    has_content: bool = False
    content_s: float = 0.0
    """When a replica on it has image and weights there."""
    interrupted: bool = False


@dataclass(slots=True)
class Slot:
    """One slot pod."""

    name: str
    uid: str
    order: CreateSlot
    created_s: float
    took_s: np.ndarray
    node: Node | None = None
    bound_s: float | None = None
    images_s: float | None = None
    warm_s: float | None = None
    retry_s: float = 0.0
    failed: str | None = None


@dataclass(frozen=True, slots=True)
class Taken:
    """The node that a new replica got."""

    wait_s: float
    """Until it has image and weights; 0 for a warm one."""
    own: bool
    """Whether it is launched for the replica."""


@dataclass(slots=True)
class Counts:
    """What a run cost and gave, in slots and slot-seconds."""

    hits: int = 0
    misses: int = 0
    idle_warm_s: float = 0.0
    starting_s: float = 0.0
    free_node_s: float = 0.0
    creates: int = 0
    deletes: int = 0
    create_times_s: list[float] = field(default_factory=list)
