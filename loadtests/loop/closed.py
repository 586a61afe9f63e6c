"""One case in closed loop: the plant runs to a tick, is read, and what is answered is ordered at once.

Enters: a case, a seed, who decides. Leaves: its score. The best constant count is found in hindsight by halving: with
more replicas nobody waits longer, but in lines of pods, where it is nearly so.
"""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final, Protocol

import numpy as np

from loadtests.loop.fleet import Fleet, Requests
from loadtests.loop.loads import STARTS
from loadtests.loop.plant import Plant
from loadtests.loop.policies import Constant, Policy
from loadtests.loop.readings import Asked, Faults, Reader
from loadtests.loop.scores import Score, score

TARGET_LATE: Final = 0.01
"""In time are 99 %."""


class Comes(Protocol):
    """Where the requests of a case come from."""

    def requests(self, for_s: int, slots: int, seed: int) -> Requests:
        """Those of the first `for_s` seconds, where a replica has so many slots."""


@dataclass(frozen=True, slots=True)
class Case:
    """One frozen scenario."""

    name: str
    load: Comes
    fleet: Fleet
    for_s: int
    asked: Asked = field(default_factory=Asked)
    phase_s: float = 0.0
    """When the first tick is."""
    faults: Faults = field(default_factory=Faults)
    onset_s: float | None = None
    needs: Path | None = None
    """The file without which it cannot run."""

    def requests(self, seed: int) -> Requests:
        """What comes, the same for all who decide."""
        return self.load.requests(self.for_s, self.fleet.slots, seed)


Move = Callable[[float], None]
"""Takes the share of a run that is done."""


def closed_loop(case: Case, requests: Requests, seed: int, policy: Policy, move: Move = lambda _: None) -> Score:
    """Run a case to its end."""
    plant = Plant(case.fleet, requests, np.random.default_rng([seed, STARTS]))
    reader, orders = Reader(case.asked, case.faults), [case.fleet.opens_with]
    tick = 0
    while (now_s := case.phase_s + tick * case.asked.tick_s) < case.for_s:
        plant.run_to(now_s)
        line = reader.line(plant)
        count = policy.decide(line)
        plant.order(min(count, line["limits"]["budget_replicas"]) if "limits" in line else count)
        orders.append(plant.desired)
        move(now_s / case.for_s)
        tick += 1
    plant.run_to(float(case.for_s))
    return score(plant, requests, orders, wait_s=case.asked.wait_s, onset_s=case.onset_s)


def best_constant(case: Case, requests: Requests, seed: int) -> tuple[int, Score] | None:
    """The smallest count with which 99 % are in time; None where not even the most that may stand are enough."""
    low, high, found = 0, case.asked.most, None
    while low < high:
        count = (low + high) // 2 if found is not None else min(high, max(1, 2 * low))
        fleet = replace(case.fleet, opens_with=count)
        done = closed_loop(replace(case, fleet=fleet), requests, seed, Constant(count))
        if done.late <= TARGET_LATE:
            high, found = count, (count, done)
        elif count == case.asked.most:
            return None
        else:
            low = count
        if found is not None and high - low <= 1:
            return found
    return found
