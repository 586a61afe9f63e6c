"""A workload as the live driver knows it: what its owner asks for, and whether Headroom may act on it."""

from dataclasses import dataclass, field, replace

from autoscaler.api.modes import Mode, Tier
from autoscaler.core.params import Params
from autoscaler.core.types import Limits


@dataclass(frozen=True, slots=True)
class Target:
    """One workload, named ``namespace/name``, with its policy and the limits that others set on it."""

    name: str
    params: Params
    mode: Mode = Mode.ACTIVE
    limits: Limits = field(default_factory=Limits)
    tier: Tier = Tier.NORMAL
    """Who gives way when GPUs are short."""
    gpus_per_replica: int = 1
    """GPUs that one replica holds; 0 for one without."""
    told: bool = False
    """Whether KEDA asks for the count and acts on it, so that nobody else may."""
    prior_s: float | None = None
    """Seconds that a start is reckoned to take until some were measured, in the place of the policy's guess; None where
    that stands. It moves with what is measured and is nobody's edit."""

    @property
    def in_force(self) -> Params:
        """The policy that decisions are made by."""
        return self.params if self.prior_s is None else replace(self.params, warmup_prior_s=self.prior_s)
