"""What a ScalingPolicy's status says. Instants are epoch seconds here and dates in the object.

The custom resource's schema is generated from these models, and `custom_resource` writes them as its status.
"""

from enum import Enum
from typing import Annotated

from pydantic import BeforeValidator, Field

from autoscaler.api.model import Instant, Model
from autoscaler.api.modes import Mode

Whole = Annotated[int, Field(ge=0)]
Amount = Annotated[float, Field(ge=0)]


def _cut_to(most: int) -> BeforeValidator:
    """A longer text is cut rather than refused: the server would refuse all of the status for it."""
    return BeforeValidator(lambda text: text if len(text) <= most else f"{text[: most - 1]}…")


Word = Annotated[str, Field(max_length=128), _cut_to(128)]
Sentence = Annotated[str, Field(max_length=4096), _cut_to(4096)]


class ConditionType(Enum):
    """What is told about a policy as true, false or unknown."""

    READY = "Ready"
    """The target exists and may be scaled, and no one else scales it."""
    ACTIVE = "Active"
    """Headroom would act now if the decision asked for it."""
    SIGNALS_FRESH = "SignalsFresh"
    SCALING_LIMITED = "ScalingLimited"
    """A bound, a quota or a budget keeps the replicas from what the load needs."""
    PAUSED = "Paused"
    SHADOW = "Shadow"


class Truth(Enum):
    """The status of a condition."""

    TRUE = "True"
    FALSE = "False"
    UNKNOWN = "Unknown"


class Condition(Model):
    """One aspect of the object, and whether it holds."""

    type: Annotated[str, Field(min_length=1, max_length=316)]
    """The aspect."""
    status: Truth
    """Whether it holds."""
    observed_generation: Whole | None = None
    """The generation of the spec that this speaks of."""
    last_transition_time_s: Instant
    """Since when the status is what it is."""
    reason: Annotated[str, Field(min_length=1, max_length=1024, pattern=r"^[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?$")]
    """Why, as one word for programs."""
    message: Sentence
    """Why, as a sentence."""


class Warmup(Model):
    """How long a new replica takes from its order to its first token, as measured."""

    p50_s: Amount
    """Half of the starts were quicker, in seconds."""
    p90_s: Amount
    """Nine of ten starts were quicker, in seconds."""
    samples: Whole
    """How many starts this rests on."""


class Overload(Model):
    """What gateways should do while limits keep the replicas below what the load needs."""

    deficit_replicas: Whole
    """Replicas that are missing."""
    admissible_rps: Amount
    """Requests per second that can be served within the objective."""
    shed_ratio: Annotated[float, Field(ge=0, le=1)]
    """The share of requests to turn away."""
    retry_after_s: Amount
    """When those may come again, in seconds."""
    expires_at_s: Instant
    """From then on this is void, unless it was renewed."""


class ScalingPolicyStatus(Model):
    """What Headroom sees of the target and wants for it."""

    observed_generation: Whole | None = None
    """The generation of the spec that this status speaks of."""
    mode: Mode | None = None
    """The mode in force: the policy's own, or the installation's default."""
    desired_replicas: Whole | None = None
    """What Headroom wants; in Shadow mode it is not applied."""
    ready_replicas: Whole | None = None
    """Replicas that serve."""
    reason: Word | None = None
    """The term or bound that decided the number, as one word."""
    text: Sentence | None = None
    """The decision in sentences."""
    last_scale_time_s: Instant | None = None
    """When Headroom last changed the target's replicas."""
    warmup: Warmup | None = None
    """Measured warm-up; absent until a start was seen."""
    overload: Overload | None = None
    """Present while limits keep the replicas below what the load needs."""
    conditions: Annotated[
        tuple[Condition, ...],
        Field(max_length=16),
        Field(json_schema_extra={"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["type"]}),
    ] = ()
    """Ready, Active, SignalsFresh, ScalingLimited, Paused and Shadow, each once."""
