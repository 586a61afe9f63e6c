"""What is remembered of a pod between two samples, and what the pods of a workload add up to."""

from dataclasses import dataclass
from typing import NamedTuple

from autoscaler.core.types import PodReading

WEDGE_S = 30.0
"""A pod with work and no progress for this long is wedged. Longer than any prefill; vLLM's wedge lasts forever."""

SETTLE_S = 15.0
"""A pod younger than this says nothing about capacity: its first requests are still being served (a guess)."""

STANDING_RATIO = 0.2
"""A pod was saturated between two samples if at both a fifth of what it completed was waiting: a smaller queue may
have come and gone, and its rate would pass for capacity."""

SILENT_S = 60.0
"""A gateway's counter is waited for so long, as its next count covers the gap to the request. From then on the pods
tell what arrives, as where no gateway counts: a queue that they show would else have no load behind it (a guess)."""

BRIDGED_S = 15.0
"""What a pod did since it was last counted still says what it can do if that is no longer ago: three looks. Where new
pods were not read yet the others are not counted, and while a fleet grows that is every other look. Of a longer span
nobody saw whether the line stood all the time (a guess)."""

HUNG_S = 5.0
"""A pod hangs that is ready and told nothing at two looks so far apart. At the first of them it may have ended a moment
before, however long ago its last word is: the kubelet says of a process that ended that it is not ready within a second
or two, of a hanging one when its probe has failed for ten and more (a guess)."""


@dataclass(slots=True)
class PodTrack:
    """What is remembered of one pod between samples. `progress_at_s` is when a counter last moved."""

    reading: PodReading
    at_s: float
    progress_at_s: float
    ready_since_s: float | None = None
    """As it was last known."""
    hung: bool = False
    """It told nothing for `HUNG_S` and was ready all the same."""
    silent_since_s: float | None = None
    """The first look since its last word that found it ready and told nothing; None where none did."""


class PodSums(NamedTuple):
    """Sums over the pods of one sample, and over what they did since the last one."""

    waiting: float = 0.0
    running: float = 0.0
    running_pods: int = 0
    kv: float = 0.0
    kv_pods: int = 0
    completions: float = 0.0
    counted: int = 0
    went_on: int = 0
    """Pods whose counter was known last time and went on, and those where it began anew:"""
    began_anew: int = 0
    late: float = 0.0
    """Completions of pods that were not read last time: they arrived, but not within this interval."""
    saturated_completions: float = 0.0
    saturated_pod_s: float = 0.0
    saturated_running: float = 0.0
    free_completions: float = 0.0
    free_pod_s: float = 0.0
    wedged: int = 0
    died: int = 0
