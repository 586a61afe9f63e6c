"""The Service in front of the controller, as far as a caller can tell: connections go to the pod that has the label.

It stands for kube-proxy, which there is none of here: pods of the tests' own carry the replicas' names, and each name
has the port on which its replica really listens.
"""

import asyncio
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from types import TracebackType
from typing import Self

from autoscaler.adapters.kube.leader_label import LABEL
from tests.cluster.controller import NAMESPACE
from tests.cluster.plane import Plane
from tests.cluster.processes import free_port


class LeaderService:
    """The forwarder in a thread of its own; a context manager."""

    def __init__(self, plane: Plane, ports: Mapping[str, int]) -> None:
        self.address = f"127.0.0.1:{free_port()}"
        self._plane = plane
        self._ports = ports
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="service")
        self._ended = False
        self._connections: set[asyncio.WriteTransport] = set()
        """Of both sides, closed ones too: one that is being closed waits for a peer that may never read."""

    def selected(self) -> list[str]:
        """The pods that have the label."""
        query = f"labelSelector={LABEL.replace('/', '%2F')}%3Dtrue"
        items = self._plane.call("GET", f"/api/v1/namespaces/{NAMESPACE}/pods?{query}")["items"]
        return sorted(pod["metadata"]["name"] for pod in items)

    def __enter__(self) -> Self:
        for name in self._ports:
            self._plane.apply({
                "apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "namespace": NAMESPACE},
                "spec": {"containers": [{"name": "headroom", "image": "headroom"}]},
            })  # fmt: skip
        self._thread.start()
        host, _, port = self.address.partition(":")
        opening = asyncio.start_server(self._forward, host, int(port))
        self._server = asyncio.run_coroutine_threadsafe(opening, self._loop).result(10)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        asyncio.run_coroutine_threadsafe(self._end(), self._loop).result(10)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()
        for name in self._ports:
            self._plane.kubectl("-n", NAMESPACE, "delete", "pod", name, "--force", "--grace-period=0", check=False)

    async def _end(self) -> None:
        # A server that is closed drops what it has just accepted, unclosed: it hears of no more before it is closed.
        self._ended = True
        for listener in self._server.sockets:
            self._loop.remove_reader(listener)
        # Python before 3.12 reports a connection whose task is cancelled as an error: each ends by losing its peers.
        for transport in self._connections:
            transport.abort()
        async with asyncio.timeout(9):
            while forwarding := asyncio.all_tasks() - {asyncio.current_task()}:
                await asyncio.wait(forwarding)
        self._server.close()
        await asyncio.sleep(0)  # a transport that is aborted closes its socket in the loop's next turn

    async def _forward(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with self._ending(writer), suppress(OSError):
            for name in await asyncio.to_thread(self.selected):
                there = await asyncio.open_connection("127.0.0.1", self._ports[name])
                with self._ending(there[1]):
                    async with asyncio.TaskGroup() as group:
                        group.create_task(_pass(reader, there[1]))
                        group.create_task(_pass(there[0], writer))
                return

    @contextmanager
    def _ending(self, writer: asyncio.StreamWriter) -> Iterator[None]:
        """Close a connection after the block, however that ends, and abort it when the Service itself ends."""
        self._connections.add(writer.transport)
        if self._ended:
            writer.transport.abort()
        try:
            yield
        finally:
            writer.close()


async def _pass(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    try:
        while piece := await reader.read(65536):
            writer.write(piece)
            await writer.drain()
    except OSError:
        return
    finally:
        writer.close()
