"""The table of one pool: a row per workload, columns per stage, and the little that does not fit in columns.

Everything the core remembers is in here and owned by one driver. `checkpoint` keeps what a restart in mid-burst must
not lose (under 4 KiB per workload); the rest is measured again within minutes.
"""

import math
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from autoscaler.core.capacity.leadtime import LeadTrack
from autoscaler.core.capacity.throughput import ThroughputColumns
from autoscaler.core.columns import F64, I64, Bools, Columns, column
from autoscaler.core.demand.budget import BudgetColumns
from autoscaler.core.demand.episodes import EpisodeColumns
from autoscaler.core.demand.peaks import PeakColumns
from autoscaler.core.forecast import conformal
from autoscaler.core.forecast.forecaster import Forecaster
from autoscaler.core.forecast.models import FittedModel
from autoscaler.core.forecast.onset import OnsetColumns
from autoscaler.core.observe.freshness import FreshnessTrack
from autoscaler.core.observe.history import HistoryColumns
from autoscaler.core.observe.pods import WorkloadTrack
from autoscaler.core.params import Feature, Params
from autoscaler.core.scale.bounds import BoundColumns
from autoscaler.core.scale.clearing import ClearingColumns
from autoscaler.core.scale.uncalibrated import LineColumns
from autoscaler.core.types import Readings

CHECKPOINT_VERSION = 1
COARSE_S = 300.0
"""A checkpoint keeps the load history in five-minute means."""

RECENT_BINS = 24
"""Bins kept as they were: four minutes, twice the shortest hold."""

COARSE_KEEP = 72
"""Six hours of them."""

_PLACES = {feature: place for place, feature in enumerate(Feature)}


@dataclass(slots=True)
class PolicyColumns(Columns):
    """Each row's parameters as columns."""

    min_replicas: I64 = column(fill=0, dtype=np.int64)
    max_replicas: I64 = column(fill=1, dtype=np.int64)
    slack_s: F64 = column()
    tpot_slo_s: F64 = column()
    ttft_slo_s: F64 = column()
    wait_slo_s: F64 = column()
    target_ratio: F64 = column()
    tick_s: F64 = column()
    idle_after_s: F64 = column()
    without: Bools = column(len(Feature), fill=False, dtype=np.bool_)
    """Which of `Feature`, in its order, are left out."""


@dataclass(frozen=True, slots=True)
class Seen:
    """What the last step saw of one workload, for views; NaN where not known."""

    now_s: float
    load_rps: float
    queue: float
    ready: int
    serving: float
    starting_ages_s: tuple[float, ...]
    desired: int
    replicas: int
    wanted: int
    rps: float
    term: int
    lead50_s: float
    lead90_s: float
    burn: float
    late_share: float


class Figures(NamedTuple):
    """`Seen` of all rows of a step, arrays of shape (B,) that nobody writes to, without the ages of the starts."""

    now_s: F64
    load_rps: F64
    queue: F64
    ready: I64
    serving: F64
    desired: I64
    replicas: I64
    wanted: I64
    rps: F64
    term: I64
    lead50_s: F64
    lead90_s: F64
    burn: F64
    late_share: F64


@dataclass(slots=True)
class Track:
    """What one workload remembers outside the columns: names of pods, starts, models."""

    name: str
    params: Params
    pods: WorkloadTrack = field(default_factory=WorkloadTrack)
    lead: LeadTrack = field(default_factory=LeadTrack)
    fresh: FreshnessTrack = field(default_factory=FreshnessTrack)
    last: Seen | tuple[Readings, Figures, int] | None = None
    """What the last step saw, or what that is made of: its figures, and this workload's place in them."""
    zero_signal: bool = False
    """A gateway's queue has been seen: a signal that lives at zero."""
    coming: FittedModel | None = None
    fit_asked_s: float = float("-inf")

    @property
    def seen(self) -> Seen | None:
        """What the last step saw; most steps nobody asks, so it is made for whoever does."""
        if isinstance(self.last, tuple):
            readings, figures, place = self.last
            ages_s = tuple([readings.now_s - start.since_s for start in readings.replicas.starting])
            own = {name: column[place].item() for name, column in zip(Figures._fields, figures, strict=True)}
            self.last = Seen(starting_ages_s=ages_s, **own)
        return self.last

    @property
    def lead50_s(self) -> float | None:
        """The median lead time as the last step saw it; None before the first."""
        last = self.last
        if isinstance(last, tuple):
            return float(last[1].lead50_s[last[2]])
        return None if last is None else last.lead50_s


