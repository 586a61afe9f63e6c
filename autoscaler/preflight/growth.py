"""How much the replicas of workloads of one shape grow together within one cold start: what warm capacity is for.

Enters: studies with their demands, one at a time. Leaves: a `PoolStudy` per shape and size of replica. A slot that is
warm saves a cold start, so that so many of them are wanted as demand may grow within one; what it grows by later can be
ordered in time. Workloads are added up before growth is measured: not all of them grow at once.
"""

from dataclasses import dataclass, field
from typing import Final

import numpy as np

from autoscaler.core.columns import F64
from autoscaler.preflight.answers import COVERAGE, Answer, CannotTell, Measured, Why, Window
from autoscaler.preflight.history import Fact
from autoscaler.preflight.offered import Demand
from autoscaler.preflight.phrases import lasting
from autoscaler.preflight.provision import highest_before
from autoscaler.preflight.study import SEED, Demands, WorkloadStudy
from autoscaler.preflight.summing import Joint
from autoscaler.preflight.sustained import DAY_S, HOUR_S, LEAST_BLOCKS, LEAST_DAYS

HIT_RATIO: Final = 0.99
"""The share of moments whose growth finds warm slots: the default of a WarmPool's hitRatio."""

MOST_GPUS: Final = 64
"""Of one slot."""

_DRAWS: Final = 100
_HOURS: Final = 24


@dataclass(frozen=True, slots=True)
class PoolStudy:
    """What the workloads of one shape and size want warm; `slots` are whole replicas of `gpus` GPUs."""

    shape: str
    """Empty where the source names none."""
    gpus: int
    workloads: tuple[str, ...]
    lead: Answer
    """The longest of their cold starts."""
    quiet: Answer
    """Growth within one lead in the calmest hour of the day, covered at `HIT_RATIO`; slots."""
    busy: Answer
    """The same in the hour that grows most."""
    most: Answer
    """The largest growth within one lead that was seen; slots."""


@dataclass(frozen=True, slots=True)
class Pools:
    """All pools, and why workloads are in none, by name."""

    pools: tuple[PoolStudy, ...] = ()
    left_out: dict[str, str] = field(default_factory=dict)


@dataclass(slots=True)
class _Kind:
    joint: Joint = field(default_factory=lambda: Joint("replicas"))
    lead: Measured | None = None


class Growth:
    """Adds workloads up as they come; `finish` gives the pools."""

    def __init__(self) -> None:
        self._kinds: dict[tuple[str, int], _Kind] = {}
        self._left_out: dict[str, str] = {}

    def add(self, study: WorkloadStudy, demands: Demands) -> None:
        """Take in one workload."""
        flying, slots, gpus = demands.in_flight, study.slots, study.gpus
        untold = next((part for part in (flying, slots, gpus, study.cold_start) if isinstance(part, CannotTell)), None)
        if untold is not None or not isinstance(flying, Demand) or not isinstance(slots, Measured):
            self._left_out[study.workload] = "its replicas are not known" if untold is None else untold.text
            return
        assert isinstance(gpus, float | int)
        assert isinstance(study.cold_start, Measured)
        if not float(gpus).is_integer() or not 1 <= gpus <= MOST_GPUS or slots.value <= 0:
            self._left_out[study.workload] = f"a replica of {gpus:g} GPUs is no slot: 1 to {MOST_GPUS} whole ones are"
            return
        kind = self._kinds.setdefault((study.facts.get(Fact.SHAPE, ""), int(gpus)), _Kind())
        each = 1.0 / slots.value
        kind.joint.add(
            study.workload, flying.values * each, start_s=flying.window.from_s, step_s=study.step_s,
            per_request=flying.per_request * each,
        )  # fmt: skip
        if study.workload not in kind.joint.names:
            self._left_out[study.workload] = "its record has no moment in common with the others' of its shape"
        elif kind.lead is None or study.cold_start.value > kind.lead.value:
            kind.lead = study.cold_start

    def finish(self) -> Pools:
        """The pools by shape and size, and who is in none."""
        found = [_pool(shape, gpus, kind) for (shape, gpus), kind in sorted(self._kinds.items())]
        return Pools(tuple(found), dict(sorted(self._left_out.items())))


