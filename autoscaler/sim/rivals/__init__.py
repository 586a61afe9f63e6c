"""The rivals: what others ship, written as their own documentation describes it, each with one main knob to sweep.

Enters: readings, plus what an operator configures (`RivalView`). Leaves: a count. No rival imports the core's stages,
and none but `perfect`, which is no product, looks at arrivals to come. `static` is sized in hindsight.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final, Protocol

from autoscaler.errors import InputError
from autoscaler.sim.policy import Policy
from autoscaler.sim.rivals.hpa import Hpa
from autoscaler.sim.rivals.kpa import Kpa, KpaCredit
from autoscaler.sim.rivals.llm_d import LlmD
from autoscaler.sim.rivals.perfect import Perfect
from autoscaler.sim.rivals.static import Static
from autoscaler.sim.rivals.view import Knob, RivalView, view_of

__all__ = ["RIVALS", "Knob", "RivalKind", "RivalView", "make_rival", "view_of"]


class RivalKind(Protocol):
    """A rival's class: its knob, the settings of the hindsight sweep, its own default, and how to make one."""

    KNOB_NAMES: tuple[str, ...]
    KNOBS: tuple[Knob, ...]
    DEFAULT: Knob

    def __call__(self, view: RivalView, knob: Knob) -> Policy:
        """A fresh rival for one run."""
        ...


_KINDS: Final[dict[str, RivalKind]] = {
    "static": Static,
    "hpa": Hpa,
    "kpa": Kpa,
    "kpa-credit": KpaCredit,
    "llm-d": LlmD,
    "perfect": Perfect,
}
RIVALS: Final[Mapping[str, RivalKind]] = MappingProxyType(_KINDS)
"""Every rival by the name it is asked for."""


def make_rival(name: str, view: RivalView, knob: Knob | None = None) -> Policy:
    """A fresh rival at `knob`, or at its own default. InputError for a name that is not one."""
    if name not in RIVALS:
        raise InputError(f"policy {name!r} is not known; the rivals are {', '.join(RIVALS)}")
    kind = RIVALS[name]
    return kind(view, knob if knob is not None else kind.DEFAULT)
