"""Per-pod differences: what happened between two samples, robust to resets, new pods, vanished and silent pods.

While fewer than `told.TOLD_RATIO` of the ready pods answer, only the queue is taken from them, as the least it can be;
counts wait until the others are back and then cover the whole gap. Half of the pods are half of the load only to
whoever adds them up: a history of such sums would shrink the fleet as soon as the signals are whole again.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from autoscaler.core.observe import alike as fleets
from autoscaler.core.observe import inferred
from autoscaler.core.observe.alike import AlikeTracks
from autoscaler.core.observe.inferred import Flow
from autoscaler.core.observe.sums import (
    BRIDGED_S,
    HUNG_S,
    SETTLE_S,
    SILENT_S,
    STANDING_RATIO,
    WEDGE_S,
    PodSums,
    PodTrack,
)
from autoscaler.core.observe.told import TOLD_RATIO, least_waiting, running_but_for, silent, unread
from autoscaler.core.observe.told import told as who_told
from autoscaler.core.types import Alike, GatewayReading, PodReading, Pods, Readings


@dataclass(slots=True)
class WorkloadTrack:
    """What is remembered of one workload between samples."""

    at_s: float = math.nan
    pods: Mapping[str, PodTrack] = field(default_factory=dict)
    gateway: GatewayReading | None = None
    waits_since_s: float = math.nan
    """Since when a line was seen at the gateway at every look; NaN where none was at the last one."""
    counted_at_s: float = math.nan
    """When the counter behind `Interval.arrivals` was last read."""
    in_flight: float = math.nan
    desired: int = 0
    flow: Flow | None = None
    """What came and was in the system at the last sample, where no pod counts what it completes."""


def alike(first: WorkloadTrack, second: WorkloadTrack) -> bool:
    """Whether two tracks remember the same, so that `difference` returns the same of both."""
    return (
        first.at_s == second.at_s
        and first.counted_at_s == second.counted_at_s
        and first.desired == second.desired
        and first.gateway == second.gateway
        and _same(first.waits_since_s, second.waits_since_s)
        and _same(first.in_flight, second.in_flight)
        and first.flow == second.flow
        and first.pods == second.pods
    )


def _same(first: float, second: float) -> bool:
    return first == second or (math.isnan(first) and math.isnan(second))


class Interval(NamedTuple):
    """Sums over the time since the last sample. NaN means not measured; it is never used as zero.

    `saturated_*` cover pods that had requests waiting at both ends, `free_*` all others old enough to judge.
    """

    dt_s: float = math.nan
    arrivals: float = math.nan
    arrivals_s: float = 0.0
    """The time `arrivals` covers; longer than `dt_s` when a source was silent for a while."""
    anew: bool = False
    """`arrivals` is not known because the counters behind it began anew: nobody may take it for a reading of now."""
    completions: float = math.nan
    queue: float = math.nan
    running: float = math.nan
    told_running: float = math.nan
    """Requests that run in the pods that answered, known too where all others are merely unread."""
    unread: int = 0
    kv_used: float = math.nan
    """Sum over pods of the KV cache's used share, scaled up to the pods that did not report it."""
    saturated_completions: float = 0.0
    saturated_pod_s: float = 0.0
    saturated_running: float = 0.0
    free_completions: float = 0.0
    free_pod_s: float = 0.0
    wedged: int = 0
    died: int = 0
    """Pods that are gone, or ready anew, and held requests of which they never completed one."""


