"""The gRPC server around the external scaler: transport, limits, health, reflection, a stop in good order.

Enters: where to listen, certificates, what is answered. Leaves: a server for the length of a block. Every figure here
bounds what a caller can cost; KEDA's own calls come nowhere near them.
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Final

import grpc
from grpc_health.v1.health_pb2_grpc import add_HealthServicer_to_server
from grpc_reflection.v1alpha.reflection_pb2_grpc import add_ServerReflectionServicer_to_server

from autoscaler.adapters.keda import externalscaler_pb2 as pb
from autoscaler.adapters.keda.answers import Answers
from autoscaler.adapters.keda.certificates import Certificates, Tls
from autoscaler.adapters.keda.counts import Counts
from autoscaler.adapters.keda.externalscaler_pb2_grpc import add_ExternalScalerServicer_to_server
from autoscaler.adapters.keda.others import Health, Reflection
from autoscaler.adapters.keda.pushes import Bells
from autoscaler.adapters.keda.service import STREAM_LASTS_S, ExternalScaler
from autoscaler.errors import InputError
from autoscaler.ports import Clock

SERVICE: Final = pb.DESCRIPTOR.services_by_name["ExternalScaler"].full_name

MESSAGE_BYTES: Final = 64 * 1024
"""A trigger's metadata is some hundred bytes; longer messages are refused unread."""

HEADER_BYTES: Final = 16 * 1024
CALLS: Final = 512
"""Calls at once on a connection beside the streams; each takes less than a millisecond."""

CALLERS: Final = 2
"""Connections' worth of calls at once: a caller that begins them and never sends what it asks leaves KEDA as many."""

HANDSHAKE_S: Final = 5.0
"""For TLS and HTTP/2's greeting: so long a crowd that says nothing keeps new callers out, not those that are in."""

KEEPALIVE_S: Final = 10.0
KEEPALIVE_TIMEOUT_S: Final = 10.0
"""KEDA sends no keepalive of its own: this is how a caller that vanished is noticed, and how long a crowd that only
greets keeps new callers out."""

CONNECTION_AGE_S: Final = 600.0
"""Callers look the address up again, and greet anew with a renewed certificate. So long a crowd that does all that
HTTP/2 asks for keeps new callers out; with a client authority only those can whom it has signed for."""

STOP_S: Final = 2.0
"""For calls on their way when the server stops."""


@dataclass(frozen=True, slots=True)
class Listen:
    """Where the server listens; without `tls` it speaks plaintext, so only who asked for that leaves it out."""

    host: str
    port: int
    tls: Tls | None
    most_streams: int = 4096
    most_connections: int = 1024
    """KEDA's operator opens one for all ScaledObjects that name the same address and certificates."""
    connection_age_s: float = CONNECTION_AGE_S


@asynccontextmanager
async def serving_keda(
    listen: Listen, answers: Answers, bells: Bells, clock: Clock, counts: Counts
) -> AsyncIterator[int]:
    """Serve for the length of the block and yield the port, which is a free one for port 0. Raises InputError."""
    calls = CALLERS * (listen.most_streams + CALLS)
    server = grpc.aio.server(options=_options(listen), maximum_concurrent_rpcs=calls)
    names = frozenset[str]() if listen.tls is None else listen.tls.client_names
    scaler = ExternalScaler(answers, bells, clock, counts, client_names=names, most_streams=listen.most_streams)
    add_ExternalScalerServicer_to_server(scaler, server)
    add_HealthServicer_to_server(Health(SERVICE, answers, bells, clock), server)
    add_ServerReflectionServicer_to_server(Reflection(SERVICE), server)
    port = _bind(server, listen, counts)
    await server.start()
    try:
        yield port
    finally:
        bells.close()
        await server.stop(STOP_S)


def _bind(server: grpc.aio.Server, listen: Listen, counts: Counts) -> int:
    host = f"[{listen.host}]" if ":" in listen.host else listen.host
    where = f"{host}:{listen.port}"
    try:
        if listen.tls is None:
            return server.add_insecure_port(where)
        return server.add_secure_port(where, Certificates(listen.tls, counts).credentials())
    except RuntimeError as error:
        raise InputError(f"keda.port {listen.port} on {listen.host}: {error}; set another keda.port") from error


def _options(listen: Listen) -> list[tuple[str, int]]:
    return [
        ("grpc.so_reuseport", 0),  # else two processes could share the port, and each call be a toss
        ("grpc.max_receive_message_length", MESSAGE_BYTES),
        ("grpc.max_send_message_length", MESSAGE_BYTES),
        ("grpc.max_metadata_size", HEADER_BYTES),
        ("grpc.max_concurrent_streams", listen.most_streams + CALLS),
        ("grpc.max_allowed_incoming_connections", listen.most_connections),
        ("grpc.server_handshake_timeout_ms", round(HANDSHAKE_S * 1000)),
        ("grpc.keepalive_time_ms", round(KEEPALIVE_S * 1000)),
        ("grpc.keepalive_timeout_ms", round(KEEPALIVE_TIMEOUT_S * 1000)),
        ("grpc.http2.ping_timeout_ms", round(KEEPALIVE_TIMEOUT_S * 1000)),  # else a minute, whatever stands above
        ("grpc.keepalive_permit_without_calls", 1),
        ("grpc.max_connection_age_ms", round(listen.connection_age_s * 1000)),
        ("grpc.max_connection_age_grace_ms", round((STREAM_LASTS_S + KEEPALIVE_S) * 1000)),
    ]
