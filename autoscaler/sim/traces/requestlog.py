"""What request-level traces have in common: one row per request, in order of arrival.

Enters: columns that a format's reader has checked. Leaves: a `Traffic` of the selected model, client and days. Several
models in one file are one load unless a model is named, as such a log is of one service; the source then says so.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from autoscaler.errors import InputError
from autoscaler.sim.traces.selection import DAY_S, TraceSelection, listed
from autoscaler.sim.traffic import FloatArray, Traffic, bin_counts

_LONGEST_S = 366 * DAY_S
"""A trace that seems to last longer has instants of another unit or origin (milliseconds, Unix time)."""


@dataclass(frozen=True, slots=True)
class RequestLog:
    """Requests in order: arrays of shape (N,), instants in seconds from the start of the trace."""

    path: Path
    arrival_s: FloatArray
    prompt_tokens: FloatArray
    output_tokens: FloatArray
    models: Sequence[str] | None = None
    """One name per request; None where the format has none."""
    tenants: Sequence[str] | None = None


def to_traffic(log: RequestLog, selection: TraceSelection, *, step_s: float) -> Traffic:
    """The selected requests in bins of `step_s`, with instants and token counts.

    A recording is not redrawn: a rate scales its counts only and drops instants and tokens (`Traffic.scaled_by`).
    InputError where the file offers no such model, tenant or day, or its instants cannot be seconds from a start.
    """
    last_s = float(log.arrival_s[-1])
    if last_s > _LONGEST_S:
        raise InputError(
            f"{log.path}: the last request arrives {last_s:g} s after the start, more than a year; instants must "
            "count from the start of the trace, in the format's own unit"
        )
    keep = _named(log, "model", log.models, selection.model) & _named(log, "tenant", log.tenants, selection.tenant)
    if not keep.any():
        raise InputError(f"{log.path}: tenant {selection.tenant!r} sends nothing to model {selection.model!r}")
    bins = math.floor(last_s / step_s) + 1
    whole = Traffic(
        name=selection.tenant or selection.model or log.path.name.split(".")[0],
        step_s=step_s,
        arrivals=bin_counts(log.arrival_s[keep], bins * step_s, step_s),
        source=f"{log.path.name}{selection.describe()}{_together(log.models, selection.model)}",
        arrival_s=log.arrival_s[keep],
        prompt_tokens=log.prompt_tokens[keep],
        output_tokens=log.output_tokens[keep],
    )
    selected = whole if selection.day is None else _days(log.path, whole, selection.day, selection.days)
    return selected if selection.rate_rps is None else selected.scaled_to_mean(selection.rate_rps)


def _days(path: Path, whole: Traffic, day: int, days: int) -> Traffic:
    offered = math.ceil(whole.duration_s / DAY_S)
    if day + days > offered:
        raise InputError(f"{path}: no day {max(day, offered)}; it offers days 0 to {offered - 1}")
    if DAY_S % whole.step_s:
        raise InputError(f"{path}: a day is not a whole number of bins of {whole.step_s} s; choose another width")
    return whole.window(day * DAY_S, min((day + days) * DAY_S, whole.duration_s))


def _named(log: RequestLog, field: str, names: Sequence[str] | None, wanted: str | None) -> npt.NDArray[np.bool_]:
    if wanted is None:
        return np.ones(log.arrival_s.size, dtype=np.bool_)
    offered = sorted(set(names or ()) - {""})
    if wanted not in offered:
        offers = f"it offers {listed(offered)}" if offered else f"its requests carry no {field}"
        raise InputError(f"{log.path}: no {field} {wanted!r}; {offers}")
    return np.fromiter((name == wanted for name in names or ()), np.bool_, log.arrival_s.size)


def _together(models: Sequence[str] | None, wanted: str | None) -> str:
    offered = sorted(set(models or ()))
    return f" ({len(offered)} models together: {listed(offered)})" if wanted is None and len(offered) > 1 else ""
