"""The frozen values that cross the core's boundary: what was read, and what was decided.

Readings keep four things apart: a number, zero, ``None`` (the source answered without this field, or did not answer)
and an absent pod. Nothing in here is ever NaN or infinite; `validate` refuses both, naming the field.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass, field, fields
from enum import Enum
from functools import cached_property

from autoscaler.core.reasons import Reason

Evidence = tuple[tuple[str, float | int | str | None], ...]
"""Named inputs of a step, in the order a person should read them; units are in the names."""


class Verdict(Enum):
    """What a driver should do with a decision."""

    SCALE = "SCALE"
    HOLD = "HOLD"


@dataclass(frozen=True, slots=True)
class PodReading:
    """One serving pod at sample time. Counters are cumulative since the pod's start and may reset with it."""

    name: str
    ready_since_s: float | None = None
    waiting: float | None = None
    """Requests queued in the engine for want of capacity (vLLM: reason=capacity)."""
    waiting_deferred: float | None = None
    """Requests queued for another cause (grammar, remote KV): they are not capacity demand."""
    running: float | None = None
    requests_total: float | None = None
    """Requests completed."""
    prompt_tokens_total: float | None = None
    generation_tokens_total: float | None = None
    kv_cache_usage: float | None = None
    """Share of the KV cache in use, 0..1."""


@dataclass(frozen=True)
class Roster:
    """Which pods serve in a simulated fleet, in parallel tuples, oldest first."""

    names: tuple[str, ...]
    since_s: tuple[float, ...]
    """The instants they became ready."""
    begun: tuple[float, ...]
    """What a pod that was there from the beginning had completed when each became ready."""

    @cached_property
    def name_set(self) -> frozenset[str]:
        """The names, to be compared with others."""
        return frozenset(self.names)


@dataclass(frozen=True, slots=True, eq=False)
class Alike:
    """Readings of the pods of a simulated fleet, which are alike in all but their age: no pod is read by itself.

    It stands for the `PodReading` of each, which are made for whoever asks. At least one pod; nothing is None but
    `running` and `kv_cache_usage`.
    """

    roster: Roster
    served: float
    """What a pod that was there from the beginning has completed."""
    waiting: float
    running: float | None
    kv_cache_usage: float | None

    def __len__(self) -> int:
        return len(self.roster.names)

    def __getitem__(self, index: int) -> PodReading:
        return self.each()[index]

    def __iter__(self) -> Iterator[PodReading]:
        return iter(self.each())

    def __eq__(self, other: object) -> bool:
        return self.each() == (other.each() if isinstance(other, Alike) else other)

    def __hash__(self) -> int:
        return hash(self.each())

    def each(self) -> tuple[PodReading, ...]:
        """The pods one by one."""
        roster = self.roster
        return tuple(
            [
                PodReading(
                    name, since_s, waiting=self.waiting, running=self.running, requests_total=self.served - begun,
                    kv_cache_usage=self.kv_cache_usage,
                )
                for name, since_s, begun in zip(roster.names, roster.since_s, roster.begun, strict=True)
            ]
        )  # fmt: skip


Pods = tuple[PodReading, ...] | Alike


@dataclass(frozen=True, slots=True)
class StartingReplica:
    """A replica that was ordered and does not serve yet."""

    since_s: float
    name: str | None = None
    unschedulable: bool = False


@dataclass(frozen=True, slots=True)
class ReplicaReading:
    """The target's replicas as its owner reports them: `desired` is the number on ``/scale``."""

    desired: int
    ready: int
    starting: tuple[StartingReplica, ...] = ()


@dataclass(frozen=True, slots=True)
class GatewayReading:
    """A gateway in front of the pods: `queued` never overlaps with the pods' `waiting`; the counter counts arrivals."""

    queued: float | None = None
    requests_total: float | None = None


@dataclass(frozen=True, slots=True)
class LatencyReading:
    """Latency as the engines or a gateway measured it over the last window, 90th percentiles in seconds."""

    queue_s_p90: float | None = None
    ttft_s_p90: float | None = None
    tpot_s_p90: float | None = None


@dataclass(frozen=True, slots=True)
class Limits:
    """Hard limits that are not the policy's own, in replicas; ``None`` means no such limit."""

    quota_replicas: int | None = None
    budget_replicas: int | None = None
    budget_words: str | None = field(default=None, compare=False)
    """Why the budget is what it is, for people; other words alone make no other limits."""


@dataclass(frozen=True, slots=True)
class Readings:
    """All that is known about one workload at sample time `now_s` (any origin, never decreasing per workload)."""

    now_s: float
    replicas: ReplicaReading
    pods: Pods | None = None
    gateway: GatewayReading | None = None
    latency: LatencyReading | None = None
    limits: Limits = field(default_factory=Limits)


@dataclass(frozen=True, slots=True)
class Step:
    """One change of the number (or a refusal to change it) with the evidence that caused it."""

    stage: str
    before: int
    after: int
    reason: Reason
    evidence: Evidence = ()


@dataclass(frozen=True, slots=True)
class Decision:
    """What one step of the core wants for one workload. A HOLD repeats the desired count it saw."""

    workload: str
    now_s: float
    seen_replicas: int
    replicas: int
    verdict: Verdict
    reason: Reason
    trace: tuple[Step, ...]
    next_due_s: float


def numbers(reading: object, path: str = "") -> Iterator[tuple[str, float]]:
    """Yield ``(dotted field path, value)`` for every number inside a reading, for validation."""
    if isinstance(reading, bool) or reading is None or isinstance(reading, str):
        return
    if isinstance(reading, (int, float)):
        yield path, float(reading)
    elif isinstance(reading, (tuple, Alike)):
        for index, item in enumerate(reading):
            yield from numbers(item, f"{path}[{index}]")
    else:
        for spec in fields(reading):  # type: ignore[arg-type]  # every other reading is a dataclass of this module
            child = f"{path}.{spec.name}" if path else spec.name
            yield from numbers(getattr(reading, spec.name), child)


_ANY_SIGN = frozenset({"now_s", "ready_since_s", "since_s"})


def validate(readings: Readings) -> None:
    """Raise ValueError naming field and value when a reading is not finite, negative, out of range or doubled."""
    for path, value in numbers(readings):
        leaf = path.rsplit(".", 1)[-1]
        if not math.isfinite(value):
            raise ValueError(f"{path}: {value} is not a finite number")
        if value < 0 and leaf not in _ANY_SIGN:
            raise ValueError(f"{path}: {value:g} is negative")
        if leaf == "kv_cache_usage" and value > 1:
            raise ValueError(f"{path}: {value:g} is outside 0..1")
    seen: set[str] = set()
    for pod in readings.pods or ():
        if pod.name in seen:
            raise ValueError(f"pods: {pod.name!r} appears twice")
        seen.add(pod.name)
