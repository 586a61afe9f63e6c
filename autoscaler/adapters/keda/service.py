"""The five calls of the external scaler, each answered from memory.

Enters: a reference to a ScaledObject with its trigger's metadata. Leaves: a spec from the trigger alone, numbers that
are finite and never stand for something unknown, or a status code. The spec is given even where the policy or the
measure is refused: without it KEDA takes our metric out of the HPA, where another trigger then shrinks alone, and the
words of a refused value reach the ScaledObject's events while those of a refused spec do not.
"""

import re
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any, Final, NoReturn

import grpc

from autoscaler.adapters.keda import externalscaler_pb2 as pb
from autoscaler.adapters.keda.answers import Answers, Refusal, Refused, Served
from autoscaler.adapters.keda.counts import Counts
from autoscaler.adapters.keda.externalscaler_pb2_grpc import ExternalScalerServicer
from autoscaler.adapters.keda.polls import Polls
from autoscaler.adapters.keda.pushes import Bells, pushes
from autoscaler.api.trigger import Measure, read_measure
from autoscaler.errors import InputError
from autoscaler.ports import Clock

Context = grpc.aio.ServicerContext[Any, Any]

STREAM_LASTS_S: Final = 300.0
"""A stream ends in good order after so long and is opened again at once; on a connection that is given up for its age
none is left when its grace ends (see `server`)."""

AGE_KEY: Final = "headroom-age-seconds"
HELD_KEY: Final = "headroom-held"

_INDEX: Final = re.compile(r"s\d{1,4}-")
"""What KEDA puts before a metric's name in the HPA; its operator takes it away before it calls."""

_CODES: Final = {
    Refusal.NOT_LEADING: grpc.StatusCode.UNAVAILABLE,
    Refusal.NOT_READY: grpc.StatusCode.UNAVAILABLE,
    Refusal.UNKNOWN: grpc.StatusCode.NOT_FOUND,
    Refusal.INVALID: grpc.StatusCode.INVALID_ARGUMENT,
}


