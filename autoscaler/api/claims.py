"""Who asks Headroom to scale what: the object itself, the policy for it, and what forbids to act on it.

Enters: nothing; these are the values that discovery fills. A claim is always decided and recorded; one with a block is
never acted upon, and says who is in the way.
"""

from dataclasses import dataclass
from enum import Enum

from autoscaler.api.modes import Mode
from autoscaler.api.scaling_policy import ScalingPolicySpec


@dataclass(frozen=True, slots=True)
class TargetRef:
    """One object with a ``/scale`` subresource. `group` is empty for the core group; `resource` is the plural."""

    group: str
    version: str
    resource: str
    kind: str
    namespace: str
    name: str
    uid: str

    @property
    def workload(self) -> str:
        """The name of the workload everywhere: ``namespace/name``."""
        return f"{self.namespace}/{self.name}"

    @property
    def path(self) -> str:
        """The object's path on the API server."""
        root = f"/apis/{self.group}" if self.group else "/api"
        return f"{root}/{self.version}/namespaces/{self.namespace}/{self.resource}/{self.name}"

    @property
    def api_version(self) -> str:
        """Group and version as manifests write them."""
        return f"{self.group}/{self.version}" if self.group else self.version


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of target that an administrator lets Headroom scale; `resource` is the plural."""

    group: str
    version: str
    resource: str
    kind: str


class Way(Enum):
    """The way in by which a workload is claimed; an earlier one is heard before a later one."""

    SCALED_OBJECT = "ScaledObject"
    """KEDA asks and KEDA acts: such a workload is decided on and never patched by Headroom."""
    SCALING_POLICY = "ScalingPolicy"
    ANNOTATION = "annotation"


class Block(Enum):
    """Why a claim is not acted upon although its policy would allow it."""

    HPA = "HorizontalPodAutoscaler"
    """An HPA sets the replicas of the same target."""
    SCALED_OBJECT = "ScaledObject"
    """KEDA sets them through an HPA of its own."""
    OWNER = "Owner"
    """The target belongs to an object whose controller would undo the change."""


@dataclass(frozen=True, slots=True)
class Obstacle:
    """Who is in the way, and what a person should do about it."""

    block: Block
    message: str


@dataclass(frozen=True, slots=True)
class Doubt:
    """What of a claim may have changed while it could not be read: `cause` says what, and why it cannot."""

    still: bool
    """Nothing is done; else nothing is taken away."""
    cause: str
    remedy: str
    """What to do so that it can be read again."""

    @property
    def words(self) -> str:
        """The cause and what it leads to."""
        return f"{self.cause}, so {'nothing is done' if self.still else 'nothing is taken away'}"

    def within(self, mode: Mode) -> Mode:
        """What is left of a mode."""
        if mode is Mode.SHADOW:
            return mode
        if self.still or mode in {Mode.PAUSED, Mode.PAUSED_SCALE_OUT}:
            return Mode.PAUSED
        return Mode.PAUSED_SCALE_IN


@dataclass(frozen=True, slots=True)
class Claim:
    """One target that shall be scaled. `policy` is the ScalingPolicy's name, None for another way in; `generation` is
    that of the object which holds the policy."""

    ref: TargetRef
    spec: ScalingPolicySpec
    way: Way
    policy: str | None
    generation: int
    obstacle: Obstacle | None = None
    remarks: tuple[str, ...] = ()
    """What a person should know and what stops nothing: a VPA on the same target, a claim that lost to this one."""
    scaled_object: str | None = None
    """The name of the ScaledObject by which KEDA asks, None for another way in."""


class Reject(Enum):
    """Why an object that asks for scaling makes no claim."""

    INVALID = "Invalid"
    """The policy cannot be read; the message names field, value and legal range."""
    NO_TARGET = "TargetNotFound"
    KIND_REFUSED = "KindNotAllowed"
    """The administrator did not list the target's kind."""
    OUTRANKED = "Outranked"
    """Another way in claims the same ``namespace/name``, of this kind or another, and is heard before this one."""
    TOO_MANY = "TooManyWorkloads"
    """As many workloads of its namespace, or in all, are taken up as the administrator lets be."""


@dataclass(frozen=True, slots=True)
class Rejection:
    """An object that asks for scaling and is not served: a ScalingPolicy by `policy`, else what `kind` says: a
    ScaledObject or the annotated target."""

    namespace: str
    name: str
    policy: bool
    kind: str
    api_version: str
    uid: str
    generation: int
    reject: Reject
    message: str
