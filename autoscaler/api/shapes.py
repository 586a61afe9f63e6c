"""Shapes: what a node offers, named once by the administrator and referred to by pools, queues and budgets.

Enters: nothing; settings hold these. Leaves: frozen models. A shape has no NodePool and no zone: those are a tier's.
"""

from typing import Annotated, Final, Self

from pydantic import Field, model_validator

from autoscaler.api.model import Model
from autoscaler.core.pool.params import WHOLE_RESOURCE, CapacityType, Sharing

MOST_PARTS: Final = 64

ResourceName = Annotated[
    str,
    Field(pattern=r"^[a-z0-9]([-.a-z0-9]*[a-z0-9])?/[A-Za-z0-9]([-._A-Za-z0-9]*[A-Za-z0-9])?$", max_length=317),
    Field(json_schema_extra={"legal": "an extended resource such as nvidia.com/gpu or nvidia.com/mig-3g.40gb"}),
]


class Shape(Model):
    """A SKU class at a capacity type, whole or sliced, with its price."""

    sku: Annotated[str, Field(min_length=1, max_length=63)]
    """What the nodes are labelled as; every node of a tier's NodePool is taken to be of it."""
    capacity_type: Annotated[CapacityType, Field(strict=False)] = CapacityType.ON_DEMAND
    """How such nodes are paid for."""
    resource: ResourceName = WHOLE_RESOURCE
    """The extended resource that pods ask for."""
    sharing: Annotated[Sharing, Field(strict=False)] = Sharing.WHOLE
    """Whether that is a whole GPU, a MIG profile, or a time-slicing replica."""
    parts: Annotated[int, Field(ge=1, le=MOST_PARTS)] = 1
    """How many of them one physical GPU is divided into; 1 for whole GPUs."""
    speed_ratio: Annotated[float, Field(ge=0.01, le=100)] = 1.0
    """Work of one physical GPU beside the reference GPU's (0.01..100): BatchQueues' shares count GPUs by it."""
    gpu_hour_price: Annotated[float, Field(ge=0, le=1e6)] | None = None
    """The price of one physical GPU for an hour; left out, costs are told in GPU-hours."""

    @model_validator(mode="after")
    def _is_divided_soundly(self) -> Self:
        if (self.sharing is Sharing.WHOLE) != (self.parts == 1):
            raise ValueError(
                f"sharing is {self.sharing.value} and parts {self.parts}; whole GPUs have 1 part, shared ones more"
            )
        return self