@dataclass(slots=True)
class Table:
    """State of all workloads of one pool."""

    capacity: int
    rows: dict[str, int]
    tracks: list[Track | None]
    fitted: dict[int, FittedModel]
    policy: PolicyColumns
    history: HistoryColumns
    throughput: ThroughputColumns
    onset: OnsetColumns
    budget: BudgetColumns
    episodes: EpisodeColumns
    peaks: PeakColumns
    bounds: BoundColumns
    line: LineColumns
    clearing: ClearingColumns
    forecaster: Forecaster

    @classmethod
    def empty(cls, capacity: int = 8) -> "Table":
        """Return a table with room for `capacity` workloads; it grows by doubling."""
        return cls(
            capacity,
            {},
            [],
            {},
            PolicyColumns.allocate(capacity),
            HistoryColumns.allocate(capacity),
            ThroughputColumns.allocate(capacity),
            OnsetColumns.allocate(capacity),
            BudgetColumns.allocate(capacity),
            EpisodeColumns.allocate(capacity),
            PeakColumns.allocate(capacity),
            BoundColumns.allocate(capacity),
            LineColumns.allocate(capacity),
            ClearingColumns.allocate(capacity),
            Forecaster.allocate(capacity),
        )

    def groups(self) -> dict[str, Columns]:
        """Return every group of columns by name."""
        own: dict[str, Columns] = {
            "policy": self.policy,
            "history": self.history,
            "throughput": self.throughput,
            "onset": self.onset,
            "budget": self.budget,
            "episodes": self.episodes,
            "peaks": self.peaks,
            "bounds": self.bounds,
            "line": self.line,
            "clearing": self.clearing,
        }
        return own | self.forecaster.groups()

    def track(self, row: int) -> Track:
        """Return a used row's track; raise KeyError for a free row."""
        found = self.tracks[row]
        if found is None:
            raise KeyError(row)
        return found

    def put(self, name: str, params: Params) -> int:
        """Add a workload, or change its parameters, and return its row."""
        row = self.rows.get(name)
        if row is None:
            row = self._free_row()
            self.rows[name] = row
            self.tracks[row] = Track(name, params)
            conformal.reset(self.forecaster.conformal, row)
        self.track(row).params = params
        p, slo = self.policy, params.slo
        p.min_replicas[row], p.max_replicas[row] = params.min_replicas, params.max_replicas
        p.slack_s[row] = slo.queue_slack_s()
        for target, value in ((p.tpot_slo_s, slo.tpot_s), (p.ttft_slo_s, slo.ttft_s), (p.wait_slo_s, slo.wait_s)):
            target[row] = np.nan if value is None else value
        p.target_ratio[row], p.tick_s[row], p.idle_after_s[row] = (
            params.target_ratio,
            params.tick_s,
            params.idle_after_s,
        )
        p.without[row] = [feature in params.without for feature in Feature]
        return row

    def lacks(self, rows: I64, feature: Feature) -> Bools:
        """Return which rows run without a term."""
        left_out: Bools = self.policy.without[rows, _PLACES[feature]]
        return left_out

    def remove(self, name: str) -> None:
        """Forget a workload; raise KeyError when it is not in the table."""
        row = self.rows.pop(name)
        self.tracks[row] = None
        self.fitted.pop(row, None)
        for group in self.groups().values():
            group.clear(row)

    def _free_row(self) -> int:
        for row, track in enumerate(self.tracks):
            if track is None:
                return row
        if len(self.tracks) == self.capacity:
            self.capacity *= 2
            for group in self.groups().values():
                group.grow(self.capacity)
        self.tracks.append(None)
        return len(self.tracks) - 1


def checkpoint(table: Table, name: str) -> dict[str, Any]:
    """Return one workload's checkpoint as plain JSON values; raise KeyError for an unknown workload."""
    row = table.rows[name]
    track = table.track(row)
    kept = {key: packed for key, group in table.groups().items() if (packed := group.pack(row))}
    return {
        "version": CHECKPOINT_VERSION,
        "workload": name,
        "columns": kept,
        "lead_samples_s": [round(s, 1) for s in track.lead.samples_s[-12:]],
        "zero_signal": track.zero_signal,
        "load": _coarse(table, row),
        "recent": _recent(table, row),
        "scores": _quantiles(table, row),
    }


def restore(table: Table, name: str, saved: dict[str, Any]) -> None:
    """Put a checkpoint back into a workload that is already in the table.

    Raises ValueError when the checkpoint has another version or shape; the table is then unchanged but for the row,
    which the caller should remove and add again.
    """
    if saved.get("version") != CHECKPOINT_VERSION:
        raise ValueError(
            f"checkpoint of {name}: version {saved.get('version')!r}, this build reads {CHECKPOINT_VERSION}"
        )
    row = table.rows[name]
    track = table.track(row)
    groups = table.groups()
    for key, packed in saved["columns"].items():
        groups[key].unpack(row, packed)
    track.lead.samples_s = [float(s) for s in saved["lead_samples_s"]]
    track.zero_signal = bool(saved["zero_signal"])
    _restore_load(table, row, saved["load"])
    _restore_recent(table, row, saved["recent"])
    _restore_quantiles(table, row, saved["scores"])


