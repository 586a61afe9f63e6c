"""The parts of a WarmPool: tiers, the form of a slot, models to warm, zones, known events, loans.

Enters: nothing; `warm_pool` puts them together. Each part refuses what contradicts itself; what joins several parts is
refused there. Names of shapes are the administrator's; no part holds a secret.
"""

from enum import Enum
from typing import Annotated, Any, Final, Self

from pydantic import ConfigDict, Field, model_validator

from autoscaler.api.calendar import read_schedule, read_zone
from autoscaler.api.model import Instant, Model, cel, instant_spellings, spelled
from autoscaler.api.scaling_policy import ObjectName

MOST_SLOTS: Final = 10_000
MOST_GPUS: Final = 100_000
MOST_WINDOW_S: Final = 7 * 86_400.0

SlotCount = Annotated[int, Field(ge=0, le=MOST_SLOTS)]
Gpus = Annotated[int, Field(ge=1, le=MOST_GPUS)]
Name = Annotated[str, spelled(r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?$", 40, "a name of at most 40 characters (a-z, 0-9, -)")]
Zone = Annotated[
    str, spelled(r"^[A-Za-z0-9]([-._A-Za-z0-9]*[A-Za-z0-9])?$", 63, "a zone as nodes are labelled with it")
]
Version = Annotated[str, spelled(r"^[0-9]{1,5}(\.[0-9]{1,5}){0,3}$", 23, "a version such as 580.65")]
Image = Annotated[
    str, spelled(r"^[a-z0-9][-._/:@A-Za-z0-9]*$", 512, "an image such as registry.example.com/vllm:v0.25.1")
]
Source = Annotated[
    str,
    spelled(
        r"^[a-z][a-z0-9+.-]*://[^\s]+$",
        1024,
        "a source such as hf://org/model or s3://bucket/path, without credentials",
    ),
]


def listed(most: int, what: str, *, least: int = 0) -> Any:
    """The constraints of a list of so many."""
    span = f"at most {most}" if least == 0 else f"{least}..{most} of them"
    return Field(
        strict=False, min_length=least, max_length=most, json_schema_extra={"legal": f"a list of {what}, {span}"}
    )


class NodeClassReference(Model):
    """The NodeClass of a NodePool that is made for a tier."""

    group: Annotated[str, Field(pattern=r"^[a-z0-9]([-.a-z0-9]*[a-z0-9])?$", max_length=253)]
    """API group, such as karpenter.k8s.aws."""
    kind: Annotated[str, Field(pattern=r"^[A-Z][A-Za-z0-9]*$", max_length=63)]
    """Kind, such as EC2NodeClass."""
    name: ObjectName
    """Name of the NodeClass."""


class TierLimits(Model):
    """Hard limits of a tier's NodePool, serving included."""

    gpus: Gpus | None = None
    """Physical GPUs in all."""
    nodes: Annotated[int, Field(ge=1, le=MOST_SLOTS)] | None = None
    """Nodes in all."""


class Tier(Model):
    """One shape of node in one NodePool; earlier tiers are preferred."""

    name: Name
    """Name of the tier within the pool."""
    shape: Name
    """The shape, by its name in the administrator's settings."""
    node_pool_ref: ObjectName | None = None
    """The NodePool that is referred to; left out exactly when the pool is managed."""
    node_class_ref: NodeClassReference | None = None
    """The NodeClass of the NodePool that is made; given exactly when the pool is managed."""
    instance_types: Annotated[tuple[Annotated[str, Field(max_length=63)], ...], listed(50, "instance types")] = ()
    """Instance types of the NodePool that is made; with less than two, one shortage empties the tier."""
    weight: Annotated[int, Field(ge=1, le=100)] | None = None
    """Weight of the NodePool that is made (1..100); left out, earlier tiers weigh more."""
    zones: Annotated[tuple[Zone, ...], listed(16, "zones")] = ()
    """Zones that the NodePool may use; left out, they are not known."""
    limits: TierLimits = TierLimits()
    """Hard limits of the NodePool."""


class SlotForm(Model):
    """What one slot asks for: as much as one replica. The resource and its sharing are the shape's."""

    count: Annotated[int, Field(ge=1, le=64)] = 1
    """Units of the shape's resource (1..64)."""
    min_driver: Version | None = None
    """The oldest driver that runs the models; left out, any does."""
    min_cuda: Version | None = None
    """The oldest CUDA that runs the models; left out, any does."""


class WarmModel(Model):
    """A model that every slot of the pool warms."""

    name: Name
    """Name of the model, as workloads are labelled with it."""
    image: Image
    """The serving image that is pulled."""
    weights: Source | None = None
    """Where the weights come from; left out, only the image is warmed."""


class ZoneMinimum(Model):
    """Warm slots that are kept in a zone."""

    zone: Zone
    """The zone."""
    slots: Annotated[int, Field(ge=1, le=MOST_SLOTS)]
    """How many."""


class KnownWindow(Model):
    """A known event: once, by from and to; or again and again, by a schedule."""

    model_config = ConfigDict(
        json_schema_extra=cel(
            (
                (
                    "has(self.schedule) ? (has(self.durationS) && !has(self.from) && !has(self.to))"
                    " : (has(self.from) && has(self.to) && !has(self.durationS))"
                ),
                "give schedule and durationS, or from and to",
            ),
            ("!has(self.from) || !has(self.to) || self.from < self.to", "from is not before to; end the window later"),
            ("has(self.slots) || has(self.ceiling)", "no slots and no ceiling; give one of them"),
            (
                "!has(self.slots) || !has(self.ceiling) || self.slots <= self.ceiling",
                "slots are above ceiling; lower the slots",
            ),
        )
    )

    name: Name
    """What the event is called in explanations."""
    schedule: Annotated[str, Field(min_length=9, max_length=128)] | None = None
    """When windows begin: minute, hour, day of month, month, day of week, as in 30 7 * * MON-FRI."""
    time_zone: Annotated[str, Field(min_length=1, max_length=64)] = "UTC"
    """The time zone of the schedule, such as Europe/Berlin."""
    duration_s: Annotated[float, Field(ge=60, le=MOST_WINDOW_S)] | None = None
    """How long each window of the schedule lasts, in seconds (60..604800)."""
    from_s: Annotated[Instant | None, Field(validation_alias=instant_spellings("from_s"))] = None
    """When a single window begins: a date and time with offset."""
    to_s: Annotated[Instant | None, Field(validation_alias=instant_spellings("to_s"))] = None
    """When a single window has ended."""
    expires_s: Annotated[Instant | None, Field(validation_alias=instant_spellings("expires_s"))] = None
    """From when on the event is over for good."""
    slots: SlotCount | None = None
    """At least this many slots are warm when the window begins, and within it."""
    ceiling: SlotCount | None = None
    """At most this many slots within the window; the pool's minimum goes before it."""

    @model_validator(mode="after")
    def _is_sound(self) -> Self:
        again = self.schedule is not None and self.duration_s is not None
        once = self.from_s is not None and self.to_s is not None
        parts = [self.schedule, self.duration_s, self.from_s, self.to_s]
        if again == once or sum(part is not None for part in parts) != 2:
            raise ValueError("give schedule and duration_s, or from_s and to_s")
        if self.from_s is not None and self.to_s is not None and self.from_s >= self.to_s:
            raise ValueError("from_s is not before to_s; end the window later")
        if self.slots is None and self.ceiling is None:
            raise ValueError("no slots and no ceiling; give one of them")
        if self.slots is not None and self.ceiling is not None and self.slots > self.ceiling:
            raise ValueError(f"slots {self.slots} are above ceiling {self.ceiling}; lower the slots")
        if self.schedule is not None:
            read_schedule(self.schedule)
        read_zone(self.time_zone)
        return self


class LoanPolicy(Model):
    """What batch work may borrow of the pool's idle slots."""

    enabled: bool = False
    """Whether idle slots are lent at all."""
    keep_slots: SlotCount = 1
    """Warm slots that are never lent."""
    reclaim_s: Annotated[float, Field(ge=5, le=3600)] = 60.0
    """Within how many seconds a borrower gives a GPU back (5..3600): notice, checkpoint and end."""


class GangPolicy(Model):
    """Nodes that are made for gangs of batch work that lack nothing else."""

    max_gpus: Gpus | None = None
    """The most physical GPUs that are held at once for gangs that have not started; left out, no node is made."""
    timeout_s: Annotated[float, Field(ge=60, le=7200)] = 900.0
    """How long all nodes of a gang may take until they are given back, in seconds (60..7200)."""


class HandOver(Enum):
    """Who chooses the slot that gives way to a replica."""

    PREEMPT = "Preempt"
    """The scheduler, by priority."""
    CHOOSE = "Choose"
    """Headroom: the one that has been warm for longest goes first."""


class Backend(Enum):
    """What keeps capacity warm."""

    SLOTS = "slots"
    """Pods at low priority that Headroom makes."""
    OBSERVE = "observe"
    """Nothing: decisions are made and told, and not carried out."""
