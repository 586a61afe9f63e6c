"""Fits in a child process, one interpreter kept for all fits, so that a fit never takes a turn of the event loop.

The child is single-threaded and niced, and gets ready (the import takes seconds) before the first fit is asked for. A
fit that is cancelled takes the child with it: half an answer is of no use to the next request.
"""

import asyncio
import contextlib
import sys

from autoscaler.core.forecast.models import FittedModel
from autoscaler.core.forecast.training import FitRequest
from autoscaler.ports import Fault, PortError
from autoscaler.runtime import fit_wire

COMMAND = (sys.executable, "-m", "autoscaler.runtime.fit_child")


class ProcessFitter:
    """An asynchronous context manager around the child; `fit` is for one caller at a time."""

    def __init__(self, command: tuple[str, ...] = COMMAND) -> None:
        self._command = command
        self._child: asyncio.subprocess.Process | None = None

    async def __aenter__(self) -> "ProcessFitter":
        with contextlib.suppress(PortError):  # the first fit tries again and says why
            await self._start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._end()

    async def fit(self, request: FitRequest) -> FittedModel:
        """The fitted model. PortError: INVALID where the data cannot be fitted, UNAVAILABLE where the child died."""
        child = self._child if self._child is not None and self._child.returncode is None else await self._start()
        assert child.stdin is not None
        assert child.stdout is not None
        answered = False
        try:
            child.stdin.write(fit_wire.framed(fit_wire.pack_request(request)))
            await child.stdin.drain()
            head = await child.stdout.readexactly(fit_wire.LENGTH_BYTES)
            body = await child.stdout.readexactly(int.from_bytes(head, "little"))
            answered = True
        except (asyncio.IncompleteReadError, ConnectionError) as error:
            raise PortError(Fault.UNAVAILABLE, "the fitting child ended before it answered") from error
        finally:
            if not answered:
                await self._end()
        answer = fit_wire.unpack_answer(body)
        if isinstance(answer, str):
            raise PortError(Fault.INVALID, answer)
        return answer

    async def _start(self) -> asyncio.subprocess.Process:
        try:
            self._child = await asyncio.create_subprocess_exec(
                *self._command, stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE, start_new_session=True
            )
        except OSError as error:
            raise PortError(Fault.UNAVAILABLE, f"the fitting child cannot be started: {error}") from error
        return self._child

    async def _end(self) -> None:
        """Kill the child; nothing it holds is worth keeping."""
        child, self._child = self._child, None
        if child is None:
            return
        with contextlib.suppress(ProcessLookupError):
            child.kill()
        await child.wait()
