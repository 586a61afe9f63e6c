"""What was observed of one pool, as frozen values: the whole interface from adapters to this room.

Instants are seconds of one origin. None means not known or not yet, which is never zero: a list that is None was not
read, one that is empty was. A label, a taint or a condition is the adapter's to read; names of objects are opaque here.
"""

from dataclasses import dataclass
from enum import Enum

from autoscaler.core.pool.params import CapacityType, Domain, Sharing


@dataclass(frozen=True, slots=True)
class SlotSeen:
    """One slot pod of this pool, whoever made it by our labels; all instants come from its own status."""

    name: str
    uid: str
    tier: str
    """The tier it was made for, from its label."""
    created_s: float
    content: str
    """The digest it was made for, from its annotation."""
    zone: str | None = None
    """The zone it is pinned to; None where the scheduler chooses."""
    node: str | None = None
    """The node it is bound to."""
    claim: str | None = None
    """The NodeClaim that Karpenter nominated it to, while it is not bound."""
    scheduled_s: float | None = None
    images_s: float | None = None
    """When the last init container that pulls an image had ended well."""
    digests: str = ""
    """What the tags of its images stood for when they were pulled; empty before all were, or where nobody says."""
    weights_s: float | None = None
    """When the last init container that fetches weights had ended well."""
    ready_s: float | None = None
    """Since when the pod is ready; None while it is not."""
    unready_s: float | None = None
    """Since when it is not ready, for the first time or again; None while it is."""
    deadline_s: float | None = None
    """When its own active deadline ends it."""
    deleting_s: float | None = None
    failed: str | None = None
    """The pod's own words: its phase is Failed, or an init container keeps failing."""
    lease: str | None = None
    """The workload it is marked for, from its annotation."""
    leased_s: float | None = None
    node_pool: str = ""
    """The NodePool that it is pinned to; empty where it does not say."""
    units: int | None = None
    """Units of the slots' resource that it asks for; None where that was not read."""
    node_ends: bool = False
    """It says that its node ends: what is to be apart from such slots goes on no node with one."""


@dataclass(frozen=True, slots=True)
class NodeSeen:
    """One node of the pool's NodePools."""

    name: str
    node_pool: str
    sku: str
    zone: str
    capacity_type: CapacityType
    created_s: float
    claim: str | None = None
    ready: bool = True
    units: int | None = None
    """Allocatable units of the slot's resource; None before a device plugin registered it."""
    free_units: int = 0
    """Units that no pod on the node asks for."""
    sharing: Sharing = Sharing.WHOLE
    parts: int = 1
    """Units one physical GPU is divided into, from the replicas or profile label; 1 for whole GPUs."""
    labelled: bool = True
    """Whether it tells both; False where slots hold parts of GPUs and nobody says yet how the node's are divided."""
    expected_units: int | None = None
    """What the instance type promised; None where nobody says."""
    validated: bool | None = None
    """The GPU operator's validation; None where nobody validates."""
    gating_taints: tuple[str, ...] = ()
    """Startup and readiness taints that are still there."""
    cordoned: bool = False
    interrupted: bool = False
    """The provider will take it: an interruption taint, or a claim that is being deleted."""
    drifted: bool = False
    ends_s: float | None = None
    """The end of a capacity block."""
    ends_unread: str = ""
    """What it says of that end where it is no date and time with an offset."""
    gpu_ready_s: float | None = None
    """When its GPUs became usable, as far as known."""
    unusable_since_s: float | None = None
    """Since when it is not ready, a gating taint is back, or it was seen without what slots need."""
    ready_s: float | None = None
    """Since when it is ready, for the first time or again; None while it is not, or where it does not say."""
    driver: tuple[int, ...] | None = None
    cuda: tuple[int, ...] | None = None
    foreign_pods: int = 0
    """Pods on it that are neither slots of ours nor of a DaemonSet."""
    disk_full: bool = False
    """Its kubelet is short of disk: it has deleted images that no container runs, a slot's among them, and lets no
    further pod in."""


@dataclass(frozen=True, slots=True)
class ClaimSeen:
    """One NodeClaim of the pool's NodePools."""

    name: str
    uid: str
    node_pool: str
    created_s: float
    domain: Domain
    launched_s: float | None = None
    registered_s: float | None = None
    initialized_s: float | None = None
    node: str | None = None
    units: int | None = None
    """Units of the slot's resource that the provider reports; None before the launch."""
    deleting_s: float | None = None
    """When its deletion was asked for; it is there until its instance is gone."""
    refused: str = ""
    """The provider's words while it does not launch it, for another cause than missing capacity."""


@dataclass(frozen=True, slots=True)
class Template:
    """What nodes of a NodePool are, as far as its requirements say; empty where they leave it open."""

    zones: tuple[str, ...] = ()
    capacity_types: tuple[str, ...] = ()
    instance_types: tuple[str, ...] = ()
    node_class: str = ""
    """As group/kind/name."""


