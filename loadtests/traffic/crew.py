"""The worker processes of a run: started, told when to begin, listened to, and ended.

Enters: the parts of the load. Leaves: the tallies of all workers, merged, as often as they tell. A worker that dies
leaves its last tally; a run that is stopped leaves what was known.
"""

import asyncio
import sys
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import msgspec

from loadtests.traffic.tally import Tally, merged
from loadtests.traffic.worker import Aim, Part, framed, read_frame

LEAD_S = 0.2
"""From the word to start to the first instant."""

END_S = 10.0
"""A worker that is told to stop has so long to tell its last tally."""


class Crew:
    """Running workers. Made by `hired`."""

    def __init__(self, processes: Sequence[asyncio.subprocess.Process]) -> None:
        self._processes = processes
        self._tallies = [Tally() for _ in processes]
        self.died = 0
        """Workers that ended before their load did."""
        self.start_s = 0.0
        self._given_up: asyncio.TimerHandle | None = None

    @property
    def tally(self) -> Tally:
        """What all of them know so far."""
        return merged(self._tallies)

    @property
    def each_cpu_s(self) -> list[float]:
        """Processor time of each."""
        return [tally.cpu_s for tally in self._tallies]

    async def ready(self) -> None:
        """Return when all can begin."""
        for number in range(len(self._processes)):
            await self._take(number)

    async def run(self) -> None:
        """Start all at one instant, and return when each has told its last tally or is gone."""
        self.start_s = asyncio.get_running_loop().time() + LEAD_S
        for process in self._processes:
            _pipe(process).write(framed(self.start_s))
        try:
            async with asyncio.TaskGroup() as group:
                for number in range(len(self._processes)):
                    group.create_task(self._listen(number))
        finally:
            if self._given_up is not None:
                self._given_up.cancel()

    def aim(self, bases: Sequence[str]) -> None:
        """Tell all which replicas to ask from now on; only while they run."""
        for process in self._processes:
            _pipe(process).write(framed(Aim(tuple(bases))))

    def stop(self) -> None:
        """Tell all to send nothing more; `run` returns soon after, `END_S` later at most: one that hangs is killed."""
        for process in self._processes:
            _pipe(process).close()
        if self._given_up is None:
            self._given_up = asyncio.get_running_loop().call_later(END_S, self._give_up)

    def _give_up(self) -> None:
        for process, tally in zip(self._processes, self._tallies, strict=True):
            if process.returncode is None and not tally.over:
                process.kill()

    async def _listen(self, number: int) -> None:
        while await self._take(number):
            if self._tallies[number].over:
                return
        self.died += 1

    async def _take(self, number: int) -> bool:
        out = self._processes[number].stdout
        assert out is not None
        body = await read_frame(out)
        if body is not None:
            self._tallies[number] = msgspec.msgpack.decode(body, type=Tally)
        return body is not None


def _pipe(process: asyncio.subprocess.Process) -> asyncio.StreamWriter:
    assert process.stdin is not None
    return process.stdin


@asynccontextmanager
async def hired(parts: Sequence[Part]) -> AsyncIterator[Crew]:
    """A worker for each part, ready to begin; all are gone on leaving."""
    processes: list[asyncio.subprocess.Process] = []
    try:
        for part in parts:
            process = await asyncio.create_subprocess_exec(
                sys.executable, "-m", "loadtests.traffic.worker", stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE, cwd=Path(__file__).parents[2], limit=2**26, start_new_session=True,
            )  # fmt: skip
            processes.append(process)
            _pipe(process).write(framed(part))
        crew = Crew(processes)
        await crew.ready()
        yield crew
    finally:
        for process in processes:
            _pipe(process).close()
        for process in processes:
            try:
                async with asyncio.timeout(END_S):
                    await process.wait()
            except TimeoutError:
                process.kill()
                await process.wait()
