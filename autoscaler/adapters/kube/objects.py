"""Every Kubernetes object that Headroom reads: the fields it needs and no others, for decoding skips the rest.

A field that is missing has its default, which says "not there": None, an empty list or text, never a plausible value.
A field of an unexpected type makes its object, and only that, undecodable. Quantities stay as they were written
(custom resources write numbers too) until `quantity` reads them. None can be part of a reference cycle, so the garbage
collector need not walk through thousands of them (`gc=False`). Objects about pods, scaling and limits are in rooms of
their own; all are imported from here.
"""

from datetime import datetime

import msgspec

from autoscaler.adapters.kube.limits import Limit, LimitRange, Quota
from autoscaler.adapters.kube.meta import Amounts, Condition, Meta, Owner, quantity
from autoscaler.adapters.kube.pods import (
    Container,
    ContainerState,
    ContainerStatus,
    Node,
    Pod,
    PodSpec,
    Port,
    Resources,
    Running,
    Taint,
    Waiting,
)
from autoscaler.adapters.kube.scaling import (
    Hpa,
    ObjectRef,
    Requirement,
    ScaledObject,
    ScalingPolicyObject,
    Selector,
    Target,
    Template,
    Trigger,
    Vpa,
)

__all__ = [
    "Amounts",
    "Condition",
    "ConfigMap",
    "Container",
    "ContainerState",
    "ContainerStatus",
    "Hpa",
    "Lease",
    "LeaseSpec",
    "Limit",
    "LimitRange",
    "Meta",
    "Node",
    "ObjectRef",
    "Owner",
    "Pod",
    "PodSpec",
    "Port",
    "Quota",
    "Requirement",
    "Resources",
    "Running",
    "ScaledObject",
    "ScalingPolicyObject",
    "Selector",
    "Taint",
    "Target",
    "Template",
    "Trigger",
    "Vpa",
    "Waiting",
    "quantity",
]


class ConfigMap(msgspec.Struct, frozen=True, gc=False):
    """A ConfigMap's text entries."""

    metadata: Meta = Meta()
    data: dict[str, str] = {}


class LeaseSpec(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """Who holds a lease, by its own account."""

    holder_identity: str | None = None
    lease_duration_seconds: int | None = None
    acquire_time: datetime | None = None
    renew_time: datetime | None = None
    lease_transitions: int | None = None


class Lease(msgspec.Struct, frozen=True, gc=False):
    """A lease of coordination.k8s.io."""

    metadata: Meta = Meta()
    spec: LeaseSpec = LeaseSpec()
