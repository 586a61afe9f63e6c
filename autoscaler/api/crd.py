"""The custom resource definitions, generated from the models; ``python -m autoscaler.api.crd [KIND]`` writes YAML.

Enters: the spec and status models of each kind. Leaves: a structural schema as the API server takes it: no
references, no unions, no nulls, every list and text bounded (its cost check refuses rules over unbounded ones),
docstrings as descriptions, so that ``kubectl explain`` reads like them.
"""

import sys
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Final

import msgspec
from pydantic import BaseModel

from autoscaler.api.batch_queue import BatchQueueSpec
from autoscaler.api.batch_queue_status import BatchQueueStatus
from autoscaler.api.model import cel
from autoscaler.api.model_faults import legal
from autoscaler.api.scaling_policy import ScalingPolicySpec
from autoscaler.api.schema import Spelling, descend, resolved, schema_of
from autoscaler.api.status import ScalingPolicyStatus
from autoscaler.api.warm_pool import WarmPoolSpec
from autoscaler.api.warm_pool_status import WarmPoolStatus

GROUP: Final = "headroom.dev"
VERSION: Final = "v1alpha1"
PLURAL: Final = "scalingpolicies"
KIND: Final = "ScalingPolicy"

Column = tuple[str, str, str, str]
"""Name, type, path and description of a printed column."""


@dataclass(frozen=True, slots=True)
class Resource:
    """One kind of custom resource."""

    kind: str
    plural: str
    scope: str
    short_name: str
    description: str
    spec: type[BaseModel]
    status: type[BaseModel]
    required: tuple[str, ...]
    """Fields of the spec that must be given, as users spell them."""
    columns: tuple[Column, ...]
    rules: tuple[tuple[str, str], ...] = ()
    """Rules about the whole object: an expression for the API server, and what it says when the rule is broken."""


_AGE: Final[Column] = ("Age", "date", ".metadata.creationTimestamp", "")

SCALING_POLICY: Final = Resource(
    kind=KIND,
    plural=PLURAL,
    scope="Namespaced",
    short_name="hsp",
    description="Scales the replicas of one GPU workload to what its load needs within its latency objective.",
    spec=ScalingPolicySpec,
    status=ScalingPolicyStatus,
    required=("targetRef",),
    columns=(
        ("Target", "string", ".spec.targetRef.name", "What is scaled"),
        ("Served", "string", '.status.conditions[?(@.type=="Ready")].reason', "Claimed, or why nothing comes of it"),
        ("Min", "integer", ".spec.minReplicas", "The floor in replicas"),
        ("Max", "integer", ".spec.maxReplicas", "The most replicas"),
        ("Desired", "integer", ".status.desiredReplicas", "What Headroom wants"),
        ("Ready", "integer", ".status.readyReplicas", "Replicas that serve"),
        ("Mode", "string", ".status.mode", "The mode in force"),
        ("Reason", "string", ".status.reason", "What decided the number"),
        _AGE,
    ),
)
WARM_POOL: Final = Resource(
    kind="WarmPool",
    plural="warmpools",
    scope="Cluster",
    short_name="hwp",
    description="Keeps GPU nodes warm, with images and weights in place, for replicas that are about to be needed.",
    spec=WarmPoolSpec,
    status=WarmPoolStatus,
    required=("tiers", "models"),
    columns=(
        ("Backend", "string", ".spec.backend", "What keeps capacity warm"),
        ("Min", "integer", ".spec.minSlots", "The fewest warm slots"),
        ("Max", "integer", ".spec.maxSlots", "The most slots"),
        ("Target", "integer", ".status.targetSlots", "What Headroom wants"),
        ("Warm", "integer", ".status.warmSlots", "Slots with images and weights in place"),
        ("Starting", "integer", ".status.startingSlots", "Slots under way"),
        ("Reason", "string", ".status.reason", "What decided the target"),
        _AGE,
    ),
)
BATCH_QUEUE: Final = Resource(
    kind="BatchQueue",
    plural="batchqueues",
    scope="Cluster",
    short_name="hbq",
    description="A queue of the tree by which batch gangs share GPUs with each other and with inference.",
    spec=BatchQueueSpec,
    status=BatchQueueStatus,
    required=(),
    columns=(
        ("Parent", "string", ".spec.parent", "The queue that it is a part of"),
        ("Weight", "number", ".spec.weight", "Its part of what is shared"),
        ("Order", "string", ".spec.order", "How its gangs take turns"),
        ("Waiting", "integer", ".status.waitingGangs", "Gangs that wait"),
        ("Running", "integer", ".status.runningGangs", "Gangs that hold GPUs"),
        ("Used", "integer", ".status.usedGpus", "Units that its gangs hold"),
        ("Ready", "string", ".status.conditions[?(@.type=='Ready')].status", "Whether it is part of the tree"),
        ("Reason", "string", ".status.reason", "Why most of its gangs wait"),
        _AGE,
    ),
    rules=(
        (
            "self.metadata.name.size() <= 63",
            "the name is longer than 63 characters, so that no label could name the queue; shorten it",
        ),
        (
            "!has(self.spec.parent) || self.spec.parent != self.metadata.name",
            "spec.parent names the queue itself; name another one, or leave it out",
        ),
    ),
)
RESOURCES: Final = MappingProxyType({resource.kind: resource for resource in (SCALING_POLICY, WARM_POOL, BATCH_QUEUE)})
"""Every kind by its name."""

