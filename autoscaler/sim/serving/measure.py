"""What one replica can carry, found by trying: open-loop Poisson traffic through the simulator itself.

Enters: a profile, request lengths, an SLO, a seed. Leaves: requests per second. The simulator sizes opening replicas
and bounds with it. It holds no capacity formula, so that it cannot share a mistake with the controller's own estimate.
"""

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from autoscaler.errors import InputError
from autoscaler.sim.serving import ServingPod
from autoscaler.sim.serving.arrivals import Lengths
from autoscaler.sim.serving.profile import Profile
from autoscaler.sim.serving.requests import RequestServing, RequestTimes
from autoscaler.sim.traffic import Traffic

FloatArray = npt.NDArray[np.float64]

ATTAINMENT = 0.99
"""Share of requests that must meet the SLO."""
_REQUESTS = 4000
_SETTLING_RATIO = 0.2
"""First part of each trial that is not judged: it starts on an empty replica."""
_PRECISION_RATIO = 0.01
_FIRST_RPS = 0.01
_HIGHEST_RPS = 1e6


@dataclass(frozen=True, slots=True)
class RequestSlo:
    """Limits in seconds on a request's queue wait, time to first token and time per output token; None is no limit."""

    wait_s: float | None = None
    ttft_s: float | None = None
    tpot_s: float | None = None

    def __post_init__(self) -> None:
        limits = (self.wait_s, self.ttft_s, self.tpot_s)
        if all(limit is None for limit in limits):
            raise InputError("the SLO has no limit; give wait_s, ttft_s or tpot_s")
        for name, limit in zip(("wait_s", "ttft_s", "tpot_s"), limits, strict=True):
            if limit is not None and not (math.isfinite(limit) and limit > 0):
                raise InputError(f"SLO: {name} is {limit}; it must be a positive number of seconds")

    def __str__(self) -> str:
        """The limits in words: a wait of 10 s, a time to first token of 0.5 s."""
        names = (
            ("a wait", self.wait_s),
            ("a time to first token", self.ttft_s),
            ("a time per output token", self.tpot_s),
        )
        return ", ".join(f"{name} of {limit:g} s" for name, limit in names if limit is not None)

    def met(self, times: RequestTimes) -> npt.NDArray[np.bool_]:
        """Shape (N,): which requests met every limit. A request not served yet met none; one token has no tpot."""
        met = ~np.isnan(times.e2e_s)
        for limit, values in ((self.wait_s, times.queue_s), (self.ttft_s, times.ttft_s)):
            if limit is not None:
                met &= values <= limit
        if self.tpot_s is not None:
            met &= (times.output_tokens == 1) | (times.tpot_s <= self.tpot_s)
        return met


def measure_capacity_rps(
    profile: Profile, lengths: Lengths, slo: RequestSlo, seed: int, *, requests: int = _REQUESTS
) -> float:
    """The largest Poisson rate in requests/s at which one replica keeps 99 % of `requests` within the SLO.

    Found by bisection to 1 %. All rates see the same requests at the same relative instants, so that only the rate
    differs; the longest output must fit the trial, so few requests (under some hundred) overstate the rate. Raises
    InputError where even a lone request misses the SLO, and where no rate up to 1e6/s breaks it.
    """
    rng = np.random.default_rng(seed)
    unit_s = np.cumsum(rng.exponential(1.0, requests))
    prompts, outputs = lengths.draw(rng, requests, profile.kv_tokens)

    def meets(rate_rps: float) -> bool:
        return _attainment(profile, unit_s / rate_rps, prompts, outputs, slo) >= ATTAINMENT

    low_rps = _FIRST_RPS
    if not meets(low_rps):
        raise InputError(
            f"profile {profile.name}: at {low_rps} requests/s it misses {slo}; allow more, or leave out requests that "
            "are too long for the engine"
        )
    high_rps = low_rps * 2.0
    while meets(high_rps):
        if high_rps > _HIGHEST_RPS:
            raise InputError(f"profile {profile.name}: {high_rps:g} requests/s still meet {slo}; give more requests")
        low_rps, high_rps = high_rps, high_rps * 2.0
    while high_rps > low_rps * (1.0 + _PRECISION_RATIO):
        middle_rps = math.sqrt(low_rps * high_rps)
        low_rps, high_rps = (middle_rps, high_rps) if meets(middle_rps) else (low_rps, middle_rps)
    return low_rps


def _attainment(
    profile: Profile,
    instants_s: FloatArray,
    prompts: npt.NDArray[np.int64],
    outputs: npt.NDArray[np.int64],
    slo: RequestSlo,
) -> float:
    duration_s = math.floor(instants_s[-1]) + 1.0
    traffic = Traffic(
        name="capacity trial",
        step_s=duration_s,
        arrivals=np.array([float(instants_s.size)]),
        source="Poisson",
        arrival_s=instants_s,
        prompt_tokens=prompts.astype(np.float64),
        output_tokens=outputs.astype(np.float64),
    )
    serving = RequestServing(profile, traffic)
    serving.set_pods(0.0, (ServingPod("one", 0.0),))
    serving.offer(0.0, duration_s, float(instants_s.size))
    now_s = duration_s
    while serving.running or serving.waiting:
        serving.offer(now_s, duration_s, 0.0)
        now_s += duration_s
    judged = slice(int(_SETTLING_RATIO * instants_s.size), None)
    return float(slo.met(serving.times())[judged].mean())
