"""Listing and decoding 5,000 pods: what a start and a relist cost, in a process of its own beside its server.

The pods are some 6 KB each, two thirds of it fields that nobody reads, as a cluster's are.
"""

import argparse
import asyncio
import json
import time

import numpy as np

from autoscaler.adapters.kube.informer import Change, Informer, Resource
from autoscaler.adapters.kube.objects import Pod
from autoscaler.adapters.kube.wire import Wire
from autoscaler.runtime.clock import WallClock
from loadtests.bench.machine import command, machine, peak_rss_mib
from tests.kube.clients import client
from tests.kube.fakeserver import PODS, Connection, FakeServer, Request, hang
from tests.kube.test_informer_cost import PAGE, PODS_COUNT, body


def main(arguments: list[str]) -> int:
    """Measure and print one JSON object."""
    parser = argparse.ArgumentParser(prog="bench following", description=__doc__)
    parser.add_argument("--repeats", type=int, default=7)
    chosen = parser.parse_args(arguments)
    pods = [body(number) for number in range(PODS_COUNT)]
    pages = [_page(pods, n) for n in range(PODS_COUNT // PAGE)]
    decoded = [_decoded_s(pages) for _ in range(chosen.repeats)]
    listed = [asyncio.run(_listed_s(pages)) for _ in range(chosen.repeats)]
    figures = {
        "pods": PODS_COUNT,
        "megabytes": round(sum(map(len, pages)) / 1e6, 1),
        "decode_s": _spread([wall for wall, _ in decoded]),
        "decode_cpu_s": _spread([cpu for _, cpu in decoded]),
        "list_and_decode_s": _spread([wall for wall, _ in listed]),
        "longest_turn_s": _spread([turn for _, turn in listed]),
        "peak_rss_mib": peak_rss_mib(),
    }
    print(
        json.dumps(
            {"bench": "following", "command": command("following", arguments), "machine": machine(), **figures},
            indent=1,
        )
    )
    return 0


def _page(pods: list[bytes], number: int) -> bytes:
    more = b',"continue":"%d"' % (number + 1) if number + 1 < PODS_COUNT // PAGE else b""
    return b'{"metadata":{"resourceVersion":"7"%s},"items":[%s]}' % (more, b",".join(pods[number * PAGE :][:PAGE]))


def _decoded_s(pages: list[bytes]) -> tuple[float, float]:
    wire = Wire(Resource(PODS, Pod))
    began_s, cpu_s = time.perf_counter(), time.process_time()
    kept = [wire.page(page) for page in pages]
    spent = time.perf_counter() - began_s, time.process_time() - cpu_s
    assert sum(len(page.objects) for page in kept) == PODS_COUNT
    return spent


async def _listed_s(pages: list[bytes]) -> tuple[float, float]:
    """Seconds until all are followed, and the longest turn of the event loop on the way; the server shares the loop."""

    async def serve(request: Request, connection: Connection) -> None:
        if request.watches:
            await hang(request, connection)
        await connection.answer(200, pages[int(request.query.get("continue", "0"))])

    changes: list[Change[Pod]] = []
    longest_s = 0.0
    async with FakeServer() as server, client(server.url) as api, asyncio.TaskGroup() as group:
        server.always = serve
        pods = Informer(api, Resource(PODS, Pod), WallClock(), changes.append)
        began_s = turned_s = time.perf_counter()
        task = group.create_task(pods.run())
        while not pods.synced:
            await asyncio.sleep(0)
            longest_s, turned_s = max(longest_s, time.perf_counter() - turned_s), time.perf_counter()
        spent_s = time.perf_counter() - began_s
        task.cancel()
    assert len(changes) == PODS_COUNT
    return spent_s, longest_s


def _spread(values: list[float]) -> dict[str, float]:
    return {name: round(float(np.quantile(values, q)), 4) for name, q in (("min", 0.0), ("p50", 0.5), ("max", 1.0))}
