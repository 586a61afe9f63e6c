"""The HPAs that KEDA makes: which one is a ScaledObject's, and its settings in the core's terms.

Enters: HPAs as they change. Leaves: for a ScaledObject its HPA, for an HPA and the name of our metric an `Autoscaler`
whose first metric is ours. What other metrics come to is not known here: they are counted.
"""

import math
from dataclasses import dataclass, replace
from typing import Final

from autoscaler.adapters.kube.hpa_fields import Amount, HpaBehavior, HpaRules
from autoscaler.adapters.kube.meta import quantity
from autoscaler.adapters.kube.scaling import Hpa
from autoscaler.core.hpa.spec import (
    DEFAULT_DOWN,
    DEFAULT_UP,
    Autoscaler,
    Basis,
    Behavior,
    Metric,
    Policy,
    Rules,
    Select,
    Unit,
)
from autoscaler.errors import InputError

SCALED_OBJECT: Final = "ScaledObject"


@dataclass(frozen=True, slots=True)
class Asking:
    """An HPA as far as it asks us."""

    autoscaler: Autoscaler
    """With our metric alone."""
    others: int
    """Metrics that it has besides; it takes the largest count of all."""


NOBODYS: Final = ("", "")


class Hpas:
    """The HPAs of ScaledObjects, by namespace and name of the ScaledObject."""

    def __init__(self) -> None:
        self._found: dict[tuple[str, str], Hpa] = {}
        self._owners: dict[str, tuple[str, str]] = {}
        self.tolerance_seen = False
        """Whether any HPA has a tolerance of its own: a cluster that does not know them leaves the field out."""

    def note(self, key: str, new: Hpa | None) -> None:
        """Take a change of the HPA ``namespace/name``."""
        before = self._owners.pop(key, NOBODYS)
        # A list shows the one that KEDA made under another name before it shows that the old one is gone.
        if before in self._found and self._found[before].metadata.key == key:
            del self._found[before]
        if new is None:
            return
        self.tolerance_seen = self.tolerance_seen or _has_tolerance(new)
        owner = next((one.name for one in new.metadata.owner_references if one.kind == SCALED_OBJECT), None)
        if owner is not None:
            place = (new.metadata.namespace, owner)
            self._owners[key], self._found[place] = place, new

    def of(self, namespace: str, scaled_object: str) -> Hpa | None:
        """The HPA of a ScaledObject, None while KEDA keeps none; may be asked from another thread."""
        return self._found.get((namespace, scaled_object))


def asking(hpa: Hpa, metric: str) -> Asking | None:
    """The HPA's settings for our metric, which KEDA gives an index; None where it has none of that name.

    Raises InputError where it holds what no API server of today writes.
    """
    ours: list[Metric] = []
    for one in hpa.spec.metrics:
        found = one.external
        if found is None or found.metric.name.partition("-")[2] != metric:
            continue
        average, value = found.target.average_value, found.target.value
        if average is None and value is None:
            continue
        basis = Basis.VALUE if average is None else Basis.AVERAGE_VALUE
        target_milli = _milli(value if average is None else average)
        if target_milli > 0:
            ours.append(Metric(found.metric.name, basis, target_milli))
    if not ours:
        return None
    least = 1 if hpa.spec.min_replicas is None else hpa.spec.min_replicas
    made = Autoscaler(least, hpa.spec.max_replicas, (ours[0],), _behavior(hpa.spec.behavior))
    return Asking(made, len(hpa.spec.metrics) - 1)


def scaled_to_zero(hpa: Hpa) -> bool:
    """Whether HPA itself has brought the target to zero and will wake it."""
    return any(one.type == "ScaledToZero" and one.status == "True" for one in hpa.status.conditions)


def is_told(hpa: Hpa) -> bool:
    """Whether it was ever told a number: it has one now, or has set a count. Who writes HPAs writes no status."""
    has_one = any((one.type, one.status) == ("ScalingActive", "True") for one in hpa.status.conditions)
    return has_one or hpa.status.last_scale_time is not None


def _behavior(given: HpaBehavior | None) -> Behavior | None:
    if given is None:
        return None
    return Behavior(_rules(given.scale_up, DEFAULT_UP), _rules(given.scale_down, DEFAULT_DOWN))


def _rules(given: HpaRules | None, default: Rules) -> Rules:
    if given is None:
        return default
    made = replace(default, tolerance_ratio=None if given.tolerance is None else quantity(given.tolerance))
    try:
        if given.policies is not None:
            policies = tuple(Policy(Unit(one.type), one.value, one.period_seconds) for one in given.policies)
            made = replace(made, policies=policies)
        if given.select_policy is not None:
            made = replace(made, select=Select(given.select_policy))
    except ValueError as error:
        raise InputError(f"an HPA's behavior: {error}") from error
    if given.stabilization_window_seconds is not None:
        made = replace(made, window_s=given.stabilization_window_seconds)
    return made


def _has_tolerance(hpa: Hpa) -> bool:
    behavior = hpa.spec.behavior
    both = () if behavior is None else (behavior.scale_up, behavior.scale_down)
    return any(rules is not None and rules.tolerance is not None for rules in both)


def _milli(amount: Amount) -> int:
    """Thousandths, rounded up as HPA does; nine digits are kept, so that 0.1 is 100 and not 101."""
    return math.ceil(round(quantity(0 if amount is None else amount) * 1000, 9))
