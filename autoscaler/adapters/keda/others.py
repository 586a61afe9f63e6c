"""Health and reflection: what others than KEDA ask of the server, a few at a time.

Enters: whether numbers are given. Leaves: gRPC's own two services. A watch or a reflection stream is held open for as
long as its caller likes and counts against the server's calls, so that enough of them would leave no room for KEDA's:
here there is room for few. The library's health service writes under the lock that its status is set under, so that one
caller who takes nothing stops everybody's news and the server's own end; here each watch looks for itself.
"""

from collections.abc import AsyncIterable, AsyncIterator, Iterator
from contextlib import contextmanager
from typing import Any, Final

import grpc
from grpc_health.v1 import health_pb2
from grpc_health.v1.health import SERVICE_NAME as HEALTH
from grpc_health.v1.health_pb2_grpc import HealthServicer
from grpc_reflection.v1alpha import reflection, reflection_pb2

from autoscaler.adapters.keda.answers import Answers
from autoscaler.adapters.keda.pushes import Bells
from autoscaler.ports import Clock

Context = grpc.aio.ServicerContext[Any, Any]

MOST: Final = 64
"""Streams of each service at once; a probe needs none, a load balancer one."""

LOOK_S: Final = 0.2
"""How late a watch is."""


class _Room:
    """Counts the streams of one service."""

    def __init__(self) -> None:
        self._open = 0

    @contextmanager
    def taken(self) -> Iterator[bool]:
        """Whether there is room, which is then taken for the length of the block."""
        free = self._open < MOST
        self._open += free
        try:
            yield free
        finally:
            self._open -= free


async def _no_room(context: Context) -> None:
    await context.abort(grpc.StatusCode.RESOURCE_EXHAUSTED, f"{MOST} such streams are open, the most there may be")


class Health(HealthServicer):  # type: ignore[misc] # the package has no types
    """Serving while numbers are given; `service` is the one besides the whole server that is asked for."""

    def __init__(self, service: str, answers: Answers, bells: Bells, clock: Clock) -> None:
        self._services = ("", service)
        self._answers = answers
        self._bells = bells
        self._clock = clock
        self._room = _Room()

    async def Check(self, request: health_pb2.HealthCheckRequest, context: Context) -> health_pb2.HealthCheckResponse:
        """The status now."""
        if request.service not in self._services:
            await context.abort(grpc.StatusCode.NOT_FOUND, f"{request.service[:100]!r} is not served here")
        return self._status(request.service)

    async def Watch(self, request: health_pb2.HealthCheckRequest, context: Context) -> None:
        """The status now and whenever it changes, until the server stops, which is the last change."""
        with self._room.taken() as free:
            if not free:
                await _no_room(context)
            told: health_pb2.HealthCheckResponse | None = None
            while True:
                # Whoever reads an answer may see the server stop before its write has ended here.
                last = self._bells.closed
                status = self._status(request.service)
                if status != told:
                    await context.write(status)
                    told = status
                if last:
                    return
                await self._clock.sleep_until(self._clock.monotonic() + LOOK_S)

    def _status(self, service: str) -> health_pb2.HealthCheckResponse:
        answer = health_pb2.HealthCheckResponse
        if service not in self._services:
            return answer(status=answer.SERVICE_UNKNOWN)
        serving = self._answers.ready() and not self._bells.closed
        return answer(status=answer.SERVING if serving else answer.NOT_SERVING)


class Reflection(reflection.aio.ReflectionServicer):  # type: ignore[misc] # the package has no types
    """Tells what is served, `service` and these two."""

    def __init__(self, service: str) -> None:
        super().__init__((service, HEALTH, reflection.SERVICE_NAME))
        self._room = _Room()

    async def ServerReflectionInfo(
        self, request_iterator: AsyncIterable[reflection_pb2.ServerReflectionRequest], context: Context
    ) -> AsyncIterator[reflection_pb2.ServerReflectionResponse]:
        """An answer to every question."""
        with self._room.taken() as free:
            if not free:
                await _no_room(context)
            async for answer in super().ServerReflectionInfo(request_iterator, context):
                yield answer