def difference(track: WorkloadTrack, readings: Readings) -> Interval:
    """Return what happened since the last sample and remember this one.

    A sample at the same instant as the last one refreshes gauges and yields ``dt_s`` 0 and no counts.
    """
    now_s = readings.now_s
    dt_s = now_s - track.at_s if math.isfinite(track.at_s) else math.nan
    mute = silent(readings.pods or ())
    told, sums, had, died = who_told(readings, mute), _NOTHING, track.pods, 0
    if told and not isinstance(told, Alike) and told[0].requests_total is None:
        told = _counted(track, readings, told)
    else:
        track.flow = None
    if not _gateway_queue(readings) > 0:
        track.waits_since_s = math.nan
    elif math.isnan(track.waits_since_s):
        track.waits_since_s = now_s
    if told is not None:
        track.pods, sums = _add_up(told, had, now_s, track.at_s, track.waits_since_s)
        died = sums.died
        if len(told) >= readings.replicas.ready and not _all_there(had, track.pods):
            died += sum([_of_no_use(had[n]) and not had[n].hung for n in had.keys() - track.pods.keys()])
        died = max(0, died - max(0, track.desired - readings.replicas.desired))
        track.desired = readings.replicas.desired
    else:
        _note_hung(track, readings, mute)
    waiting = sums.waiting if told is not None else least_waiting(readings)
    queue = _total(_gateway_queue(readings), waiting, readings)
    arrivals, arrivals_s, anew = _arrivals(track, readings, sums if told is not None else None, had, queue)
    track.at_s = now_s
    known = told is not None
    scale = len(told) / sums.kv_pods if told and sums.kv_pods else math.nan
    running = sums.running if known and (sums.running_pods or not told) else math.nan
    new = unread(mute, now_s)
    return Interval(  # by place: every look makes one, and with names it takes twice as long
        dt_s, arrivals, arrivals_s, anew, sums.completions if sums.counted else math.nan, queue, running,
        running if known else running_but_for(readings, new), new, sums.kv * scale,
        sums.saturated_completions, sums.saturated_pod_s, sums.saturated_running, sums.free_completions,
        sums.free_pod_s, sums.wedged, died,
    )  # fmt: skip


def _counted(track: WorkloadTrack, readings: Readings, told: tuple[PodReading, ...]) -> tuple[PodReading, ...]:
    """The same pods, with what they completed as far as the gateway tells it, and remember this sample."""
    before = track.flow if track.flow is not None and track.flow.at_s == track.at_s else None
    track.flow = inferred.flow(readings, told)
    return told if track.flow is None else inferred.counted(told, track.pods, before, track.flow)


_NOTHING = PodSums()


def _add_up(
    told: Pods, had: Mapping[str, PodTrack], now_s: float, since_s: float, waits_since_s: float
) -> tuple[Mapping[str, PodTrack], PodSums]:
    """What to remember of the pods, and their sums; `since_s` is the instant of the last sample."""
    if not isinstance(told, Alike):
        return _one_by_one(told, had, now_s, since_s, waits_since_s)
    if type(had) is AlikeTracks and had.read.roster is told.roster and had.at_s == since_s:
        sums = fleets.add_up(told, had, now_s, waits_since_s <= since_s)
        if sums is not None:
            return AlikeTracks(told, now_s), sums
    tracks, sums = _one_by_one(told.each(), had, now_s, since_s, waits_since_s)
    return fleets.remembered(told, tracks, now_s), sums


