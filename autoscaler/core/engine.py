"""One step of the core: readings of some workloads in, a decision for each out, and fits to be made elsewhere.

Both drivers call `step`. It reads as seven numbered stages; every stage works on all workloads of the batch at once.
Nothing here knows where readings come from or who applies a decision.
"""

from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType

import numpy as np

from autoscaler.core import fits as due_fits
from autoscaler.core import habits, traces
from autoscaler.core import inputs as gather
from autoscaler.core.advanced import Advanced
from autoscaler.core.capacity import throughput
from autoscaler.core.columns import F64, I64, every, filled, places, some, unknown
from autoscaler.core.demand import budget, climb, episodes, peaks
from autoscaler.core.forecast import features, forecaster, onset, pending, young
from autoscaler.core.forecast.models import FittedModel
from autoscaler.core.forecast.training import FitRequest
from autoscaler.core.inputs import Batch
from autoscaler.core.observe import history
from autoscaler.core.observe.pods import Interval
from autoscaler.core.params import BIN_S, Feature
from autoscaler.core.reasons import Reason
from autoscaler.core.scale import bounds, clearing, propose, uncalibrated
from autoscaler.core.state import Figures, Table
from autoscaler.core.traces import Load, Outcome, Stepped
from autoscaler.core.types import Decision, Readings


@dataclass(frozen=True, slots=True)
class StepResult:
    """Decisions in the order of the batch, and fits that the driver should have made."""

    decisions: tuple[Decision, ...]
    fits: tuple[FitRequest, ...]


def step(table: Table, batch: Sequence[tuple[str, Readings]], supplied: Container[str] = ()) -> StepResult:
    """Decide for each (workload, readings) of the batch; a workload occurs at most once.

    The caller has the models of `supplied` workloads already: their fits fall due all the same, and none is returned.
    Raises KeyError for a workload that is not in the table. Readings older than the last ones change nothing.
    """
    made = advance(table, batch, supplied)
    decided = {name: traces.outdated(name, reading) for name, reading in made.outdated.items()}
    if made.stepped is not None:
        for decision in traces.decisions(made.stepped):  # 7 explain
            decided[decision.workload] = decision
    return StepResult(tuple(decided[name] for name, _ in batch), made.fits)


def advance(
    table: Table,
    batch: Sequence[tuple[str, Readings]],
    supplied: Container[str] = (),
    known: Mapping[str, Interval] = MappingProxyType({}),
) -> Advanced:
    """The same step for whoever asks for the words of few of its decisions, or of none.

    `known` are intervals by workload that `pods.difference` returned of these readings and the workload's own track.
    """
    rows, readings, outdated = gather.select(table, batch)
    fits: list[FitRequest] = []
    stepped: Stepped | None = None
    if readings:
        seen = gather.observed(table, rows, readings, known)  # 1 observe
        closed = history.absorb(
            table.history,
            rows,
            seen.now_s,
            arrivals=seen.arrivals,
            span_s=seen.arrivals_s,
            slack_s=table.policy.slack_s[rows],
            stays_s=throughput.long_s(table.throughput, rows),
        )
        capacity = throughput.learn(table.throughput, rows, seen.served, table.policy.tpot_slo_s[rows])  # 2 capacity
        load = _load(table, rows, seen, capacity)  # 3 demand
        _activate(table, rows, seen)
        needs = history.recent_needs(table.history, rows, features.LOOKBACK_BINS)
        if some(closed):
            need = needs if every(closed) else needs[closed]
            tail, stays_s = load.tail[closed], capacity.stays_s[closed]
            ahead = _forecast(table, rows[closed], seen.only(closed), tail, stays_s=stays_s, need=need)  # 4 forecast
            fits = due_fits.due(table, rows[closed], seen.now_s[closed], ahead, supplied)
        outcome = _scale(table, rows, seen, capacity, load, floors=_floor(needs, capacity.rps))  # 5 propose, 6 bound
        stepped = Stepped(table, rows, seen, capacity, load, outcome)
        _remember(stepped)
    return Advanced.of(batch, tuple(fits), stepped, dict(outdated))


