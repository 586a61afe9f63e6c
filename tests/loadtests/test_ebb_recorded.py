"""Whether demand that was recorded fell as a pool would have foretold: days that it had not seen, two hours apart."""

from pathlib import Path

import numpy as np
import pytest

from autoscaler.core.pool.ebb import LASTS_S, ebbs
from autoscaler.core.pool.history import BIN_S, DemandHistory
from loadtests.warm import CASES, demand_of

pytestmark = [pytest.mark.data, pytest.mark.slow, pytest.mark.needs("shared-data")]

LASTS = round(LASTS_S / BIN_S)
SEEN_DAYS = 2


def test_nine_of_ten_sure_falls_of_a_recorded_week_came_and_half_of_the_usual_ones(shared_data: Path) -> None:
    """m-small, 18 replicas in the mean: how many of the deepest falls that were foretold for eight hours came by then
    and lasted for half an hour."""
    demand = demand_of(CASES[0], shared_data, seed=0).replicas.sum(axis=0).astype(np.float64)
    came = dict[str, list[bool]](usual=[], sure=[])
    for now in range(SEEN_DAYS * 1440, demand.size - 8 * 60 - LASTS, 120):
        seen = DemandHistory(now, demand[:now], demand[:now], demand[now], demand[now])
        foretold = ebbs(seen, now * BIN_S)
        at = [now + round(each.within_s / BIN_S) for each in foretold]
        fell = max((demand[now] - demand[a : a + LASTS].max() for a in at), default=0.0)
        for name, slots in (("usual", [e.usual_slots for e in foretold]), ("sure", [e.sure_slots for e in foretold])):
            if slots and slots[-1]:
                came[name].append(bool(fell >= slots[-1]))
    ratios = {name: (len(each), round(float(np.mean(each)), 2)) for name, each in came.items()}
    assert min(number for number, _ in ratios.values()) >= 10, ratios
    assert ratios["sure"][1] >= 0.9, ratios
    assert 0.5 <= ratios["usual"][1] < 0.9, ratios
    print(ratios)
