"""What shall be done: the whole interface from this room to adapters, and the decision that explains it.

Every intent names one object and why. An adapter carries it out as it stands: deletions with the uid as precondition,
creations under the given name (a name that exists already is a success), patches of the named fields only.
"""

from dataclasses import dataclass
from enum import Enum

from autoscaler.core.pool.params import CapacityType
from autoscaler.core.pool.reasons import PoolReason
from autoscaler.core.types import Evidence


@dataclass(frozen=True, slots=True)
class CreateSlot:
    """Make one slot pod; it is pinned to the tier's NodePool, and to the zone where one is given."""

    name: str
    tier: str
    node_pool: str
    zone: str | None
    content: str
    life_s: float
    """Its active deadline."""
    reason: PoolReason
    apart: bool = False
    """It goes on no node with a slot that says that its node ends."""


@dataclass(frozen=True, slots=True)
class CreateHolder:
    """Make one pod that holds the place of a gang's pod; it is pinned to the tier's NodePool."""

    name: str
    tier: str
    node_pool: str
    gang: str
    gang_uid: str
    units: int
    cpu: float
    memory_gib: float
    life_s: float
    """Its active deadline."""
    reason: PoolReason
    selector: tuple[tuple[str, str], ...] = ()
    """Labels that its node must have besides."""


@dataclass(frozen=True, slots=True)
class DeleteSlot:
    """Delete one pod that carries our labels: a slot, or one that holds the place of a gang's pod."""

    name: str
    uid: str
    reason: PoolReason
    of_gang: bool = False
    """Whether it holds a gang's place, and is no slot."""


@dataclass(frozen=True, slots=True)
class MarkSlot:
    """Write the workload that a slot is kept for into its annotation; None takes the mark away."""

    name: str
    uid: str
    lease: str | None
    reason: PoolReason


@dataclass(frozen=True, slots=True)
class MarkNodeEnds:
    """Let a slot say that its node ends, for the scheduler to keep its successors off it."""

    name: str
    uid: str
    reason: PoolReason


@dataclass(frozen=True, slots=True)
class DeleteClaim:
    """Delete one NodeClaim on whose node no foreign pod runs; the adapter looks once more before it does."""

    name: str
    uid: str
    node_pool: str
    reason: PoolReason


@dataclass(frozen=True, slots=True)
class CreateNodePool:
    """Make the NodePool of a tier, which is ours and is not there."""

    name: str
    tier: str
    capacity_type: CapacityType
    limit_gpus: int | None
    limit_nodes: int | None
    reason: PoolReason


@dataclass(frozen=True, slots=True)
class PatchNodePool:
    """Set the safe fields of a NodePool that is ours: limits, and how many nodes drift may replace at once."""

    name: str
    limit_gpus: int | None
    limit_nodes: int | None
    drifted_budget: int
    reason: PoolReason
    lifts_gpus: bool = False
    """It has a limit of GPUs that its tier has not: whoever set it, it is taken away."""
    lifts_nodes: bool = False


Intent = CreateSlot | CreateHolder | DeleteSlot | MarkSlot | MarkNodeEnds | DeleteClaim | CreateNodePool | PatchNodePool


@dataclass(frozen=True, slots=True)
class PoolStep:
    """One change of the number of slots, or a refusal, with the evidence that caused it."""

    stage: str
    before: int
    after: int
    reason: PoolReason
    evidence: Evidence = ()


class Aspect(Enum):
    """What is told of a pool as true, false or unknown."""

    READY = "Ready"
    """The target is met by warm slots."""
    SIGNALS_FRESH = "SignalsFresh"
    CAPACITY_AVAILABLE = "CapacityAvailable"
    NODE_POOLS_USABLE = "NodePoolsUsable"
    GPUS_USABLE = "GpusUsable"
    CONTENT_WARMS = "ContentWarms"
    """Images and weights arrive in the slots."""
    WITHIN_LIMITS = "WithinLimits"
    DRIFT_HELD = "DriftHeld"
    PRIORITY_USABLE = "PriorityUsable"
    SLOTS_DELETABLE = "SlotsDeletable"
    MODELS_SUPPORTED = "ModelsSupported"
    LOANS_GIVEN_BACK = "LoansGivenBack"
    """What gangs were called back from is free again in time."""


@dataclass(frozen=True, slots=True)
class Condition:
    """One aspect of a pool now; `holds` is None while it is not known."""

    aspect: Aspect
    holds: bool | None
    word: str
    """Why, as one word for programs."""
    message: str
    """Why and what to do, as a sentence."""


@dataclass(frozen=True, slots=True)
class PoolDecision:
    """What one step wants for one pool, and what it counted."""

    pool: str
    now_s: float
    supply: int
    """Slots that count: warm, and under way with credit."""
    warm: int
    target: int
    keep: int
    """Slots that are not deleted though the target may be lower."""
    reason: PoolReason
    trace: tuple[PoolStep, ...]
    by_stage: tuple[tuple[str, int], ...]
    """Slots in each stage of their life."""
    refill_s: float | None = None
    """How long a new slot takes to be warm in nine of ten cases, those that fail included; None where nothing was
    read."""
