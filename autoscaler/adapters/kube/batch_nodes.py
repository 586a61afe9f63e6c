"""Nodes as batch admission sees them: of which shape, with how much room, for which pods.

Enters: nodes, the administrator's shapes, the labels of topology. Leaves: frozen values. A node is of the shape whose
resource it offers, whose capacity type it is labelled with and whose SKU its labels name, and that is divided as they
say; a node of no shape is none of ours. One whose taints not every gang of the shape puts up with takes no gang at all.
"""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import takewhile
from typing import Final

from autoscaler.adapters.kube.batch_amounts import GIB, amount
from autoscaler.adapters.kube.meta import Condition
from autoscaler.adapters.kube.pods import Node
from autoscaler.adapters.kube.pool_nodes import CAPACITY_TYPE, LEAVING, MIG, PRODUCT, REPLICAS
from autoscaler.api.shapes import Shape
from autoscaler.core.pool.params import CapacityType, Sharing

HOSTNAME: Final = "kubernetes.io/hostname"

SKU_LABELS: Final = (
    "nvidia.com/gpu.product",
    "amd.com/gpu.product-name",
    "cloud.google.com/gke-accelerator",
    "karpenter.k8s.aws/instance-gpu-name",
)
"""Labels that name a node's GPU; the words of a SKU stand among those of one of them."""

GKE_SLICE: Final = "cloud.google.com/gke-gpu-partition-size"
GKE_REPLICAS: Final = "cloud.google.com/gke-max-shared-clients-per-gpu"
"""GKE's labels of nodes whose GPUs are slices, and of those on each of which so many pods share one."""

KEEPING_OFF: Final = frozenset({"NoSchedule", "NoExecute"})
_WORD: Final = re.compile(r"[a-z0-9]+")


@dataclass(frozen=True, slots=True)
class BatchNode:
    """One node, or the part of it that has units of one shape."""

    name: str
    hostname: str
    """By which label pods are held to it."""
    shape: str
    units: int
    cpu: float
    memory_gib: float
    domains: tuple[str, ...]
    ready: bool
    cordoned: bool
    labels: Mapping[str, str]
    others: Mapping[str, float] = field(default_factory=dict)
    """What it has of extended resources that no shape has, by name, whoever holds it."""
    coming: bool = False
    """Whether it is on its way, so that labels and such resources may be missing yet."""


def node_parts(node: Node, shapes: Mapping[str, Shape], levels: tuple[str, ...]) -> tuple[BatchNode, ...]:
    """What a node offers of each shape. `levels` are the labels of topology, coarse to fine."""
    given = node.status.allocatable
    parts = (
        node_part(node, resource, int(amount(given, resource)), shapes, levels)
        for resource in sorted({shape.resource for shape in shapes.values()})
    )
    return tuple(part for part in parts if part is not None)


def node_part(
    node: Node,
    resource: str,
    units: int,
    shapes: Mapping[str, Shape],
    levels: tuple[str, ...],
    *,
    labels: Mapping[str, str] | None = None,
) -> BatchNode | None:
    """The part of a node that has so many units of a resource; None without any, and where it is of no shape. `labels`
    are those that it is taken to have; its own where none are given."""
    meta, given, ready = node.metadata, node.status.allocatable, ready_condition(node)
    labels = meta.labels if labels is None else labels
    name = _shape_of(labels, resource, shapes) if units > 0 else None
    if name is None:
        return None
    hostname, resources = labels.get(HOSTNAME, ""), {shape.resource for shape in shapes.values()}
    domains = _domains([labels.get(label, "") for label in levels])
    others = {each: amount(given, each) for each in sorted(given) if "/" in each and each not in resources}
    cordoned = node.spec.unschedulable or not hostname or meta.deletion_timestamp is not None
    return BatchNode(
        meta.name, hostname, name, units, amount(given, "cpu"), amount(given, "memory") / GIB, domains,
        ready is not None and ready.status == "True", cordoned or keeps_off(node, resource), labels, others,
    )  # fmt: skip


def ready_condition(node: Node) -> Condition | None:
    """What a node says of its being ready."""
    return next((each for each in node.status.conditions if each.type == "Ready"), None)


def _domains(names: Sequence[str]) -> tuple[str, ...]:
    """The domains of a node by level, up to the first that no label names. A coarser one that none names is that of the
    nodes of its finer one: many clusters label NVLink domains and no racks."""
    known = list(names)
    for at in range(len(known) - 2, -1, -1):
        if known[at + 1] and not known[at]:
            known[at] = f"/{known[at + 1]}"  # no label's value has a slash
    return tuple(takewhile(bool, known))


