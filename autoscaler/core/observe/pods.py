"""Per-pod differences: what happened between two samples, robust to resets, new pods, vanished and silent pods.

While fewer than `told.TOLD_RATIO` of the ready pods answer, only the queue is taken from them, as the least it can be;
counts wait until the others are back and then cover the whole gap. Half of the pods are half of the load only to
whoever adds them up: a history of such sums would shrink the fleet as soon as the signals are whole again.
"""

import math
from dataclasses import dataclass, field
from typing import NamedTuple

from autoscaler.core.observe.told import TOLD_RATIO, answers, least_waiting, running_but_for, unread
from autoscaler.core.observe.told import told as who_told
from autoscaler.core.types import GatewayReading, PodReading, Readings

WEDGE_S = 30.0
"""A pod with work and no progress for this long is wedged. Longer than any prefill; vLLM's wedge lasts forever."""

SETTLE_S = 15.0
"""A pod younger than this says nothing about capacity: its first requests are still being served (a guess)."""

STANDING_RATIO = 0.2
"""A pod was saturated between two samples if at both a fifth of what it completed was waiting: a smaller queue may
have come and gone, and its rate would pass for capacity."""


@dataclass(slots=True)
class PodTrack:
    """What is remembered of one pod between samples. `progress_at_s` is when a counter last moved."""

    reading: PodReading
    at_s: float
    progress_at_s: float
    ready_since_s: float | None = None
    """As it was last known."""


@dataclass(slots=True)
class WorkloadTrack:
    """What is remembered of one workload between samples."""

    at_s: float = math.nan
    pods: dict[str, PodTrack] = field(default_factory=dict)
    gateway: GatewayReading | None = None
    counted_at_s: float = math.nan
    """When the counter behind `Interval.arrivals` was last read."""
    in_flight: float = math.nan
    desired: int = 0


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
    prompt_tokens: float = math.nan
    generation_tokens: float = math.nan
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
    measured: int = 0
    pods_known: bool = False


def difference(track: WorkloadTrack, readings: Readings) -> Interval:
    """Return what happened since the last sample and remember this one.

    A sample at the same instant as the last one refreshes gauges and yields ``dt_s`` 0 and no counts.
    """
    now_s = readings.now_s
    dt_s = now_s - track.at_s if math.isfinite(track.at_s) else math.nan
    sums = _PodSums(since_s=track.at_s)
    told = who_told(readings)
    gateway_waits = bool(
        readings.gateway and (readings.gateway.queued or 0) > 0 and track.gateway and (track.gateway.queued or 0) > 0
    )
    if told is not None:
        sums.had = sum([before.reading.requests_total is not None for before in track.pods.values()])
        fresh: dict[str, PodTrack] = {}
        for pod in told:
            fresh[pod.name] = sums.add(pod, track.pods.get(pod.name), now_s, gateway_waits)
        if len(told) >= readings.replicas.ready:
            sums.died += sum([_of_no_use(track.pods[name]) for name in track.pods.keys() - fresh.keys()])
        sums.died = max(0, sums.died - max(0, track.desired - readings.replicas.desired))
        track.pods, track.desired = fresh, readings.replicas.desired
    waiting = sums.waiting if told is not None else least_waiting(readings)
    queue = _total(_gateway_queue(readings), waiting, readings)
    arrivals, arrivals_s, anew = _arrivals(track, readings, sums if told is not None else None, queue)
    track.at_s = now_s
    known = told is not None
    scale = len(told) / sums.kv_pods if told and sums.kv_pods else math.nan
    running = sums.running if known and (sums.running_pods or not told) else math.nan
    new = unread(readings)
    return Interval(
        dt_s=dt_s,
        arrivals=arrivals,
        arrivals_s=arrivals_s,
        anew=anew,
        completions=sums.completions if sums.counted else math.nan,
        prompt_tokens=sums.prompt_tokens,
        generation_tokens=sums.generation_tokens,
        queue=queue,
        running=running,
        told_running=running if known else running_but_for(readings, new),
        unread=new,
        kv_used=sums.kv * scale,
        saturated_completions=sums.saturated_completions,
        saturated_pod_s=sums.saturated_pod_s,
        saturated_running=sums.saturated_running,
        free_completions=sums.free_completions,
        free_pod_s=sums.free_pod_s,
        wedged=sums.wedged,
        died=sums.died,
        measured=sums.measured,
        pods_known=known,
    )


