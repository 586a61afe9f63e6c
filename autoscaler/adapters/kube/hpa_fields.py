"""The parts of a HorizontalPodAutoscaler that say what becomes of a number; see `objects` for the rules.

Enters: JSON of autoscaling/v2. Leaves: narrow structs with the API's own words and quantities as they were written.
"""

from datetime import datetime

import msgspec

from autoscaler.adapters.kube.meta import Condition

Amount = str | int | float | None


class HpaPolicy(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """A pace in one direction: `type` is Pods or Percent."""

    type: str = ""
    value: int = 0
    period_seconds: int = 0


class HpaRules(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """One direction; what is None has the API's default."""

    select_policy: str | None = None
    stabilization_window_seconds: int | None = None
    policies: tuple[HpaPolicy, ...] | None = None
    tolerance: Amount = None


class HpaBehavior(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """Both directions."""

    scale_up: HpaRules | None = None
    scale_down: HpaRules | None = None


class MetricTarget(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """What a metric is compared with."""

    type: str = ""
    value: Amount = None
    average_value: Amount = None


class MetricName(msgspec.Struct, frozen=True, gc=False):
    """Which metric it is."""

    name: str = ""


class ExternalMetric(msgspec.Struct, frozen=True, gc=False):
    """A metric from outside of the cluster's objects, as KEDA's all are."""

    metric: MetricName = MetricName()
    target: MetricTarget = MetricTarget()


class HpaMetric(msgspec.Struct, frozen=True, gc=False):
    """One metric; of other types than External nothing is read."""

    type: str = ""
    external: ExternalMetric | None = None


class HpaStatus(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """What the last evaluation came to: it found `current_replicas` and set `desired_replicas`."""

    last_scale_time: datetime | None = None
    """When an evaluation changed the count last; the two counts are of that one until the next."""
    current_replicas: int = 0
    desired_replicas: int = 0
    conditions: tuple[Condition, ...] = ()
