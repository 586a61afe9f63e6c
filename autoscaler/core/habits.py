"""Bursts that come back: which workloads have that habit, and what the bursts need.

Enters: the table, rows that were just measured, and their needs of the last hour. Leaves: a habit for each.
"""

from dataclasses import replace

import numpy as np

from autoscaler.core.columns import F64, I64, places
from autoscaler.core.demand import peaks
from autoscaler.core.forecast import recurring
from autoscaler.core.forecast.recurring import Habit
from autoscaler.core.observe import history
from autoscaler.core.params import HISTORY_BINS
from autoscaler.core.state import Table

AT_ONCE = 512
"""Rows whose six hours are looked through together: 9 MB of them."""


def look(table: Table, rows: I64, needs: F64, lead_s: F64, stays_s: F64) -> Habit:
    """Return the habit of each row; `needs` is of the last hour in requests/s, newest first, shape (B, bins).

    `lead_s` and `stays_s` have shape (B,), as `recurring.look` takes them. All that is remembered of a load is looked
    through only where the hour shows that its bursts come back.
    """
    habit = recurring.look(needs, lead_s, stays_s)
    found = places(np.isfinite(habit.need_rps))
    need_rps = habit.need_rps.copy()
    for first in range(0, len(found), AT_ONCE):
        at = found[first : first + AT_ONCE]
        longer = history.recent_needs(table.history, rows[at], HISTORY_BINS - 1)
        need_rps[at] = recurring.remembered(need_rps[at], longer, ratio=peaks.CEILING)
    return replace(habit, need_rps=need_rps)