@dataclass(slots=True)
class _PodSums:
    since_s: float
    """Instant of the last sample; a pod last read before it has counts of a longer time."""
    waiting: float = 0.0
    running: float = 0.0
    running_pods: int = 0
    kv: float = 0.0
    kv_pods: int = 0
    completions: float = 0.0
    counted: int = 0
    had: int = 0
    """Pods whose counter was known last time, and of these by now:"""
    went_on: int = 0
    began_anew: int = 0
    late: float = 0.0
    """Completions of pods that were not read last time: they arrived, but not within this interval."""
    prompt_tokens: float = 0.0
    generation_tokens: float = 0.0
    saturated_completions: float = 0.0
    saturated_pod_s: float = 0.0
    saturated_running: float = 0.0
    free_completions: float = 0.0
    free_pod_s: float = 0.0
    wedged: int = 0
    died: int = 0
    measured: int = 0

    def add(self, pod: PodReading, before: PodTrack | None, now_s: float, gateway_waits: bool) -> PodTrack:
        """Add one pod's reading to the sums and return what to remember of it."""
        old = before.reading if before else None
        done = _delta(pod.requests_total, old.requests_total if old else None)
        prompt = _delta(pod.prompt_tokens_total, old.prompt_tokens_total if old else None)
        generated = _delta(pod.generation_tokens_total, old.generation_tokens_total if old else None)
        has_work = _has_work(pod)
        grown = ((done or 0.0) > 0) or ((prompt or 0.0) > 0) or ((generated or 0.0) > 0)
        moved = grown or (done is None and prompt is None and generated is None)
        progress_at_s = before.progress_at_s if before and has_work and not moved else now_s
        since_s = pod.ready_since_s
        if before is not None and before.ready_since_s is not None:
            anew = since_s is not None and since_s > before.ready_since_s
            self.died += anew and _of_no_use(before)
            since_s = since_s if anew else before.ready_since_s
        track = PodTrack(pod, now_s, progress_at_s, since_s)
        if old is not None and old.requests_total is not None:
            self.went_on += done is not None
            self.began_anew += done is None
        self.measured += answers(pod)
        if now_s - progress_at_s >= WEDGE_S and (pod.waiting or 0) > 0:
            self.wedged += 1
            return track
        self.waiting += pod.waiting or 0.0
        if pod.running is not None:
            self.running += pod.running
            self.running_pods += 1
        if pod.kv_cache_usage is not None:
            self.kv += pod.kv_cache_usage
            self.kv_pods += 1
        if before is not None and before.at_s < self.since_s:
            self.late += done or 0.0
            return track
        self.prompt_tokens += prompt or 0.0
        self.generation_tokens += generated or 0.0
        if done is None or before is None or old is None:
            return track
        self.completions += done
        self.counted += 1
        span_s = now_s - before.at_s
        if pod.ready_since_s is not None and before.at_s - pod.ready_since_s < SETTLE_S:
            return track
        if gateway_waits or min(pod.waiting or 0.0, old.waiting or 0.0) >= max(STANDING_RATIO * done, 1e-9):
            self.saturated_completions += done
            self.saturated_pod_s += span_s
            self.saturated_running += (pod.running or 0.0) * span_s
        else:
            self.free_completions += done
            self.free_pod_s += span_s
        return track


def _has_work(pod: PodReading) -> bool:
    return (pod.waiting or 0) > 0 or (pod.running or 0) > 0


def _of_no_use(pod: PodTrack) -> bool:
    """Whether it held requests when it was last read, and had completed none since its start."""
    return pod.reading.requests_total == 0 and _has_work(pod.reading)


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
    pods_silent = readings.pods is not None and len(readings.pods) > 0 and all(p.waiting is None for p in readings.pods)
    pods = math.nan if pods_silent else pods
    if math.isnan(gateway) and math.isnan(pods):
        return math.nan
    return (0.0 if math.isnan(gateway) else gateway) + (0.0 if math.isnan(pods) else pods)


def _arrivals(
    track: WorkloadTrack, readings: Readings, sums: _PodSums | None, queue: float
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
        return math.nan, 0.0, False  # the gateway went silent: wait for it rather than mix two sources
    track.gateway = gateway or before
    if sums is None or not math.isfinite(queue):
        return math.nan, 0.0, False
    in_flight = sums.running + queue
    grown_by, track.in_flight = in_flight - track.in_flight, in_flight
    track.counted_at_s = readings.now_s
    if _anew(sums, readings):
        return math.nan, 0.0, True
    if not (math.isfinite(grown_by) and span_s > 0):
        return math.nan, 0.0, False
    return max(0.0, sums.completions + sums.late + grown_by), span_s, False


def _anew(sums: _PodSums, readings: Readings) -> bool:
    """Whether too few of the pods' counters went on: what the others completed is lost and would pass for a lull."""
    if not sums.went_on:
        return bool(sums.had and readings.pods)
    return sums.went_on < TOLD_RATIO * (sums.went_on + sums.began_anew)
