"""Requests per second of one replica, learned from what replicas did.

Three terms, the smallest that is known binds: *throughput* (completions while requests waited), *token time* (the
batch size at which the time per output token meets its SLO, by Little's law) and *memory* (an upper bound: what the
KV cache would hold). Before a replica was ever saturated, the highest rate it served without a queue is *proven*; it
is a lower bound, so it is allowed to grow slowly, or a fleet that opens too large could never learn that it is. Another
lower bound is what a replica does that serves one request after the other: a fleet with less than one request in flight
per replica is idle part of the time, and must not be taken for full.
"""

import math
from dataclasses import dataclass
from enum import IntEnum

import numpy as np

from autoscaler.core.capacity.lines import LEAST_LOOKS, add_point, fitted_line
from autoscaler.core.columns import F64, I64, Bools, Columns, column, every, filled, some, unknown

SATURATED_MIN_POD_S = 20.0
"""Saturated pod-seconds before the measured throughput is believed: about 100 requests at 5 requests/s."""

SATURATED_MIN_DONE = 9.0
"""Requests done in them, or lately at all where they are long, before it is believed: by chance it is off by a third
then (the root of a Poisson count), and where one takes a minute 20 pod-seconds see none or one."""

CHANCE_DONE = 36.0
CHANCE_SIGMAS = 2.0
"""A minute of so few requests that proved more than was measured is believed where that is no chance: the best of many
minutes in which five are done each is one of eight. Of more it is off by a third at most (two deviations)."""

BRIEF_POD_S = 5.0
"""Saturated pod-seconds from which on a queue that began a moment ago raises what was proven (a guess): requests that
began together end together, and less would take one batch of them for what a replica does."""

SATURATED_MEMORY_POD_S = 3600.0
"""Saturated pod-seconds over which the estimate forgets (an hour of one replica)."""

SATURATED_LEFT_POD_S = SATURATED_MIN_POD_S * math.exp(-SATURATED_MIN_POD_S / SATURATED_MEMORY_POD_S)
"""What is left at least of so many, forgotten while they were watched: four looks at 5 s leave 19.96 of 20, and whoever
asks for 20 of what is left waits for a fifth look."""

PROVEN_WINDOW_S = 60.0
"""A proven rate is a mean over a minute; shorter means would take a lucky batch for capacity."""

PROVEN_BALANCE = 0.25
"""A minute proves a rate where what is in service came or went by a quarter of what was done at most: while requests of
a minute are only beginning, few are done, and a fleet that is half idle would pass for one that can do no more. A
quarter is beyond what chance does to the two dozen requests that a fleet of that kind does in a minute (a guess)."""

PROVEN_GROWTH_PER_S = 0.1 / 600.0
"""An unsaturated fleet may be asked to prove 10 % more every 10 minutes (guess; bounded by the KV cache's share)."""

PROVEN_ROOM_RATIO = 1.25
"""What a fleet may be asked for at once, over what it did in a minute without a queue at any look.

A fleet is seldom as full as it was seen: taken for full, a calm one of four orders two more for what it carries. By
Erlang's C (independent arrivals, one replica, a look every 10 s) a minute finds a queue at 80 % of its slots in 81 % of
cases where there are 16 slots, in 24 % where there are 64; at 90 % in 99 % and 86 %. With 256 slots at 90 % only in
29 %: there a quarter is too much, by an eighth, until a queue is seen and the throughput is measured."""

GAUGE_S = 60.0
"""Gauges are snapshots of a second; what they say about replicas is their mean over a minute."""

KV_FULL_RATIO = 0.95
"""KV share at which an engine starts to preempt; vLLM warns near it."""

KV_TELLS = 0.3
"""Below this share the KV cache is mostly fixed cost and says nothing about the load it could take (a guess)."""

KV_OWN_RATIO = 0.5
KV_STILL_RATIO = 0.1
"""Less of its used share than this goes with the requests in service, and it stands still, give or take so much of it:
it is taken whatever they are, and more replicas would have caches as full (some engines count blocks that they keep for
reuse). A share that moves otherwise is that of longer or shorter requests (both guesses)."""

RESIDENCE_S = 600.0
"""Over which the time in an engine is smoothed."""

LONG_LOOKS = 2.0
"""A request is long if it takes longer than two looks: a line of such ends with one or two that are done (a guess)."""

