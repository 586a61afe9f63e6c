"""An HPA's settings and the controller's own, as frozen values with the defaults of autoscaling/v2.

Enters: nothing; adapters fill these. Numbers that HPA compares are in thousandths (`_milli`), as its quantities are.
Sources: kubernetes/kubernetes v1.36, pkg/apis/autoscaling/v2/defaults.go for the rules, and
pkg/controller/podautoscaler/config/v1alpha1/defaults.go for the controller.
"""

from dataclasses import dataclass
from enum import Enum
from typing import Final


class Unit(Enum):
    """What a policy counts."""

    PODS = "Pods"
    PERCENT = "Percent"


class Select(Enum):
    """Which of several policies counts."""

    MAX = "Max"
    """The one that lets the count move furthest."""
    MIN = "Min"
    DISABLED = "Disabled"
    """The count never moves this way."""


@dataclass(frozen=True, slots=True)
class Policy:
    """A pace: at most `value` pods, or percent of the count, within any `period_s`."""

    unit: Unit
    value: int
    period_s: int


@dataclass(frozen=True, slots=True)
class Rules:
    """How fast the count may move in one direction."""

    policies: tuple[Policy, ...]
    select: Select = Select.MAX
    window_s: int | None = None
    """The stabilisation window; None: the controller's own, which only the way down has."""
    tolerance_ratio: float | None = None
    """Relative distance from the target at which nothing moves; None: the controller's own."""


DEFAULT_UP: Final = Rules((Policy(Unit.PODS, 4, 15), Policy(Unit.PERCENT, 100, 15)), window_s=0)
DEFAULT_DOWN: Final = Rules((Policy(Unit.PERCENT, 100, 15),))


@dataclass(frozen=True, slots=True)
class Behavior:
    """Both directions; an HPA that names one of them has the other by default."""

    up: Rules = DEFAULT_UP
    down: Rules = DEFAULT_DOWN


class Basis(Enum):
    """What a target is compared with."""

    AVERAGE_VALUE = "AverageValue"
    """The value over the pods that there are."""
    VALUE = "Value"
    """The value itself; the count follows from the ready pods."""


@dataclass(frozen=True, slots=True)
class Metric:
    """A metric from outside of the pods, External or Object; its target is positive."""

    name: str
    basis: Basis
    target_milli: int


@dataclass(frozen=True, slots=True)
class Controller:
    """The flags of kube-controller-manager that HPA goes by, and its constants."""

    tolerance_ratio: float = 0.1
    down_window_s: int = 300
    sync_s: float = 15.0
    """From one evaluation of an HPA to the next."""
    up_factor: float = 2.0
    """Without a behavior: times the present count, the most that one evaluation sets."""
    up_least: int = 4
    """The same in pods, where that is more."""


@dataclass(frozen=True, slots=True)
class Autoscaler:
    """An HPA's settings. `metrics` holds None for one that is not computed here: resources and metrics of pods."""

    minimum: int
    maximum: int
    metrics: tuple[Metric | None, ...]
    behavior: Behavior | None = None
    """None: the controller's rules of old, which double the count at most and have no policies."""
    controller: Controller = Controller()
    """Who evaluates it."""


def tolerances(autoscaler: Autoscaler) -> tuple[float, float]:
    """Below and above the target, the relative distances at which nothing moves (KEP-4951)."""
    both, behavior = autoscaler.controller.tolerance_ratio, autoscaler.behavior
    if behavior is None:
        return both, both
    down, up = behavior.down.tolerance_ratio, behavior.up.tolerance_ratio
    return both if down is None else down, both if up is None else up


def windows_s(autoscaler: Autoscaler) -> tuple[int, int]:
    """The stabilisation windows up and down."""
    own_s, behavior = autoscaler.controller.down_window_s, autoscaler.behavior
    if behavior is None:
        return 0, own_s
    down_s = behavior.down.window_s
    return behavior.up.window_s or 0, own_s if down_s is None else down_s
