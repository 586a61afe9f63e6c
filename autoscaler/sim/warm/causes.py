"""What a pool's idle slots stood for: how deep it was, how often demand went as deep, and at which hours.

Enters: a demand, and how many slots stood warm and idle at each look. Leaves: rows by depth and by hour of the day. A
rise is demand over what is there of itself for want of a refill: the same that plans of hindsight are made for.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from autoscaler.core.pool.intents import Intent
from autoscaler.sim.warm.demand import IntArray, ReplicaDemand
from autoscaler.sim.warm.hindsight import shortfall
from autoscaler.sim.warm.plant import Plant
from autoscaler.sim.warm.run import PoolPolicy

DAY_S = 86_400.0
HOUR_S = 3600.0


@dataclass(frozen=True, slots=True)
class Depth:
    """The slot with this number, counted from the one that is used first."""

    slot: int
    idle_warm_h: float
    """How long so many or more stood idle."""
    rises: int
    """That needed so many or more."""


@dataclass(frozen=True, slots=True)
class Hour:
    """One hour of the day, over all days that count."""

    hour: int
    kept: float
    """Slots that stood idle, on average."""
    idle_warm_h: float
    rises: int
    largest: int
    """The largest of them, in slots."""
    as_large: int
    """Rises that needed at least what stood idle on average."""


class Watched:
    """A policy, with how many slots stood warm and idle at each of its looks."""

    def __init__(self, policy: PoolPolicy) -> None:
        self._policy = policy
        self.at_s: list[float] = []
        self.idle: list[int] = []

    def act(self, plant: Plant) -> Iterable[Intent]:
        """The policy's own intents."""
        standing = (slot for slot in plant.slots.values() if slot.failed is None and slot.warm_s is not None)
        self.at_s.append(plant.now_s)
        self.idle.append(sum((slot.warm_s or 0.0) <= plant.now_s for slot in standing))
        return self._policy.act(plant)


def by_depth(demand: ReplicaDemand, watched: Watched, from_s: float) -> Iterator[Depth]:
    """The first slot first, as deep as the pool ever stood or demand ever went."""
    _, idle, look_h = _looks(watched, from_s)
    short = _counted(demand, from_s)
    for slot in range(1, max(int(idle.max(initial=0)), int(short.max(initial=0))) + 1):
        yield Depth(slot, float((idle >= slot).sum() * look_h), len(_peaks(short, slot)))


def by_hour(demand: ReplicaDemand, watched: Watched, from_s: float) -> Iterator[Hour]:
    """Midnight first, hours that no look fell into left out."""
    at_s, idle, look_h = _looks(watched, from_s)
    short = _counted(demand, from_s)
    peaks = _peaks(short, 1)
    hours = np.array([int(at * demand.step_s % DAY_S // HOUR_S) for at, _ in peaks])
    sizes = np.array([size for _, size in peaks])
    for hour in range(24):
        here = idle[at_s % DAY_S // HOUR_S == hour]
        if here.size:
            came, kept = sizes[hours == hour] if sizes.size else sizes, float(here.mean())
            as_large = int((came >= max(1.0, kept)).sum())
            yield Hour(hour, kept, float(here.sum() * look_h), came.size, int(came.max(initial=0)), as_large)


def _looks(watched: Watched, from_s: float) -> tuple[np.ndarray, IntArray, float]:
    at_s = np.array(watched.at_s)
    look_h = float(at_s[1] - at_s[0]) / HOUR_S if at_s.size > 1 else 0.0
    return at_s[at_s >= from_s], np.array(watched.idle)[at_s >= from_s], look_h


def _counted(demand: ReplicaDemand, from_s: float) -> IntArray:
    """Slots that each bin needs; none before the time that counts."""
    short = np.maximum(shortfall(demand.replicas.sum(axis=0)), 0)
    return np.where(np.arange(short.size) * demand.step_s >= from_s, short, 0)


def _peaks(short: IntArray, least: int) -> Sequence[tuple[int, int]]:
    """Where each stretch of at least so many begins, and the most of it."""
    deep = np.concatenate(([False], short >= least, [False]))
    begins, ends = np.flatnonzero(deep[1:] & ~deep[:-1]), np.flatnonzero(~deep[1:] & deep[:-1])
    return [(begin, int(short[begin:end].max())) for begin, end in zip(begins.tolist(), ends.tolist(), strict=True)]
