"""Burst or noise: how long past excesses over capacity lasted, and whether this one will outlive a start.

An episode begins when the load exceeds what is ready and starting, and ends when the load falls below that level
again, however much capacity came meanwhile; otherwise capacity that arrives would look like noise that went away.
"""

from dataclasses import dataclass

import numpy as np

from autoscaler.core.columns import F32, F64, I64, Bools, Columns, column, some

KEEP = 24
MEMORY_S = 24 * 3600.0

PRIOR_OUTLIVES = 0.5
"""Before any episode was seen, an excess is as likely to stay as to go."""

GATE = 0.2
"""An excess whose chance to outlive the lead time is below this is not bought (a start is billed its lead time and
then held at least as long, so the break-even lies between 1/5 and 1/3)."""


@dataclass(slots=True)
class EpisodeColumns(Columns):
    """Durations of ended episodes with when they ended, and the open one's start and level."""

    duration_s: F32 = column(KEEP, dtype=np.float32)
    ended_s: F64 = column(KEEP)
    slot: I64 = column(fill=0, dtype=np.int64)
    began_s: F64 = column(keep=True)
    level_rps: F64 = column(keep=True)


def follow(columns: EpisodeColumns, rows: I64, now_s: F64, load_rps: F64, capacity_rps: F64) -> F64:
    """Open, continue or close each row's episode; return its age in seconds, NaN where there is none."""
    began, level = columns.began_s[rows], columns.level_rps[rows]
    known = np.isfinite(load_rps) & np.isfinite(capacity_rps)
    opened = known & ~np.isfinite(began) & (load_rps > capacity_rps)
    closed = known & np.isfinite(began) & (load_rps <= level)
    if some(closed):
        mine = rows[closed]
        slot = columns.slot[mine]
        columns.duration_s[mine, slot] = (now_s[closed] - began[closed]).astype(np.float32)
        columns.ended_s[mine, slot] = now_s[closed]
        columns.slot[mine] = (slot + 1) % KEEP
    began = np.where(opened, now_s, np.where(closed, np.nan, began))
    columns.began_s[rows] = began
    columns.level_rps[rows] = np.where(opened, capacity_rps, np.where(closed, np.nan, level))
    return now_s - began


def outlives(columns: EpisodeColumns, rows: I64, now_s: F64, age_s: F64, *, lead_s: F64, recurring: Bools) -> F64:
    """Return the chance that an episode of this age lasts past `lead_s` more seconds, shape (B,).

    Where bursts are `recurring`, what is usual was provided for: an excess that nothing before compares to will end.
    """
    prior = np.where(recurring, 0.0, PRIOR_OUTLIVES)
    recent = now_s[:, None] - columns.ended_s[rows] <= MEMORY_S
    duration = np.where(recent, columns.duration_s[rows], np.nan)
    reached = (duration > age_s[:, None]).sum(axis=1)
    stayed = (duration > (age_s + lead_s)[:, None]).sum(axis=1)
    return np.asarray((prior + stayed) / (1.0 + reached))


def is_noise(chance: F64, age_s: F64) -> Bools:
    """Return which rows are in an episode that should not be bought."""
    return np.isfinite(age_s) & (chance < GATE)