def _pool(shape: str, gpus: int, kind: _Kind) -> PoolStudy:
    lead, names, joint = kind.lead, tuple(kind.joint.names), kind.joint.demand()
    assert lead is not None
    if isinstance(joint, CannotTell):
        return PoolStudy(shape, gpus, names, lead, joint, joint, joint)
    step_s = kind.joint.step_s
    grown = growth(joint.values, max(1, int(np.ceil(lead.value / step_s - 1e-9))))
    known = grown[np.isfinite(grown)]
    window = Window(joint.window.from_s, joint.window.until_s, (grown.size - known.size) * step_s)
    if not known.size:
        refusal = CannotTell(Why.TOO_SHORT, "no cold start lies within the record as a whole", "a longer window")
        return PoolStudy(shape, gpus, names, lead, refusal, refusal, refusal)
    how = "growth of all replicas together within one cold start"
    most = Measured(float(known.max()), "replicas", window, known.size, "steps", f"the largest {how}")
    quiet, busy = _by_hour(grown, window, step_s, how)
    return PoolStudy(shape, gpus, names, lead, quiet, busy, most)


def growth(replicas: F64, lead_steps: int) -> F64:
    """How far each step is exceeded within the next `lead_steps`, NaN where that is not known; (steps,)."""
    ahead = highest_before(replicas[::-1], lead_steps)[::-1]
    grown = np.maximum(ahead - replicas, 0.0)
    grown[max(0, grown.size - lead_steps) :] = np.nan
    return grown


def _by_hour(grown: F64, window: Window, step_s: float, how: str) -> tuple[Answer, Answer]:
    """The calmest and the busiest hour of the day, each with an interval from whole days drawn again and again."""
    if window.known_s < LEAST_DAYS * DAY_S:
        text = f"{lasting(window.known_s)} of known history do not tell one hour of the day from another"
        refusal = CannotTell(Why.TOO_SHORT, text, f"{LEAST_DAYS:.0f} days, better two weeks")
        return refusal, refusal
    at_s = window.from_s + step_s * np.arange(grown.size)
    days = np.floor(at_s / DAY_S).astype(np.int64)
    days -= days[0]
    hours = np.floor(at_s / HOUR_S).astype(np.int64) % _HOURS
    per_hour: list[dict[int, F64]] = []
    for hour in range(_HOURS):
        mine = (hours == hour) & np.isfinite(grown)
        edges = np.flatnonzero(np.diff(days[mine])) + 1
        parts = np.split(grown[mine], edges) if mine.any() else []
        per_hour.append({int(days[mine][at]): part for at, part in zip([0, *edges.tolist()], parts, strict=False)})
    levels = np.array([_level(list(each.values())) for each in per_hour])
    drawn = _drawn(per_hour, int(days[-1]) + 1)
    known = int(np.isfinite(grown).sum())
    words = f"{how}, covered {100 * HIT_RATIO:.0f} % of the time in the hour of the day that grows"

    def told(value: float, ends: F64 | None, which: str) -> Measured:
        low, high = (None, None) if ends is None else (float(end) for end in ends)
        return Measured(value, "replicas", window, known, "steps", f"{words} {which}", low, high)

    tail = (0.5 * (1 - COVERAGE), 0.5 * (1 + COVERAGE))
    least = None if drawn is None else np.quantile(np.nanmin(drawn, axis=1), tail)
    largest = None if drawn is None else np.quantile(np.nanmax(drawn, axis=1), tail)
    return told(float(np.nanmin(levels)), least, "least"), told(float(np.nanmax(levels)), largest, "most")


def _drawn(per_hour: list[dict[int, F64]], days: int) -> F64 | None:
    """The levels of every hour for days drawn with replacement, (draws, hours); None for too few days."""
    if days < LEAST_BLOCKS:
        return None
    stream = np.random.default_rng(SEED)
    drawn = np.full((_DRAWS, _HOURS), np.nan)
    for at in range(_DRAWS):
        picked = stream.integers(0, days, days).tolist()
        drawn[at] = [_level([each[day] for day in picked if day in each]) for each in per_hour]
    told: F64 = drawn[np.isfinite(drawn).any(axis=1)]
    return told


def _level(parts: list[F64]) -> float:
    return float(np.quantile(np.concatenate(parts), HIT_RATIO)) if parts else np.nan
