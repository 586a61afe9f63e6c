"""Readings of one workload: both sources asked at once under one deadline, failures turned into values.

Leaves a `Gathered`: readings the core can take, and which sources are missing and why. A metric sample that was used up
or is older than a tick is missing too: repeating it would make silence look fresh.
"""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

from autoscaler.core.types import Readings, ReplicaReading, validate
from autoscaler.ports import Clock, Fault, MetricSample, MetricSource, PortError, ReplicaSample, ScaleClient
from autoscaler.runtime.target import Target

METRICS = "metrics"
REPLICAS = "replicas"

SKEW_S = 5.0
"""A sample further in the future than this has another clock's time; believing it would make later ones outdated."""


@dataclass(frozen=True, slots=True)
class Missing:
    """A source that gave nothing usable this time: ``metrics`` or ``replicas``."""

    source: str
    fault: Fault
    message: str


@dataclass(frozen=True, slots=True)
class Gathered:
    """What is known of one workload now. `readings` is None while its replicas were never read."""

    readings: Readings | None
    missing: tuple[Missing, ...]

    @property
    def target_readable(self) -> bool:
        """Whether the replica counts are of now and not repeated from an earlier look."""
        return self.readings is not None and all(m.source != REPLICAS for m in self.missing)


@dataclass(frozen=True, slots=True)
class Known:
    """What earlier looks left behind."""

    last_s: float = float("-inf")
    """Instant of the newest readings that the core has seen."""
    replicas: ReplicaReading | None = None


@dataclass(slots=True)
class _Heard:
    metrics: MetricSample | None = None
    metrics_heard_s: float = 0.0
    """When the metrics answered; their age counts until then, not until this loop came round to them."""
    replicas: ReplicaSample | None = None
    missing: list[Missing] = field(default_factory=list)

    async def metrics_from(
        self, read: Callable[[str], Awaitable[MetricSample]], workload: str, now: Callable[[], float]
    ) -> None:
        try:
            self.metrics = await read(workload)
            self.metrics_heard_s = now()
        except PortError as error:
            self.missing.append(Missing(METRICS, error.fault, str(error)))

    async def replicas_from(self, read: Callable[[str], Awaitable[ReplicaSample]], workload: str) -> None:
        try:
            self.replicas = await read(workload)
        except PortError as error:
            self.missing.append(Missing(REPLICAS, error.fault, str(error)))

    def note_silence(self, deadline_s: float) -> None:
        """Whoever neither answered nor failed ran into the deadline."""
        failed = {m.source for m in self.missing}
        for source, sample in ((METRICS, self.metrics), (REPLICAS, self.replicas)):
            if sample is None and source not in failed:
                self.missing.append(Missing(source, Fault.TIMEOUT, f"no answer within {deadline_s:g} s"))


class Gatherer:
    """Asks the two sources. `deadline_s` is real time: the world outside does not run on a scaled clock."""

    def __init__(self, metrics: MetricSource, scale: ScaleClient, clock: Clock, deadline_s: float) -> None:
        self._metrics = metrics
        self._scale = scale
        self._clock = clock
        self._deadline_s = deadline_s

    async def look(self, target: Target, known: Known) -> Gathered:
        """The readings of `target` now; never raises PortError, never takes longer than the deadline."""
        heard = _Heard()
        name = target.name
        try:
            async with asyncio.timeout(self._deadline_s), asyncio.TaskGroup() as group:
                group.create_task(heard.replicas_from(self._scale.read, name), name=f"replicas {name}")
                group.create_task(heard.metrics_from(self._metrics.read, name, self._clock.now), name=f"metrics {name}")
        except TimeoutError:
            heard.note_silence(self._deadline_s)
        readings = join(target, known, heard, self._clock.now())
        return Gathered(readings, tuple(heard.missing))


def join(target: Target, known: Known, heard: _Heard, now_s: float) -> Readings | None:
    """One set of readings from what was heard, noting what had to be dropped; None without any replica count."""
    metrics, replicas = heard.metrics, heard.replicas
    if metrics is not None and replicas is not None:
        full = _full(target, metrics, replicas.replicas)
        if (
            _refusal(full, known, heard.metrics_heard_s, target.params.tick_s) is None
            and replicas.at_s <= now_s + SKEW_S
        ):
            return full
    return _parts(target, known, heard, now_s)


def _parts(target: Target, known: Known, heard: _Heard, now_s: float) -> Readings | None:
    """The same, from parts of which at least one cannot be used: each is judged by itself."""
    metrics, replicas = heard.metrics, _usable_replicas(heard, now_s)
    count = known.replicas if replicas is None else replicas.replicas
    if count is None:
        return None
    if metrics is not None:
        full = _full(target, metrics, count)
        refused = _refusal(full, known, heard.metrics_heard_s, target.params.tick_s)
        if refused is None:
            return full
        heard.missing.append(refused)
    at_s = now_s if replicas is None else replicas.at_s
    return Readings(max(at_s, known.last_s), count, limits=target.limits)


def _full(target: Target, metrics: MetricSample, count: ReplicaReading) -> Readings:
    return Readings(metrics.at_s, count, metrics.pods, metrics.gateway, metrics.latency, target.limits)


def _usable_replicas(heard: _Heard, now_s: float) -> ReplicaSample | None:
    sample = heard.replicas
    if sample is None:
        return None
    try:
        validate(Readings(sample.at_s, sample.replicas))
        if sample.at_s <= now_s + SKEW_S:
            return sample
        message = f"its time is {sample.at_s - now_s:.0f} s in the future"
    except ValueError as error:
        message = str(error)
    heard.missing.append(Missing(REPLICAS, Fault.INVALID, message))
    return None


def _refusal(readings: Readings, known: Known, heard_s: float, tick_s: float) -> Missing | None:
    """Why a metric sample cannot be used, or None."""
    try:
        validate(readings)
    except ValueError as error:
        return Missing(METRICS, Fault.INVALID, str(error))
    age_s = heard_s - readings.now_s
    if age_s < -SKEW_S:
        return Missing(METRICS, Fault.INVALID, f"its time is {-age_s:.0f} s in the future")
    if readings.now_s < known.last_s or age_s > tick_s:
        return Missing(METRICS, Fault.OUTDATED, f"the newest sample is {age_s:.1f} s old")
    return None