class ExternalScaler(ExternalScalerServicer):
    """The servicer. `client_names` are the certificates' names that may call; empty: whoever the transport lets in."""

    def __init__(
        self,
        answers: Answers,
        bells: Bells,
        clock: Clock,
        counts: Counts,
        *,
        client_names: frozenset[str],
        most_streams: int,
    ) -> None:
        self._answers = answers
        self._bells = bells
        self._clock = clock
        self._counts = counts
        self._client_names = client_names
        self._most_streams = most_streams
        self._polls = Polls(answers, clock)

    async def GetMetricSpec(self, request: pb.ScaledObjectRef, context: Context) -> pb.GetMetricSpecResponse:
        """The metric's name and target, from the trigger alone."""
        await self._admit("GetMetricSpec", request, context)
        self._counts.calls["GetMetricSpec", "OK"] += 1
        return _spec(request)

    async def GetMetrics(self, request: pb.GetMetricsRequest, context: Context) -> pb.GetMetricsResponse:
        """The number for the HPA, under the name that was asked for."""
        ref = request.scaledObjectRef
        await self._admit("GetMetrics", ref, context)
        try:
            measure = read_measure(ref.scalerMetadata)
        except InputError as error:
            await self._refuse("GetMetrics", Refused(Refusal.INVALID, str(error)), context)
        asked = _INDEX.sub("", request.metricName, count=1) if _INDEX.match(request.metricName) else request.metricName
        if asked != measure.metric:
            words = f"metric {request.metricName[:100]!r} is not served; the trigger's is {measure.metric}"
            await self._refuse("GetMetrics", Refused(Refusal.INVALID, words), context)
        answer = self._polls.value(ref.namespace, ref.name)
        if isinstance(answer, Refused):
            await self._refuse("GetMetrics", answer, context)
        if answer.held:
            self._counts.held += 1
            context.set_trailing_metadata(((AGE_KEY, f"{answer.age_s:.1f}"), (HELD_KEY, "true")))
        value = measure.value(answer.replicas, answer.demand)
        self._counts.calls["GetMetrics", "OK"] += 1
        self._answers.told(ref.namespace, ref.name, measure.metric, value)
        found = pb.MetricValue(metricName=request.metricName, metricValue=value, metricValueFloat=value)
        return pb.GetMetricsResponse(metricValues=[found])

    async def IsActive(self, request: pb.ScaledObjectRef, context: Context) -> pb.IsActiveResponse:
        """Whether the workload should run, from the same snapshot as the value before it."""
        await self._admit("IsActive", request, context)
        answer = self._polls.activity(request.namespace, request.name)
        if isinstance(answer, Refused):
            await self._refuse("IsActive", answer, context)
        self._counts.calls["IsActive", "OK"] += 1
        return pb.IsActiveResponse(result=answer.replicas > 0)

    async def StreamIsActive(self, request: pb.ScaledObjectRef, context: Context) -> None:
        """Whether the workload should run, now and whenever that changes."""
        namespace, name = request.namespace, request.name
        async with self._stream("StreamIsActive", request, context):
            with self._bells.listening(namespace, name) as bell:
                said = pushes(self._asking(namespace, name), self._bells, bell, self._clock, STREAM_LASTS_S)
                async for word in said:
                    if isinstance(word, Refused):
                        await self._refuse("StreamIsActive", word, context)
                    await self._write(pb.IsActiveResponse(result=word), context)

    async def StreamMetricSpec(self, request: pb.ScaledObjectRef, context: Context) -> None:
        """The spec once: it follows from the trigger, and a changed trigger opens another stream."""
        async with self._stream("StreamMetricSpec", request, context):
            await self._write(_spec(request), context)
            end_s = self._clock.monotonic() + STREAM_LASTS_S
            with self._bells.listening(request.namespace, request.name) as bell:
                while not self._bells.closed and self._clock.monotonic() < end_s:
                    bell.clear()
                    await self._clock.sleep_until(end_s, bell)

    def _asking(self, namespace: str, name: str) -> Callable[[], Served | Refused]:
        return lambda: self._answers.served(namespace, name)

    async def _admit(self, method: str, ref: pb.ScaledObjectRef, context: Context) -> None:
        """Let pass who may call and names an object."""
        if self._client_names and not self._client_names & _names_of(context):
            self._counts.calls[method, grpc.StatusCode.PERMISSION_DENIED.name] += 1
            words = "the caller's certificate has none of the names in keda.tls.client_names"
            await context.abort(grpc.StatusCode.PERMISSION_DENIED, words)
        if not ref.namespace or not ref.name:
            await self._refuse(method, Refused(Refusal.INVALID, "the call names no ScaledObject"), context)

    @asynccontextmanager
    async def _stream(self, method: str, ref: pb.ScaledObjectRef, context: Context) -> AsyncIterator[None]:
        """Count a stream for the length of the block; one too many is refused, so that calls always find room."""
        await self._admit(method, ref, context)
        if self._counts.streams >= self._most_streams:
            self._counts.calls[method, grpc.StatusCode.RESOURCE_EXHAUSTED.name] += 1
            words = f"{self._most_streams} streams are open, the most of keda.max_streams; KEDA still polls"
            await context.abort(grpc.StatusCode.RESOURCE_EXHAUSTED, words)
        self._counts.streams += 1
        try:
            yield
            self._counts.calls[method, "OK"] += 1
        finally:
            self._counts.streams -= 1

    async def _write(self, message: object, context: Context) -> None:
        """Wait for the caller to take a message: one that never reads has this one waiting for it, and no more.

        A write that is given up leaves gRPC unable to end the stream, so it is not bounded here: keepalive notices a
        caller that is gone, and the connection's age ends one that is deaf.
        """
        await context.write(message)
        self._counts.pushed += 1

    async def _refuse(self, method: str, refused: Refused, context: Context) -> NoReturn:
        code = _CODES[refused.refusal]
        self._counts.calls[method, code.name] += 1
        await context.abort(code, refused.message)


def _spec(ref: pb.ScaledObjectRef) -> pb.GetMetricSpecResponse:
    """What the trigger says; where its measure cannot be read, one under whose name every value is refused."""
    try:
        measure = read_measure(ref.scalerMetadata)
    except InputError:
        measure = Measure()
    target = measure.per_replica
    spec = pb.MetricSpec(metricName=measure.metric, targetSize=target, targetSizeFloat=target)
    return pb.GetMetricSpecResponse(metricSpecs=[spec])


def _names_of(context: Context) -> set[str]:
    """The names in the caller's certificate, which the transport has verified."""
    shown = context.auth_context()
    return {
        name.decode(errors="replace")
        for key in ("x509_subject_alternative_name", "x509_common_name")
        for name in shown.get(key, ())
    }