def install(table: Table, workload: str, model: FittedModel) -> None:
    """Hand over a fitted model; it takes effect at its own `in_force_at_s`. Raises KeyError for an unknown workload."""
    table.track(table.rows[workload]).coming = model


def _load(table: Table, rows: I64, seen: Batch, capacity: throughput.Throughput) -> Load:
    """The present load, how late it makes requests, and whether an excess is noise."""
    rps = capacity.rps
    count, cover_s = history.recent(table.history, rows, features.WINDOWS[4])
    staying = history.staying_rps(table.history, rows, capacity.stays_s)
    minute = np.where(np.isfinite(staying), staying, _mean(count[:, :6], cover_s[:, :6]))
    five = _mean(count, cover_s)
    newest = np.where(seen.arrivals_s > 0, seen.arrivals / np.maximum(seen.arrivals_s, 1e-9), np.nan)
    surge, since = onset.update(
        table.onset, rows, seen.now_s, arrivals=seen.arrivals, span_s=seen.arrivals_s, level=five
    )
    calm = np.where(np.isfinite(minute), minute, newest)
    now_rps = np.where(surge, np.fmax(calm, since), calm)
    share = _late_share(table, rows, seen, capacity)
    policy = table.policy
    budget.spend(table.budget, rows, seen.dt_s, seen.arrivals, share)
    age_s = episodes.follow(table.episodes, rows, seen.now_s, now_rps, rps * (seen.serving + seen.starting))
    chance = _outlives(table, rows, seen, age_s)
    works = seen.queue + filled(seen.running) + filled(seen.arrivals)
    loading = (seen.ready == 0) & (seen.starting + seen.late + seen.unschedulable > 0)
    idle_s = peaks.note_work(table.peaks, rows, seen.now_s, np.where(loading, 1.0, works))
    tail = budget.tail(
        table.budget,
        rows,
        seen.now_s,
        rate_rps=five,
        target_ratio=policy.target_ratio[rows],
        lead_s=seen.lead50_s,
        swallows=budget.swallowed(policy.slack_s[rows], capacity.stays_s),
    )
    tail = np.where(table.lacks(rows, Feature.BUDGET), budget.TAIL_FIXED, tail)
    return Load(
        now_rps=now_rps,
        late_share=share,
        burn=budget.burn(table.budget, rows, policy.target_ratio[rows]),
        tail=tail,
        episode_s=age_s,
        outlives=chance,
        noise=episodes.is_noise(chance, age_s),
        idle_s=idle_s,
    )


def _late_share(table: Table, rows: I64, seen: Batch, capacity: throughput.Throughput) -> F64:
    """The share of the requests arriving now that will be late."""
    policy, waits = table.policy, seen.queue > 0
    ratio = np.fmax(
        np.fmax(seen.queue_p90 / policy.wait_slo_s[rows], seen.ttft_p90 / policy.ttft_slo_s[rows]),
        seen.tpot_p90 / policy.tpot_slo_s[rows],
    )
    slack_s = policy.slack_s[rows]
    if not some(waits):
        return budget.late_share(np.zeros(len(rows)), slack_s, ratio)
    done_rps = capacity.rps * seen.serving
    wait_s = np.where(waits & (seen.serving > 0), seen.queue / np.maximum(done_rps, 1e-9), np.nan)
    in_line = budget.in_line(seen.queue, done_rps * slack_s, capacity.stays_s)
    return np.where(waits & (seen.serving == 0), 1.0, budget.late_share(wait_s, slack_s, ratio, in_line))