def _one_by_one(
    told: tuple[PodReading, ...], had: Mapping[str, PodTrack], now_s: float, since_s: float, waits_since_s: float
) -> tuple[dict[str, PodTrack], PodSums]:
    """The same, in one loop over plain variables: it is entered for every pod of every look."""
    tracks: dict[str, PodTrack] = {}
    waits = runs = kv = completions = late = 0.0
    saturated = saturated_s = saturated_running = free = free_s = 0.0
    running_pods = kv_pods = counted = went_on = began_anew = wedged = died = 0
    for pod in told:
        before = had.get(pod.name)
        waiting, running, total = pod.waiting or 0.0, pod.running, pod.requests_total
        done, progress_at_s, ready_s = None, now_s, pod.ready_since_s
        if before is not None:
            old = before.reading
            if old.requests_total is not None:
                done = _delta(total, old.requests_total)
                went_on += done is not None
                began_anew += done is None
            if not done and (waiting > 0 or (running or 0) > 0) and not _moved(pod, old, done):
                progress_at_s = before.progress_at_s
            if ready_s != before.ready_since_s:
                ready_s, useless = _ready_anew(pod, before)
                died += useless
        tracks[pod.name] = PodTrack(pod, now_s, progress_at_s, ready_s)
        if waiting > 0 and now_s - progress_at_s >= WEDGE_S:
            wedged += 1
            continue
        waits += waiting
        if running is not None:
            runs += running
            running_pods += 1
        if pod.kv_cache_usage is not None:
            kv += pod.kv_cache_usage
            kv_pods += 1
        if done is None or before is None:
            continue
        # Of one that was not counted last time, what it did is of a longer span.
        lately, span_s = before.at_s >= since_s, now_s - before.at_s
        completions += done * lately
        counted += lately
        late += done * (not lately)
        young = pod.ready_since_s is not None and before.at_s - pod.ready_since_s < SETTLE_S
        if young or (not lately and span_s > BRIDGED_S):
            continue
        gateway_waits = waits_since_s <= before.at_s
        if gateway_waits or (waiting > 0 and min(waiting, old.waiting or 0.0) >= max(STANDING_RATIO * done, 1e-9)):
            saturated += done
            saturated_s += span_s
            saturated_running += (running or 0.0) * span_s
        else:
            free += done
            free_s += span_s
    return tracks, PodSums(
        waits, runs, running_pods, kv, kv_pods, completions, counted, went_on, began_anew, late,
        saturated, saturated_s, saturated_running, free, free_s, wedged, died,
    )  # fmt: skip


def _all_there(had: Mapping[str, PodTrack], tracks: Mapping[str, PodTrack]) -> bool:
    """Whether no pod is gone."""
    if type(had) is AlikeTracks and type(tracks) is AlikeTracks and had.read.roster is tracks.read.roster:
        return True
    return had.keys() <= tracks.keys()


def _moved(pod: PodReading, old: PodReading, done: float | None) -> bool:
    """Whether a counter of tokens grew, or there is none at all to tell; completions are known not to have grown."""
    prompt = _delta(pod.prompt_tokens_total, old.prompt_tokens_total)
    generated = _delta(pod.generation_tokens_total, old.generation_tokens_total)
    return bool(prompt or generated) or (done is None and prompt is None and generated is None)


def _ready_anew(pod: PodReading, before: PodTrack) -> tuple[float | None, bool]:
    """Since when a pod is ready as far as is known, and whether it died of its first requests meanwhile."""
    ready_s = pod.ready_since_s
    if before.ready_since_s is None:
        return ready_s, False
    if ready_s is None or ready_s < before.ready_since_s:
        return before.ready_since_s, False
    return ready_s, _of_no_use(before) and not _went_on(before.reading, pod)


def _note_hung(track: WorkloadTrack, readings: Readings, mute: list[PodReading]) -> None:
    """Note who told nothing for `HUNG_S` and is ready by the API all the same: it has more to do than it can answer
    beside. If it is not there at the next look it did not die of its requests."""
    if readings.pods is None:
        names = list(track.pods) if readings.replicas.ready >= len(track.pods) else []
    else:
        names = [pod.name for pod in mute if pod.ready_since_s is not None]
    now_s = readings.now_s
    found = [(name, track.pods[name]) for name in names if name in track.pods]
    noted = {name: _silent(pod, now_s) for name, pod in found if _of_no_use(pod) and not pod.hung}
    # Who was not ready meanwhile may have ended: its silence begins anew.
    ended = {name: pod for name, pod in track.pods.items() if pod.silent_since_s is not None and name not in names}
    noted |= {name: replace(pod, silent_since_s=None) for name, pod in ended.items()}
    if noted:
        track.pods = {**track.pods, **noted}


