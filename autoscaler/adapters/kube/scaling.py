"""The fields that are read of the objects that are scaled and of those that scale; see `objects` for the rules.

Each stands for one kind, except `Target`, which reads any object with a ``/scale`` subresource that is built like a
Deployment: StatefulSets, LeaderWorkerSets and custom kinds alike.
"""

from typing import Final

import msgspec

from autoscaler.adapters.kube.answers import UNREADABLE
from autoscaler.adapters.kube.hpa_fields import HpaBehavior, HpaMetric, HpaStatus
from autoscaler.adapters.kube.meta import AGENT, Condition, Meta, let_go
from autoscaler.adapters.kube.pods import MOST_PODS, PodSpec, Shape

VPA_DEFAULT: Final = "Recreate"
"""The mode of a VPA that gives none (kubernetes/autoscaler, vertical-pod-autoscaler/pkg/utils/vpa/api.go,
GetUpdateMode; Auto, the default of older versions, does the same)."""


class Requirement(msgspec.Struct, frozen=True, gc=False):
    """One expression of a label selector."""

    key: str = ""
    operator: str = ""
    values: tuple[str, ...] = ()


class Selector(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """A label selector; empty, it would select everything."""

    match_labels: dict[str, str] = {}
    match_expressions: tuple[Requirement, ...] = ()


class Template(msgspec.Struct, frozen=True, gc=False):
    """The template of a target's pods."""

    spec: PodSpec = PodSpec()


class Group(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """One replica of a LeaderWorkerSet; without a template of its own the leader is like its workers."""

    leader_template: Template | None = None
    worker_template: Template = Template()
    size: int | None = None
    """Pods of a group, the leader included; 1 where it does not say."""

    @property
    def shape(self) -> Shape:
        """The leader and its workers."""
        workers = min(max(self.size or 1, 1), MOST_PODS) - 1
        leader = self.leader_template or self.worker_template
        return (leader.spec, *(self.worker_template.spec for _ in range(workers)))


class TargetSpec(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """What a target shall be; None where the object does not say.

    Its selector is not read: pods are found by who made them, and a kind whose ``/scale`` takes its selector from here
    has it as text.
    """

    replicas: int | None = None
    template: Template | None = None
    leader_worker_template: Group | None = None

    @property
    def shape(self) -> Shape | None:
        """The pods of one replica."""
        if self.leader_worker_template is not None:
            return self.leader_worker_template.shape
        return None if self.template is None else (self.template.spec,)


class TargetStatus(msgspec.Struct, frozen=True, gc=False):
    """What a target's controller counts, which it leaves out where it is zero.

    No more is read: kinds differ in the types of the rest (the observedGeneration of an Argo Rollout is text), and one
    field that does not fit hides the whole object.
    """

    replicas: int | None = None


class Manager(msgspec.Struct, frozen=True, gc=False):
    """Who wrote fields of an object last, and by which subresource."""

    manager: str = ""
    subresource: str = ""


OURS: Final = Manager(AGENT, "scale")
"""The entry of a target whose count is as we wrote it."""


class TargetMeta(Meta, frozen=True, gc=False, rename="camel"):
    """The metadata of a target, of whose managers only we are held."""

    managed_fields: tuple[Manager, ...] = ()


class Target(msgspec.Struct, frozen=True, gc=False):
    """An object whose replicas can be set."""

    metadata: TargetMeta = TargetMeta()
    spec: TargetSpec = TargetSpec()
    status: TargetStatus = TargetStatus()

    def __post_init__(self) -> None:
        let_go(self, self.metadata)
        if self.metadata.managed_fields:
            managed = (OURS,) if OURS in self.metadata.managed_fields else ()
            msgspec.structs.force_setattr(
                self, "metadata", msgspec.structs.replace(self.metadata, managed_fields=managed)
            )

    @property
    def scaled_by_us(self) -> bool:
        """Whether its count is the one that we wrote: nobody has written another since."""
        return bool(self.metadata.managed_fields)


class ObjectRef(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """The target that another object names, in its own namespace."""

    api_version: str = ""
    kind: str = ""
    name: str = ""


class HpaSpec(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """What an HPA scales, by what and how fast."""

    scale_target_ref: ObjectRef = ObjectRef()
    min_replicas: int | None = None
    max_replicas: int = 0
    metrics: tuple[HpaMetric, ...] = ()
    behavior: HpaBehavior | None = None


class Hpa(msgspec.Struct, frozen=True, gc=False):
    """A HorizontalPodAutoscaler."""

    metadata: Meta = Meta()
    spec: HpaSpec = HpaSpec()
    status: HpaStatus = HpaStatus()

    def __post_init__(self) -> None:
        let_go(self, self.metadata)


class Trigger(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """One trigger of a ScaledObject; without a metric type its number is an AverageValue."""

    type: str = ""
    metadata: dict[str, str] = {}
    metric_type: str = ""
    use_cached_metrics: bool = False


class Fallback(msgspec.Struct, frozen=True, gc=False):
    """What KEDA sets when a trigger has failed several times; without a `behavior`, `replicas` whatever stands."""

    replicas: int = 0
    behavior: str = ""


class Modifiers(msgspec.Struct, frozen=True, gc=False):
    """What KEDA makes of all triggers' numbers before HPA is told."""

    formula: str = ""


class Advanced(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """The rest of a ScaledObject, as far as it changes a number."""

    scaling_modifiers: Modifiers = Modifiers()


class ScaledObjectSpec(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """What KEDA scales and by what; KEDA reads a target without a kind as a Deployment."""

    scale_target_ref: ObjectRef = ObjectRef()
    triggers: tuple[Trigger, ...] = ()
    min_replica_count: int | None = None
    max_replica_count: int | None = None
    idle_replica_count: int | None = None
    fallback: Fallback | None = None
    advanced: Advanced = Advanced()


class ScaledObject(msgspec.Struct, frozen=True, gc=False):
    """A KEDA ScaledObject."""

    metadata: Meta = Meta()
    spec: ScaledObjectSpec = ScaledObjectSpec()

    def __post_init__(self) -> None:
        let_go(self, self.metadata)


class UpdatePolicy(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """How a VPA applies what it recommends; None is `VPA_DEFAULT`."""

    update_mode: str | None = None


class VpaSpec(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """What a VPA resizes."""

    target_ref: ObjectRef = ObjectRef()
    update_policy: UpdatePolicy | None = None


class Vpa(msgspec.Struct, frozen=True, gc=False):
    """A VerticalPodAutoscaler."""

    metadata: Meta = Meta()
    spec: VpaSpec = VpaSpec()

    def __post_init__(self) -> None:
        let_go(self, self.metadata)


class _Told(msgspec.Struct, frozen=True, gc=False):
    conditions: tuple[Condition, ...] = ()


_told = msgspec.json.Decoder(_Told)


class ScalingPolicyObject(msgspec.Struct, frozen=True, gc=False):
    """A ScalingPolicy, its spec and status undecoded: another room reads and words their faults."""

    metadata: Meta = Meta()
    spec: msgspec.Raw = msgspec.Raw(b"{}")
    status: msgspec.Raw = msgspec.Raw(b"{}")

    def __post_init__(self) -> None:
        let_go(self, self.metadata)
        for part in ("spec", "status"):  # each would else hold all of the answer that it came in
            msgspec.structs.force_setattr(self, part, getattr(self, part).copy())

    @property
    def told_ready(self) -> bool:
        """Whether its status says that its target is scaled by it, as nobody but a leader of ours writes."""
        try:
            told = _told.decode(self.status)
        except UNREADABLE:
            return False
        return any((each.type, each.status) == ("Ready", "True") for each in told.conditions)
