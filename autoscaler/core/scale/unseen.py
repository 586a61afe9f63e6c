"""A line that nobody sees: the gateway that told it is silent, and every replica is full and stays so.

Enters: which gateways are silent, what runs, serves and was completed. Leaves: a count, and whose completions are no
load. Pods do not show a line at the gateway. Of full replicas what they complete is not what arrives but the least that
may, and a fleet that asks for that much stays full for as long as the gateway is silent.

Being full is evidence by how long it lasts. Where n servers carry a load of a (M/M/n; Kleinrock, Queueing Systems I,
1975) all are busy at a stretch for stay / (n - a) on average, and whoever finds them busy waits as long on average: a
fleet that is full for longer than a request may wait makes requests late. How long the line is remains unknown, so that
it asks for twice as many, and again only if those landed, had time to clear it, and all are full still. It refuses to
grow for a reading that is missing: where fewer run than could, or what runs is not told, it asks for nothing.
"""

from dataclasses import dataclass

import numpy as np

from autoscaler.core.columns import F64, I64, Bools, Columns, column, filled, some
from autoscaler.core.scale import clearing
from autoscaler.core.scale.uncalibrated import LOOK_S

GROWTH_RATIO = 2.0
"""Of bids for what nobody knows, twice the last one wastes least in the worst case (Chrobak and Kenyon-Mathieu,
Competitiveness via Doubling, 2006). HPA's default allows as much every 15 s; here each waits for the last to land."""

FULL_RATIO = 0.95
"""Replicas are full with this share of the most that they were ever seen to hold: an engine admits between its steps,
so that a look finds some slots free for a moment (a guess)."""

STILL_SIGMAS = 0.25
"""What runs stands still within this part of a Poisson count's deviation. What runs in free slots is such a count: one
look in five at most is as near to the first by chance, and three are one in 130 at most."""

LOOKS = 4
TURNOVERS = 3.0
"""Looks, and completions for each request in service, through which it has to stand still: looks within one stay see
the same requests."""


@dataclass(slots=True)
class UnseenColumns(Columns):
    """A stretch of looks at full replicas behind a silent gateway."""

    fullest: F64 = column(fill=0.0, later=True)
    """The most that were ever seen to run, for each replica that serves."""
    since_s: F64 = column(later=True)
    """When the stretch began; NaN where the last look found none full."""
    at_s: F64 = column(later=True)
    """The last look that counted."""
    looks: F64 = column(fill=0.0, later=True)
    running: F64 = column(later=True)
    serving: F64 = column(later=True)
    """As they were when it began."""
    completed: F64 = column(fill=0.0, later=True)
    """Since then."""
    asked: F64 = column(fill=0.0, later=True)


@dataclass(frozen=True, slots=True)
class Full:
    """What the pods of each row show, arrays of shape (B,); NaN where not known."""

    now_s: F64
    silent: Bools
    """A gateway that told a queue before tells neither that nor what arrives, and no pod holds a line."""
    lost: Bools
    """It has been silent for longer than a reading is held."""
    running: F64
    serving: F64
    completed: F64
    """Since the last step of any kind."""
    slack_s: F64
    lead_s: F64
    desired: F64
    landed_s: F64
    """For how long all that was ordered has been ready, infinite where that is not told; NaN while some is not."""


def look(columns: UnseenColumns, rows: I64, full: Full) -> Bools:
    """Note what a line asks for that only full replicas tell of (`asked`, 0 where none does).

    Returns the rows, shape (B,), in which what is completed is not what arrives.
    """
    columns.fullest[rows] = np.fmax(columns.fullest[rows], full.running / np.maximum(full.serving, 1.0))
    if not some(full.silent | np.isfinite(columns.since_s[rows])):
        return full.silent
    most = columns.fullest[rows] * full.serving
    is_full = full.silent & (full.running > 0) & (full.running >= FULL_RATIO * most)
    _follow(columns, rows, full, is_full)
    proven = is_full & full.lost & (full.now_s - columns.since_s[rows] > full.slack_s)
    proven &= (columns.looks[rows] >= LOOKS) & (columns.completed[rows] >= TURNOVERS * full.running)
    # What landed has the time in which an order is to clear a queue before it is too few.
    again = proven & (full.landed_s >= clearing.SHARE * full.lead_s)
    twice = np.fmax(GROWTH_RATIO * full.serving, full.desired)
    columns.asked[rows] = np.where(again, twice, np.where(proven, full.desired, 0.0))
    return np.asarray(is_full)


def _follow(columns: UnseenColumns, rows: I64, full: Full, is_full: Bools) -> None:
    """Go on with the stretch of each row that is full, begin it anew where another count runs or serves, or end it."""
    running, since_s, at_s = columns.running[rows], columns.since_s[rows], columns.at_s[rows]
    still = np.abs(full.running - running) <= STILL_SIGMAS * np.sqrt(filled(running))
    goes_on = is_full & still & (full.serving == columns.serving[rows]) & np.isfinite(since_s)
    counts = ~goes_on | (full.now_s - at_s >= LOOK_S)
    columns.looks[rows] = np.where(goes_on, columns.looks[rows] + counts, 1.0)
    columns.completed[rows] = np.where(goes_on, columns.completed[rows] + filled(full.completed), 0.0)
    columns.running[rows] = np.where(goes_on, running, full.running)
    columns.serving[rows] = full.serving
    columns.at_s[rows] = np.where(counts, full.now_s, at_s)
    columns.since_s[rows] = np.where(is_full, np.where(goes_on, since_s, full.now_s), np.nan)
