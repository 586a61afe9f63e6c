"""The catalogue of the controller's own metrics, and their values: pure, without the library that exposes them.

Enters: the newest frame of every workload, what was counted since the start, figures of the process. Leaves: families,
each a metric of the catalogue with its labelled values. A figure that is not known has no value at all, which is not
zero. Labels are the workload and closed sets of codes, never a pod: a workload has at most 41 series, one more for each
verdict and reason and for each outcome that occurred, behind KEDA one more and one for each limit of its HPA, and three
where an exporter shows its GPUs.
Dashboards and alerts read the names: renaming one is a breaking change.
"""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import Final

from autoscaler.core.scale.overload import Overload
from autoscaler.record.batch import BatchTold
from autoscaler.record.batch_metrics import BATCH, batch_families
from autoscaler.record.families import OWNER, Family, Kind, Labels, Metric, owner
from autoscaler.record.gpu_metrics import GPUS, GpuUse, gpu_families
from autoscaler.record.http_metrics import HTTP, HttpFigures, http_families
from autoscaler.record.keda_metrics import KEDA, KedaFigures, keda_families
from autoscaler.record.past_metrics import METRICS, past_families
from autoscaler.record.pool_metrics import POOLS, pool_families
from autoscaler.record.pool_status import PoolStatus
from autoscaler.record.status import fit_of
from autoscaler.record.stream import WorkloadFrame
from autoscaler.record.tally import Counts


@dataclass(frozen=True, slots=True)
class Process:
    """The replica that answers, and its figures; one that is None, or empty, is not exposed."""

    identity: str = ""
    """The replica's name in the lease."""
    holder: str = ""
    """Who leads, by the same kind of name; empty while nobody does."""
    holder_address: str = ""
    """Where the leader answers, as ``host:port``."""
    leading: bool | None = None
    frozen: bool | None = None
    """Whether all action is stopped in the whole cluster."""
    frozen_why: str = ""
    """The words with which it was; not exposed."""
    lease_transitions: int | None = None
    loop_lag_s: float | None = None
    """How late the event loop came round to a timer, at worst, of late."""
    blind_age_s: float = math.inf
    """Since a workload was looked at that could not be read; not exposed."""
    snapshot_age_s: float | None = None
    """Of the leader's snapshot that a follower holds."""
    watch_staleness_s: Mapping[str, float] = field(default_factory=dict)
    """By resource, such as pods; infinite before the first list."""
    claims: Mapping[str, int] = field(default_factory=dict)
    """Workloads that ask to be scaled: taken up, and waiting because that many are."""
    claims_limit: int | None = None
    """Workloads that are taken up at most."""
    scrape_targets: Mapping[str, int] = field(default_factory=dict)
    """By state."""
    api_requests: Mapping[tuple[str, str], int] = field(default_factory=dict)
    """By method and answer: 404, 409, 429, a class such as 2xx for all others, or timeout."""
    lost: Mapping[str, int] = field(default_factory=dict)
    """Lines, events and entries given up so far, by stream, such as audit."""
    waiting: Mapping[str, int] = field(default_factory=dict)
    """Lines that a sink has not taken yet, by stream."""
    gpus: Mapping[str, GpuUse] = field(default_factory=dict)
    """By workload."""
    http: HttpFigures | None = None
    """None for plain HTTP."""
    keda: KedaFigures | None = None
    """None where KEDA is not answered."""
    version: str = ""
    config_hash: str = ""


SIGNAL_STATES: Final = {"absent": 0, "fresh": 1, "held": 2, "unknown": 3}


def _of_workload(name: str, text: str) -> Metric:
    return Metric(f"headroom_{name}", Kind.GAUGE, text, OWNER)


def _truth(value: bool | None) -> float | None:
    return None if value is None else float(value)


