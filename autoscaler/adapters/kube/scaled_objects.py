"""ScaledObjects that ask Headroom: which of their triggers points here, and the policy that it holds.

Enters: a ScaledObject and the addresses that mean us. Leaves: the policy, or an InputError naming field, value and
remedy; and what a person should know of the rest of the object. Other ScaledObjects are others' business.
"""

from collections.abc import Iterator
from typing import Final

from autoscaler.adapters.kube.scaling import ObjectRef, ScaledObject, ScaledObjectSpec, Trigger
from autoscaler.api.scaling_policy import ScalingPolicySpec
from autoscaler.api.trigger import ADDRESS, read_trigger
from autoscaler.errors import InputError

SCALED_OBJECT: Final = "ScaledObject"
API_VERSION: Final = "keda.sh/v1alpha1"

TYPES: Final = frozenset({"external", "external-push"})

DEFAULT_MAX: Final = 100
"""KEDA's maxReplicaCount where none is given."""

SHRINKING: Final = frozenset({"", "static", "currentReplicasIfLower"})
"""A fallback's behaviors that take replicas away (kedacore/keda, pkg/fallback/fallback.go)."""

PAUSES: Final = tuple(
    f"autoscaling.keda.sh/{name}" for name in ("paused", "paused-replicas", "paused-scale-in", "paused-scale-out")
)


def ours(found: ScaledObject, addresses: frozenset[str]) -> tuple[Trigger, ...]:
    """Its triggers that point here."""
    return tuple(
        trigger
        for trigger in found.spec.triggers
        if trigger.type in TYPES and trigger.metadata.get(ADDRESS, "").removeprefix("dns:///") in addresses
    )


def target_of(found: ScaledObject) -> ObjectRef:
    """What it scales, with KEDA's defaults filled in."""
    ref = found.spec.scale_target_ref
    return ObjectRef(ref.api_version or "apps/v1", ref.kind or "Deployment", ref.name)


def read_scaled_object(found: ScaledObject, addresses: frozenset[str]) -> ScalingPolicySpec:
    """The policy in its trigger that points here, within its own bounds. Raises InputError."""
    spec = found.spec
    trigger, *more = ours(found, addresses)
    if more:
        raise InputError(f"{1 + len(more)} triggers point at Headroom; keep one, for a workload has one policy")
    if trigger.metric_type not in {"", "AverageValue"}:
        raise InputError(
            f"metricType: {trigger.metric_type} counts ready pods, and none while none is ready "
            "(kubernetes/kubernetes#130130); leave it out"
        )
    least = spec.min_replica_count or 0
    most = DEFAULT_MAX if spec.max_replica_count is None else spec.max_replica_count
    return read_trigger(
        trigger.metadata,
        minimum=least if spec.idle_replica_count is None else min(spec.idle_replica_count, least),
        maximum=most,
    )


def remarks(found: ScaledObject, addresses: frozenset[str]) -> tuple[str, ...]:
    """What of it changes what becomes of our number."""
    return tuple(_remarks(found, ours(found, addresses)))


def _remarks(found: ScaledObject, mine: tuple[Trigger, ...]) -> Iterator[str]:
    spec = found.spec
    others = len(spec.triggers) - len(mine)
    if others > 0:
        yield f"{others} more {'trigger' if others == 1 else 'triggers'} in it: KEDA takes the largest count of all"
    if spec.advanced.scaling_modifiers.formula:
        yield "scalingModifiers.formula: HPA is told what the formula makes of our number, and its preview is not known"
    for trigger in mine:
        if trigger.use_cached_metrics:
            yield "useCachedMetrics: HPA is told what was decided up to one pollingInterval ago; leave it out"
    yield from _while_unknown(spec)
    for name in PAUSES:
        if name in found.metadata.annotations:
            yield f"{name} is set: KEDA does not act on all that is decided"


def _while_unknown(spec: ScaledObjectSpec) -> Iterator[str]:
    """What KEDA does while Headroom cannot tell: without a fallback it may take a poll that fails beside the HPA's pull
    for one that found no work (kedacore/keda#7737, since 2.20)."""
    fallback, idle = spec.fallback, spec.idle_replica_count
    floor, least = ("minReplicaCount", spec.min_replica_count or 0) if idle is None else ("idleReplicaCount", idle)
    if fallback is None and least == 0:
        yield (
            f"{floor} is 0 without a fallback: while Headroom cannot tell, KEDA may take that for no work and scale "
            "to zero; give a fallback, which holds while Headroom answers, or minReplicaCount: 1 and no "
            "idleReplicaCount, which holds always"
        )
    elif fallback is not None and fallback.behavior in SHRINKING:
        least = max(fallback.replicas, spec.min_replica_count or 0)
        if least == 0:
            yield "fallback.replicas is 0: while Headroom cannot tell, KEDA scales to zero; give a count that serves"
        elif least < (DEFAULT_MAX if spec.max_replica_count is None else spec.max_replica_count):
            yield (
                f"fallback: while Headroom cannot tell, KEDA sets {least} replicas however many serve; "
                "give behavior: currentReplicasIfHigher"
            )
