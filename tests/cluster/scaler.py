"""The external scaler's server in a thread of its own, over answers that a test sets: what KEDA makes of each."""

import asyncio
import threading
from collections.abc import Callable
from contextlib import ExitStack
from types import TracebackType
from typing import Any, Self

from autoscaler.adapters.keda.answers import Refused, Served
from tests.cluster.processes import free_port
from tests.keda.book import Book, serving


class Scaler:
    """A server that can be stopped and started again on its port; a context manager that serves."""

    def __init__(self, book: Book | None = None, **options: Any) -> None:
        self.port = free_port()
        self.address = f"127.0.0.1:{self.port}"
        self.book = Book() if book is None else book
        self._options = options
        self.loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self.loop.run_forever, name="scaler")
        self._serving = ExitStack()

    def say(self, namespace: str, name: str, answer: Served | Refused | int, standing: int | None = None) -> None:
        """Answer for a ScaledObject from now on; a number is a count that stands already unless `standing` says."""
        made = answer
        if isinstance(answer, int):
            made = Served(answer, answer if standing is None else standing)

        def put() -> None:
            assert not isinstance(made, int)
            self.book.answers[namespace, name] = made
            self.book.bells.tell(namespace, name)

        self._do(put)

    def start(self) -> None:
        """Serve."""
        book = self.book

        async def enter() -> Callable[[], Any]:
            book.bells.closed = False
            context = serving(book, port=self.port, **self._options)
            await context.__aenter__()
            return lambda: context.__aexit__(None, None, None)

        leave = asyncio.run_coroutine_threadsafe(enter(), self.loop).result(30)
        self._serving.callback(lambda: asyncio.run_coroutine_threadsafe(leave(), self.loop).result(30))

    def stop(self) -> None:
        """Serve no more."""
        self._serving.close()

    def _do(self, work: Callable[[], None]) -> None:
        self.loop.call_soon_threadsafe(work)

    def __enter__(self) -> Self:
        self._thread.start()
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()
        asyncio.run_coroutine_threadsafe(_end(), self.loop).result(30)
        self.loop.call_soon_threadsafe(self.loop.stop)
        self._thread.join()
        self.loop.close()


async def _end() -> None:
    """Return once what a test began on the loop has ended and closed its connections."""
    async with asyncio.timeout(20):
        while begun := asyncio.all_tasks() - {asyncio.current_task()}:
            await asyncio.wait(begun)
    await asyncio.sleep(0.25)  # what aiohttp's documentation gives TLS to say good-bye after a session is closed
