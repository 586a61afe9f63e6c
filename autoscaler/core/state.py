"""The table of one pool: a row per workload, columns per stage, and the little that does not fit in columns.

Everything the core remembers is in here and owned by one driver.
"""

from dataclasses import dataclass, field
from typing import NamedTuple

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
from autoscaler.core.scale.unseen import UnseenColumns
from autoscaler.core.types import Readings

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
    unseen: UnseenColumns
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
            UnseenColumns.allocate(capacity),
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
            "unseen": self.unseen,
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
        left_out: Bools = self.policy.without[:, _PLACES[feature]][rows]
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
