"""The Service in front of the controller, as far as a caller can tell: connections go to the pod that has the label.

It stands for kube-proxy, which there is none of here: pods of the tests' own carry the replicas' names, and each name
has the port on which its replica really listens.
"""

import asyncio
import threading
from collections.abc import Mapping
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
        self._open: set[asyncio.StreamWriter] = set()

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
        # Python before 3.12 reports a connection whose task is cancelled as an error: each ends by losing its peer.
        self._server.close()
        for writer in self._open:
            writer.transport.abort()
        forwarding = asyncio.all_tasks() - {asyncio.current_task()}
        if forwarding:
            await asyncio.wait(forwarding, timeout=8)

    async def _forward(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._open.add(writer)
        try:
            for name in await asyncio.to_thread(self.selected):
                there = await asyncio.open_connection("127.0.0.1", self._ports[name])
                async with asyncio.TaskGroup() as group:
                    group.create_task(_pass(reader, there[1]))
                    group.create_task(_pass(there[0], writer))
                return
        except OSError:
            return
        finally:
            self._open.discard(writer)
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