def _outlives(table: Table, rows: I64, seen: Batch, age_s: F64) -> F64:
    """The chance that an episode outlives a start, NaN where there is none."""
    chance = unknown(len(rows))
    at = places(np.isfinite(age_s))
    if len(at):
        lead_s, recurring = seen.lead50_s[at], table.forecaster.out.recurring[rows[at]]
        chance[at] = episodes.outlives(
            table.episodes, rows[at], seen.now_s[at], age_s[at], lead_s=lead_s, recurring=recurring
        )
    return chance


def _ceiling(table: Table, rows: I64, seen: Batch, now_rps: F64) -> F64:
    """The burst ceiling, with the need of a bin that closed in this very step: a repeated step must find no other.

    The present is what arrives and what had queued up before anybody counted: a controller that meets a queue of an
    hour would else order for 1.3 times the trickle it has seen.
    """
    present_rps = filled(now_rps) + peaks.unseen_rps(table.peaks, rows, seen.queue, seen.lead50_s)
    least = young.floor_ratio(table.budget.since_s[rows], seen.now_s, seen.lead50_s)
    return peaks.ceiling_rps(table.peaks, rows, seen.now_s, present_rps=present_rps, least_ratio=least)


def _forecast(table: Table, rows: I64, seen: Batch, tail: F64, *, stays_s: F64, need: F64) -> I64:
    """Forecast, and return how many bins ahead that is, shape (B,); `need` is of the last hour, newest first."""
    count, cover_s = history.recent(table.history, rows, features.LOOKBACK_BINS)
    minute_need = history.needed(table.history, rows, table.policy.slack_s[rows], stays_s)
    cautious = young.floor_ratio(table.budget.since_s[rows], seen.now_s, seen.lead50_s)
    horizon = np.ceil((seen.lead90_s + table.policy.tick_s[rows]) / BIN_S).astype(np.int64)
    horizon = np.minimum(np.maximum(horizon, 1), pending.MAX_HORIZON_BINS)
    peaks.note(table.peaks, rows, seen.now_s, minute_need)
    forecaster.advance(
        table.forecaster,
        rows,
        forecaster.Round(
            now_s=seen.now_s,
            head=table.history.head[rows],
            count=count,
            cover_s=cover_s,
            need_rps=need,
            minute_need=minute_need,
            stays_s=stays_s,
            horizon_bins=horizon,
            level=1.0 - tail,
            habit=habits.look(table, rows, need, BIN_S * horizon.astype(np.float64), stays_s),
            least_ratio=cautious,
        ),
        table.fitted,
    )
    return horizon


def _activate(table: Table, rows: I64, seen: Batch) -> None:
    for row, track, readings in zip(rows.tolist(), seen.tracks, seen.readings, strict=True):
        if track.coming is not None and readings.now_s >= track.coming.in_force_at_s:
            table.fitted[row], track.coming = track.coming, None