def known(table: Table, saved: dict[str, Any]) -> tuple[dict[str, Any], tuple[str, ...]]:
    """Return a checkpoint without the groups of columns that this build does not have, and their names.

    A later build that learns more keeps it in a group of its own, under the same version: after a rollback the rest is
    as good as it was. Raises what `restore` raises for a checkpoint without columns.
    """
    groups = table.groups()
    columns = {key: packed for key, packed in saved["columns"].items() if key in groups}
    return saved | {"columns": columns}, tuple(sorted(saved["columns"].keys() - columns.keys()))


def _coarse(table: Table, row: int) -> dict[str, Any]:
    """Load history as means per five minutes, newest last, with the head bin."""
    head = int(table.history.head[row])
    per = int(COARSE_S / 10.0)
    if head < 0:
        return {"head": -1, "rps": []}
    index = (head - 1 - np.arange(per * COARSE_KEEP)) % table.history.count.shape[1]
    count = table.history.count[row, index].reshape(COARSE_KEEP, per).sum(axis=1)
    cover = table.history.cover_s[row, index].reshape(COARSE_KEEP, per).sum(axis=1)
    known = cover > 0.5 * COARSE_S
    rates = [float(f"{c / s:.3g}") if k else None for c, s, k in zip(count, cover, known, strict=True)]
    while rates and rates[-1] is None:
        rates.pop()
    return {"head": head, "rps": rates}


def _restore_load(table: Table, row: int, load: dict[str, Any]) -> None:
    head = int(load["head"])
    table.history.head[row] = head
    per = int(COARSE_S / 10.0)
    for block, rate in enumerate(load["rps"]):
        if rate is None:
            continue
        index = (head - 1 - block * per - np.arange(per)) % table.history.count.shape[1]
        table.history.count[row, index] = rate * 10.0
        table.history.cover_s[row, index] = 10.0
        table.history.need_rps[row, index] = rate


def _recent(table: Table, row: int) -> dict[str, Any]:
    """The last minutes as they were: load and need per bin, newest first, and the counts the bounds remember."""
    head = int(table.history.head[row])
    index = (head - 1 - np.arange(RECENT_BINS)) % table.history.count.shape[1]
    load = zip(*(getattr(table.history, n)[row, index].tolist() for n in _RECENT_LOAD), strict=True)
    bounds = table.bounds
    newest = np.argsort(-bounds.bin[row])[:RECENT_BINS]
    counts = [[int(getattr(bounds, n)[row, slot]) for n in _RECENT_COUNTS] for slot in newest.tolist()]
    return {
        "load": [[None if math.isnan(v) else float(f"{v:.4g}") for v in entry] for entry in load] if head >= 0 else [],
        "counts": [entry for entry in counts if entry[0] >= 0],
    }


def _restore_recent(table: Table, row: int, recent: dict[str, Any]) -> None:
    head = int(table.history.head[row])
    for back, entry in enumerate(recent["load"]):
        slot = (head - 1 - back) % table.history.count.shape[1]
        for name, value in zip(_RECENT_LOAD, entry, strict=True):
            getattr(table.history, name)[row, slot] = np.nan if value is None else value
    for entry in recent["counts"]:
        slot = entry[0] % table.bounds.bin.shape[1]
        for name, value in zip(_RECENT_COUNTS, entry, strict=True):
            getattr(table.bounds, name)[row, slot] = value


_RECENT_LOAD = ("count", "cover_s", "need_rps")
_RECENT_COUNTS = ("bin", "wanted", "ordered_high", "ordered_low")
_LEVELS = np.array([0.02, 0.1, 0.25, 0.5, 0.75, 0.9, 0.95, 0.98, 0.99, 0.998])


def _quantiles(table: Table, row: int) -> dict[str, Any]:
    """The score histograms as quantiles at a few levels, with their weights."""
    stage = table.forecaster.conformal
    rows = np.full(len(_LEVELS), row)
    values = conformal.quantile(stage, rows, _LEVELS)
    total = stage.weight[row].sum(axis=1)
    return {
        "weight": [float(f"{w:.4g}") for w in total],
        "values": [[float(f"{v:.3g}") for v in column] for column in values.T],
    }


def _restore_quantiles(table: Table, row: int, saved: dict[str, Any]) -> None:
    """Rebuild each histogram with its mass spread evenly between the kept quantiles."""
    share = np.diff(np.concatenate([[0.0], _LEVELS, [1.0]]))
    centre = 0.5 * (conformal.EDGES[1:] + conformal.EDGES[:-1])
    for model, (weight, values) in enumerate(zip(saved["weight"], saved["values"], strict=True)):
        inner = np.asarray(values)
        bounds = np.concatenate([[inner[0] - 0.05], inner, [inner[-1] + 0.1]])
        target = np.zeros(len(centre))
        for low, high, part in zip(bounds[:-1], bounds[1:], share, strict=True):
            cells = np.flatnonzero((centre >= low) & (centre <= high))
            if not len(cells):
                cells = np.array([int(np.abs(centre - 0.5 * (low + high)).argmin())])
            target[cells] += weight * part / len(cells)
        table.forecaster.conformal.weight[row, model] = target.astype(np.float32)
