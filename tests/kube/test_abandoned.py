"""What a request that was given up leaves behind: nothing that the kernel could deliver later, under a newer leader."""

import asyncio
import contextlib
import socket

import pytest

from autoscaler.adapters.kube.answers import KubeError
from tests.kube.clients import client

BODY_BYTES = 1_000_000


def received(connection: socket.socket) -> int:
    """Bytes that still come until the connection ends."""
    count = 0
    connection.settimeout(5.0)
    with contextlib.suppress(ConnectionResetError):
        while chunk := connection.recv(65536):
            count += len(chunk)
    return count


async def test_bytes_that_wait_in_the_kernel_are_not_sent_after_the_request_was_given_up() -> None:
    loop = asyncio.get_running_loop()
    with socket.socket() as server:
        server.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 8192)
        server.bind(("127.0.0.1", 0))
        server.listen()
        server.setblocking(False)
        async with client(f"http://127.0.0.1:{server.getsockname()[1]}") as api:
            with pytest.raises(KubeError, match=r"no answer within 0\.3 s"):
                await api.request("PUT", "/api/v1/x", body=b"x" * BODY_BYTES, timeout_s=0.3)
            connection, _ = await loop.sock_accept(server)
            await asyncio.sleep(0.1)
            with connection:
                connection.setblocking(True)
                assert await asyncio.to_thread(received, connection) < BODY_BYTES / 10
