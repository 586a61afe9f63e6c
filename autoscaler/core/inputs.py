"""From readings to the batch: per-pod differences, starts and freshness, gathered into arrays of one entry per row."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain

import numpy as np

from autoscaler.core.capacity import leadtime
from autoscaler.core.capacity.leadtime import LeadTime, Starts
from autoscaler.core.capacity.throughput import Served
from autoscaler.core.columns import F64, I64, Bools, every, filled, places, some, unknown
from autoscaler.core.observe import pods, told
from autoscaler.core.observe.freshness import Freshness
from autoscaler.core.observe.pods import Interval
from autoscaler.core.params import Feature
from autoscaler.core.scale import unseen
from autoscaler.core.scale.bounds import RATE_UP_S, YOUNG_S, BoundInputs, least_within
from autoscaler.core.scale.propose import STANDS
from autoscaler.core.scale.uncalibrated import SETTLE_S, Line
from autoscaler.core.state import Table, Track
from autoscaler.core.types import Readings

NO_LIMIT = 1_000_000_000

_NO_EVENT = (0, NO_LIMIT)

BLOCKING = ("arrivals", "queue", "in_flight", "tokens", "kv")
"""Signals that must be fresh to shrink. Latency is absent by nature when nothing is served, so it is not one."""


@dataclass(frozen=True, slots=True)
class Batch:
    """What the rows of one step observed, arrays of shape (B,) in the order of the rows; NaN where not known."""

    now_s: F64
    dt_s: F64
    arrivals: F64
    arrivals_s: F64
    queue: F64
    running: F64
    told_running: F64
    unread: F64
    """Ready replicas that nobody has read yet; `told_running` is what runs in the others."""
    desired: I64
    ready: F64
    serving: F64
    starting: F64
    late: I64
    slow: I64
    replaced: I64
    unschedulable: I64
    finished: I64
    failed: I64
    died: I64
    landed_replica_s: F64
    lead50_s: F64
    lead90_s: F64
    lead99_s: F64
    lead_samples: I64
    queue_p90: F64
    ttft_p90: F64
    tpot_p90: F64
    shrinkable: Bools
    served: Served
    readings: tuple[Readings, ...]
    tracks: tuple[Track, ...]
    wedged: I64

    def only(self, mask: Bools) -> "Batch":
        """Return the rows under `mask`."""
        if every(mask):
            return self
        picked = {
            name: getattr(self, name)[mask]
            for name in self.__dataclass_fields__
            if isinstance(getattr(self, name), np.ndarray)
        }
        served = Served(**{name: getattr(self.served, name)[mask] for name in Served.__dataclass_fields__})
        at = places(mask).tolist()
        readings, tracks = tuple([self.readings[i] for i in at]), tuple([self.tracks[i] for i in at])
        return Batch(**picked, served=served, readings=readings, tracks=tracks)


def select(
    table: Table, batch: Sequence[tuple[str, Readings]]
) -> tuple[I64, tuple[Readings, ...], list[tuple[str, Readings]]]:
    """Return rows and readings in step with time, and the (workload, readings) that are older than the last ones."""
    rows: list[int] = []
    readings: list[Readings] = []
    outdated: list[tuple[str, Readings]] = []
    for name, reading in batch:
        row = table.rows[name]
        if reading.now_s < table.track(row).pods.at_s:
            outdated.append((name, reading))
        else:
            rows.append(row)
            readings.append(reading)
    return np.asarray(rows, dtype=np.int64), tuple(readings), outdated


def observed(table: Table, rows: I64, readings: tuple[Readings, ...], known: Mapping[str, Interval]) -> Batch:
    """`observe`, and take what full replicas complete behind a silent gateway for no load: it is not known then."""
    seen = observe(table, rows, readings, known)
    hidden = unseen.look(table.unseen, rows, _full(table, rows, seen))
    return replace(seen, arrivals=np.where(hidden, np.nan, seen.arrivals)) if some(hidden) else seen


def observe(table: Table, rows: I64, readings: tuple[Readings, ...], known: Mapping[str, Interval]) -> Batch:
    """Difference every row's readings against its track, but for the intervals `known` by workload; gather the sums."""
    tracks = [table.track(row) for row in rows.tolist()]
    intervals = [known.get(t.name) or pods.difference(t.pods, r) for t, r in zip(tracks, readings, strict=True)]
    followed = [leadtime.follow(t.lead, r, t.params.warmup_prior_s) for t, r in zip(tracks, readings, strict=True)]
    shrinkable = [_note(t, r, i.anew) for t, r, i in zip(tracks, readings, intervals, strict=True)]
    sums = _columns(intervals, Interval._fields)
    served = _served(sums, intervals, readings)
    wedged = sums["wedged"].astype(np.int64)
    ready = np.array([r.replicas.ready for r in readings], dtype=np.float64)
    starts, leads = [s for s, _ in followed], _columns([lead for _, lead in followed], LeadTime._fields)
    latency = [r.latency for r in readings]
    return Batch(
        now_s=served.now_s,
        dt_s=served.dt_s,
        arrivals=sums["arrivals"],
        arrivals_s=sums["arrivals_s"],
        queue=sums["queue"],
        running=served.running,
        told_running=sums["told_running"],
        unread=sums["unread"],
        desired=np.array([r.replicas.desired for r in readings], dtype=np.int64),
        ready=ready,
        serving=np.maximum(ready - wedged, 0.0),
        starting=_floats([len(s.credited) for s in starts]),
        late=np.array([s.late for s in starts], dtype=np.int64),
        slow=np.array([s.slow for s in starts], dtype=np.int64),
        replaced=np.array([s.replaced for s in starts], dtype=np.int64),
        unschedulable=np.array([s.unschedulable for s in starts], dtype=np.int64),
        finished=np.array([len(s.finished_s) for s in starts], dtype=np.int64),
        failed=np.array([s.failed for s in starts], dtype=np.int64),
        died=sums["died"].astype(np.int64),
        landed_replica_s=_floats([_landed(s, lead) for s, lead in followed]),
        lead50_s=leads["l50_s"],
        lead90_s=leads["l90_s"],
        lead99_s=leads["l99_s"],
        lead_samples=leads["samples"].astype(np.int64),
        queue_p90=_floats([None if x is None else x.queue_s_p90 for x in latency]),
        ttft_p90=_floats([None if x is None else x.ttft_s_p90 for x in latency]),
        tpot_p90=_floats([None if x is None else x.tpot_s_p90 for x in latency]),
        shrinkable=np.array(shrinkable, dtype=np.bool_),
        served=served,
        readings=readings,
        tracks=tuple(tracks),
        wedged=wedged,
    )


