"""What keeps a recommendation from being set: stabilisation, policies, and the HPA's own bounds.

Enters: a recommendation, the present count, the settings and the memory. Leaves: the count and what limited it. Source:
kubernetes/kubernetes v1.36, pkg/controller/podautoscaler/horizontal.go (normalizeDesiredReplicas and
normalizeDesiredReplicasWithBehaviors with all they call).
"""

import math
from enum import Enum

from autoscaler.core.hpa.memory import Memory, Recommendation, moved, recommended
from autoscaler.core.hpa.spec import Autoscaler, Behavior, Policy, Rules, Select, Unit, windows_s


class Limit(Enum):
    """What stands between a number that is told and the count that is set; a closed set, so that it can be counted."""

    AT_ZERO = "at zero"
    """HPA leaves a target alone that it did not bring to zero itself."""
    NO_METRIC = "no metric"
    """A metric that it needs cannot be read or computed."""
    OTHER_METRIC = "other metric"
    TOLERANCE = "tolerance"
    UP_WINDOW = "scaleUp window"
    DOWN_WINDOW = "scaleDown window"
    UP_DISABLED = "scaleUp disabled"
    DOWN_DISABLED = "scaleDown disabled"
    UP_POLICIES = "scaleUp policies"
    DOWN_POLICIES = "scaleDown policies"
    MAX = "maxReplicas"
    MIN = "minReplicas"


def stabilised(wanted: int, current: int, autoscaler: Autoscaler, memory: Memory, now_s: float) -> tuple[int, Memory]:
    """The count after both windows, and the memory with what was wanted."""
    up_s, down_s = windows_s(autoscaler)
    kept, made = memory.recommendations or (), Recommendation(now_s, wanted)
    if autoscaler.behavior is None:
        cutoff_s = now_s - down_s
        count = max([wanted, *(old.replicas for old in kept if old.at_s >= cutoff_s)])
        return count, recommended(memory, made, lambda old: old.at_s < cutoff_s)
    lowest = min([wanted, *(old.replicas for old in kept if old.at_s > now_s - up_s)])
    highest = max([wanted, *(old.replicas for old in kept if old.at_s > now_s - down_s)])
    oldest_s = now_s - max(up_s, down_s)
    return min(max(current, lowest), highest), recommended(memory, made, lambda old: old.at_s < oldest_s)


def bounded(
    wanted: int, current: int, autoscaler: Autoscaler, memory: Memory, now_s: float
) -> tuple[int, Limit | None]:
    """The count within policies and bounds, and what bound it; None where nothing did."""
    behavior = autoscaler.behavior
    if behavior is None:
        return _by_old_rules(wanted, current, autoscaler)
    if wanted > current:
        most = max(up_limit(current, behavior, memory, now_s), current)
        if autoscaler.maximum > most:
            paced = Limit.UP_DISABLED if behavior.up.select is Select.DISABLED else Limit.UP_POLICIES
            return (most, paced) if wanted > most else (wanted, None)
        return (autoscaler.maximum, Limit.MAX) if wanted > autoscaler.maximum else (wanted, None)
    if wanted < current:
        least = min(down_limit(current, behavior, memory, now_s), current)
        if autoscaler.minimum < least:
            paced = Limit.DOWN_DISABLED if behavior.down.select is Select.DISABLED else Limit.DOWN_POLICIES
            return (least, paced) if wanted < least else (wanted, None)
        return (autoscaler.minimum, Limit.MIN) if wanted < autoscaler.minimum else (wanted, None)
    return wanted, None


def up_limit(current: int, behavior: Behavior, memory: Memory, now_s: float) -> int:
    """The most that the policies allow now."""
    if behavior.up.select is Select.DISABLED:
        return current
    counts = [_raised(_begin(current, policy, memory, now_s), policy) for policy in behavior.up.policies]
    return min(counts, default=current) if behavior.up.select is Select.MIN else max(counts, default=current)


def down_limit(current: int, behavior: Behavior, memory: Memory, now_s: float) -> int:
    """The least that the policies allow now."""
    if behavior.down.select is Select.DISABLED:
        return current
    counts = [_lowered(_begin(current, policy, memory, now_s), policy) for policy in behavior.down.policies]
    return max(counts, default=current) if behavior.down.select is Select.MIN else min(counts, default=current)


def longest_s(rules: Rules) -> int:
    """The longest period of the policies."""
    return max((policy.period_s for policy in rules.policies), default=0)


def _by_old_rules(wanted: int, current: int, autoscaler: Autoscaler) -> tuple[int, Limit | None]:
    controller = autoscaler.controller
    paced = int(max(controller.up_factor * current, controller.up_least))
    most, limit = (paced, Limit.UP_POLICIES) if autoscaler.maximum > paced else (autoscaler.maximum, Limit.MAX)
    if wanted < autoscaler.minimum:
        return autoscaler.minimum, Limit.MIN
    return (most, limit) if wanted > most else (wanted, None)


def _begin(current: int, policy: Policy, memory: Memory, now_s: float) -> int:
    """The count when the policy's period began, as far as HPA moved it."""
    added = moved(memory.ups, policy.period_s, now_s)
    return current - added + moved(memory.downs, policy.period_s, now_s)


def _raised(begin: int, policy: Policy) -> int:
    if policy.unit is Unit.PODS:
        return begin + policy.value
    return math.ceil(begin * (1 + policy.value / 100))


def _lowered(begin: int, policy: Policy) -> int:
    if policy.unit is Unit.PODS:
        return begin - policy.value
    return int(begin * (1 - policy.value / 100))