def _short(figure: Callable[[Overload], float]) -> Callable[[WorkloadFrame], float | None]:
    """A figure of an overload: 0 while demand fits, none while that is not known."""

    def value(frame: WorkloadFrame) -> float | None:
        if frame.overload is not None:
            return figure(frame.overload)
        return 0.0 if fit_of(frame) == "fits" else None

    return value


_FIGURES: Final[Mapping[Metric, Callable[[WorkloadFrame], float | None]]] = {
    _of_workload("desired_replicas", "Replicas decided on last."): lambda f: f.desired,
    _of_workload("ready_replicas", "Replicas that serve."): lambda f: f.ready,
    _of_workload("starting_replicas", "Replicas ordered that do not serve yet."): lambda f: len(f.starting),
    _of_workload("wanted_replicas", "Replicas that demand asks for, before any limit."): lambda f: f.needs,
    _of_workload("min_replicas", "The policy's minimum."): lambda f: f.min_replicas,
    _of_workload("max_replicas", "The policy's maximum."): lambda f: f.max_replicas,
    _of_workload("desired_gpus", "GPUs that the replicas decided on hold."): lambda f: (
        None if f.gpus_per_replica is None else f.gpus_per_replica * f.desired
    ),
    _of_workload("load_rps", "Requests per second that arrive."): lambda f: f.load_rps,
    _of_workload("queue_requests", "Requests that wait for capacity."): lambda f: f.queue,
    _of_workload("wait_seconds", "What a request that arrives now is expected to wait."): lambda f: f.wait_s,
    _of_workload("slo_wait_seconds", "The longest wait that meets the objective."): lambda f: f.slo_wait_s,
    _of_workload("late_ratio", "Share of the requests arriving now that will be late."): lambda f: f.late_ratio,
    _of_workload("budget_burn_ratio", "Lateness spent over lateness that the objective allows."): lambda f: (
        f.budget_burn_ratio
    ),
    _of_workload("replica_capacity_rps", "Requests per second that one replica carries, as learned."): lambda f: (
        f.replica_rps
    ),
    _of_workload("capacity_rps", "Requests per second that the ready replicas carry."): lambda f: f.capacity_rps,
    _of_workload("forecast_upper_rps", "Upper bound of the load around one warm-up from now."): lambda f: (
        f.forecast_rps
    ),
    _of_workload("forecast_median_rps", "Middle of the load expected around one warm-up from now."): lambda f: (
        f.median_rps
    ),
    _of_workload("forecast_coverage_ratio", "Share of recent upper bounds that held."): lambda f: f.coverage_ratio,
    _of_workload("forecast_level_ratio", "Share of upper bounds that are meant to hold."): lambda f: f.level_ratio,
    _of_workload("warmup_p50_seconds", "From order to serving, in half of the starts."): lambda f: f.warmup_p50_s,
    _of_workload("warmup_p90_seconds", "From order to serving, in nine of ten starts."): lambda f: f.warmup_p90_s,
    _of_workload("warmup_samples", "Measured starts behind the two; 0: they are assumed."): lambda f: f.warmup_samples,
    _of_workload("overloaded", "1 while demand does not fit into what the limits allow or what is ready."): (
        _short(lambda _: 1.0)
    ),
    _of_workload("overload_deficit_replicas", "Replicas short of demand; 0 while it fits."): (
        _short(lambda o: o.deficit_replicas)
    ),
    _of_workload("overload_shed_ratio", "Share of the load beyond the admissible rate; 0 while it fits."): (
        _short(lambda o: o.shed_ratio)
    ),
    _of_workload("overload_admissible_rps", "Requests per second to admit while overloaded."): lambda f: (
        None if f.overload is None else f.overload.admissible_rps
    ),
    _of_workload("overload_retry_after_seconds", "When a shed request should come again."): lambda f: (
        None if f.overload is None else f.overload.retry_after_s
    ),
}
"""One value per workload each."""