def _scale(
    table: Table, rows: I64, seen: Batch, capacity: throughput.Throughput, load: Load, *, floors: F64
) -> Outcome:
    looked = uncalibrated.look(
        table.line,
        rows,
        gather.line(table, rows, seen),
        now_s=seen.now_s,
        tick_s=table.policy.tick_s[rows],
        done_rps=table.throughput.done_rps[rows],
    )
    situation = _situation(table, rows, seen, capacity, load, floors=floors, unmeasured=looked.count)
    proposals = propose.propose(situation)
    wanted = proposals.capped.max(axis=1)
    silent = (load.now_rps == 0) & (seen.queue == 0)
    unknown_need = ~(np.isfinite(capacity.rps) | silent) | ~np.isfinite(load.now_rps)
    idle = load.idle_s >= table.policy.idle_after_s[rows]
    again = np.minimum(seen.late, np.ceil(0.25 * wanted).astype(np.int64))
    again = np.maximum(again - seen.replaced, 0)
    # Where need is not known, what stands is kept: late starts must not be ordered again on top of their own order.
    again = np.where(unknown_need & ((seen.starting > seen.slow) | (seen.replaced > 0)), 0, again)
    wanted = np.where(unknown_need, np.maximum(wanted + again, seen.desired), wanted + again)
    wanted = np.where(idle, 0, wanted)
    bounds.note_starts(
        table.bounds,
        rows,
        seen.now_s,
        finished=seen.finished,
        failed=seen.failed,
        died=seen.died,
        completed=seen.served.completions > 0,
    )
    tick_s = table.policy.tick_s[rows]
    begun, landed = gather.begun(seen.readings, bounds.forgotten(table.bounds, rows, seen.now_s, tick_s))
    bounds.note(table.bounds, rows, seen.now_s, wanted, seen.desired, begun=begun, landed=landed, tick_s=tick_s)
    _give_back(table, rows, seen, situation, proposals=proposals, wanted=wanted)
    limits = gather.limits(
        table,
        rows,
        seen,
        idle=idle,
        known=~unknown_need,
        measured=capacity.term >= throughput.Term.THROUGHPUT.value,
        exact=np.where(wanted > 0, np.minimum(proposals.exact, wanted), 0.0),
    )
    soft = bounds.soft(table.bounds, rows, wanted, limits)
    _note_withheld(table, rows, seen, situation, soft)
    after_soft = soft[-1].after if soft else wanted
    hard = bounds.hard(table.bounds, rows, after_soft, limits)
    replicas = hard[-1].after if hard else after_soft
    return Outcome(situation, proposals, looked, wanted, idle, unknown_need, (*soft, *hard), replicas)


def _situation(
    table: Table, rows: I64, seen: Batch, capacity: throughput.Throughput, load: Load, *, floors: F64, unmeasured: F64
) -> propose.Situation:
    """All that the terms read; what a row runs without is blank."""
    situation = propose.Situation(
        desired=seen.desired.astype(np.float64),
        ready=seen.ready,
        serving=seen.serving,
        starting=seen.starting,
        landed_replica_s=seen.landed_replica_s,
        rps=capacity.rps,
        slots=capacity.slots,
        stays_s=capacity.stays_s,
        slack_s=table.policy.slack_s[rows],
        queue=filled(seen.queue),
        waits=~(seen.queue == 0),
        running=capacity.running,
        kv_used=capacity.kv_used,
        now_rps=load.now_rps,
        median_rps=table.forecaster.out.median_rps[rows],
        upper_rps=table.forecaster.out.upper_rps[rows],
        climb_rps=_climb(table, rows, seen, capacity.rps),
        lead_s=seen.lead50_s,
        floor_replicas=floors,
        noise=load.noise & ~table.lacks(rows, Feature.GATE),
        ceiling_rps=np.where(table.lacks(rows, Feature.CEILING), np.inf, _ceiling(table, rows, seen, load.now_rps)),
        unmeasured=unmeasured,
        unseen=table.unseen.asked[rows],
        withheld_s=clearing.withheld_s(table.clearing, rows, seen.now_s),
    )
    return _leave_out(table, rows, situation)


def _give_back(
    table: Table, rows: I64, seen: Batch, s: propose.Situation, *, proposals: propose.Proposals, wanted: I64
) -> None:
    """Hold no longer what was bought for a queue that is over, but in a workload's first hour: its gaps are unknown.

    Where bursts come back they are known, then, too: what the next one needs is provided for.
    """
    if not some(proposals.buys | table.clearing.bought[rows]):
        return
    over = clearing.cleared(
        table.clearing,
        rows,
        seen.now_s,
        buys=proposals.buys,
        queue=filled(seen.queue, np.inf),
        may_wait=s.slack_s * s.rps * np.minimum(wanted, seen.serving),
        starts=seen.starting + seen.late + seen.unschedulable,
    )
    at = places(over)
    if not len(at):
        return
    needs = history.recent_needs(table.history, rows[at], clearing.HOUR_BINS)
    free = clearing.lone(table.clearing, rows[at], seen.now_s[at], needs, ratio=peaks.CEILING)
    free &= seen.now_s[at] - table.budget.since_s[rows[at]] >= bounds.YOUNG_S
    free |= table.forecaster.out.recurring[rows[at]]
    bounds.forget_above(table.bounds, rows[at[free]], wanted[at[free]])
    still = proposals.in_service[at] & (wanted[at] < seen.desired[at])
    clearing.end(table.clearing, rows[at[~(free & still)]])


