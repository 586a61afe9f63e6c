"""One process of servers: `python -m loadtests.engines.worker`, told by one line of JSON on its standard input.

Prints a line once every server's admin port answers, then lives until its standard input ends or it is told to stop. It
is started by `loadtests engines`, and by whoever needs servers in a process of their own.
"""

import asyncio
import os
import resource
import signal
import sys
from pathlib import Path

import msgspec

from autoscaler.app.garbage import rarely
from autoscaler.errors import InputError
from autoscaler.runtime.clock import WallClock
from loadtests.engines.engine import Engine
from loadtests.engines.profile import STEP_TOKENS, read_speed
from loadtests.engines.server import ListenError, Server
from loadtests.groups import first_of


class Order(msgspec.Struct, frozen=True):
    """What a process of servers is to be."""

    addresses: tuple[str, ...]
    port: int
    profile: str
    model: str
    pages: str = "vllm"
    engine: str | None = None
    slots: int | None = None
    kv_tokens: int | None = None
    step_tokens: int = STEP_TOKENS
    stages: tuple[tuple[str, float], ...] = ()


async def serve(order: Order) -> None:
    """Run the servers until told to stop."""
    speed = read_speed(
        Path(order.profile), only=order.engine, slots=order.slots, kv_tokens=order.kv_tokens,
        step_tokens=order.step_tokens,
    )  # fmt: skip
    loop, clock, stopped = asyncio.get_running_loop(), WallClock(), asyncio.Event()
    loop.add_signal_handler(signal.SIGTERM, stopped.set)
    loop.add_reader(0, lambda: None if os.read(0, 1) else stopped.set())
    async with asyncio.TaskGroup() as group:
        tasks, listening = [], []
        for address in order.addresses:
            server = Server(address, order.port, Engine(speed, clock), order.model, order.pages, order.stages)
            listening.append(asyncio.Event())
            tasks.append(group.create_task(server.run(listening[-1]), name=address))
        for event in listening:
            await event.wait()
        print("up", flush=True)
        async with rarely(clock):  # else steps would be late by a look at all objects of all streams
            await stopped.wait()
        loop.remove_reader(0)
        for task in tasks:
            task.cancel()


def main() -> int:
    """Read the order and serve; 2 where it cannot be followed."""
    order = msgspec.json.decode(sys.stdin.buffer.readline(), type=Order)
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    try:
        asyncio.run(serve(order))
    except InputError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    except BaseExceptionGroup as group:
        taken = first_of(group)
        if not isinstance(taken, ListenError):
            raise
        print(f"error: {taken}; choose another --port or --first address", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