_MODE: Final = Metric("headroom_mode", Kind.GAUGE, "1 for the mode in force.", (*OWNER, "mode"))
_DECISION_AGE: Final = _of_workload("decision_age_seconds", "Since the readings of the last decision.")
_INPUT_AGE: Final = Metric(
    "headroom_input_age_seconds", Kind.GAUGE, "Age of the newest reading of a signal.", (*OWNER, "signal")
)
_SIGNAL: Final = Metric(
    "headroom_signal_state", Kind.GAUGE, "A signal: 0 never came, 1 fresh, 2 held, 3 unknown.", (*OWNER, "signal")
)
_DECISIONS: Final = Metric(
    "headroom_decisions_total", Kind.COUNTER, "Decisions by what decided them.", (*OWNER, "verdict", "reason")
)
_ACTS: Final = Metric(
    "headroom_acts_total", Kind.COUNTER, "Decisions to scale, by what became of them.", (*OWNER, "outcome")
)
_NOTES: Final = Metric("headroom_notes_total", Kind.COUNTER, "Notes of the journal.", ("event",))
_STEP_LAG: Final = Metric("headroom_step_lag_seconds", Kind.HISTOGRAM, "From the instant of a reading to its decision.")
_PATCH_LAG: Final = Metric("headroom_patch_lag_seconds", Kind.HISTOGRAM, "From the instant of a reading to the patch.")
_WORKLOADS: Final = Metric("headroom_workloads", Kind.GAUGE, "Workloads that have been decided on.")
_CLAIMS: Final = Metric(
    "headroom_workload_claims", Kind.GAUGE, "Workloads that ask to be scaled, by whether they are taken up.", ("place",)
)
_CLAIMS_LIMIT: Final = Metric("headroom_workload_claims_limit", Kind.GAUGE, "Workloads that are taken up at most.")
_LEADER: Final = Metric("headroom_leader", Kind.GAUGE, "1 while this replica leads.")
_FROZEN: Final = Metric("headroom_frozen", Kind.GAUGE, "1 while all action is stopped in the whole cluster.")
_TRANSITIONS: Final = Metric("headroom_lease_transitions_total", Kind.COUNTER, "Changes of the leader.")
_LOOP_LAG: Final = Metric("headroom_loop_lag_seconds", Kind.GAUGE, "How late the event loop came round, at worst.")
_STEP_AGE: Final = Metric("headroom_step_age_seconds", Kind.GAUGE, "Since anything was decided.")
_SNAPSHOT: Final = Metric("headroom_snapshot_age_seconds", Kind.GAUGE, "Age of the snapshot that a follower holds.")
_WATCH: Final = Metric(
    "headroom_watch_staleness_seconds", Kind.GAUGE, "Since the server was last heard on a resource.", ("resource",)
)
_TARGETS: Final = Metric("headroom_scrape_targets", Kind.GAUGE, "Pages that are read.", ("state",))
_REQUESTS: Final = Metric(
    "headroom_api_requests_total", Kind.COUNTER, "Requests to the API server.", ("method", "answer")
)
_LOST: Final = Metric(
    "headroom_record_lost_total", Kind.COUNTER, "Records given up before they were kept.", ("stream",)
)
_WAITING: Final = Metric("headroom_record_waiting", Kind.GAUGE, "Records that a sink has not taken yet.", ("stream",))
_BUILD: Final = Metric("headroom_build_info", Kind.GAUGE, "Always 1, with the version that runs.", ("version",))
_CONFIG: Final = Metric("headroom_config_info", Kind.GAUGE, "Always 1, with a hash of the settings.", ("hash",))

CATALOGUE: Final = (
    *_FIGURES, _MODE, _DECISION_AGE, _INPUT_AGE, _SIGNAL, _DECISIONS, _ACTS, _NOTES, _STEP_LAG, _PATCH_LAG, _WORKLOADS,
    _CLAIMS, _CLAIMS_LIMIT, _LEADER, _FROZEN, _TRANSITIONS, _LOOP_LAG, _STEP_AGE, _SNAPSHOT, _WATCH, _TARGETS,
    _REQUESTS, _LOST, _WAITING,
    *GPUS, *HTTP, *KEDA, _BUILD, _CONFIG, *METRICS, *POOLS,
    *BATCH,
)  # fmt: skip
"""Every metric there is."""