@dataclass(frozen=True, slots=True)
class NodePoolSeen:
    """One NodePool that a tier refers to."""

    name: str
    ready: bool | None = None
    """Its Ready condition, None where it has none yet."""
    problem: str = ""
    """Its own words when it is not ready, such as an unknown NodeClass."""
    unregistered: str = ""
    """Its own words where the last nodes that were launched for it did not join the cluster."""
    limit_gpus: int | None = None
    limit_nodes: int | None = None
    used_gpus: float = 0.0
    used_nodes: int = 0
    scarce: tuple[str, ...] = ()
    """What is left of its other limits, such as cores, where that is less than one of its nodes has, in words."""
    drifted_budget: int | None = None
    """Nodes that its budgets let drift replace at once; None where the default applies."""
    static_nodes: int | None = None
    """The nodes that a static NodePool keeps (its spec.replicas): it launches none for pods. None for others."""
    template: Template = Template()
    consolidates: str = ""
    """The policy by which Karpenter takes nodes away that are not empty; empty where it does not."""
    expires: str = ""
    """The age at which Karpenter takes nodes away whatever is on them; empty where it never does, or none is told."""
    deleting: bool = False
    ours: bool = True
    """Whether this pool made it, where the pool manages its NodePools."""


@dataclass(frozen=True, slots=True)
class ModelDemand:
    """What one workload wants of this pool, in replicas. `replicas` is what its decision asks for now."""

    workload: str
    model: str
    replicas: float | None
    """None while its demand is not known."""
    waiting: int = 0
    """Replicas that no node has room for yet."""
    forecast: float | None = None
    """The most replicas it is forecast to want within the lead; None without forecast."""
    slots_per_replica: int = 1
    uses_claims: bool = False
    """Its pods ask for GPUs by ResourceClaim (DRA), which no slot can stand for."""
    preempts: bool = True
    """Whether the scheduler takes pods of lower priority away for its pods: no slot gives way to others by itself."""


@dataclass(frozen=True, slots=True)
class LentSeen:
    """Units of one node of the pool that gangs have on loan."""

    node: str
    units: int
    coming: int = 0
    """Of these, units whose pod is not bound yet: a slot may stand there still, and gives way."""
    leaving: int = 0
    """Of these, units that were called back and are not free yet."""
    overdue: int = 0
    """Of these, units that were called back and should long be free: nobody counts on them. They do not leave."""


@dataclass(frozen=True, slots=True)
class PodsAsked:
    """Equal pods of a gang."""

    pods: int
    units: int
    """Of the pool's resource, each."""
    cpu: float = 0.0
    memory_gib: float = 0.0
    selector: tuple[tuple[str, str], ...] = ()
    """Labels that their nodes must have, sorted."""


@dataclass(frozen=True, slots=True)
class GangAsk:
    """A gang that lacks nothing but nodes, or that has begun to start on those that are held for it."""

    gang: str
    """Kind, namespace and name."""
    uid: str
    """Of its object: one that is made anew under the name is another gang."""
    shape: str
    pods: tuple[PodsAsked, ...]
    starts: bool = False
    """It was let in: its pods take the places of those that hold them, and none is made or given back any more."""


@dataclass(frozen=True, slots=True)
class HolderSeen:
    """A pod that holds the place of one pod of a gang until that starts."""

    name: str
    uid: str
    gang_uid: str
    tier: str
    units: int
    created_s: float
    node: str | None = None
    deleting: bool = False
    over: bool = False
    """It ended by itself: its deadline passed, or its node went."""


@dataclass(frozen=True, slots=True)
class AskedOf:
    """What a WarmPool asks of a NodePool and has no node yet: slots, and what holds places for gangs."""

    node_pool: str
    gpus: float
    """Physical GPUs."""
    nodes: int
    """A node for each pod, as it may be."""


class Sign(Enum):
    """How missing capacity shows itself."""

    INSUFFICIENT = "insufficient capacity"
    """A warning event on a NodeClaim: no capacity, no quota, no address."""
    CLAIM_GONE = "claim deleted before launch"
    NOT_OFFERED = "nothing of the NodePool is offered"
    """The provider hides what it failed to launch, and Karpenter makes no claim at all."""


@dataclass(frozen=True, slots=True)
class Trouble:
    """One sign of missing capacity. Both signs of one claim count once; a repeated event counts once."""

    sign: Sign
    claim: str
    """What it was said of: a claim, or a NodePool and when."""
    at_s: float
    domain: Domain


@dataclass(frozen=True, slots=True)
class World:
    """All that is known of one pool at one instant."""

    slots: tuple[SlotSeen, ...] | None
    nodes: tuple[NodeSeen, ...] | None
    claims: tuple[ClaimSeen, ...] | None = ()
    node_pools: tuple[NodePoolSeen, ...] | None = ()
    demand: tuple[ModelDemand, ...] | None = ()
    """One per workload of the pool's models; None when they were not read."""
    troubles: tuple[Trouble, ...] = ()
    """Signs of the last minutes; those told before may be told again."""
    slot_priority: int | None = -10
    """The value of the slots' PriorityClass; None when there is none."""
    serving_priority: int = 0
    """The lowest priority of the workloads that slots give way to."""
    lent: tuple[LentSeen, ...] | None = ()
    """None while it is not known what gangs have on loan; then nothing is ordered in its place, and nothing lent."""
    asks: tuple[GangAsk, ...] | None = ()
    """Gangs that nodes are asked for, who waits longest first; None while that is not known: nothing is given back."""
    asks_age_s: float = 0.0
    """How long ago that was last said to be so."""
    holders: tuple[HolderSeen, ...] = ()
    taken: frozenset[str] = frozenset()
    """Names of pods that are where slots are and are nobody's of this pool: an order by such a name makes nothing."""
    beside: tuple[AskedOf, ...] = ()
    """What other WarmPools ask of the NodePools of this one; several of one NodePool add up."""