_KEPT: Final = (
    "type", "format", "enum", "pattern", "minLength", "maxLength", "minimum", "maximum", "minItems", "maxItems",
)  # fmt: skip
_HEADER: Final = "# Generated by: python -m autoscaler.api.crd"


def definition(resource: Resource = SCALING_POLICY) -> dict[str, Any]:
    """The definition of a kind as an object for the API server."""
    spec = structural(resource.spec)
    if resource.required:
        spec["required"] = list(resource.required)
    schema = {
        "description": resource.description,
        "type": "object",
        "required": ["spec"],
        "properties": {
            "apiVersion": {"type": "string"},
            "kind": {"type": "string"},
            "metadata": {"type": "object"},
            "spec": spec,
            "status": structural(resource.status),
        },
        **(cel(*resource.rules) if resource.rules else {}),
    }
    version = {
        "name": VERSION,
        "served": True,
        "storage": True,
        "subresources": {"status": {}},
        "additionalPrinterColumns": [_column(*column) for column in resource.columns],
        "schema": {"openAPIV3Schema": schema},
    }
    names = {
        "kind": resource.kind,
        "listKind": f"{resource.kind}List",
        "plural": resource.plural,
        "singular": resource.kind.lower(),
        "shortNames": [resource.short_name],
        "categories": ["headroom"],
    }
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{resource.plural}.{GROUP}"},
        "spec": {"group": GROUP, "names": names, "scope": resource.scope, "versions": [version]},
    }


def manifest(resource: Resource = SCALING_POLICY) -> str:
    """The definition as the YAML that is installed."""
    argument = "" if resource is SCALING_POLICY else f" {resource.kind}"
    return f"{_HEADER}{argument}\n{msgspec.yaml.encode(definition(resource)).decode()}"


def structural(model: type[BaseModel]) -> dict[str, Any]:
    """The structural schema of a model."""
    forms = schema_of(model)["$defs"]
    return _structural(forms[model.__name__], forms)


def _structural(form: dict[str, Any], forms: dict[str, Any]) -> dict[str, Any]:
    out: dict[str, Any] = {}
    # The default of an object is left to the reader: a stored one would be merged with what is given later.
    default = None if isinstance(form.get("default"), dict | list) else _whole(form.get("default"))
    if "description" in form:
        shown = "true" if default is True else default
        told = f" Default: {shown}." if default else ""
        out["description"] = " ".join(form["description"].split()) + told
    out |= {key: _whole(form[key]) for key in _KEPT if key in form}
    for side in ("Minimum", "Maximum"):
        if (bound := form.get(f"exclusive{side}")) is not None:
            out |= {side.lower(): _whole(bound), f"exclusive{side}": True}
    if any(isinstance(out.get(side), float) for side in ("minimum", "maximum")):
        out["x-kubernetes-validations"] = [_bound(out, legal(form))]
    if default is not None:
        out["default"] = default
    if "properties" in form:
        fields = {name: descend(form, name, forms) for name in form["properties"]}
        out["properties"] = {Spelling.CAMEL.of(n, field): _structural(field, forms) for n, field in fields.items()}
        if form.get("required"):
            out["required"] = [Spelling.CAMEL.of(name, fields[name]) for name in form["required"]]
    if "items" in form:
        out["items"] = _structural(resolved(form["items"], forms), forms)
    return out | {key: value for key, value in form.items() if key.startswith("x-kubernetes-")}


def _bound(form: dict[str, Any], legal_range: str) -> dict[str, str]:
    """The bounds of a number once more, as a rule: the API server checks a whole number against the whole part of a
    bound, so that 0 would pass for at least 0.5."""
    low = ">" if form.get("exclusiveMinimum") else ">="
    high = "<" if form.get("exclusiveMaximum") else "<="
    limits = [
        f"self {sign} {float(form[side])}" for sign, side in ((low, "minimum"), (high, "maximum")) if side in form
    ]
    return {"rule": " && ".join(limits), "message": f"it must be {legal_range}"}


def _whole(value: Any) -> Any:
    return int(value) if isinstance(value, float) and value.is_integer() else value


def _column(name: str, kind: str, path: str, description: str) -> dict[str, Any]:
    column = {"name": name, "type": kind, "jsonPath": path}
    return column | {"description": description} if description else column


if __name__ == "__main__":
    sys.stdout.write(manifest(RESOURCES[sys.argv[1]] if len(sys.argv) > 1 else SCALING_POLICY))
