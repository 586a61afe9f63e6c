"""What KEDA's calls cost: calls a second beside a bare echo, latency at KEDA's own pace, memory of streams and objects.

Server and caller are processes of their own on loopback, and the caller is Python too: latencies are the caller's,
without its collector. The echo does no more than gRPC and asyncio do by themselves; rounds of both alternate, and
latencies of both are taken in the same seconds, so that a busy machine harms both.
"""

import argparse
import asyncio
import gc
import json
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from statistics import median
from typing import Any

import grpc
import numpy as np

from autoscaler.adapters.keda.externalscaler_pb2_grpc import ExternalScalerStub
from autoscaler.adapters.keda.server import SERVICE
from autoscaler.runtime.clock import WallClock
from loadtests.bench.keda_server import TICK_S, query, ref
from loadtests.bench.machine import command, machine

IN_FLIGHT = 16
TARGET_RATIO = 0.6
TARGET_P99_MS = 10.0
TARGET_OBJECTS_MIB = 250.0


@dataclass(frozen=True, slots=True)
class Server:
    """A server in a process of its own."""

    child: "subprocess.Popen[str]"
    told: dict[str, Any]
    """What it said of itself when it was ready."""

    @property
    def address(self) -> str:
        """Where it listens."""
        return f"127.0.0.1:{self.told['port']}"

    def figures(self) -> dict[str, Any]:
        """What it says of itself now."""
        assert self.child.stdin is not None
        assert self.child.stdout is not None
        self.child.stdin.write("\n")
        self.child.stdin.flush()
        found: dict[str, Any] = json.loads(self.child.stdout.readline())
        return found


