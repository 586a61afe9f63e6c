"""The policies by name, and one policy's part in a comparison.

Enters: names and a case. Leaves: policies, or an InputError that lists the names; a score for each.
"""

from collections.abc import Callable
from typing import Final

from autoscaler.errors import InputError
from autoscaler.sim.batch.bounds import Bounds
from autoscaler.sim.batch.headroom import Headroom, Queues
from autoscaler.sim.batch.plant import Policy, run
from autoscaler.sim.batch.rivals import RIVALS
from autoscaler.sim.batch.score import Score, score
from autoscaler.sim.batch.work import Case

OURS: Final = {
    "headroom": Queues.FAIR,
    "headroom-guarantees": Queues.GUARANTEED,
    "headroom-one-queue": Queues.ONE,
}
"""How tenants become our queues."""

POLICIES: Final = (*OURS, *RIVALS)


def make(name: str, case: Case) -> Policy:
    """A fresh policy for one run."""
    return Headroom(name, case, OURS[name]) if name in OURS else RIVALS[name](name, case)


def parse(text: str) -> tuple[str, ...]:
    """Names separated by commas; `all` for every one. InputError for a name that is none, or that stands twice."""
    names = POLICIES if text == "all" else tuple(text.split(","))
    for name in names:
        if name not in POLICIES:
            raise InputError(f"--policy: {name!r} is not known; choose from {', '.join(POLICIES)}, or all")
    if len(set(names)) < len(names):
        raise InputError(f"--policy: {text}: a name stands twice; give each once")
    return names


def enter(
    name: str,
    case: Case,
    bounds: Bounds,
    *,
    sample_s: float = 300.0,
    progress: Callable[[float], None] | None = None,
) -> Score:
    """Run and judge a policy."""
    return score(run(case, make(name, case), sample_s=sample_s, progress=progress), bounds)