def families(
    frames: Mapping[str, WorkloadFrame],
    counts: Counts,
    process: Process,
    now_s: float,
    pools: Sequence[PoolStatus] = (),
    *,
    batch: BatchTold | None = None,
) -> Iterator[Family]:
    """All metrics that have a value at `now_s` (the time of the frames), one family at a time."""
    of_process = _of_process(process, len(frames))
    made = chain(
        _of_frames(frames, now_s), past_families(frames), _counted(counts), of_process, pool_families(pools),
        batch_families(batch),
    )  # fmt: skip
    return (family for family in made if family.values)


def _of_frames(frames: Mapping[str, WorkloadFrame], now_s: float) -> Iterator[Family]:
    owners = {name: owner(name) for name in frames}
    for metric, figure in _FIGURES.items():
        known = ((owners[name], figure(frame)) for name, frame in frames.items())
        yield Family(metric, {labels: value for labels, value in known if value is not None})
    late = {name: max(0.0, now_s - frame.now_s) for name, frame in frames.items()}
    yield Family(_MODE, {(*owners[name], frame.mode): 1.0 for name, frame in frames.items()})
    yield Family(_DECISION_AGE, {owners[name]: late_s for name, late_s in late.items()})
    yield Family(_STEP_AGE, {(): min(late.values())} if late else {})
    signals = [(name, signal) for name, frame in frames.items() for signal in frame.signals]
    ages: dict[Labels, float] = {
        (*owners[name], s.signal): s.age_s + late[name] for name, s in signals if s.age_s is not None
    }
    yield Family(_INPUT_AGE, ages)
    yield Family(_SIGNAL, {(*owners[name], s.signal): SIGNAL_STATES[s.state] for name, s in signals})


def _counted(counts: Counts) -> Iterator[Family]:
    yield Family(_DECISIONS, {(*owner(key[0]), *key[1:]): float(count) for key, count in counts.decisions.items()})
    yield Family(_ACTS, {(*owner(key[0]), key[1]): float(count) for key, count in counts.acts.items()})
    yield Family(_NOTES, {(event,): float(count) for event, count in counts.notes.items()})
    yield Family(_STEP_LAG, {(): counts.step_lag})
    yield Family(_PATCH_LAG, {(): counts.patch_lag})


def _of_process(process: Process, workloads: int) -> Iterator[Family]:
    plain: dict[Metric, float | None] = {
        _WORKLOADS: workloads,
        _CLAIMS_LIMIT: process.claims_limit,
        _LEADER: _truth(process.leading),
        _FROZEN: _truth(process.frozen),
        _TRANSITIONS: process.lease_transitions,
        _LOOP_LAG: process.loop_lag_s,
        _SNAPSHOT: process.snapshot_age_s,
    }
    for metric, value in plain.items():
        yield Family(metric, {} if value is None else {(): value})
    by_code: dict[Metric, Mapping[str, float]] = {
        _WATCH: process.watch_staleness_s,
        _CLAIMS: process.claims,
        _TARGETS: process.scrape_targets,
        _LOST: process.lost,
        _WAITING: process.waiting,
        _BUILD: {process.version: 1.0} if process.version else {},
        _CONFIG: {process.config_hash: 1.0} if process.config_hash else {},
    }
    for metric, values in by_code.items():
        yield Family(metric, {(code,): float(value) for code, value in values.items()})
    yield Family(_REQUESTS, {labels: float(count) for labels, count in process.api_requests.items()})
    yield from gpu_families(process.gpus)
    if process.http is not None:
        yield from http_families(process.http)
    if process.keda is not None:
        yield from keda_families(process.keda)