SERVED_LEAST = 0.5
"""Requests done, forgotten over `RESIDENCE_S`, below which the sums tell nothing: one is believed for seven minutes."""

KEPT_S = 30.0
KEPT_DONE = 20.0
"""Requests longer than half a minute are forgotten by as many that are done since, where that is slower: fewer do not
tell how long they are (both guesses)."""


class Term(IntEnum):
    """Which term binds the capacity of one replica."""

    UNKNOWN = 0
    PROVEN = 1
    THROUGHPUT = 2
    TOKEN_TIME = 3
    MEMORY = 4


@dataclass(slots=True)
class ThroughputColumns(Columns):
    """Decayed sums per workload; `tpot_*` are the sums of a least-squares line of token time over batch size."""

    saturated_done: F64 = column(fill=0, keep=True)
    saturated_pod_s: F64 = column(fill=0, keep=True)
    saturated_running: F64 = column(fill=0, keep=True)
    free_done: F64 = column(fill=0)
    free_pod_s: F64 = column(fill=0)
    free_running: F64 = column()
    proven_rps: F64 = column(keep=True)
    proven_at_s: F64 = column()
    proven_done: F64 = column(keep=True, later=True)
    """Requests that were done in the minute that proved it."""
    residence_s: F64 = column(keep=True)
    service_s: F64 = column(fill=0, keep=True, later=True)
    service_looks_s: F64 = column(fill=0, keep=True, later=True)
    service_done: F64 = column(fill=0, keep=True, later=True)
    running: F64 = column()
    done_rps: F64 = column()
    kv_used: F64 = column()
    tpot_sums: F64 = column(5, fill=0, keep=True)
    kv_sums: F64 = column(6, fill=0, keep=True, later=True)
    """The same of a cache's used share over the requests that a replica holds, with the squares of the share."""


@dataclass(frozen=True, slots=True)
class Throughput:
    """Capacity of one replica for a batch of workloads, arrays of shape (B,); NaN rps means uncalibrated."""

    rps: F64
    term: I64
    slots: F64
    """Requests one replica holds when saturated; NaN before it ever was."""
    stays_s: F64
    """How long a request is in an engine; NaN where that is not long (`LONG_LOOKS`), or not known."""
    running: F64
    kv_used: F64
    """Requests in service and KV caches in use over all replicas, smoothed over `GAUGE_S`; 0 where not known."""


@dataclass(frozen=True, slots=True)
class Served:
    """What the pods did since the last sample, arrays of shape (B,); NaN where not measured."""

    now_s: F64
    dt_s: F64
    completions: F64
    running: F64
    pods: F64
    kv_used: F64
    saturated_done: F64
    saturated_pod_s: F64
    saturated_running: F64
    free_done: F64
    free_pod_s: F64
    tpot_s: F64


def learn(columns: ThroughputColumns, rows: I64, served: Served, tpot_slo_s: F64) -> Throughput:
    """Add one interval per row to the sums and return the capacity each row has now."""
    _saturated(columns, rows, served)
    _proven(columns, rows, served)
    _residence(columns, rows, served)
    _gauges(columns, rows, served)
    _lines(columns, rows, served)
    return estimate(columns, rows, served, tpot_slo_s)


