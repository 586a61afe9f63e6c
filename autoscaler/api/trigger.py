"""What a trigger of KEDA's that points at Headroom says: a policy, and in what measure HPA is told the count.

Enters: the trigger's metadata, and the bounds, which are the ScaledObject's. Leaves: a policy and a measure, or an
InputError naming key, value and legal range. The measure follows from the metadata alone: KEDA writes targets into the
HPA only when the ScaledObject changes (kedacore/keda#7793), so nothing that is learned may stand in one.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Final

from autoscaler.api.faults import shown
from autoscaler.api.flat import Form, read_flat
from autoscaler.api.policy import MOST_REPLICAS
from autoscaler.api.scaling_policy import ScalingPolicySpec
from autoscaler.api.schema import Spelling
from autoscaler.errors import InputError

PREFIX: Final = "metadata."
ADDRESS: Final = "scalerAddress"
VALUE: Final = "value"
PER_REPLICA: Final = "perReplica"

MOST_PER_REPLICA: Final = 1_000_000_000
"""With the most replicas that makes 1e14: Kubernetes counts thousandths in 64 bits, up to 9.2e15 (kedacore/keda#7441),
and a float holds every whole number of that size exactly."""

_KEDA_OWN: Final = frozenset({ADDRESS, "enableTLS", "unsafeSsl"})
_OURS: Final = frozenset({VALUE, PER_REPLICA})
_WHOLE: Final = re.compile(r"[1-9]\d{0,9}", re.ASCII)

_FORM: Final = Form(
    "key",
    PREFIX,
    Spelling.CAMEL,
    (
        ("min_replicas", "the least is minReplicaCount of the ScaledObject; set it there"),
        ("max_replicas", "the most is maxReplicaCount of the ScaledObject; set it there"),
        ("target_ref", "the target is scaleTargetRef of the ScaledObject; set it there"),
    ),
    (VALUE, PER_REPLICA, *sorted(_KEDA_OWN)),
)


class Style(Enum):
    """What the number that HPA is given counts."""

    REPLICAS = "replicas"
    """Replicas: the target is 1, and the number is the count decided on."""
    DEMAND = "demand"
    """Requests in flight and waiting: the target is what one replica carries, and HPA divides."""


@dataclass(frozen=True, slots=True)
class Measure:
    """How a count of replicas is told to HPA: as a whole number which HPA divides by `per_replica`, rounding up."""

    style: Style = Style.REPLICAS
    per_replica: int = 1

    @property
    def metric(self) -> str:
        """The metric's name; it stays the same as long as what it counts does."""
        return f"headroom-{self.style.value}"

    def value(self, replicas: int, demand: int | None) -> int:
        """The number for `replicas`, 0 exactly for none.

        It is `demand` where that leads to `replicas`, else the nearest number that does; with no demand known it is
        what fills the replicas.
        """
        most = replicas * self.per_replica
        if demand is None or replicas == 0:
            return most
        return min(max(demand, most - self.per_replica + 1), most)


def read_measure(metadata: Mapping[str, str]) -> Measure:
    """The measure alone: the rest of the metadata is not looked at. Raises InputError."""
    text, per_replica = metadata.get(VALUE, Style.REPLICAS.value), metadata.get(PER_REPLICA)
    if text not in {style.value for style in Style}:
        legal = ", ".join(style.value for style in Style)
        raise InputError(f"{PREFIX}{VALUE}: {shown(text)} is out of range; it must be one of {legal}")
    style = Style(text)
    if style is Style.REPLICAS:
        if per_replica is not None:
            raise InputError(f"{PREFIX}{PER_REPLICA}: given without {VALUE}: {Style.DEMAND.value}; leave one out")
        return Measure()
    if per_replica is None:
        raise InputError(f"{PREFIX}{PER_REPLICA}: missing; it must be {_LEGAL_PER_REPLICA}")
    if not _WHOLE.fullmatch(per_replica) or int(per_replica) > MOST_PER_REPLICA:
        raise InputError(
            f"{PREFIX}{PER_REPLICA}: {shown(per_replica)} is out of range; it must be {_LEGAL_PER_REPLICA}"
        )
    return Measure(style, int(per_replica))


def read_trigger(metadata: Mapping[str, str], *, minimum: int, maximum: int) -> ScalingPolicySpec:
    """The policy of a trigger whose ScaledObject allows `minimum` to `maximum` replicas. Raises InputError."""
    read_measure(metadata)
    if not 0 <= minimum <= MOST_REPLICAS:
        raise InputError(f"minReplicaCount: {minimum} is out of range; it must be 0..{MOST_REPLICAS}")
    if not max(minimum, 1) <= maximum <= MOST_REPLICAS:
        raise InputError(
            f"maxReplicaCount: {maximum} is out of range; it must be {max(minimum, 1)}..{MOST_REPLICAS} "
            "(not below minReplicaCount)"
        )
    for key in sorted(metadata):
        if key.endswith("FromEnv"):
            plain = key.removesuffix("FromEnv")
            raise InputError(f"{PREFIX}{key}: Headroom does not read a container's environment; give {plain}")
    texts = {key: text for key, text in metadata.items() if key not in _KEDA_OWN | _OURS}
    return read_flat(texts, _FORM, {"min_replicas": minimum, "max_replicas": maximum})


_LEGAL_PER_REPLICA: Final = f"a whole number, 1..{MOST_PER_REPLICA}: the requests that one replica carries at once"
