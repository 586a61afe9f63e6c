"""What a pool has: slots that count, after those that are lost, lent or on nodes that end.

Enters: the view, what was learnt, what goes whatever the target is. Leaves: one frozen value that a look reckons with.
It deletes and orders nothing.
"""

from dataclasses import dataclass

import numpy as np

from autoscaler.core.columns import Bools
from autoscaler.core.pool.clock import Stage
from autoscaler.core.pool.loans import Lent, lent
from autoscaler.core.pool.losses import Lost
from autoscaler.core.pool.rotation import Rotation, rotated
from autoscaler.core.pool.state import PoolState
from autoscaler.core.pool.view import NOWHERE, View


@dataclass(frozen=True, slots=True, eq=False)
class Stock:
    """What is there, after what goes anyhow."""

    lost: Lost
    rotation: Rotation
    good: Bools
    """Slots that count and do not go."""
    supply: int
    warm: int
    together: int
    """Warm slots on the node that has most of them."""
    standing: int
    """Slots that hold GPUs or will, whether they count or not, orders included."""
    starting: int
    lent: Lent


def stock_of(view: View, state: PoolState, found: Lost) -> Stock:
    """The stock of one look; `found` is what goes anyhow."""
    slots = view.slots
    good = without(slots.counts & ~found.going, list(found.reasons))
    leased = slots.stage == Stage.LEASED
    good &= ~leased
    loans = lent(view, good)
    good[list(loans.giving)] = False
    rotation = rotated(view, state, good, found.going)
    counted = good & ~rotation.ending
    early = [at for at, _ in rotation.anew if slots.stage[at] < Stage.WEIGHTS_WARM]
    supply = int(without(counted, early).sum()) + len(state.ordered) + loans.slots
    held = loans.slots + loans.overdue - len(loans.giving)
    standing = int((slots.stage != Stage.FAILED).sum()) + len(state.ordered) + held
    starting = int((good & (slots.stage < Stage.WEIGHTS_WARM)).sum()) + len(state.ordered)
    warm = counted & (slots.stage == Stage.WEIGHTS_WARM)
    together = int(np.bincount(slots.node[warm & (slots.node != NOWHERE)]).max(initial=0))
    return Stock(found, rotation, good, supply, int(warm.sum()), together, standing, starting, loans)


def without(mask: Bools, places: list[int]) -> Bools:
    """The mask without these places."""
    out = mask.copy()
    out[places] = False
    return out
