"""One process of load: `python -m loadtests.traffic.worker`, started and told by `crew`.

Enters, on standard input, as messages of four bytes of length and MessagePack: a `Part`, then the instant of the
start, then an `Aim` whenever the replicas to ask change. The end of standard input stops the load. Leaves, on standard
output: a `Tally` several times a second, each the whole of what is known, the last one marked as over. All processes of
a machine share one monotonic clock.
"""

import asyncio
import resource
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, nullcontext
from pathlib import Path

import aiohttp
import msgspec
import numpy as np

from autoscaler.app.garbage import rarely
from autoscaler.runtime.clock import WallClock
from loadtests.bench.machine import rss_mib
from loadtests.traffic.log import logging_to
from loadtests.traffic.schedule import Slice, unpacked
from loadtests.traffic.sender import Bounds, Sender, untold
from loadtests.traffic.stream import Asking, Endpoint
from loadtests.traffic.tally import Tally

EVERY_S = 0.25
LENGTH_BYTES = 4
SPARE_FILES = 64


class Part(msgspec.Struct, frozen=True):
    """What one worker does."""

    asking: Asking
    requests: Slice
    seed: tuple[int, ...]
    timeout_s: float
    most_open: int
    log: str | None = None
    """A file to which a line is written for each request that ended; see `log.py`."""


class Aim(msgspec.Struct, frozen=True):
    """The replicas to ask from now on."""

    bases: tuple[str, ...]


def framed(message: object) -> bytes:
    """A message as it stands in a pipe."""
    body = msgspec.msgpack.encode(message)
    return len(body).to_bytes(LENGTH_BYTES, "big") + body


async def read_frame(reader: asyncio.StreamReader) -> bytes | None:
    """The next message's bytes; None at the end."""
    try:
        length = int.from_bytes(await reader.readexactly(LENGTH_BYTES), "big")
        return await reader.readexactly(length)
    except asyncio.IncompleteReadError:
        return None


@asynccontextmanager
async def _session(headers: dict[str, str], most_open: int) -> AsyncIterator[aiohttp.ClientSession]:
    connector = aiohttp.TCPConnector(limit=most_open, limit_per_host=0)
    timeout = aiohttp.ClientTimeout(total=None)
    fixed = {"Content-Type": "application/json", "Accept": "text/event-stream", **headers}
    async with aiohttp.ClientSession(connector=connector, timeout=timeout, headers=fixed, trust_env=False) as session:
        yield session


def _processor_s() -> float:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


async def work(reader: asyncio.StreamReader) -> None:
    """Follow the messages of standard input to the end."""
    body = await read_frame(reader)
    if body is None:
        return
    part = msgspec.msgpack.decode(body, type=Part)
    clock, tally = WallClock(), Tally()
    logged = nullcontext(untold) if part.log is None else logging_to(Path(part.log))
    with logged as told:
        async with _session(part.asking.headers, part.most_open) as session:
            endpoint = Endpoint(part.asking, session, np.random.default_rng(part.seed))
            sender = Sender(endpoint.send, clock, Bounds(part.timeout_s, part.most_open), tally, told)
            schedule = unpacked(part.requests)
            _write(tally)  # ready
            body = await read_frame(reader)
            if body is None:
                return
            start_s = msgspec.msgpack.decode(body, type=float)
            watch = _Watch(tally, endpoint, clock, start_s)
            # A look at all objects of thousands of streams takes 100 ms, in which nothing would be sent.
            async with rarely(clock), asyncio.TaskGroup() as group:
                heard = group.create_task(_heed(reader, endpoint, sender))
                telling = group.create_task(watch.tell())
                await sender.run(schedule, start_s)
                heard.cancel()
                telling.cancel()
            watch.look()
            tally.over = True
            _write(tally)


async def _heed(reader: asyncio.StreamReader, endpoint: Endpoint, sender: Sender) -> None:
    while (body := await read_frame(reader)) is not None:
        endpoint.aim(msgspec.msgpack.decode(body, type=Aim).bases)
    sender.stop()


class _Watch:
    """Notes in the tally what only the process as a whole knows, and sends it off."""

    def __init__(self, tally: Tally, endpoint: Endpoint, clock: WallClock, start_s: float) -> None:
        self._tally = tally
        self._endpoint = endpoint
        self._clock = clock
        self._start_s = start_s
        self._last_s = _processor_s()

    async def tell(self) -> None:
        at_s = self._start_s
        while True:
            at_s += EVERY_S
            await self._clock.sleep_until(at_s)
            self.look()
            _write(self._tally)

    def look(self) -> None:
        tally, now_s = self._tally, _processor_s()
        second = tally.second(max(0.0, self._clock.monotonic() - EVERY_S / 2 - self._start_s))
        second.events += self._endpoint.events - tally.events
        second.cpu_s += now_s - self._last_s
        tally.cpu_s += now_s - self._last_s
        tally.events = self._endpoint.events
        tally.rss_mib = rss_mib()
        self._last_s = now_s


def _write(tally: Tally) -> None:
    sys.stdout.buffer.write(framed(tally))
    sys.stdout.buffer.flush()


async def _main() -> None:
    reader = asyncio.StreamReader(limit=2**30)
    await asyncio.get_running_loop().connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
    await work(reader)


if __name__ == "__main__":
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    asyncio.run(_main())
