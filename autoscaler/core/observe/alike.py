"""What happened in a simulated fleet between two samples, without looking at each of its pods.

Enters: two samples of the same pods, which are alike in all but their age. Leaves: what `pods` adds up pod by pod, to
the last bit, as the same numbers are added in the same order. Of anything unusual it says so: then all are looked at.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import final

from autoscaler.core.observe.sums import SETTLE_S, STANDING_RATIO, PodSums, PodTrack
from autoscaler.core.types import Alike


@final
@dataclass(slots=True, eq=False)
class AlikeTracks(Mapping[str, PodTrack]):
    """What is remembered of such pods, of which each had made progress when it was read; made for whoever asks."""

    read: Alike
    at_s: float
    _each: dict[str, PodTrack] | None = field(default=None, init=False)

    def __getitem__(self, name: str) -> PodTrack:
        return self._all()[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self.read.roster.names)

    def __len__(self) -> int:
        return len(self.read)

    def __contains__(self, name: object) -> bool:
        return name in self.read.roster.name_set

    def _all(self) -> dict[str, PodTrack]:
        if self._each is None:
            at_s = self.at_s
            self._each = {pod.name: PodTrack(pod, at_s, at_s, pod.ready_since_s) for pod in self.read}
        return self._each


def remembered(read: Alike, tracks: dict[str, PodTrack], now_s: float) -> Mapping[str, PodTrack]:
    """The same tracks, in short where they say no more of the pods than was read at `now_s`."""
    usual = [
        each.progress_at_s == now_s and each.ready_since_s == since_s
        for each, since_s in zip(tracks.values(), read.roster.since_s, strict=True)
    ]
    return AlikeTracks(read, now_s) if all(usual) else tracks


def add_up(read: Alike, had: AlikeTracks, now_s: float, gateway_waits: bool) -> PodSums | None:
    """The sums of the same pods; None where one may be stuck, or began anew."""
    roster, before = read.roster, had.read.served
    waiting, running, kv = read.waiting, read.running or 0.0, read.kv_cache_usage
    counts = [(read.served - begun) - (before - begun) for begun in roster.begun]
    least = min(counts)
    if least < 0.0 or (least == 0.0 and (waiting > 0.0 or running > 0.0)):
        return None
    span_s, stood = now_s - had.at_s, min(waiting, had.read.waiting)
    waits = runs = kv_used = completions = 0.0
    saturated = saturated_s = saturated_running = free = free_s = 0.0
    for done, ready_s in zip(counts, roster.since_s, strict=True):
        waits += waiting
        runs += running
        kv_used += kv or 0.0
        completions += done
        if had.at_s - ready_s < SETTLE_S:
            continue
        if gateway_waits or stood >= max(STANDING_RATIO * done, 1e-9):
            saturated += done
            saturated_s += span_s
            saturated_running += running * span_s
        else:
            free += done
            free_s += span_s
    pods = len(counts)
    return PodSums(
        waits, runs, 0 if read.running is None else pods, kv_used, 0 if kv is None else pods, completions, pods, pods,
        0, 0.0, saturated, saturated_s, saturated_running, free, free_s,
    )  # fmt: skip
