"""Who takes part in a comparison: policies by the name they are asked for by, made fresh for one run.

Enters: a list of names as typed, an instance and the bounds of a policy. Leaves: policies. It runs and judges nothing.
"""

from dataclasses import dataclass, field
from typing import Final

from autoscaler.core.params import Feature, Params, Slo
from autoscaler.core.types import Readings
from autoscaler.errors import InputError
from autoscaler.sim.headroom import HeadroomPolicy
from autoscaler.sim.instance import Instance
from autoscaler.sim.policy import Policy
from autoscaler.sim.rivals import RIVALS, make_rival, view_of

OURS: Final = "headroom"
ABLATIONS: Final = {f"{OURS}-{feature.value}": feature for feature in Feature}
"""Name -> the term of the control law that is left out."""
GROUPS: Final = {"all": (OURS, *RIVALS), "ablations": tuple(ABLATIONS)}
"""Names that stand for several: ourselves and every rival; ourselves with each term left out in turn."""


@dataclass(frozen=True, slots=True)
class Bounds:
    """What the owner of a policy sets; everything else runs at its defaults."""

    min_replicas: int | None = None
    """None leaves ours at 1 and each rival at its own floor; a number is everyone's floor."""
    tick_s: float | None = None
    """Seconds between our decisions; None is the default. Rivals keep the pace of their documentation."""

    def __post_init__(self) -> None:
        if self.min_replicas is not None and self.min_replicas < 0:
            raise InputError(f"min replicas: {self.min_replicas} cannot be used; it must be 0 or more")


def parse_policies(text: str) -> tuple[str, ...]:
    """The policies of a comma-separated list, each once, groups spelled out. InputError names what exists."""
    known = (OURS, *ABLATIONS, *RIVALS)
    names: dict[str, None] = {}
    for part in (word.strip() for word in text.split(",")):
        if part not in GROUPS and part not in known:
            raise InputError(f"--policy: {part!r} is not known; choose from {', '.join((*known, *GROUPS))}")
        names.update(dict.fromkeys(GROUPS.get(part, (part,))))
    return tuple(names)


def make_policy(name: str, instance: Instance, bounds: Bounds) -> Policy:
    """A fresh policy for one run. InputError for an unknown name or bounds that contradict each other."""
    if name == OURS or name in ABLATIONS:
        without = frozenset({ABLATIONS[name]}) if name in ABLATIONS else frozenset[Feature]()
        return HeadroomPolicy(_params(instance, bounds, without), name=name)
    if bounds.min_replicas is not None and bounds.min_replicas > instance.spec.max_replicas:
        raise InputError(f"min replicas: {bounds.min_replicas} is above the maximum of {instance.spec.max_replicas}")
    rival = make_rival(name, view_of(instance.traffic, instance.spec))
    return rival if bounds.min_replicas is None else Floored(rival, bounds.min_replicas)


def _params(instance: Instance, bounds: Bounds, without: frozenset[Feature]) -> Params:
    defaults = Params()
    try:
        return Params(
            min_replicas=defaults.min_replicas if bounds.min_replicas is None else bounds.min_replicas,
            max_replicas=instance.spec.max_replicas,
            slo=Slo(wait_s=instance.spec.slo_wait_s),
            tick_s=defaults.tick_s if bounds.tick_s is None else bounds.tick_s,
            without=without,
        )
    except InputError:
        raise
    except ValueError as error:
        raise InputError(str(error)) from error


@dataclass(slots=True)
class Floored:
    """A rival that is held at the owner's minimum, as an HPA's minReplicas or Knative's min-scale does."""

    rival: Policy
    min_replicas: int
    name: str = field(init=False)

    def __post_init__(self) -> None:
        self.name = self.rival.name

    @property
    def tick_s(self) -> float:
        """The rival's own pace."""
        return self.rival.tick_s

    def decide(self, readings: Readings) -> int:
        """The rival's count, at least the minimum."""
        return max(self.min_replicas, self.rival.decide(readings))
