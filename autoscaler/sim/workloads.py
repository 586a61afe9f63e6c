"""Named workloads: offered load generated from published statistics, so that a simulation needs no file.

Enters: a name and a seed. Leaves: a `Traffic` with instants, token counts, a suggested capacity of one replica and the
onsets nobody could foresee. The same seed gives the same bytes. Statistics were measured on the public traces each
docstring names; what has no source says "guess". Nothing here knows of a policy.

Sources: Azure LLM 2023 (Patel et al., "Splitwise", ISCA 2024, CC-BY-4.0); ServeGen (Xiang et al., arXiv 2505.09999,
Apache-2.0); Azure Functions 2019 (Shahrad et al., "Serverless in the Wild", USENIX ATC 2020, CC-BY-4.0).
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType

import numpy as np

from autoscaler.errors import InputError
from autoscaler.sim.traces.renewal import client_stream, renewal_at_one_cv
from autoscaler.sim.traces.selection import DAY_S
from autoscaler.sim.traffic import FloatArray, Traffic, bin_counts

_HOUR_S = 3600
_STEP_S = 1.0
_CAPACITY_RPS = 1.0
"""Requests/s of one replica: the order of a large model on one server at these lengths (guess); rates follow it."""
_NORMAL_P90 = 1.2816
"""The standard normal's 90th percentile: turns a median and a p90 into the spread of a lognormal."""


@dataclass(frozen=True, slots=True)
class _Spread:
    """A lognormal by its median and 90th percentile, cut at the largest value seen."""

    median: float
    p90: float
    largest: float

    def draw(self, count: int, stream: np.random.Generator) -> FloatArray:
        sigma = np.log(self.p90 / self.median) / _NORMAL_P90
        draws: FloatArray = np.minimum(self.median * np.exp(sigma * stream.standard_normal(count)), self.largest)
        return draws


@dataclass(frozen=True, slots=True)
class _Lengths:
    prompt: _Spread
    output: _Spread


_CODE = _Lengths(prompt=_Spread(1465, 4995, 7437), output=_Spread(13, 54, 1899))
_CHAT = _Lengths(prompt=_Spread(1020, 2734, 14050), output=_Spread(129, 424, 1000))
"""Tokens in the Azure LLM 2023 traces, code and conversation: medians, p90 and maxima."""

_STEADY = ((0.50, 1.09), (0.30, 1.11), (0.20, 1.17))
"""Share of the load and cv of clients without bursts: the cvs of ServeGen m-small's largest clients."""
_CHAT_CLIENTS = (
    (0.330, 1.11), (0.177, 1.09), (0.091, 1.10), (0.082, 8.00), (0.060, 1.07), (0.059, 1.17), (0.048, 1.24),
    (0.039, 1.70), (0.019, 1.02), (0.018, 1.18), (0.025, 1.04), (0.020, 1.00), (0.014, 5.85), (0.018, 3.10),
)  # fmt: skip
"""Share of the load and median cv (clipped at 8) of ServeGen m-small's clients in week 1, the smallest pooled."""
_CHAT_HOURS = (
    0.839, 0.666, 0.659, 0.651, 0.614, 0.634, 0.717, 0.806, 0.980, 1.174, 1.148, 1.095,
    1.038, 1.004, 1.049, 1.036, 1.069, 1.083, 1.075, 1.232, 1.480, 1.487, 1.352, 1.113,
)  # fmt: skip
"""Requests per hour of the day over the day's mean: ServeGen m-small, mean of the 7 days of week 1."""
_CLIENT_DRIFT = 0.06
"""Spread of log rate of one client from one ten minutes to the next: gives ServeGen m-small's median step of 3 %."""