def _silent(pod: PodTrack, now_s: float) -> PodTrack:
    """The same pod after a look that found it ready and told nothing."""
    since_s = now_s if pod.silent_since_s is None else pod.silent_since_s
    return replace(pod, hung=now_s - since_s >= HUNG_S, silent_since_s=since_s)


def _of_no_use(pod: PodTrack) -> bool:
    """Whether it held requests when it was last read, and had completed none since its start."""
    read = pod.reading
    return read.requests_total == 0 and ((read.waiting or 0) > 0 or (read.running or 0) > 0)


def _went_on(before: PodReading, now: PodReading) -> bool:
    """Whether the counters of tokens went on: the process lost its readiness for a moment, and nothing of its work."""
    pairs = [
        (before.prompt_tokens_total, now.prompt_tokens_total),
        (before.generation_tokens_total, now.generation_tokens_total),
    ]
    told = [(old or 0.0, new) for old, new in pairs if (old or 0.0) > 0 and new is not None]
    return bool(told) and all(new >= old for old, new in told)


def _delta(now: float | None, before: float | None) -> float | None:
    """Growth of a counter; ``None`` on first sight, after a reset, or when either sample lacks it."""
    if now is None or before is None or now < before:
        return None
    return now - before


def _gateway_queue(readings: Readings) -> float:
    if readings.gateway is None or readings.gateway.queued is None:
        return math.nan
    return readings.gateway.queued


def _total(gateway: float, pods: float, readings: Readings) -> float:
    """Queue at the gateway plus queue in the pods; NaN only when neither was read."""
    told = readings.pods
    if told and not isinstance(told, Alike) and told[0].waiting is None and all(p.waiting is None for p in told):
        pods = math.nan
    if math.isnan(gateway) and math.isnan(pods):
        return math.nan
    return (0.0 if math.isnan(gateway) else gateway) + (0.0 if math.isnan(pods) else pods)


def _arrivals(
    track: WorkloadTrack, readings: Readings, sums: PodSums | None, seen: Mapping[str, PodTrack], queue: float
) -> tuple[float, float, bool]:
    """Arrivals, the seconds they cover, and whether they are not known because the counters behind them began anew.

    From the gateway's counter, else completions plus growth of in-flight.
    """
    gateway, before = readings.gateway, track.gateway
    span_s = readings.now_s - track.counted_at_s
    if gateway is not None and gateway.requests_total is not None:
        had = before is not None and before.requests_total is not None
        grown = _delta(gateway.requests_total, before.requests_total if before else None)
        track.gateway, track.counted_at_s = gateway, readings.now_s
        return (math.nan, 0.0, had and grown is None) if grown is None or not span_s > 0 else (grown, span_s, False)
    if before is not None and before.requests_total is not None:
        if span_s <= SILENT_S or sums is None or not math.isfinite(queue):
            return math.nan, 0.0, False  # the gateway went silent: wait for it rather than mix two sources
        # What it counted meanwhile is left out when it is back: the pods have told of it.
        before, track.in_flight = None, math.nan
    track.gateway = gateway or before
    if sums is None or not math.isfinite(queue):
        return math.nan, 0.0, False
    in_flight = sums.running + queue
    grown_by, track.in_flight = in_flight - track.in_flight, in_flight
    track.counted_at_s = readings.now_s
    if _anew(sums, seen, readings):
        return math.nan, 0.0, True
    if not (math.isfinite(grown_by) and span_s > 0):
        return math.nan, 0.0, False
    return max(0.0, sums.completions + sums.late + grown_by), span_s, False


def _anew(sums: PodSums, seen: Mapping[str, PodTrack], readings: Readings) -> bool:
    """Whether too few of the pods' counters went on: what the others completed is lost and would pass for a lull."""
    if not sums.went_on:
        return bool(readings.pods) and any(before.reading.requests_total is not None for before in seen.values())
    return sums.went_on < TOLD_RATIO * (sums.went_on + sums.began_anew)
