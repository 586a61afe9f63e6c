"""The fields that are read of the objects behind warm pools; see `objects` for the rules.

Karpenter's are those of karpenter.sh/v1. Pods are read here with what a slot's life and a node's room need, and without
what serving pods are asked for.
"""

from datetime import datetime

import msgspec

from autoscaler.adapters.kube.meta import Amounts, Meta
from autoscaler.adapters.kube.pods import Container, Taint, Waiting
from autoscaler.adapters.kube.scaling import Requirement


class WarmPoolObject(msgspec.Struct, frozen=True, gc=False):
    """A WarmPool, its spec and status undecoded: another room reads and words their faults."""

    metadata: Meta = Meta()
    spec: msgspec.Raw = msgspec.Raw(b"{}")
    status: msgspec.Raw = msgspec.Raw(b"{}")


class Said(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """A condition with its message."""

    type: str = ""
    status: str = ""
    reason: str = ""
    message: str = ""
    last_transition_time: datetime | None = None


class Terminated(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """How a container ended."""

    exit_code: int = 0
    reason: str = ""
    finished_at: datetime | None = None


class InitState(msgspec.Struct, frozen=True, gc=False):
    """At most one of them."""

    waiting: Waiting | None = None
    terminated: Terminated | None = None


class InitStatus(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """One init container as the kubelet sees it."""

    name: str = ""
    image_id: str = msgspec.field(default="", name="imageID")
    restart_count: int = 0
    state: InitState = InitState()
    last_state: InitState = InitState()


class PlacedPodSpec(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """Where a pod is and what it holds there."""

    node_name: str = ""
    node_selector: dict[str, str] = {}
    containers: tuple[Container, ...] = ()
    priority: int | None = None
    active_deadline_seconds: int | None = None


class PlacedPodStatus(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """How far a pod is."""

    phase: str = ""
    reason: str = ""
    message: str = ""
    start_time: datetime | None = None
    conditions: tuple[Said, ...] = ()
    init_container_statuses: tuple[InitStatus, ...] = ()


class PlacedPod(msgspec.Struct, frozen=True, gc=False):
    """Any pod of the cluster, a slot among them."""

    metadata: Meta = Meta()
    spec: PlacedPodSpec = PlacedPodSpec()
    status: PlacedPodStatus = PlacedPodStatus()


class NodeClaimSpec(msgspec.Struct, frozen=True, gc=False):
    """What a node was asked to be."""

    requirements: tuple[Requirement, ...] = ()


class NodeClaimStatus(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """What became of it."""

    node_name: str = ""
    capacity: Amounts = {}
    allocatable: Amounts = {}
    conditions: tuple[Said, ...] = ()


class NodeClaim(msgspec.Struct, frozen=True, gc=False):
    """A NodeClaim."""

    metadata: Meta = Meta()
    spec: NodeClaimSpec = NodeClaimSpec()
    status: NodeClaimStatus = NodeClaimStatus()


class Budget(msgspec.Struct, frozen=True, gc=False):
    """How many nodes may be disrupted at once, for which reasons and when."""

    nodes: str | int = ""
    reasons: tuple[str, ...] | None = None
    schedule: str | None = None


class Disruption(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """What Karpenter may do to nodes of its own accord."""

    budgets: tuple[Budget, ...] = ()
    consolidation_policy: str = ""
    consolidate_after: str = ""


class NodeClassRef(msgspec.Struct, frozen=True, gc=False):
    """The provider's part of a template."""

    group: str = ""
    kind: str = ""
    name: str = ""


class NodeTemplateSpec(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """What new nodes are, what keeps pods off them, and when they end."""

    taints: tuple[Taint, ...] = ()
    startup_taints: tuple[Taint, ...] = ()
    requirements: tuple[Requirement, ...] = ()
    node_class_ref: NodeClassRef = NodeClassRef()
    expire_after: str = ""


class NodeTemplate(msgspec.Struct, frozen=True, gc=False):
    """The template of a NodePool's nodes."""

    spec: NodeTemplateSpec = NodeTemplateSpec()


class NodePoolSpec(msgspec.Struct, frozen=True, gc=False):
    """What a NodePool may launch."""

    limits: Amounts = {}
    replicas: int | None = None
    """Of a static NodePool, which keeps so many nodes and launches none for pods."""
    disruption: Disruption = Disruption()
    template: NodeTemplate = NodeTemplate()


class NodePoolStatus(msgspec.Struct, frozen=True, gc=False):
    """What a NodePool has launched."""

    resources: Amounts = {}
    conditions: tuple[Said, ...] = ()


class NodePool(msgspec.Struct, frozen=True, gc=False):
    """A NodePool."""

    metadata: Meta = Meta()
    spec: NodePoolSpec = NodePoolSpec()
    status: NodePoolStatus = NodePoolStatus()


class PriorityClass(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """A PriorityClass."""

    metadata: Meta = Meta()
    value: int = 0
    global_default: bool = False
    preemption_policy: str = ""


class About(msgspec.Struct, frozen=True, gc=False):
    """The object that an event is about."""

    name: str = ""
    uid: str = ""


class ToldEvent(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """One Event of Karpenter's; which of its times is set depends on the API it was written by."""

    metadata: Meta = Meta()
    involved_object: About = About()
    message: str = ""
    event_time: datetime | None = None
    first_timestamp: datetime | None = None
    last_timestamp: datetime | None = None
