"""A server over answers that a test sets, and a client like KEDA's."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import grpc

from autoscaler.adapters.keda import externalscaler_pb2 as pb
from autoscaler.adapters.keda.answers import Refusal, Refused, Served
from autoscaler.adapters.keda.counts import Counts
from autoscaler.adapters.keda.externalscaler_pb2_grpc import ExternalScalerStub
from autoscaler.adapters.keda.pushes import Bells
from autoscaler.adapters.keda.server import Listen, serving_keda
from autoscaler.runtime.clock import WallClock

CHAT = ("prod", "chat")
SYNCING = Refused(Refusal.NOT_READY, "the cluster is not known yet")
NOT_LEADING = Refused(Refusal.NOT_LEADING, "headroom-1 leads")
UNKNOWN = Refused(Refusal.UNKNOWN, "no ScaledObject prod/chat points here")
MISSPELLED = Refused(Refusal.INVALID, "metadata.perReplca: unknown key")


@dataclass
class Book:
    """Answers by ScaledObject; a test writes into it."""

    answers: dict[tuple[str, str], Served | Refused] = field(default_factory=dict)
    is_ready: bool = True
    asked: int = 0
    numbers: list[int] = field(default_factory=list)
    """All that was told, in order."""
    bells: Bells = field(default_factory=Bells)
    counts: Counts = field(default_factory=Counts)

    def served(self, namespace: str, name: str) -> Served | Refused:
        self.asked += 1
        return self.answers.get((namespace, name), UNKNOWN)

    def told(self, namespace: str, name: str, metric: str, value: int) -> None:
        self.numbers.append(value)

    def ready(self) -> bool:
        return self.is_ready

    def say(self, replicas: int, *, standing: int | None = None, demand: int | None = None) -> None:
        """Say that chat shall have so many replicas, and tell whoever waits for it."""
        self.put(Served(replicas, replicas if standing is None else standing, demand))

    def put(self, answer: Served | Refused) -> None:
        self.answers[CHAT] = answer
        self.bells.tell(*CHAT)


def ref(metadata: dict[str, str] | None = None, key: tuple[str, str] = CHAT) -> pb.ScaledObjectRef:
    return pb.ScaledObjectRef(namespace=key[0], name=key[1], scalerMetadata=metadata or {})


def query(
    metric: str = "headroom-replicas", metadata: dict[str, str] | None = None, key: tuple[str, str] = CHAT
) -> pb.GetMetricsRequest:
    return pb.GetMetricsRequest(scaledObjectRef=ref(metadata, key), metricName=metric)


@asynccontextmanager
async def serving(book: Book, **options: Any) -> AsyncIterator[int]:
    """The real server on loopback, over `book`; the port."""
    chosen: dict[str, Any] = {"host": "127.0.0.1", "port": 0, "tls": None} | options
    listen = Listen(**chosen)
    async with serving_keda(listen, book, book.bells, WallClock(), book.counts) as port:
        yield port


@asynccontextmanager
async def calling(port: int, options: tuple[tuple[str, Any], ...] = ()) -> AsyncIterator[ExternalScalerStub]:
    """A client on a connection of its own."""
    own = (("grpc.use_local_subchannel_pool", 1), *options)
    async with grpc.aio.insecure_channel(f"127.0.0.1:{port}", options=own) as channel:
        yield ExternalScalerStub(channel)