def estimate(columns: ThroughputColumns, rows: I64, served: Served, tpot_slo_s: F64) -> Throughput:
    """Return the capacity from the sums as they are."""
    pod_s = columns.saturated_pod_s[rows]
    service = _in_service_s(columns, rows)
    long = _long(*service)
    # Those done under a line outlive a quiet night, in which nothing tells how long requests are.
    done = np.fmax(columns.saturated_done[rows], np.where(np.isfinite(long), columns.service_done[rows], 0.0))
    seen = (pod_s >= SATURATED_LEFT_POD_S) & (done >= SATURATED_MIN_DONE)
    proven = columns.proven_rps[rows]
    one_by_one = 1.0 / _alone_s(columns, rows, *service)
    tells = _cache_tells(columns, rows)
    rps = slots = unknown(len(rows))
    term = np.where(np.isfinite(proven), Term.PROVEN.value, Term.UNKNOWN.value)
    term = np.where(seen, Term.THROUGHPUT.value, term)
    if some(seen):
        safe = np.maximum(pod_s, 1e-9)
        slots = np.where(seen, columns.saturated_running[rows] / safe, np.nan)
        measured = columns.saturated_done[rows] / safe
        measured = np.where(_by_chance(columns, rows, measured), measured, np.fmax(measured, proven))
        held = slots / long
        # Whoever serves one request after the other does no less, as far as it holds one while others wait.
        measured = np.fmax(np.where(np.isfinite(held), held, measured), np.fmin(slots, 1.0) * one_by_one)
        rps = np.where(seen, measured, np.nan)
    if not every(seen):
        grown = PROVEN_ROOM_RATIO * _grown_rps(columns, rows, served.now_s)
        hint = np.fmax(np.fmax(grown, one_by_one), _brief_rps(columns, rows, served))
        rps = np.where(seen, rps, np.where(np.isfinite(grown), hint, grown))
        rps, term = _bind(rps, term, _memory_rps(columns, rows, served, ~seen & tells), Term.MEMORY)
    if some(np.isfinite(tpot_slo_s)):
        rps, term = _bind(rps, term, _token_time_rps(columns, rows, tpot_slo_s), Term.TOKEN_TIME)
    return Throughput(
        np.where(rps > 0, rps, np.nan),
        np.where(rps > 0, term, Term.UNKNOWN.value).astype(np.int64),
        slots,
        long,
        filled(columns.running[rows]),
        np.where(tells, filled(columns.kv_used[rows]), 0.0),
    )


def _memory_rps(columns: ThroughputColumns, rows: I64, served: Served, tells: Bools) -> F64:
    """What fills the cache of one replica, no less than was proven; NaN where it is nearly empty, or tells nothing."""
    pods = np.maximum(served.pods, 1.0)
    share = np.where(served.pods > 0, columns.kv_used[rows] / pods, np.nan)
    full = columns.done_rps[rows] / pods * KV_FULL_RATIO / np.maximum(share, KV_TELLS)
    known = tells & (share > KV_TELLS) & np.isfinite(full)
    return np.where(known, np.fmax(full, columns.proven_rps[rows]), np.nan)


def _by_chance(columns: ThroughputColumns, rows: I64, measured: F64) -> Bools:
    """Whether what a minute proved is more than was measured by no more than chance makes of so few requests."""
    done = columns.proven_done[rows]
    left = 1.0 - CHANCE_SIGMAS / np.sqrt(np.maximum(done, 1e-9))
    return np.asarray((done < CHANCE_DONE) & (columns.proven_rps[rows] * left < measured))


def _brief_rps(columns: ThroughputColumns, rows: I64, served: Served) -> F64:
    """What a queue that began a moment ago proves at least, NaN where none is seen now.

    That is what was done under it, less the standard error of so few independent events (its root). It only ever raises
    what was proven: the first order for a step of ten times is else one by the little that the fleet had to do before.
    """
    under = served.saturated_pod_s > 0
    if not some(under):
        return unknown(len(rows))
    done, pod_s = columns.saturated_done[rows], columns.saturated_pod_s[rows]
    brief = under & (pod_s >= BRIEF_POD_S) & (done > 1.0)
    return np.where(brief, (done - np.sqrt(done)) / np.maximum(pod_s, BRIEF_POD_S), np.nan)


def _grown_rps(columns: ThroughputColumns, rows: I64, now_s: F64) -> F64:
    """What the proven rate may have become since, NaN where none is."""
    age_s = np.maximum(now_s - columns.proven_at_s[rows], 0.0)
    return columns.proven_rps[rows] * (1.0 + PROVEN_GROWTH_PER_S * age_s)


def _bind(rps: F64, term: I64, limit: F64, name: Term) -> tuple[F64, I64]:
    lower = limit < rps
    return np.where(lower, limit, rps), np.where(lower, name.value, term)


def _saturated(columns: ThroughputColumns, rows: I64, served: Served) -> None:
    if not some((served.saturated_pod_s > 0) | (served.saturated_done > 0)):
        return  # they forget by what is seen
    forget = np.exp(-served.saturated_pod_s / SATURATED_MEMORY_POD_S)
    for name, grown in (
        ("saturated_done", served.saturated_done),
        ("saturated_pod_s", served.saturated_pod_s),
        ("saturated_running", served.saturated_running),
    ):
        sums = getattr(columns, name)
        sums[rows] = sums[rows] * forget + grown


