"""The server in a thread of its own: a driver that steps a thousand workloads does not delay KEDA's calls, nor they it.

Enters: answers, and news for streams from whatever thread decides. Leaves: a server for the length of a block. Answers
are asked in this thread: they must be single reads of values that are replaced as a whole, never changed in place.
"""

import asyncio
import sys
import threading
from collections.abc import AsyncIterator
from concurrent.futures import Future
from contextlib import asynccontextmanager
from typing import Final

from autoscaler.adapters.keda.answers import Answers
from autoscaler.adapters.keda.counts import Counts
from autoscaler.adapters.keda.pushes import Bells
from autoscaler.adapters.keda.server import Listen, serving_keda
from autoscaler.errors import InputError
from autoscaler.ports import Clock

SWITCH_S: Final = 0.0005
"""How long one thread may compute while another waits for its turn of the interpreter. A call needs three turns; by
Python's default of 5 ms each a step of the driver would delay it by up to 15."""


class Beside:
    """One server, beside the thread that makes it. `serving` once; tell it at any time."""

    def __init__(self, clock: Clock, counts: Counts) -> None:
        self._clock = clock
        self._counts = counts
        self._bells = Bells()
        self._loop: asyncio.AbstractEventLoop | None = None
        """The server's own, while it runs."""

    def tell(self, namespace: str, name: str) -> None:
        """There may be something new to say about a ScaledObject."""
        loop = self._loop
        if loop is not None and self._bells.heard(namespace, name):
            loop.call_soon_threadsafe(self._bells.tell, namespace, name)

    def end_streams(self) -> None:
        """End every stream in good order: callers open them anew, and find the next leader."""
        if self._loop is not None:
            self._loop.call_soon_threadsafe(self._bells.close)

    @asynccontextmanager
    async def serving(self, listen: Listen, answers: Answers) -> AsyncIterator[int]:
        """Serve for the length of the block and yield the port. Raises InputError.

        A server that ends by itself ends the block with RuntimeError.
        """
        port: Future[int] = Future()
        ended: Future[None] = Future()
        thread = threading.Thread(target=self._run, args=(listen, answers, port, ended), name="keda", daemon=True)
        thread.start()
        found = await asyncio.wrap_future(port)
        switch_s = sys.getswitchinterval()
        sys.setswitchinterval(SWITCH_S)
        async with asyncio.TaskGroup() as group:
            watching = group.create_task(_watch(ended), name="keda-thread")
            try:
                yield found
            finally:
                sys.setswitchinterval(switch_s)
                watching.cancel()
                if self._loop is not None:
                    self._loop.call_soon_threadsafe(self._stop.set)
                await asyncio.to_thread(thread.join)

    def _run(self, listen: Listen, answers: Answers, port: "Future[int]", ended: "Future[None]") -> None:
        try:
            asyncio.run(self._serve(listen, answers, port))
        finally:
            if not port.done():  # else who waits for it would do so for ever
                port.set_exception(sys.exception() or RuntimeError("the thread that answers KEDA did not begin"))
            ended.set_result(None)

    async def _serve(self, listen: Listen, answers: Answers, port: "Future[int]") -> None:
        self._stop = asyncio.Event()
        try:
            async with serving_keda(listen, answers, self._bells, self._clock, self._counts) as found:
                self._loop = asyncio.get_running_loop()
                port.set_result(found)
                await self._stop.wait()
        except InputError as error:
            port.set_exception(error)
        finally:
            self._loop = None


async def _watch(ended: "Future[None]") -> None:
    await asyncio.shield(asyncio.wrap_future(ended))  # the thread sets it whether or not anybody waits
    raise RuntimeError("the thread that answers KEDA ended by itself")
