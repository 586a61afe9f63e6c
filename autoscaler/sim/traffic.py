"""The offered load of one workload, as a value: what arrives when, and how long each request is.

Trace readers and named workloads make it; the plant, the rivals, the bounds and the report read it. It holds counts
per bin for the fluid model and, where the source has them, one instant and two token counts per request for the
request-level model. It knows nothing of replicas beyond a suggested capacity of one.
"""

import math
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from autoscaler.errors import InputError

FloatArray = npt.NDArray[np.float64]

_MINUTE_S = 60.0
_EDGE_TOLERANCE = 1e-6
"""How far, in bins, a window's edge may lie from a bin's edge before it is refused: float noise, nothing more."""


@dataclass(frozen=True, slots=True, eq=False)
class Traffic:
    """One workload's offered load from second 0 on.

    Raises InputError where an array is empty, not one-dimensional, of the wrong length, negative or not finite.
    """

    name: str
    step_s: float
    """Width of one bin of `arrivals` in seconds."""
    arrivals: FloatArray
    """Shape (T,): requests arriving in [i*step_s, (i+1)*step_s). Fractions are legal: a fluid. Read-only."""
    source: str
    """Where it comes from, as a person would cite it: a file with its selection, or the name of a workload."""
    seed: int | None = None
    """The seed the arrivals were drawn from; None for a recording."""
    prompt_tokens: FloatArray | None = None
    """Shape (N,): tokens of each request's prompt, or None where the source has none. Read-only."""
    output_tokens: FloatArray | None = None
    """Shape (N,): tokens generated for each request, or None. Read-only."""
    arrival_s: FloatArray | None = None
    """Shape (N,): ascending instants in [0, duration_s), or None where only counts are known. Read-only."""
    onsets_s: tuple[float, ...] = ()
    """Instants at which the load changed for a reason no reader of the past could foresee."""
    capacity_rps: float | None = None
    """Suggested capacity of one replica in requests/s; None leaves it to the caller."""

    def __post_init__(self) -> None:
        if not (math.isfinite(self.step_s) and self.step_s > 0):
            raise InputError(f"{self.name}: step_s is {self.step_s}; it must be a positive number of seconds")
        if self.capacity_rps is not None and not (math.isfinite(self.capacity_rps) and self.capacity_rps > 0):
            raise InputError(f"{self.name}: capacity_rps is {self.capacity_rps}; it must be positive")
        object.__setattr__(self, "arrivals", _frozen(self.name, "arrivals", self.arrivals))
        if self.arrivals.size == 0:
            raise InputError(f"{self.name}: arrivals is empty; traffic needs at least one bin")
        for field in ("prompt_tokens", "output_tokens", "arrival_s"):
            values = getattr(self, field)
            if values is not None:
                object.__setattr__(self, field, _frozen(self.name, field, values))
        self._check_requests()

    def _check_requests(self) -> None:
        instants = self.arrival_s
        for field in ("prompt_tokens", "output_tokens"):
            tokens = getattr(self, field)
            if tokens is not None and (instants is None or tokens.size != instants.size):
                raise InputError(f"{self.name}: {field} has {tokens.size} values; it needs one per arrival_s")
        if instants is None or instants.size == 0:
            return
        if bool(np.any(np.diff(instants) < 0)):
            raise InputError(f"{self.name}: arrival_s goes backwards; sort the requests by arrival")
        if instants[-1] >= self.duration_s:
            raise InputError(
                f"{self.name}: arrival_s ends at {instants[-1]} s, after the last bin's {self.duration_s} s"
            )

    @property
    def duration_s(self) -> float:
        """Length in seconds: bins times their width."""
        return self.arrivals.size * self.step_s

    @property
    def total(self) -> float:
        """Requests in all."""
        return float(self.arrivals.sum())

    @property
    def mean_rps(self) -> float:
        """Requests per second over the whole length."""
        return self.total / self.duration_s

    @property
    def peak_minute_rps(self) -> float:
        """Requests per second of the busiest 60 s (any start on a bin's edge); of the whole where it is shorter."""
        width = min(self.arrivals.size, max(1, round(_MINUTE_S / self.step_s)))
        cumulative = np.concatenate(([0.0], np.cumsum(self.arrivals)))
        return float((cumulative[width:] - cumulative[:-width]).max()) / (width * self.step_s)

    def scaled_by(self, factor: float) -> "Traffic":
        """The same shape with every count times `factor` (> 0): a fluid scaling, which thins and repeats nothing.

        Instants and token counts belong to whole requests and cannot be multiplied: they are kept for factor 1 and
        dropped otherwise. To scale a request-level trace, draw it at the wanted rate (ServeGen) or scale the replica.
        """
        if not (math.isfinite(factor) and factor > 0):
            raise InputError(f"{self.name}: the scale factor is {factor}; it must be positive")
        if factor == 1.0:
            return self
        return replace(
            self, arrivals=self.arrivals * factor, arrival_s=None, prompt_tokens=None, output_tokens=None,
            source=f"{self.source} x{factor:.6g}",
        )  # fmt: skip

    def scaled_to_mean(self, rps: float) -> "Traffic":
        """The same shape at a mean of `rps` requests/s; see `scaled_by` for what is dropped. InputError if empty."""
        if self.total == 0:
            raise InputError(f"{self.name}: it has no request, so it cannot be scaled to {rps} requests/s")
        return self.scaled_by(rps / self.mean_rps)

    def window(self, start_s: float, end_s: float) -> "Traffic":
        """The part in [start_s, end_s), with time starting at 0 again. Both must lie on edges of bins, in order."""
        first, last = start_s / self.step_s, end_s / self.step_s
        on_edges = abs(first - round(first)) < _EDGE_TOLERANCE and abs(last - round(last)) < _EDGE_TOLERANCE
        if not on_edges or not 0 <= round(first) < round(last) <= self.arrivals.size:
            raise InputError(
                f"{self.name}: window [{start_s}, {end_s}) s must lie on edges of its {self.step_s} s bins "
                f"within [0, {self.duration_s})"
            )
        low, high = round(first), round(last)
        instants, keep = self.arrival_s, slice(0, 0)
        if instants is not None:
            begin, end = np.searchsorted(instants, [low * self.step_s, high * self.step_s], side="left")
            keep = slice(int(begin), int(end))
            instants = instants[keep] - low * self.step_s
        return replace(
            self,
            arrivals=self.arrivals[low:high],
            arrival_s=instants,
            prompt_tokens=None if self.prompt_tokens is None else self.prompt_tokens[keep],
            output_tokens=None if self.output_tokens is None else self.output_tokens[keep],
            onsets_s=tuple(onset - start_s for onset in self.onsets_s if start_s <= onset < end_s),
            source=f"{self.source} [{start_s:g}, {end_s:g}) s",
        )


def bin_counts(arrival_s: FloatArray, duration_s: float, step_s: float) -> FloatArray:
    """Counts of the instants per bin of `step_s`, shape (ceil(duration_s/step_s),), one bin at least."""
    bins = max(1, math.ceil(duration_s / step_s - _EDGE_TOLERANCE))
    index = np.minimum((arrival_s / step_s).astype(np.int64), bins - 1)
    return np.bincount(index, minlength=bins).astype(np.float64)


def _frozen(name: str, field: str, values: FloatArray) -> FloatArray:
    copy = np.array(values, dtype=np.float64)
    if copy.ndim != 1:
        raise InputError(f"{name}: {field} has {copy.ndim} dimensions; it must have one")
    bad = ~(np.isfinite(copy) & (copy >= 0))
    if bool(bad.any()):
        at = int(np.argmax(bad))
        raise InputError(f"{name}: {field}[{at}] is {copy[at]}; it must be finite and not negative")
    copy.flags.writeable = False
    return copy
