"""What a run came to: replica-seconds over those needed, who was late, how many stood, how often it turned.

Enters: a plant at the end of its run, and the counts that were ordered. Leaves: a `Score`. What is needed is the time
that requests spend in slots if none ever waits, over the slots of a replica: no law of queues is part of it, so that no
policy reaches 1 with everybody in time.
"""

import math
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

from loadtests.loop.fleet import FloatArray, Requests
from loadtests.loop.plant import Plant

SETTLES_AFTER: Final = 1.0 / 3.0
"""Of the time; what opens a run by chance is over then."""
RECOVERED_FOR_S: Final = 300.0
RECOVERED_LATE: Final = 0.01
"""Recovered from an onset is who makes at most so many late of those that come within so long."""

BoolArray = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Score:
    """One policy on one case and seed."""

    requests: int
    needed_h: float
    ordered_h: float
    """Replica-hours needed, and billed from the order of each."""
    cost: float | None
    """Ordered over needed; None where nothing is needed."""
    late: float
    """Share of all requests that waited longer than the objective, or left without a slot."""
    late_settled: float
    """The same of those that came after the first third."""
    gave_up: int
    most: int
    """Starting or ready, at most."""
    mean_settled: float
    """The same, on average after the first third."""
    turns: int
    """How often the order went up after down, or down after up."""
    recovery_s: float | None
    """After the onset; None where there is none, or no recovery until the end."""


def score(plant: Plant, requests: Requests, orders: list[int], *, wait_s: float, onset_s: float | None) -> Score:
    """The plant stands at the end of its time, `orders` are the counts at each tick."""
    end_s = plant.now_s
    needed_s = float(np.minimum(requests.stay_s, end_s - requests.at_s).sum()) / plant.fleet.slots
    ordered_s = plant.billed_s()
    late = is_late(plant, requests, wait_s)
    settled = requests.at_s >= SETTLES_AFTER * end_s
    return Score(
        requests=requests.at_s.size,
        needed_h=needed_s / 3600.0,
        ordered_h=ordered_s / 3600.0,
        cost=ordered_s / needed_s if needed_s else None,
        late=_share(late),
        late_settled=_share(late[settled]),
        gave_up=int((np.isnan(plant.begun_s) & ~np.isnan(plant.left_s)).sum()),
        most=max(count for _, count in plant.stood),
        mean_settled=mean_from(plant.stood, SETTLES_AFTER * end_s, end_s),
        turns=turns(orders),
        recovery_s=None if onset_s is None else recovery(requests.at_s, late, onset_s, end_s),
    )


def is_late(plant: Plant, requests: Requests, wait_s: float) -> BoolArray:
    """Who waited longer than `wait_s` for a slot, waits so long at the end, or gave up; shape (N,)."""
    waits = ~np.isnan(plant.begun_s)
    until_s = np.where(waits, plant.begun_s, plant.now_s)
    gave_up = ~waits & ~np.isnan(plant.left_s)
    return np.asarray(gave_up | (until_s - requests.at_s > wait_s), dtype=np.bool_)


def turns(orders: list[int]) -> int:
    """Changes of direction of a count."""
    changes = np.sign(np.diff(orders))
    changes = changes[changes != 0]
    return int((changes[1:] != changes[:-1]).sum())


def mean_from(stood: list[tuple[float, int]], from_s: float, end_s: float) -> float:
    """The mean of a count that changes at some instants, from one second to another."""
    ends_s = [at_s for at_s, _ in stood[1:]] + [end_s]
    held = [(max(at_s, from_s), ends, count) for (at_s, count), ends in zip(stood, ends_s, strict=True)]
    return sum(count * max(0.0, ends - begins) for begins, ends, count in held) / (end_s - from_s)


def recovery(at_s: FloatArray, late: BoolArray, onset_s: float, end_s: float) -> float | None:
    """Seconds from the onset until five minutes begin in which at most 1 % of those that come are late.

    They begin at the onset or right after a late request came, and end within the run.
    """
    counted = np.concatenate(([0], np.cumsum(late)))
    after = (at_s >= onset_s) & late
    begins_s = np.concatenate(([onset_s], at_s[after]))
    first = np.concatenate(([np.searchsorted(at_s, onset_s)], np.flatnonzero(after) + 1))
    last = np.searchsorted(at_s, begins_s + RECOVERED_FOR_S, side="right")
    few = counted[last] - counted[first] <= RECOVERED_LATE * (last - first)
    found = np.flatnonzero(few & (begins_s + RECOVERED_FOR_S <= end_s))
    return float(begins_s[found[0]] - onset_s) if found.size else None


def _share(late: BoolArray) -> float:
    return float(late.mean()) if late.size else 0.0


def mean(values: list[float | None]) -> float | None:
    """The mean of seeds; None where one of them has no figure."""
    known = [value for value in values if value is not None and not math.isnan(value)]
    return sum(known) / len(known) if known and len(known) == len(values) else None