@contextmanager
def serving(*arguments: str | int) -> Iterator[Server]:
    """A server of `keda_server` for the length of the block."""
    line = [sys.executable, "-m", "loadtests.bench.keda_server", *map(str, arguments)]
    child = subprocess.Popen(line, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert child.stdin is not None
    assert child.stdout is not None
    try:
        yield Server(child, json.loads(child.stdout.readline()))
    finally:
        child.stdin.close()
        child.wait(30)


@dataclass(frozen=True, slots=True)
class Pace:
    """What a server took of calls that came as fast as it could answer them."""

    calls_per_s: float
    cpu_ms: float
    """The server's own processor time for one call, which others on the machine lengthen less than they do the wait."""


async def throughput(server: Server, objects: int, seconds: float) -> Pace:
    """Ask for values, with so many calls always on their way over one connection."""
    async with grpc.aio.insecure_channel(server.address) as channel:
        # Bytes in and out for both: what the caller does with them is not the server's cost.
        call: grpc.aio.UnaryUnaryMultiCallable[bytes, bytes] = channel.unary_unary(f"/{SERVICE}/GetMetrics")
        asked = [query(number % objects).SerializeToString() for number in range(256)]
        for body in asked[:IN_FLIGHT]:
            await call(body)
        done, end_s = 0, time.perf_counter() + seconds

        async def ask(first: int) -> None:
            nonlocal done
            turn = first
            while time.perf_counter() < end_s:
                await call(asked[turn % len(asked)])
                turn, done = turn + IN_FLIGHT, done + 1

        begin_s, busy_s = time.perf_counter(), server.figures()["cpu_s"]
        async with asyncio.TaskGroup() as group:
            for first in range(IN_FLIGHT):
                group.create_task(ask(first))
        took_s = time.perf_counter() - begin_s
        return Pace(done / took_s, 1e3 * (server.figures()["cpu_s"] - busy_s) / done)


async def remembered(server: Server, objects: int) -> float:
    """What all ScaledObjects take in MiB once each was answered for and previewed, with the server that answers."""
    clock = WallClock()
    async with grpc.aio.insecure_channel(server.address) as channel:
        client = ExternalScalerStub(channel)
        for number in range(objects):
            (answer,) = (await client.GetMetrics(query(number))).metricValues
            assert answer.metricValue > 0
        await clock.sleep_until(clock.monotonic() + 2 * TICK_S)  # previews settle with a step of the driver
    return round(float(server.figures()["rss_mib"]) - float(server.told["before_mib"]), 1)


async def paced(
    server: Server, bare: Server, objects: int, *, rate: float, seconds: float, streams: int
) -> dict[str, Any]:
    """Latency of the calls of polls at `rate` calls a second, with `streams` open, and of as many to the echo."""
    clock = WallClock()
    taken: list[float] = []
    echoed: list[float] = []
    address = server.address
    async with (
        grpc.aio.insecure_channel(address) as channel,
        grpc.aio.insecure_channel(address) as pushed,
        grpc.aio.insecure_channel(bare.address) as echoing,
    ):
        client, pusher = ExternalScalerStub(channel), ExternalScalerStub(pushed)
        same: grpc.aio.UnaryUnaryMultiCallable[bytes, bytes] = echoing.unary_unary(f"/{SERVICE}/GetMetrics")
        before = server.figures()
        opened = [pusher.StreamIsActive(ref(number % objects)) for number in range(streams)]
        for stream in opened:
            await stream.read()
        after = server.figures()
        turn = 0

        async def timed(call: Callable[[Any], Any], request: Any, due_s: float, into: list[float]) -> None:
            await call(request)
            into.append(1e3 * (clock.monotonic() - due_s))

        gc.collect()
        gc.disable()
        begin_s = clock.monotonic()
        async with asyncio.TaskGroup() as group:
            while (due_s := begin_s + turn / rate) < begin_s + seconds:
                await clock.sleep_until(due_s)
                number, kind = (turn // 3) % objects, turn % 3
                calls = ((client.GetMetricSpec, ref), (client.GetMetrics, query), (client.IsActive, ref))
                call, request = calls[kind]
                group.create_task(timed(call, request(number), due_s, taken))
                group.create_task(timed(same, query(number).SerializeToString(), due_s, echoed))
                turn += 1
        gc.enable()
        ended = server.figures()
        for stream in opened:
            stream.cancel()
    return {
        "offered_calls_per_s": rate, "calls": len(taken), **ranked(taken), "echo": ranked(echoed),
        "streams": after["streams"], "streams_mib": round(after["rss_mib"] - before["rss_mib"], 1),
        "rss_mib": [after["rss_mib"], ended["rss_mib"]],
    }  # fmt: skip


def ranked(taken_ms: Sequence[float]) -> dict[str, float]:
    """Median, 99th percentile and largest of latencies in milliseconds."""
    p50, p99 = np.quantile(taken_ms, [0.5, 0.99])
    return {"p50_ms": round(float(p50), 2), "p99_ms": round(float(p99), 2), "max_ms": round(max(taken_ms), 2)}


def main(arguments: list[str]) -> int:
    """Print the figures as JSON; the exit code is 0 whatever they are."""
    parser = argparse.ArgumentParser(prog="bench keda", description=__doc__)
    parser.add_argument("--objects", type=int, default=10_000, help="ScaledObjects that are known")
    parser.add_argument("--stepping", type=int, default=1_000, help="workloads that are stepped every 5 s meanwhile")
    parser.add_argument("--streams", type=int, default=1_000)
    parser.add_argument("--rate", type=float, default=200.0, help="calls a second at which latency is taken")
    parser.add_argument(
        "--seconds", type=float, default=20.0, help="for the latency; a round of throughput takes a 20th"
    )
    parser.add_argument("--rounds", type=int, default=15, help="of either server; the middle one counts")
    given = parser.parse_args(arguments)
    echoes, answers = [], []
    with serving("echo") as bare, serving("ours", given.objects, 1) as quiet:
        objects_mib = asyncio.run(remembered(quiet, given.objects))
        for _ in range(given.rounds):
            echoes.append(asyncio.run(throughput(bare, given.objects, given.seconds / 20)))
            answers.append(asyncio.run(throughput(quiet, given.objects, given.seconds / 20)))
    with serving("echo") as bare, serving("ours", given.objects, given.stepping) as busy:
        latency = asyncio.run(
            paced(busy, bare, given.stepping, rate=given.rate, seconds=given.seconds, streams=given.streams)
        )
    report = {
        "bench": "keda",
        "command": command("keda", arguments),
        "machine": machine(),
        "grpcio": grpc.__version__,
        "throughput": {
            "in_flight": IN_FLIGHT,
            "echo_calls_per_s": [round(pace.calls_per_s) for pace in echoes],
            "calls_per_s": [round(pace.calls_per_s) for pace in answers],
            "ratio": round(median(p.calls_per_s for p in answers) / median(p.calls_per_s for p in echoes), 3),
            "echo_cpu_ms": round(median(pace.cpu_ms for pace in echoes), 3),
            "cpu_ms": round(median(pace.cpu_ms for pace in answers), 3),
            "cpu_ratio": round(median(p.cpu_ms for p in echoes) / median(p.cpu_ms for p in answers), 3),
            "target_ratio": TARGET_RATIO,
        },
        "latency": latency | {"stepping": given.stepping, "target_p99_ms": TARGET_P99_MS},
        "memory": {"objects": given.objects, "objects_mib": objects_mib, "target_mib": TARGET_OBJECTS_MIB},
    }
    print(json.dumps(report, indent=2))
    return 0
