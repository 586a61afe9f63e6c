"""Requests out of a Traffic: the recorded ones, or drawn where only counts per step are known.

Enters: a Traffic, a distribution of lengths, a seed, and a step's count. Leaves: instants and token counts of the
step's requests. It knows nothing of replicas. All randomness of the request-level model is here.
"""

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from autoscaler.errors import InputError
from autoscaler.sim.traffic import Traffic

IntArray = npt.NDArray[np.int64]
FloatArray = npt.NDArray[np.float64]
Batch = tuple[list[float], list[int], list[int]]
"""Ascending instants in seconds, prompt tokens and output tokens of a step's requests."""

_CARRY_NOISE = 1e-9
"""A sum of fractions this close under a whole request is that request: float noise, nothing more."""


@dataclass(frozen=True, slots=True)
class Lengths:
    """Independent lognormal prompt and output lengths; `cv` is standard deviation over mean, 0 makes all equal."""

    prompt_mean: float
    output_mean: float
    prompt_cv: float
    output_cv: float
    source: str

    def __post_init__(self) -> None:
        for field in ("prompt_mean", "output_mean", "prompt_cv", "output_cv"):
            value = getattr(self, field)
            lowest = 1.0 if field.endswith("mean") else 0.0
            if not (math.isfinite(value) and value >= lowest):
                raise InputError(f"lengths: {field} is {value}; it must be finite and at least {lowest:g}")

    def draw(self, rng: np.random.Generator, count: int, limit_tokens: int) -> tuple[IntArray, IntArray]:
        """`count` prompts and outputs, each clipped to 1..limit_tokens // 2 so that any request fits the KV cache."""
        highest = max(1, limit_tokens // 2)
        prompts = _lognormal(rng, self.prompt_mean, self.prompt_cv, count)
        outputs = _lognormal(rng, self.output_mean, self.output_cv, count)
        return _whole(prompts, highest), _whole(outputs, highest)


CONVERSATION = Lengths(
    prompt_mean=1154.7,
    output_mean=211.1,
    prompt_cv=0.96,
    output_cv=0.77,
    source="Azure LLM inference trace 2023, conversation: means and variations of its 19,366 requests (CC-BY-4.0)",
)


def _lognormal(rng: np.random.Generator, mean: float, cv: float, count: int) -> FloatArray:
    # The lognormal with this mean and cv: sigma^2 = ln(1 + cv^2), mu = ln(mean) - sigma^2 / 2.
    variance = math.log1p(cv * cv)
    return rng.lognormal(math.log(mean) - variance / 2.0, math.sqrt(variance), count)


def _whole(tokens: FloatArray, highest: int) -> IntArray:
    return np.clip(np.rint(tokens), 1, highest).astype(np.int64)


class RequestSource:
    """Hands out one Traffic's requests step by step, in time order.

    Recorded instants are used as they are, and lengths too, where the Traffic has them (0 tokens count as 1: an engine
    reads and writes at least one). Else a step's count is carried until it makes whole requests, whose instants are
    uniform in the step, and lengths are drawn. Raises InputError for a recorded request no replica can ever hold.
    """

    def __init__(self, traffic: Traffic, lengths: Lengths, *, limit_tokens: int, seed: int) -> None:
        self._rng = np.random.default_rng(seed)
        self._lengths = lengths
        self._limit_tokens = limit_tokens
        self._carried = 0.0
        self._next = 0
        self._instants = traffic.arrival_s
        count = 0 if traffic.arrival_s is None else traffic.arrival_s.size
        drawn = lengths.draw(self._rng, count, limit_tokens)
        recorded = (traffic.prompt_tokens, traffic.output_tokens)
        self._prompts, self._outputs = (
            made if known is None else np.maximum(1, np.rint(known)).astype(np.int64)
            for known, made in zip(recorded, drawn, strict=True)
        )
        self._refuse_giants(traffic.name)

    def _refuse_giants(self, name: str) -> None:
        tokens = self._prompts + self._outputs - 1
        if tokens.size and int(tokens.max()) > self._limit_tokens:
            at = int(np.argmax(tokens))
            raise InputError(
                f"{name}: request {at} needs {tokens[at]} KV tokens ({self._prompts[at]} prompt, {self._outputs[at]} "
                f"output) and a replica holds {self._limit_tokens}; use a profile with more kv_tokens"
            )

    def take(self, now_s: float, dt_s: float, arrivals: float) -> Batch:
        """The requests arriving in [now_s, now_s + dt_s); `arrivals` matters only where no instants are recorded."""
        if self._instants is None:
            self._carried += arrivals
            count = int(self._carried + _CARRY_NOISE)
            self._carried -= count
            instants = now_s + dt_s * np.sort(self._rng.random(count))
            prompts, outputs = self._lengths.draw(self._rng, count, self._limit_tokens)
            return instants.tolist(), prompts.tolist(), outputs.tolist()
        begin, end = self._next, int(np.searchsorted(self._instants, now_s + dt_s, side="left"))
        self._next = end = max(begin, end)
        step = slice(begin, end)
        return self._instants[step].tolist(), self._prompts[step].tolist(), self._outputs[step].tolist()
