"""What a BatchQueue's status says, and what of it outlives a restart. Instants are epoch seconds here, dates in the
object.

The custom resource's schema is generated from these models, and `custom_resource` writes them as its status.
"""

from enum import Enum
from typing import Annotated, Final

from pydantic import Field

from autoscaler.api.model import Instant, Model, instant_spellings
from autoscaler.api.status import Amount, Condition, Sentence, Whole, Word

MOST_KEPT: Final = 64
"""Gangs of one queue that GPUs are kept for, or whose evictions are counted, in its status."""
MOST_PLACES: Final = 1024
"""Nodes of one gang that are written down."""


class QueueCondition(Enum):
    """What is told about a queue as true, false or unknown."""

    READY = "Ready"
    """The queue is part of the tree as its spec stands now."""
    CONSISTENT = "Consistent"
    """It and the queues around it do not contradict each other."""
    ADMITTING = "Admitting"
    """Gangs that fit are started; false while only decided and told."""
    TAKEN_IN = "TakenIn"
    """All of its gangs are looked at; false while more are there than are taken in."""


class ShapeUse(Model):
    """What the queue holds of one shape, with all below it; units."""

    shape: Word
    """The shape."""
    guaranteed: Whole
    """Units that count as guaranteed; fewer than the spec's where its parent has less to give."""
    used: Whole
    """Units that its gangs hold."""
    wanted: Whole = 0
    """Units that its gangs wait for."""


class WaitingReason(Model):
    """Gangs that wait for one reason."""

    reason: Word
    """The reason, as one word."""
    gangs: Whole
    """How many."""


class Place(Model):
    """Units on one node."""

    node: Word
    """The node."""
    shape: Word
    """The shape."""
    units: Whole
    """How many."""


class ReservationKind(Enum):
    """What GPUs are kept for."""

    PREEMPTION = "Preemption"
    START = "Start"


class KeptFor(Model):
    """GPUs that are kept for one gang."""

    gang: Annotated[str, Field(max_length=512)]
    """The gang as kind/namespace/name."""
    kind: ReservationKind
    """Preemption: others leave for it. Start: its forecast start, until when others may pass."""
    made_s: Annotated[Instant, Field(validation_alias=instant_spellings("made_s"))]
    """Since when."""
    start_s: Annotated[Instant, Field(validation_alias=instant_spellings("start_s"))]
    """When it is expected to start."""
    places: Annotated[tuple[Place, ...], Field(max_length=MOST_PLACES)]
    """On which nodes, with how many units; empty for a gang that lost GPUs, leaves, and has room nowhere yet."""


class EvictionCount(Model):
    """A gang that was asked to leave and wants to run again."""

    gang: Annotated[str, Field(max_length=512)]
    """The gang as kind/namespace/name."""
    times: Whole
    """How often."""


class QueueMemory(Model):
    """What of the queue outlives a restart of Headroom. Do not edit it."""

    written_at_s: Annotated[Instant, Field(validation_alias=instant_spellings("written_at_s"))]
    """When it was written."""
    used_gpu_s: Amount = 0.0
    """GPU-seconds that it used, serving of its namespaces included, those of a day ago counting half; they decide
    between equal shares."""
    run_ratios: Annotated[tuple[Amount, ...], Field(max_length=32)] = ()
    """How long its gangs ran, as multiples of what they had said."""
    reservations: Annotated[tuple[KeptFor, ...], Field(max_length=MOST_KEPT)] = ()
    """GPUs that are kept for its gangs, the oldest first."""
    evictions: Annotated[tuple[EvictionCount, ...], Field(max_length=MOST_KEPT)] = ()
    """Gangs that gave way, those that did so most often first."""
    left_out: Whole = 0
    """Reservations and counts that did not fit."""


class BatchQueueStatus(Model):
    """What Headroom sees of a queue."""

    observed_generation: Whole | None = None
    """The generation of the spec that this status speaks of."""
    waiting_gangs: Whole | None = None
    """Gangs that wait."""
    running_gangs: Whole | None = None
    """Gangs that were admitted and hold GPUs."""
    used_gpus: Whole | None = None
    """Units that its gangs hold, of all shapes."""
    share_ratio: Amount | None = None
    """Its dominant share of the cluster divided by its weight; the queue with the least goes first."""
    reason: Word | None = None
    """Why most of its gangs wait, as one word."""
    text: Sentence | None = None
    """How the queue does, in a sentence or two."""
    shapes: Annotated[tuple[ShapeUse, ...], Field(max_length=32)] = ()
    """What it holds of each shape."""
    waiting: Annotated[tuple[WaitingReason, ...], Field(max_length=32)] = ()
    """How many gangs wait for which reason, of those that Headroom tells of: the first of each queue."""
    memory: QueueMemory | None = None
    """What outlives a restart."""
    conditions: Annotated[
        tuple[Condition, ...],
        Field(max_length=16),
        Field(json_schema_extra={"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["type"]}),
    ] = ()
    """Ready, Consistent, Admitting and TakenIn, each once."""