def _note_withheld(table: Table, rows: I64, seen: Batch, s: propose.Situation, soft: Sequence[bounds.Change]) -> None:
    """Note where a queue stands, and where the limit of growth or an unknown capacity withheld orders for it."""
    limited = np.zeros(len(rows), dtype=np.bool_)
    for change in soft:
        if change.reason is Reason.RATE_UP:
            limited = change.after < change.before
    known = np.isfinite(s.rps)
    stands = s.queue > filled(propose.STANDS * s.slack_s * s.rps * s.serving)
    withheld = np.where(known, limited, s.unmeasured > 0)
    clearing.note_withheld(table.clearing, rows, seen.now_s, stands=stands, withheld=withheld)


def _remember(stepped: Stepped) -> None:
    seen, capacity, load, outcome = stepped.seen, stepped.capacity, stepped.load, stepped.outcome
    figures = Figures(
        seen.now_s, load.now_rps, seen.queue, seen.ready.astype(np.int64), seen.serving, seen.desired, outcome.replicas,
        outcome.wanted, capacity.rps, capacity.term, seen.lead50_s, seen.lead90_s, load.burn, load.late_share,
    )  # fmt: skip
    for place, (track, readings) in enumerate(zip(seen.tracks, seen.readings, strict=True)):
        track.last = readings, figures, place


def _leave_out(table: Table, rows: I64, s: propose.Situation) -> propose.Situation:
    """Blank the terms that a row runs without."""
    if not some(table.policy.without.take(rows, axis=0)):
        return s
    queue = np.where(table.lacks(rows, Feature.BACKLOG), 0.0, s.queue)
    credit = ~table.lacks(rows, Feature.CREDIT)
    upper = np.where(table.lacks(rows, Feature.FORECAST), np.nan, s.upper_rps)
    return replace(
        s, queue=queue, upper_rps=upper, landed_replica_s=s.landed_replica_s * credit, starting=s.starting * credit
    )


def _climb(table: Table, rows: I64, seen: Batch, rps: F64) -> F64:
    """Only a queue asks how the load climbs: a forecast that lags behind a climb leaves one that never gets shorter.

    And only one that stands, or wakes a workload: no term reads it for any other. Bursts that come back are no climbs.
    """
    found = np.zeros(len(rows))
    passes = seen.queue <= propose.STANDS * table.policy.slack_s[rows] * rps * seen.serving
    recurs = table.forecaster.out.recurring[rows]
    asks = places((seen.queue > 0) & ~(passes & (seen.desired > 0)) & ~recurs)
    if len(asks):
        count, cover_s = history.recent(table.history, rows[asks], climb.LOOKBACK_BINS)
        found[asks] = climb.expected_rps(count, cover_s, seen.lead50_s[asks])
    return found


def _floor(needs: F64, rps: F64) -> F64:
    """The sustained minimum of the last hour in whole replicas: what was needed at every moment of it."""
    measured = np.isfinite(needs)
    known = np.count_nonzero(measured, axis=1) >= 350
    if not some(known):
        return np.zeros(len(rps))
    lowest = np.where(measured, needs, np.inf).min(axis=1)
    return np.where(known & (rps > 0), np.floor(lowest / rps), 0.0)


def _mean(count: F64, cover_s: F64) -> F64:
    seconds = cover_s.sum(axis=1)
    return np.where(seconds > 0, count.sum(axis=1) / np.maximum(seconds, 1e-9), np.nan)
