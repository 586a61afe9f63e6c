"""What a WarmPool's status says. Instants are epoch seconds here and dates in the object.

The custom resource's schema is generated from these models, and `custom_resource` writes them as its status.
"""

from enum import Enum
from typing import Annotated, Final

from pydantic import Field

from autoscaler.api.model import Instant, Model
from autoscaler.api.status import Amount, Condition, Sentence, Whole, Word

MOST_BREAKERS: Final = 64
MOST_LOANS: Final = 64


class BreakerState(Enum):
    """Where a capacity breaker stands."""

    OPEN = "Open"
    HALF_OPEN = "HalfOpen"


class Breaker(Model):
    """Missing capacity in one domain; domains without trouble are not listed."""

    sku: Word
    """The SKU of the nodes."""
    zone: Word = ""
    """The zone; empty where a claim left it open."""
    capacity_type: Word
    """How such nodes are paid for."""
    state: BreakerState
    """Open asks for nothing, HalfOpen for one slot."""
    until_s: Instant
    """When one slot asks again."""


class StageCount(Model):
    """Slots in one stage of their life."""

    stage: Word
    """The stage, such as weights_warm."""
    slots: Whole
    """How many."""


class Loan(Model):
    """What one gang has on loan of the pool."""

    gang: Annotated[str, Field(max_length=384)]
    """The gang as kind/namespace/name."""
    units: Whole
    """Units of the slot's resource."""
    since_s: Instant
    """When the gang was let in."""
    recalled_at_s: Instant | None = None
    """When it was called back; absent where it was not."""
    overdue: bool | None = None
    """True where it was told to leave and should long be gone: nobody counts on its units; absent otherwise."""


class WarmPoolStatus(Model):
    """What Headroom sees of a pool and wants for it."""

    observed_generation: Whole | None = None
    """The generation of the spec that this status speaks of."""
    target_slots: Whole | None = None
    """What Headroom wants; with backend observe it is not carried out."""
    warm_slots: Whole | None = None
    """Slots with images and weights in place."""
    starting_slots: Whole | None = None
    """Slots under way."""
    hit_ratio: Annotated[float, Field(ge=0, le=1)] | None = None
    """The share of growing demand that found a warm slot, over the last days; absent until there was some."""
    refill_s: Amount | None = None
    """How long a new slot takes to be warm in nine of ten cases, in seconds."""
    reason: Word | None = None
    """The term or bound that decided the target, as one word."""
    text: Sentence | None = None
    """The decision in sentences."""
    stages: Annotated[tuple[StageCount, ...], Field(max_length=16)] = ()
    """Slots by stage, stages without slots left out."""
    breakers: Annotated[tuple[Breaker, ...], Field(max_length=MOST_BREAKERS)] = ()
    """Where capacity is missing."""
    lent_slots: Whole | None = None
    """Slots' worth that gangs have on loan, those that leave included; absent while that is not known."""
    overdue_slots: Whole | None = None
    """Slots' worth besides that gangs were called back from and should long be gone; absent while that is not known."""
    loans: Annotated[tuple[Loan, ...], Field(max_length=MOST_LOANS)] | None = None
    """The loans, by gang, 64 at most; after a start those of before, until it is known who has any."""
    loans_left_out: Whole | None = None
    """How many more loans there are than are named; absent where all are."""
    conditions: Annotated[
        tuple[Condition, ...],
        Field(max_length=16),
        Field(json_schema_extra={"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["type"]}),
    ] = ()
    """Ready, SignalsFresh, CapacityAvailable, NodePoolsUsable, GpusUsable, ContentWarms, WithinLimits, DriftHeld,
    PriorityUsable, SlotsDeletable, ModelsSupported, and what the controller adds, each once."""