def _proven(columns: ThroughputColumns, rows: I64, served: Served) -> None:
    """Close a window once its pods were watched for a minute on average; a queue anywhere voids the window.

    What was done is what came only where as many are in service at the window's end as at its beginning
    (`PROVEN_BALANCE`); where what is in service is not known, done is all there is.
    """
    queued = served.saturated_pod_s > 0
    at_s = columns.proven_at_s[rows]
    # A checkpoint knows the rate and not since when: growth begins anew.
    columns.proven_at_s[rows] = np.where(np.isnan(at_s) & np.isfinite(columns.proven_rps[rows]), served.now_s, at_s)
    columns.free_done[rows] = np.where(queued, 0.0, columns.free_done[rows] + served.free_done)
    columns.free_pod_s[rows] = np.where(queued, 0.0, columns.free_pod_s[rows] + served.free_pod_s)
    first = queued | np.isnan(columns.free_running[rows])
    columns.free_running[rows] = np.where(first, served.running, columns.free_running[rows])
    done, pod_s = columns.free_done[rows], columns.free_pod_s[rows]
    full = (served.pods > 0) & (pod_s >= PROVEN_WINDOW_S * served.pods)
    if not some(full):
        return
    rate = done / np.maximum(pod_s, 1e-9)
    settled = ~(np.abs(served.running - columns.free_running[rows]) > PROVEN_BALANCE * done)
    higher = full & settled & ~(rate <= columns.proven_rps[rows]) & (rate > 0)
    # What the last proof has grown to by now is as believable as before: a higher one never lowers the estimate.
    ahead = filled(_grown_rps(columns, rows, served.now_s)) / np.where(higher, rate, 1.0) - 1.0
    since_s = served.now_s - np.maximum(ahead, 0.0) / PROVEN_GROWTH_PER_S
    columns.proven_rps[rows] = np.where(higher, rate, columns.proven_rps[rows])
    columns.proven_done[rows] = np.where(higher, done, columns.proven_done[rows])
    columns.proven_at_s[rows] = np.where(higher, since_s, columns.proven_at_s[rows])
    columns.free_done[rows] = np.where(full, 0.0, done)
    columns.free_pod_s[rows] = np.where(full, 0.0, pod_s)
    columns.free_running[rows] = np.where(full, served.running, columns.free_running[rows])


def _residence(columns: ThroughputColumns, rows: I64, served: Served) -> None:
    """Mean time in an engine by Little's law, smoothed over ten minutes: of looks that find requests both in service
    and done, and in sums over all looks."""
    rate = served.completions / np.maximum(served.dt_s, 1e-9)
    known = (served.dt_s > 0) & (rate > 0) & (served.running > 0)
    sample = np.where(known, served.running / np.maximum(rate, 1e-9), np.nan)
    old = columns.residence_s[rows]
    weight = 1.0 - np.exp(-np.maximum(served.dt_s, 0.0) / RESIDENCE_S)
    blended = np.where(np.isfinite(old), old + weight * (sample - old), sample)
    columns.residence_s[rows] = np.where(known, blended, old)
    # A clock that jumped would pass for an hour in service.
    told = (served.dt_s > 0) & (served.dt_s < RESIDENCE_S)
    told &= np.isfinite(served.running) & np.isfinite(served.completions)
    few = np.where(long_s(columns, rows) > KEPT_S, filled(served.completions) / KEPT_DONE, 1.0)
    weight = np.where(told, np.minimum(weight, few), 0.0)
    for sums, grown in (
        (columns.service_s, served.running * served.dt_s),
        (columns.service_looks_s, served.completions * served.dt_s),
        (columns.service_done, served.completions),
    ):
        sums[rows] = sums[rows] * (1.0 - weight) + np.where(told, grown, 0.0)