def limits(
    table: Table, rows: I64, seen: Batch, *, idle: Bools, known: Bools, measured: Bools, exact: F64
) -> BoundInputs:
    """Gather the bounds of each row at this moment.

    `exact` is the binding need; where need is not `known` nothing shrinks. `measured` says that the capacity of a
    replica is no guess.
    """
    tracks = seen.tracks
    events = [_events(t, r.now_s) if t.params.events else _NO_EVENT for t, r in zip(tracks, seen.readings, strict=True)]
    given = [r.limits for r in seen.readings]
    brief = table.lacks(rows, Feature.HOLD)
    return BoundInputs(
        now_s=seen.now_s,
        desired=seen.desired,
        exact=exact,
        lead_s=np.where(brief, 0.0, seen.lead50_s),
        shrinkable=seen.shrinkable & known,
        young=(seen.now_s - table.budget.since_s[rows] < YOUNG_S) & measured & ~brief,
        unready=seen.ready < 0.5 * seen.desired,
        loading=(seen.ready == 0) & (seen.starting + seen.late + seen.unschedulable > 0),
        zero_allowed=np.array([t.zero_signal for t in tracks], dtype=np.bool_),
        busy=~idle,
        event_floor=np.array([low for low, _ in events], dtype=np.int64),
        event_ceiling=np.array([high for _, high in events], dtype=np.int64),
        min_replicas=table.policy.min_replicas[rows],
        max_replicas=table.policy.max_replicas[rows],
        quota=np.array([NO_LIMIT if g.quota_replicas is None else g.quota_replicas for g in given], dtype=np.int64),
        budget=np.array([NO_LIMIT if g.budget_replicas is None else g.budget_replicas for g in given], dtype=np.int64),
    )


def begun(readings: tuple[Readings, ...], asked: Bools) -> tuple[I64, I64]:
    """Count what began within the minute of `bounds.RATE_UP_S`: starts under way, scheduled or not, and ready pods.

    Both have shape (B,), 0 where a row is not `asked` for. A pod counts from the instant it became ready, as nothing
    says how long that took: of what starts in seconds nothing is under way any more when a controller comes back.
    """
    starts, landed = np.zeros(len(readings), dtype=np.int64), np.zeros(len(readings), dtype=np.int64)
    for i in places(asked).tolist():
        from_s = readings[i].now_s - RATE_UP_S
        starts[i] = sum([start.since_s > from_s for start in readings[i].replicas.starting])
        ready_s = [pod.ready_since_s for pod in readings[i].pods or () if pod.ready_since_s is not None]
        landed[i] = sum([at_s > from_s for at_s in ready_s])
    return starts, landed


def line(table: Table, rows: I64, seen: Batch) -> Line:
    """Gather what is known of the requests in line before this look is noted in the bounds, but for those before.

    Which replicas are settled is looked up where some wait: else there is no line.
    """
    serving, desired = np.maximum(seen.serving - seen.unread, 0.0), seen.desired.astype(np.float64)
    settled, at_work, completing = desired, unknown(len(rows)), unknown(len(rows))
    waits = seen.queue > 0
    if some(waits):
        settled = least_within(table.bounds, rows, seen.now_s, seen.desired, SETTLE_S).astype(np.float64)
        looked_s = table.line.at_s[rows]
        for i in places(waits & (settled < serving)).tolist():
            at_work[i], completing[i] = told.at_work(seen.readings[i].pods or (), looked_s[i])
    return Line(
        waiting=seen.queue,
        before=unknown(len(rows)),
        running=seen.told_running,
        completed=seen.served.completions,
        admitted=unknown(len(rows)),
        room=np.zeros(len(rows), dtype=np.bool_),
        dt_s=seen.dt_s,
        climb_rps=unknown(len(rows)),
        slack_s=table.policy.slack_s[rows],
        lead_s=seen.lead50_s,
        desired=desired,
        serving=serving,
        ready=seen.ready,
        settled=settled,
        starting=seen.starting,
        at_work=np.minimum(at_work, serving),
        completing=np.minimum(completing, serving),
    )