def keeps_off(node: Node, resource: str) -> bool:
    """Whether a taint keeps gangs off; that of the resource itself does not, which admission puts up with."""
    return any(
        taint.key.startswith(LEAVING) or (taint.effect in KEEPING_OFF and taint.key != resource)
        for taint in node.spec.taints
    )


def _shape_of(labels: Mapping[str, str], resource: str, shapes: Mapping[str, Shape]) -> str | None:
    """The shape of a node's units of a resource; the only one that can be meant where no label names a GPU."""
    said = labels.get(CAPACITY_TYPE)
    every = [name for name, shape in sorted(shapes.items()) if shape.resource == resource]
    offered = _divided_alike(every, shapes, labels, resource)
    paid = [name for name in offered if (said or CapacityType.ON_DEMAND.value) == shapes[name].capacity_type.value] or (
        [] if said else offered
    )
    told = [_words(labels.get(label, "")) for label in SKU_LABELS if label in labels]
    if not told:
        return paid[0] if len(paid) == 1 else None
    return next((name for name in paid if any(_words(shapes[name].sku) <= words for words in told)), None)


def _divided_alike(
    names: Sequence[str], shapes: Mapping[str, Shape], labels: Mapping[str, str], resource: str
) -> list[str]:
    """The shapes that are divided as a node's labels say; where these say nothing all of them, whole ones first.

    Slices of one size and time-slicing offer the resource of whole GPUs, several times as many units as there are GPUs.
    """
    if resource.startswith(MIG):
        return list(names)  # the resource says it
    replicas = {labels.get(label, "1") for label in (REPLICAS, GKE_REPLICAS)} - {"1", "0"}
    if "-MIG-" in labels.get(PRODUCT, "") or GKE_SLICE in labels:
        return [name for name in names if shapes[name].sharing is Sharing.MIG]
    if replicas:
        return [
            name for name in names
            if shapes[name].sharing is Sharing.TIME_SLICING and replicas == {str(shapes[name].parts)}
        ]  # fmt: skip
    return sorted(names, key=lambda name: shapes[name].sharing is not Sharing.WHOLE)


def _words(text: str) -> frozenset[str]:
    return frozenset(_WORD.findall(text.lower()))


def admits(labels: Mapping[str, str], selector: Mapping[str, str], terms: Iterable[Mapping[str, object]]) -> bool:
    """Whether a node is one that a pod's selector and required affinity let it go to; unknown operators do not."""
    if any(labels.get(key) != value for key, value in selector.items()):
        return False
    asked = list(terms)
    return not asked or any(_meets(labels, term) for term in asked)


def takes(
    node: BatchNode,
    selector: Mapping[str, str],
    terms: Iterable[Mapping[str, object]],
    others: Mapping[str, float],
) -> bool:
    """Whether a node is one that a pod may go to, and has as much as it asks for of extended resources besides."""
    enough = all(node.others.get(name, 0.0) >= units for name, units in others.items())
    return enough and admits(node.labels, selector, terms)


def _meets(labels: Mapping[str, str], term: Mapping[str, object]) -> bool:
    wanted = term.get("matchExpressions") or []
    if term.get("matchFields") or not isinstance(wanted, list) or not wanted:
        return False
    for each in wanted:
        value, values = labels.get(str(each.get("key"))), [str(one) for one in each.get("values") or ()]
        holds = {
            "In": value in values,
            "NotIn": value not in values,
            "Exists": value is not None,
            "DoesNotExist": value is None,
        }.get(str(each.get("operator")), False)
        if not holds:
            return False
    return True


def with_held(
    made: Sequence[BatchNode],
    before: Sequence[BatchNode],
    held: Callable[[str], int],
    resource_of: Callable[[str], str],
) -> tuple[BatchNode, ...]:
    """Units that pods hold are there, though a node offers fewer: its device plugin starts anew, or one of them fails;
    and of other resources all that it had.

    Nobody else gets a place on them. `held` says how many of a resource, `resource_of` which one a shape has.
    """
    parts, shapes = {part.shape: part for part in made}, {part.shape for part in before}
    others = {resource_of(part.shape) for part in made if part.shape not in shapes}
    for old in before:
        new, resource = parts.get(old.shape), resource_of(old.shape)
        if resource in others:
            continue  # it is of another shape now, with all that runs on it
        units = min(held(resource), old.units)
        if (0 if new is None else new.units) < units:
            parts[old.shape] = replace(new or old, units=units, cordoned=True)
    had = {name: by for old in before[:1] for name, by in old.others.items()}
    return tuple(_with_most(part, had) for part in parts.values())


def _with_most(part: BatchNode, had: Mapping[str, float]) -> BatchNode:
    """A node that had more of another resource has it still: its plugin starts anew, and places are kept meanwhile."""
    more = {name: by for name, by in had.items() if by > part.others.get(name, 0.0)}
    return replace(part, others={**part.others, **more}) if more else part