def _traffic(
    name: str,
    seed: int,
    rates_rps: FloatArray,
    *,
    clients: tuple[tuple[float, float], ...] = _STEADY,
    lengths: _Lengths = _CHAT,
    onsets_s: tuple[float, ...] = (),
    drift_ratio: float = 0.0,
) -> Traffic:
    """Arrivals at `rates_rps` per second of the workload, drawn client by client as Gamma renewals."""
    instants: list[FloatArray] = []
    for index, (share, cv) in enumerate(clients):
        stream = client_stream(seed, f"{name} {index}", 0.0)
        blocks = -(-rates_rps.size // 600)
        drift = np.repeat(np.exp(drift_ratio * stream.standard_normal(blocks)), 600)[: rates_rps.size]
        instants.append(renewal_at_one_cv(rates_rps * share * drift, cv, window_s=1.0, stream=stream))
    arrival_s = np.sort(np.concatenate(instants))
    stream = client_stream(seed, f"{name} lengths", 0.0)
    return Traffic(
        name=name,
        step_s=_STEP_S,
        arrivals=bin_counts(arrival_s, rates_rps.size, _STEP_S),
        source=f"named workload {name}",
        seed=seed,
        arrival_s=arrival_s,
        prompt_tokens=np.maximum(1.0, np.rint(lengths.prompt.draw(arrival_s.size, stream))),
        output_tokens=np.maximum(1.0, np.rint(lengths.output.draw(arrival_s.size, stream))),
        onsets_s=onsets_s,
        capacity_rps=_CAPACITY_RPS,
    )


def _code_burst(seed: int) -> Traffic:
    """12 h of on and off: bursts of 44 s on average (exponential, 10 s at least) and 49 s without a request.

    Azure LLM 2023 code, first half, in 10-s bins: on 44 s (standard deviation 33), off 49 s (47), 6.4 requests/s while
    on with cv 0.83 between bins, and cv 2.2 between arrivals closer than 5 s. Mean about 3 replicas, peaks of 30.
    """
    stream = client_stream(seed, "code-burst episodes", 0.0)
    rates = np.zeros(12 * _HOUR_S)
    at = 0
    while at < rates.size:
        on = 10 + round(stream.exponential(34.0))
        for start in range(at, min(at + on, rates.size), 10):
            shape = 1 / 0.83**2
            rates[start : min(start + 10, at + on)] = 6.4 * stream.standard_gamma(shape) / shape
        at += on + max(10, round(stream.exponential(49.0)))
    return _traffic("code-burst", seed, rates, clients=((1.0, 2.2),), lengths=_CODE)


def _chat_diurnal(seed: int) -> Traffic:
    """A day of chat with a mean of 20 requests/s: hours, clients and burstiness of ServeGen m-small, Azure lengths."""
    hours = np.array(_CHAT_HOURS)
    centres_s = (np.arange(-1, 25) + 0.5) * _HOUR_S
    rates = 20.0 * np.interp(np.arange(DAY_S) + 0.5, centres_s, np.concatenate((hours[-1:], hours, hours[:1])))
    return _traffic("chat-diurnal", seed, rates, clients=_CHAT_CLIENTS, drift_ratio=_CLIENT_DRIFT)


def _long_tail(seed: int) -> Traffic:
    """A day of one rarely used model: spells of sparse requests and up to 6 h of nothing between them.

    The 79 ServeGen clients of week 1 with at most 0.1 requests/s: spells of 20 min (median; p90 100), idle 30 min
    (p90 580), 0.06 requests/s in a spell (p90 0.34), cv 1.1. In the Azure Functions 2019 sample 87 % of functions are
    called at most once a minute. Idle spells are cut at 6 h so that a day holds several (guess).
    """
    stream = client_stream(seed, "long-tail spells", 0.0)
    rates = np.zeros(round(DAY_S))
    at = 0
    while at < rates.size:
        at += max(600, round(float(_Spread(1800, 34_800, 21_600).draw(1, stream)[0])))
        spell = max(600, round(float(_Spread(1200, 6000, 14_400).draw(1, stream)[0])))
        rates[at : at + spell] = _Spread(0.058, 0.342, 1.2).draw(1, stream)[0]
        at += spell
    return _traffic("long-tail", seed, rates, clients=((1.0, 1.11),))


def _step(name: str, low_rps: float, high_rps: float) -> Callable[[int], Traffic]:
    def draw(seed: int) -> Traffic:
        """6 h: `low_rps`, from about 2 h on `high_rps` for 2 h, then `low_rps` again; up within one second."""
        stream = client_stream(seed, f"{name} onset", 0.0)
        onset = 2 * _HOUR_S + int(stream.integers(600))
        rates = np.full(6 * _HOUR_S, low_rps)
        rates[onset : onset + 2 * _HOUR_S] = high_rps
        return _traffic(name, seed, rates, onsets_s=(float(onset),))

    return draw


def _ramp(seed: int) -> Traffic:
    """5 h: 4 requests/s, from hour 1 on a straight climb to 32 within an hour, an hour there, an hour down (guess)."""
    rates = np.interp(np.arange(5 * _HOUR_S) / _HOUR_S, [1.0, 2.0, 3.0, 4.0], [4.0, 32.0, 32.0, 4.0])
    return _traffic("ramp", seed, rates)


def _spike_train(seed: int) -> Traffic:
    """A day at 20 requests/s with some 280 spikes of 20 s to 1.4-1.74 times as much: over before capacity could land.

    The height is the range of ServeGen's p99 step from ten minutes to ten minutes; the length and the mean gap of
    300 s are guesses. 24 replicas ride every spike out within a wait of 10 s; serving each at once takes 35.
    """
    stream = client_stream(seed, "spike-train spikes", 0.0)
    rates = np.full(round(DAY_S), 20.0)
    at = 600
    while at < rates.size:
        rates[at : at + 20] *= stream.uniform(1.4, 1.74)
        at += 20 + max(90, round(stream.exponential(280.0)))
    return _traffic("spike-train", seed, rates)


def _idle_then_burst(seed: int) -> Traffic:
    """8 h with no request but in two bursts out of nothing: 12 requests/s for 45 min and 24 for 30 min (guess)."""
    stream = client_stream(seed, "idle-then-burst onsets", 0.0)
    first, second = (hour * _HOUR_S + int(stream.integers(600)) for hour in (2, 5))
    rates = np.zeros(8 * _HOUR_S)
    rates[first : first + 2700] = 12.0
    rates[second : second + 1800] = 24.0
    return _traffic("idle-then-burst", seed, rates, onsets_s=(float(first), float(second)))


NAMED: Mapping[str, Callable[[int], Traffic]] = MappingProxyType(
    {
        "code-burst": _code_burst,
        "chat-diurnal": _chat_diurnal,
        "long-tail": _long_tail,
        "step-x3": _step("step-x3", 8.0, 24.0),
        "step-x10": _step("step-x10", 3.0, 30.0),
        "ramp": _ramp,
        "spike-train": _spike_train,
        "idle-then-burst": _idle_then_burst,
    }
)
"""Every named workload, by name."""


def named_workload(name: str, seed: int) -> Traffic:
    """The named workload drawn from `seed` (0 or more). InputError for a name or a seed that is not one."""
    if name not in NAMED:
        raise InputError(f"no workload {name!r}; choose one of {', '.join(NAMED)}")
    if seed < 0:
        raise InputError(f"workload {name}: seed is {seed}; it must be 0 or more")
    return NAMED[name](seed)