def _alone_s(columns: ThroughputColumns, rows: I64, in_service_s: F64, looks_s: F64) -> F64:
    """How long a request is in an engine, NaN where not known; by the sums of all looks it is `in_service_s`.

    Where few are done in a look, those that find one in service and another one done are the busiest for what is in
    service: of requests of 40 s each, one in ten seconds, they say 16 s. The sums of all looks do not, and where they
    say longer they are believed. Where requests are so rare that there is no such look, the sums alone tell it, and
    never less than from a look to the next: those that came and went between two are in none of them.
    """
    residence = columns.residence_s[rows]
    summed = np.maximum(in_service_s, looks_s)
    return np.where(residence > 0, np.fmax(residence, in_service_s), np.where(summed > 0, summed, np.nan))


def _in_service_s(columns: ThroughputColumns, rows: I64) -> tuple[F64, F64]:
    """How long a request is in an engine by the sums of all looks alone, and how long their looks took; NaN of few."""
    done = columns.service_done[rows]
    done = np.where(done >= SERVED_LEAST, done, np.nan)
    return columns.service_s[rows] / done, columns.service_looks_s[rows] / done


def long_s(columns: ThroughputColumns, rows: I64) -> F64:
    """How long a request is in an engine where that is long, NaN elsewhere.

    Where requests are long, what ends while a line is there at two looks says little of what a full replica does: the
    line begins in the middle of requests, and the one that ends lets the last in line in. By Little's law a full one
    does what it holds in the time that each is held.
    """
    return _long(*_in_service_s(columns, rows))


def _long(in_service_s: F64, looks_s: F64) -> F64:
    return np.where((looks_s > 0) & (in_service_s > LONG_LOOKS * looks_s), in_service_s, np.nan)


def _gauges(columns: ThroughputColumns, rows: I64, served: Served) -> None:
    weight = 1.0 - np.exp(-np.where(served.dt_s > 0, served.dt_s, 0.0) / GAUGE_S)
    for name, value in (
        ("running", served.running),
        ("kv_used", served.kv_used),
        ("done_rps", np.where(served.dt_s > 0, served.completions / np.maximum(served.dt_s, 1e-9), np.nan)),
    ):
        kept = getattr(columns, name)
        old = kept[rows]
        kept[rows] = np.where(np.isfinite(value), np.where(np.isfinite(old), old + weight * (value - old), value), old)


def _lines(columns: ThroughputColumns, rows: I64, served: Served) -> None:
    """Add one look to the lines of token time, and of a cache's used share, over the requests in a replica."""
    pods = np.maximum(served.pods, 1.0)
    batch = served.running / pods
    known = (served.pods > 0) & (served.dt_s > 0) & np.isfinite(batch)
    for sums, y in ((columns.tpot_sums, served.tpot_s), (columns.kv_sums, served.kv_used / pods)):
        told = known & np.isfinite(y)
        if some(told):
            add_point(sums, rows[told], batch[told], y[told])


def _cache_tells(columns: ThroughputColumns, rows: I64) -> Bools:
    """Whether the caches are in use for the requests in service, as far as anybody can tell."""
    sums = columns.kv_sums.take(rows, axis=0)
    if not some(sums[:, 0] >= LEAST_LOOKS):
        return np.ones(len(rows), dtype=np.bool_)
    line = fitted_line(sums)
    spread = sums[:, 5] / np.maximum(sums[:, 0], 1e-9) - line.mean_y**2
    still = spread < (KV_STILL_RATIO * line.mean_y) ** 2
    return np.asarray(~(line.known & still & (line.slope * line.mean_x < KV_OWN_RATIO * line.mean_y)))


def _token_time_rps(columns: ThroughputColumns, rows: I64, tpot_slo_s: F64) -> F64:
    """Rate at the batch size where token time meets its SLO; NaN without such an SLO or without enough spread.

    With time per token ``a + b * n`` and a residence that scales with it, the rate at n is
    ``n / (residence * tpot(n) / tpot(now))`` (Little's law).
    """
    mean_x, mean_y, slope, known = fitted_line(columns.tpot_sums[rows])
    usable = known & (slope > 0) & np.isfinite(tpot_slo_s)
    batch = np.where(usable, mean_x + (tpot_slo_s - mean_y) / np.where(usable, slope, 1.0), np.nan)
    batch = np.where(batch >= 1.0, batch, np.where(usable, 1.0, np.nan))
    residence = columns.residence_s[rows] * tpot_slo_s / np.maximum(mean_y, 1e-9)
    return np.where(usable & (residence > 0), batch / np.maximum(residence, 1e-9), np.nan)
