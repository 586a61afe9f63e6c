"""Small plants for the load test of the closed loop: requests by hand, and a plant without chance."""

import numpy as np

from loadtests.loop.fleet import Fleet, Requests
from loadtests.loop.plant import Plant


def make_requests(*each: tuple[float, float]) -> Requests:
    """(when it comes, how long it stays), ascending."""
    at_s, stay_s = np.array(each, dtype=np.float64).reshape(-1, 2).T
    return Requests(at_s, stay_s)


def every(gap_s: float, stay_s: float, until_s: float) -> Requests:
    """One at each gap, from 0 s on."""
    return make_requests(*((at_s, stay_s) for at_s in np.arange(0.0, until_s, gap_s).tolist()))


def make_plant(fleet: Fleet, requests: Requests, seed: int = 0) -> Plant:
    return Plant(fleet, requests, np.random.default_rng(seed))
