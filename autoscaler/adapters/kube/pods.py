"""The fields of pods and nodes that are read; see `objects` for the rules."""

from datetime import datetime
from typing import Final

import msgspec

from autoscaler.adapters.kube.meta import Amounts, Condition, Meta, let_go


class Port(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """A port that a container names."""

    name: str = ""
    container_port: int | None = None


class Resources(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """What a container asks for and may use at most."""

    limits: Amounts = {}
    requests: Amounts = {}


class Container(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """One container of a pod's specification."""

    name: str = ""
    ports: tuple[Port, ...] = ()
    resources: Resources = Resources()


class ResourceClaim(msgspec.Struct, frozen=True, gc=False):
    """Devices that a pod asks for by name (DRA)."""

    name: str = ""


class PodSpec(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """What a pod shall be; `node_name` is empty until it is bound."""

    node_name: str = ""
    containers: tuple[Container, ...] = ()
    termination_grace_period_seconds: int | None = None
    priority_class_name: str = ""
    resource_claims: tuple[ResourceClaim, ...] = ()


Shape = tuple[PodSpec, ...]
"""The pods of one replica: one, or a leader and its workers."""

MOST_PODS: Final = 1_000
"""Pods in one replica; no group is larger, and a size is only a number that somebody wrote."""


class Running(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """A container that runs."""

    started_at: datetime | None = None


class Waiting(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """A container that does not run yet, and why."""

    reason: str = ""


class ContainerState(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """At most one of the two; neither for a container that has ended."""

    running: Running | None = None
    waiting: Waiting | None = None


class ContainerStatus(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """One container as the kubelet sees it."""

    name: str = ""
    ready: bool = False
    restart_count: int = 0
    image_id: str = msgspec.field(default="", name="imageID")
    state: ContainerState = ContainerState()


class PodStatus(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """What a pod is; the address is empty until it has one."""

    phase: str = ""
    pod_ip: str = msgspec.field(default="", name="podIP")
    conditions: tuple[Condition, ...] = ()
    container_statuses: tuple[ContainerStatus, ...] = ()
    nominated_node_name: str = ""
    """The node on which the scheduler has others give way to it."""


class Pod(msgspec.Struct, frozen=True, gc=False):
    """A pod."""

    metadata: Meta = Meta()
    spec: PodSpec = PodSpec()
    status: PodStatus = PodStatus()

    def __post_init__(self) -> None:
        let_go(self, self.metadata)


class Taint(msgspec.Struct, frozen=True, gc=False):
    """A reason for which pods keep off a node."""

    key: str = ""
    value: str = ""
    effect: str = ""


class NodeSpec(msgspec.Struct, frozen=True, gc=False):
    """Whether a node takes pods."""

    unschedulable: bool = False
    taints: tuple[Taint, ...] = ()


class NodeStatus(msgspec.Struct, frozen=True, gc=False):
    """What a node has to give."""

    allocatable: Amounts = {}
    conditions: tuple[Condition, ...] = ()


class Node(msgspec.Struct, frozen=True, gc=False):
    """A node."""

    metadata: Meta = Meta()
    spec: NodeSpec = NodeSpec()
    status: NodeStatus = NodeStatus()
