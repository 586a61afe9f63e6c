"""The model of a BatchQueue: one queue of the tree by which gangs share GPUs.

Enters: the spec as JSON. Leaves: a frozen model, or an InputError naming field, value and remedy. What joins several
queues (parents, sums of guarantees, namespaces, the administrator's shapes) is judged in `batch_tree`.
"""

from typing import Annotated, Final, Self

from pydantic import ConfigDict, Field, ValidationError, model_validator

from autoscaler.api.lines import decode_value
from autoscaler.api.model import Model, cel, spelled
from autoscaler.api.model_faults import first_fault
from autoscaler.api.schema import Spelling
from autoscaler.api.warm_pool_parts import listed
from autoscaler.core.batch.params import Order
from autoscaler.errors import InputError

MOST_UNITS: Final = 1_048_576
MOST_RUNTIME_S: Final = 30 * 86_400.0

Units = Annotated[int, Field(ge=0, le=MOST_UNITS)]
QueueName = Annotated[
    str,
    spelled(
        r"^[a-z0-9]([-.a-z0-9]*[a-z0-9])?$", 63, "the name of a BatchQueue, at most 63 characters (a-z, 0-9, -, .)"
    ),
]
Namespace = Annotated[str, spelled(r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?$", 63, "the name of a namespace")]
ShapeName = Annotated[
    str, spelled(r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?$", 63, "the name of a shape from the administrator's settings")
]
PriorityClassName = Annotated[
    str, spelled(r"^[a-z0-9]([-.a-z0-9]*[a-z0-9])?$", 253, "the name of a PriorityClass (a-z, 0-9, - and .)")
]


class ShapeQuota(Model):
    """What a queue, with all below it, may hold of one shape. Units are whole GPUs, or slices if the shape is one."""

    model_config = ConfigDict(
        json_schema_extra=cel(
            (
                "!has(self.limit) || self.guaranteed <= self.limit",
                "limit is below guaranteed; raise the limit or promise less",
            )
        )
    )

    shape: ShapeName
    """The shape, by its name in the administrator's settings."""
    guaranteed: Units = 0
    """Units that others give back when the queue wants them. Of a queue with children: shared by them, and 0 stands for
    as many as theirs together."""
    limit: Units | None = None
    """The most units that it ever holds; left out, as many as there are."""
    lendable: Units | None = None
    """Units of its guarantee that others may use while they are idle; left out, all of them."""
    borrowable: Units | None = None
    """Units beyond its guarantee that it may use while others leave them idle; left out, as many as there are."""

    @model_validator(mode="after")
    def _limit_holds_the_guarantee(self) -> Self:
        if self.limit is not None and self.guaranteed > self.limit:
            raise ValueError(f"limit {self.limit} is below guaranteed {self.guaranteed}; raise it, or promise less")
        return self


class ImportanceTier(Model):
    """How much the work of gangs of one PriorityClass counts where somebody has to give way."""

    priority_class: PriorityClassName
    """The PriorityClass of the gang's pods."""
    importance: Annotated[float, Field(ge=0.01, le=100)] = 1.0
    """What a second of its work counts beside that of an ordinary gang (0.01..100)."""


class Preemption(Model):
    """Whom the queue's gangs make give way."""

    reclaims: bool = True
    """Whether gangs of other queues give way to what this one is guaranteed and to its fair share."""
    preempts_own: bool = True
    """Whether its gangs of higher priority make its own of lower priority give way."""
    grace_s: Annotated[float, Field(ge=0, le=86_400)] = 60.0
    """How long a gang waits, in seconds (0..86400), before its queue's guarantee or its priority is worth any cost to
    others. Beyond that, others give way only where less work is lost than waiting costs."""


class BatchQueueSpec(Model):
    """What a queue is guaranteed and may borrow, who may use it, and how its gangs take turns."""

    parent: QueueName | None = None
    """The queue that it is a part of; left out, it stands at the top. Gangs name queues without children only."""
    weight: Annotated[float, Field(ge=0.001, le=1000)] = 1.0
    """Its part of what is shared, beside the queues of the same parent (0.001..1000)."""
    quotas: Annotated[
        tuple[ShapeQuota, ...],
        listed(32, "quotas"),
        Field(json_schema_extra={"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["shape"]}),
    ] = ()
    """Units by shape, each shape once. A shape that is left out is not guaranteed, and may be borrowed."""
    namespaces: Annotated[
        tuple[Namespace, ...], listed(256, "namespaces"), Field(json_schema_extra={"x-kubernetes-list-type": "set"})
    ] = ()
    """Namespaces whose work may use this queue or one below it. A namespace stands in one queue only; work of a
    namespace that stands in none is refused."""
    order: Annotated[Order, Field(strict=False)] = Order.FAIR
    """How its gangs take turns: fair lets others pass one that does not fit, and counts a gang as later by as long as
    it is expected to run, two days at most, so that shorter ones go first; strict goes by priority, then age, and
    nobody passes."""
    preemption: Preemption = Preemption()
    """Whom its gangs make give way."""
    min_runtime_s: Annotated[float, Field(ge=0, le=MOST_RUNTIME_S)] = 0.0
    """How long a gang that was admitted is left alone, in seconds (0..2592000); a gang may ask for longer."""
    tiers: Annotated[
        tuple[ImportanceTier, ...],
        listed(16, "tiers"),
        Field(json_schema_extra={"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["priorityClass"]}),
    ] = ()
    """Importance by PriorityClass, each class once; other work counts 1."""

    @model_validator(mode="after")
    def _each_stands_once(self) -> Self:
        lists = (
            ("quotas", [quota.shape for quota in self.quotas], "give each shape once"),
            ("namespaces", list(self.namespaces), "give each namespace once"),
            ("tiers", [tier.priority_class for tier in self.tiers], "give each PriorityClass once"),
        )
        for name, names, remedy in lists:
            twice = next((each for each in names if names.count(each) > 1), None)
            if twice is not None:
                raise ValueError(f"{name}: {twice!r} stands twice; {remedy}")
        return self

    def importance(self, priority_class: str | None) -> float:
        """What a second of work of a gang with this PriorityClass counts."""
        return next((tier.importance for tier in self.tiers if tier.priority_class == priority_class), 1.0)


def read_batch_queue(spec_json: bytes) -> BatchQueueSpec:
    """The spec of a BatchQueue. Raises InputError naming field, value and remedy for the first fault."""
    if not spec_json:
        raise InputError("spec: missing; a BatchQueue has one")
    try:
        return BatchQueueSpec.model_validate(decode_value(spec_json))
    except ValidationError as error:
        raise InputError(first_fault(error, BatchQueueSpec, Spelling.CAMEL).after("spec")) from error
