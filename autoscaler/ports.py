"""What the live driver needs from outside, as Protocols of one to three methods, and the values that cross them.

A port either answers or raises `PortError`; nothing else may leave an adapter, and no vendor's type does. Instants are
seconds in the origin of `Clock.now`; every sample carries the instant at which it was taken, because a scrape is older
than the moment it is read.
"""

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any, Protocol

from autoscaler.core.forecast.models import FittedModel
from autoscaler.core.forecast.training import FitRequest
from autoscaler.core.types import GatewayReading, LatencyReading, PodReading, ReplicaReading
from autoscaler.errors import HeadroomError


class Fault(Enum):
    """Why a port did not answer; a closed set, so that it can be counted."""

    UNAVAILABLE = "unavailable"
    """No connection, or the other side is overloaded."""
    TIMEOUT = "timeout"
    DENIED = "denied"
    """Authentication or permission: repeating it does not help."""
    INVALID = "invalid"
    """It answered what cannot be used: not finite, negative, from the future."""
    OUTDATED = "outdated"
    """Its newest sample is older than one already used, or than a tick."""


class PortError(HeadroomError):
    """The only exception a port raises. The message names the other side and what it said."""

    def __init__(self, fault: Fault, message: str) -> None:
        super().__init__(message)
        self.fault = fault


class RefusedError(PortError):
    """The other side answered no, or was not asked: what was to be written was not. The message says why."""


class Clock(Protocol):
    """The only source of time outside the core."""

    def now(self) -> float:
        """Seconds for records and samples, and for what is measured between samples; never goes back, never jumps."""
        ...

    def monotonic(self) -> float:
        """Seconds for durations; never goes back. On a scaled clock these are scaled seconds."""
        ...

    async def sleep_until(self, monotonic_s: float, wake: asyncio.Event | None = None) -> None:
        """Return once `monotonic` has reached `monotonic_s`, or as soon as `wake` is set."""
        ...


@dataclass(frozen=True, slots=True)
class MetricSample:
    """What the metrics of one workload said at `at_s`; a None field was not there."""

    at_s: float
    pods: tuple[PodReading, ...] | None = None
    gateway: GatewayReading | None = None
    latency: LatencyReading | None = None


class MetricSource(Protocol):
    """Metrics pages, a metrics store or a gateway."""

    async def read(self, workload: str) -> MetricSample:
        """The newest sample of `workload`. Raises PortError."""
        ...


@dataclass(frozen=True, slots=True)
class ReplicaSample:
    """The target's replicas as its owner showed them at `at_s`."""

    at_s: float
    replicas: ReplicaReading


class Patch(Enum):
    """What became of a patch, as far as the adapter can know."""

    APPLIED = "applied"
    CONFLICT = "conflict"
    """The target no longer has the replica count that was seen: nothing was written."""
    REFUSED = "refused"
    """The server answered no: nothing was written."""
    UNKNOWN = "unknown"
    """No answer: it may have been written, or may still be."""


class ScaleClient(Protocol):
    """The ``/scale`` of targets."""

    async def read(self, workload: str) -> ReplicaSample:
        """The target's replicas now. Raises PortError."""
        ...

    async def patch(self, workload: str, seen_replicas: int, replicas: int) -> Patch:
        """Write `replicas` if the target still has `seen_replicas`.

        Raises RefusedError where a refusal has words, and any other PortError when the outcome is unknown.
        """
        ...


class Watch(Protocol):
    """Pushes the names of workloads about which something is new: a scrape came, a pod changed, ``/scale`` changed."""

    def changes(self) -> AsyncIterator[str]:
        """Names in the order of the changes, until cancelled. Raises PortError when the stream breaks."""
        ...


class RecordSink(Protocol):
    """Where lines of the record go."""

    async def write(self, lines: Sequence[bytes]) -> None:
        """Append lines (given without line end), in order, or raise PortError having written none of them."""
        ...


class StateStore(Protocol):
    """Keeps checkpoints across restarts; each is at most 4 KiB of plain JSON values."""

    async def load(self) -> Mapping[str, dict[str, Any]]:
        """The last checkpoint of every workload by name; empty when there is none. Raises PortError."""
        ...

    async def save(self, checkpoints: Mapping[str, dict[str, Any]]) -> None:
        """Replace what is kept by `checkpoints`, all or nothing. Raises PortError."""
        ...


class ModelFitter(Protocol):
    """Fits a forecast model somewhere; the result does not depend on where."""

    async def fit(self, request: FitRequest) -> FittedModel:
        """The fitted model. Raises PortError (INVALID where the data cannot be fitted)."""
        ...
