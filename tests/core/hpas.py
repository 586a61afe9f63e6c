"""Settings of HPAs that tests of more than one room begin from."""

from typing import Final

from autoscaler.core.hpa.spec import Autoscaler, Basis, Behavior, Metric, Policy, Rules, Unit

OURS: Final = Metric("s0-headroom-replicas", Basis.AVERAGE_VALUE, 1000)

AT_ONCE: Final = Rules((Policy(Unit.PERCENT, 900, 15), Policy(Unit.PODS, 100, 15)), window_s=0, tolerance_ratio=0.0)
EXACT: Final = Behavior(AT_ONCE, AT_ONCE)
"""Follows every count at once."""
DEFAULT: Final = Behavior()


def hpa(behavior: Behavior | None = DEFAULT, *, least: int = 1, most: int = 40) -> Autoscaler:
    """One that asks for our number of replicas alone."""
    return Autoscaler(least, most, (OURS,), behavior)