def _full(table: Table, rows: I64, seen: Batch) -> unseen.Full:
    """Gather what the pods tell of a line at a gateway that is silent.

    One in the pods that lasts for half of what a request may wait is seen: it may be all that they are full of.
    """
    silent, lost = np.zeros((2, len(rows)), dtype=np.bool_)
    landed_s, slack_s = unknown(len(rows)), table.policy.slack_s[rows]
    for i in places(~seen.shrinkable).tolist():
        track, read = seen.tracks[i], seen.readings[i]
        quiet = read.gateway is None or (read.gateway.queued is None and read.gateway.requests_total is None)
        silent[i] = quiet and seen.unread[i] == 0 and "gateway_queue" in track.fresh.sources
        lost[i] = track.fresh.state("queue", read.now_s, track.params.tick_s) is Freshness.UNKNOWN
        if not read.replicas.starting and read.replicas.ready >= read.replicas.desired:
            ready_s = [pod.ready_since_s for pod in read.pods or () if pod.ready_since_s is not None]
            landed_s[i] = read.now_s - max(ready_s, default=-np.inf)
    done_rps = filled(seen.served.completions) / np.maximum(seen.dt_s, 1e-9)
    return unseen.Full(
        now_s=seen.now_s,
        silent=silent & ~(seen.queue > STANDS * slack_s * done_rps),
        lost=lost,
        running=seen.running,
        serving=seen.serving,
        completed=seen.served.completions,
        slack_s=slack_s,
        lead_s=seen.lead50_s,
        desired=seen.desired.astype(np.float64),
        landed_s=landed_s,
    )


def _note(track: Track, readings: Readings, anew: bool) -> bool:
    """Note which signals came, and return whether every expected one is fresh."""
    track.fresh.note(readings, anew=anew)
    if readings.gateway is not None and readings.gateway.queued is not None:
        track.zero_signal = True
    now_s, tick_s = readings.now_s, track.params.tick_s
    if track.fresh.all_at(now_s):  # nearly always
        return not track.fresh.seen_s.keys().isdisjoint(("arrivals", "queue"))
    arrivals, queue, *others = [track.fresh.state(signal, now_s, tick_s) for signal in BLOCKING]
    good = (Freshness.FRESH, Freshness.ABSENT)
    return all(state in good for state in (arrivals, queue, *others)) and Freshness.FRESH in (arrivals, queue)


def _events(track: Track, now_s: float) -> tuple[int, int]:
    floor, ceiling = _NO_EVENT
    for event in track.params.events:
        if event.from_s <= now_s < event.to_s:
            floor = max(floor, event.floor or 0)
            ceiling = min(ceiling, NO_LIMIT if event.ceiling is None else event.ceiling)
    return floor, ceiling


def _landed(starts: Starts, lead: LeadTime) -> float:
    """Replica-seconds that starts under way will have served after one more median lead time."""
    return float(sum(min(age, lead.l50_s) for age in starts.credited))


def _served(sums: Mapping[str, F64], intervals: list[Interval], readings: tuple[Readings, ...]) -> Served:
    return Served(
        now_s=_floats([r.now_s for r in readings]),
        dt_s=sums["dt_s"],
        completions=sums["completions"],
        running=sums["running"],
        pods=_floats(
            [
                max(0, len(r.pods) - i.wedged) if r.pods is not None else 0
                for i, r in zip(intervals, readings, strict=True)
            ]
        ),
        kv_used=sums["kv_used"],
        saturated_done=sums["saturated_completions"],
        saturated_pod_s=sums["saturated_pod_s"],
        saturated_running=sums["saturated_running"],
        free_done=sums["free_completions"],
        free_pod_s=sums["free_pod_s"],
        tpot_s=_floats([None if r.latency is None else r.latency.tpot_s_p90 for r in readings]),
    )


def _columns(rows: Sequence[tuple[float, ...]], names: tuple[str, ...]) -> dict[str, F64]:
    """Tuples of the same figures as one array of each."""
    figures = np.fromiter(chain.from_iterable(rows), np.float64, len(rows) * len(names))
    return dict(zip(names, np.ascontiguousarray(figures.reshape(len(rows), -1).T), strict=True))


def _floats(values: Sequence[float | int | None]) -> F64:
    return np.array([np.nan if v is None else v for v in values], dtype=np.float64)
